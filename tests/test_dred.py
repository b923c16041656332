"""The classical method: it deletes too much, waits for everybody, and derives again what still holds."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

import datalog
import livelog
from livelog.runtime import local
from livelog.runtime.dred import DRed
from livelog.runtime.frames import encode
from livelog.runtime.local import LocalRuntime
from operators.partition import Router
from tests.cases import program_of
from tests.oracle import evaluate
from tests.runs import PROGRAMS, REACHABLE, Run

Row = tuple[Any, ...]
Edges = set[tuple[int, int]]


def opened(text: str, partitions: int = 1, seed: int | None = None, **facts: Any) -> Any:
    rows = {name: sorted(given) for name, given in facts.items()}
    return livelog.open(program_of(text), facts=rows, strategy="dred", partitions=partitions, seed=seed)


def reach(links: Edges) -> Edges:
    return evaluate(program_of(REACHABLE), {"link": sorted(links)})["reachable"]


def ring(nodes: int) -> Edges:
    """A cycle in both directions: whatever single link fails, everybody is still reached."""
    return {(i, (i + step) % nodes) for i in range(nodes) for step in (1, -1)}


class Phases:
    """What the first phase took out of the home tables, and in which order things happen, while it is in place.

    `log` has "drop" and "put" for messages worked off, "again" whenever a partition begins its second phase.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lost: set[tuple[str, Row]] = set()
        self.log: list[str] = []
        real_receive, real_resume = DRed.receive, DRed.resume

        def receive(component: DRed, source: int, kind: str, target: int, rows: list[Any]) -> None:
            self.log.append(kind)
            real_receive(component, source, kind, target, rows)

        def resume(component: DRed, level: int) -> bool:
            for number, tuples in component._lost.items():
                table = component.tables[number]
                if component.home.get(table.name) is table:
                    self.lost.update((table.name, t) for t in tuples)
            if component._lost or component._coming or component._withdrawn:
                self.log.append("again")
            return real_resume(component, level)

        monkeypatch.setattr(DRed, "receive", receive)
        monkeypatch.setattr(DRed, "resume", resume)

    def look(self) -> tuple[set[tuple[str, Row]], list[str]]:
        found = self.lost, self.log
        self.lost, self.log = set(), []
        return found


def over_deleted(links: Edges, gone: Edges) -> Edges:
    """All that has some derivation from a deleted link, over the links as they were."""
    before = reach(links)
    found = set(gone)
    found |= {(x, y) for x, z in gone for w, y in before if w == z}
    while more := {(x, y) for x, z in links for w, y in found if w == z} - found:
        found |= more
    return found


# --- too much ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [1, 2, 5])
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_it_deletes_all_that_has_a_derivation_from_what_is_lost(
    partitions: int, seed: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a two-way cycle nothing really goes, and everything is deleted first."""
    phases, links = Phases(monkeypatch), ring(6)
    with opened(REACHABLE, partitions, seed, link=links) as session:
        everything = set(session["reachable"])
        assert len(everything) == 36
        phases.look()
        with session.transaction() as tx:
            tx.delete("link", (0, 1))
        lost, _ = phases.look()
        assert {t for name, t in lost if name == "reachable"} == everything == over_deleted(links, {(0, 1)})
        assert not tx.changes and set(session["reachable"]) == everything
        session.check()


@pytest.mark.parametrize("partitions", [1, 3, 5])
def test_how_much_is_deleted_and_how_much_goes(partitions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    phases = Phases(monkeypatch)
    too_many = 0
    for seed in range(12):
        rng = random.Random(seed)
        links = {(rng.randrange(8), rng.randrange(8)) for _ in range(14)}
        gone = set(rng.sample(sorted(links), 2))
        with opened(REACHABLE, partitions, seed, link=links) as session:
            phases.look()
            with session.transaction() as tx:
                for row in sorted(gone):
                    tx.delete("link", row)
            lost, _ = phases.look()
            deleted = {t for name, t in lost if name == "reachable"}
            really = reach(links) - reach(links - gone)
            assert deleted == over_deleted(links, gone) >= really == set(tx.changes["reachable"].deleted)
            too_many += len(deleted - really)
    assert too_many > 50


def test_insertions_delete_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    phases = Phases(monkeypatch)
    with opened(REACHABLE, 3, 1, link=ring(5)) as session:
        session.load("link", [(0, 2), (7, 8)])
        lost, log = phases.look()
        assert not lost and "drop" not in log and log.count("again") > 0
        session.check()


# --- in two phases -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_derived_again_before_all_deletions_are_worked_off(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    phases = Phases(monkeypatch)
    drops = agains = 0
    for seed in range(6):
        run = Run(name, seed, links=14, partitions=4, strategy="dred")
        phases.look()
        for _ in range(6):
            run.step()
            run.verify()
            _, log = phases.look()
            first = log.index("again") if "again" in log else len(log)
            assert "put" not in log[:first] and "drop" not in log[first:], log
            drops += log.count("drop")
            agains += log.count("again")
    assert drops > 20 and agains > 20


def test_without_waiting_views_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition that derives again at once finds what others are about to delete. In a circle it has no end."""
    real_work_in, real_receive = DRed.work_in, DRed.receive
    messages = 0

    def hasty(self: DRed, *arguments: Any) -> None:
        real_work_in(self, *arguments)
        self.resume(0)

    def counted(self: DRed, *arguments: Any) -> None:
        nonlocal messages
        messages += 1
        assert messages < 3000, "it does not come to an end"
        real_receive(self, *arguments)

    def run_all() -> int:
        nonlocal messages
        wrong = 0
        for seed in range(12):
            messages = 0
            try:
                run = Run("reachable", seed, links=14, partitions=4, strategy="dred")
                for _ in range(6):
                    run.step()
                run.verify()
            except (AssertionError, KeyError):
                wrong += 1
        return wrong

    monkeypatch.setattr(DRed, "receive", counted)
    assert run_all() == 0
    monkeypatch.setattr(DRed, "work_in", hasty)
    assert run_all() > 0


# --- who stands by what --------------------------------------------------------------------------------------

SOURCES = """
.decl a(k: number, x: number) partition(k)
.decl step(x: number, y: number)
t(x) :- a(_, x).
t(y) :- t(x), step(x, y).
"""
PARTITIONS = 4


def key(partition: int) -> int:
    """A number that lives on a partition."""
    return next(k for k in range(1000) if Router((0,), PARTITIONS)((k,)) == partition)


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_a_tuple_that_somebody_else_stands_by_comes_back_without_a_message(
    seed: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []

    def spy(*message: Any) -> bytes:
        sent.append(message[1])
        return encode(*message)

    monkeypatch.setattr(local, "encode", spy)
    x, y = key(0), key(0) + 500
    with opened(SOURCES, PARTITIONS, seed, a={(key(p), x) for p in (1, 2, 3)}, step={(x, x), (y, x)}) as session:
        owner = session._runtime.workers[0].strata[0]
        assert owner.home["t"].rows[x,] == 0b1110
        sent.clear()
        for p, left in ((2, 0b1010), (1, 0b1000)):
            with session.transaction() as tx:
                tx.delete("a", (key(p), x))
            assert not tx.changes and list(session["t"]) == [(x,)]
            assert owner.home["t"].rows[x,] == left
            assert sent == ["drop"], "and nothing else"
            sent.clear()
            session.check()
        with session.transaction() as tx:
            tx.delete("a", (key(3), x))
        assert tx.changes["t"].deleted == [(x,)] and sent == ["drop"], "it does not hold itself up by its own step"
        session.check()


def test_what_several_withdraw_at_once_is_gone() -> None:
    x = key(0)
    for seed in range(10):
        with opened(SOURCES, PARTITIONS, seed, a={(key(p), x) for p in (1, 2, 3)}, step={(x, x)}) as session:
            with session.transaction() as tx:
                for p in (1, 3):
                    tx.delete("a", (key(p), x))
            assert not tx.changes
            assert session._runtime.workers[0].strata[0].home["t"].rows[x,] == 0b100
            with session.transaction() as tx:
                tx.delete("a", (key(2), x))
                tx.insert("a", (key(1), x))
            assert not tx.changes
            assert session._runtime.workers[0].strata[0].home["t"].rows[x,] == 0b10
            session.check()


# --- insertions and deletions together -----------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_detour_that_comes_as_the_way_goes(partitions: int) -> None:
    links = {(1, 2), (2, 3), (3, 4)}
    for seed in range(5):
        with opened(REACHABLE, partitions, seed if partitions > 1 else None, link=links) as session:
            with session.transaction() as tx:
                tx.delete("link", (2, 3))
                tx.insert("link", (2, 9))
                tx.insert("link", (9, 3))
            change = tx.changes["reachable"]
            assert change.deleted == [] and change.inserted == [(1, 9), (2, 9), (9, 3), (9, 4)]
            with session.transaction() as tx:
                tx.insert("link", (2, 3))
                tx.delete("link", (9, 3))
                tx.delete("link", (1, 2))
                tx.insert("link", (1, 2))
            assert tx.changes["reachable"].deleted == [(9, 3), (9, 4)] and not tx.changes["reachable"].inserted
            session.check()


@pytest.mark.everywhere(spark=1)
@pytest.mark.parametrize("partitions", [1, 2, 5, 12])
@pytest.mark.parametrize("name", PROGRAMS)
def test_histories_of_both(name: str, partitions: int) -> None:
    for seed in range(5):
        run = Run(name, seed, links=12, partitions=partitions, strategy="dred")
        for _ in range(10):
            run.step()
            run.verify()
        run.clear()
        run.verify()


# --- aggregate selection -------------------------------------------------------------------------------------

ROUTES = """
.decl link(x: number, y: number, c: number)
path(x, y, c, n) :- link(x, y, c), n = 1.
path(x, y, c, n) :- link(x, z, a), path(z, y, b, m), c = a + b, n = m + 1.
cost(x, y, min<c>) :- path(x, y, c, _).
hops(x, y, min<n>) :- path(x, y, _, n).
"""


def best_routes(links: set[tuple[int, int, int]], weight: Any) -> set[Row]:
    best: dict[tuple[int, int], int] = {}
    changed = True
    while changed:
        changed = False
        for x, z, c in links:
            ways = [((x, z), weight(c)), *(((x, y), weight(c) + d) for (w, y), d in best.items() if w == z)]
            for ends, cost in ways:
                if cost < best.get(ends, 10**9):
                    best[ends], changed = cost, True
    return {(*ends, c) for ends, c in best.items()}


@pytest.mark.parametrize("partitions", [1, 3, 5])
def test_selection_with_ties_and_held_tuples(partitions: int) -> None:
    """Costs of one and two make ties; several partitions ship what is not the best, and the owner holds it."""
    held = ties = 0
    for seed in range(6):
        rng = random.Random(seed)
        links: set[Any] = {(rng.randrange(6), rng.randrange(6), rng.randint(1, 2)) for _ in range(14)}
        with opened(ROUTES, partitions, seed if partitions > 1 else None, link=links) as session:
            assert session.plan.relations["path"].selection is not None
            for _ in range(10):
                with session.transaction() as tx:
                    for _ in range(rng.randint(1, 3)):
                        if links and rng.random() < 0.6:
                            row = rng.choice(sorted(links))
                            links.discard(row)
                            tx.delete("link", row)
                        else:
                            row = (rng.randrange(6), rng.randrange(6), rng.randint(1, 2))
                            links.add(row)
                            tx.insert("link", row)
                assert set(session["cost"]) == best_routes(links, lambda c: c)
                assert set(session["hops"]) == best_routes(links, lambda c: 1)
                session.check()
                for worker in session._runtime.workers:
                    for stratum in worker.strata:
                        if isinstance(stratum, DRed):
                            selection = stratum.home["path"].selection
                            held += len(selection.held.first)
                            ties += sum(len(winners) > 2 for winners in map(selection.winners, selection.members))
                            assert all(bits for bits in selection.held.first.values()), "somebody stands by it"
    assert ties > 0 and (held > 0) == (partitions > 1)


# --- negation and aggregates inside the recursion ------------------------------------------------------------

INSIDE = """
.decl link(x: number, y: number)
.decl shut(x: number)
.decl toll(x: number, c: number)
way(x, y) :- link(x, y).
way(x, y) :- way(x, z), link(z, y), !shut(z), n = count : { toll(z, _) }, n < 2, s = sum c : { toll(x, c) }, s < 9.
"""


@pytest.mark.everywhere(spark=1)
@pytest.mark.parametrize("partitions", [1, 3, 5])
def test_lookups_inside_the_recursion(partitions: int) -> None:
    program = program_of(INSIDE)
    changed = 0
    for seed in range(6):
        rng = random.Random(seed)
        draw = {
            "link": lambda rng=rng: (rng.randrange(6), rng.randrange(6)),
            "shut": lambda rng=rng: (rng.randrange(6),),
            "toll": lambda rng=rng: (rng.randrange(6), rng.randrange(6)),
        }
        facts: dict[str, set[Row]] = {"link": {draw["link"]() for _ in range(12)}, "shut": set(), "toll": set()}
        with opened(INSIDE, partitions, seed if partitions > 1 else None, **facts) as session:
            for _ in range(12):
                with session.transaction() as tx:
                    for _ in range(rng.randint(1, 3)):
                        name = rng.choice(["link", "shut", "toll", "toll"])
                        row = rng.choice(sorted(facts[name])) if facts[name] and rng.random() < 0.5 else draw[name]()
                        if row in facts[name]:
                            facts[name].discard(row)
                            tx.delete(name, row)
                        else:
                            facts[name].add(row)
                            tx.insert(name, row)
                assert set(session["way"]) == evaluate(program, facts)["way"], seed
                session.check()
                changed += bool(tx.changes)
    assert changed > 20


# --- errors --------------------------------------------------------------------------------------------------

CALLS = """
.decl link(x: number, y: number)
reach(x, y) :- link(x, y).
reach(x, y) :- link(x, z), reach(z, y), ask(x) > 0.
"""


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_an_error_in_either_phase_rolls_back(
    error: type[BaseException], partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function fails at its first call, its second, and so on: at some of them things are being deleted, at some
    derived again."""
    phase = "load"
    struck: list[str] = []
    left = -1

    def ask(x: int) -> int:
        nonlocal left
        if left == 0:
            struck.append(phase)
            if error is KeyboardInterrupt:  # it is not raised again; a rule that fails does so for good
                left = -1
            raise error
        left -= left > 0
        return 1

    real_work_in, real_resume, real_roll_back = DRed.work_in, DRed.resume, LocalRuntime._roll_back

    def work_in(self: DRed, *arguments: Any) -> None:
        nonlocal phase
        phase = "first"
        real_work_in(self, *arguments)

    def resume(self: DRed, level: int) -> bool:
        nonlocal phase
        phase = "second"
        return real_resume(self, level)

    def roll_back(self: LocalRuntime) -> None:
        nonlocal left
        left = -1
        real_roll_back(self)

    monkeypatch.setattr(DRed, "work_in", work_in)
    monkeypatch.setattr(DRed, "resume", resume)
    monkeypatch.setattr(LocalRuntime, "_roll_back", roll_back)
    links = sorted(ring(5) | {(0, 2)})
    session = livelog.open(
        datalog.parse(CALLS), facts={"link": links}, functions={"ask": ask}, strategy="dred", partitions=partitions
    )
    before = list(session["reach"])
    calls = 0
    while True:
        left = calls
        try:
            with session.transaction() as tx:
                tx.delete("link", (0, 1))
                tx.delete("link", (2, 1))
                tx.insert("link", (1, 7))
        except (KeyboardInterrupt, livelog.RuntimeProblem):
            left = -1
            assert list(session["reach"]) == before
            session.check()
            calls += 1
            continue
        break
    left = -1
    assert {"first", "second"} <= set(struck)
    now = reach(set(links) - {(0, 1), (2, 1)} | {(1, 7)})
    assert set(session["reach"]) == now
    assert set(tx.changes["reach"].inserted) == now - set(before)
    assert set(tx.changes["reach"].deleted) == set(before) - now
    session.check()


# --- what it costs -------------------------------------------------------------------------------------------


def test_strategies_and_their_ship_modes() -> None:
    program = program_of(REACHABLE)
    for strategy, ship in (("dred", "lazy"), ("recompute", "demand"), ("relative", "demand")):
        with pytest.raises(livelog.UsageProblem, match=f"the strategy '{strategy}' has .* ship modes.*not '{ship}'"):
            livelog.open(program, strategy=strategy, ship=ship)
    with pytest.raises(livelog.UsageProblem, match="unknown ship mode 'often'"):
        livelog.open(program, strategy="dred", ship="often")
    with pytest.raises(livelog.UsageProblem, match=r"unknown strategy 'dread': it is one of .*dred"):
        livelog.open(program, strategy="dread")
    chosen = {s: livelog.open(program, strategy=s).ship for s in ("absorption", "relative", "dred", "recompute")}
    assert chosen == {"absorption": "demand", "relative": "lazy", "dred": "", "recompute": ""}


def test_the_four_figures() -> None:
    with opened(REACHABLE, 3, link=ring(9)) as session, opened(REACHABLE, 1, link=ring(9)) as alone:
        stats = session.stats()
        assert stats.provenance_bytes_per_tuple == 0 and stats.variables == 0 and stats.bdd_nodes == 0
        assert all(p.provenance_bytes == 0 < p.state_bytes for p in stats.partitions)
        assert all(p.bytes_shipped > 0 for p in stats.partitions)
        assert sum(session.bytes_shipped) == stats.bytes_shipped and stats.seconds > 0
        assert stats.state_bytes > alone.stats().state_bytes > 0, "what was shipped is kept by both sides"
        assert alone.stats().bytes_shipped == 0
        with session.transaction() as tx:
            tx.delete("link", (0, 1))
        after = session.stats()
        assert after.bytes_shipped > stats.bytes_shipped and after.state_bytes < stats.state_bytes
        assert after.last_seconds > 0


def test_it_ships_and_takes_more_than_demand_for_a_deletion() -> None:
    """A well-connected network loses a link: hardly anything changes, and it deletes and derives nearly everything."""
    rng = random.Random(7)
    cycle = {(i, (i + 1) % 40) for i in range(40)}
    links = sorted(cycle | {(rng.randrange(40), rng.randrange(40)) for _ in range(120)})
    gone = rng.sample(links, 8)
    shipped, seconds, changes = {}, {}, {}
    for strategy in ("absorption", "dred"):
        with livelog.open(program_of(REACHABLE), facts={"link": links}, strategy=strategy, partitions=6) as session:
            before, began = sum(session.bytes_shipped), time.process_time()
            changes[strategy] = []
            for row in gone:
                with session.transaction() as tx:
                    tx.delete("link", row)
                changes[strategy].append((tx.changes["reachable"].inserted, tx.changes["reachable"].deleted))
            shipped[strategy] = sum(session.bytes_shipped) - before
            seconds[strategy] = time.process_time() - began
            session.check()
    assert changes["dred"] == changes["absorption"]
    assert shipped["dred"] > 5 * shipped["absorption"]
    assert seconds["dred"] > seconds["absorption"]  # several times as much; only the bytes are the same on every run
