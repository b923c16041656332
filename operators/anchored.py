"""Anchored: a lineage join where the rows of one side, the anchor, each belong to one group.

The anchor keeps the cells of these groups (`operators.cells`) in place of their columns, and adds to them directly. The
other side keeps sums alone. Both are found under their lineage key with one look: a *junction* has `cells`, those of
the anchor with their vectors, or None, and the sums of the other side, `v0`, `v1` and so on. Where the vectors are
counts, `odd` says how many of them are not 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from operators.anchored_loops import junction_class, meeting, taking_in
from operators.cells import Cells
from operators.delta import Delta, Mode
from operators.expr import Expr
from operators.guard import guarded
from operators.intake import Intake
from operators.lineage_loops import Product

try:
    from operators.compiled import cells as compiled
except ImportError:
    compiled = None  # type: ignore[assignment]

__all__ = ["Anchored"]

Tuple = tuple[Any, ...]


class Anchored:
    """Two sides and what their rows contribute; see `operators.lineage.lineage_join` for the arguments.

    >>> from operators.expr import Col
    >>> from operators.sums import COUNT, Factor
    >>> left = Intake("", (1,), (), (Col(0),), (COUNT,))                      # s1(a, b): how many, by a
    >>> right = Intake("", (0,), (), (), (COUNT, Factor(Col(1))))             # s2(b, d): how many, and the sum of d
    >>> cells = Cells(1, 2)
    >>> join = Anchored("", (left, right), 0, (Col(1),), (((1, 0, 0),), ((1, 0, 1),)), cells)
    >>> join.take(0, Delta([("a", 1)], [])); cells.drain()
    []
    >>> join.take(1, Delta([(1, 10), (1, 20)], [])); cells.drain()
    [(('a',), [2, 30])]
    >>> [list(join.items(side)) for side in (0, 1)]
    [[((1, 'a'), 1)], [((1,), [2, 30])]]
    """

    def __init__(
        self,
        text: str,
        sides: tuple[Intake, Intake],
        anchor: int,
        outputs: Sequence[Expr],
        products: Sequence[Product],
        cells: Cells,
    ) -> None:
        self.text = text
        self.sides = sides
        self._anchor = anchor
        self._cells = cells
        self._junctions: dict[Any, Any] = {}
        self._width = len(sides[1 - anchor].form.factors)
        self._make = junction_class(self._width)
        self._plan = (anchor, (sides[0].form, sides[1].form), tuple(outputs), tuple(products))
        self._spread = None
        if compiled is not None and cells.width <= compiled.WIDTH:
            self._spread = compiled.Spreader(cells.make).add
        self._meet = meeting(anchor, self._plan[1], products, spread=self._spread is not None)
        self._takes: dict[Mode | None, Callable[..., None]] = {}

    def take(self, side: int, delta: Delta) -> None:
        """Changes of the relation of one side, as they come: let them in, and add what they contribute."""
        if side != self._anchor:
            self._met(self.sides[side].summed(delta))
            return
        for mode, batch in delta.runs():
            self._take_in(mode, batch)

    def receive(self, side: int, rows: Iterable[tuple[Tuple, Any]]) -> None:
        """Changes of one side that were summed up elsewhere."""
        if side == self._anchor:
            self._take_in(None, rows)
        else:
            self._met(self.sides[side].received(rows))

    def _take_in(self, mode: Mode | None, batch: Iterable[Any]) -> None:
        take = self._takes.get(mode)
        if take is None:
            take = self._takes[mode] = taking_in(*self._plan, mode)
        cells = self._cells
        touch, bare = cells.touched.append, mode in ("gained", "lost")
        guarded(self.text, take, batch, self._junctions, self._make, cells.rows, cells.make, touch, bare=bare)

    def _met(self, changes: dict[Any, Any]) -> None:
        self._meet(changes.items(), self._junctions, self._make, self._cells.touched, self._spread)

    # --- looking in ---

    def _vector(self, junction: Any) -> list[int]:
        return [getattr(junction, f"v{i}") for i in range(self._width)]

    def items(self, side: int) -> Iterator[tuple[Tuple, Any]]:
        """What is kept of a side: (key columns..., columns of the group...), or just the key, with the vectors."""
        spread = self.sides[side].spread
        for key, junction in self._junctions.items():
            if side == self._anchor:
                for cell, vector in (junction.cells or {}).items():
                    yield spread(key) + cell.row, vector
            elif any(vector := self._vector(junction)):
                yield spread(key), vector[0] if self._width == 1 else vector

    def stats(self) -> dict[str, int]:
        return {name: sum(1 for _ in self.items(side)) for side, name in enumerate(("left", "right"))}

    def check(self) -> None:
        """Assert that only sums of some rows are kept, and that all cells that are used are there."""
        for side in (0, 1):
            for row, vector in self.items(side):
                assert (vector[0] if isinstance(vector, list) else vector) > 0, f"a partial sum of no rows: {row}"
        uses: dict[Any, int] = {}
        for junction in self._junctions.values():
            assert junction.cells or (junction.cells is None and junction.v0), "an empty lineage key is kept"
            odd = sum(vector != 1 for vector in (junction.cells or {}).values() if not isinstance(vector, list))
            assert junction.odd == odd, "counts that are not 1 are miscounted"
            for cell in junction.cells or ():
                uses[cell] = uses.get(cell, 0) + 1
        cells = self._cells.rows.values()
        assert uses.keys() <= set(cells), "a cell was let go"
        assert all(cell.uses == uses.get(cell, 0) for cell in cells), "uses are miscounted"
