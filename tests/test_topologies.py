"""The generators draw what GT-ITM draws: model properties, not exact edges."""

from __future__ import annotations

import math
import random
import statistics
from itertools import islice, pairwise
from typing import Any

import networkx as nx
import pytest

import topologies
from topologies.flat import DOAR_LESLIE, EXPONENTIAL, LOCALITY, PURE, WAXMAN, WAXMAN_RANDOM, EdgeMethod, flat_random
from topologies.transit_stub import jitter

SEEDS = range(10)

METHODS = [
    EdgeMethod(WAXMAN_RANDOM, alpha=0.9, beta=0.8),
    EdgeMethod(WAXMAN, alpha=0.9, beta=0.5),
    EdgeMethod(PURE, alpha=0.42),
    EdgeMethod(EXPONENTIAL, alpha=0.9),
    EdgeMethod(DOAR_LESLIE, alpha=0.9, beta=0.5, gamma=8),
    EdgeMethod(LOCALITY, alpha=0.8, beta=0.2, gamma=0.3),
]


def picture(graph: nx.Graph) -> tuple[object, object]:
    """Everything there is in a graph, for comparison."""
    edges = [(*((a, b) if graph.is_directed() else sorted((a, b))), data) for a, b, data in graph.edges(data=True)]
    return sorted(graph.nodes(data=True)), sorted(edges, key=lambda edge: edge[:2])


def domains(graph: nx.Graph) -> dict[str, list[int]]:
    members: dict[str, list[int]] = {}
    for node, domain in graph.nodes(data="domain"):
        members.setdefault(domain, []).append(node)
    return members


# --- the published samples ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "nodes", "low", "high"),
    [("ts20", 20, 19, 25), ("ts100", 100, 166, 193), ("ts600", 600, 1164, 1250), ("ts1000", 1000, 1830, 1990)],
)
def test_presets_have_the_published_counts(name: str, nodes: int, low: int, high: int) -> None:
    """The mean over ten seeds lies in the spread of the ten published graphs (or around the single one)."""
    graphs = [topologies.PRESETS[name](seed) for seed in SEEDS]
    assert all(len(graph) == nodes and nx.is_connected(graph) for graph in graphs)
    assert low <= statistics.mean(graph.number_of_edges() for graph in graphs) <= high


def test_presets_differ_by_seed_only() -> None:
    assert picture(topologies.ts100(3)) == picture(topologies.ts100(3))
    assert picture(topologies.ts100(3)) != picture(topologies.ts100(4))


def test_a_generator_as_seed_goes_on_where_it_was() -> None:
    rng = random.Random(1)
    first, second = topologies.ts100(rng), topologies.ts100(rng)
    assert picture(first) == picture(topologies.ts100(1))
    assert picture(first) != picture(second)


# --- the structure -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 4, 3, 8), (3, 2, 2, 5), (2, 3, 4, 1), (1, 1, 1, 1), (4, 1, 1, 3), (1, 6, 0, 9)])
@pytest.mark.parametrize("seed", range(3))
def test_structure(shape: tuple[int, int, int, int], seed: int) -> None:
    n, t, k, s = shape
    graph = topologies.transit_stub(n, t, k, s, seed=seed)
    assert len(graph) == n * t * (1 + k * s) == topologies.Shape(*shape).nodes
    assert sorted(graph) == list(range(len(graph)))
    assert nx.is_connected(graph)
    transits = [node for node, kind in graph.nodes(data="kind") if kind == "transit"]
    assert transits == list(range(n * t))
    members = domains(graph)
    assert sum(1 for domain in members if domain.startswith("T:")) == n
    assert sum(1 for domain in members if domain.startswith("S:")) == n * t * k
    for nodes in members.values():
        assert nx.is_connected(graph.subgraph(nodes))
    # without extra edges the nodes of a stub have one way out, to their transit node
    for domain, nodes in members.items():
        out = [(a, b) for a in nodes for b in graph[a] if graph.nodes[b]["domain"] != domain]
        if domain.startswith("S:"):
            assert [b for _, b in out] == [graph.nodes[nodes[0]]["transit"]]


def test_attributes() -> None:
    graph = topologies.transit_stub(3, 4, 2, 5, extra_transit_stub=9, extra_stub_stub=7, seed=5)
    for _, data in graph.nodes(data=True):
        assert data["kind"] in ("transit", "stub")
        assert data["label"].startswith(data["domain"] + ".")
        assert all(isinstance(x, int) for x in data["pos"])
    labels = [label for _, label in graph.nodes(data="label")]
    assert len(set(labels)) == len(labels)
    for a, b, data in graph.edges(data=True):
        one, other = graph.nodes[a], graph.nodes[b]
        same = one["domain"] == other["domain"]
        kinds = {one["kind"], other["kind"]}
        expected = {
            "inter-domain": kinds == {"transit"} and not same,
            "transit": kinds == {"transit"} and same,
            "transit-stub": kinds == {"transit", "stub"},
            "stub": kinds == {"stub"} and same,
            "stub-stub": kinds == {"stub"} and not same,
        }
        assert expected[data["kind"]]
        assert isinstance(data["length"], int) and data["length"] >= 1
        assert data["latency"] == (50 if kinds == {"transit"} else 2 if data["kind"] == "stub" else 10)


def test_each_top_edge_gives_two_edges_between_domains() -> None:
    graph = topologies.transit_stub(4, 5, 1, 1, top=EdgeMethod(PURE, 1.0), seed=1)
    assert sum(1 for *_, kind in graph.edges(data="kind") if kind == "inter-domain") == 2 * 6
    single = topologies.transit_stub(2, 1, 1, 1, top=EdgeMethod(PURE, 1.0), seed=1)  # room for one only
    assert sum(1 for *_, kind in single.edges(data="kind") if kind == "inter-domain") == 1


def test_extra_edges() -> None:
    plain = topologies.transit_stub(2, 3, 2, 4, seed=2)
    graph = topologies.transit_stub(2, 3, 2, 4, extra_transit_stub=11, extra_stub_stub=13, seed=2)
    assert graph.number_of_edges() == plain.number_of_edges() + 24
    kinds = [kind for *_, kind in graph.edges(data="kind")]
    assert kinds.count("stub-stub") == 13
    assert kinds.count("transit-stub") == 2 * 3 * 2 + 11
    foreign = [
        (a, b) for a, b, kind in graph.edges(data="kind")
        if kind == "transit-stub" and graph.nodes[a]["transit"] != graph.nodes[b]["transit"]
    ]
    assert len(foreign) == 11


def test_every_possible_extra_edge_can_be_had() -> None:
    graph = topologies.transit_stub(1, 3, 1, 2, extra_transit_stub=12, extra_stub_stub=12, seed=0)
    assert sum(1 for *_, kind in graph.edges(data="kind") if kind == "stub-stub") == 12


# --- flat graphs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS, ids=lambda m: f"method{m.method}")
@pytest.mark.parametrize("n", [1, 2, 9, 30])
def test_flat_graphs_are_connected(method: EdgeMethod, n: int) -> None:
    graph = flat_random(n, 40, method, seed=n)
    points = [point for _, point in graph.nodes(data="pos")]
    assert len(graph) == len(set(points)) == n
    assert all(0 <= x < 40 for point in points for x in point)
    assert nx.is_connected(graph)
    assert picture(graph) == picture(flat_random(n, 40, method, seed=n))


@pytest.mark.parametrize("method", METHODS, ids=lambda m: f"method{m.method}")
def test_every_method_makes_a_transit_stub_graph(method: EdgeMethod) -> None:
    graph = topologies.transit_stub(2, 4, 2, 6, top=method, transit=method, stub=method, seed=1)
    assert len(graph) == 2 * 4 * 13 and nx.is_connected(graph)


def test_density_of_the_methods_is_their_probability() -> None:
    """With 60 nodes a graph comes out connected at once, so the share of edges is the method's mean."""
    def share(method: EdgeMethod) -> float:
        edges = [flat_random(60, 100, method, seed=seed).number_of_edges() for seed in SEEDS]
        return statistics.mean(edges) / (60 * 59 / 2)

    assert share(EdgeMethod(PURE, 0.3)) == pytest.approx(0.3, abs=0.02)
    # e uniform in [0, L]: the mean of alpha * exp(-e / (L * beta)) is alpha * beta * (1 - exp(-1 / beta))
    assert share(EdgeMethod(WAXMAN_RANDOM, 0.6, 0.5)) == pytest.approx(0.6 * 0.5 * (1 - 2.718281828 ** -2), abs=0.02)
    assert share(EdgeMethod(DOAR_LESLIE, 0.9, 1e9, 20)) == pytest.approx(20 / 60 * 0.9, abs=0.02)
    assert share(EdgeMethod(LOCALITY, 0.5, 0.1, 1.0)) == pytest.approx(0.5, abs=0.02)
    assert share(EdgeMethod(LOCALITY, 0.5, 0.2, 0.0)) == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize("method", [EdgeMethod(WAXMAN, 0.9, 0.15), EdgeMethod(EXPONENTIAL, 0.9)], ids=["waxman", "exp"])
def test_near_nodes_are_joined_more_often(method: EdgeMethod) -> None:
    graph = flat_random(60, 100, method, seed=3)
    place = dict(graph.nodes(data="pos"))
    near = [pair for pair in nx.non_edges(graph)] + list(graph.edges)
    length = {pair: (place[pair[0]][0] - place[pair[1]][0]) ** 2 + (place[pair[0]][1] - place[pair[1]][1]) ** 2
              for pair in near}
    joined = statistics.mean(length[pair] for pair in length if graph.has_edge(*pair))
    apart = statistics.mean(length[pair] for pair in length if not graph.has_edge(*pair))
    assert joined < apart


def test_jitter_keeps_sum_and_minimum() -> None:
    for entries, mean, seed in [(1, 5, 0), (2, 1, 1), (7, 3, 2), (40, 8, 3), (3, 0, 4)]:
        sizes = jitter(entries, mean, seed)
        assert len(sizes) == entries and sum(sizes) == entries * mean and min(sizes) >= min(1, mean)
    assert jitter(1, 5, 0) == [5] and jitter(2, 1, 0) == [1, 1] and jitter(0, 3, 0) == []
    assert len(set(jitter(40, 8, 3))) > 3


# --- dense and sparse ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [1, 2, 3, 7, 25, 50, 97, 100, 200, 400])
@pytest.mark.parametrize("density", [topologies.dense, topologies.sparse])
def test_density(density: object, nodes: int) -> None:
    assert callable(density)
    graph = density(nodes, seed=nodes)
    most = nodes * (nodes - 1)
    assert len(graph) == nodes
    assert 2 * graph.number_of_edges() == min(most, (4 if density is topologies.dense else 2) * nodes)
    assert nx.is_connected(graph)
    assert picture(graph) == picture(density(nodes, seed=nodes))


@pytest.mark.parametrize(("nodes", "links"), [(100, 394), (400, 1578), (1000, 3950)])
def test_exact_numbers_of_links(nodes: int, links: int) -> None:
    graph = topologies.dense(nodes, links=links, seed=1)
    assert len(topologies.pairs(graph)) == len(topologies.links(graph)) == links
    assert nx.is_connected(graph)


@pytest.mark.parametrize("seed", SEEDS)
def test_sparse_networks_are_transit_stub_networks(seed: int) -> None:
    graph = topologies.sparse(200, links=398, seed=seed)  # a tree
    assert nx.is_tree(graph)
    assert all(nx.is_connected(graph.subgraph(nodes)) for nodes in domains(graph).values())


def test_links_can_fill_the_graph() -> None:
    graph = topologies.dense(10, links=90, seed=1)
    assert graph.number_of_edges() == 45


# --- wrong parameters ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"transit_domains": 0}, "transit_domains must be at least 1, got 0"),
        ({"transit_nodes": 0}, "transit_nodes must be at least 1, got 0"),
        ({"stubs": -1}, "stubs must be at least 0, got -1"),
        ({"stub_nodes": 0}, "stub_nodes must be at least 1, got 0"),
        ({"extra_stub_stub": -3}, "extra_stub_stub must not be negative, got -3"),
        ({"extra_transit_stub": 10_000}, "room for 288 extra transit-stub edges, not for 10000"),
        ({"transit_nodes": 1, "extra_transit_stub": 1}, "room for 0 extra transit-stub edges"),
        ({"stubs": 1, "transit_nodes": 1, "extra_stub_stub": 1}, "room for 0 extra stub-stub edges"),
        ({"stubs": 0, "extra_stub_stub": 1}, "room for 0 extra stub-stub edges"),
        ({"transit": EdgeMethod(PURE, 0.0)}, "no connected graph of 4 nodes .* raise its alpha"),
    ],
)
def test_bad_parameters(arguments: dict[str, object], message: str) -> None:
    parameters = {"transit_domains": 1, "transit_nodes": 4, "stubs": 3, "stub_nodes": 8} | arguments
    with pytest.raises(ValueError, match=message):
        topologies.transit_stub(**parameters, seed=1)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ((0, 0.5), "unknown edge method 0: choose 1 to 6"),
        ((7, 0.5), "unknown edge method 7"),
        ((PURE, 1.5), "needs 0 <= alpha <= 1, got 1.5"),
        ((WAXMAN, 0.5, 0.0), "needs beta > 0"),
        ((WAXMAN_RANDOM, 0.5), "needs beta > 0"),
        ((DOAR_LESLIE, 0.5, 0.5), "needs gamma > 0"),
        ((LOCALITY, 0.5, 1.5), "needs 0 <= beta <= 1"),
        ((LOCALITY, 0.5, 0.5, -1.0), "needs gamma >= 0"),
    ],
)
def test_bad_edge_methods(parameters: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EdgeMethod(*parameters)  # type: ignore[arg-type]


def test_bad_sizes() -> None:
    with pytest.raises(ValueError, match="at least one node"):
        flat_random(0, 10, EdgeMethod(PURE, 1.0))
    with pytest.raises(ValueError, match="do not fit on a grid of 3 x 3"):
        flat_random(10, 3, EdgeMethod(PURE, 1.0))
    with pytest.raises(ValueError, match="at least one node, got 0"):
        topologies.dense(0)
    with pytest.raises(ValueError, match="must be even, got 201"):
        topologies.dense(100, links=201)
    with pytest.raises(ValueError, match="at least 198 links to be connected, got 196"):
        topologies.sparse(100, links=196)
    with pytest.raises(ValueError, match="at most 12 links, got 14"):
        topologies.dense(4, links=14)


# --- sensors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jitter", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("sensors", [5, 7, 36, 100, 250])
def test_sensor_grid(sensors: int, jitter: float) -> None:
    grid = topologies.sensor_grid(sensors, jitter=jitter, near=20, seed=sensors)
    place = dict(grid.nodes(data="pos"))
    assert len(grid) == sensors
    assert all(isinstance(x, int) and 0 <= x < 100 for point in place.values() for x in point)
    regions = grid.graph["regions"]
    assert len(regions) == len(set(regions.values())) == 5
    assert {node: region for node, region in grid.nodes(data="region") if region} == {n: r for r, n in regions.items()}
    state = dict(grid.nodes(data="triggered"))
    assert all(state[node] for node in regions.values())
    assert sum(state.values()) == 5 + round((sensors - 5) / 2)
    near = {frozenset((a, b)) for a in grid for b in grid if a < b and math.dist(place[a], place[b]) < 20}
    assert {frozenset(edge) for edge in grid.edges} == near
    assert picture(grid) == picture(topologies.sensor_grid(sensors, jitter=jitter, near=20, seed=sensors))


def test_a_regular_grid_has_its_spacing() -> None:
    for spacing, side in [(10, 10), (20, 5), (30, 3), (100, 1)]:
        grid = topologies.sensor_grid(spacing=spacing, seeds=1, seed=1)
        assert len(grid) == side * side
        for axis in (0, 1):
            rows = sorted({point[axis] for _, point in grid.nodes(data="pos")})
            assert len(rows) == side
            assert all(abs(b - a - 100 / side) < 1.01 for a, b in pairwise(rows))
    assert sorted(dict(topologies.sensor_grid(seed=1).nodes(data="pos")).values()) == [
        (x, y) for x in range(5, 100, 10) for y in range(5, 100, 10)]


def test_jittered_sensors_stay_near_their_cells() -> None:
    regular = dict(topologies.sensor_grid(seed=1).nodes(data="pos"))
    moved = dict(topologies.sensor_grid(jitter=0.5, seed=1).nodes(data="pos"))
    offsets = [b - a for node in regular for a, b in zip(regular[node], moved[node], strict=True)]
    assert all(abs(offset) <= 5 for offset in offsets) and len(set(offsets)) > 5
    assert abs(statistics.mean(offsets)) < 1.5


def test_trigger_state_of_sensors() -> None:
    for share, count in [(0, 5), (1, 100)]:
        assert sum(dict(topologies.sensor_grid(triggered=share, seed=1).nodes(data="triggered")).values()) == count
    one = topologies.sensor_grid(1, seeds=0, triggered=0, seed=1)
    assert len(one) == 1 and not one.edges and topologies.facts(one, {"isTriggered": 1}) == {"isTriggered": []}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sensors": 0}, "takes 1 to 10000 sensors, got 0"),
        ({"sensors": 9, "spacing": 10}, "not both"),
        ({"spacing": 0}, "between 1 and 100 m, got 0"),
        ({"spacing": 101}, "between 1 and 100 m"),
        ({"jitter": 2}, "jitter is a share between 0 and 1, got 2"),
        ({"triggered": -1}, "triggered is a share between 0 and 1"),
        ({"sensors": 4}, "4 sensors cannot be the seeds of 5 regions"),
        ({"field": 0}, "at least 1 m wide"),
    ],
)
def test_bad_sensor_grids(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        topologies.sensor_grid(**arguments)


# --- networks by name, and their facts -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", topologies.NETWORKS)
def test_networks_by_name(name: str) -> None:
    graph = topologies.network(name, seed=1)
    assert len(graph) == {"ts20": 20, "ts600": 600, "ts1000": 1000}.get(name, 100)
    assert picture(graph) == picture(topologies.network(name, seed=1))
    assert picture(graph) != picture(topologies.network(name, seed=2))
    if name in topologies.PRESETS:
        assert picture(graph) == picture(topologies.PRESETS[name](1))
        with pytest.raises(ValueError, match=f"{name} has a fixed number of nodes"):
            topologies.network(name, nodes=50)
    else:
        for nodes in (1, 3, 50):
            assert len(topologies.network(name, nodes=nodes, seed=1)) == nodes


@pytest.mark.parametrize(("density", "links"), [("dense", 4), ("sparse", 2)])
@pytest.mark.parametrize("name", ["ts20", "ts100", "transit-stub"])
def test_networks_with_a_density(name: str, density: str, links: int) -> None:
    graph = topologies.network(name, density=density, seed=1)
    assert len(topologies.pairs(graph)) == links * len(graph) and nx.is_connected(graph)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("ring", {}, "unknown network 'ring': choose ts20, .*sensor-grid or a file that ends in .alt, .csv, .gb"),
        ("ts100", {"density": "thick"}, "unknown density 'thick': choose dense or sparse"),
        ("sensor-grid", {"density": "dense"}, "only a transit-stub network can be made dense, and sensor-grid is none"),
        ("nowhere.gb", {}, "there is no file 'nowhere.gb'"),
        ("nowhere.gb", {"nodes": 3}, "given by the file nowhere.gb"),
        ("dense", {"nodes": 0}, "at least one node, got 0"),
    ],
)
def test_bad_networks(name: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        topologies.network(name, **arguments)


def test_facts_of_a_network() -> None:
    graph = topologies.ts20(1)
    found = topologies.facts(graph, {"link": 3, "node": 1, "other": 7})
    assert found == {"link": topologies.links(graph), "node": [(n,) for n in range(20)]}
    assert topologies.facts(graph, {"edge": 2}) == {"edge": topologies.pairs(graph)}
    assert topologies.facts(nx.empty_graph(1), {"link": 2, "node": 1}) == {"link": [], "node": [(0,)]}


def test_facts_of_sensors() -> None:
    grid = topologies.sensor_grid(9, seed=1)
    found = topologies.facts(grid, {"sensor": 2, "mainSensorInRegion": 2, "isTriggered": 1, "link": 3})
    assert set(found["sensor"]) == {(node, point) for node, point in grid.nodes(data="pos")}
    assert found["mainSensorInRegion"] == [(f"r{n}", grid.graph["regions"][f"r{n}"]) for n in range(1, 6)]
    assert {row[0] for row in found["isTriggered"]} == {n for n, on in grid.nodes(data="triggered") if on}
    assert len(found["link"]) == 2 * grid.number_of_edges()


@pytest.mark.parametrize(
    ("relations", "message"),
    [
        ({"link": 1}, r"filled with two columns \(src, dst\) or three \(src, dst, cost\), but the program's has 1"),
        ({"node": 2}, "filled with 1 columns, but the program's has 2"),
        ({"isTriggered": 1}, "is about sensors, and this network has none"),
        ({"price": 3, "a": 1}, "but the program has only a/1, price/3"),
        ({}, "but the program has no base relations"),
    ],
)
def test_facts_that_do_not_fit(relations: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        topologies.facts(topologies.ts20(1), relations)


def test_a_network_by_its_labels() -> None:
    graph = topologies.labelled(topologies.ts20(1))
    assert "T:0.0" in graph and all(isinstance(node, str) for node in graph)
    assert len(topologies.pairs(graph)) == len(topologies.pairs(topologies.ts20(1)))
    twins = nx.path_graph(2)
    nx.set_node_attributes(twins, "same", "label")
    assert sorted(topologies.labelled(twins)) == ["0", "1"]


# --- latencies without ties ----------------------------------------------------------------------------------------


def test_jittered_latencies() -> None:
    graph = topologies.dense(100, seed=1)
    fine = topologies.jitter(graph, 0.01, seed=1)
    moved = []
    for a, b, data in fine.edges(data=True):
        before = graph.edges[a, b]["latency"] * 1000
        assert isinstance(data["latency"], int) and abs(data["latency"] - before) < before / 100
        moved.append((data["latency"] - before) / before)
    assert abs(statistics.mean(moved)) < 0.002 and max(moved) > 0.008 and min(moved) < -0.008
    assert graph.edges[0, 1]["latency"] in topologies.LATENCY.values()  # the first one is as it was
    assert picture(fine) == picture(topologies.jitter(graph, 0.01, seed=1))
    assert picture(fine) != picture(topologies.jitter(graph, 0.01, seed=2))


def test_jittered_latencies_make_ties_rare() -> None:
    def ties(graph: nx.Graph) -> int:
        """Pairs of nodes with more than one cheapest path."""
        return sum(len(list(islice(nx.all_shortest_paths(graph, 0, node, weight="latency"), 2))) > 1 for node in graph)

    graph = topologies.dense(100, seed=1)
    assert ties(graph) > 10 > ties(topologies.jitter(graph, seed=1))


def test_bad_jitter() -> None:
    with pytest.raises(ValueError, match="at least 0 and less than 1, got 1"):
        topologies.jitter(topologies.ts20(1), 1)
    with pytest.raises(ValueError, match="the scale must be at least 1"):
        topologies.jitter(topologies.ts20(1), scale=0)
    with pytest.raises(ValueError, match="no attribute 'latency'"):
        topologies.jitter(nx.path_graph(2))
