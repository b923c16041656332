"""Crashes on purpose: stop a piece of code at any of its calls of the system, with what a disk would then hold.

`Machine` counts the calls that change files. At the one where it is to stop it raises `Stopped`, and from then on at
every further one, so that no handler repairs anything, as in a process that is no more. The files that are left are
those of a killed process; `after_power_loss` makes the folder that a machine without power would come back with: of
each file what was synced, under the names that were synced.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["Machine", "Stopped"]

CALLS = ("open", "write", "pwritev", "ftruncate", "fsync", "fdatasync", "replace", "unlink", "mkdir", "rmdir")


class Stopped(BaseException):
    """The process ends here."""


class Machine:
    """The system calls of this process, counted; number `stop_at` (from 1) is the last, and is not carried out.

    A write that is the last is carried out by half. Use as a context manager.
    """

    def __init__(self, root: Path, stop_at: int | None = None) -> None:
        self.calls = 0
        self._stop_at = stop_at
        self._root = root
        self._real = {name: getattr(os, name) for name in CALLS}
        self._close = os.close
        self._open: set[int] = set()
        self._kept: list[int] = []  # descriptors that keep removed files from giving their number to new ones
        self._content: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        for folder, _, files in os.walk(root):
            for file in files:
                self._remember(self._real["open"](os.path.join(folder, file), os.O_RDONLY))
            self._remember(self._real["open"](folder, os.O_RDONLY))

    def __enter__(self) -> Machine:
        for name in CALLS:
            setattr(os, name, self._counted(name))
        os.close = self._closed
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        for name, function in self._real.items():
            setattr(os, name, function)
        os.close = self._close
        if kind is Stopped:  # a process that ends closes its files, and so loses its locks
            for fd in self._open:
                os.close(fd)
        return kind is Stopped

    def release(self) -> None:
        """Forget the files."""
        while self._kept:
            os.close(self._kept.pop())

    def _counted(self, name: str) -> Any:
        real = self._real[name]

        def call(*arguments: Any, **options: Any) -> Any:
            if name == "open" and not arguments[1] & os.O_CREAT:
                return self._opened(real(*arguments, **options))
            self.calls += 1
            if self._stop_at is not None and self.calls >= self._stop_at:
                if self.calls == self._stop_at and name in ("write", "pwritev"):
                    self._half(name, *arguments)
                raise Stopped
            result = real(*arguments, **options)
            if name == "open":
                self._opened(result)
            elif name in ("fsync", "fdatasync"):
                self._remember(os.dup(arguments[0]))
            return result

        return call

    def _opened(self, fd: int) -> int:
        self._open.add(fd)
        return fd

    def _closed(self, fd: int) -> None:
        self._open.discard(fd)
        self._close(fd)

    def _half(self, name: str, fd: int, data: Any, offset: int = 0) -> None:
        if name == "write":
            self._real["write"](fd, bytes(data)[: len(data) // 2])
        else:
            whole = b"".join(data)
            self._real["pwritev"](fd, [whole[: len(whole) // 2]], offset)

    def _remember(self, fd: int) -> None:
        """What a descriptor stands for is on the disk now."""
        self._kept.append(fd)
        number = os.fstat(fd).st_ino
        if os.path.isdir(f"/proc/self/fd/{fd}"):
            with os.scandir(fd) as entries:
                self._names[number] = {entry.name: entry.inode() for entry in entries}
        else:
            self._content[number] = Path(f"/proc/self/fd/{fd}").read_bytes()

    def after_power_loss(self, target: Path, names: bool = False) -> None:
        """Make the folder anew elsewhere as the disk has it. `names=True`: all names made it, not only synced ones."""
        self._rebuild(self._root, os.stat(self._root).st_ino, target, names)

    def _rebuild(self, present: Path, number: int, target: Path, names: bool) -> None:
        target.mkdir()
        if names:
            entries = {entry.name: entry.inode() for entry in os.scandir(present)} if present.is_dir() else {}
        else:
            entries = self._names.get(number, {})
        for name, inode in sorted(entries.items()):
            if inode in self._names or (present / name).is_dir():
                self._rebuild(present / name, inode, target / name, names)
            else:
                (target / name).write_bytes(self._content.get(inode, b""))
