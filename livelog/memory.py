"""How much memory a process holds and may hold, where the system tells."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from datalog.errors import UsageProblem

__all__ = ["Memory", "resident", "resident_peak", "size_of", "there_is"]


def resident(process: int | None = None) -> int:
    """Bytes of memory that a process (by default this one) holds now; 0 where that is not known.

    >>> resident() > 0 or sys.platform != "linux"
    True
    """
    try:
        pages = Path(f"/proc/{process or 'self'}/statm").read_bytes().split()[1]
    except (OSError, IndexError):  # not Linux, or a process that has just ended
        return resident_peak() if process is None else 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def resident_peak() -> int:
    """The most bytes of memory that this process has held; 0 where that is not known.

    What `getrusage` says counts the parent's memory at the moment of the fork, so it is not asked on Linux.
    """
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


# --- sizes ---------------------------------------------------------------------------------------------------

_UNITS = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(?:(b)|([kmgt]?)(i?)b?)\s*", re.IGNORECASE)


def size_of(text: int | str) -> int:
    """A size in bytes, from a number or from what a person writes.

    >>> size_of("2GB"), size_of("1.5 MiB"), size_of("500k"), size_of(4096)
    (2000000000, 1572864, 500000, 4096)
    """
    if isinstance(text, int) and not isinstance(text, bool):
        size = text
    else:
        match = _SIZE.fullmatch(text) if isinstance(text, str) and len(text) < 100 else None
        if match is None:
            raise UsageProblem(f"{text!r} is no size of memory: it is a number of bytes, or as in '500MB' or '1.5GiB'")
        unit = (match[3] or "").lower()
        factor = 1024 ** (1 + "kmgt".index(unit)) if match[4] and unit else _UNITS[unit]
        size = int(float(match[1]) * factor)
    if size < 1:
        raise UsageProblem(f"the memory must be at least one byte, not {text!r}")
    return size


def shown(size: int) -> str:
    """A size as a person reads it.

    >>> shown(2_000_000_000), shown(1_572_864), shown(12)
    ('2 GB', '1.57 MB', '12 bytes')
    """
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} bytes"


def there_is(root: Path = Path("/")) -> int | None:
    """Bytes of memory that the machine has or the control group of this process may have; None if nobody knows."""
    found = list(_allowed(root))
    with suppress(AttributeError, ValueError, OSError):  # Windows has no such thing
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min((size for size in found if size > 0), default=None)


def _allowed(root: Path) -> Iterator[int]:
    """The limits of the control groups (version 1 and 2) of this process, and of those around them."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        mount, name = "sys/fs/cgroup", "memory.max"
        if controllers:
            mount, name = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts), -1, -1):  # in a container, only the last of these is there
            try:
                text = root.joinpath(mount, *parts[:depth], name).read_text(encoding="ascii").strip()
            except (OSError, UnicodeDecodeError):
                continue
            if text.isdigit():
                yield int(text)


class Memory:
    """What a session may take. Made before anything is loaded: a size counts from what the process holds then.

    Without a size it is three quarters of what there is, for the whole process; `share` of them is for this one.

    >>> Memory("2GB"), Memory("2GB").passed(resident() + 3 * 10**9), Memory("2GB").passed(resident())
    (2 GB of memory, True, False)
    """

    __slots__ = ("_limit", "_most", "size")

    def __init__(self, size: int | str | None = None, share: int = 1) -> None:
        self.size = None if size is None else size_of(size)
        all_of_it = there_is() if self.size is None else self.size
        if all_of_it is not None and self.size is None:
            all_of_it = all_of_it * 3 // 4
        self._limit = None if all_of_it is None else all_of_it // share
        self._most = None if self._limit is None else self._limit + (0 if self.size is None else resident())

    def passed(self, held: int) -> bool:
        """Whether it is too much if the process holds so many bytes."""
        return self._most is not None and held > self._most

    def __repr__(self) -> str:
        if self._limit is None:
            return "any amount of memory"
        of_all = " (three quarters of what there is)" if self.size is None else ""
        return f"{shown(self._limit)} of memory{of_all}"
