"""A session in a folder, stopped at each of its calls of the system: it is as before the step or as after it.

Each of the runs happens in a process that is forked for it: it tells what its caller was told, and ends where it is
stopped. What is left is opened again here, as it was when the process was killed, and as a machine without power would
come back with it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import livelog
from datalog.errors import UsageProblem
from livelog.store import journal
from livelog.store.followers import followed
from livelog.store.layout import Layout
from tests.crashes import Machine
from tests.faults import forked
from tests.stores import FACTS, TEXT, Model, assert_right

WAYS = ("killed", "without power", "without power, all names kept")
LIFE = TEXT.replace(".output times\n", "").replace(".output share\n", "")
MORE = "twice(x) :- seen(x, _), share(x, _).\n.output twice\n"
"""What another program has besides."""


Tell = Callable[[str], None]
Act = Callable[[Path, Tell], None]


class Kept:
    """Keeps the sessions of a run, lest they are closed when it was stopped: nobody does that for who is killed."""

    def __init__(self) -> None:
        self._sessions: list[livelog.Session] = []

    def __call__(self, session: livelog.Session) -> livelog.Session:
        self._sessions.append(session)
        return session


KEPT = Kept()


class Told:
    """What the caller was told before a run was stopped: lines of a word and a number or a name."""

    def __init__(self, text: str) -> None:
        assert not text.startswith("wrong"), text
        self._lines = [line.split() for line in text.splitlines()]

    def all(self, what: str) -> list[str]:
        return [word for kind, word in self._lines if kind == what]

    def last(self, what: str, otherwise: int = 0) -> int:
        return max(map(int, self.all(what)), default=otherwise)


def ran(act: Act, root: Path, stop: int | None) -> Told:
    """Run in a process of its own, which makes the images, too."""

    def act_stopped() -> str:
        told = ["calls 0"]
        with Machine(root, stop) as machine:
            act(root / "s", told.append)
        if stop is not None:
            assert machine.calls >= stop, "it was not stopped"
            for names in (False, True):
                machine.after_power_loss(root.with_name(f"{root.name}-{names:d}"), names=names)
        return "\n".join([*told, f"calls {machine.calls}"])

    return Told(forked(act_stopped))


def run_and_tell(session: livelog.Session, model: Model, tell: Tell, ks: range, sync: str) -> None:
    for k in ks:
        tell(f"begun {k}")
        number = model.commit(session, k)
        tell(f"number {number}:{k}")
        if sync == "always":
            tell(f"sure {k}")


def flushed(session: livelog.Session, tell: Tell) -> None:
    session._with_journal.journal.flush()
    tell(f"sure {session.position('feed')}")


def life(partitions: int, sync: str, seed: int) -> Act:
    """Founding, commits, following, checkpoints of which the second removes something, an end, a reopening."""

    def act(folder: Path, tell: Tell) -> None:
        model = Model(seed, LIFE)
        session = KEPT(livelog.open(LIFE, facts=FACTS, store=folder, partitions=partitions, sync=sync))
        tell("founded 1")
        run_and_tell(session, model, tell, range(1, 4), sync)
        session.changes("fair").close()
        if sync == "always":
            tell("followed fair")
        run_and_tell(session, model, tell, range(4, 7), sync)
        flushed(session, tell)
        tell("followed fair")
        run_and_tell(session, model, tell, range(7, 9), sync)
        for k in (9, 10):
            session.checkpoint()
            tell(f"sure {k - 1}")
            run_and_tell(session, model, tell, range(k, k + 1), sync)
        session.close()
        tell("sure 10")
        session = KEPT(livelog.resume(folder, sync=sync))
        run_and_tell(session, model, tell, range(11, 13), sync)
        session.close()
        tell("sure 12")

    return act


def images(root: Path) -> list[tuple[str, Path]]:
    """Where the three folders are that a run has left."""
    paths = (root, root.with_name(f"{root.name}-0"), root.with_name(f"{root.name}-1"))
    return [(way, path / "s") for way, path in zip(WAYS, paths, strict=True)]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flushes are those of the run, and what is on the disk is what `Machine` says."""
    monkeypatch.setattr(journal, "INTERVAL", 3600)
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda fd: None)


def assert_goes_on(folder: Path, told: Told, partitions: int, seed: int, further: bool) -> None:
    model = Model(seed, LIFE)
    for entry in told.all("number"):
        number, k = map(int, entry.split(":"))
        model.numbers[number] = k
    there = Layout(folder).session.exists()
    assert there or not told.all("founded")
    session = livelog.open(LIFE, facts=FACTS, store=folder, partitions=partitions)
    k = assert_right(session, model, told.last("sure"), told.last("begun"))
    views = set(followed(Layout(folder)))
    assert views - {"fair"} == {"reach", "lone"}
    assert "fair" in views or not told.all("followed")
    if not further:
        session.close()
        return
    model.numbers = {number: at for number, at in model.numbers.items() if at <= k}
    model.commit(session, k + 1)
    session.checkpoint()
    session.close()
    session = livelog.resume(folder)
    assert assert_right(session, model, k + 1, k + 1) == k + 1
    session.close()
    assert not list(folder.rglob(".*.tmp")), "what was being written is cleared away"


@pytest.mark.parametrize(
    ("partitions", "sync", "seed", "share"), [(1, "always", 1, 2), (3, "interval", 2, 11), (1, "interval", 3, 13)]
)
def test_a_life_that_ends_anywhere(
    tmp_path: Path, quick: None, request: pytest.FixtureRequest, partitions: int, sync: str, seed: int, share: int
) -> None:
    """At every call in all three ways with `--faults`; else at every second one or fewer, in turn in one of them."""
    asked = request.config.getoption("--faults")
    act = life(partitions, sync, seed)
    (tmp_path / "dry").mkdir()
    total = ran(act, tmp_path / "dry", None).last("calls")
    assert total > 150, "all these calls are looked at"
    for stop in range(1, total + 1, 1 if asked else share):
        root = tmp_path / f"{stop}"
        root.mkdir()
        told = ran(act, root, stop)
        ways = images(root)
        for way, folder in ways if asked else [ways[stop % 3]]:
            try:
                assert_goes_on(folder, told, partitions, seed, bool(asked) or stop % 5 == 0)
            except BaseException:
                print(f"stopped at call {stop} of {total}, {way}: {folder}")
                raise
        for made in tmp_path.glob(f"{stop}*"):
            shutil.rmtree(made)


def test_a_migration_that_ends_anywhere(tmp_path: Path, quick: None, request: pytest.FixtureRequest) -> None:
    """The folder is of the one program or of the other, and has the facts."""
    before, model = tmp_path / "before", Model(4)
    session = livelog.open(TEXT, facts=FACTS, store=before / "s")
    for k in range(1, 6):
        model.commit(session, k)
    session.checkpoint()
    model.commit(session, 6)
    session.close()
    last = max(model.numbers)

    def act(folder: Path, tell: Tell) -> None:
        session = KEPT(livelog.open(TEXT + MORE, store=folder, migrate=True))
        tell("migrated 1")
        model.commit(session, 7)
        tell("sure 7")
        session.close()

    shutil.copytree(before, tmp_path / "dry")
    total = ran(act, tmp_path / "dry", None).last("calls")
    assert total > 60
    outcomes = set()
    for stop in range(1, total + 1, 1 if request.config.getoption("--faults") else 2):
        root = tmp_path / f"{stop}"
        shutil.copytree(before, root)
        told = ran(act, root, stop)
        ways = images(root)
        for way, folder in ways if request.config.getoption("--faults") else [ways[stop % 3]]:
            try:
                model.numbers = {number: k for number, k in model.numbers.items() if number <= last}
                text = TEXT
                try:
                    session = livelog.open(text, store=folder)
                except UsageProblem as other:
                    assert "another program" in other.message
                    text = TEXT + MORE
                    session = livelog.open(text, store=folder)
                outcomes.add(text)
                assert text != TEXT or not told.all("migrated")
                now = Model(4, text)
                now.numbers = dict(model.numbers)
                k = assert_right(session, now, told.last("sure", 6), 7)
                session.checkpoint()
                now.commit(session, k + 1)
                session.close()
                session = livelog.open(text, store=folder)
                assert_right(session, now, k + 1, k + 1)
                session.close()
            except BaseException:
                print(f"stopped at call {stop} of {total}, {way}: {folder}")
                raise
        for made in tmp_path.glob(f"{stop}*"):
            shutil.rmtree(made)
    assert len(outcomes) == 2
