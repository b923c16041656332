"""The local runtime: what crosses between partitions, in what order, what is measured, and what remains."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import datalog
import livelog
from livelog.runtime import local
from livelog.runtime.component import Component
from livelog.runtime.frames import decode, encode
from operators.ledger import REPLACED, DemandLedger
from operators.provenance import support
from tests.cases import program_of
from tests.oracle import evaluate

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
Facts = dict[str, set[tuple[Any, ...]]]


def draw(rng: random.Random, relation: str, nodes: int = 7) -> tuple[int, ...]:
    row = (rng.randrange(nodes), rng.randrange(nodes))
    return (*row, rng.randint(1, 5)) if relation == "link3" else row


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


# --- order ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ship", SHIPS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_order_of_messages_matters(name: str, ship: str) -> None:
    for seed, partitions in ((1, 2), (2, 3), (3, 4)):
        run = Run(name, seed, links=7, partitions=partitions, ship=ship)
        run.verify()
        for _ in range(5):
            run.step()
            run.verify()


class Recorder:
    """Stands for a worker and writes down what it is sent."""

    def __init__(self, log: list[tuple[int, int]], number: int) -> None:
        self.log, self.number = log, number

    def receive(self, stratum: int, kind: str, target: int, rows: list[Any]) -> None:
        self.log.append((self.number, rows[0]))


def deliveries(seed: int | None) -> list[tuple[int, int]]:
    """(destination, 100 * source + number) of 10 messages on each channel between 3 partitions, as they arrive."""
    log: list[tuple[int, int]] = []
    runtime = local.LocalRuntime(livelog.open(program_of(REACHABLE)).plan, 3, "demand", 10, seed)
    runtime.workers = [Recorder(log, i) for i in range(3)]  # type: ignore[misc]
    for number in range(10):
        for source in range(3):
            for destination in range(3):
                if source != destination:
                    runtime._sender(source)(destination, 0, "death", 0, [100 * source + number])
    runtime._deliver()
    return log


def test_channels_keep_their_order_and_seeds_shuffle_the_rest() -> None:
    orders = {seed: deliveries(seed) for seed in (None, 1, 2)}
    for order in orders.values():
        assert len(order) == 60
        for source in range(3):
            for destination in range(3):
                numbers = [n % 100 for d, n in order if d == destination and n // 100 == source]
                assert numbers == (list(range(10)) if source != destination else [])
    assert deliveries(1) == orders[1]
    assert orders[None] != orders[1] != orders[2]
    assert [n % 100 for _, n in orders[None]] == sorted(n % 100 for _, n in orders[None]), "in order of sending"


def test_messages_about_the_dead_are_dropped_on_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    """A derivation was under way while one of its base tuples was deleted; over the seeds it must happen."""
    dropped = shortened = 0
    real = Component._alive

    def spy(self: Component, rows: list[Any]) -> list[Any]:
        nonlocal dropped, shortened
        alive = real(self, rows)
        dropped += len(rows) - len(alive)
        late = [t for t, a in rows if not support(self.provenance.decode(a)).isdisjoint(self.dead)]
        shortened += len(late) - (len(rows) - len(alive))
        assert all(support(a).isdisjoint(self.dead) for _, a in alive)
        return alive

    monkeypatch.setattr(Component, "_alive", spy)
    for ship in SHIPS:
        dropped = shortened = 0
        for seed in range(10):
            run = Run("pairs", seed, partitions=3, ship=ship)
            for _ in range(8):
                run.step()
            run.verify()
        assert dropped > 0, ship
        if ship == "eager":
            assert shortened > 0, "of a diagram with several derivations some are left"


def test_without_that_filter_views_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the filter is not there for nothing, and these histories would show it missing."""
    monkeypatch.setattr(Component, "_alive", lambda self, rows: [(t, self.provenance.decode(a)) for t, a in rows])
    wrong = 0
    for seed in range(8):
        try:
            run = Run("reachable", seed, partitions=3)
            for _ in range(8):
                run.step()
            run.verify()
        except (AssertionError, KeyError):
            wrong += 1
    assert wrong > 0


def test_another_partitions_derivation_takes_over_in_demand_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several partitions derive a tuple: when one derivation dies the next stands ready, and nothing is searched."""
    outcomes: Counter[Any] = Counter()
    real = DemandLedger.strike

    def spy(self: DemandLedger, t: Any, death: Any) -> Any:
        outcome = real(self, t, death)
        outcomes[outcome] += 1
        return outcome

    monkeypatch.setattr(DemandLedger, "strike", spy)
    for name in ("pairs", "costs"):
        outcomes.clear()
        for seed in range(3):
            run = Run(name, seed, links=14, partitions=3)
            for _ in range(8):
                run.step()
            run.verify()
        assert outcomes[REPLACED] > 0, f"{name}: {outcomes}"
        assert outcomes["lost"] > 0


# --- what is shipped -----------------------------------------------------------------------------------------


class Traffic:
    """All frames of all sessions while it is in place."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.frames: list[bytes] = []

        def spy(*message: Any) -> bytes:
            frame = encode(*message)
            self.frames.append(frame)
            return frame

        monkeypatch.setattr(local, "encode", spy)

    def kinds(self) -> Counter[str]:
        return Counter(decode(frame)[1] for frame in self.frames)


@pytest.mark.parametrize("ship", SHIPS)
def test_the_bytes_are_those_of_the_frames(ship: str, monkeypatch: pytest.MonkeyPatch) -> None:
    traffic = Traffic(monkeypatch)
    run = Run("detours", 1, partitions=3, ship=ship)
    for _ in range(4):
        run.step()
    stats = run.session.stats()
    assert stats.bytes_shipped == sum(map(len, traffic.frames)) > 0
    assert sum(p.frames_shipped for p in stats.partitions) == len(traffic.frames)
    assert sum(p.bytes_shipped > 0 for p in stats.partitions) > 1


def test_one_partition_ships_nothing() -> None:
    run = Run("detours", 1)
    run.step()
    assert run.session.stats().bytes_shipped == 0


LOCAL = """
.decl start(k: number, x: number) partition(k)
.decl next(k: number, x: number, y: number) partition(k)
.decl reach(k: number, x: number) partition(k)
reach(k, x) :- start(k, x).
reach(k, y) :- reach(k, x), next(k, x, y).
size(k, count<*>) :- reach(k, _).
"""


def test_what_is_at_home_is_not_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rule stays within one k, and so does every tuple: only deaths are told to the others."""
    traffic = Traffic(monkeypatch)
    rng = random.Random(1)
    links = [(k, rng.randrange(5), rng.randrange(5)) for k in range(8) for _ in range(8)]
    session = livelog.open(
        datalog.parse(LOCAL), facts={"start": [(k, 0) for k in range(8)], "next": links}, partitions=4
    )
    assert len(session["reach"]) > 8 and not traffic.frames
    with session.transaction() as tx:
        for row in links[::3]:
            tx.delete("next", row)
    assert traffic.kinds().keys() == {"death"}


def test_a_join_at_home_ships_heads_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """`link` lies where `reachable` wants it: links never travel, and no copy of them is kept."""
    traffic = Traffic(monkeypatch)
    text = REACHABLE.replace("y: number)", "y: number) partition(y)", 1) + ".decl reachable(x: number, y: number)"
    session = livelog.open(
        datalog.parse(text), facts={"link": [(i, (i * 3 + 1) % 11) for i in range(11)]}, partitions=3
    )
    component = session._runtime.workers[0].strata[-1]
    assert isinstance(component, Component)
    assert set(component.numbers) == {("link", (1,)), ("reachable", (0,))}
    targets = {decode(frame)[2] for frame in traffic.frames}
    assert targets == {component.numbers["reachable", (0,)]}
    heads = Counter(t for frame in traffic.frames for t, _ in decode(frame)[3])
    assert heads and set(heads) <= set(session["reachable"])
    assert max(heads.values()) == 1, "demand ships each tuple once"


def test_demand_ships_least(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a load: eager ships every derivation that is news, the others the first one."""
    shipped = {}
    for ship in SHIPS:
        run = Run("reachable", 3, links=16, partitions=3, ship=ship)
        shipped[ship] = run.session.stats().bytes_shipped
    assert shipped["demand"] <= shipped["lazy"] < shipped["eager"]


@pytest.mark.parametrize(
    "row", [(), ("a", 1, 2.5), (1, 1.0, -(2**63), 2**64 - 1), ((), ("x", ("y", (1,))), "ü𝄞"), (1e300, 5e-324)]
)
def test_frames_carry_every_value(row: tuple[Any, ...]) -> None:
    stratum, kind, target, rows = decode(encode(3, "insert", 7, [[row, [1, 2]], [row, [[1, 0, 1]]]]))
    assert (stratum, kind, target) == (3, "insert", 7)
    assert repr(rows) == repr([(row, [1, 2]), (row, [[1, 0, 1]])])


def test_a_broken_frame_is_refused() -> None:
    import msgspec

    whole = encode(0, "death", 0, [1, 2, 3])
    assert decode(whole) == (0, "death", 0, [1, 2, 3])
    for broken in (whole[:-1], b"", b"\xc1", encode(0, "death", 0, ["x"]), encode(0, "insert", 0, [1])):
        with pytest.raises(msgspec.MsgspecError):
            decode(broken)


# --- what is measured ----------------------------------------------------------------------------------------


def test_the_figures_of_a_session() -> None:
    text = ".decl link(x: number, y: number) ttl(5)\n" + REACHABLE.split("\n", 2)[2]
    session = livelog.open(datalog.parse(text), facts={"link": [(1, 2), (2, 3)]}, partitions=2)
    stats = session.stats()
    assert (stats.transactions, stats.clock, stats.ignored_inserts, stats.ignored_deletes) == (0, 0.0, 0, 0)
    assert len(stats.partitions) == 2 and [p.partition for p in stats.partitions] == [0, 1]
    assert stats.variables == 2
    # the base table, its copy in the component, and the view; on both partitions what was shipped and its copy
    assert stats.tuples >= 2 + 2 + 3
    assert 0 < sum(p.provenance_bytes for p in stats.partitions) < stats.state_bytes
    assert 1 <= stats.provenance_bytes_per_tuple <= 4
    with session.transaction() as tx:
        tx.insert("link", (1, 2))
        tx.delete("link", (7, 7))
        tx.advance_to(4.5)
    later = session.stats()
    assert (later.transactions, later.clock, later.ignored_inserts, later.ignored_deletes) == (1, 4.5, 1, 1)
    assert later.seconds >= later.last_seconds > 0
    with session.transaction() as tx:
        tx.advance_to(5.0)
    # the insert at time 0 refreshed (1, 2) then, not at 4.5: both expire
    assert len(session["reachable"]) == 0
    empty = session.stats()
    assert (empty.tuples, empty.variables, empty.state_bytes) == (0, 0, 0)
    assert "partition 1:" in str(empty) and "2 inserts" not in str(empty)


def test_provenance_of_one_derivation_is_no_diagram() -> None:
    """Demand mode on one partition keeps pairs only, whatever happens."""
    run = Run("pairs", 4, links=14)
    for _ in range(10):
        run.step()
    run.verify()
    assert run.session.stats().bdd_nodes == 0
    assert run.session.stats().variables == len(run.facts["link"])


# --- what remains --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("ship", SHIPS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_when_all_facts_are_gone_so_is_all_state(name: str, ship: str, partitions: int) -> None:
    run = Run(name, 8, links=6, partitions=partitions, ship=ship)
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
        assert not component._asked and not component._weights.get("link")


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
                    known = [a for book in books for a in (book.first.get(t), book.rest.get(t)) if a is not None]
                    entries += 1
                    assert any(v in support(a) for a in known), f"{table.name}{t} is listed under {v}"
    assert entries > 0


def test_questions_of_tuples_that_came_and_went_are_forgotten() -> None:
    """A tuple may be derived and lost in one transaction, and have asked meanwhile."""
    for seed in range(3):
        rng = random.Random(seed)
        session = livelog.open(program_of(DETOURS), partitions=4, seed=seed)
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
