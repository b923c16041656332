"""Random programs whose views are defined and dropped between random transactions: at each moment every view is what
the oracle makes of its rules, the changes that were told add up to it, and nothing else is evaluated again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from datalog.errors import CheckProblem
from livelog.runtime.worker import Worker
from tests.cases import Case, program_of, states, succeeding
from tests.defining import Group, Pieces
from tests.generate import generate
from tests.harness import EAGER_NODES, METHODS, Configuration, Mismatch, accumulate, apply, difference

SEEDS = 60
PARTITIONS = (1, 3)


@contextmanager
def untouched(session: Any) -> Iterator[None]:
    """No stratum that was there is evaluated while this lasts, and those that stay are the same objects."""
    workers = session._runtime.workers
    before = [list(worker.strata) for worker in workers]
    begun: list[Any] = []
    begin = Worker.begin

    def watched(self: Worker, i: int) -> None:
        begun.append(self.strata[i])
        begin(self, i)

    Worker.begin = watched  # type: ignore[method-assign]
    try:
        yield
    finally:
        Worker.begin = begin  # type: ignore[method-assign]
    assert session._runtime.workers is workers
    for worker, strata in zip(workers, before, strict=True):
        assert not any(stratum is old for stratum in begun for old in strata), "an old stratum was evaluated"
        named = {stratum.stratum.relations: stratum for stratum in worker.strata}
        for old in strata:
            assert named.get(old.stratum.relations, old) is old, f"{old.stratum.relations} was made anew"


class Life:
    """A session whose views come and go, and the sum of what it told."""

    def __init__(self, case: Case, configuration: Configuration) -> None:
        self.case = case
        self.pieces = Pieces(case)
        self.rng = random.Random(f"define {case.seed}")
        self.there: list[Group] = []
        self.session = configuration.open(program_of(self.pieces.text), facts=case.loaded, limit=200_000)
        self.total: dict[str, set[Any]] = {view: set() for view in self.session.views}
        self.heard(self.session.initial)
        self.edits = 0

    def heard(self, log: Any) -> None:
        problem = accumulate(self.total, log, self.session.views)
        assert not problem, problem

    def edit(self) -> None:
        """Define some views, or drop some."""
        session = self.session
        new, old = self.pieces.choice(self.rng, self.there)
        if new is not None:
            try:
                with untouched(session):
                    log = session.define(new.text)
            except CheckProblem as problem:
                assert "only the best tuples" in problem.message, problem
                return
            for name in session.views:
                self.total.setdefault(name, set())
            assert not any(log[name] for name in session.views if name not in new.names)
            self.there.append(new)
            self.heard(log)
        elif old is not None:
            with untouched(session):
                session.drop(*old.names)
            self.there.remove(old)
            for name in old.names:
                self.total.pop(name, None)
                assert name not in session and name not in session.plan.relations
        self.edits += 1

    def compare(self, expected: Any) -> None:
        session = self.session
        for name in sorted(session.program.derived | session.program.base):
            if name.startswith("known_"):
                continue
            want = expected.relations[name]
            if name in session.plan.pruned:
                got = set(session._runtime.rows(name))
                assert not difference(self.case.pruned[name].winners(want), got), f"the winners of {name}"
                if self.case.reference != self.case.text:
                    continue
            found = difference(want, set(session[name]))
            assert not found, f"{name} is wrong\n{found}"
            if name in self.total:
                found = difference(want, self.total[name])
                assert not found, f"the sum of the changes of {name}\n{found}"


def run(case: Case, configuration: Configuration) -> int:
    case = succeeding(case)
    expected = states(case)
    life = Life(case, configuration)
    at = -1
    try:
        with life.session as session:
            life.compare(expected[0])
            for at, operations in enumerate(case.history):
                for _ in range(life.rng.choice((0, 1, 1, 2))):
                    life.edit()
                    life.compare(expected[at])
                with session.transaction() as tx:
                    apply(tx, operations)
                life.heard(tx.changes)
                life.compare(expected[at + 1])
                if configuration.ship == "eager" and session.stats().bdd_nodes > EAGER_NODES:
                    break
            session.check()
            while life.there:
                session.drop(*[name for group in life.there for name in group.names])
                life.there.clear()
            session.check()
            life.compare(expected[at + 1])
    except Exception as error:
        text = f"{error}\n{configuration}, {[g.names for g in life.there]}\n{case.show(at)}"
        raise Mismatch(type(error).__name__, text) from error
    return life.edits


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
@pytest.mark.parametrize("method", METHODS, ids=lambda method: "-".join(filter(None, method)))
def test_views_that_come_and_go(first: int, method: tuple[str, str | None]) -> None:
    edits = 0
    for seed in range(first, first + 10):
        partitions = PARTITIONS[(seed + METHODS.index(method)) % 2]
        interleaving = seed if partitions > 1 else None
        edits += run(generate(seed), Configuration(*method, partitions, interleaving))
    assert edits > 30
