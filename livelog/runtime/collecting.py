"""Python's cycle collector, kept out of what the engine does.

A transaction makes no cycles, and what it leaves behind is there to stay: there is no work for the collector. Still it
would walk over all new objects, and over all there are whenever these have become a quarter more. So it pauses, and
afterwards, by freezing and unfreezing, everything goes to the oldest generation without a walk.

Objects of others go there too, and the collector starts counting anew. It must not lose sight of their garbage: where
others have made a quarter of all objects since the last time, everything is collected, as Python itself would do.
"""

from __future__ import annotations

import gc

__all__ = ["pause_collections", "resume_collections"]

SOME = 100  # new objects that are worth it: fewer are left to Python
LEAST = 50_000  # objects of others before all are collected

_at = 0  # new objects when the pause began
_own = 0  # how many of these the engine had made in pauses before, too few to be moved
_others = 0  # objects that others made since everything was collected
_limit = LEAST  # how many these may become


def pause_collections() -> bool:
    """No collections from here on. Whether there were any before, so that somebody has to `resume_collections`."""
    global _at
    if not gc.isenabled():
        return False
    gc.disable()
    _at = gc.get_count()[0]
    return True


def resume_collections() -> None:
    """The collector may run again; what was made since the pause is there to stay."""
    global _own, _others, _limit
    made = gc.get_count()[0] - _at
    if made <= SOME or gc.get_freeze_count():
        _own = min(_own, _at) + made  # less, if Python has collected in between
        gc.enable()
        return
    _others += max(_at - _own, 0)
    _own = 0
    gc.freeze()
    gc.unfreeze()
    if _others > _limit:
        _others = 0
        gc.collect()
        _limit = max(LEAST, len(gc.get_objects()) // 4)
    gc.enable()
