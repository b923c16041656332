"""Remote: a long list that stays with the workers until somebody reads it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

__all__ = ["Remote"]

Piece = tuple[int, Any]
"""A partition, and what it has: a list, or where it holds one."""


class Remote(list[Any]):
    """Rows of several partitions, some of them still there. Its length is known; whoever iterates fetches the rows.

    `fetch(partition, held)` yields the rows of a held list. When this object goes, `release` is told what nobody
    reads any more.
    """

    def __init__(
        self,
        pieces: list[Piece],
        fetch: Callable[[int, Any], Iterable[Any]],
        release: Callable[[list[Piece]], None],
    ) -> None:
        super().__init__()
        self._pieces = pieces
        self._fetch = fetch
        self._count = sum(len(p) if isinstance(p, list) else p.count for _, p in pieces)
        weakref.finalize(self, release, [(i, p) for i, p in pieces if not isinstance(p, list)])

    def __len__(self) -> int:
        return self._count

    def __bool__(self) -> bool:
        return self._count > 0

    def __iter__(self) -> Iterator[Any]:
        for partition, piece in self._pieces:
            yield from piece if isinstance(piece, list) else self._fetch(partition, piece)
