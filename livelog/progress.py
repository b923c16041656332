"""Progress on a terminal, on standard error, and only for work that takes a while. Nothing in a pipe."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["bar", "spinner"]

PATIENCE = 0.5
"""Seconds before a person wonders whether anything happens."""

QUICK = 4_000_000
"""Bytes that are read before anybody wonders."""


@contextmanager
def spinner(text: str) -> Iterator[None]:
    """Something that moves while the block runs, if it runs for long."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    status = Console(stderr=True).status(text)
    timer = threading.Timer(PATIENCE, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()


@contextmanager
def bar(text: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar over `total` bytes; the block calls what it is given with the number that are done."""
    if total < QUICK or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(text, total=total)
        yield lambda done: progress.update(task, completed=done)
