"""The peers of the benchmark answer right, each by itself, and a wrong answer would be noticed."""

from __future__ import annotations

import random
from dataclasses import replace
from importlib.util import find_spec

import networkx as nx
import pytest

import topologies
from bench import peers, plots
from bench.peer_kit import VIEWS, Run, difference, drive, drive_apart, pack

CostLink = tuple[int, int, int]


def expected(view: str, links: list[CostLink]) -> set[tuple[int, ...]]:
    """The view by one search per link."""
    graph = nx.DiGraph()
    graph.add_weighted_edges_from(links)
    best: dict[tuple[int, int], int] = {}
    for x, z, cost in links:
        for y, rest in nx.single_source_dijkstra_path_length(graph, z).items():
            best[x, y] = min(best.get((x, y), cost + rest), cost + rest)
    return {(x, y) if view == "reachable" else (x, y, cost) for (x, y), cost in best.items()}


def small(seed: int) -> tuple[list[CostLink], list[CostLink]]:
    """A network with one-way parts, so that not everything reaches everything."""
    links = topologies.links(topologies.sparse(24, links=60, seed=seed))
    rng = random.Random(seed)
    links = sorted([*rng.sample(links, 45), (23, 24, 7), (24, 25, 1)])
    return links, rng.sample(links, 23)


def check(run: Run, view: str, links: list[CostLink], victims: list[CostLink]) -> None:
    left = [link for link in links if link not in set(victims[:20])]
    whole = pack(expected(view, links))
    assert run.snapshots["the load"] == run.snapshots["re-insertion 23"] == whole
    assert run.snapshots["deletion 20"] == pack(expected(view, left)) != whole
    assert list(run.snapshots) == [
        "the load",
        *(f"{what} {number}" for what in ("deletion", "re-insertion") for number in (10, 20, 23)),
    ]
    assert len(run.deletions) == len(run.insertions) == len(victims)
    assert all(lap.wall > 0 for lap in (run.load, *run.deletions, *run.insertions))


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("who", [who for who in peers.PEERS if who != "pathway"])
@pytest.mark.parametrize("seed", range(2))
def test_answers(who: str, view: str, seed: int) -> None:
    if who != peers.OURS:
        pytest.importorskip(who.split(",")[0])
    links, victims = small(seed)
    check(drive(peers.PEERS[who], view, links, victims), view, links, victims)


@pytest.mark.parametrize("view", VIEWS)
def test_pathway(view: str) -> None:
    """In a process of its own: a Pathway run leaves threads and a graph behind."""
    if find_spec("pathway") is None:
        pytest.skip("Pathway is not installed")
    links, victims = small(0)
    check(drive_apart(peers.PEERS["pathway"], view, links, victims), view, links, victims)


def test_a_self_loop_reaches_itself() -> None:
    links = [(0, 0, 5), (0, 1, 2), (1, 2, 3), (2, 1, 4)]
    for view in VIEWS:
        want = pack(expected(view, links))
        for who in ("networkx", "rustworkx", "rustworkx, no rows"):
            pytest.importorskip(who.split(",")[0])
            assert drive(peers.PEERS[who], view, links, [links[0]]).snapshots["the load"] == want, (who, view)


def test_a_wrong_answer_is_noticed() -> None:
    links, victims = small(0)
    ours = drive(peers.PEERS[peers.OURS], "reachable", links, victims)
    peers.assert_equal_answers("reachable", ours, "somebody", ours)
    wrong = replace(ours, snapshots=ours.snapshots | {"deletion 10": pack([(1, 99)])})
    with pytest.raises(AssertionError, match=r"deletion 10: somebody lacks \d+ rows .* has 1 more, such as \[\(1, 99"):
        peers.assert_equal_answers("reachable", ours, "somebody", wrong)
    with pytest.raises(AssertionError, match="not asked as often"):
        peers.assert_equal_answers("reachable", ours, "somebody", replace(ours, snapshots={}))


def test_packed_views() -> None:
    assert pack([]) == b"" and pack([(1, 2, 3.0)]) == pack([(1, 2, 3)])
    assert difference(pack([(1, 2, 3)]), pack([(1, 2, 4)]), 3) == ([(1, 2, 3)], [(1, 2, 4)])


def test_the_workload_is_the_same_for_all() -> None:
    links, victims = peers.workload(100)
    assert (len(links), len(victims), len(set(victims))) == (394, 78, 78)
    assert set(victims) <= set(links) and all(type(cost) is int and cost > 0 for _, _, cost in links)
    assert peers.workload(100) == (links, victims)
    assert set(peers.LIMITS) < set(peers.PEERS) and set(peers.REPETITIONS) < set(peers.PEERS)


def test_bars_compare_ours_with_the_others() -> None:
    rows = [{"who": who, "deletion ms": 10.0, "re-insertion ms": 4.0} for who in peers.PEERS]
    rows[0] |= {"deletion ms": 3.0, "re-insertion ms": 5.0}
    found = peers.bars("minCost", 400, rows)
    assert [bar.met for bar in found] == [True] * 4 + [False] * 4
    assert found[0].figure == 0.3 and found[-1].figure == 1.25
    assert len({bar.name for bar in found}) == len(found)


def test_picture() -> None:
    rows = [
        {"view": view, "nodes": nodes, "who": who, "deletion ms": 3.0 + n, "re-insertion ms": 1.0 + n}
        for view in VIEWS
        for nodes in (100, 400)
        for n, who in enumerate(peers.PEERS)
    ]
    figure = plots.peers(rows)
    assert [panel.get_title() for panel in figure.axes] == [
        f"{view}, {nodes} nodes" for view in VIEWS for nodes in (100, 400)
    ]
    assert all(panel.get_xscale() == "log" for panel in figure.axes)
    assert all(len(panel.patches) == 2 * len(peers.PEERS) for panel in figure.axes)
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == list(peers.PEERS)
