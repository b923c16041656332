"""Networks come back from files as they went in; what GT-ITM's tools write is read; damaged files say what is wrong."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies
from tests.test_topologies import picture
from topologies.formats import FormatProblem, format_alt, format_gb, parse_alt, parse_gb, parse_graphml
from topologies.formats.gb import CHARACTERS, checksum

FORMS = {"gb": (format_gb, parse_gb), "alt": (format_alt, parse_alt)}


def without_id(graph: nx.Graph) -> object:
    return graph.is_directed(), picture(graph)


# --- round trips -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("graph", [
    topologies.ts20(1), topologies.ts100(2), topologies.ts600(3), topologies.dense(100, seed=1),
    topologies.transit_stub(3, 4, 2, 5, extra_transit_stub=9, extra_stub_stub=7, seed=5),
    topologies.transit_stub(1, 1, 0, 1, seed=1),
], ids=["ts20", "ts100", "ts600", "dense", "extra", "one-node"])
def test_a_transit_stub_network_comes_back_whole(form: str, graph: nx.Graph) -> None:
    """Also kinds, domains and latencies, which follow from the names."""
    to_text, parse = FORMS[form]
    assert without_id(parse(to_text(graph))) == without_id(graph)


@pytest.mark.parametrize("form", FORMS)
def test_files(form: str, tmp_path: Path) -> None:
    graph = topologies.ts20(1)
    path = tmp_path / f"map.{form.upper()}"
    topologies.write(graph, path)
    assert without_id(topologies.read(path)) == without_id(graph)
    assert without_id(topologies.network(path)) == without_id(graph)
    assert topologies.network(path, density="dense", seed=1).number_of_edges() == 40


WORDS = st.text(st.sampled_from(sorted(set(CHARACTERS) - set('"\\ \n'))), min_size=1, max_size=200)


@st.composite
def graphs(draw: st.DrawFn) -> nx.Graph:
    nodes = draw(st.integers(0, 6))
    graph = nx.Graph(id=draw(WORDS)[:150])
    placed = draw(st.booleans())
    for node in range(nodes):
        graph.add_node(node, label=draw(WORDS))
        if placed:
            graph.nodes[node]["pos"] = (draw(st.integers(-999, 10**9)), draw(st.integers(0, 99)))
    weighted = draw(st.booleans())
    for a in range(nodes):
        for b in range(a + 1, nodes):
            if draw(st.booleans()):
                graph.add_edge(a, b, length=draw(st.integers(1, 10**9)))
                graph.edges[a, b]["latency"] = graph.edges[a, b]["length"]
                if weighted:
                    graph.edges[a, b]["policy"] = draw(st.integers(0, 99))
    return graph


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_any_network_comes_back(graph: nx.Graph) -> None:
    for to_text, parse in FORMS.values():
        text = to_text(graph)
        back = parse(text)
        assert picture(back) == picture(graph)
        assert back.graph == graph.graph
        assert to_text(back) == text
    assert all(len(line) <= 79 for line in format_gb(graph).splitlines())


def test_a_directed_network_comes_back_from_gb_only() -> None:
    graph = nx.DiGraph()
    graph.add_nodes_from((n, {"label": str(n)}) for n in range(3))
    graph.add_edge(0, 1, length=2, latency=2)
    graph.add_edge(1, 0, length=3, latency=3)
    graph.add_edge(1, 2, length=4, latency=4)
    assert without_id(parse_gb(format_gb(graph))) == without_id(graph)
    with pytest.raises(ValueError, match="undirected networks only"):
        format_alt(graph)


@pytest.mark.parametrize("form", FORMS)
def test_a_network_with_names_for_nodes(form: str) -> None:
    graph = nx.Graph()
    graph.add_edge("rome", "oslo", latency=7)
    to_text, parse = FORMS[form]
    back = topologies.labelled(parse(to_text(graph)))
    assert list(back.edges(data=True)) == [("rome", "oslo", {"length": 7, "latency": 7})]


@pytest.mark.parametrize(("change", "message"), [
    ({"pos": (0.5, 1)}, "not a pair of whole numbers"),
    ({"label": 'a "quoted" name'}, "cannot be written"),
    ({"label": "two\nlines"}, "cannot be written"),
    ({"label": "Zürich"}, "cannot be written"),
])
@pytest.mark.parametrize("form", FORMS)
def test_what_cannot_be_written(form: str, change: dict[str, object], message: str) -> None:
    graph = nx.Graph()
    graph.add_node(0, **change)
    if form == "alt" and "quoted" in str(change):
        message = "one word"
    with pytest.raises(ValueError, match=message):
        FORMS[form][0](graph)


def test_lengths_are_whole_numbers() -> None:
    graph = nx.Graph()
    graph.add_edge(0, 1, length=1.5)
    with pytest.raises(ValueError, match=r"not a whole number: 1\.5"):
        format_gb(graph)
    loop = nx.Graph()
    loop.add_edge(0, 0)
    with pytest.raises(ValueError, match="an edge to itself"):
        format_alt(loop)
    with pytest.raises(ValueError, match="longer than the 154"):
        format_gb(nx.Graph(id="x" * 155))


# --- what the original tools write -----------------------------------------------------------------------------


def independent_checksum(lines: list[str]) -> int:
    """The same by another way: the characters as the digits of one number in base 2, most significant first."""
    digits = [CHARACTERS.index(c) for line in lines for c in line + "\n"]
    return sum(digit << place for place, digit in enumerate(reversed(digits))) % (2**30 - 83)


def as_gt_itm_writes(graph: nx.Graph, identity: str, loops: int = 0) -> str:
    """A `.gb` text with what is special in GT-ITM's: policy weights, diameters in the graph record, arcs in pairs with
    the newest first, records to spare (4 vertices, arcs in blocks of 102), and loops among the extra edges."""
    heads, arcs = ["0"] * len(graph), []
    edges = [(a, b, data["length"]) for a, b, data in graph.edges(data=True)] + [(n, n, 0) for n in range(loops)]
    for a, b, length in edges:
        for source, target in ((a, b), (b, a)):
            arcs.append(f"V{target},{heads[source]},{length},1")
            heads[source] = f"A{len(arcs) - 1}"
    spare = -len(arcs) % 102
    first = f'"{identity}",{len(graph)},'
    assert len(first) > 79
    body = [first[:78] + "\\", first[78:], f"{len(arcs)},89,3,2,1", "* Vertices"]
    for node, data in graph.nodes(data=True):
        body.append(f'"{data["label"]}",{heads[node]},{data["pos"][0]},{data["pos"][1]}')
    body += ['"",0,0,0'] * 4 + ["* Arcs", *arcs, *["0,0,0,0"] * spare]
    total = independent_checksum([line for line in body if not line.startswith("*")])
    head = f"* GraphBase graph (util_types ZZZIIZIZIZZIII,{len(graph) + 4}V,{len(arcs) + spare}A)"
    return "\n".join(["* drawn by hand", head, *body, f"* Checksum {total}"]) + "\n"


@pytest.mark.parametrize("loops", [0, 3])
def test_gb_as_gt_itm_writes_it(loops: int) -> None:
    graph = topologies.ts100(1)
    levels = ",".join(f"{{{n},20,3,{alpha:.3f},0.000,0.000}}" for n, alpha in ((1, 0.5), (4, 0.6), (8, 0.42)))
    identity = f"transtub(47,3,0,{loops},{levels})"
    back = parse_gb(as_gt_itm_writes(graph, identity, loops))
    assert back.graph["id"] == identity
    assert {policy for *_, policy in back.edges(data="policy")} == {1}
    for *_, data in back.edges(data=True):
        del data["policy"]
    assert without_id(back) == without_id(graph)


def as_sgb2alt_prints(graph: nx.Graph, identity: str, loops: int = 0) -> str:
    """The tables with a space at every line's end; every edge and loop counts twice, and loops are not printed."""
    lines = ["GRAPH (#nodes #edges id uu vv ww xx yy zz):",
             f"{len(graph)} {2 * graph.number_of_edges() + 2 * loops} {identity} 89 3 2 1 ", "",
             "VERTICES (index name u v w x y z):"]
    lines += [f"{n} {graph.nodes[n]['label']} {graph.nodes[n]['pos'][0]} {graph.nodes[n]['pos'][1]} " for n in graph]
    lines += ["", "EDGES (from-node to-node length a b):"]
    lines += [f"{a} {b} {data['length']} 1 " for a, b, data in graph.edges(data=True)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("loops", [0, 3])
def test_alt_as_sgb2alt_prints_it(loops: int) -> None:
    graph = topologies.ts100(1)
    back = parse_alt(as_sgb2alt_prints(graph, f"transtub(47,3,0,{loops}," + "{1,20,3,0.500})", loops))
    for *_, data in back.edges(data=True):
        assert data.pop("policy") == 1
    assert without_id(back) == without_id(graph)


def test_edges_drawn_twice_become_one() -> None:
    text = format_alt(nx.path_graph(2)).replace("2 2 topologies", "2 4 topologies") + "0 1 9\n"
    assert list(parse_alt(text).edges(data="length")) == [(0, 1, 1)]


def test_another_graphbase_graph() -> None:
    """Other fields than GT-ITM's, strings and pointers among them; the checksum is negative, so it is not checked."""
    text = """\
* GraphBase graph (util_types SZAVZZZVZZZZSZ,3V,3A)
"two by two",2,2,"a long string that has to be continued, since no line has more\\
 than 79 characters"
* Vertices
"x",A0,"first",
A1,V1
"y",A1,"second",0,0
"",0,"",0,1
* Arcs
V1,0,3,V0
V0,A2,5,0
V1,0,1,1
* Checksum -1
"""
    graph = parse_gb(text)
    assert graph.is_directed()  # 3 one way, 5 back; the loop from y to itself is left out
    assert sorted(graph.edges(data="length")) == [(0, 1, 3), (1, 0, 5)]
    assert topologies.facts(graph, {"link": 3}) == {"link": [(0, 1, 3), (1, 0, 5)]}


def test_the_checksum_is_the_graphbase_one() -> None:
    lines = format_gb(topologies.ts100(1)).splitlines()
    data = [line for line in lines if not line.startswith("*")]
    assert checksum(lines) == checksum(data) == independent_checksum(data)
    assert lines[-1] == f"* Checksum {checksum(data)}"


# --- damaged files ---------------------------------------------------------------------------------------------

GB = """\
* GraphBase graph (util_types ZZZIIZZZZZZZZZ,2V,2A)
"x",2,2
* Vertices
"a",A0,3,4
"b",A1,5,6
* Arcs
V1,0,3
V0,0,3
* Checksum -1
"""


@pytest.mark.parametrize(("old", "new", "where", "message"), [
    ("* GraphBase graph", "GraphBase graph", 1, "this is no GraphBase file"),
    ("ZZZII", "ZZII", 2, "this is no GraphBase file"),
    ('"x",2,2', "x,2,2", 2, "expected a string in quotes at column 1"),
    ('"x",2,2', '"x,2,2', 2, "no closing quote"),
    ('"x",2,2', '"x",3,2', 2, "the graph has 3 vertices, but only 2 are written"),
    ("* Vertices", "*Vertices", 3, r"expected the line '\* Vertices', found '\*Vertices'"),
    ('"a",A0,3,4', '"a",A0,3', 4, "expected ',' at column 9: a field is missing"),
    ('"a",A0,3,4', '"a",A0,3,x', 4, "expected a number at column 10"),
    ('"a",A0,3,4', '"a",A0,3,4,5', 4, "nothing may follow the record, found ',5'"),
    ('"a",A0,3,4', '"a",V0,3,4', 4, "expected an arc, as A3, or 0 at column 5"),
    ('"a",A0,3,4', '"a",A7,3,4', 4, "there is no arc A7"),
    ('"b",A1,5,6\n', "", 5, "expected 2 vertices, found 1"),
    ("V0,0,3\n", "", 8, "expected 2 arcs, found 1"),
    ("V1,0,3", "V2,0,3", 7, "the arc A0 leads to V2, which is no vertex of the graph"),
    ("V1,0,3", "0,0,3", 7, "the arc A0 leads to 0"),
    ("V1,0,3", "V1,A0,3", 7, "the arcs of vertex V0 run in a circle"),
    ("V1,0,3", "B1,0,3", 7, "expected a vertex, as V3, or 0 at column 1"),
    ("* Checksum -1", "* Checksum 5", 9, r"the checksum is \d+, not 5: the file was changed or damaged"),
    ("* Checksum -1\n", "", 8, "the file ends too soon"),
    ("* Checksum -1", "V0,0,3", 9, r"expected the line '\* Checksum ...'"),
    (GB, "", 1, "the file ends too soon"),
    ("* Checksum -1\n", "* Checksum -1\n\nV0,0,3\n", 11, "nothing may follow the checksum, found 'V0,0,3'"),
    ("* Checksum -1\n", "* Checksum -1\n* Arcs\n", 10, r"nothing may follow the checksum, found '\* Arcs'"),
])
def test_damaged_gb(old: str, new: str, where: int, message: str) -> None:
    assert old in GB and len(parse_gb(GB)) == 2
    with pytest.raises(FormatProblem, match=rf"^map\.gb:{where}: .*{message}"):
        parse_gb(GB.replace(old, new, 1), "map.gb")


ALT = """\
GRAPH (#nodes #edges id uu vv ww xx yy zz):
2 2 x

VERTICES (index name u v w x y z):
0 a 3 4
1 b 5 6

EDGES (from-node to-node length a b):
0 1 3
"""


@pytest.mark.parametrize(("old", "new", "where", "message"), [
    ("GRAPH", "graph", 1, "this is no alt file"),
    ("2 2 x", "2 x", 2, "expected whole numbers, found '2 x'"),
    ("2 2 x", "2", 2, "expected 2 numbers, found 1"),
    ("2 2 x\n", "", 8, "the table GRAPH has one row"),
    ("2 2 x", "3 2 x", 9, "the graph has 3 nodes, but 2 are listed"),
    ("2 2 x", "2 4 x", 9, "the graph has 4 edges .* but 1 are listed: expected 2"),
    ("VERTICES (index name u v w x y z):\n", "", 7, "the table EDGES does not belong here: expected VERTICES"),
    ("EDGES (from-node to-node length a b):\n0 1 3\n", "", 7, "ends before the table EDGES"),
    ("EDGES (from-node to-node length a b):\n", "EDGES :\nEDGES :\n", 9, "the table EDGES does not belong here"),
    ("1 b 5 6", "2 b 5 6", 6, "expected vertex 1, found '2'"),
    ("1 b 5 6", "1", 6, "vertex 1 has no name"),
    ("1 b 5 6", "1 b c 6", 6, "expected whole numbers, found 'c 6'"),
    ("0 1 3", "0 2 3", 9, "there is no vertex 2: the graph has 2"),
    ("0 1 3", "0 1", 9, "expected 3 numbers, found 2"),
    (ALT, "", 1, "the file ends before the table EDGES"),
])
def test_damaged_alt(old: str, new: str, where: int, message: str) -> None:
    assert old in ALT and len(parse_alt(ALT)) == 2
    with pytest.raises(FormatProblem, match=rf"^map\.alt:{where}: .*{message}"):
        parse_alt(ALT.replace(old, new, 1), "map.alt")


@pytest.mark.parametrize("form", FORMS)
def test_every_cut_is_noticed(form: str) -> None:
    """A file that ends anywhere before its last line does is an error, never another network."""
    to_text, parse = FORMS[form]
    text = to_text(topologies.ts20(1))
    whole = without_id(parse(text))
    for end in range(len(text) - 1):
        try:
            back = parse(text[:end])
        except FormatProblem:
            continue
        # only the last number can be cut unnoticed, and of a `.gb` file not even that
        assert form == "alt" and text[end:].count("\n") == 1
        assert without_id(back) != whole


# --- GraphML ---------------------------------------------------------------------------------------------------

ZOO = """<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="LinkLabel" attr.type="string" for="edge" id="d5" />
  <key attr.name="label" attr.type="string" for="node" id="d4" />
  <key attr.name="Longitude" attr.type="double" for="node" id="d3" />
  <key attr.name="Latitude" attr.type="double" for="node" id="d2" />
  <key attr.name="Internal" attr.type="int" for="node" id="d1" />
  <key attr.name="Network" attr.type="string" for="graph" id="d0" />
  <graph edgedefault="{default}">
    <data key="d0">Nordic</data>
    <node id="0"><data key="d2">59.91</data><data key="d3">10.75</data><data key="d4">Oslo</data></node>
    <node id="1"><data key="d2">59.33</data><data key="d3">18.06</data><data key="d4">Stockholm</data></node>
    <node id="2"><data key="d2">60.17</data><data key="d3">24.94</data><data key="d4">Helsinki</data></node>
    <node id="3"><data key="d1">0</data><data key="d4">Other</data></node>
    <node id="4"><data key="d1">0</data><data key="d4">Other</data></node>
    <node id="5"><data key="d1">0</data></node>
    <edge id="e0" source="0" target="1"><data key="d5">{label}</data></edge>
    <edge id="e1" source="1" target="0"><data key="d5">{label2}</data></edge>
    <edge id="e2" source="1" target="2"><data key="d5">{label}</data></edge>
    <edge id="e3" source="2" target="2"><data key="d5">{label}</data></edge>
    <edge id="e4" source="2" target="3"><data key="d5">{label}</data></edge>
  </graph>
</graphml>
"""


def zoo(default: str = "undirected", label: str = "10 Gbps", label2: str = "1 Gbps") -> nx.Graph:
    return parse_graphml(ZOO.format(default=default, label=label, label2=label2).encode(), "zoo.graphml")


def test_a_map_of_the_topology_zoo() -> None:
    graph = zoo()
    assert type(graph) is nx.Graph and graph.graph["id"] == "Nordic"
    assert sorted(graph) == ["5", "Helsinki", "Oslo", "Other #3", "Other #4", "Stockholm"]
    latency = {tuple(sorted((a, b))): ms for a, b, ms in graph.edges(data="latency")}
    # about 420 km and 400 km at 200 km a millisecond; nobody knows where the last one is
    assert latency == {("Oslo", "Stockholm"): 2, ("Helsinki", "Stockholm"): 2, ("Helsinki", "Other #3"): 1}
    assert 400 < graph.edges["Oslo", "Stockholm"]["length"] < 430
    assert graph.nodes["Oslo"]["pos"] == (10.75, 59.91) and "pos" not in graph.nodes["5"]
    assert ("Oslo", "Stockholm", 2) in topologies.facts(graph, {"link": 3})["link"]


def test_numbers_on_links_are_latencies() -> None:
    graph = zoo(label="7", label2="2.5")
    assert graph.edges["Oslo", "Stockholm"]["latency"] == 2.5  # the quicker of the two
    assert graph.edges["Stockholm", "Helsinki"]["latency"] == 7
    assert zoo(label="7", label2="0").edges["Stockholm", "Helsinki"]["latency"] == 2  # 0 is none: from the distance


def test_a_directed_map_stays_directed_unless_it_has_all_opposites() -> None:
    graph = zoo("directed")
    assert graph.is_directed() and graph.number_of_edges() == 4
    ring = nx.DiGraph([("a", "b"), ("b", "a")])
    data = "\n".join(nx.generate_graphml(ring)).encode()
    assert type(parse_graphml(data)) is nx.Graph
    assert parse_graphml(data).number_of_edges() == 1


def test_a_map_with_nothing_but_nodes() -> None:
    data = "\n".join(nx.generate_graphml(nx.empty_graph(2))).encode()
    graph = parse_graphml(data)
    assert sorted(graph) == ["0", "1"] and not graph.edges


def test_empty_lines_may_follow_the_checksum_of_gb() -> None:
    assert len(parse_gb(GB + "\n \n")) == 2


GRAPHML = b"""<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<graph edgedefault="undirected">
<node id="a"/>
<node id="b"/>
<edge source="a" target="b"/>
</graph></graphml>
"""


@pytest.mark.parametrize(("old", "new", "where", "message"), [
    (b'<node id="b"/>', b"<node/>", 4, "this node has no id"),
    (b'<node id="b"/>', b'<node id=""/>', 4, "this node has no id"),
    (b' target="b"', b"", 5, "this edge has no target"),
    (b' source="a"', b"", 5, "this edge has no source"),
    (b"</graph>", b'\n<node\n label="b"/></graph>', 7, "this node has no id"),
])
def test_graphml_without_ids_and_ends(old: bytes, new: bytes, where: int, message: str) -> None:
    assert old in GRAPHML and sorted(parse_graphml(GRAPHML)) == ["a", "b"]
    with pytest.raises(FormatProblem, match=rf"^map\.graphml:{where}: {message}$"):
        parse_graphml(GRAPHML.replace(old, new, 1), "map.graphml")


@pytest.mark.parametrize(("data", "message"), [
    (b"", r"map\.graphml:1: not valid XML"),
    (b"<graphml>\n<graph>\n</graphml>", r"map\.graphml:3: not valid XML: mismatched tag"),
    (b"<html></html>", r"map\.graphml: no GraphML that can be read"),
    (b'<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">'
     b'<node id="0"><data key="d9">1</data></node></graph></graphml>', r"map\.graphml: no GraphML that can be read"),
])
def test_damaged_graphml(data: bytes, message: str) -> None:
    with pytest.raises(FormatProblem, match=message):
        parse_graphml(data, "map.graphml")
