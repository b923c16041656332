"""Followers: who reads what transactions change in a view, from any process, each transaction once.

A follower reads the change files of a session's folder, up to the transaction of the mark `recorded`. It needs no
lock, and the session need not be open. Its own mark in the folder says how far it has come, so that nothing is removed
that it has yet to read: a follower with a name leaves it there, and goes on from it; one without has it while it lives.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from heapq import merge
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from datalog.errors import UsageProblem
from livelog.store.changefile import change_files, first_recorded, read_changes
from livelog.store.layout import Layout, make_folder
from livelog.store.marks import Mark, read_mark, sound
from livelog.store.records import START, Damaged

__all__ = ["Changed", "Follower", "followed", "forget", "held_still", "marks"]

Row = tuple[Any, ...]
Changed = tuple[int, list[Row], list[Row]]
"""A transaction, and the rows that it inserted into a view and deleted from it."""

NAMELESS = "~"
"""How the files of followers without a name begin; no name is quoted so."""


class Follower:
    """A reader of the changes of a view. `number` is the last transaction that it has passed.

    `since` is the transaction after which it begins; None: where the follower of this name stopped, or else with all
    that is kept.
    """

    def __init__(self, layout: Layout, view: str, since: int | None = None, name: str | None = None) -> None:
        self._layout = layout
        self._files = change_files(layout, view)
        self.view = view
        if not self._files:
            kept = ", ".join(followed(layout)) or "those of no view"
            raise UsageProblem(f"the changes of `{view}` are not kept in {layout.directory} (kept: {kept})")
        self._path = layout.follower(view, name or "")
        if name is None:
            self._path = self._path.with_name(f"{NAMELESS}{os.getpid()}-{secrets.token_hex(4)}")
        make_folder(self._path.parent)
        with _registering(self._path.parent):
            known = name is not None and _is_mark(self._path, since)
            self._lasting = known  # a mark that is made here is for one who follows
            self._mark = Mark(self._path)
            try:
                self._lock(name)
                first = self._first()
                self._whole = since is None and not known  # what the files begin with is read as well
                self.number = first - 1 if self._whole else self._mark.number if since is None else since
                if not self._whole:
                    self._check(first)
                self._mark.note(max(self.number, 0))
                self._lasting = name is not None
            except BaseException:
                self.close()
                raise

    def _first(self) -> int:
        """Where what is kept begins."""
        self._seen = _identities(self._files)
        return max((n for n in map(first_recorded, self._files) if n is not None), default=0)

    def _check(self, first: int) -> None:
        if self.number < first:
            raise UsageProblem(
                f"the changes of `{self.view}` are kept from transaction {first} on, not from {self.number}: "
                f"read the view as it is, and follow it from there"
            )

    def _lock(self, name: str | None) -> None:
        try:
            fcntl.flock(self._mark.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            if e.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            self._lasting = True  # it is another one's
            raise UsageProblem(f"{name!r} already follows `{self.view}` elsewhere: choose another name") from None

    def changes(self) -> Iterator[Changed]:
        """What transactions changed that were committed since, in order. Each is passed when the next is asked for."""
        upto = read_mark(self._layout.recorded)
        self._files = change_files(self._layout, self.view)
        if _identities(self._files) != self._seen:  # shorter ones, or those of another program
            if not self._files:
                raise UsageProblem(f"the changes of `{self.view}` are kept no more")
            self._check(self._first())
        read = [read_changes(path, self.number, upto) for path in self._files]
        for number, rows in groupby(merge(*read, key=itemgetter(0)), itemgetter(0)):
            inserted: list[Row] = []
            deleted: list[Row] = []
            for _, sign, row in rows:
                (inserted if sign == "+" else deleted).append(row)
            yield number, inserted, deleted
            self.passed(number)
        if upto > self.number:
            self.passed(upto)

    def passed(self, number: int) -> None:
        """All up to a transaction was read, and need not be kept for this follower."""
        self.number = number
        self._mark.note(number)

    def close(self) -> None:
        """Read no more. A follower with a name can be gone on with."""
        if not self._lasting:
            self._lasting = True
            with contextlib.suppress(OSError):
                os.unlink(self._path)
        self._mark.close()


@contextlib.contextmanager
def _registering(folder: Path, wait: bool = True) -> Iterator[bool]:
    """Whether nobody else begins to follow, or removes what all have read, while this lasts."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)


@contextlib.contextmanager
def held_still(layout: Layout, view: str) -> Iterator[bool]:
    """Whether nobody begins to follow a view while this lasts: then `marks` has all who do."""
    folder = layout.follower(view, "x").parent
    try:
        make_folder(folder)
    except OSError:
        yield False
        return
    with _registering(folder, wait=False) as alone:
        yield alone


def _is_mark(path: Path, since: int | None) -> bool:
    """Whether a follower of this name was here before. Raises `Damaged` where it is not known how far it had come."""
    try:
        size = os.stat(path).st_size
    except OSError:
        return False
    if size and since is None and not sound(path):
        raise Damaged(path, None, "it is not the number of a transaction", "say where to begin (`since`)")
    return size > 0


def _identities(files: list[Path]) -> list[tuple[Path, bytes]]:
    """What tells files from others of their names: each has a salt of its own."""
    found = []
    for path in files:
        with open(path, "rb", buffering=0) as file:
            found.append((path, file.read(START)))
    return found


def followed(layout: Layout) -> list[str]:
    """The views whose changes are kept, as their folders are called."""
    return sorted(path.parent.name for path in layout.published.glob("*/0.log"))


def marks(layout: Layout, view: str) -> list[int]:
    """How far the followers of a view have come, while they are `held_still`.

    The marks of those without a name that live no more are removed.
    """
    found = []
    for path in sorted(layout.follower(view, "x").parent.glob("*")):
        if path.name.startswith(NAMELESS) and _free(path):
            with contextlib.suppress(OSError):
                os.unlink(path)
        else:
            found.append(read_mark(path))
    return found


def forget(layout: Layout, view: str, name: str) -> bool:
    """A follower of this name will not come back: nothing is kept for it any more. Whether there was one."""
    path = layout.follower(view, name)
    if not path.exists():
        return False
    if not _free(path):  # it would read on, and miss what is removed
        raise UsageProblem(f"{name!r} follows `{view}` at this moment: end it there first")
    os.unlink(path)
    return True


def _free(path: Path) -> bool:
    """Whether nobody holds the lock of a mark."""
    try:
        fd = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
