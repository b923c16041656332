"""The generators draw what GT-ITM draws: model properties, not exact edges."""

from __future__ import annotations

import random
import statistics

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
    return sorted(graph.nodes(data=True)), sorted((*sorted((a, b)), d) for a, b, d in graph.edges(data=True))


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
