"""Progress on a terminal, on standard error, and only for work that takes a while. Nothing in a pipe."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Counter", "bar", "counter", "spinner"]

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


class Counter:
    """A count of things done, on standard error, and lines on standard output above it."""

    def __init__(self, progress: Any = None, task: Any = None) -> None:
        self._progress = progress
        self._task = task

    def advance(self, text: str | None = None) -> None:
        """One more is done; `text` says what is being done now."""
        if self._progress is not None:
            self._progress.update(self._task, advance=1, **({} if text is None else {"description": text}))

    def say(self, line: str) -> None:
        """Print a line. Where both streams are the same terminal, the bar must stay below it."""
        if self._progress is not None and sys.stdout.isatty():
            from rich.text import Text

            self._progress.console.print(Text.from_ansi(line), soft_wrap=True)
        else:
            print(line, flush=True)


@contextmanager
def counter(text: str, total: int) -> Iterator[Counter]:
    """A progress bar over `total` things; nothing but the lines in a pipe."""
    if not sys.stderr.isatty():
        yield Counter()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
    ) as progress:  # fmt: skip
        yield Counter(progress, progress.add_task(text, total=total))
