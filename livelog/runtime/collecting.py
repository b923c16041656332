"""Python's cycle collector, kept out of transactions.

A transaction makes no cycles, and what it leaves behind is there to stay: there is no work for the collector.
"""

from __future__ import annotations

import gc

__all__ = ["LARGE", "pause_collections", "resume_collections"]

LARGE = 50_000  # changes that make a transaction a large one


def pause_collections() -> bool:
    """No collections from here on. Whether there were any before, so that somebody has to `resume_collections`."""
    if not gc.isenabled():
        return False
    gc.disable()
    return True


def resume_collections(size: int) -> None:
    """The collector may run again, after a transaction with so many changes.

    After a large one, freezing and unfreezing moves everything to the oldest generation without the walk over all of it
    that would come otherwise. It also makes the collector start counting anew, so small transactions must not do it, or
    it would never run.
    """
    if size > LARGE and gc.get_freeze_count() == 0:
        gc.freeze()
        gc.unfreeze()
    gc.enable()
