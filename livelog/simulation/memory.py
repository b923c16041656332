"""How much memory a process holds, where the system tells."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["resident", "resident_peak"]


def resident(process: int | None = None) -> int:
    """Bytes of memory that a process (by default this one) holds now; 0 where that is not known.

    >>> resident() > 0 or sys.platform != "linux"
    True
    """
    try:
        pages = Path(f"/proc/{process or 'self'}/statm").read_text(encoding="ascii").split()[1]
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
