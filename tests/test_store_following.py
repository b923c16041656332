"""Followers of a stored session's views: beside commits of another thread, in other processes, by name, and while what
all have read is removed. And what a session of another program keeps of a folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import livelog
from datalog.errors import LivelogError, UsageProblem
from livelog.runtime import stored
from livelog.store import followers
from livelog.store.changefile import first_recorded
from livelog.store.followers import Follower, held_still, marks
from livelog.store.layout import Layout
from livelog.store.records import Damaged
from tests.faults import forked
from tests.stores import FACTS, TEXT, Model, assert_right, read

ROOT = Path(__file__).parents[1]
PROGRAM = """
.decl e(x: number, y: number)
r(x, y) :- e(x, y).
s(x) :- r(x, _).
.output r
"""


def opened(folder: Path, **how: Any) -> livelog.Session:
    return livelog.open(PROGRAM, store=folder, **how)


def grow(session: livelog.Session, n: int, times: int = 1) -> None:
    for i in range(n, n + times):
        with session.transaction() as tx:
            tx.insert_all("e", [(i, j) for j in range(50)])


@pytest.mark.parametrize("sync", ["always", "interval"])
def test_a_reader_beside_another_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: str) -> None:
    """It hears of all that is committed meanwhile, once each, with checkpoints that remove what it has read."""
    monkeypatch.setattr(stored, "LEAST", 2000)
    session, model = livelog.open(TEXT, facts=FACTS, store=tmp_path, sync=sync), Model(21)
    rows: set[tuple[object, ...]] = set()  # what is heard begins with the view as it was opened
    numbers = []
    reader = session.changes("reach")

    def work() -> None:
        for k in range(1, 150):
            model.commit(session, k)
        session.close()

    thread = threading.Thread(target=work)
    thread.start()
    for changes in reader.follow():
        assert changes.transaction is not None
        numbers.append(changes.transaction)
        rows -= set(changes.deleted)
        assert rows.isdisjoint(changes.inserted)
        rows |= set(changes.inserted)
    thread.join()
    assert numbers == sorted(set(numbers)) and rows == model.views(149)["reach"]


READER = """
import sys, time
from livelog.store.followers import Follower
from livelog.store.layout import Layout
follower = Follower(Layout(sys.argv[1]), "r", None, sys.argv[2] or None)
last = int(sys.argv[3])
while follower.number < last:
    for number, inserted, deleted in follower.changes():
        print(number, len(inserted), flush=True)
    time.sleep(0.005)
"""


def test_readers_in_other_processes(tmp_path: Path) -> None:
    session = opened(tmp_path)
    grow(session, 1)
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", READER, str(tmp_path), name, "40"], stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        for name in ("", "one", "two")
    ]
    for process in readers:
        assert process.stdout is not None and process.stdout.readline() == "1 50\n"
    for i in range(2, 41):
        grow(session, i)
        if i % 10 == 0:
            session.checkpoint()
    session._with_journal.journal.flush()
    for process in readers:
        out, _ = process.communicate(timeout=120)
        heard = [line.split() for line in out.splitlines()]
        assert sum(int(rows) for _, rows in heard) == 39 * 50, "whatever is removed"
    session.close()


def test_a_name_goes_on_where_it_stopped(tmp_path: Path) -> None:
    session = opened(tmp_path)
    grow(session, 1, 3)
    first = session.changes("r", name="me")
    heard = [changes.transaction for changes in first]
    with pytest.raises(UsageProblem, match="'me' already follows `r` elsewhere"):
        session.changes("r", name="me")
    with pytest.raises(UsageProblem, match="'me' already follows `r` elsewhere"):
        Follower(Layout(tmp_path), "r", 1, "me")
    first.close()
    grow(session, 4, 2)
    session.close()
    session = opened(tmp_path)
    grow(session, 6)
    second = session.changes("r", name="me")
    heard += [changes.transaction for changes in second]
    assert heard == [1, 2, 3, 4, 5, 6]
    # one that it was given, and was interrupted over, comes again
    grow(session, 7, 2)
    for changes in second:
        assert changes.transaction == 7
        break
    second.close()
    assert [changes.transaction for changes in session.changes("r", name="me")] == [7, 8]
    session.close()


def test_nothing_is_removed_that_somebody_has_yet_to_read(tmp_path: Path) -> None:
    session = opened(tmp_path)
    layout = Layout(tmp_path)
    slow = session.changes("r", since=0, name="slow")
    grow(session, 1, 10)
    for i in range(11, 17):
        grow(session, i)
        session.checkpoint()
    assert first_recorded(layout.changes("r", 0)) == 0
    assert [changes.transaction for changes in slow][:10] == list(range(1, 11))
    for i in range(17, 20):
        grow(session, i)
        session.checkpoint()
    assert (first_recorded(layout.changes("r", 0)) or 0) >= 10, "now it is"
    with pytest.raises(UsageProblem, match=r"kept from transaction \d+ on, not from 1: read the view as it is"):
        session.changes("r", since=1)
    with pytest.raises(UsageProblem, match="kept from transaction"):
        session.changes("r", since=1, name="another")
    assert not layout.follower("r", "another").exists(), "who is refused keeps nothing from being removed"
    assert sum(len(list(changes.inserted)) for changes in slow) == 3 * 50
    session.close()


def test_marks_of_the_dead_are_removed(tmp_path: Path) -> None:
    session = opened(tmp_path)
    grow(session, 1)
    session._with_journal.journal.flush()
    layout = Layout(tmp_path)

    def dying() -> str:
        follower = Follower(layout, "r")
        assert [number for number, _, _ in follower.changes()] == [1]
        return "read"

    assert forked(dying) == "read"
    alive = session.changes("r", since=0)
    assert len(list(layout.follower("r", "x").parent.iterdir())) == 2
    with held_still(layout, "r") as still:
        assert still and marks(layout, "r") == [0]
    alive.close()
    assert list(layout.follower("r", "x").parent.iterdir()) == []
    session.close()


def test_nobody_begins_while_something_is_removed(tmp_path: Path) -> None:
    """Nor is anything removed while somebody begins: what it was told to be there is."""
    session = opened(tmp_path)
    grow(session, 1, 6)
    layout, begun = Layout(tmp_path), threading.Event()
    with held_still(layout, "r") as still:
        assert still
        thread = threading.Thread(target=lambda: (Follower(layout, "r", 0).close(), begun.set()))
        thread.start()
        assert not begun.wait(0.2)
    thread.join()
    assert begun.is_set()
    with followers._registering(layout.follower("r", "x").parent):
        with held_still(layout, "r") as still:
            assert not still
        session.checkpoint()  # which leaves the changes alone
    session.close()


def test_a_mark_that_makes_no_sense(tmp_path: Path) -> None:
    session = opened(tmp_path)
    grow(session, 1, 2)
    reader = session.changes("r", name="me")
    list(reader)
    reader.close()
    path = Layout(tmp_path).follower("r", "me")
    path.write_bytes(b"x" * 12)
    with pytest.raises(Damaged, match="say where to begin"):
        session.changes("r", name="me")
    assert [changes.transaction for changes in session.changes("r", since=1, name="me")] == [2]
    session.close()


def test_a_view_that_was_not_followed(tmp_path: Path) -> None:
    """It is from here on, beginning with all of it; across reopenings."""
    session = opened(tmp_path, facts={"e": [(1, 2)]})
    grow(session, 5)
    heard = [(changes.transaction, sorted(changes.inserted)) for changes in session.changes("s")]
    assert heard == [(2, [(1,), (5,)])]
    session.close()
    session = opened(tmp_path)
    grow(session, 6)
    session.checkpoint()
    session.close()
    session = opened(tmp_path)
    grow(session, 7)
    everything = [(changes.transaction, sorted(changes.inserted)) for changes in session.changes("s")]
    assert everything == [(2, [(1,), (5,)]), (3, [(6,)]), (4, [(7,)])]
    with pytest.raises(UsageProblem, match="not a view whose changes are published"):
        session.changes("nothing")
    session.close()


def test_a_shortened_file_that_could_not_be_synced_is_written_on(tmp_path: Path, monkeypatch: Any) -> None:
    """The file that has the name is the one that changes go to."""
    from livelog.store import changefile

    session = opened(tmp_path)
    reader = session.changes("r", since=0)
    grow(session, 1, 8)
    session.checkpoint()
    grow(session, 9)
    list(reader)

    def failing(path: Path) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(changefile, "sync_folder", failing)
        session.checkpoint()
    grow(session, 10, 2)
    assert [changes.transaction for changes in reader] == [10, 11]
    session.close()


def test_no_reader_passes_what_waits_for_room(tmp_path: Path, monkeypatch: Any) -> None:
    """Changes that could not be recorded yet are told later, whatever else happens meanwhile."""
    session = opened(tmp_path)
    reader = Follower(Layout(tmp_path), "r")
    real = os.pwritev

    def full(fd: int, *arguments: Any) -> int:
        if "/changes/r/" in os.readlink(f"/proc/self/fd/{fd}"):
            raise OSError(28, "No space left on device")
        return real(fd, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", full)
        grow(session, 1)
        time.sleep(0.25)
        for act in (session.checkpoint, lambda: session.changes("s")):
            with pytest.raises(LivelogError):
                act()
                session._with_journal.journal.flush()
        assert list(reader.changes()) == []
    session._with_journal.journal.flush()
    assert [number for number, _, _ in reader.changes()] == [1]
    reader.close()
    session.close()


# --- another program ---------------------------------------------------------------------------------------------


def test_a_migration_and_its_reader(tmp_path: Path) -> None:
    """One that was reading does not read on in what another program's view of that name does."""
    session, model = livelog.open(TEXT, facts=FACTS, store=tmp_path), Model(3)
    for k in range(1, 5):
        model.commit(session, k)
    reader = Follower(Layout(tmp_path), "reach", 2, "me")
    session.close()
    more = TEXT + "twice(x) :- seen(x, _), share(x, _).\n.output twice\n"
    with pytest.raises(UsageProblem, match="of another program"):
        livelog.open(more, store=tmp_path)
    session = livelog.open(more, store=tmp_path, migrate=True)
    with pytest.raises(UsageProblem, match="kept from transaction"):
        list(reader.changes())
    reader.close()
    later = Model(3, more)
    later.numbers = dict(model.numbers)
    assert_right(session, later, 4, 4)
    session.close()
    livelog.open(more, store=tmp_path).close()
    ((number, inserted, deleted),) = read(Layout(tmp_path), "twice")
    assert number > max(model.numbers) and sorted(inserted) == sorted(later.views(4)["twice"]) and not deleted


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        (".decl e(x: number)\nv(x) :- e(x).", ".decl e(x: number, y: number)\nv(x) :- e(x, _).", "e"),
        (".decl e(x: number)\nv(x) :- e(x).", ".decl e(x: symbol)\nv(x) :- e(x).", "e"),
        (".decl e(x: number)\nv(x) :- e(x).", "v(x) :- f(x).", "no relation `e`"),
        (".decl e(x: number)\nv(x) :- e(x).", ".decl e(x: float)\nv(x) :- e(x).", [(1.0,), (2.0,), (3.0,)]),
        (".decl e(x: number)\nv(x) :- e(x).\ne(9).",
         ".decl e(x: number)\nv(x) :- e(x).\ne(0).", [(0,), (1,), (2,), (3,)]),
        (".decl e(x: number) bag\nv(x) :- e(x).", ".decl e(x: number)\nv(x) :- e(x).", [(1,), (2,), (3,)]),
        (".decl e(x: number) ttl(5)\nv(x) :- e(x).", ".decl e(x: number) ttl(2)\nv(x) :- e(x).", [(3,)]),
        (".decl e(x: number) ttl(5)\nv(x) :- e(x).", ".decl e(x: number)\nv(x) :- e(x).", [(1,), (2,), (3,)]),
    ],
)
def test_the_facts_of_another_program(tmp_path: Path, before: str, after: str, outcome: Any) -> None:
    with livelog.open(before, store=tmp_path, facts={"e": [(1,)]}) as session:
        session.load("e", [(2,)])
        with session.transaction() as tx:
            tx.advance_to(3)
            tx.insert("e", (3,))
    if isinstance(outcome, str):
        with pytest.raises(LivelogError, match=outcome):
            livelog.open(after, store=tmp_path, migrate=True)
        with livelog.resume(tmp_path) as session:
            assert {(1,), (2,), (3,)} <= set(session["v"])
        return
    for migrate in (True, False):
        with livelog.open(after, store=tmp_path, migrate=migrate) as session:
            assert sorted(session["v"]) == outcome and session.clock == 3
    with livelog.resume(tmp_path) as session:
        assert sorted(session["v"]) == outcome


def test_keys_that_do_not_fit_and_functions_that_are_missing(tmp_path: Path) -> None:
    before = ".decl e(x: number, y: number)\nv(z) :- e(x, _), z = f(x).\n"
    livelog.open(before, functions={"f": abs}, facts={"e": [(1, 1), (1, 2)]}, store=tmp_path).close()
    keyed = before.replace("number)\n", "number) key(x)\n", 1)
    with pytest.raises(UsageProblem, match="the same key now"):
        livelog.open(keyed, functions={"f": abs}, store=tmp_path, migrate=True)
    with pytest.raises(LivelogError, match="f"):
        livelog.open(".decl e(x: number, y: number)\nv(x) :- e(x, _).", store=tmp_path, migrate=True)
    with pytest.raises(LivelogError, match="f"):
        livelog.resume(tmp_path)
    with livelog.resume(tmp_path, functions={"f": abs}) as session:
        assert sorted(session["e"]) == [(1, 1), (1, 2)]
