"""Networks as tables of links: a `.csv` or `.tsv` file with a row for each link."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

import networkx as nx

from topologies.formats.problems import FormatProblem
from topologies.links import network_of

__all__ = ["COLUMNS", "parse_link_table"]

COLUMNS = {
    "src": ("src", "source", "from"),
    "dst": ("dst", "target", "to", "destination"),
    "latency": ("latency", "cost", "weight", "delay", "length"),
}
"""By what they hold, the names that columns may have, whatever their case."""

LEAST = 1  # latency of a link of which nothing is known


def parse_link_table(data: bytes, name: str = "<links>") -> nx.Graph:
    """The network in a table of links; `name` is for messages.

    Columns go by their names where the first row names a source and a target (`COLUMNS`), whatever else there is, and
    by their order otherwise: source, target, latency. Fields are separated by commas, semicolons or tabs. Nodes are
    numbers if all are. A row is a link in one direction; where every link has its opposite with the same latency the
    network is undirected, as one from GraphML is. Of two rows for one link the one with the least latency counts.

    >>> graph = parse_link_table(b"to,from,cost\\nb,a,3\\nc,b,4\\n")
    >>> list(graph.edges(data="latency")), graph.is_directed()
    ([('a', 'b', 3), ('b', 'c', 4)], True)
    >>> parse_link_table(b"1,2\\n2,1\\n").is_directed()
    False
    >>> parse_link_table(b"a,b\\na\\n", "links.csv")
    Traceback (most recent call last):
        ...
    topologies.formats.problems.FormatProblem: links.csv:2: a link needs a source and a target, and the row has 1 field
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise FormatProblem(name, line, f"byte 0x{data[error.start]:02x} is not UTF-8") from None
    rows = _rows(text, name)
    columns = _columns(rows[0][1]) if rows else None
    if columns is not None:
        rows = rows[1:]
    links: list[tuple[Any, Any, float]] = []
    for line, fields in rows:
        at = columns or {"src": 0, "dst": 1, **({"latency": 2} if len(fields) > 2 else {})}
        if len(fields) <= max(at["src"], at["dst"]):
            count = f"{len(fields)} field{'' if len(fields) == 1 else 's'}"
            raise FormatProblem(name, line, f"a link needs a source and a target, and the row has {count}")
        source, target = fields[at["src"]].strip(), fields[at["dst"]].strip()
        if not source or not target:
            raise FormatProblem(name, line, f"the {'target' if source else 'source'} of the link is empty")
        known = len(fields) > at.get("latency", len(fields))
        links.append((source, target, _latency(fields[at["latency"]], name, line) if known else LEAST))
    if not links:
        raise FormatProblem(name, None, "there is no link in the file")
    if all(node.isascii() and node.isdigit() and len(node) < 19 for a, b, _ in links for node in (a, b)):
        links = [(int(a), int(b), latency) for a, b, latency in links]
    return network_of(links)


def _rows(text: str, name: str) -> list[tuple[int, list[str]]]:
    """The rows that have something in them, with their line numbers."""
    head = text.partition("\n")[0]
    delimiter = max("\t;,", key=head.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[tuple[int, list[str]]] = []
    try:
        for fields in reader:
            if any(field.strip() for field in fields):
                rows.append((reader.line_num, fields))
    except csv.Error as error:
        raise FormatProblem(name, reader.line_num, str(error)) from None
    return rows


def _columns(fields: list[str]) -> dict[str, int] | None:
    """Where source, target and latency are, if a row is one of names."""
    names = [field.strip().lower() for field in fields]
    found = {what: names.index(name) for what, known in COLUMNS.items() for name in reversed(known) if name in names}
    return found if {"src", "dst"} <= found.keys() else None


def _latency(field: str, name: str, line: int) -> float:
    try:
        value = float(field)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise FormatProblem(name, line, f"the latency {field.strip()!r} is not a number of at least 0")
    return int(value) if value == int(value) else value
