"""Layout: where things are in a session's directory, how files get there whole, and who may write to it.

Whatever the umask says, all of it is for its owner alone: files have the mode 0600, folders 0700.

    session.json                 what was opened
    running.json                 how to reach the session while it runs
    lock                         held by the one driver that has the session open
    acknowledged                 the number of the last transaction whose commit somebody was told of
    recorded                     the number of the last transaction whose changes readers find recorded
    log/N.log                    the transactions after checkpoint N (0: from the beginning)
    checkpoints/N/manifest.json  written last: without it the checkpoint does not count
    checkpoints/N/RELATION.PARTITION.parquet
    batches/N/                   what Spark tasks pushed for transaction N
    changes/VIEW/PARTITION.log   the change log of a followed view
    followers/VIEW/NAME          the last transaction of which a follower of a view has read what it changed
    rejected/QUERY/BATCH.jsonl   the rows of a micro-batch that a streaming query left out
    waiting/QUERY/BATCH          the rows of which the time had not come, after a micro-batch
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import socket
import string
from pathlib import Path

from datalog.errors import UsageProblem

__all__ = [
    "FILE_MODE", "TEMPORARY", "Layout", "Lock", "file_name", "make_folder", "make_private", "numbered", "sync_folder",
    "write_atomically",
]  # fmt: skip

FILE_MODE = 0o600
FOLDER_MODE = 0o700

TEMPORARY = ".tmp"
"""How the names of files end that are being written; after a crash they are rubbish."""

_PLAIN = frozenset(string.ascii_letters + string.digits + "_-")
_LONGEST = 150  # characters of a quoted name; file systems allow 255 bytes for a name with all that stands around it


def file_name(name: str) -> str:
    """A name as part of a file name: different names stay different, and nothing in one means anything to a shell.

    >>> file_name("link"), file_name("path#1"), file_name("../a b")
    ('link', 'path%231', '%2E%2E%2Fa%20b')
    >>> len(file_name("é" * 500))
    137
    """
    quoted = "".join(c if c in _PLAIN else _quote(c) for c in name) or "%"
    if len(quoted) <= _LONGEST:
        return quoted
    return f"{quoted[:120]}~{hashlib.sha256(quoted.encode()).hexdigest()[:16]}"


def _quote(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


class Layout:
    """The paths in a session's directory. Absolute, since executors run elsewhere.

    >>> layout = Layout("/d")
    >>> print(layout.log(3), layout.part(3, "link", 0), layout.changes("path#1", 2))
    /d/log/3.log /d/checkpoints/3/link.0.parquet /d/changes/path%231/2.log
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory).absolute()
        self.session = self.directory / "session.json"
        self.running = self.directory / "running.json"
        self.lock = self.directory / "lock"
        self.acknowledged = self.directory / "acknowledged"
        self.recorded = self.directory / "recorded"
        self.logs = self.directory / "log"
        self.checkpoints = self.directory / "checkpoints"
        self.batches = self.directory / "batches"
        self.published = self.directory / "changes"
        self.followers = self.directory / "followers"
        self.refused = self.directory / "rejected"

    def log(self, n: int) -> Path:
        """The transactions after checkpoint n, up to the next checkpoint."""
        return self.logs / f"{n}.log"

    def checkpoint(self, n: int) -> Path:
        """The folder of checkpoint n."""
        return self.checkpoints / str(n)

    def manifest(self, n: int) -> Path:
        """What makes checkpoint n count."""
        return self.checkpoint(n) / "manifest.json"

    def part(self, n: int, relation: str, partition: int) -> Path:
        """One partition of one relation in checkpoint n."""
        return self.checkpoint(n) / f"{file_name(relation)}.{partition}.parquet"

    def batch(self, n: int) -> Path:
        """The folder of what Spark tasks pushed for transaction n."""
        return self.batches / str(n)

    def changes(self, view: str, partition: int) -> Path:
        """The change log of a followed view on one partition."""
        return self.published / file_name(view) / f"{partition}.log"

    def follower(self, view: str, name: str) -> Path:
        """How far a follower of a view has come."""
        return self.followers / file_name(view) / file_name(name)

    def rejected(self, query: str, batch: int) -> Path:
        """The rows of a micro-batch that a streaming query left out."""
        return self.refused / file_name(query) / f"{batch}.jsonl"

    def waiting(self, query: str, batch: int) -> Path:
        """The rows of a streaming query of which the time had not come, after a micro-batch."""
        return self.directory / "waiting" / file_name(query) / str(batch)

    def __repr__(self) -> str:
        return f"Layout({str(self.directory)!r})"


def numbered(folder: Path, suffix: str = "") -> list[int]:
    """The numbers in a folder whose entries are called NUMBER plus suffix, ascending; other entries do not count."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    stems = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit() and str(int(stem)) == stem)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it where they are missing, durably."""
    if path.is_dir():
        return
    make_folder(path.parent)
    with contextlib.suppress(FileExistsError):  # somebody else was faster; if it is a file, the next step says so
        os.mkdir(path, FOLDER_MODE)
    sync_folder(path.parent)


def make_private(directory: Path) -> None:
    """Take from others what rights they have to the files of a session that is there already."""
    for folder, folders, files in os.walk(directory):
        for names, mode in ((folders, FOLDER_MODE), (files, FILE_MODE)):
            for name in names:
                path = os.path.join(folder, name)
                with contextlib.suppress(OSError):  # of somebody else's, or just removed
                    if os.stat(path, follow_symlinks=False).st_mode & 0o077 and not os.path.islink(path):
                        os.chmod(path, mode)


def write_atomically(path: Path, data: bytes | str) -> None:
    """Write a file that is either there as a whole or not at all, whenever the machine stops."""
    content = data.encode() if isinstance(data, str) else data
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    try:
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(fd, view) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(path.parent)


class Lock:
    """The right to write to a session's directory. It ends with the process that holds it, however that ends."""

    def __init__(self, path: Path) -> None:
        """Take the lock, or raise `UsageProblem` that names the process that has it."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            holder = os.pread(fd, 200, 0).decode("utf-8", "replace").strip()
            os.close(fd)
            if e.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise UsageProblem(f"cannot lock {path}: {e.strerror or e}") from None
            who = f"process {holder}" if holder else "another process"
            raise UsageProblem(
                f"the session in {path.parent} is already open in {who}: close it there first, or end that process"
            ) from None
        except BaseException:
            os.close(fd)
            raise
        self._fd: int | None = fd
        # Only for the sentence above: what counts is the lock, so this need not be durable.
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()} on {socket.gethostname()}\n".encode(), 0)

    def release(self) -> None:
        """Let the next one in. The file stays: to remove it would let two processes lock two files of one name."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            try:
                os.ftruncate(fd, 0)
            finally:
                os.close(fd)
