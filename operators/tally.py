"""Tally: rows added to the sums of their groups one by one, where the groups are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from operators.cells import Cells, adding, finding, touching
from operators.delta import Delta, Mode
from operators.expr import Col, Expr
from operators.guard import guarded
from operators.source import Source
from operators.sums import Factor, named_amounts, of_row, walking

try:
    from operators.compiled import cells as compiled
except ImportError:
    compiled = None  # type: ignore[assignment]

__all__ = ["Tally"]


class Tally:
    """What `operators.sums.Summing` adds up of a relation, added to `cells` at once.

    >>> from operators.expr import Col
    >>> from operators.sums import COUNT
    >>> cells = Cells(1, 2); tally = Tally("", (), (Col(0),), (COUNT, Factor(Col(1))), cells)
    >>> tally(Delta([("a", 5), ("a", 2), ("b", 1)], [("b", 4)])); cells.drain()
    [(('b',), [0, -3]), (('a',), [2, 7])]
    """

    def __init__(
        self, text: str, where: Sequence[Expr], group: Sequence[Expr], factors: Sequence[Factor], cells: Cells
    ) -> None:
        self._text = text
        self._plan = (tuple(where), tuple(group), tuple(factors))
        self._cells = cells
        self._loops: dict[Mode, Callable[..., None]] = {}
        self._adder = _adder(where, group, factors, cells)

    def __call__(self, delta: Delta) -> None:
        cells = self._cells
        for mode, batch in delta.runs():
            if self._adder is not None and mode != "weighted":
                self._adder(batch, cells.rows, cells.touched, mode == "lost")
                continue
            loop = self._loops.get(mode)
            if loop is None:
                loop = self._loops[mode] = _tallying(*self._plan, mode)
            guarded(self._text, loop, batch, cells.rows, cells.make, cells.touched.append, bare=mode != "weighted")


def _tallying(
    where: Sequence[Expr], group: Sequence[Expr], factors: Sequence[Factor], mode: Mode
) -> Callable[..., None]:
    """The loop `(batch, rows, make, touch)`; all but the batch is of the cells."""
    source = Source()
    source.line(0, "def tally(batch, rows, make, touch):")
    source.line(1, "find = rows.get")
    walking(source, where, mode)
    own = named_amounts(source, factors, mode)
    finding(source, 2, [source.expression(e, of_row) for e in group])
    touching(source, 2)
    adding(source, 2, own)
    return source.compile("tally")  # type: ignore[no-any-return]


def _adder(where: Sequence[Expr], group: Sequence[Expr], factors: Sequence[Factor], cells: Cells) -> Any:
    """The compiled loop `(batch, rows, touched, lost)`, if there is one: nothing may have to be computed for a row."""
    plain = [f.value is None or (isinstance(f.value, Col) and f.lift is None) for f in factors]
    columns = [e.index for e in group if isinstance(e, Col)]
    if compiled is None or where or len(columns) < len(group) or not all(plain) or len(plain) > compiled.WIDTH:
        return None
    return compiled.Adder(cells.make, tuple(columns), tuple([f.value.index if isinstance(f.value, Col) else -1
                                                            for f in factors]))
