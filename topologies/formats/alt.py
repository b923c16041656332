"""The `alt` form, which GT-ITM's `sgb2alt` prints: the same graph in three plain tables.

    GRAPH (#nodes #edges id uu vv ww xx yy zz):
    2 2 example

    VERTICES (index name u v w x y z):
    0 T:0.0 3 4
    1 T:0.1 5 6

    EDGES (from-node to-node length a b):
    0 1 3

Only fields that are used are printed, so a vertex of GT-ITM has just x and y behind its name. An edge stands once, its
lower node first, while the number of edges in the first table counts both directions. It also counts the loops that
GT-ITM may draw among its extra stub-stub edges, which are not printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import networkx as nx

from topologies.formats.model import Arc, Vertex, arcs_of, build, graph_id, vertices_of
from topologies.formats.problems import FormatProblem

__all__ = ["format_alt", "parse_alt"]

_TABLES = ("GRAPH", "VERTICES", "EDGES")
_LOOPS = re.compile(r"transtub\(-?\d+,\d+,\d+,(\d+),")
"""The fourth parameter of GT-ITM's transit-stub graphs: how many extra stub-stub edges were drawn."""


def parse_alt(text: str, name: str = "<alt>") -> nx.Graph:
    """The network in a text of the form; `name` is for messages.

    >>> graph = parse_alt(format_alt(nx.path_graph(3)))
    >>> sorted(graph.edges)
    [(0, 1), (1, 2)]
    >>> parse_alt("GRAPH (#nodes #edges id):\\n2 2 x\\nVERTICES (index name):\\n0 a\\n2 b\\nEDGES ():\\n", "map.alt")
    Traceback (most recent call last):
        ...
    topologies.formats.problems.FormatProblem: map.alt:5: expected vertex 1, found '2'
    """
    rows = list(_rows(text, name))
    last = len(text.splitlines())
    tables: dict[str, list[tuple[int, list[str]]]] = {table: [] for table in _TABLES}
    for number, table, words in rows:
        tables[table].append((number, words))
    if len(tables["GRAPH"]) != 1:
        raise FormatProblem(name, last or 1, "the table GRAPH has one row with the numbers of nodes and edges")
    number, words = tables["GRAPH"][0]
    nodes, arcs = _numbers(name, number, words[:2], 2)
    identity = words[2] if len(words) > 2 else ""
    vertices = [_vertex(name, number, index, words) for index, (number, words) in enumerate(tables["VERTICES"])]
    if len(vertices) != nodes:
        raise FormatProblem(name, last, f"the graph has {nodes} nodes, but {len(vertices)} are listed")
    edges = [_edge(name, number, words, nodes) for number, words in tables["EDGES"]]
    loops = _LOOPS.match(identity)
    unlisted = 2 * int(loops[1]) if loops else 0
    if arcs != len(edges) and not 2 * len(edges) <= arcs <= 2 * len(edges) + unlisted:
        raise FormatProblem(name, last, f"the graph has {arcs} edges (both directions count), "
                                        f"but {len(edges)} are listed: expected {arcs // 2}")
    both = (arc for edge in edges for arc in (edge, Arc(edge.target, edge.source, edge.length, edge.policy)))
    return build(vertices, both, identity)


def _rows(text: str, name: str) -> Iterator[tuple[int, str, list[str]]]:
    """(line, table, words) of every row of the tables, in the order of the form."""
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words:
            continue
        if words[0] in _TABLES and line.rstrip().endswith(":"):
            expected = _TABLES[_TABLES.index(table) + 1] if table in _TABLES[:2] else "" if table else "GRAPH"
            if words[0] != expected:
                raise FormatProblem(name, number, f"the table {words[0]} does not belong here"
                                                  + (f": expected {expected}" if expected else ""))
            table = words[0]
        elif not table:
            raise FormatProblem(name, number, "this is no alt file: it has to start with 'GRAPH (#nodes #edges ...):'")
        else:
            yield number, table, words
    if table != "EDGES":
        raise FormatProblem(name, len(text.splitlines()) or 1, "the file ends before the table EDGES")


def _numbers(name: str, line: int, words: list[str], least: int) -> list[int]:
    if len(words) < least:
        raise FormatProblem(name, line, f"expected {least} numbers, found {len(words)}")
    try:
        return [int(word) for word in words]
    except ValueError:
        raise FormatProblem(name, line, f"expected whole numbers, found '{' '.join(words)}'") from None


def _vertex(name: str, line: int, index: int, words: list[str]) -> Vertex:
    """Two numbers behind the name are a position; graphs of other origins may have others, which mean nothing here."""
    if words[0] != str(index):
        raise FormatProblem(name, line, f"expected vertex {index}, found '{words[0]}'")
    if len(words) < 2:
        raise FormatProblem(name, line, f"vertex {index} has no name")
    fields = _numbers(name, line, words[2:], 0)
    return Vertex(words[1], (fields[0], fields[1]) if len(fields) == 2 else None)


def _edge(name: str, line: int, words: list[str], nodes: int) -> Arc:
    source, target, length, *rest = _numbers(name, line, words, 3)
    for end in (source, target):
        if not 0 <= end < nodes:
            raise FormatProblem(name, line, f"there is no vertex {end}: the graph has {nodes}")
    return Arc(source, target, length, rest[0] if rest else None)


def format_alt(graph: nx.Graph) -> str:
    """The text of an undirected network. Names are the nodes' labels, which must not have spaces in them.

    >>> print(format_alt(nx.path_graph(2)), end="")
    GRAPH (#nodes #edges id uu vv ww xx yy zz):
    2 2 topologies
    <BLANKLINE>
    VERTICES (index name u v w x y z):
    0 0
    1 1
    <BLANKLINE>
    EDGES (from-node to-node length a b):
    0 1 1
    """
    if graph.is_directed():
        raise ValueError("the alt form holds undirected networks only; the gb form holds both")
    vertices = vertices_of(graph)
    arcs = arcs_of(graph, vertices)
    lines = ["GRAPH (#nodes #edges id uu vv ww xx yy zz):",
             f"{len(vertices)} {len(arcs)} {'_'.join(graph_id(graph).split())}", "",
             "VERTICES (index name u v w x y z):"]
    for number, vertex in enumerate(vertices.values()):
        if len(vertex.name.split()) != 1 or not vertex.name.isascii():
            raise ValueError(f"the name {vertex.name!r} cannot be written: in the alt form it is one word of ASCII")
        lines.append(" ".join(map(str, (number, vertex.name, *(vertex.pos or ())))))
    lines += ["", "EDGES (from-node to-node length a b):"]
    for arc in arcs:
        if arc.source < arc.target:
            weight = () if arc.policy is None else (arc.policy,)
            lines.append(" ".join(map(str, (arc.source, arc.target, arc.length, *weight))))
    return "\n".join(lines) + "\n"
