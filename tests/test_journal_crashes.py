"""The journal, stopped at each of its calls of the system: the state is that before the step or after it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from livelog.store.journal import Journal
from livelog.store.layout import Layout
from tests.crashes import Machine, Stopped
from tests.journals import DESCRIPTION, Book, facts_of, settled

WAYS = ("killed", "without power", "without power, all names kept")


def prepared(folder: Path) -> Book:
    """A closed session with two checkpoints, transactions of all outcomes, and a checkpoint that was given up."""
    book = Book(folder)
    for step in "tatctatgtct":
        {
            "t": book.transaction,
            "a": lambda: book.transaction(False),
            "c": book.checkpoint,
            "g": lambda: book.journal.start_checkpoint(),
        }[step]()
    Layout(folder).batch(1).mkdir()
    book.begin()
    book.journal.close()
    return book


def later(book: Book) -> None:
    """What is stopped at every step: an opening, a checkpoint with transactions around and during it, another one."""
    book.journal = Journal.open(book.folder)
    book.end(True)
    book.transaction()
    book.checkpoint(between=2)
    book.transaction(False)
    book.checkpoint()
    book.transaction()
    book.begin()
    book.journal.close()


def copy_of(book: Book, folder: Path) -> Book:
    """The same session elsewhere."""
    shutil.copytree(book.folder, folder)
    copy = Book(folder, book.journal)
    copy.model, copy.checkpoints = list(book.model), list(book.checkpoints)
    copy.queries, copy.follows = dict(book.queries), list(book.follows)
    return copy


def assert_right(book: Book, folder: Path, killed: bool) -> None:
    """The session opens, and has every transaction that was acknowledged, and none that was aborted.

    The last one may have lost its outcome: then it is the undecided one. One that was being logged is the
    undecided one or was never there.
    """
    journal = Journal.open(folder)
    undecided = journal.waiting
    open_rows = {row for _, _, row in undecided.operations} if undecided else set()
    *former, (_, last, outcome) = book.model
    sure = {row for _, row, committed in former if committed}
    settled_now = settled(journal)
    if undecided is None or not open_rows:
        assert settled_now - {last} == sure
        assert outcome is None or (last in settled_now) == outcome
        assert outcome is not None or (last in settled_now) == book.ending, "an outcome that was being logged"
    elif open_rows == {last}:
        assert settled_now == sure
        assert outcome is None or not killed, "only a machine that stops loses an outcome"
    else:
        assert open_rows == {book.begun}
        assert settled_now == sure | ({last} if outcome else set())
    expected: dict[str, int] = {}
    for i, (_, row, _) in enumerate(book.model):
        if row in settled_now:
            expected["q" if i % 3 == 0 else "feed"] = i
    assert journal.queries == expected and set(journal.follows) == set(expected)
    newest = journal.newest()
    assert newest is not None and newest.number >= book.checkpoints[-1], "never an older state than before"

    # and it goes on from here
    if undecided is not None:
        journal.end(undecided.number, True)
    now = facts_of(journal)
    journal.end(journal.begin([("+", "fact", ("new",))]).number, True)
    number, _ = journal.start_checkpoint()
    journal.close()
    journal = Journal.open(folder)
    assert facts_of(journal) == now | {("new",)} and journal.number == number
    assert not list(folder.rglob("*.tmp")) or not killed
    checkpoints = [int(path.name) for path in (folder / "checkpoints").iterdir()]
    assert len(checkpoints) <= 2, "what does not count is cleared away"
    journal.close()


def steps(book: Book, folder: Path) -> int:
    """How many calls there are to stop at."""
    copy = copy_of(book, folder)
    with Machine(copy.folder) as machine:
        later(copy)
    machine.release()
    return machine.calls


def test_a_machine_that_stops_anywhere(tmp_path: Path) -> None:
    book = prepared(tmp_path / "before")
    total = steps(book, tmp_path / "dry")
    assert total > 60, "all these calls are looked at"
    for stop in range(1, total + 1):
        copy = copy_of(book, tmp_path / f"{stop}")
        with Machine(copy.folder, stop) as machine:
            later(copy)
            raise AssertionError("it was not stopped")
        images = {way: copy.folder.with_name(f"{stop}-{i}") for i, way in enumerate(WAYS)}
        machine.after_power_loss(images[WAYS[1]])
        machine.after_power_loss(images[WAYS[2]], names=True)
        machine.release()
        copy.folder.rename(images[WAYS[0]])
        for way, image in images.items():
            try:
                assert_right(copy, image, way == WAYS[0])
            except BaseException:
                print(f"stopped at call {stop} of {total}, {way}")
                raise
            shutil.rmtree(image)


def test_a_creation_that_stops_anywhere_can_be_done_again(tmp_path: Path) -> None:
    (tmp_path / "dry").mkdir()
    with Machine(tmp_path / "dry") as machine:
        Journal.create(tmp_path / "dry" / "s", DESCRIPTION).close()
    machine.after_power_loss(tmp_path / "whole")
    machine.release()
    Journal.open(tmp_path / "whole" / "s").close()
    assert machine.calls > 15
    for stop in range(1, machine.calls + 1):
        root = tmp_path / f"{stop}"
        root.mkdir()
        with Machine(root, stop) as stopped:
            Journal.create(root / "s", DESCRIPTION).close()
            raise AssertionError("it was not stopped")
        stopped.after_power_loss(tmp_path / f"{stop}-1")
        stopped.after_power_loss(tmp_path / f"{stop}-2", names=True)
        stopped.release()
        for way in (root, tmp_path / f"{stop}-1", tmp_path / f"{stop}-2"):
            there = (way / "s" / "session.json").exists()
            journal = Journal.open(way / "s") if there else Journal.create(way / "s", DESCRIPTION)
            assert journal.description == DESCRIPTION and journal.number == 0
            journal.end(journal.begin().number, True)
            journal.close()


def test_the_machine_of_these_tests_does_lose_what_was_not_synced(tmp_path: Path) -> None:
    """Else the tests above would prove nothing."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "old").write_bytes(b"old")
    with Machine(root, 6) as machine:
        fd = os.open(root / "synced", os.O_CREAT | os.O_WRONLY)
        os.write(fd, b"one")
        os.fsync(fd)
        os.write(fd, b"two")
        os.replace(root / "old", root / "new")
        os.unlink(root / "new")
    machine.after_power_loss(tmp_path / "a")
    machine.after_power_loss(tmp_path / "b", names=True)
    machine.release()
    found = {side: {p.name: p.read_bytes() for p in (tmp_path / side).iterdir()} for side in "ab"}
    assert found["a"] == {"old": b"old"}
    assert found["b"] == {"synced": b"one", "new": b"old"}
    assert (root / "synced").read_bytes() == b"onetwo"
    with pytest.raises(Stopped):
        raise Stopped


CHILD = """
import sys
from livelog.store.journal import Journal
from tests.journals import DESCRIPTION
journal = Journal.create(sys.argv[1], DESCRIPTION)
i = 0
while True:
    i += 1
    journal.begin([("+", "fact", (i,))])
    print("begun", i, flush=True)
    journal.end(i, i % 3 != 0)
    print("ended", i, flush=True)
    if i % 7 == 0:
        number, _ = journal.start_checkpoint()
        journal.finish_checkpoint(number, 0.0, [], 1)
"""


def test_a_process_that_is_killed_loses_nothing_and_the_lock(tmp_path: Path) -> None:
    """With no parts in the checkpoints here, what the log has after the older of two is compared."""
    folder = tmp_path / "s"
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder)], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(100)]
    with pytest.raises(Exception, match=f"already open in process {process.pid} on"):
        Journal.open(folder)
    os.kill(process.pid, signal.SIGKILL)
    rest = process.stdout.read()  # not communicate(): it passes by what has been read ahead
    words = [line.split() for line in [*lines, *rest.splitlines(keepends=True)] if line.endswith("\n")]
    begun, ended = (max(int(n) for what, n in words if what == kind) for kind in ("begun", "ended"))
    journal = Journal.open(folder)
    assert begun <= journal.number <= begun + 1
    newest = journal.newest()
    assert newest is not None
    undecided = journal.waiting
    assert undecided is None or undecided.number > ended
    kept = {entry.number for entry in journal.entries(newest.number)}
    expected = {n for n in range(newest.number + 1, ended + 1) if n % 3}
    assert kept - {ended + 1, ended + 2} == expected
    journal.close()
