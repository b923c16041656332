"""The local runtime: in what order messages arrive, what that must not change, and what remains in the end."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

import livelog
from livelog.runtime import local
from livelog.runtime.absorption import Absorption
from livelog.runtime.component import Component
from livelog.runtime.frames import decode
from livelog.runtime.runtime import OPEN
from operators.ledger import REPLACED, DemandLedger
from operators.provenance import support
from tests.cases import program_of
from tests.runs import DETOURS, PROGRAMS, REACHABLE, SHIPS, WAYS, Run


@pytest.mark.everywhere(spark=4, cluster=1)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_order_of_messages_matters(name: str, way: str) -> None:
    for seed, partitions in ((1, 2), (2, 3), (3, 4)):
        run = Run(name, seed, links=7, partitions=partitions, **WAYS[way])
        run.verify()
        for _ in range(5):
            run.step()
            run.verify()


class Recorder:
    """Stands for a worker and writes down what it is sent, and when it is told to work (as -1)."""

    def __init__(self, log: list[tuple[int, int]], number: int) -> None:
        self.log, self.number = log, number

    def receive(self, source: int, stratum: int, kind: str, target: int, rows: list[Any]) -> None:
        assert stratum == 0 and rows[0] // 100 == source
        self.log.append((self.number, rows[0]))

    def work(self, stratum: int) -> None:
        assert stratum == 0
        self.log.append((self.number, -1))


def deliveries(seed: int | None) -> list[tuple[int, int]]:
    """(destination, 100 * source + number) of 10 messages on each channel between 3 partitions, as they arrive."""
    log: list[tuple[int, int]] = []
    plan = livelog.open(program_of(REACHABLE)).plan
    runtime = local.LocalRuntime(plan, 3, ("absorption", "demand"), 10, seed)
    runtime.workers = [Recorder(log, i) for i in range(3)]  # type: ignore[misc]
    for number in range(10):
        for source in range(3):
            for destination in range(3):
                if source != destination:
                    runtime._sender(source)(destination, 0, "death", 0, [100 * source + number])
    runtime._deliver(0)
    return log


def test_channels_keep_their_order_and_seeds_shuffle_the_rest() -> None:
    orders = {seed: deliveries(seed) for seed in (None, 1, 2)}
    for order in orders.values():
        messages = [(d, n) for d, n in order if n >= 0]
        assert len(messages) == 60
        for source in range(3):
            for destination in range(3):
                numbers = [n % 100 for d, n in messages if d == destination and n // 100 == source]
                assert numbers == (list(range(10)) if source != destination else [])
        for destination in range(3):
            assert [n for d, n in order if d == destination][-1] == -1, "whoever received anything works in the end"
        assert all(n >= 0 for (d, n), (before, m) in pairwise(order) if d == before and m < 0), "and never in vain"
    assert deliveries(1) == orders[1]
    assert orders[None] != orders[1] != orders[2]
    for destination in range(3):
        *numbers, work = [n for d, n in orders[None] if d == destination]
        assert work == -1 and [n % 100 for n in numbers] == sorted(n % 100 for n in numbers), "in order of sending"
    works = [sum(n < 0 for _, n in orders[seed]) for seed in (1, 2)]
    assert all(6 < count < 40 for count in works), "with a seed, work begins after one message or after many"


def one_by_one(self: local.LocalRuntime, i: int) -> None:
    """Work after every message."""
    while self._order:
        source, destination = channel = self._order.popleft()
        worker = self.workers[destination]
        worker.receive(source, *decode(self._channels[channel].popleft()))
        worker.work(i)


def all_at_once(self: local.LocalRuntime, i: int) -> None:
    """Work only when no message is under way at all."""
    busy: set[int] = set()
    while self._order or busy:
        while self._order:
            source, destination = channel = self._order.popleft()
            self.workers[destination].receive(source, *decode(self._channels[channel].popleft()))
            busy.add(destination)
        for destination in sorted(busy):
            self.workers[destination].work(i)
        busy.clear()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_messages_may_gather(name: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a partition works after each message or after as many as can be, views and changes are the same."""
    frames: Counter[str] = Counter()
    for seed in range(4):
        told = {}
        for deliver in (one_by_one, all_at_once):
            monkeypatch.setattr(local.LocalRuntime, "_deliver", deliver)
            run = Run(name, seed, links=11, partitions=4, **WAYS[way])
            states = []
            for _ in range(6):
                run.step()
                run.verify()
                states.append({view: list(run.session[view]) for view in run.session.views})
            told[deliver.__name__] = states
            frames[deliver.__name__] += sum(run.session.frames_shipped)
        assert told["one_by_one"] == told["all_at_once"]
    assert 0 < frames["all_at_once"] < frames["one_by_one"], "which is what gathering is for"


def test_messages_about_the_dead_are_dropped_on_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    """A derivation was under way while one of its base tuples was deleted; over the seeds it must happen."""
    dropped = shortened = 0
    real = Absorption._alive

    def spy(self: Absorption, rows: list[Any]) -> list[Any]:
        nonlocal dropped, shortened
        alive = real(self, rows)
        dropped += len(rows) - len(alive)
        late = [t for t, a in rows if not support(self.provenance.decode(a)).isdisjoint(self.dead)]
        shortened += len(late) - (len(rows) - len(alive))
        assert all(support(a).isdisjoint(self.dead) for _, a in alive)
        return alive

    monkeypatch.setattr(Absorption, "_alive", spy)
    # in demand mode only copies, and relations with an aggregate selection, are shipped without being asked for
    for name, ship in (("costs", "demand"), ("pairs", "lazy"), ("pairs", "eager")):
        dropped = shortened = 0
        for seed in range(10):
            run = Run(name, seed, links=14 if ship == "demand" else 9, partitions=3, ship=ship)
            for _ in range(8):
                run.step()
            run.verify()
        assert dropped > 0, f"{name}, {ship}"
        if ship == "eager":
            assert shortened > 0, "of a diagram with several derivations some are left"


@pytest.mark.parametrize(("name", "ship"), [("costs", "demand"), ("reachable", "lazy"), ("reachable", "eager")])
def test_without_that_filter_views_are_wrong(name: str, ship: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the filter is not there for nothing, and these histories would show it missing."""
    monkeypatch.setattr(Absorption, "_alive", lambda self, rows: [(t, self.provenance.decode(a)) for t, a in rows])
    wrong = 0
    for seed in range(8):
        try:
            run = Run(name, seed, links=14 if ship == "demand" else 9, partitions=3, ship=ship)
            for _ in range(8):
                run.step()
            run.verify()
        except (AssertionError, KeyError):
            wrong += 1
    assert wrong > 0


def test_another_partitions_derivation_takes_over_in_demand_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several partitions ship a tuple: when one derivation dies the next stands ready, and nothing is searched.

    With an aggregate selection, that is: without one they only offer it, and one of them is asked."""
    outcomes: Counter[Any] = Counter()
    real = DemandLedger.strike

    def spy(self: DemandLedger, t: Any, death: Any) -> Any:
        outcome = real(self, t, death)
        outcomes[outcome] += 1
        return outcome

    monkeypatch.setattr(DemandLedger, "strike", spy)
    for seed in range(20):
        run = Run("costs", seed, links=14, partitions=5)
        for _ in range(8):
            run.step()
        run.verify()
    assert outcomes[REPLACED] > 0 and outcomes["lost"] > 0, outcomes


@pytest.mark.parametrize("ship", SHIPS)
def test_a_copy_of_what_died_is_not_let_in(ship: str) -> None:
    """The death overtook the copy on another channel: by hand, since with offers it takes long until it happens."""
    with livelog.open(program_of(PROGRAMS["pairs"]), facts={"link": [(1, 2)]}, partitions=3, ship=ship) as session:
        component = session._runtime.workers[0].strata[0]
        assert isinstance(component, Absorption)
        number = component.numbers["reachable", (1,)]
        assert component.tables[number] is not component.home["reachable"]
        component.receive(1, "death", 0, [1001, 1002])
        before = dict(component.tables[number].rows)
        component.receive(2, "insert", number, [((7, 8), [1001, 1005]), ((7, 9), [1005])])
        assert component.tables[number].rows.keys() - before.keys() == {(7, 9)}
        session._runtime.state = OPEN  # what happened here never happened
        assert list(session["reachable"]) == [(1, 2)]
        session.check()


COPIED = """
.decl a(x: number, y: number)
.decl b(x: number, z: number)
.decl c(z: number, y: number)
.decl s(y: number, w: number)
.decl back(x: number)
p(x, y) :- a(x, y).
p(x, y) :- b(x, z), c(z, y).
p(x, y) :- r(x, y), back(x).
r(x, w) :- p(x, y), s(y, w).
"""


@pytest.mark.everywhere(spark=2, cluster=1)
@pytest.mark.parametrize("way", WAYS)
def test_copies_are_told_who_took_over(way: str) -> None:
    """A tuple has a derivation at home and one from elsewhere. The first dies, and a copy must hear of the second:
    it knew only of the first, and others rest on the copy."""
    keys = range(20)
    with livelog.open(program_of(COPIED), partitions=4, seed=1, **WAYS[way]) as session:
        for facts in (
            {"a": [(k, 100 + k) for k in keys], "s": [(100 + k, 300 + k) for k in keys]},
            {"b": [(k, 200 + k) for k in keys], "c": [(200 + k, 100 + k) for k in keys]},
        ):
            with session.transaction() as tx:
                for relation, rows in facts.items():
                    for row in rows:
                        tx.insert(relation, row)
        before = list(session["r"])
        assert before == [(k, 300 + k) for k in keys]
        with session.transaction() as tx:
            for k in keys:
                tx.delete("a", (k, 100 + k))
        assert not tx.changes and list(session["r"]) == before
        session.check()
        with session.transaction() as tx:
            for k in keys:
                tx.delete("b", (k, 200 + k))
        assert tx.changes["r"].deleted == before
        session.check()


HELD = """
.decl base(x: number, c: number)
.decl hop(x: number, z: number, d: number)
.decl far(z: number, e: number)
.decl step(z: number, x: number, e: number)
path(x, c) :- base(x, c).
path(x, c) :- hop(x, z, d), far(z, e), c = d + e.
path(x, c) :- path(z, d), step(z, x, e), c = d + e.
best(x, min<c>) :- path(x, c).
"""


@pytest.mark.everywhere(spark=2)
@pytest.mark.parametrize("way", WAYS)
def test_what_was_held_takes_over_with_all_its_derivations(way: str) -> None:
    """A dominated tuple is held with derivations from two senders. The best one dies, then one sender's, then the
    other's: neither sends again what it relies on the owner to have."""
    keys = range(12)
    with livelog.open(program_of(HELD), partitions=4, seed=1, **WAYS[way]) as session:
        selection = session.plan.relations["path"].selection
        assert selection is not None and selection.values == ((1, "min"),)
        with session.transaction() as tx:
            for k in keys:
                tx.insert("base", (k, 1))
        with session.transaction() as tx:
            for k in keys:
                for z, d in ((100 + k, 3), (200 + k, 2)):
                    tx.insert("hop", (k, z, d))
                    tx.insert("far", (z, 7 - d))
        assert not tx.changes
        for relation, row, cost in (("base", (1,), 7), ("hop", (100, 3), 7), ("hop", (200, 2), None)):
            with session.transaction() as tx:
                for k in keys:
                    tx.delete(relation, (k, row[0] + k, row[1]) if relation == "hop" else (k, *row))
            assert list(session["best"]) == ([] if cost is None else [(k, cost) for k in keys])
            session.check()


# --- what remains --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_when_all_facts_are_gone_so_is_all_state(name: str, way: str, partitions: int) -> None:
    run = Run(name, 8, links=6, partitions=partitions, **WAYS[way])
    for _ in range(6):
        run.step()
    run.clear()
    run.verify()
    stats = run.session.stats()
    assert (stats.tuples, stats.variables, stats.state_bytes) == (0, 0, 0)
    if name != "detours" or partitions == 1:
        # the variable of an answer that nobody asks for is released at home; others keep a level until it is used again
        assert sum(p.bdd_levels for p in stats.partitions) == 0
    for component in run.components():
        assert not any(table.mentions for table in component.tables)
        assert not any(index.buckets for table in component.tables for index in table.indexes.values())
        for holder in (*component.tables, *component.ships.values()):
            if holder.selection is not None:
                assert not holder.selection.best and not holder.selection.members and not holder.selection.held.first
        assert not component._asked and not component._weights.get("link") and not component.outgoing
        assert not any(offers.asked or any(offers.by.values()) for offers in component.offers.values())
        assert not any(ship.rows for ship in component.ships.values())


@pytest.mark.parametrize("ship", SHIPS)
@pytest.mark.parametrize("name", ["pairs", "costs", "detours"])
def test_nothing_is_mentioned_that_is_gone(name: str, ship: str) -> None:
    """The lists that lead from a variable to the tuples that mention it hold just those, however long it goes on."""
    run = Run(name, 5, links=7, partitions=3, ship=ship)
    for _ in range(12):
        run.step()
    entries = 0
    for component in run.components():
        for table in component.tables:
            books = [table.ledger] + ([table.selection.held] if table.selection is not None else [])
            for v, tuples in table.mentions.items():
                for t in tuples:
                    known = [a for book in books if t in book.first for a in (book.first[t], *book.others(t))]
                    entries += 1
                    assert any(v in support(a) for a in known), f"{table.name}{t} is listed under {v}"
    assert entries > 0


@pytest.mark.parametrize("way", WAYS)
def test_questions_of_tuples_that_came_and_went_are_forgotten(way: str) -> None:
    """A tuple may be derived and lost in one transaction, and have asked meanwhile."""
    for seed in range(3):
        rng = random.Random(seed)
        session = livelog.open(program_of(DETOURS), partitions=4, seed=seed, **WAYS[way])
        here: set[tuple[int, int]] = set()
        for _ in range(30):
            with session.transaction() as tx:
                for _ in range(3):
                    row = (rng.choice(sorted(here))[1] if here else 0, rng.randrange(60))
                    here.add(row)
                    tx.insert("link", row)
                    if len(here) > 6:
                        row = rng.choice(sorted(here))
                        here.discard(row)
                        tx.delete("link", row)
            for worker in session._runtime.workers:
                for stratum in worker.strata:
                    if isinstance(stratum, Component):
                        for table, wiring in zip(stratum.tables, stratum.wiring, strict=True):
                            for lookup, rule in wiring.asks:
                                asked = {tuple(t[c] for c in rule.left.key) for t in table.rows}
                                assert set(lookup._keys) == asked
        session.check()
