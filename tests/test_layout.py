"""Where things are in a session's directory, files that are there as a whole, and the lock."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datalog.errors import UsageProblem
from livelog.store.layout import Layout, Lock, file_name, make_folder, numbered, write_atomically

NAMES = st.text(max_size=300) | st.sampled_from(["", ".", "..", "a.b", "a/b", "a%2Fb", "link#1", "x" * 151, "%", "~"])


@given(NAMES, NAMES)
def test_names_of_files_are_plain_and_different_for_different_names(one: str, other: str) -> None:
    name = file_name(one)
    assert name and len(name) <= 160 and all(c.isascii() and (c.isalnum() or c in "_-%~") for c in name)
    assert (name == file_name(other)) == (one == other)


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    layout = Layout("s")
    assert layout.directory == tmp_path / "s", "executors run elsewhere"
    relative = {
        layout.session: "session.json", layout.running: "running.json", layout.lock: "lock",
        layout.log(0): "log/0.log", layout.checkpoint(12): "checkpoints/12",
        layout.manifest(12): "checkpoints/12/manifest.json",
        layout.part(12, "a#b", 3): "checkpoints/12/a%23b.3.parquet",
        layout.batch(4): "batches/4", layout.changes("v/w", 1): "changes/v%2Fw/1.log",
    }  # fmt: skip
    assert {path.relative_to(tmp_path / "s").as_posix(): name for path, name in relative.items()} == {
        name: name for name in relative.values()
    }
    assert layout.part(1, "a", 11) != layout.part(1, "a.1", 1) != layout.part(1, "a", 1)


def test_only_numbers_are_numbers(tmp_path: Path) -> None:
    assert numbered(tmp_path / "none") == []
    for name in ("3", "12", "012", "x", "-1", "5.log", "²", "7.tmp", ".8"):
        (tmp_path / name).touch()
    assert numbered(tmp_path) == [3, 12]
    assert numbered(tmp_path, ".log") == [5]


def test_files_are_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    write_atomically(path, "first")
    write_atomically(path, b"second")
    assert path.read_bytes() == b"second"

    def fails(fd: int) -> None:
        raise OSError("no more")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="no more"):
            write_atomically(path, "third")
    assert path.read_bytes() == b"second" and os.listdir(tmp_path) == ["a.json"]
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:2]))
    write_atomically(path, "in small pieces")
    assert path.read_bytes() == b"in small pieces"


def test_a_secret_is_never_readable_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "running.json"
    path.write_text("old")
    path.chmod(0o644)
    modes = []
    real = os.write

    def spy(fd: int, data: bytes) -> int:
        modes.append(stat.S_IMODE(os.fstat(fd).st_mode))
        return real(fd, data)

    monkeypatch.setattr(os, "write", spy)
    write_atomically(path, "secret")
    assert modes == [0o600] and stat.S_IMODE(path.stat().st_mode) == 0o600


def test_folders_are_made_with_those_above(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b" / "c")
    make_folder(tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(OSError):
        make_folder(tmp_path / "file" / "d")


def test_a_lock_is_held_once(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "lock")
    with pytest.raises(UsageProblem, match=f"the session in {tmp_path} is already open in process {os.getpid()} on "):
        Lock(tmp_path / "lock")
    lock.release()
    lock.release()
    Lock(tmp_path / "lock").release()
    assert (tmp_path / "lock").exists()
