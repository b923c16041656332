"""The outer rows by their key, and how those in a range come to count: as one sum, or row by row as the range moves.

Three kinds of index have the same methods. `add(key, group, vector)` changes what is there; `show(within)` says which
range qualifies from now on, `pick(chosen)` which keys, where it is no range. What that changes goes to the heads.

- `Totals`: all rows belong to one group; the sum of a range is looked up in an RPAI tree, however far its ends moved;
- `Rows`: rows of many groups; what the ends of the range pass over comes and goes, and nothing else is touched;
- `Points`: ranges of one key, hashed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Protocol

from operators.nested.cuts import Range

__all__ = ["Entry", "Outer", "Tuple", "Vector"]

Tuple = tuple[Any, ...]
Vector = Sequence[int]
Entry = tuple[Any, Tuple, Vector]
"""Key, group and the sum of the rows that have them."""


class Outer(Protocol):
    """Outer rows by key."""

    def add(self, key: Any, group: Tuple, vector: Vector) -> None: ...

    def load(self, rows: list[Entry]) -> None: ...

    def show(self, within: Range) -> None: ...

    def pick(self, chosen: Collection[Any]) -> None: ...

    def keys(self) -> Iterator[Any]: ...

    def items(self) -> Iterator[Entry]: ...

    def __len__(self) -> int: ...

    def check(self) -> None: ...
