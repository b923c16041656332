r"""The `.gb` form, in which GT-ITM keeps its graphs: the text form of the Stanford GraphBase.

    * GraphBase graph (util_types ZZZIIZZZZZZZZZ,2V,2A)
    "example",2,2
    * Vertices
    "T:0.0",A0,3,4
    "T:0.1",A1,5,6
    * Arcs
    V1,0,3
    V0,0,3
    * Checksum 723459919

The fourteen letters say which further fields vertices (u v w x y z), arcs (a b) and the graph (uu to zz) have and of
which type: Z none, I number, S string, V vertex, A arc. GT-ITM uses x and y for the position and a for a policy weight.
After the name, a vertex has its first arc; an arc has its tip, the next arc of the same vertex, and its length. There
may be more records than the graph has vertices and arcs: the GraphBase allocates them in blocks.

No line is longer than 79 characters: a record goes on in the next line after a comma, and a string after a backslash.
The checksum is over all lines that do not start with a star; a negative one is not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import networkx as nx

from topologies.formats.model import Arc, Vertex, arcs_of, build, graph_id, vertices_of
from topologies.formats.problems import FormatProblem

__all__ = ["checksum", "format_gb", "parse_gb"]

CHARACTERS = ("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
              "_^~&@,;.:?!%#$+-*/|\\<=>()[]{}`'\" \n")
"""The characters that the GraphBase knows, in the order of their codes."""

_CODES = {character: code for code, character in enumerate(CHARACTERS)}
_UNKNOWN = 127
_PRIME = (1 << 30) - 83
_WIDTH = 79
_LONGEST_STRING, _LONGEST_ID = 4095, 154
_HEADER = re.compile(r"\* GraphBase graph \(util_types ([ZIVSA]{14}),(\d+)V,(\d+)A\)")
_CHECKSUM = re.compile(r"\* Checksum (-?\d+)")
_FIELDS = {"I": (re.compile(r"-?\d+"), "a number"), "V": (re.compile(r"V\d+|[01]"), "a vertex, as V3, or 0"),
           "A": (re.compile(r"A\d+|0"), "an arc, as A3, or 0")}


def checksum(lines: Iterable[str]) -> int:
    """The checksum of the GraphBase over lines without their ends.

    >>> checksum(["0"]), checksum(["1", "* Arcs"])  # the end of a line has the code 95
    (95, 97)
    """
    total = 0
    for line in lines:
        if not line.startswith("*"):
            for character in line + "\n":
                total = (2 * total + _CODES.get(character, _UNKNOWN)) % _PRIME
    return total


# --- reading -------------------------------------------------------------------------------------------------


class _Reader:
    """Reads records field by field; knows the line."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self.lines = [line.rstrip(" \r") for line in text.split("\n")]
        if self.lines and not self.lines[-1]:
            self.lines.pop()
        self.row = self.column = 0
        self.record_row = 0

    @property
    def line(self) -> str:
        if self.row >= len(self.lines):
            raise FormatProblem(self.name, len(self.lines) or 1, "the file ends too soon")
        return self.lines[self.row]

    def problem(self, message: str, row: int | None = None) -> FormatProblem:
        return FormatProblem(self.name, (self.row if row is None else row) + 1, message)

    def heading(self, text: str) -> None:
        if self.line != text:
            raise self.problem(f"expected the line '{text}', found '{self.line}'")
        self.row += 1

    def record(self, types: str) -> list[int | str]:
        """One record; Z stands for no field. Vertices and arcs come as their texts."""
        self.record_row = self.row
        fields: list[int | str] = []
        for kind in types.replace("Z", ""):
            if fields:
                if self.line[self.column : self.column + 1] != ",":
                    raise self.problem(f"expected ',' at column {self.column + 1}: a field is missing")
                self.column += 1
                if self.column == len(self.line):
                    self._next_line()
            fields.append(self._string() if kind == "S" else self._plain(kind))
        if self.column < len(self.line):
            raise self.problem(f"nothing may follow the record, found '{self.line[self.column :]}'")
        self._next_line()
        return fields

    def _next_line(self) -> None:
        self.row += 1
        self.column = 0

    def _plain(self, kind: str) -> int | str:
        pattern, meaning = _FIELDS[kind]
        match = pattern.match(self.line, self.column)
        if match is None:
            raise self.problem(f"expected {meaning} at column {self.column + 1}")
        self.column = match.end()
        return int(match[0]) if kind == "I" else match[0]

    def _string(self) -> str:
        if self.line[self.column : self.column + 1] != '"':
            raise self.problem(f"expected a string in quotes at column {self.column + 1}")
        start, found = self.column + 1, ""
        while (end := self.line.find('"', start)) < 0:
            if not self.line.endswith("\\"):
                raise self.problem("this string has no closing quote")
            found += self.line[start:-1]
            self._next_line()
            start = 0
        self.column = end + 1
        return found + self.line[start:end]


def parse_gb(text: str, name: str = "<gb>") -> nx.Graph:
    """The network in a text of the form; `name` is for messages.

    >>> graph = parse_gb(format_gb(nx.path_graph(3)))
    >>> sorted(graph.edges)
    [(0, 1), (1, 2)]
    >>> parse_gb("* GraphBase graph (util_types ZZZZZZZZZZZZZZ,1V,0A)\\n", "map.gb")
    Traceback (most recent call last):
        ...
    topologies.formats.problems.FormatProblem: map.gb:1: the file ends too soon
    """
    reader = _Reader(text, name)
    while (header := _HEADER.fullmatch(reader.line)) is None:
        if not reader.line.startswith("*"):  # other lines with a star may stand before
            raise reader.problem("this is no GraphBase file: it has to start with '* GraphBase graph (util_types ...'")
        reader.row += 1
    types, vertex_count, arc_count = header[1], int(header[2]), int(header[3])
    first = reader.row = reader.row + 1
    identity, nodes, *_ = reader.record("SII" + types[8:])
    if not 0 <= int(nodes) <= vertex_count:
        raise reader.problem(f"the graph has {nodes} vertices, but only {vertex_count} are written", first)
    reader.heading("* Vertices")
    vertices = _records(reader, vertex_count, "SA" + types[:6], "vertices")
    reader.heading("* Arcs")
    arcs = _records(reader, arc_count, "VAI" + types[6:8], "arcs")
    found = _CHECKSUM.fullmatch(reader.line)
    if found is None:
        raise reader.problem(f"expected the line '* Checksum ...', found '{reader.line}'")
    actual = checksum(reader.lines[first : reader.row])
    if 0 <= int(found[1]) != actual:
        raise reader.problem(f"the checksum is {actual}, not {found[1]}: the file was changed or damaged")
    for row in range(reader.row + 1, len(reader.lines)):
        if reader.lines[row]:
            raise reader.problem(f"nothing may follow the checksum, found '{reader.lines[row]}'", row)
    return build([_vertex(fields, types) for _, fields in vertices[: int(nodes)]],
                 _arcs(reader, vertices[: int(nodes)], arcs, types), str(identity))


_Record = tuple[int, list[int | str]]


def _records(reader: _Reader, count: int, types: str, what: str) -> list[_Record]:
    """So many records, each with its line."""
    records = []
    for number in range(count):
        if reader.line.startswith("*"):
            raise reader.problem(f"expected {count} {what}, found {number}")
        fields = reader.record(types)
        records.append((reader.record_row, fields))
    return records


def _vertex(fields: list[int | str], types: str) -> Vertex:
    named = dict(zip((letter for letter, kind in zip("uvwxyz", types, strict=False) if kind != "Z"), fields[2:],
                     strict=True))
    placed = types[3:5] == "II"
    return Vertex(str(fields[0]), (int(named["x"]), int(named["y"])) if placed else None)


def _arcs(reader: _Reader, vertices: list[_Record], arcs: list[_Record], types: str) -> list[Arc]:
    """The arcs of every vertex, along its list."""
    found = []
    for source, (row, fields) in enumerate(vertices):
        link = str(fields[1])
        seen = set()
        while link != "0":
            number = int(link[1:])
            if number >= len(arcs):
                raise reader.problem(f"there is no arc {link}", row)
            if number in seen:
                raise reader.problem(f"the arcs of vertex V{source} run in a circle", row)
            seen.add(number)
            row, (tip, following, length, *rest) = arcs[number]
            link = str(following)
            if not str(tip).startswith("V") or int(str(tip)[1:]) >= len(vertices):
                raise reader.problem(f"the arc A{number} leads to {tip}, which is no vertex of the graph", row)
            found.append(Arc(source, int(str(tip)[1:]), int(length), int(rest[0]) if types[6] == "I" else None))
    return found


# --- writing -------------------------------------------------------------------------------------------------


class _Writer:
    """Writes records into lines of at most 79 characters."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.line = ""

    def heading(self, text: str) -> None:
        self.lines.append(text)

    def record(self, *fields: int | str) -> None:
        for number, field in enumerate(fields):
            if number:
                self.line += ","
            self._item(str(field))
        self._flush()

    def _item(self, text: str) -> None:
        room = _WIDTH - 1  # the last column is kept for the comma or the backslash
        if len(self.line) + len(text) <= room:
            self.line += text
            return
        if len(text) <= room:
            self._flush()
            self.line = text
            return
        if len(self.line) > room - 1:
            self._flush()
        while len(self.line) + len(text) > room:
            split = room - len(self.line)
            self.line += text[:split] + "\\"
            text = text[split:]
            self._flush()
        self.line = text

    def _flush(self) -> None:
        self.lines.append(self.line)
        self.line = ""


def format_gb(graph: nx.Graph) -> str:
    """The text of a network. Names are the nodes' labels; lengths are the edges' `length`, or `latency`, or 1.

    >>> print(format_gb(nx.path_graph(2)), end="")
    * GraphBase graph (util_types ZZZZZZZZZZZZZZ,2V,2A)
    "topologies",2,2
    * Vertices
    "0",A0
    "1",A1
    * Arcs
    V1,0,1
    V0,0,1
    * Checksum 967122710
    """
    vertices = vertices_of(graph)
    arcs = arcs_of(graph, vertices)
    placed = any(vertex.pos is not None for vertex in vertices.values())
    weighted = any(arc.policy is not None for arc in arcs)
    types = f"ZZZ{'II' if placed else 'ZZ'}Z{'I' if weighted else 'Z'}ZZZZZZZ"
    heads, following = _lists(len(vertices), arcs)
    writer = _Writer()
    writer.heading(f"* GraphBase graph (util_types {types},{len(vertices)}V,{len(arcs)}A)")
    writer.record(_quoted(graph_id(graph), _LONGEST_ID), len(vertices), len(arcs))
    writer.heading("* Vertices")
    for vertex, head in zip(vertices.values(), heads, strict=True):
        writer.record(_quoted(vertex.name, _LONGEST_STRING), head, *(vertex.pos or ()))
    writer.heading("* Arcs")
    for arc, link in zip(arcs, following, strict=True):
        writer.record(f"V{arc.target}", link, arc.length, *(() if arc.policy is None else (arc.policy,)))
    writer.heading(f"* Checksum {checksum(writer.lines)}")
    return "\n".join(writer.lines) + "\n"


def _lists(vertices: int, arcs: list[Arc]) -> tuple[list[str], list[str]]:
    """The first arc of every vertex, and the next one of every arc."""
    heads, following = ["0"] * vertices, ["0"] * len(arcs)
    for number in reversed(range(len(arcs))):
        following[number] = heads[arcs[number].source]
        heads[arcs[number].source] = f"A{number}"
    return heads, following


def _quoted(text: str, longest: int) -> str:
    bad = sorted({character for character in text if character in '"\\\n' or character not in _CODES})
    if bad:
        raise ValueError(f"the name {text!r} cannot be written: the form has no {', '.join(map(repr, bad))}")
    if len(text) > longest:
        raise ValueError(f"the name {text[:20]!r}... is longer than the {longest} characters that the form allows")
    return f'"{text}"'
