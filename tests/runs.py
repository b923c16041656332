"""Sessions under random histories of a few small programs, compared with the oracle after every transaction."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import livelog
from livelog.runtime.component import Component
from tests.cases import program_of
from tests.harness import METHODS
from tests.oracle import evaluate

__all__ = ["DETOURS", "PAIRS", "PROGRAMS", "REACHABLE", "SHIPS", "WAYS", "Run"]

REACHABLE = """
.decl link(x: number, y: number)
reachable(x, y) :- link(x, y).
reachable(x, y) :- link(x, z), reachable(z, y).
"""
PAIRS = REACHABLE.replace("link(x, z), reachable(z, y)", "reachable(x, z), reachable(z, y)")
COSTS = """
.decl link(x: number, y: number, c: number)
path(x, y, c) :- link(x, y, c).
path(x, y, c) :- link(x, z, a), path(z, y, b), c = a + b.
best(x, y, min<c>) :- path(x, y, c).
"""
DETOURS = """
.decl link(x: number, y: number)
.decl shut(x: number, y: number)
way(x, y) :- link(x, y).
way(x, y) :- way(x, z), way(z, y), !shut(x, y).
far(x, count<*>) :- way(x, _).
"""
PROGRAMS = {"reachable": REACHABLE, "pairs": PAIRS, "costs": COSTS, "detours": DETOURS}
SHIPS = ("demand", "lazy", "eager")
WAYS: dict[str, dict[str, Any]] = {
    strategy if ship is None else f"{strategy}-{ship}": {"strategy": strategy, "ship": ship}
    for strategy, ship in METHODS
}
"""All strategies with their ship modes, by name, as options for `Run` and `livelog.open`."""
Facts = dict[str, set[tuple[Any, ...]]]


class Run:
    """A session under a random history, compared with the oracle after every transaction."""

    def __init__(self, name: str, seed: int, links: int = 9, **options: Any) -> None:
        self.rng = random.Random(f"{name} {seed}")
        self.program = program_of(PROGRAMS[name])
        self.costs = name == "costs"
        self.facts: Facts = {r: set() for r in ("link", "shut") if r in self.program.relations}
        for _ in range(links):
            self.facts["link"].add(self.row("link"))
        start = {r: list(rows) for r, rows in self.facts.items()}
        self.session = livelog.open(self.program, facts=start, seed=seed, **options)
        self.views = {v: set(self.session[v]) for v in self.session.views}

    def row(self, relation: str) -> tuple[int, ...]:
        row = (self.rng.randrange(7), self.rng.randrange(7))
        return (*row, self.rng.randint(1, 5)) if self.costs else row

    def expected(self) -> dict[str, set[tuple[Any, ...]]]:
        if self.costs:  # the oracle would not come to an end: paths get longer for ever
            best: dict[tuple[int, int], int] = {}
            changed = True
            while changed:
                changed = False
                for x, z, c in self.facts["link"]:
                    ways = [((x, z), c), *(((x, y), c + d) for (w, y), d in best.items() if w == z)]
                    for ends, cost in ways:
                        if cost < best.get(ends, 10**9):
                            best[ends], changed = cost, True
            return {"best": {(*ends, c) for ends, c in best.items()}}
        found = evaluate(self.program, {r: list(rows) for r, rows in self.facts.items()})
        return {v: found[v] for v in self.session.views}

    def step(self) -> None:
        """One transaction with insertions and deletions together, so that they meet on the way."""
        with self.session.transaction() as tx:
            for _ in range(self.rng.randint(1, 3)):
                relation = self.rng.choice(sorted(self.facts))
                rows = self.facts[relation]
                if rows and self.rng.random() < 0.55:
                    row = self.rng.choice(sorted(rows))
                    rows.discard(row)
                    tx.delete(relation, row)
                else:
                    row = self.row(relation)
                    rows.add(row)
                    tx.insert(relation, row)
        for view in self.session.views:
            change = tx.changes[view]
            assert self.views[view] >= set(change.deleted) and not self.views[view] & set(change.inserted)
            self.views[view] = self.views[view] - set(change.deleted) | set(change.inserted)

    def verify(self) -> None:
        expected = self.expected()
        for view, rows in expected.items():
            assert set(self.session[view]) == rows == self.views[view], view
        self.session.check()

    def clear(self) -> None:
        with self.session.transaction() as tx:
            for relation, rows in self.facts.items():
                for row in rows:
                    tx.delete(relation, row)
                rows.clear()
        for view in self.session.views:
            assert set(tx.changes[view].deleted) == self.views[view] and not tx.changes[view].inserted
            self.views[view] = set()

    def components(self) -> Iterator[Component]:
        for worker in self.session._runtime.workers:
            for stratum in worker.strata:
                if isinstance(stratum, Component):
                    yield stratum
