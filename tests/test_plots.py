"""Pictures: written, not blank, nothing in them on top of anything else."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import datalog
import livelog
import topologies
from datalog.errors import UsageProblem
from livelog.cli import main
from livelog.simulation import Comparison, Meter, Run, scenario
from livelog.simulation.compare import PHASES
from livelog.simulation.layout import positions
from livelog.simulation.network_plot import FAILED, Aftermath, plot_network
from livelog.simulation.plots import COLOURS, plot_comparison, save
from livelog.simulation.reports import Done, PhaseEnd

ROOT = Path(__file__).parents[1]
REACH = "reachable(x, y) :- link(x, y).\nreachable(x, y) :- link(x, z), reachable(z, y).\n"
NAMES = (
    "absorption/demand", "absorption/lazy", "absorption/eager", "relative/lazy", "relative/eager", "dred", "recompute",
)  # fmt: skip


def made_up(scale: float = 1.0) -> Comparison:
    """Figures over five orders of magnitude; one strategy has passed its limit in the load, one in the changes."""
    runs = []
    for i, (name, phase) in enumerate(itertools.product(NAMES, PHASES)):
        cut = "load" if name == "absorption/eager" else "change" if name == "relative/eager" else None
        finished = cut is None or (cut == "change" and phase == "load")
        begun = cut != "load" or phase == "load"
        figure = scale * 10 ** (i % 6) * (i + 1)
        runs.append(Run(
            name, phase, figure / 1000 if begun else 0.0, int(figure * 100) if begun else 0, 10,
            0.0 if name == "dred" else figure, None if name == "relative/eager" and not finished else int(figure * 50),
            10, 10**7, finished, None if finished else "time", 1 if finished else 0, 1, (), (),
        ))  # fmt: skip
    return Comparison(tuple(runs))


def check_picture(path: Path, colours: int) -> None:
    """An image of a good size with at least so many colours in it."""
    from matplotlib.image import imread

    image = imread(path)
    height, width = image.shape[:2]
    assert width > 1000 and height > 500
    assert len({tuple(pixel) for row in image[::5, ::5] for pixel in row}) >= colours
    assert (image[0, :, :3] == 1).all(), "nothing is cut off at the edge"
    assert (image[:, 0, :3] == 1).all() and (image[-1, :, :3] == 1).all() and (image[:, -1, :3] == 1).all()


# --- strategies ----------------------------------------------------------------------------------------------


def test_comparison(tmp_path: Path) -> None:
    figure = plot_comparison(made_up(), "a title")
    save(figure, tmp_path / "c.png")
    check_picture(tmp_path / "c.png", 20)
    assert len(figure.axes) == 4
    for axis in figure.axes:
        assert axis.get_xlabel() in ("bytes", "seconds of processor time") and axis.get_title(loc="left")
        assert [label.get_text() for label in axis.get_yticklabels()] == list(NAMES)
        assert axis.get_xscale() == "log"
    shipped = figure.axes[1]
    hatched = [bar for bar in shipped.patches if bar.get_hatch()]
    assert len(hatched) == 2, "the load of one, the changes of another; what was never begun has no bar"
    texts = [text.get_text() for text in shipped.texts]
    assert texts[0] == "100 B" and texts.count("not reached") == 1 and texts[2] == "30 kB  (300×)"
    assert "not measured" in [text.get_text() for text in figure.axes[2].texts]
    assert [t.get_text() for t in figure.axes[0].texts if t.get_text() == "0 B"] == ["0 B", "0 B"]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["load", "change", "passed its limit", "(×: ratio to absorption/demand)"]


@pytest.mark.parametrize("scale", [1.0, 37.0, 1e5])
def test_labels_do_not_overlap(scale: float) -> None:
    figure = plot_comparison(made_up(scale), "a title that says on which network and with how many partitions this was")
    figure.draw_without_rendering()
    boxes = [
        (text.get_text(), text.get_window_extent())
        for axis in figure.axes
        for text in (*axis.texts, *axis.get_yticklabels(), axis.xaxis.label, axis._left_title)
    ]
    boxes += [("legend", figure.legends[0].get_window_extent())]
    for (one, box), (other, near) in itertools.combinations(boxes, 2):
        # a hair's breadth between two lines of text is enough
        assert not box.shrunk(0.98, 0.6).overlaps(near.shrunk(0.98, 0.6)), f"{one!r} and {other!r}"
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 for _, box in boxes)


def test_few_strategies_on_a_linear_axis(tmp_path: Path) -> None:
    runs = [r for r in made_up().runs if r.strategy == "dred"]
    figure = plot_comparison(Comparison(tuple(runs)))
    provenance, shipped, *_ = figure.axes
    assert provenance.get_xscale() == "linear" and not provenance.patches, "all zero"
    assert len(shipped.patches) == 2 and "×" not in "".join(t.get_text() for t in shipped.texts)
    save(figure, tmp_path / "c.svg")
    assert "<svg" in (tmp_path / "c.svg").read_text()


def test_colours_can_be_told_apart() -> None:
    def luminance(colour: str) -> float:
        r, g, b = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    assert abs(luminance(COLOURS["load"]) - luminance(COLOURS["change"])) > 0.2, "also in grey"


def test_unknown_form(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=r"a picture is a .png, .svg or .pdf file, not 'x.txt'"):
        save(plot_comparison(made_up()), "x.txt")


# --- networks ------------------------------------------------------------------------------------------------


def simulated(program: str, **options: Any) -> tuple[nx.Graph, Aftermath]:
    checked = datalog.check(datalog.parse(program))
    found = scenario(checked, **options)
    aftermath = Aftermath()
    with livelog.open(checked) as session:
        for report in Meter(session, rows=True).run(found.workload):
            if isinstance(report, PhaseEnd) and report.facts is not None:
                aftermath.before = aftermath.before or report.facts
                aftermath.after = report.facts
            elif isinstance(report, Done) and report.phase == "change":
                aftermath.add(report.changed or {})
    return found.graph, aftermath


def test_network(tmp_path: Path) -> None:
    graph, aftermath = simulated(REACH, topology="ts20", steps=3, seed=1)
    states = aftermath.links(graph)
    assert sorted(states.values()).count("failed") == 3 and set(states.values()) == {"failed", "up"}
    affected = aftermath.affected(graph)
    left = graph.copy()
    left.remove_edges_from([edge for edge, state in states.items() if state == "failed"])
    parts = {node: part for part in map(frozenset, nx.connected_components(left)) for node in part}
    for node in graph:  # a node has lost the pairs (both ways) with all that it is cut off from, itself if it is alone
        lost = 2 * (len(graph) - len(parts[node])) + (len(parts[node]) == 1)
        assert affected.get(node, 0) == lost, node
    figure = plot_network(graph, aftermath, "a title")
    save(figure, tmp_path / "n.png")
    check_picture(tmp_path / "n.png", 20)
    assert "failed links (3)" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_keys_costs_and_directions() -> None:
    program = ".decl link(x: number, y: number, c: number) key(x, y)\nr(x, c) :- link(x, _, c).\n"
    graph, aftermath = simulated(program, topology="ts20", workload="costs", steps=2, seed=1)
    assert sorted(aftermath.links(graph).values()).count("changed") == 2
    one_way = Aftermath({"link": [(0, 1), (1, 0)]}, {"link": [(0, 1)]})
    assert one_way.links(nx.path_graph(3)) == {(0, 1): "failed", (1, 2): "never"}
    directed = nx.DiGraph([(0, 1), (1, 0)])
    assert one_way.links(directed) == {(0, 1): "up", (1, 0): "failed"}


def test_symbols_are_found_again() -> None:
    graph, aftermath = simulated(".decl link(x: symbol, y: symbol)\n" + REACH, topology="ts20", steps=3, seed=1)
    assert sorted(aftermath.links(graph).values()).count("failed") == 3 and aftermath.affected(graph)


def test_sensors(tmp_path: Path) -> None:
    program = (ROOT / "examples" / "05_regions.dl").read_text()
    graph, aftermath = simulated(program, nodes=25, steps=5, seed=2)
    marked = aftermath.marked(graph)
    assert 1 <= len(marked["lost"]) + len(marked["gained"]) <= 5
    figure = plot_network(graph, aftermath)
    save(figure, tmp_path / "s.png")
    check_picture(tmp_path / "s.png", 10)
    assert any("fact about the node" in text.get_text() for text in figure.legends[0].get_texts())


@pytest.mark.parametrize("graph", [
    topologies.ts20(1), topologies.ts600(1), topologies.labelled(topologies.ts100(1)), topologies.sensor_grid(seed=1),
    nx.path_graph(4), nx.star_graph(600), nx.DiGraph([("a", "b")]), topologies.transit_stub(1, 1, 0, 1, seed=1),
])  # fmt: skip
def test_layout(graph: nx.Graph) -> None:
    points = positions(graph)
    assert points.keys() == set(graph) and points == positions(graph)
    assert len({(round(x, 6), round(y, 6)) for x, y in points.values()}) == len(graph), "two nodes on one spot"


def test_longitude_and_latitude() -> None:
    graph = nx.Graph()
    graph.add_node("Rome", Longitude=12.5, Latitude="41.9")
    graph.add_node("Oslo", Longitude=10.7, Latitude=59.9)
    points = positions(graph)
    assert [x for x, _ in points.values()] == [12.5, 10.7]
    # at 51 degrees north a degree of latitude is 1.59 times as long as one of longitude
    assert points["Oslo"][1] - points["Rome"][1] == pytest.approx(18 * 1.584, rel=0.01)
    graph.add_edges_from([("Rome", "between"), ("between", "Oslo"), ("Oslo", "north")])
    graph.add_node("Bonn", Longitude=7.1, Latitude=50.7)
    graph.add_node("nowhere")
    points = positions(graph)
    assert len(set(points.values())) == 6 and points["between"][0] == pytest.approx(11.6)
    graph.add_nodes_from(range(9))
    assert len(positions(graph)) == 15  # too few are on the map


def test_names_are_as_many_as_can_be_read() -> None:
    graph = nx.grid_2d_graph(40, 40)
    nx.set_node_attributes(graph, {node: node for node in graph}, "pos")
    few = nx.relabel_nodes(nx.path_graph(5), {i: f"node {i}" for i in range(5)})
    for network, least, most in ((few, 5, 5), (graph, 20, 250)):
        (axis, *_) = plot_network(network, Aftermath()).axes
        assert least <= len(axis.texts) <= most
        assert len({text.get_text() for text in axis.texts}) == len(axis.texts)


def test_the_page_has_the_shape_of_the_map() -> None:
    for wide, high in ((8, 2), (2, 8), (4, 4)):
        graph = nx.grid_2d_graph(wide, high)
        nx.set_node_attributes(graph, {node: node for node in graph}, "pos")
        width, height = plot_network(graph, Aftermath()).get_size_inches()
        assert (width > 1.5 * height) == (wide > high) and (height > 1.2 * width) == (high > wide)


@pytest.mark.parametrize("workload", ["failures", "recoveries", "churn", "bursts", "outages", "flapping", "insert"])
def test_every_workload_shows_what_it_affected(workload: str) -> None:
    """Also one after which everything is as before."""
    checked = datalog.check(datalog.parse(REACH))
    found = scenario(checked, topology="ts20", density="sparse", workload=workload, steps=6, seed=1)
    aftermath = Aftermath()
    with livelog.open(checked) as session:
        for report in Meter(session, rows=True).run(found.workload):
            if isinstance(report, PhaseEnd) and report.facts is not None:
                aftermath.before, aftermath.after = aftermath.before or report.facts, report.facts
            elif isinstance(report, Done) and report.phase == "change":
                aftermath.fall(list(found.workload.steps)[report.number - 1].operations)
                aftermath.add(report.changed or {})
    assert aftermath.affected(found.graph) and sum(map(sum, aftermath.counts.values()))
    states = set(aftermath.links(found.graph).values())
    assert workload == "insert" or states & {"failed", "recovered"}
    figure = plot_network(found.graph, aftermath)
    assert figure.axes[0].get_title().startswith("views: reachable +")


def test_nothing_happened(tmp_path: Path) -> None:
    """No link failed, no view changed: a picture all the same, without a scale that means nothing."""
    graph = topologies.ts20(1)
    facts = {"link": topologies.pairs(graph)}
    figure = plot_network(graph, Aftermath(facts, facts))
    assert len(figure.axes) == 1
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["link", "node, views unchanged"]


def test_the_command_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reach.dl").write_text(REACH)
    assert main(["simulate", "reach.dl", "--topology", "ts20", "--steps", "3", "--plot", "n.png"]) == 0
    check_picture(Path("n.png"), 20)
    from matplotlib.colors import to_rgb
    from matplotlib.image import imread

    red = [round(value, 2) for value in to_rgb(FAILED)]
    image = imread("n.png")
    assert any([round(float(v), 2) for v in pixel[:3]] == red for row in image for pixel in row), "no failed link drawn"


def test_nothing_global_is_touched() -> None:
    code = (
        "import sys, networkx as nx\n"
        "from livelog.simulation.network_plot import Aftermath, plot_network\n"
        "assert 'matplotlib' not in sys.modules\n"
        "plot_network(nx.path_graph(3), Aftermath())\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
