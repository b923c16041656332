"""Python's cycle collector, kept out of transactions."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["LARGE", "without_collections"]

LARGE = 50_000  # operations or changes that make a transaction a large one


@contextmanager
def without_collections() -> Iterator[list[int]]:
    """No work for the cycle collector: a transaction makes no cycles, and what it leaves behind is there to stay.

    After a large one (the caller says how large by appending to the list), freezing and unfreezing moves everything
    to the oldest generation without the walk over all of it that would come otherwise. It also makes the collector
    start counting anew, so small transactions must not do it, or it would never run.
    """
    sizes: list[int] = []
    if not gc.isenabled():
        yield sizes
        return
    gc.disable()
    try:
        yield sizes
    finally:
        if sum(sizes) > LARGE and gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()
        gc.enable()
