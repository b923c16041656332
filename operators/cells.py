"""Cells: what is added up for each group, as objects that those who add to them can hold on to.

A *cell* has the columns of a group (`row`), the sums of its vector (`s0`, the count, `s1`, ...), the states of
aggregates that are no sums (`m0`, ...), and the head that was told last (`head`). A loop that knows the cell adds to it
without looking for it: no tuple is made, hashed and compared. Whoever keeps a cell for later counts in `uses`; a cell
that nobody uses and that has nothing in it is let go. A cell is `calm` until it is touched in a transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from operators.source import Source, key_text, tuple_text

__all__ = ["Cells", "adding", "cell_key", "finding", "sum_names", "touching"]

Tuple = tuple[Any, ...]


def sum_names(width: int) -> list[str]:
    """What the sums of a cell are called."""
    return [f"s{i}" for i in range(width)]


class Cells:
    """The cells of groups with so many `columns`, and those that were touched in this transaction.

    `rows` has them by the key of their columns (`operators.source.key_of`).

    >>> cells = Cells(1, 2); cell = cells.rows["a"] = cells.make(("a",)); cells.touched.append(cell); cell.calm = False
    >>> cell.s0 += 1; cell.s1 += 5; cells.drain(), cells.rows
    ([(('a',), [1, 5])], {})
    """

    __slots__ = ("_drain", "make", "rows", "touched", "width")

    def __init__(self, columns: int, width: int, states: int = 0) -> None:
        self.width = width
        self.make: Callable[[Tuple], Any] = _cell_class(width, states)
        self.rows: dict[Any, Any] = {}
        self.touched: list[Any] = []
        self._drain = _draining(columns, width)

    def drain(self) -> list[tuple[Tuple, Any]]:
        """What has been added since the last call, for a place where it is kept: here nothing is.

        A vector of one entry is that number.
        """
        out: list[tuple[Tuple, Any]] = []
        self._drain(self.touched, self.rows, out)
        self.touched.clear()
        return out


@lru_cache(maxsize=256)
def _cell_class(width: int, states: int) -> type:
    """One class for all cells of a kind: loops that see a single class are the fastest."""
    sums = sum_names(width)
    slots = ["row", "head", "uses", "calm", *sums, *[f"m{i}" for i in range(states)]]
    source = Source()
    source.line(0, "class Cell:")
    source.line(1, f"__slots__ = {slots!r}")
    source.line(1, "def __init__(self, row):")
    source.line(2, "self.row = row")
    source.line(2, "self.head = None")
    source.line(2, "self.calm = True")
    source.line(2, f"self.uses = {' = '.join(f'self.{s}' for s in sums)} = 0")
    return source.compile("Cell")  # type: ignore[no-any-return]


def cell_key(columns: int, row: str) -> str:
    """The text of the key of a cell with the columns of `row`."""
    return row if columns > 1 else key_text([f"{row}[{i}]" for i in range(columns)])


def finding(source: Source, depth: int, parts: Sequence[str], row: str = "", states: Sequence[str] = ()) -> None:
    """The lines that find or make the `cell` of some columns; `find`, `make` and `rows` are those of `Cells`.

    `row` is the text of their tuple, if there is one already. `states` are the texts that make the states of a new one.
    """
    row = row or tuple_text(parts)
    key = key_text(parts) if len(parts) < 2 else row
    if len(parts) > 1 and not row.isidentifier():
        source.line(depth, f"at = {row}")
        key = row = "at"
    source.line(depth, f"cell = find({key})")
    source.line(depth, "if cell is None:")
    source.line(depth + 1, f"cell = rows[{key}] = make({row})")
    for i, state in enumerate(states):
        source.line(depth + 1, f"cell.m{i} = {state}")


def touching(source: Source, depth: int) -> None:
    """The lines that note that `cell` changes; `touch` is the `append` of `Cells.touched`."""
    source.line(depth, "if cell.calm:")
    source.line(depth + 1, "cell.calm = False")
    source.line(depth + 1, "touch(cell)")


def adding(source: Source, depth: int, amounts: Sequence[str]) -> None:
    """The lines that add to the sums of `cell`."""
    for name, amount in zip(sum_names(len(amounts)), amounts, strict=True):
        plain = amount[1:].isidentifier() or amount[1:].isdigit()
        source.line(depth, f"cell.{name} -= {amount[1:]}" if amount[0] == "-" and plain else f"cell.{name} += {amount}")


def _draining(columns: int, width: int) -> Callable[..., None]:
    sums = [f"cell.{name}" for name in sum_names(width)]
    source = Source()
    source.line(0, "def drain(touched, rows, out):")
    source.line(1, "for cell in touched:")
    source.line(2, "cell.calm = True")
    source.line(2, f"if {' or '.join(sums)}:")
    source.line(3, f"out.append((cell.row, {sums[0] if width == 1 else '[' + ', '.join(sums) + ']'}))")
    source.line(3, f"{' = '.join(sums)} = 0")
    source.line(2, f"if not cell.uses: del rows[{cell_key(columns, 'cell.row')}]")
    return source.compile("drain")  # type: ignore[no-any-return]
