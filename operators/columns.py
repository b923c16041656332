"""Rows that are known column by column, and sums over them a column at a time.

A file of a million facts is read a column at a time. As long as nobody needs its tuples one by one, loops of whoever
read it add them up many times faster than a loop in Python does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from operators.expr import Col, Expr

if TYPE_CHECKING:
    from operators.sums import Factor

__all__ = ["Bulk", "Columns", "column_sums"]

Tuple = tuple[Any, ...]


class Columns(Protocol):
    """The columns of some rows, which may come several times."""

    def sums(self, by: Sequence[int], summed: Sequence[int]) -> dict[Tuple, Any] | None:
        """By the values of some columns, the number of rows and the sums of other columns, in a list.

        Without any to sum it is the number alone. None if a column has anything but whole numbers to be summed, or
        such large ones that the sums might not be exact, or if values might not be told apart as tuples are.
        """

    def distinct(self) -> Columns | None:
        """The same rows, each once; None if they might not be told apart as tuples are."""


class Bulk(list[Tuple]):
    """A list of rows that are known by their columns too.

    >>> Bulk([("a", 1)], None).columns is None
    True
    """

    __slots__ = ("columns",)

    def __init__(self, rows: Iterable[Tuple], columns: Columns | None) -> None:
        super().__init__(rows)
        self.columns = columns


def column_sums(columns: Columns, kept: Sequence[Expr], factors: Sequence[Factor]) -> dict[Tuple, Any] | None:
    """What `operators.sums.summing` makes of the rows, each once; None if it takes a loop over the rows.

    That is so unless all that is kept are columns, and so is all that is summed up.
    """
    by = [e.index for e in kept if isinstance(e, Col)]
    summed = [f.value.index for f in factors[1:] if isinstance(f.value, Col) and f.lift is None]
    if not by or len(by) != len(kept) or 1 + len(summed) != len(factors) or factors[0].value is not None:
        return None
    return columns.sums(by, summed)
