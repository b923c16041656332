"""Networks in files: GT-ITM's own two forms, `.gb` and `.alt`, GraphML, and tables of links."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import networkx as nx

from topologies.formats.alt import format_alt, parse_alt
from topologies.formats.gb import format_gb, parse_gb
from topologies.formats.graphml import parse_graphml
from topologies.formats.link_table import parse_link_table
from topologies.formats.problems import FormatProblem

__all__ = [
    "READERS",
    "WRITERS",
    "FormatProblem",
    "format_alt",
    "format_gb",
    "parse_alt",
    "parse_gb",
    "parse_graphml",
    "parse_link_table",
    "read",
    "write",
]


def _text(parse: Callable[[str, str], nx.Graph]) -> Callable[[bytes, str], nx.Graph]:
    """A reader of bytes from a reader of text. Both forms of GT-ITM are ASCII; Latin-1 reads whatever else there is."""
    return lambda data, name: parse(data.decode("latin-1"), name)


READERS: Mapping[str, Callable[[bytes, str], nx.Graph]] = MappingProxyType(
    {
        ".alt": _text(parse_alt),
        ".gb": _text(parse_gb),
        ".graphml": parse_graphml,
        ".csv": parse_link_table,
        ".tsv": parse_link_table,
    }
)
"""What reads a file, by the end of its name."""

WRITERS: Mapping[str, Callable[[nx.Graph], str]] = MappingProxyType({".alt": format_alt, ".gb": format_gb})
"""What writes a file, by the end of its name."""


def read(path: str | os.PathLike[str]) -> nx.Graph:
    """The network in a file whose name ends in `.gb`, `.alt`, `.graphml`, `.csv` or `.tsv`.

    A damaged file raises `FormatProblem`, which says where and what.

    >>> read("map.xls")
    Traceback (most recent call last):
        ...
    ValueError: cannot read 'map.xls': the name of a network file ends in .alt, .csv, .gb, .graphml or .tsv
    >>> read("no-such-map.gb")
    Traceback (most recent call last):
        ...
    ValueError: there is no file 'no-such-map.gb'
    """
    name = os.fspath(path)
    reader = READERS.get(Path(name).suffix.lower())
    if reader is None:
        *most, last = sorted(READERS)
        raise ValueError(f"cannot read {name!r}: the name of a network file ends in {', '.join(most)} or {last}")
    try:
        data = Path(name).read_bytes()
    except FileNotFoundError:
        raise ValueError(f"there is no file {name!r}") from None
    except OSError as error:
        raise ValueError(f"cannot read {name!r}: {error.strerror}") from None
    return reader(data, name)


def write(graph: nx.Graph, path: str | os.PathLike[str]) -> None:
    """Write a network to a file whose name ends in `.gb` or `.alt`.

    >>> write(nx.path_graph(2), "map.xls")
    Traceback (most recent call last):
        ...
    ValueError: cannot write 'map.xls': the name has to end in .alt or .gb
    """
    name = os.fspath(path)
    writer = WRITERS.get(Path(name).suffix.lower())
    if writer is None:
        raise ValueError(f"cannot write {name!r}: the name has to end in .alt or .gb")
    Path(name).write_text(writer(graph), encoding="ascii", newline="\n")
