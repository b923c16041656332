"""Python's cycle collector, kept out of what the engine does.

A transaction makes no cycles, and what it leaves behind is there to stay: there is no work for the collector. Still it
would walk over all new objects, and over all there are whenever these have become a quarter more. So it pauses, and
afterwards, by freezing and unfreezing, everything goes to the oldest generation without a walk.

Objects of others go there too, and the collector starts counting anew. It must not lose sight of their garbage: where
others have made a quarter of all objects since the last time, everything is collected, as Python itself would do.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["without_collections"]

T = TypeVar("T")

SOME = 100  # new objects that are worth it: fewer are left to Python
LEAST = 50_000  # objects of others before all are collected

_at = 0  # new objects when the pause began
_own = 0  # how many of these the engine had made in pauses before, too few to be moved
_others = 0  # objects that others made since everything was collected
_limit = LEAST  # how many these may become


def without_collections(work: Callable[..., T], *arguments: Any) -> T:
    """What `work` makes of the arguments, and no collections meanwhile.

    They run again afterwards, wherever it was interrupted: a call of a function in Python can be before its first line.

    >>> without_collections(gc.isenabled), gc.isenabled()
    (False, True)
    """
    global _at
    if not gc.isenabled():
        return work(*arguments)
    try:
        _at = gc.get_count()[0]
        gc.disable()
        return work(*arguments)
    finally:
        try:
            _resume()
        finally:
            gc.enable()


def _resume() -> None:
    """What was made since the pause is there to stay; the collector may run again."""
    global _own, _others, _limit
    made = gc.get_count()[0] - _at
    if made <= SOME or gc.get_freeze_count():
        _own = min(_own, _at) + made  # less, if Python has collected in between
        return
    _others += max(_at - _own, 0)
    _own = 0
    gc.freeze()
    gc.unfreeze()
    if _others > _limit:
        _others = 0
        gc.collect()
        _limit = max(LEAST, len(gc.get_objects()) // 4)
