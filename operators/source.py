"""The text of generated functions: columns by position, and constants and functions passed in under names.

No text of a program enters it, and what is generated twice is compiled once.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from operators.expr import Apply, Col, Const, Expr

__all__ = [
    "HIGHEST", "LOWEST", "Source", "condition", "filing", "key_of", "key_text", "overflow", "row_function",
    "tuple_text",
]

LOWEST, HIGHEST = -(2**63), 2**63 - 1
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
        self._names: dict[int, str] = {}

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self, value: Any, prefix: str) -> str:
        known = self._names.get(id(value))
        if known is None:
            known = self._names[id(value)] = f"{prefix}{len(self._names)}"
            self.values[known] = value
        return known

    def expression(self, expr: Expr, column: Callable[[int], str], exact: bool = False) -> str:
        """Source text of an expression; `column` says how a column of the row is spelt.

        `exact` is for whole numbers that may be of any size on the way: nothing is checked.
        """
        if isinstance(expr, Col):
            return column(expr.index)
        if isinstance(expr, Const):
            return repr(expr.value) if type(expr.value) is int else self.name(expr.value, "k")
        arguments = [self.expression(a, column, exact) for a in expr.arguments]
        if expr.inline in ("+", "-", "*") and not exact:
            value = f"({arguments[0]} {expr.inline} {arguments[1]})"
            low, high = ("LEAST", "MOST") if _is_float(expr) else ("LOWEST", "HIGHEST")
            return f"(q if {low} <= (q := {value}) <= {high} else overflow(q))"
        if expr.inline == "/":  # of floats; the function says what is wrong with a zero, and with what is too large
            (a, first), (b, second) = map(self._twice, arguments, expr.arguments)
            careful = f"{self.name(expr.function, 'f')}({a}, {b})"
            return f"(q if LEAST <= (q := {first} / ({second} or NAN)) <= MOST else {careful})"
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
        exec(_code("\n".join(self.lines) + "\n", f"<kernel {name}>"), scope)
        return scope[name]


def _is_float(expr: Expr) -> bool:
    """Whether what an expression computes is a float for certain: those are compared with floats, which is faster."""
    if isinstance(expr, Const):
        return isinstance(expr.value, float)
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
