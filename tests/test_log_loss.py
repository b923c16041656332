"""A log that lost its end, and one that the disk has no room for: nothing is lost without a word, and what the caller
was told is what a later opening finds.
"""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from livelog.store.changefile import ChangeFiles
from livelog.store.journal import Journal, LogProblem
from livelog.store.layout import Layout
from livelog.store.records import Damaged
from livelog.store.recovery import Missing
from tests.journals import DESCRIPTION, Book, settled, snapshot

ROOT = Path(__file__).parents[1]


@pytest.fixture
def book(tmp_path: Path) -> Book:
    """A closed session of six transactions, the fifth of them aborted; `ends` has the size of the log after each."""
    book = Book(tmp_path / "s")
    ends = [book.size()]
    for committed in (True, True, True, True, False, True):
        book.transaction(committed)
        ends.append(book.size())
    book.journal.close()
    book.ends = ends  # type: ignore[attr-defined]
    return book


def cut(path: Path, size: int) -> None:
    os.truncate(path, size)


def zeroed(path: Path, size: int) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:size] + bytes(len(data) - size))


def flipped(path: Path, size: int) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:size] + bytes(b ^ 0x55 for b in data[size:]))


@pytest.mark.parametrize("damage", [cut, zeroed, flipped])
@pytest.mark.parametrize("left", [0, 1, 3, 4, 5])
def test_transactions_that_are_missing_are_named(book: Book, damage: Callable[[Path, int], None], left: int) -> None:
    log = Layout(book.folder).log(0)
    for more in (0, 1, 30):  # also in the middle of a record
        whole = log.read_bytes()
        damage(log, book.ends[left] + more)  # type: ignore[attr-defined]
        before = snapshot(book.folder)
        with pytest.raises(Missing) as missing:
            Journal.open(book.folder)
        names = f"transactions {left + 1} to 6" if left < 5 else "transaction 6"
        assert (missing.value.first, missing.value.last, missing.value.file) == (left + 1, 6, log)
        assert names in missing.value.message and "--accept-loss" in missing.value.message
        assert snapshot(book.folder) == before, "nothing was changed"
        log.write_bytes(whole)
    journal = Journal.open(book.folder)
    assert journal.number == 6 and settled(journal) == book.committed
    journal.close()


def test_an_entry_whose_outcome_is_missing_with_those_after_it(book: Book) -> None:
    """Somebody was told how it ended, and nobody knows any more: it is missing, too."""
    log = Layout(book.folder).log(0)
    data = log.read_bytes()
    outcome = book.ends[4] - book.ends[3]  # type: ignore[attr-defined]
    for short in range(1, outcome):
        log.write_bytes(data[: book.ends[4] - short])  # type: ignore[attr-defined]
        with pytest.raises(Missing) as missing:
            Journal.open(book.folder)
        assert (missing.value.first, missing.value.last) == (4, 6)


def test_the_loss_can_be_accepted(book: Book) -> None:
    layout = Layout(book.folder)
    cut(layout.log(0), book.ends[3] + 40)  # type: ignore[attr-defined]
    journal = Journal.open(book.folder, accept_loss=True)
    assert settled(journal) == book.committed_until(3)
    assert journal.number == 6, "numbers that somebody has seen are not used again"
    journal.end(journal.begin([("+", "fact", ("new",))]).number, True)
    journal.close()
    journal = Journal.open(book.folder)
    assert settled(journal) == book.committed_until(3) | {("new",)} and journal.number == 7
    journal.close()


def test_what_was_never_acknowledged_may_be_torn(book: Book) -> None:
    log = Layout(book.folder).log(0)
    journal = Journal.open(book.folder)
    journal.begin([("+", "fact", ("under way",))])
    journal.close()
    data = log.read_bytes()
    for size in range(book.ends[6], len(data)):  # type: ignore[attr-defined]
        log.write_bytes(data[:size])
        journal = Journal.open(book.folder)
        assert journal.waiting is None and journal.number == 6 and settled(journal) == book.committed
        journal.close()


def test_change_files_know_numbers(book: Book) -> None:
    layout = Layout(book.folder)
    layout.acknowledged.unlink()
    files = ChangeFiles(layout, 1)
    files.follow("r", 2, [(1,)])
    for number in (3, 4, 6):
        files.record(number, {"r": ([(number,)], [])})
        files.flush()
    files.close()
    Journal.open(book.folder).close()
    cut(layout.log(0), book.ends[4])  # type: ignore[attr-defined]
    with pytest.raises(Missing, match=r"transactions 5 to 6, which .*/changes/r/1\.log knows of"):
        Journal.open(book.folder)


@pytest.mark.parametrize("what", ["checkpoints/6", "batches/7"])
def test_folders_know_numbers(book: Book, what: str) -> None:
    layout = Layout(book.folder)
    layout.acknowledged.unlink()
    (book.folder / what).mkdir(parents=True)
    cut(layout.log(0), book.ends[2])  # type: ignore[attr-defined]
    with pytest.raises(Missing, match=rf"transactions 3 to 6, which .*/{what} knows of"):
        Journal.open(book.folder)


def test_a_log_behind_a_checkpoint_is_missed_too(book: Book) -> None:
    again = Book(book.folder, Journal.open(book.folder))
    again.model = book.model
    number = again.checkpoint()
    log = again.journal.layout.log(number)
    empty = log.stat().st_size
    again.transaction()
    again.transaction()
    again.journal.close()
    for size in (empty, 0):
        cut(log, size)
        with pytest.raises(Missing, match=f"transactions {number + 1} to {number + 2}"):
            Journal.open(book.folder)


@pytest.mark.parametrize("data", [b"", b"x", bytes(12), b"\xff" * 12])
def test_a_witness_that_makes_no_sense_says_nothing(book: Book, data: bytes) -> None:
    Layout(book.folder).acknowledged.write_bytes(data)
    journal = Journal.open(book.folder)
    assert settled(journal) == book.committed
    journal.close()


# --- outcomes ----------------------------------------------------------------------------------------------------


def test_that_a_transaction_failed_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    journal = Journal.create(tmp_path, DESCRIPTION)
    monkeypatch.setattr(os, "fdatasync", lambda fd: calls.append("fdatasync"))
    journal.end(journal.begin().number, False)
    assert calls == ["fdatasync"] * 2
    journal.end(journal.begin().number, True)
    assert calls == ["fdatasync"] * 3


FULL = """
import errno, os, sys
from pathlib import Path
from datalog.errors import RuntimeProblem
from livelog.store.journal import Journal, LogProblem
from tests.journals import DESCRIPTION, settled

root, names = Path(sys.argv[1]), ("pwritev", "fdatasync", "pwrite")
real = {name: getattr(os, name) for name in names}
state = {"left": None, "times": 0}

def failing(name):
    def call(fd, *arguments):
        if state["left"] is not None:
            if state["left"] <= 0 and state["times"] > 0:
                state["times"] -= 1
                raise OSError(errno.ENOSPC, "No space left on device")
            state["left"] -= 1
        return real[name](fd, *arguments)
    return call

for name in names:
    setattr(os, name, failing(name))

def transaction(journal, row, committed):
    '''What a runtime does; returns what its caller is told: True, False, or None if it is not certain.'''
    try:
        entry = journal.begin([("+", "fact", (row,))])
    except LogProblem as problem:
        return None if "not certain" in problem.message else False
    try:
        if committed:
            journal.end(entry.number, True)
            return True
        raise LogProblem("it failed by itself")
    except LogProblem:
        try:
            journal.give_up(entry.number)
        except LogProblem as problem:
            assert "not certain" in problem.message, problem
            return None
        return False

most = 0
for committed in (True, False):
    for times in (1, 2, 3, 4, 1000):
        for at in range(8):
            folder = root / f"{committed}-{times}-{at}"
            state["left"] = None
            journal = Journal.create(folder, DESCRIPTION)
            assert transaction(journal, "first", True)
            state.update(left=at, times=times)
            told = transaction(journal, "full", committed)
            failed = state["times"] < times
            if times == 1000 and failed:  # still no room: it can be read, and says what is wrong
                assert transaction(journal, "not yet", True) in (False, None)
                assert ("first",) in settled(journal)
            state["left"] = None  # there is room again
            assert transaction(journal, "later", True) is True
            expected = {("first",), ("later",)} | ({("full",)} if told else set())
            assert journal.waiting is None
            assert settled(journal) == expected, (committed, times, at, told)
            journal.close()
            journal = Journal.open(folder)
            assert settled(journal) == expected and journal.waiting is None
            journal.close()
            # and where the process ends while there is no room
            folder = root / f"{committed}-{times}-{at}-ends"
            journal = Journal.create(folder, DESCRIPTION)
            assert transaction(journal, "first", True)
            state.update(left=at, times=times)
            told = transaction(journal, "full", committed)
            state["left"] = None
            os.close(journal._lock._fd)
            journal._lock._fd = None
            journal = Journal.open(folder)
            undecided = journal.waiting
            if told is not None:
                assert undecided is None
                assert settled(journal) == {("first",)} | ({("full",)} if told else set()), (committed, times, at)
            most = max(most, at if failed else 0)
            journal.close()
assert most >= 2, "the outcome was met as well"
print("done")
"""


def test_a_full_disk_at_every_call(tmp_path: Path) -> None:
    """What the caller is told is what is there, now and after the process ended, and the session goes on."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-3000:]


def test_one_sentence_says_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal.create(tmp_path / "s", DESCRIPTION)

    def full(fd: int, *arguments: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", full)
        with pytest.raises(LogProblem, match=r"the transaction was not begun: cannot write to .*: No space left"):
            journal.begin()
    number = journal.begin().number
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", full)
        with pytest.raises(LogProblem, match=r"the outcome of transaction 1 cannot be logged: cannot write to .*space"):
            journal.end(number, True)
    journal.end(number, True)
    journal.close()


# --- whose it is -------------------------------------------------------------------------------------------------


MADE = """
import sys
from pathlib import Path
from livelog.store.changefile import ChangeFiles
from livelog.store.parts import write_part
from livelog.store.layout import Layout
from tests.journals import Book
folder = Path(sys.argv[1])
book = Book(folder)
for step in "tct":
    {"t": book.transaction, "c": book.checkpoint}[step]()
files = ChangeFiles(Layout(folder), 0)
files.follow("r", 2, [(1,)])
files.close()
write_part(Layout(folder).part(1, "other", 0), ["a"], ["number"], [((1,), 1, None)] * 40000 + [(("x",), 1, None)])
book.journal.close()
"""


def test_all_is_the_owners_alone(tmp_path: Path) -> None:
    """Whatever the umask; and what an older version made is closed when it is opened."""
    folder = tmp_path / "above" / "s"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", MADE, str(folder)], check=True, cwd=ROOT, umask=0, env=environment)

    def modes() -> set[tuple[bool, int]]:
        found = [folder, *folder.rglob("*")]
        assert len(found) > 10
        return {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in found}

    assert modes() == {(True, 0o700), (False, 0o600)}
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    Journal.open(folder).close()
    assert modes() == {(True, 0o700), (False, 0o600)}


def test_damage_in_the_middle_cannot_be_accepted(book: Book) -> None:
    log = Layout(book.folder).log(0)
    data = bytearray(log.read_bytes())
    data[book.ends[2] + 30] ^= 1  # type: ignore[attr-defined]
    log.write_bytes(data)
    with pytest.raises(Damaged, match="follows whole"):
        Journal.open(book.folder, accept_loss=True)
