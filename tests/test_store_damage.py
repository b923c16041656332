"""Damage to a session's folder, a disk that is full, a folder that cannot be had: what is not whole is refused with the
file, or does no harm; and what a caller was told is what a later opening finds.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import livelog
from datalog.errors import LivelogError, RuntimeProblem, UsageProblem
from livelog.store import journal
from livelog.store.formats import sealed
from livelog.store.journal import describe
from livelog.store.layout import Layout
from livelog.store.records import Damaged
from tests.journals import snapshot
from tests.stores import FACTS, TEXT, Model, assert_right
from tests.test_log_loss import cut, flipped, zeroed

ROOT = Path(__file__).parents[1]


def made(folder: Path, seed: int = 1, last: int = 9) -> Model:
    """A closed session with two checkpoints beside the first, a follower, and transactions after them."""
    model = Model(seed)
    with livelog.open(TEXT, facts=FACTS, store=folder) as session:
        for k in range(1, last + 1):
            model.commit(session, k)
            if k == 2:
                session.changes("reach", since=1, name="reader").close()
            if k in (4, 7):
                session.checkpoint()
    return model


KINDS = (
    "session.json", "log/7.log", "log/4.log", "changes/reach/0.log", "changes/times/0.log",
    "checkpoints/7/manifest.json", "checkpoints/7/link.0.parquet", "checkpoints/7/node.0.parquet",
    "checkpoints/4/manifest.json", "acknowledged", "recorded", "followers/reach/reader", "lock",
)  # fmt: skip


@pytest.mark.parametrize("file", KINDS)
def test_a_damaged_file_is_refused_or_does_no_harm(tmp_path: Path, file: str) -> None:
    folder = tmp_path / "s"
    model = made(folder)
    whole = (folder / file).read_bytes()
    some = {0, 1, len(whole) // 3, len(whole) // 2, len(whole) - 3, len(whole) - 1}
    sizes = [size for size in sorted(some) if 0 <= size <= len(whole)]
    refused = 0
    for damage in (cut, zeroed, flipped):
        for size in sizes:
            image = tmp_path / f"{damage.__name__}{size}"
            shutil.copytree(folder, image)
            damage(image / file, size)
            before = snapshot(image)
            try:
                session = livelog.open(TEXT, store=image)
            except (Damaged, UsageProblem) as problem:
                refused += 1
                assert str(image / file) in problem.message or file == "session.json", problem.message
                assert snapshot(image) == before, f"something was changed: {problem.message}"
            else:
                with session:
                    assert_right(session, model, 9, 9)
                told = ("session.json", "checkpoints/7/manifest.json", "checkpoints/7/link.0.parquet")
                assert file not in told or whole[size:] == b"\n", f"{damage.__name__} from {size}"
            shutil.rmtree(image)
    assert refused or file not in KINDS[:2] + KINDS[3:8]


def test_one_flipped_byte_anywhere(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    model = made(folder, 5, 8)
    for file in ("log/7.log", "changes/reach/0.log", "acknowledged", "recorded"):
        whole = (folder / file).read_bytes()
        for at in range(0, len(whole), 7):
            image = tmp_path / f"{at}"
            shutil.copytree(folder, image)
            (image / file).write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
            try:
                session = livelog.resume(image)
            except Damaged as damaged:
                assert damaged.file == image / file
            else:
                with session:
                    assert_right(session, model, 8, 8)
            shutil.rmtree(image)


def test_a_loss_can_be_accepted(tmp_path: Path) -> None:
    model = made(tmp_path / "s")
    log = Layout(tmp_path / "s").log(7)
    cut(log, log.stat().st_size - 2)
    with pytest.raises(Damaged, match="its end is missing, with transaction 9"):
        livelog.resume(tmp_path / "s")
    with livelog.resume(tmp_path / "s", accept_loss=True) as session:
        assert_right(session, model, 8, 8)
        with session.transaction() as tx:
            tx.insert("link", (1, 2))
        assert tx.changes.transaction == 10, "a number that somebody has seen is not used again"
        assert session.position("feed") == 8


# --- no room -----------------------------------------------------------------------------------------------------


class Disk:
    """A disk on which the calls from some number on fail, of those that write."""

    def __init__(self, patch: pytest.MonkeyPatch, error: int, names: tuple[str, ...]) -> None:
        self.left: int | None = None
        self.failed = 0
        for name in names:
            patch.setattr(os, name, self._failing(getattr(os, name), error))

    def _failing(self, real: Callable[..., Any], error: int) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if self.left is not None:
                if self.left <= 0:
                    self.failed += 1
                    raise OSError(error, os.strerror(error))
                self.left -= 1
            return real(*arguments, **options)

        return call


WRITING = ("pwritev", "fdatasync", "fsync", "write", "mkdir", "replace")


@pytest.mark.parametrize("sync", ["always", "interval"])
@pytest.mark.parametrize("what", ["commit", "checkpoint", "follow"])
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, sync: str) -> None:
    """At each call: the session is as before or after, can be read, and goes on when there is room."""
    monkeypatch.setattr(journal, "INTERVAL", 3600)
    done = at = 0
    while not done:
        folder, model = tmp_path / f"{at}", Model(at)
        session = livelog.open(TEXT, facts=FACTS, store=folder, sync=sync)
        for k in range(1, 4):
            model.commit(session, k)
        with monkeypatch.context() as patch:
            disk = Disk(patch, errno.ENOSPC, WRITING)
            disk.left, k = at, 3
            for _ in range(2):  # also while there is still no room
                try:
                    if what == "commit":
                        model.commit(session, k + 1)
                        k += 1
                    elif what == "checkpoint":
                        session.checkpoint()
                    else:
                        session.changes("fair").close()
                except RuntimeProblem as problem:
                    assert os.strerror(errno.ENOSPC) in problem.message
                except OSError as error:  # of a follower's own mark
                    assert error.errno == errno.ENOSPC and what == "follow"
            assert session.position("feed") == k
            assert set(session["reach"]) == model.views(k)["reach"]
            try:
                session._with_journal.journal.flush()
            except RuntimeProblem as problem:
                assert os.strerror(errno.ENOSPC) in problem.message
            done = not disk.failed
            disk.left = None
        assert_right(session, model, k, k)
        model.commit(session, k + 1)
        session.checkpoint()
        session.changes("fair").close()
        assert_right(session, model, k + 1, k + 1)
        session.close()
        with livelog.resume(folder) as session:
            assert_right(session, model, k + 1, k + 1)
        at += 1
    assert at > 1


def test_a_failure_that_is_told_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that could not be synced may be on the disk all the same: it is taken out, and that is synced."""
    session = livelog.open(TEXT, facts=FACTS, store=tmp_path)
    synced: list[int] = []
    real = os.fdatasync

    def failing(fd: int) -> None:
        if not synced:
            synced.append(-1)
            raise OSError(errno.ENOSPC, "No space left on device")
        real(fd)
        synced.append(os.fstat(fd).st_size)

    log = Layout(tmp_path).log(0)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", failing)
        with pytest.raises(RuntimeProblem, match="rolled back"), session.transaction() as tx:
            tx.insert("link", (7, 7))
    assert synced[1:] and synced[-1] == log.stat().st_size < 100
    session.close()
    with livelog.resume(tmp_path) as session:
        assert (7, 7) not in session["link"]


@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    model = made(tmp_path / "s", last=3)
    real = os.open

    def refusing(path: Any, flags: int, *mode: Any, **options: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(error, os.strerror(error), str(path))
        return real(path, flags, *mode, **options)

    before = snapshot(tmp_path / "s")
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refusing)
        for folder in (tmp_path / "s", tmp_path / "new"):
            with pytest.raises(UsageProblem, match=os.strerror(error)):
                livelog.open(TEXT, store=folder)
        with pytest.raises(UsageProblem, match=os.strerror(error)):
            livelog.resume(tmp_path / "s")
    assert snapshot(tmp_path / "s") == before
    with livelog.resume(tmp_path / "s") as session:
        assert_right(session, model, 3, 3)


# --- folders that are something else -----------------------------------------------------------------------------


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "s"):
        with pytest.raises(UsageProblem, match="cannot use"):
            livelog.open(TEXT, store=path)
        with pytest.raises(UsageProblem, match="no session"):
            livelog.resume(path)


def test_another_version_is_told_before_anything_is_read(tmp_path: Path) -> None:
    made(tmp_path, last=1)
    content = json.loads(sealed(describe(tmp_path)))["content"]
    text = json.dumps({**content, "version": 99, "runtime": "elsewhere", "program": 7})
    (tmp_path / "session.json").write_text(f'{{"crc32": {zlib.crc32(text.encode())}, "content": {text}}}')
    for opened in (lambda: livelog.resume(tmp_path), lambda: livelog.open(TEXT, store=tmp_path)):
        with pytest.raises(UsageProblem, match="has format 99; this Livelog reads"):
            opened()


def test_a_folder_in_use_names_who_has_it(tmp_path: Path) -> None:
    how = f"{TEXT!r}, store={str(tmp_path / 's')!r}"
    code = f"import livelog; s = livelog.open({how}); print('open', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "open\n"
        who = f"already open in process {process.pid} on {socket.gethostname()}"
        with pytest.raises(UsageProblem, match=who):
            livelog.resume(tmp_path / "s")
        with pytest.raises(UsageProblem, match=who):
            livelog.open(TEXT, store=tmp_path / "s")
        process.kill()
    livelog.resume(tmp_path / "s").close()


def test_a_session_over_spark_is_refused_untouched(tmp_path: Path) -> None:
    description = journal.Description(name="r.dl", program=TEXT, runtime="spark")
    journal.Journal.create(tmp_path, description).close()
    (tmp_path / "batches" / "push-1").mkdir()
    before = snapshot(tmp_path)
    for opened in (
        lambda: livelog.resume(tmp_path), lambda: livelog.open(TEXT, store=tmp_path),
        lambda: livelog.open(TEXT, store=tmp_path, migrate=True),
    ):  # fmt: skip
        with pytest.raises(UsageProblem, match="over Spark"):
            opened()
    assert snapshot(tmp_path) == before


def test_what_cannot_be_opened_is_let_go(tmp_path: Path) -> None:
    """The next attempt in the same process does not find the folder in use."""
    made(tmp_path, last=2)
    for options in ({"ship": "nonsense"}, {"strategy": "dred", "ship": "eager"}, {"limit": 0}, {"partitions": 0}):
        with pytest.raises(LivelogError):
            livelog.open(TEXT, store=tmp_path, **options)  # type: ignore[arg-type]
    livelog.resume(tmp_path).close()
