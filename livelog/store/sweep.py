"""Sweep: remove from a session's directory what no way back to the present needs.

What cannot be removed now is tried again later: rubbish is no reason to stop.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Iterator

from livelog.store.layout import TEMPORARY, Layout, numbered, sync_folder
from livelog.store.recovery import finished

__all__ = ["sweep", "sweep_batches"]

_log = logging.getLogger(__name__)


def sweep(layout: Layout, begun: int | None) -> int:
    """Keep the two newest checkpoints that count, the one that was begun, and the log from the older of the two on.

    Returns the number that the log goes back to. As long as there is only one checkpoint, that is the beginning.
    """
    kept = finished(layout)[-2:]
    oldest = kept[0] if len(kept) == 2 else 0
    for number in numbered(layout.checkpoints):
        if number not in kept and number != begun:
            with _tolerant():
                if layout.manifest(number).exists():  # a checkpoint must not lose parts while it counts
                    os.unlink(layout.manifest(number))
                    sync_folder(layout.checkpoint(number))
                shutil.rmtree(layout.checkpoint(number))
    for segment in numbered(layout.logs, ".log"):
        if segment < oldest:
            with _tolerant():
                os.unlink(layout.log(segment))
    sweep_batches(layout, before=oldest)
    for folder in (layout.directory, *(layout.checkpoint(number) for number in kept)):
        for path in sorted(folder.glob(f".*{TEMPORARY}")):
            with _tolerant():
                os.unlink(path)
    return oldest


def sweep_batches(layout: Layout, before: int = 0, after: int | None = None) -> None:
    """Remove what was pushed for transactions that a kept checkpoint holds, or that were never logged."""
    for number in numbered(layout.batches):
        if number <= before or (after is not None and number > after):
            with _tolerant():
                shutil.rmtree(layout.batch(number))
    if after is not None:  # nobody else is here: whatever a push has not yet given a number never gets one
        for path in sorted(layout.batches.glob("push-*")):
            with _tolerant():
                shutil.rmtree(path)


@contextlib.contextmanager
def _tolerant() -> Iterator[None]:
    try:
        yield
    except OSError as e:
        _log.warning("cannot remove %s: %s", e.filename, e.strerror or e)
