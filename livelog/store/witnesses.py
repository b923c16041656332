"""Witnesses: what in a session's directory knows of a transaction, beside the log itself.

A log that was cut at its end looks like one that never had more. So the number of the last transaction whose commit was
acknowledged stands in a file of its own, and other files have numbers of transactions too. None of them is ever
ahead of the log: who finds a higher number than the log's last knows that the log has lost something.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from livelog.store.changefile import first_recorded, newer_than
from livelog.store.layout import Layout, numbered
from livelog.store.marks import read_mark
from livelog.store.records import Damaged

__all__ = ["witness"]


def witness(layout: Layout, number: int) -> tuple[int, Path] | None:
    """The highest number above one that anything in a directory knows of, and where it stands. O(1) for each file."""
    found = [(read_mark(layout.acknowledged), layout.acknowledged)]
    # a folder of a checkpoint is made when its transaction is in the log; a batch gets the number after the log's last
    found += [(n, layout.checkpoint(n)) for n in numbered(layout.checkpoints)]
    found += [(n - 1, layout.batch(n)) for n in numbered(layout.batches)]
    for folder in sorted(layout.published.glob("*/")):
        for path in sorted(folder.glob("*.log")):
            with contextlib.suppress(Damaged):  # whoever reads it will say so
                newer = [(n, path) for n in newer_than(path, number)]
                # a file that begins behind the log is of a view that was to be followed, and is not
                if newer and (first_recorded(path) or 0) <= number:
                    found += newer
    highest = max(found, key=lambda item: item[0])
    return highest if highest[0] > number else None
