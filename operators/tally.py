"""Tally: rows added to the sums of their groups one by one, where the groups are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from operators.cells import Cells, adding, finding, touching
from operators.delta import Delta, Mode
from operators.expr import Expr
from operators.guard import guarded
from operators.source import Source
from operators.sums import Factor, named_amounts, of_row, walking

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

    def __call__(self, delta: Delta) -> None:
        cells = self._cells
        for mode, batch in delta.runs():
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
