"""Long batches in slices, so that a loop that makes very much can be looked at before it has made it all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["FEW", "in_slices"]

FEW = 16
"""Entries of a batch that are worked off at once: the first slice of a longer one."""

MADE = 1_000_000
"""What a slice is meant to make at most; the next one is as long as the last one suggests."""

GROWTH = 16
"""How many times as long as the last one a slice may be."""


def in_slices(batch: Sequence[Any], run: Callable[[Any], int]) -> None:
    """Run a loop over a batch, slice by slice; `run` tells how much it made of a slice.

    A batch of n entries that make at most one each takes O(log n) slices.

    >>> lengths = []
    >>> in_slices(range(100_000), lambda part: lengths.append(len(part)) or len(part)); lengths
    [16, 256, 4096, 65536, 30096]
    >>> lengths = []
    >>> in_slices(range(40), lambda part: lengths.append(len(part)) or 100_000 * len(part)); lengths
    [16, 10, 10, 4]
    """
    start, size = 0, FEW
    while start < len(batch):
        made = run(batch[start : start + size])
        start += size
        size = max(1, min(GROWTH * size, size * MADE // made)) if made else GROWTH * size
