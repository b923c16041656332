"""Every stream keeps its own books, is the same again by its seed, and its script is one that Livelog reads."""

from __future__ import annotations

import math
import random
import statistics
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import datalog
import livelog
import topologies
from livelog.io.updates import read_script
from topologies import Arrivals, Step, Workload
from topologies.streams.board import switches

NETWORK = topologies.ts20(1)
GRID = topologies.sensor_grid(36, seed=2)
LINK2, LINK3 = {"link": 2}, {"link": 3}
SENSORS = {"sensor": 2, "mainSensorInRegion": 2, "isTriggered": 1}

CASES = [
    *[(name, NETWORK, LINK2) for name in topologies.WORKLOADS if name not in ("costs", "sensors", "fire")],
    *[(name, NETWORK, LINK3) for name in topologies.WORKLOADS if name not in ("sensors", "fire")],
    *[(name, GRID, SENSORS) for name in topologies.WORKLOADS if name != "costs"],
    ("failures", GRID, LINK3),
]


def replay(load: Workload, *, soft: bool = False) -> dict[str, set[tuple[Any, ...]]]:
    """The facts after all steps. Nothing that is there may be inserted (unless `soft`), nothing absent deleted."""
    state = {relation: set(rows) for relation, rows in load.facts.items()}
    for step in load.steps:
        for sign, relation, row in step.operations:
            rows = state[relation]
            if sign == "+":
                assert soft or row not in rows, f"{step.about}: {row} is there already"
                rows.add(row)
            else:
                assert sign == "-" and row in rows, f"{step.about}: {row} is not there"
                rows.remove(row)
    return state


# --- all of them -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "graph", "relations"), CASES)
def test_books_clock_and_seed(name: str, graph: nx.Graph, relations: dict[str, int]) -> None:
    load = topologies.workload(name, graph, relations, steps=60, seed=3)
    replay(load, soft=name == "ttl")
    steps = list(load.steps)
    assert steps and steps == list(load.steps)  # again from the start
    assert len(steps) == 60 or topologies.WORKLOADS[name].ends
    assert all(one.time <= other.time for one, other in pairwise(steps)) and steps[0].time >= 0
    assert all(step.operations and step.about for step in steps if name != "ttl")
    assert all(type(step) is Step for step in steps)
    assert load.facts.keys() == relations.keys()
    assert steps == list(topologies.workload(name, graph, relations, steps=60, seed=3).steps)
    assert steps != list(topologies.workload(name, graph, relations, steps=60, seed=4).steps)


@pytest.mark.parametrize(("name", "graph", "relations"), CASES)
def test_a_script_says_the_same(name: str, graph: nx.Graph, relations: dict[str, int]) -> None:
    load = topologies.workload(name, graph, relations, steps=10, seed=3)
    found = list(read_script(topologies.write_script(load)))
    loaded = {(o.relation, o.row) for o in found[0].operations} if any(load.facts.values()) else set()
    assert loaded == {(relation, row) for relation, rows in load.facts.items() for row in rows}
    steps = found[1:] if loaded else found
    assert [
        Step(t.operations[0].time, tuple((o.op, o.relation, o.row) for o in t.operations[1:]), "") for t in steps
    ] == [Step(step.time, step.operations, "") for step in load.steps]
    assert all(t.operations[0].op == "@" for t in steps)


VALUES = st.recursive(
    st.text() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=8)


@settings(max_examples=200, deadline=None)
@given(st.lists(VALUES, max_size=4).map(tuple), st.text())
def test_any_row_can_be_written(row: tuple[Any, ...], about: str) -> None:
    lines = list(topologies.write_script([Step(1e-7, (("+", "r", row), ("-", "s", row)), about)]))
    assert all("\n" not in line and "\r" not in line for line in lines)
    [transaction] = read_script("\n".join(lines).split("\n"))
    assert [(o.op, o.relation, o.row, o.time) for o in transaction.operations] == [
        ("@", "", (), 1e-7), ("+", "r", row, None), ("-", "s", row, None)]
    assert repr(transaction.operations[1].row) == repr(row)  # 1 and 1.0 are equal, but not the same


@pytest.mark.parametrize("value", [None, True, math.nan, math.inf, {1}])
def test_what_is_no_value_cannot_be_written(value: object) -> None:
    with pytest.raises(ValueError, match="is not a value"):
        list(topologies.write_script([Step(0.0, (("+", "r", (value,)),), "")]))


# --- failures --------------------------------------------------------------------------------------------------


def test_a_failure_takes_both_directions_or_one() -> None:
    both = topologies.workload("failures", NETWORK, LINK3)
    assert all(len(step.operations) == 2 for step in both.steps)
    for step in both.steps:
        (_, _, (a, b, c)), (_, _, other) = step.operations
        assert other == (b, a, c)
    single = topologies.workload("failures", NETWORK, LINK3, directed=True)
    assert all(len(step.operations) == 1 for step in single.steps)
    for load in (both, single):
        assert replay(load) == {"link": set()}
        assert all(sign == "-" for step in load.steps for sign, _, _ in step.operations)
    assert len(list(single.steps)) == 2 * len(list(both.steps)) == 2 * NETWORK.number_of_edges()


def test_a_directed_network_has_one_direction() -> None:
    graph = nx.DiGraph([(0, 1), (1, 0), (1, 2)])
    load = topologies.workload("failures", graph, LINK2)
    assert sorted(step.operations for step in load.steps) == [(("-", "link", row),) for row in [(0, 1), (1, 0), (1, 2)]]


def test_a_loop_is_one_link() -> None:
    assert [switch.rows for switch in switches(nx.Graph([(0, 0), (0, 1)]), LINK2)] == [((0, 0),), ((0, 1), (1, 0))]


def test_isolated_failures_leave_the_network_whole() -> None:
    load = topologies.workload("recoveries", NETWORK, LINK2, steps=100, seed=1)
    steps = list(load.steps)
    for failure, recovery in zip(steps[::2], steps[1::2], strict=True):
        assert [("+", *rest) for _, *rest in failure.operations] == [tuple(o) for o in recovery.operations]
    assert replay(load) == {"link": set(load.facts["link"])}
    assert len({step.about for step in steps[::2]}) > 10


@pytest.mark.parametrize("down", [0.1, 0.4])
def test_churn_keeps_the_share_down(down: float) -> None:
    graph = topologies.ts100(1)
    load = topologies.workload("churn", graph, LINK2, steps=6000, seed=1, down=down)
    total = graph.number_of_edges()
    off, shares = 0, []
    for number, step in enumerate(load.steps):
        off += 1 if step.operations[0][0] == "-" else -1
        assert 0 <= off <= total
        if number > 1000:
            shares.append(off / total)
    assert statistics.mean(shares) == pytest.approx(down, abs=0.04)


def test_bursts_have_their_size() -> None:
    load = topologies.workload("bursts", NETWORK, LINK2, steps=20, size=4)
    assert [len(step.operations) for step in load.steps] == [8] * 20
    assert [step.about for step in islice(load.steps, 2)] == ["4 links fail", "4 links recover"]
    huge = topologies.workload("bursts", NETWORK, LINK2, steps=1, size=10**6)
    assert replay(huge) == {"link": set()}


def test_outages_take_a_domain() -> None:
    graph = topologies.ts100(1)
    domain = dict(graph.nodes(data="domain"))
    load = topologies.workload("outages", graph, LINK2, steps=40, seed=1)
    steps = list(load.steps)
    seen = set()
    for step in steps[::2]:
        place = step.about.split(" of ")[1].split()[0]
        seen.add(place)
        hit = {row for row in load.facts["link"] if place in (domain[row[0]], domain[row[1]])}
        assert {row for _, _, row in step.operations} == hit
    assert len(seen) > 5
    assert replay(load) == {"link": set(load.facts["link"])}


@pytest.mark.parametrize("radius", [0, 1, 2])
def test_outages_take_a_neighbourhood(radius: int) -> None:
    graph = topologies.ts100(1)
    hops = dict(nx.all_pairs_shortest_path_length(graph))
    load = topologies.workload("outages", graph, LINK2, steps=40, seed=1, radius=radius)
    for step in list(load.steps)[::2]:
        node = int(step.about.split(" around ")[1].split()[0])
        hit = {row for row in load.facts["link"] if min(hops[node][row[0]], hops[node][row[1]]) <= radius}
        assert {row for _, _, row in step.operations} == hit


def test_outages_of_a_network_with_a_lonely_node() -> None:
    graph = nx.Graph([(0, 1)])
    graph.add_node(2)
    load = topologies.workload("outages", graph, LINK2, steps=30)
    assert {step.about for step in load.steps} <= {
        f"1 link around {node} {verb}" for node in (0, 1) for verb in ("fails", "recovers")}


def test_flapping_links_are_few() -> None:
    load = topologies.workload("flapping", NETWORK, LINK2, steps=200, seed=1, links=2)
    assert len({step.about.rsplit(" ", 1)[0] for step in load.steps}) == 2
    everything = topologies.workload("flapping", nx.path_graph(3), LINK2, steps=50, links=99)
    assert len({step.about.rsplit(" ", 1)[0] for step in everything.steps}) == 2


# --- insertion -------------------------------------------------------------------------------------------------


def test_insertion_in_the_papers_fractions() -> None:
    graph = topologies.dense(100, seed=1)
    load = topologies.workload("insert", graph, {"link": 2, "node": 1}, seed=1)
    assert load.facts["link"] == [] and len(load.facts["node"]) == 100
    assert [len(step.operations) for step in load.steps] == [200, 100, 100]
    assert replay(load)["link"] == set(topologies.pairs(graph))
    single = topologies.workload("insert", graph, LINK2, directed=True, fractions=(0.25, 1.0))
    assert [len(step.operations) for step in single.steps] == [100, 300]


@pytest.mark.parametrize("steps", [1, 7, 100])
def test_insertion_in_equal_steps(steps: int) -> None:
    load = topologies.workload("insert", NETWORK, LINK2, steps=steps)
    sizes = [len(step.operations) // 2 for step in load.steps]
    assert len(sizes) == min(steps, NETWORK.number_of_edges())
    assert sum(sizes) == NETWORK.number_of_edges() and max(sizes) - min(sizes) <= 1


def test_sensors_are_inserted_and_removed() -> None:
    """Figures 9 and 10 of the paper: half of the sensors are triggered, and then removed one by one."""
    load = topologies.workload("insert", GRID, SENSORS)
    triggered = set(topologies.facts(GRID, SENSORS)["isTriggered"])
    assert load.facts["isTriggered"] == [] and len(load.facts["sensor"]) == 36
    assert replay(load)["isTriggered"] == triggered
    removal = topologies.workload("failures", GRID, SENSORS)
    assert len(list(removal.steps)) == len(triggered) and replay(removal)["isTriggered"] == set()


# --- costs -----------------------------------------------------------------------------------------------------


def test_cost_changes_with_a_key() -> None:
    load = topologies.workload("costs", NETWORK, LINK3, steps=300, seed=1, keyed=True)
    costs = {row[:2]: row[2] for row in load.facts["link"]}
    first = dict(costs)
    for step in load.steps:
        (sign, _, (a, b, new)), (_, _, other) = step.operations
        assert sign == "+" and other == (b, a, new)
        assert isinstance(new, int) and new != costs[a, b] and new >= 1
        assert abs(new - first[a, b]) <= first[a, b] / 2
        costs[a, b] = costs[b, a] = new


def test_cost_changes_without_a_key_keep_one_cost_per_link() -> None:
    load = topologies.workload("costs", NETWORK, LINK3, steps=300, seed=1)
    end = replay(load)["link"]
    assert len({row[:2] for row in end}) == len(end) == 2 * NETWORK.number_of_edges()


def test_costs_that_are_floats_or_one() -> None:
    graph = nx.Graph()
    graph.add_edge(0, 1, latency=2.5)
    graph.add_edge(1, 2, latency=1)
    costs = {row[2] for step in topologies.workload("costs", graph, LINK3, steps=50, keyed=True).steps
             for _, _, row in step.operations}
    assert {cost for cost in costs if isinstance(cost, int)} == {1, 2}
    assert all(1.25 <= cost <= 3.75 for cost in costs if isinstance(cost, float))


# --- soft state ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ttl", [30.0, 10.0, 0.7])
def test_refreshes_and_expiry(ttl: float) -> None:
    load = topologies.workload("ttl", NETWORK, LINK2, steps=80, seed=1, ttl=ttl, silent=0.1)
    last = dict.fromkeys(load.facts["link"], 0.0)
    expired = returned = 0
    for step in load.steps:
        gone = {row for row, time in last.items() if time + ttl <= step.time}
        for row in gone:
            del last[row]
        expired += len(gone)
        for sign, _, row in step.operations:
            assert sign == "+"
            if row not in last:
                returned += 1
            else:  # it is refreshed in every round, and once it has missed one never again before it has expired
                assert last[row] == pytest.approx(step.time - ttl / 3)
            last[row] = step.time
    assert expired > 20 and returned > 10


def test_soft_state_in_the_engine() -> None:
    """What the stream says of expiry is what the engine does."""
    load = topologies.workload("ttl", NETWORK, LINK2, steps=25, seed=1, ttl=10, silent=0.1)
    program = datalog.parse(".decl link(a: number, b: number) ttl(10)\n.output v\nv(x, y) :- link(x, y).\n")
    with livelog.open(program, facts=load.facts) as session:
        last = dict.fromkeys(load.facts["link"], 0.0)
        for step in load.steps:
            with session.transaction() as t:
                t.advance_to(step.time)
                for _, relation, row in step.operations:
                    t.insert(relation, row)
            last = {row: time for row, time in last.items() if time + 10 > step.time}
            last |= {row: step.time for _, _, row in step.operations}
            assert set(session["v"]) == set(last)


# --- sensors ---------------------------------------------------------------------------------------------------


def test_triggers_keep_their_share() -> None:
    load = topologies.workload("sensors", GRID, SENSORS, steps=3000, seed=1, triggered=0.25)
    on, shares = len(load.facts["isTriggered"]), []
    for number, step in enumerate(load.steps):
        on += 1 if step.operations[0][0] == "+" else -1
        if number > 500:
            shares.append(on / 36)
    assert statistics.mean(shares) == pytest.approx(0.25, abs=0.04)


@pytest.mark.parametrize("seed", range(5))
def test_a_fire_crosses_the_field(seed: int) -> None:
    grid = topologies.sensor_grid(seed=seed, triggered=0.2, jitter=0.3)
    load = topologies.workload("fire", grid, SENSORS, seed=seed)
    assert replay(load)["isTriggered"] == set()  # all have burnt out
    out: set[Any] = set()
    burning: list[tuple[Any, ...]] = []
    for step in load.steps:
        for sign, _, row in step.operations:
            assert row not in out
            if sign == "-":
                out.add(row)
            else:
                burning.append(row)
    assert len(out) == 100
    # the front goes one way: sensors near each other in time are near each other along it
    place = dict(grid.nodes(data="pos"))
    early, late = burning[:15], burning[-15:]
    middle = [tuple(statistics.mean(place[row[0]][axis] for row in rows) for axis in (0, 1)) for rows in (early, late)]
    assert math.dist(*middle) > 50


def test_a_fire_in_so_many_steps() -> None:
    for steps in (5, 20):
        load = topologies.workload("fire", topologies.sensor_grid(seed=1), SENSORS, steps=steps, seed=1)
        assert replay(load)["isTriggered"] == set()
    few = topologies.workload("fire", topologies.sensor_grid(seed=1), SENSORS, steps=3, seed=1, advance=5.0)
    assert len(list(few.steps)) == 3


def test_the_region_query_follows_a_fire() -> None:
    """The stream runs through the program it is made for."""
    program = Path(__file__).parent.parent / "examples/05_regions.dl"
    load = topologies.workload("fire", GRID, SENSORS, seed=1)
    with livelog.open(program, facts=load.facts) as session:
        before = len(session["activeRegion"])
        for step in load.steps:
            with session.transaction() as t:
                for sign, relation, row in step.operations:
                    (t.insert if sign == "+" else t.delete)(relation, row)
        assert before > 5 and not session["activeRegion"]


# --- arrival times ---------------------------------------------------------------------------------------------


def gaps(arrivals: Arrivals, count: int = 20_000) -> list[float]:
    times = [0.0, *islice(arrivals.times(random.Random(1)), count)]
    assert times == sorted(times)
    return [b - a for a, b in pairwise(times)]


def test_exponential_gaps() -> None:
    found = gaps(topologies.exponential(5))
    assert statistics.mean(found) == pytest.approx(5, rel=0.03)
    assert statistics.stdev(found) == pytest.approx(5, rel=0.05)
    for x in (5, 15):
        assert sum(gap > x for gap in found) / len(found) == pytest.approx(math.exp(-x / 5), abs=0.01)


@pytest.mark.parametrize("shape", [1.5, 3.0])
def test_heavy_tailed_gaps(shape: float) -> None:
    found = gaps(topologies.heavy_tailed(5, shape))
    scale = 5 * (shape - 1)
    for x in (1, 5, 20, 100):  # the whole distribution, the tail too
        assert sum(gap > x for gap in found) / len(found) == pytest.approx((1 + x / scale) ** -shape, abs=0.01)
    assert statistics.median(found) == pytest.approx(scale * (2 ** (1 / shape) - 1), rel=0.05)
    if shape > 2:  # otherwise the variance is infinite and a mean says little
        assert statistics.mean(found) == pytest.approx(5, rel=0.05)


def test_the_tail_is_heavier_than_the_exponential_one() -> None:
    assert max(gaps(topologies.heavy_tailed(5, 1.5))) > 5 * max(gaps(topologies.exponential(5)))


def test_streams_take_their_arrivals() -> None:
    steps = topologies.workload("churn", NETWORK, LINK2, steps=2000, arrivals=topologies.exponential(100)).steps
    assert statistics.mean(b.time - a.time for a, b in pairwise(steps)) == pytest.approx(100, rel=0.1)


# --- what does not fit -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "graph", "relations", "options", "message"), [
    ("fail", NETWORK, LINK2, {}, "unknown workload 'fail': choose failures, recoveries, churn, bursts"),
    ("costs", NETWORK, LINK2, {}, "the workload 'costs' needs a relation link with three columns, .* has link/2"),
    ("costs", GRID, SENSORS, {}, "needs a relation link with three columns, and the program has isTriggered/1"),
    ("failures", NETWORK, {"road": 2}, {}, "'failures' needs a relation link with two or three columns .* has road/2"),
    ("failures", NETWORK, {}, {}, "the program has no base relations"),
    ("failures", NETWORK, {"link": 4}, {}, "needs a relation link with two or three columns"),
    ("failures", NETWORK, SENSORS, {}, "needs a relation link"),
    ("sensors", NETWORK, SENSORS, {}, "needs a sensor grid .*; the network has no sensors"),
    ("fire", GRID, LINK2, {}, "'fire' needs a sensor grid and a relation isTriggered with one column, .* has link/2$"),
    ("churn", NETWORK, LINK2, {"steps": None}, "'churn' never ends by itself: say how many steps"),
    ("churn", NETWORK, LINK2, {"steps": -1}, "must not be negative, got -1"),
    ("churn", NETWORK, LINK2, {"up": 1}, "'churn' has no option 'up'; it has: arrivals, directed, down"),
    ("churn", NETWORK, LINK2, {"down": 1}, "down is a share between 0 and 1, got 1"),
    ("churn", NETWORK, LINK2, {"arrivals": 3}, r"arrivals must be topologies\.Arrivals, got 3"),
    ("ttl", NETWORK, LINK2, {"arrivals": Arrivals()}, "'ttl' has no option 'arrivals'"),
    ("ttl", NETWORK, LINK2, {"ttl": 0}, "a ttl is a time greater than 0"),
    ("ttl", NETWORK, LINK2, {"ttl": 3, "period": 3}, "0 < period < 3, got 3"),
    ("ttl", NETWORK, LINK2, {"silent": 2}, "silent is a share"),
    ("bursts", NETWORK, LINK2, {"size": 0}, "at least one failure, got 0"),
    ("flapping", NETWORK, LINK2, {"links": 0}, "at least one link has to flap"),
    ("outages", NETWORK, LINK2, {"radius": -1}, "number of hops, got -1"),
    ("costs", NETWORK, LINK3, {"spread": 1}, "spread is a share between 0 and 1"),
    ("insert", NETWORK, LINK2, {"fractions": ()}, "fractions have to grow"),
    ("insert", NETWORK, LINK2, {"fractions": (0, 1)}, "fractions have to grow"),
    ("insert", NETWORK, LINK2, {"fractions": (0.5, 1.5)}, "fractions have to grow"),
    ("fire", GRID, SENSORS, {"depth": 0}, "depth must be greater than 0 m"),
    ("sensors", GRID, SENSORS, {"triggered": 0}, "triggered is a share"),
])
def test_what_does_not_fit_says_what_it_needs(
    name: str, graph: nx.Graph, relations: dict[str, int], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        topologies.workload(name, graph, relations, **({"steps": 5} | options))


@pytest.mark.parametrize("name", [name for name, kind in topologies.WORKLOADS.items() if kind.ends and name != "fire"])
def test_a_network_without_links_has_nothing_to_do(name: str) -> None:
    steps = list(topologies.workload(name, nx.empty_graph(1), LINK2).steps)
    assert [operation for step in steps for operation in step.operations] == []


@pytest.mark.parametrize("name", [n for n, kind in topologies.WORKLOADS.items() if not kind.ends and n != "sensors"])
def test_a_stream_that_never_ends_needs_something_to_do(name: str) -> None:
    with pytest.raises(ValueError, match="no link or triggered sensor that could fail"):
        topologies.workload(name, nx.empty_graph(1), LINK3, steps=5)


def test_one_sensor_is_enough() -> None:
    grid = topologies.sensor_grid(1, seeds=1, seed=1)
    for name in ("sensors", "fire", "recoveries"):
        assert replay(topologies.workload(name, grid, SENSORS, steps=4))
