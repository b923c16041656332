"""The loops over changed rows, generated: filter, compute keys, and add up what has the same keys.

Like those of `operators.kernels`: columns by position, conditions in place, nothing of a program's text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from operators.errors import RuleFailure
from operators.exact import units
from operators.expr import Expr
from operators.source import Source, key_text, tuple_text
from operators.sums import Factor

__all__ = [
    "Equal", "Limit", "gather_outer", "gather_running", "gather_sums", "gather_total", "gather_values", "limit",
    "number",
]

Equal = tuple[Expr, ...]
"""What has to be equal between an outer and an inner row, on one of the two sides."""

Kernel = Callable[..., None]

Limit = Callable[[tuple[Any, ...]], Any]
"""What is compared with: a function of values. If one of them is None there is no limit, and nothing qualifies."""


def gather_outer(
    where: Sequence[Expr],
    equal: Equal,
    key: Expr | tuple[Expr, ...] | None,
    group: Sequence[Expr | None],
    factors: Sequence[Factor],
) -> Kernel:
    """`(batch, out)`: the vectors of the rows by (values that are equal, key, group). The count comes first.

    >>> from operators.expr import Col
    >>> kernel = gather_outer((), (), Col(0), (), (Factor(Col(1)),))
    >>> out = {}; kernel([((7, 10), 1), ((7, 30), 1), ((8, 5), -1)], out); out
    {(None, 7, ()): [2, 40], (None, 8, ()): [-1, -5]}
    """
    source = _start(where)
    e = key_text([source.expression(x, _column) for x in equal])
    if isinstance(key, tuple):
        k = tuple_text([source.expression(x, _column) for x in key])
    else:
        k = "None" if key is None else source.expression(key, _column)
    columns = ["None" if x is None else source.expression(x, _column) for x in group]
    source.line(2, f"k = ({e}, {k}, {tuple_text(columns)})")
    _add_up(source, factors)
    return source.compile("gather")  # type: ignore[no-any-return]


def _add_up(source: Source, factors: Sequence[Factor]) -> None:
    """The lines that add a row to the vector at `k`."""
    added = _added(source, factors)
    source.line(2, "s = get(k)")
    source.line(2, f"if s is None: out[k] = [{', '.join(added)}]")
    source.line(2, "else:")
    for i, text in enumerate(added):
        source.line(3, f"s[{i}] += {text}")


def _added(source: Source, factors: Sequence[Factor]) -> list[str]:
    """What a row adds to each entry of a vector; lines for what they share."""
    added = ["a"]
    lifted: dict[tuple[Expr, Any], str] = {}
    for factor in factors:
        if factor.value is None:
            added.append("a")
            continue
        value = source.expression(factor.value, _column, factor.exact)
        if factor.lift is None:
            added.append(f"a * {value}")
            continue
        name = lifted.get((factor.value, factor.lift))
        if name is None:
            name = lifted[factor.value, factor.lift] = f"l{len(lifted)}"
            source.line(2, f"{name} = {source.name(factor.lift, 'f')}({value})")
        added.append(f"a * {name}[{factor.entry}]")
    return added


def gather_sums(where: Sequence[Expr], equal: Equal, factors: Sequence[Factor]) -> Kernel:
    """`(batch, out)`: the vectors of the rows by the values that are equal. The count comes first.

    >>> from operators.expr import Col
    >>> out = {}; gather_sums((), (Col(0),), (Factor(Col(1)),))([((7, 10), 1), ((7, 30), 2)], out); out
    {7: [3, 70]}
    """
    source = _start(where)
    source.line(2, f"k = {key_text([source.expression(x, _column) for x in equal])}")
    _add_up(source, factors)
    return source.compile("gather")  # type: ignore[no-any-return]


def gather_total(where: Sequence[Expr], factors: Sequence[Factor]) -> Kernel:
    """`(batch, out)`: adds the vectors of the rows to one list. The count comes first.

    >>> from operators.expr import Col
    >>> out = [1, 5]; gather_total((), (Factor(Col(1)),))([((7, 10), 1), ((7, 30), 2)], out); out
    [4, 75]
    """
    sums = [f"s{i}" for i in range(1 + len(factors))]
    source = _start(where, first=" = ".join([*sums, "0"]))
    for name, text in zip(sums, _added(source, factors), strict=True):
        source.line(2, f"{name} += {text}")
    for i, name in enumerate(sums):
        source.line(1, f"out[{i}] += {name}")
    return source.compile("gather")  # type: ignore[no-any-return]


def gather_running(where: Sequence[Expr], equal: Equal, key: Expr, value: Expr | None, kind: str) -> Kernel:
    """`(batch, out)`: by (values that are equal, key), the sum of the values and the number of negative ones.

    Without a value, rows are counted. Floats (`kind`) are added up in units, exactly; whole numbers are of any size.

    >>> from operators.expr import Col
    >>> kernel = gather_running((), (), Col(0), Col(1), "number")
    >>> out = {}; kernel([((7, 10), 1), ((7, -30), 2)], out); out
    {(None, 7): [-50, 2]}
    """
    source = _start(where)
    e = key_text([source.expression(x, _column) for x in equal])
    source.line(2, f"k = ({e}, {source.expression(key, _column)})")
    if value is None:
        source.line(2, "v = a; n = 0")
    else:
        source.line(2, f"x = {source.expression(value, _column, kind == 'number')}")
        source.line(2, "n = a if x < 0 else 0")
        source.line(2, f"v = a * {source.name(units, 'f')}(x)" if kind == "float" else "v = a * x")
    source.line(2, "s = get(k)")
    source.line(2, "if s is None: out[k] = [v, n]")
    source.line(2, "else:")
    source.line(3, "s[0] += v; s[1] += n")
    return source.compile("gather")  # type: ignore[no-any-return]


def gather_values(where: Sequence[Expr], equal: Equal, value: Expr | None) -> Kernel:
    """`(batch, out)`: by the values that are equal, what an aggregate is fed with: pairs of a value and a weight.

    >>> from operators.expr import Col
    >>> out = {}; gather_values((), (Col(0),), Col(1))([((7, 10), 1), ((7, 30), 2)], out); out
    {7: [(10, 1), (30, 2)]}
    """
    source = _start(where)
    source.line(2, f"k = {key_text([source.expression(x, _column) for x in equal])}")
    source.line(2, f"x = ({'None' if value is None else source.expression(value, _column)}, a)")
    source.line(2, "s = get(k)")
    source.line(2, "if s is None: out[k] = [x]")
    source.line(2, "else: s.append(x)")
    return source.compile("gather")  # type: ignore[no-any-return]


def limit(text: str, expression: Expr) -> Limit:
    """The side of a comparison that is the same for many rows, as a function of an answer (if any) and of scalars.

    >>> from operators.expr import Apply, Col
    >>> of = limit("", Apply("*", int.__mul__, (Col(0), Col(1)), "*")); of((3, 4)), of((3, None))
    (12, None)
    """
    source = Source()
    source.values |= {"RuleFailure": RuleFailure, "text": text}
    source.line(0, "def limit(t):")
    source.line(1, "if None in t: return None")
    source.line(1, f"try: return {source.expression(expression, _column)}")
    source.line(1, "except Exception as e: raise RuleFailure(text, t, e) from e")
    return source.compile("limit")  # type: ignore[no-any-return]


def number(expression: Expr) -> Callable[..., Any]:
    """An expression as a function of its row's columns, given one by one.

    >>> from operators.expr import Apply, Col
    >>> number(Apply("+", int.__add__, (Col(0), Col(1)), "+"))(3, 4)
    7
    """
    source = Source()
    source.line(0, "def compute(*t):")
    source.line(1, f"return {source.expression(expression, _column)}")
    return source.compile("compute")  # type: ignore[no-any-return]


def _start(where: Sequence[Expr], first: str = "get = out.get") -> Source:
    source = Source()
    source.line(0, "def gather(batch, out):")
    source.line(1, first)
    source.line(1, "for t, a in batch:")
    for condition in where:
        source.line(2, f"if not {source.expression(condition, _column)}: continue")
    return source


def _column(i: int) -> str:
    return f"t[{i}]"
