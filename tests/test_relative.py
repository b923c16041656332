"""Relative provenance: how the derivation graph is walked, and what is shipped for it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import datalog
import livelog
import topologies
from datalog.errors import RuntimeProblem
from livelog.runtime import local
from livelog.runtime.relative import Relative
from tests.cases import Case, Pruned, RuleText, states
from tests.harness import Configuration, run
from tests.supports import check_supports, components

REACH = """
reachable(x, y) :- link(x, y).
reachable(x, y) :- link(x, z), reachable(z, y).
"""
TWICE = """
reachable(x, y) :- link(x, y).
reachable(x, y) :- reachable(x, z), reachable(z, y).
"""
COSTS = """
path(x, y, [x, y], c) :- link(x, y, c).
path(x, y, concat([x], p), c) :- link(x, z, c0), path(z, y, p, c1), c = c0 + c1.
cheapest(x, y, min<c>) :- path(x, y, _, c).
"""
MODES = [(ship, n) for ship in ("lazy", "eager") for n in (1, 2, 5)]

Rows = list[tuple[Any, ...]]


def opened(program: str, facts: Rows, ship: str, partitions: int, seed: int | None = None) -> livelog.Session:
    return livelog.open(
        datalog.parse(program), facts={"link": facts}, strategy="relative", ship=ship, partitions=partitions, seed=seed
    )


def delete(session: livelog.Session, *rows: tuple[Any, ...]) -> livelog.Transaction:
    with session.transaction() as transaction:
        for row in rows:
            transaction.delete("link", row)
    return transaction


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How many rows of each kind of message are sent."""
    rows_by_kind: Counter[str] = Counter()
    encode = local.encode

    def counted(stratum: int, kind: str, target: int, rows: list[Any]) -> bytes:
        rows_by_kind[kind] += len(rows)
        return encode(stratum, kind, target, rows)

    monkeypatch.setattr(local, "encode", counted)
    yield rows_by_kind


def closure(links: Rows) -> set[tuple[Any, ...]]:
    """What is reachable, by a loop that has nothing to do with the engine."""
    reach = set(links)
    while more := {(x, y) for x, z in links for w, y in reach if w == z} - reach:
        reach |= more
    return reach


# --- deletion ----------------------------------------------------------------------------------------------------


@pytest.mark.everywhere(spark=2, cluster=1)
@pytest.mark.parametrize(("ship", "partitions"), MODES)
def test_circular_support_dies(ship: str, partitions: int) -> None:
    """b, c and d go on deriving each other from x after the only way into their circle is cut."""
    circle = [("b", "c"), ("c", "d"), ("d", "b")]
    reversed_reach = "reachable(x, y) :- link(x, y). reachable(x, y) :- reachable(x, z), link(z, y)."
    session = opened(reversed_reach, [("x", "b"), *circle], ship, partitions)
    assert ("x", "d") in session["reachable"]
    gone = delete(session, ("x", "b")).changes["reachable"]
    assert gone.deleted == [("x", "b"), ("x", "c"), ("x", "d")] and not gone.inserted
    assert set(session["reachable"]) == closure(circle)
    check_supports(session)


@pytest.mark.everywhere(spark=3, cluster=1)
@pytest.mark.parametrize("program", [REACH, TWICE])
@pytest.mark.parametrize(("ship", "partitions"), MODES)
def test_every_state_is_right_and_every_support_well_founded(program: str, ship: str, partitions: int) -> None:
    rng = random.Random(5)
    everything = [(x, y) for x in range(8) for y in range(8) if x != y]
    links = rng.sample(everything, 18)
    session = opened(program, links, ship, partitions, seed=partitions)
    for _ in range(12):
        gone = rng.sample(links, min(2, len(links)))
        new = rng.sample([link for link in everything if link not in links], rng.choice((0, 2)))
        links = [link for link in links if link not in gone] + new
        with session.transaction() as transaction:
            for link in gone:
                transaction.delete("link", link)
            for link in new:
                transaction.insert("link", link)
        assert set(session["reachable"]) == closure(links)
        check_supports(session)


def test_a_walk_crosses_partitions(sent: Counter[str]) -> None:
    """The other way from a to e leads through three partitions, which are asked one after the other."""
    links: Rows = [("a", "e"), ("a", "b"), ("b", "c"), ("c", "e")]
    session = opened(REACH, links, "eager", 5)
    (parts,) = components(session)
    assert len({parts[0].routers["reachable"](t) for t in (("a", "e"), ("b", "e"), ("c", "e"))}) > 1
    sent.clear()
    assert delete(session, ("a", "e")).changes["reachable"].deleted == []
    assert sent["need"] >= 1 and sent["need"] == sent["proven"]
    assert set(session["reachable"]) == closure(links[1:])
    check_supports(session)


def test_a_tuple_that_keeps_its_support_is_not_walked(sent: Counter[str]) -> None:
    session = opened(REACH, [("a", "e"), ("a", "b"), ("b", "e")], "eager", 5)
    sent.clear()
    delete(session, ("b", "e"))  # a reaches e by a link of its own, and that came first
    assert sent["cut"] and not sent["need"]
    assert set(session["reachable"]) == {("a", "e"), ("a", "b")}


def test_a_goal_is_asked_for_once_in_a_transaction(sent: Counter[str]) -> None:
    """Many tuples lose their support and are proven through the same one."""
    hub: Rows = [(f"s{i}", "hub") for i in range(20)]
    detour: Rows = [(f"s{i}", "way") for i in range(20)]
    session = opened(REACH, [*hub, *detour, ("way", "hub"), ("hub", "end")], "eager", 5)
    sent.clear()
    delete(session, *hub)
    goals = {("way", "hub"), ("way", "end"), ("hub", "end")}
    assert sent["need"] <= len(goals) * 5
    assert ("s3", "end") in session["reachable"]
    check_supports(session)


def test_several_rounds_of_removal() -> None:
    """What falls with one circle was the support of the next, which is walked only then."""
    links: Rows = [("s", "a0")]
    for i in range(6):
        links += [(f"a{i}", f"b{i}"), (f"b{i}", f"a{i}"), (f"b{i}", f"a{i + 1}")]
    text = "on(x) :- start(x). on(y) :- on(x), link(x, y)."
    for ship, partitions in MODES:
        session = livelog.open(
            datalog.parse(text), facts={"link": links, "start": [("s",)]}, strategy="relative", ship=ship,
            partitions=partitions,
        )
        assert len(session["on"]) == 14
        delete(session, ("s", "a0"))
        assert list(session["on"]) == [("s",)]
        check_supports(session)


# --- shipping ----------------------------------------------------------------------------------------------------


def far(session: livelog.Session) -> tuple[Relative, Relative, Any]:
    """A tuple that another partition derives in several ways: sender, owner, and the tuple."""
    (parts,) = components(session)
    for part in parts:
        for t, edges in part.ships["reachable"].rows.items():
            if len(edges) > 1:
                return part, parts[part.routers["reachable"](t)], t
    raise AssertionError("no edge waits")


def test_lazy_buffers_and_releases(sent: Counter[str]) -> None:
    ways = [f"w{i}" for i in range(8)]
    links: Rows = [("a", w) for w in ways] + [(w, "z") for w in ways]
    session = opened(REACH, links, "lazy", 2)
    sender, owner, t = far(session)
    waiting = list(sender.ships["reachable"].rows[t])
    known = owner.home["reachable"].rows[t]
    assert t == ("a", "z") and known[sender.partition] == waiting[0], "the first edge is the one that is shipped"
    assert waiting[1] not in known and waiting[1] not in known.values()
    sent.clear()
    delete(session, (waiting[0][1], "z"))
    assert sent["shift"] == 1, "another edge takes the place of the shipped one"
    assert owner.home["reachable"].rows[t][sender.partition] == waiting[1]
    delete(session, (waiting[-1][1], "z"))
    assert sent["shift"] == 1, "nobody hears of the loss of an edge that waits"
    delete(session, *[(w, "z") for w in ways])
    assert sent["cut"] and t not in session["reachable"]
    check_supports(session)


def test_a_walk_asks_for_what_waits(sent: Counter[str]) -> None:
    """Where the shipped edges run in a circle, those that wait are asked for, and the walk gets the one that holds.

    Some are released too late, when the tuple has been proven by the edge that was shipped before, and perhaps from
    the tuple itself: then the sender has to keep to the old one, or it would support itself.
    """
    total: Counter[str] = Counter()
    for seed in range(30):
        rng = random.Random(seed)
        links: Rows = rng.sample([(x, y) for x in range(9) for y in range(9) if x != y], 22)
        session = opened(REACH, links, "lazy", 3, seed)
        while links:
            sent.clear()
            delete(session, links.pop())
            assert set(session["reachable"]) == closure(links)
            assert sent["keep"] <= sent["release"] <= sent["vouch"]
            total += sent
            if sent["release"]:
                check_supports(session)
    assert total["release"] > total["keep"] > 0, "no walk asked for an edge that waits"


def test_eager_ships_more_than_lazy_and_lazy_keeps_more() -> None:
    links = topologies.pairs(topologies.dense(40, seed=1))
    lazy, eager = (opened(REACH, links, ship, 4) for ship in ("lazy", "eager"))
    assert sum(eager.bytes_shipped) > sum(lazy.bytes_shipped)
    assert set(lazy["reachable"]) == set(eager["reachable"])
    (parts,) = components(eager)
    assert not any(part.ships["reachable"].rows for part in parts), "who ships every edge need not keep any"
    assert lazy.stats().state_bytes > eager.stats().state_bytes


@pytest.mark.everywhere(spark=1)
@pytest.mark.parametrize(("ship", "partitions"), MODES)
def test_the_four_metrics(ship: str, partitions: int) -> None:
    ring: Rows = [(i, (i + 1) % 8) for i in range(8)]
    session = opened(REACH, ring, ship, partitions)
    before = session.stats()
    delete(session, ring[0])
    stats = session.stats()
    assert stats.provenance_bytes_per_tuple > 0
    assert stats.state_bytes > 0 and len(stats.partitions) == partitions
    assert (stats.bytes_shipped > before.bytes_shipped > 0) == (partitions > 1)
    assert stats.seconds > before.seconds > 0
    assert stats.state_bytes < before.state_bytes, "what is lost is not kept"
    delete(session, *ring)
    assert session.stats().state_bytes == 0, "an empty program keeps nothing"


def test_the_bytes_of_edges_are_those_that_are_kept() -> None:
    session = opened(REACH, [("a", "b"), ("b", "c"), ("a", "c")], "lazy", 1)
    ((part,),) = components(session)
    edges = part.home["reachable"].rows["a", "c"]
    assert len(edges) == 2
    assert part.size(edges) == 1 + 2 + 4  # a list of [0] and [1, "b"]
    assert part.size({2: (1, "b")}) == 1 + 1 + 1 + 4  # with the partition that it came from
    assert part.size(()) == 0


# --- aggregate selection -------------------------------------------------------------------------------------------


@pytest.mark.everywhere(spark=2)
@pytest.mark.parametrize(("ship", "partitions"), MODES)
def test_the_next_best_takes_over(ship: str, partitions: int) -> None:
    links: Rows = [("a", "b", 1), ("b", "c", 1), ("a", "c", 5), ("c", "a", 1), ("a", "d", 2), ("d", "c", 2)]
    session = opened(COSTS, links, ship, partitions, seed=1)
    assert "path" in session.plan.pruned and ("a", "c", 2) in session["cheapest"]
    delete(session, ("b", "c", 1))
    assert ("a", "c", 4) in session["cheapest"]
    check_supports(session)
    delete(session, ("a", "d", 2))
    assert ("a", "c", 5) in session["cheapest"]
    check_supports(session)
    delete(session, ("a", "c", 5))
    assert not [row for row in session["cheapest"] if row[:2] == ("a", "c")]
    with session.transaction() as transaction:
        transaction.insert("link", ("a", "c", 9))
    assert ("a", "c", 9) in session["cheapest"]
    check_supports(session)


@pytest.mark.everywhere(spark=2)
@pytest.mark.parametrize(("ship", "partitions"), MODES)
def test_cheapest_paths_under_change(ship: str, partitions: int) -> None:
    """Dense and with circles, so that many paths are dominated, held, and needed later."""
    rules = (
        RuleText("path(x, y, c)", ("link(x, y, c)",)),
        RuleText("path(x, y, c)", ("link(x, z, a)", "path(z, y, b)", "c = a + b"), "c <= 16"),
        RuleText("best(x, y, min<c>)", ("path(x, y, c)",)),
    )
    rng = random.Random(3)
    every = [(x, y, c) for x in range(5) for y in range(5) for c in (1, 3, 4) if x != y]
    links = rng.sample(every, 14)
    history = []
    for _ in range(10):
        operations = [("delete", "link", rng.choice(links)), ("delete", "link", rng.choice(links))]
        operations += [("insert", "link", rng.choice(every))]
        history.append(tuple(operations))
    pruned = {"path": Pruned((0, 1), ((2, "min"),))}
    case = Case(-1, (), rules, tuple(("link", link) for link in links), tuple(history), pruned)
    run(case, Configuration("relative", ship, partitions, 4), states(case))


# --- failures ------------------------------------------------------------------------------------------------------


@pytest.mark.everywhere(spark=2)
@pytest.mark.parametrize(("ship", "partitions"), MODES)
def test_a_recursion_without_end_is_rolled_back(ship: str, partitions: int) -> None:
    text = "n(x, y) :- link(x, y). n(x, y) :- n(x, z), up(x), y = z + 1."
    session = livelog.open(
        datalog.parse(text), facts={"link": [("a", 1), ("b", 1)]}, strategy="relative", ship=ship,
        partitions=partitions, limit=500,
    )
    with pytest.raises(RuntimeProblem, match="no end"), session.transaction() as transaction:
        transaction.delete("link", ("b", 1))
        transaction.insert("up", ("a",))
    assert set(session["n"]) == {("a", 1), ("b", 1)}
    check_supports(session)
    delete(session, ("b", 1))
    assert list(session["n"]) == [("a", 1)]
