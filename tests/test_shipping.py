"""What crosses between partitions, and the figures of a session."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
import pytest

import datalog
import livelog
from livelog.runtime import local
from livelog.runtime.component import Component
from livelog.runtime.frames import decode, encode
from tests.runs import REACHABLE, SHIPS, Run


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
