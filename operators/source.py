"""The text of generated functions: columns by position, and constants and functions passed in under names.

No text of a program enters it, and what is generated twice is compiled once. What differs in nothing but constants and
functions is generated once, too: it is the same code with other values (`Template`).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from msgspec.structs import replace

from operators.expr import Apply, Col, Const, Expr, columns

__all__ = [
    "HIGHEST", "LOWEST", "Source", "Template", "condition", "filing", "key_of", "key_text", "overflow", "pattern",
    "row_function", "slotted", "tuple_text",
]

LOWEST, HIGHEST = -(2**63), 2**63 - 1
DEEP = 16
"""Levels of an expression that are written out in one text: Python reads no text that is nested 200 levels deep."""

LEAST, MOST = -sys.float_info.max, sys.float_info.max


def overflow(value: Any) -> Any:
    """Called by generated code when a result is not between LOWEST and HIGHEST: a large float is fine."""
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, (int, float)):
        raise OverflowError(f"overflow: {value} is outside the range of a number")
    return value


class Source:
    """Lines of generated code and the values that they refer to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.values: dict[str, Any] = {"overflow": overflow, "LOWEST": LOWEST, "HIGHEST": HIGHEST}
        self.values.update(LEAST=LEAST, MOST=MOST, NAN=math.nan)
        self._kept = 0
        self._constants: dict[str, None] = {}
        self._names: dict[int, str] = {}

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self, value: Any, prefix: str) -> str:
        known = self._names.get(id(value))
        if known is None:
            known = self._names[id(value)] = f"{prefix}{len(self._names)}"
            self.values[known] = value
        return known

    def constant(self, value: Any) -> str:
        """A constant, as a parameter with a default: as fast as one that is written out, and the text is the same."""
        name = self.name(value, "k")
        self._constants[name] = None
        return name

    def expression(self, expr: Expr, column: Callable[[int], str], exact: bool = False) -> str:
        """Source text of an expression; `column` says how a column of the row is spelt.

        `exact` is for whole numbers that may be of any size on the way: nothing is checked.
        """
        heights: dict[int, int] = {}
        _height(expr, heights)
        return self._spelt(expr, column, exact, heights)

    def _spelt(self, expr: Expr, column: Callable[[int], str], exact: bool, heights: dict[int, int]) -> str:
        if isinstance(expr, Col):
            return column(expr.index)
        if isinstance(expr, Const):
            return self.constant(expr.value)
        arguments = [
            self._spelt(a, column, exact, heights)
            if heights[id(a)] % DEEP or not heights[id(a)]
            else self._apart(a, column, exact)
            for a in expr.arguments
        ]
        return self._applied(expr, arguments, exact)

    def _apart(self, expr: Expr, column: Callable[[int], str], exact: bool) -> str:
        """An expression as the call of a function of its own."""
        read = sorted(set(columns(expr)))
        inner = Source()
        names = {c: f"c{c}" for c in read}
        text = inner.expression(expr, names.__getitem__, exact)
        inner.line(0, f"def part({', '.join(names.values())}):")
        inner.line(1, f"return {text}")
        return f"{self.name(inner.compile('part'), 'f')}({', '.join(map(column, read))})"

    def _applied(self, expr: Apply, arguments: list[str], exact: bool) -> str:
        if expr.inline in ("+", "-", "*") and not exact:
            value = f"({arguments[0]} {expr.inline} {arguments[1]})"
            low, high = ("LEAST", "MOST") if _is_float(expr) else ("LOWEST", "HIGHEST")
            return f"(q if {low} <= (q := {value}) <= {high} else overflow(q))"
        if expr.inline == "/":  # of floats; the function says what is wrong with a zero, and with what is too large
            (a, first), (b, second) = map(self._twice, arguments, expr.arguments)
            careful = f"{self.name(expr.function, 'f')}({a}, {b})"
            return f"(q if LEAST <= (q := {first} / ({second} or NAN)) <= MOST else {careful})"
        if expr.inline == "sound":  # of a text, which is empty
            return f"(not {arguments[0]} or {self.name(expr.function, 'f')}({arguments[0]}))"
        if expr.inline is not None:
            return f"({arguments[0]} {expr.inline} {arguments[1]})"
        return f"{self.name(expr.function, 'f')}({', '.join(arguments)})"

    def _twice(self, text: str, expr: Expr) -> tuple[str, str]:
        """How to spell a value again that has been computed once, and how to spell it that once."""
        if not isinstance(expr, Apply):
            return text, text
        self._kept += 1
        name = f"kept_{self._kept}"
        return name, f"({name} := {text})"

    def compile(self, name: str) -> Any:
        scope = dict(self.values)
        text = "\n".join(self.lines) + "\n"
        if self._constants:
            head, rest = text.split("):", 1)
            text = f"{head}{''.join(f', {k}={k}' for k in self._constants)}):{rest}"
        exec(_code(text, f"<kernel {name}>"), scope)
        return scope[name]


class Slot:
    """Stands for a constant or a function that is told later: the one at `index`. `real`: it is a float."""

    __slots__ = ("index", "real")

    def __init__(self, index: int, real: bool = False) -> None:
        self.index = index
        self.real = real

    def __call__(self, *arguments: Any) -> Any:
        raise AssertionError("a template is filled before it is called")


class Template:
    """A generated function whose constants and functions are told later.

    >>> source = Source()
    >>> source.line(0, "def add(x):")
    >>> source.line(1, f"return x + {source.constant(Slot(0))}")
    >>> template = Template(source, "add")
    >>> template.filled([1])(2), template.filled([5])(2)
    (3, 7)
    """

    __slots__ = ("_code", "_defaults", "_functions", "_scope")

    def __init__(self, source: Source, name: str) -> None:
        made = source.compile(name)
        self._code: CodeType = made.__code__
        self._defaults = [slot.index for slot in made.__defaults__ or ()]
        self._scope: dict[str, Any] = made.__globals__
        told = {name: value.index for name, value in self._scope.items() if isinstance(value, Slot)}
        self._functions = {name: index for name, index in told.items() if name.startswith("f")}

    def filled(self, values: Sequence[Any]) -> Callable[..., Any]:
        """The function with these values."""
        scope = self._scope
        if self._functions:
            scope = {**scope, **{name: values[index] for name, index in self._functions.items()}}
        return FunctionType(self._code, scope, self._code.co_name, tuple([values[i] for i in self._defaults]))


def pattern(exprs: Iterable[Expr], values: list[Any]) -> tuple[Any, ...] | None:
    """What expressions have in common with those that differ from them in constants and functions alone.

    These are added to `values`, in order. None for an expression that is too deep to be written out in one text.

    >>> values = []
    >>> pattern([Col(0), Apply("<", int.__lt__, (Col(1), Const(5)), "<")], values), values[1]
    ((0, ('<', '<', False, (1, 'constant'))), 5)
    """
    return _pattern(exprs, values, DEEP)


def _pattern(exprs: Iterable[Expr], values: list[Any], depth: int) -> tuple[Any, ...] | None:
    found: list[Any] = []
    for expr in exprs:
        if isinstance(expr, Col):
            found.append(expr.index)
        elif isinstance(expr, Const):
            values.append(expr.value)
            found.append("real" if isinstance(expr.value, float) else "constant")
        else:
            values.append(expr.function)
            below = _pattern(expr.arguments, values, depth - 1) if depth else None
            if below is None:
                return None
            found.append((expr.name, expr.inline, expr.sure, below))
    return tuple(found)


def slotted(exprs: Sequence[Expr], first: int = 0) -> tuple[tuple[Expr, ...], int]:
    """The same expressions with slots for what `pattern` adds to its values, and the number of the next slot."""
    found: list[Expr] = []
    for expr in exprs:
        if isinstance(expr, Const):
            found.append(Const(Slot(first, isinstance(expr.value, float))))
            first += 1
        elif isinstance(expr, Apply):
            function = Slot(first)
            arguments, first = slotted(expr.arguments, first + 1)
            found.append(replace(expr, function=function, arguments=arguments))
        else:
            found.append(expr)
    return tuple(found), first


def _height(expr: Expr, heights: dict[int, int]) -> int:
    """How many levels an expression has; `heights` gets that of each of its parts, by id."""
    levels = [_height(a, heights) for a in expr.arguments] if isinstance(expr, Apply) else None
    heights[id(expr)] = found = 0 if levels is None else 1 + max(levels, default=0)
    return found


def _is_float(expr: Expr) -> bool:
    """Whether what an expression computes is a float for certain: those are compared with floats, which is faster."""
    if isinstance(expr, Const):
        return isinstance(expr.value, float) or (isinstance(expr.value, Slot) and expr.value.real)
    if isinstance(expr, Apply) and expr.inline in ("+", "-", "*"):
        return any(map(_is_float, expr.arguments))
    return isinstance(expr, Apply) and (expr.inline == "/" or expr.name == "float")


@lru_cache(maxsize=4096)
def _code(source: str, name: str) -> CodeType:
    """Every partition has the same kernels, and so has every evaluation from scratch: compile them once."""
    return compile(source, name, "exec")


def tuple_text(parts: Sequence[str]) -> str:
    return "(" + ", ".join(parts) + ("," if len(parts) == 1 else "") + ")"


def key_text(parts: Sequence[str]) -> str:
    return "None" if not parts else parts[0] if len(parts) == 1 else tuple_text(parts)


def key_of(columns: Sequence[int]) -> Callable[[tuple[Any, ...]], Any]:
    """How indexes spell the key of a tuple: the bare value for one column, a tuple for several, None for none.

    >>> key_of((1,))(("a", "b")), key_of((1, 0))(("a", "b")), key_of(())(("a", "b"))
    ('b', ('b', 'a'), None)
    """
    return _key_of(tuple(columns))


@lru_cache(maxsize=256)
def _key_of(columns: tuple[int, ...]) -> Callable[[tuple[Any, ...]], Any]:
    source = Source()
    source.line(0, "def key(t):")
    source.line(1, f"return {key_text([f't[{c}]' for c in columns])}")
    return source.compile("key")  # type: ignore[no-any-return]


def filing(columns: Sequence[int], rest: Sequence[int] | None) -> Callable[[Iterable[tuple[Any, ...]], Any], None]:
    """How tuples are sorted into groups by the key of some columns, written out.

    A group is the set of the keys of the columns in `rest`; without `rest`, a dict that has the tuples in order.

    >>> groups, buckets = {}, {}
    >>> filing((1,), (0,))([("a", "b")], groups); filing((1,), None)([("a", "b")], buckets); groups, buckets
    ({'b': {'a'}}, {'b': {('a', 'b'): None}})
    """
    return _filing(tuple(columns), None if rest is None else tuple(rest))


@lru_cache(maxsize=256)
def _filing(
    columns: tuple[int, ...], rest: tuple[int, ...] | None
) -> Callable[[Iterable[tuple[Any, ...]], Any], None]:
    key = key_text([f"t[{c}]" for c in columns])
    entry = None if rest is None else key_text([f"t[{c}]" for c in rest])
    source = Source()
    source.line(0, "def file(tuples, groups):")
    source.line(1, "find = groups.get")
    source.line(1, "for t in tuples:")
    source.line(2, f"k = {key}")
    source.line(2, "group = find(k)")
    source.line(2, f"if group is None: groups[k] = {'{t: None}' if entry is None else '{' + entry + '}'}")
    source.line(2, f"else: {'group[t] = None' if entry is None else f'group.add({entry})'}")
    return source.compile("file")  # type: ignore[no-any-return]


def row_function(expr: Sequence[Expr]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """A function from a row (one tuple) to the tuple of the values of some expressions."""
    source = Source()
    source.line(0, "def compute(t):")
    source.line(1, "return " + tuple_text([source.expression(e, lambda i: f"t[{i}]") for e in expr]))
    return source.compile("compute")  # type: ignore[no-any-return]


def condition(where: Sequence[Expr], first: int) -> Callable[[tuple[Any, ...], tuple[Any, ...]], bool] | None:
    """A function of two tuples, the first with `first` columns, that tells whether all conditions hold."""
    if not where:
        return None
    source = Source()

    def column(i: int) -> str:
        return f"t[{i}]" if i < first else f"u[{i - first}]"

    source.line(0, "def holds(t, u):")
    source.line(1, "return " + " and ".join(source.expression(w, column) for w in where))
    return source.compile("holds")  # type: ignore[no-any-return]
