"""What crosses between partitions, and the figures of a session."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import datalog
import livelog
from livelog.runtime import local
from livelog.runtime.component import Component
from livelog.runtime.frames import decode, encode
from operators.offers import Offers
from operators.provenance import Provenance
from tests.runs import PROGRAMS, REACHABLE, SHIPS, WAYS, Run


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


@pytest.mark.parametrize("way", WAYS)
def test_the_bytes_are_those_of_the_frames(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    traffic = Traffic(monkeypatch)
    run = Run("detours", 1, partitions=3, **WAYS[way])
    for _ in range(4):
        run.step()
    stats = run.session.stats()
    assert stats.bytes_shipped == sum(map(len, traffic.frames)) > 0
    assert sum(p.frames_shipped for p in stats.partitions) == len(traffic.frames)
    assert sum(p.bytes_shipped > 0 for p in stats.partitions) > 1
    assert run.session.bytes_shipped == tuple(p.bytes_shipped for p in stats.partitions)
    assert run.session.frames_shipped == tuple(p.frames_shipped for p in stats.partitions)


@pytest.mark.everywhere
@pytest.mark.parametrize("way", WAYS)
def test_one_partition_ships_nothing(way: str) -> None:
    run = Run("detours", 1, partitions=1, **WAYS[way])
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


@pytest.mark.parametrize(("way", "told"), [*((f"absorption-{s}", {"death"}) for s in SHIPS), ("dred", set())])
def test_what_is_at_home_is_not_shipped(way: str, told: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rule stays within one k, and so does every tuple: only deaths are told to the others, if there are any."""
    traffic = Traffic(monkeypatch)
    rng = random.Random(1)
    links = [(k, rng.randrange(5), rng.randrange(5)) for k in range(8) for _ in range(8)]
    session = livelog.open(
        datalog.parse(LOCAL), facts={"start": [(k, 0) for k in range(8)], "next": links}, partitions=4, **WAYS[way]
    )
    assert len(session["reach"]) > 8 and not traffic.frames
    with session.transaction() as tx:
        for row in links[::3]:
            tx.delete("next", row)
    assert tx.changes["reach"].deleted and traffic.kinds().keys() == told


@pytest.mark.parametrize(
    ("way", "kind"), [("absorption-demand", "offer"), ("absorption-lazy", "insert"), ("dred", "put")]
)
def test_a_join_at_home_ships_heads_only(way: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`link` lies where `reachable` wants it: links never travel, and no copy of them is kept."""
    traffic = Traffic(monkeypatch)
    text = REACHABLE.replace("y: number)", "y: number) partition(y)", 1) + ".decl reachable(x: number, y: number)"
    session = livelog.open(
        datalog.parse(text), facts={"link": [(i, (i * 3 + 1) % 11) for i in range(11)]}, partitions=3, **WAYS[way]
    )
    component = session._runtime.workers[0].strata[-1]
    assert isinstance(component, Component)
    assert set(component.numbers) == {("link", (1,)), ("reachable", (0,))}
    targets = {decode(frame)[2] for frame in traffic.frames}
    assert targets == {component.numbers["reachable", (0,)]}
    heads: Counter[Any] = Counter()
    for frame in traffic.frames:
        _, told, _, rows = decode(frame)
        if told == kind:
            heads.update([t for t, _ in rows] if kind == "insert" else rows)
    assert heads and set(heads) <= set(session["reachable"])
    assert max(heads.values()) == 1, "each tuple has one sender here, and is shipped once"


def test_how_much_is_shipped_on_a_load() -> None:
    """Eager ships every derivation that is news, lazy the first one of each sender, demand what is asked for."""
    ways = ("dred", "absorption-demand", "absorption-lazy", "absorption-eager")
    for seed in range(4):
        shipped = [sum(Run("reachable", seed, 20, partitions=3, **WAYS[way]).session.bytes_shipped) for way in ways]
        assert shipped == sorted(shipped) and len(set(shipped)) == 4


@pytest.mark.parametrize("name", ["reachable", "pairs"])
def test_of_many_who_can_derive_a_tuple_one_tells_how(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a load in demand mode a tuple may be offered by several partitions, and one is asked for it, and tells."""
    traffic = Traffic(monkeypatch)
    asked: Counter[Any] = Counter()
    offered = Offers.offered

    def spy(self: Offers, *arguments: Any) -> Any:
        want, places = offered(self, *arguments)
        asked.update(want)
        return want, places

    monkeypatch.setattr(Offers, "offered", spy)
    Run(name, 3, links=20, partitions=5)
    offers: Counter[Any] = Counter()
    rows_of: Counter[str] = Counter()
    for frame in traffic.frames:
        _, kind, _, rows = decode(frame)
        rows_of[kind] += len(rows)
        if kind == "offer":
            offers.update(rows)
    assert max(offers.values()) > 1
    assert max(asked.values()) == 1 and len(asked) == rows_of["pick"] == rows_of["told"]
    assert not rows_of["want"] and not rows_of["answer"]
    assert "none" not in traffic.kinds()


# --- what is measured ----------------------------------------------------------------------------------------


@pytest.mark.everywhere
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


@pytest.mark.parametrize("partitions", [1, 3, 5])
@pytest.mark.parametrize("name", PROGRAMS)
def test_demand_mode_makes_no_diagram(name: str, partitions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps pairs and cubes only, whatever happens."""

    def never(self: Provenance, *arguments: Any) -> Any:
        raise AssertionError("a diagram")

    for method in ("diagram", "disjunction", "restrict", "killer"):
        assert hasattr(Provenance, method)
        monkeypatch.setattr(Provenance, method, never)
    run = Run(name, 4, links=14, partitions=partitions)
    for _ in range(10):
        run.step()
    run.verify()
    stats = run.session.stats()
    assert stats.bdd_nodes == 0 == sum(p.bdd_levels for p in stats.partitions)
    if name != "detours":  # there, answers of lookups have variables too
        assert stats.variables == len(run.facts["link"])
    run.clear()
    assert run.session.stats().state_bytes == 0
