"""The functions that rules can call: what they take, what they give, and what they compute.

`FUNCTIONS` holds the built-in ones by name, the operators among them (`+ - * / % ^`, `neg`, `list`). Their
implementations raise `ArithmeticError` or `ValueError` with a plain sentence; who evaluates the rule adds its
name. For aggregates see `datalog.aggregates`.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from datalog.arithmetic import NUMBER_RANGE, SIGNED, UNSIGNED, UNSIGNED_RANGE, absolute, fit, in_range
from datalog.errors import UsageProblem
from datalog.format import brief_value, format_value
from datalog.values import LONGEST_TEXT, check_list, check_nested, check_text, text_length, typed_value, value_of

__all__ = [
    "FUNCTIONS", "Function", "NUMBER_RANGE", "UNSIGNED_RANGE", "built_in", "giving", "in_range", "result_type",
    "type_of_annotation", "user_functions",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the language.

    `least` and `most` bound the number of arguments (`most` is None if there is no bound). `parameters` are
    the types of the arguments, the last one repeated as needed: `number` stands for any kind of number,
    `same` for one type that all such arguments share, `measure` for the same with lists or numbers only.
    `result` is a type, `numeric` (the kind of number that the arguments promote to) or `same`.
    """

    name: str
    call: Callable[..., Any]
    least: int
    most: int | None
    parameters: tuple[str, ...]
    result: str
    usage: str = ""

    def parameter(self, index: int) -> str:
        """The type of the argument at a position.

        >>> FUNCTIONS["substr"].parameter(0), FUNCTIONS["substr"].parameter(2)
        ('symbol', 'number')
        """
        return self.parameters[min(index, len(self.parameters) - 1)]

    def accepts(self, count: int) -> bool:
        """Whether the function can be given so many arguments."""
        return self.least <= count and (self.most is None or count <= self.most)

    def for_type(self, type_: str | None) -> Callable[..., Any]:
        """The implementation for a call of this static type: `unsigned` has a range of its own.

        >>> FUNCTIONS["-"].for_type("number")(1, 2)
        -1
        >>> FUNCTIONS["-"].for_type("unsigned")(1, 2)
        Traceback (most recent call last):
            ...
        OverflowError: overflow: 1 - 2 does not fit in an unsigned

        Where `min` and `max` meet integers and floats, the result is a float in either case:

        >>> FUNCTIONS["min"].for_type("float")(1, 2.5)
        1.0
        """
        if type_ == "unsigned":
            return UNSIGNED.get(self.name, self.call)
        if type_ == "float" and self.result == "same":
            return lambda *values: float(self.call(*values))
        return self.call


# --- everything else -----------------------------------------------------------------------------------------


def _extreme(pick: Callable[[Any], Any], name: str) -> Callable[..., Any]:
    def extreme(*values: Any) -> Any:
        try:
            return pick(values)
        except TypeError:
            raise ValueError(f"{name} cannot compare {', '.join(map(brief_value, values))}") from None

    return extreme


def _symbol(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} needs a symbol, not {brief_value(value)}")
    return value


def _cat(*parts: Any, longest: int | None = None) -> str:
    check_text("cat", sum([len(_symbol("cat", part)) for part in parts]), longest)
    return "".join(parts)


def _strlen(text: Any) -> int:
    return len(_symbol("strlen", text))


def _substr(text: Any, start: Any, length: Any) -> str:
    """The characters at `start`, `start + 1`, ... (counted from 0), `length` of them, as far as there are any."""
    _symbol("substr", text)
    if not isinstance(start, int) or not isinstance(length, int):
        raise ValueError(f"substr needs integers, not {brief_value(start)}, {brief_value(length)}")
    return str(text[max(start, 0) : max(start + length, 0)])


def _to_number(text: Any) -> int:
    try:
        value = int(_symbol("to_number", text).strip().replace("_", "?"))
    except ValueError:
        raise ValueError(f"to_number({brief_value(text)}): this is not a number") from None
    return int(fit(value, lambda: f"to_number({brief_value(text)})", *NUMBER_RANGE))


def _to_string(value: Any, longest: int | None = None) -> str:
    if isinstance(value, tuple):
        check_text("to_string", text_length(value, LONGEST_TEXT if longest is None else longest), longest)
    return value if isinstance(value, str) else format_value(value)


def _ord(text: Any) -> int:
    return ord(text[0]) if _symbol("ord", text) else 0


def _distance(a: Any, b: Any) -> float:
    """Euclidean, of two points given as lists; or of two numbers."""

    def both() -> str:
        return f"{brief_value(a)}, {brief_value(b)}"

    try:
        if isinstance(a, tuple) and isinstance(b, tuple):
            if len(a) != len(b):
                raise ValueError(f"distance of lists of different length: {both()}")
            value = math.sqrt(math.fsum((x - y) ** 2 for x, y in zip(a, b, strict=True)))
        else:
            value = float(abs(a - b))
    except TypeError:
        raise ValueError(f"distance needs two numbers or two lists of numbers, not {both()}") from None
    except OverflowError:
        value = math.inf
    return float(fit(value, lambda: f"distance({both()})", *NUMBER_RANGE))


def _concat(*lists: Any, longest: int | None = None) -> tuple[Any, ...]:
    for value in lists:
        if not isinstance(value, tuple):
            raise ValueError(f"concat needs lists, not {brief_value(value)}")
    check_list("concat", sum(map(len, lists)), longest)
    joined = tuple(itertools.chain.from_iterable(lists))
    if tuple in map(type, joined):
        check_nested("concat", joined, longest)
    return joined


def _list(*elements: Any, longest: int | None = None) -> tuple[Any, ...]:
    if tuple in map(type, elements):
        check_nested("[...]", elements, longest)
    return elements


def _table(*functions: Function) -> dict[str, Function]:
    return {function.name: function for function in functions}


FUNCTIONS: Mapping[str, Function] = _table(
    *(Function(symbol, call, 2, 2, ("number",), "numeric", f"a {symbol} b")
      for symbol, call in SIGNED.items() if symbol != "neg"),
    Function("neg", SIGNED["neg"], 1, 1, ("number",), "numeric", "-a"),
    Function("list", _list, 0, None, ("any",), "list", "[a, b]"),
    Function("min", _extreme(min, "min"), 2, None, ("same",), "same", "min(a, b)"),
    Function("max", _extreme(max, "max"), 2, None, ("same",), "same", "max(a, b)"),
    Function("abs", absolute, 1, 1, ("number",), "numeric", "abs(a)"),
    Function("cat", _cat, 1, None, ("symbol",), "symbol", "cat(s, t, ...)"),
    Function("strlen", _strlen, 1, 1, ("symbol",), "number", "strlen(s)"),
    Function("substr", _substr, 3, 3, ("symbol", "number"), "symbol", "substr(s, start, length)"),
    Function("to_number", _to_number, 1, 1, ("symbol",), "number", "to_number(s)"),
    Function("to_string", _to_string, 1, 1, ("number",), "symbol", "to_string(n)"),
    Function("ord", _ord, 1, 1, ("symbol",), "number", "ord(s)"),
    Function("distance", _distance, 2, 2, ("measure",), "float", "distance(a, b)"),
    Function("concat", _concat, 2, None, ("list",), "list", "concat(a, b)"),
)

_SIZED = ("list", "cat", "to_string", "concat")  # what makes texts and lists


@functools.lru_cache(maxsize=16)
def built_in(longest: int | None = None) -> Mapping[str, Function]:
    """The built-in functions, with another limit on the length of the texts and lists that they make.

    >>> built_in(3)["cat"].call("a", "b"), built_in() is FUNCTIONS
    ('ab', True)
    """
    if longest is None:
        return FUNCTIONS
    sized = {name: FUNCTIONS[name] for name in _SIZED}
    return {
        **FUNCTIONS,
        **{name: replace(f, call=functools.partial(f.call, longest=longest)) for name, f in sized.items()},
    }


# --- functions of the user -----------------------------------------------------------------------------------

_ANNOTATIONS: Mapping[Any, str] = {int: "number", float: "float", str: "symbol", tuple: "list", list: "list"}
_PYTHON = {"number": "int", "symbol": "str"}


def type_of_annotation(annotation: Any) -> str:
    """The type of the language that a Python annotation stands for; `any` for what is none.

    >>> type_of_annotation(int), type_of_annotation(list[str]), type_of_annotation(object)
    ('number', 'list', 'any')
    """
    origin = typing.get_origin(annotation) or annotation
    return _ANNOTATIONS.get(origin, "any") if isinstance(origin, (type, types.GenericAlias)) else "any"


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (TypeError, NameError, AttributeError):
        return {}


def result_type(function: Callable[..., Any]) -> str:
    """The type of what a Python function returns, by its annotation; `any` if it has none.

    An object that knows it (`livelog.aggregate`) says so itself.

    >>> def area(w: int, h: int) -> float: ...
    >>> result_type(area)
    'float'
    """
    told = getattr(function, "result_type", None)
    if isinstance(told, str):
        return told
    return type_of_annotation(_hints(function).get("return"))


def user_functions(functions: Mapping[str, Callable[..., Any]], longest: int | None = None) -> dict[str, Function]:
    """Functions that a user registered, by name, with types from their annotations.

    For `longest` see `built_in`.

    >>> def half(n: int) -> float:
    ...     return n / 2
    >>> f = user_functions({"half": half})["half"]
    >>> f.parameters, f.result, f.call(3)
    (('number',), 'float', 1.5)
    """
    return {name: _user_function(name, function, longest) for name, function in functions.items()}


def giving(name: str, function: Callable[..., Any], type_: str, longest: int | None = None) -> Callable[..., Any]:
    """A function of the user made to give values of the language, and of the type that it says it returns.

    >>> giving("f", lambda x: [x, x], "list")(1)
    (1, 1)
    >>> giving("f", str, "number")(1)
    Traceback (most recent call last):
    ValueError: f returned "1", a symbol, but it says that it returns int
    """
    if type_ == "any":
        return lambda *arguments: value_of(function(*arguments), name, longest=longest)
    wanted = f"it says that it returns {_PYTHON.get(type_, type_)}"
    kind = "integer" if type_ == "number" else type_  # whether it is too large for a number depends on the column

    def call(*arguments: Any) -> Any:
        return typed_value(value_of(function(*arguments), name, longest=longest), kind, name, wanted)

    return call


def _user_function(name: str, function: Callable[..., Any], longest: int | None) -> Function:
    if not callable(function):
        raise UsageProblem(f"the function `{name}` cannot be called: {function!r}")

    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C do not tell
        return Function(name, giving(name, function, "any", longest), 0, None, ("any",), "any", f"{name}(...)")
    hints = _hints(function)
    result = type_of_annotation(hints.get("return"))
    call = giving(name, function, result, longest)
    least, most = 0, 0
    parameters: list[str] = []
    for parameter in signature.parameters.values():
        kind = type_of_annotation(hints.get(parameter.name))
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            least, most = least + (parameter.default is parameter.empty), most + 1
            parameters.append("number" if kind == "float" else kind)
        elif parameter.kind == parameter.VAR_POSITIONAL:
            parameters.append("number" if kind == "float" else kind)
            return Function(name, call, least, None, tuple(parameters), result, f"{name}(...)")
    usage = f"{name}({', '.join(list(signature.parameters)[:most])})"
    return Function(name, call, least, most, tuple(parameters) or ("any",), result, usage)
