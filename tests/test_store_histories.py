"""Random programs and histories in a folder: closed, killed and opened again at random points, with other partitions
and checkpoints, they are what the oracle says, and what was published adds up.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import livelog
from datalog.errors import LivelogError, RuntimeProblem
from livelog.runtime import stored
from livelog.store import journal
from livelog.store.followers import Follower
from livelog.store.layout import Layout
from tests.cases import program_of, states
from tests.fault_cases import SCENARIOS
from tests.faults import commit, facts_of, shown
from tests.generate import generate
from tests.harness import METHODS, Mismatch, OnPurpose, apply, difference
from tests.registered import AGGREGATES, FUNCTIONS

SEEDS = 40


class Life:
    """A session in a folder that ends now and then, and what readers of its views have heard."""

    def __init__(self, folder: Path, text: str, facts: Any, rng: random.Random, **how: Any) -> None:
        self.folder, self._text, self._rng, self._how, self._deaths = folder, text, rng, how, 0
        self._sync = rng.choice(("always", "interval"))
        self.session = livelog.open(program_of(text), facts=facts, store=folder, sync=self._sync, **how)
        self.heard = {view: set(self.session[view]) for view in self.session.plan.outputs}
        self.follow()  # from here on nothing is removed that they have yet to hear

    def follow(self) -> None:
        """What readers hear that come, go on where the last one stopped, and go."""
        self.session._with_journal.journal.flush()
        for view, rows in self.heard.items():
            reader = Follower(Layout(self.folder), view, None if self._path(view).exists() else 0, "reader")
            for number, inserted, deleted in reader.changes():
                assert rows.issuperset(deleted), f"{view} loses at {number} what it has not"
                rows.difference_update(deleted)
                assert rows.isdisjoint(inserted), f"{view} gains at {number} what it has"
                rows.update(inserted)
            reader.close()

    def _path(self, view: str) -> Path:
        return Layout(self.folder).follower(view, "reader")

    def something(self) -> None:
        """What may happen between two transactions."""
        roll = self._rng.random()
        if roll < 0.2:
            self.session.checkpoint()
        elif roll < 0.35:
            self.follow()
        elif roll < 0.6:
            self.end(kill=roll < 0.48)

    def end(self, kill: bool) -> None:
        """It is closed; or killed, of which a copy of the folder is what is left. Then it is opened again."""
        if kill:
            if self._sync == "interval":  # else the last ones need not be there
                self.session._with_journal.journal._write_late(self.session._with_journal.journal._late)  # type: ignore
            self._deaths += 1
            left = self.folder.with_name(f"{self.folder.name}{self._deaths}")
            shutil.copytree(self.folder, left)
            self.session.close()
            self.folder = left
        else:
            self.session.close()
        strategy, ship = self._rng.choice(METHODS)
        how = {"strategy": strategy, "ship": ship, "partitions": self._rng.choice((1, 3)), **self._how}
        if self._rng.random() < 0.5:
            self.session = livelog.resume(self.folder, functions=FUNCTIONS, aggregates=AGGREGATES, sync=self._sync)
        else:
            self.session = livelog.open(program_of(self._text), store=self.folder, sync=self._sync, **how)


def run(seed: int, folder: Path) -> None:
    case, rng = generate(seed), random.Random(f"store {seed}")
    expected = states(case)
    life = Life(folder, case.text, case.loaded, rng, limit=200_000)
    try:
        for at, operations in enumerate([(), *case.history]):
            if at:
                try:
                    with life.session.transaction(source="case", position=at) as tx:
                        apply(tx, operations)
                    assert not expected[at].failed
                except (OnPurpose, RuntimeProblem):
                    if not expected[at].failed:
                        raise
            life.something()
            state, session = expected[at], life.session
            assert session.clock == state.clock
            for name in (*session.plan.outputs, *session.program.base):
                if name not in session.plan.pruned:
                    assert not difference(state.relations[name], set(session[name])), f"{name} after {at}"
        life.session.check()
        life.follow()
        for view, rows in life.heard.items():
            assert not difference(set(life.session[view]), rows), f"{view} as it was heard"
    except Exception as error:
        raise Mismatch(type(error).__name__, f"seed {seed}: {error}\n{case.show()}") from error
    finally:
        life.session.close()


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_histories_across_reopenings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    monkeypatch.setattr(journal, "INTERVAL", 3600)
    monkeypatch.setattr(stored, "LEAST", 600)
    for seed in range(first, first + 10):
        run(seed, tmp_path / f"{seed}")


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("partitions", [1, 3])
def test_scenarios_across_reopenings(tmp_path: Path, scenario: str, partitions: int) -> None:
    """Keys, bags, expirations, aggregates, nested ones, approximated views: a session that was closed and killed before
    and after each transaction is like one that nothing happened to."""
    case = SCENARIOS[scenario]
    program = program_of(case.text)
    calm = livelog.open(program, facts=case.facts, partitions=partitions)
    life = Life(tmp_path / "s", case.text, case.facts, random.Random(scenario), strategy="absorption", ship=None)
    life._how["partitions"] = partitions
    for n, operations in enumerate((*case.before, case.change, case.more, case.more)):
        for session in (calm, life.session):
            try:
                commit(session, operations)
            except RuntimeProblem:
                assert case.fails
        if n % 2:
            life.session.checkpoint()
        life.end(kill=n % 3 == 1)
        assert shown(life.session) == shown(calm) and facts_of(life.session) == facts_of(calm)
        life.session.check()
        life.follow()
        assert {view: sorted(rows) for view, rows in life.heard.items()} == {
            view: sorted(calm[view]) for view in life.heard
        }
    life.session.close()


VALUES = """
.decl flag()
.decl big(x: unsigned, y: number)
.decl real(x: float)
.decl word(x: symbol)
.decl some(x: number)
lists([x, y], w) :- big(x, y), word(w).
on() :- flag().
none(x) :- some(x), !flag().
kept(x) :- real(x).
.output lists
.output on
.output none
.output kept
"""


def test_values_of_all_kinds(tmp_path: Path) -> None:
    facts: dict[str, list[Any]] = {
        "flag": [()], "big": [(2**64 - 1, -(2**63))], "real": [(-0.0,), (5e-324,), (1e308,)],
        "word": [("",), ("\x00",), ("\U0001f600",), ("a" * 70_000,)], "some": [],
    }  # fmt: skip
    with livelog.open(VALUES, facts=facts, store=tmp_path) as session:
        before = {name: list(session[name]) for name in session.views}
    for n in range(3):
        with livelog.resume(tmp_path) as session:
            assert repr({name: list(session[name]) for name in session.views}) == repr(before)
            for wrong in (("word", ("\ud800",)), ("some", (10**400,)), ("big", (2**64, 0))):
                with pytest.raises(LivelogError), session.transaction() as tx:
                    tx.insert(*wrong)
            with session.transaction() as tx:
                tx.delete("flag", ())
                tx.insert_all("some", [(i,) for i in range(5 * n + 5)])
            with session.transaction() as tx:
                tx.insert("flag", ())
                tx.delete_all("some", [(i,) for i in range(5 * n + 5)])
            if n == 1:
                session.checkpoint()
            assert [len(list(changes.inserted)) for changes in session.changes("none")][-2:] == [5 * n + 5, 0]
