"""What can be switched off and on, and what is off now: the books that every stream of failures keeps.

A *switch* is a link (both of its facts, or one) or the trigger of a sensor. Streams switch them on and off without
caring which it is, so whatever can happen to links can happen to sensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import networkx as nx

from topologies.facts import facts, link_relation
from topologies.streams.step import Operation, Row

__all__ = ["Board", "Switch", "switches"]


@dataclass(frozen=True, slots=True, eq=False)
class Switch:
    """Facts that come and go together: `name` for a person, the nodes at its `ends`, and whether it is on at first.

    Each is equal to itself only: boards look for them in long lists, and comparing fields would take most of the time.
    """

    name: str
    ends: tuple[Any, ...]
    relation: str
    rows: tuple[Row, ...]
    on: bool
    verbs: tuple[str, str]

    def insert(self) -> list[Operation]:
        """The operations that switch it on."""
        return [("+", self.relation, row) for row in self.rows]

    def delete(self) -> list[Operation]:
        """The operations that switch it off."""
        return [("-", self.relation, row) for row in self.rows]


def switches(graph: nx.Graph, relations: Mapping[str, int], directed: bool = False) -> list[Switch]:
    """The links of a network if the program has a relation for them, otherwise the triggers of its sensors.

    An undirected edge is one switch with two facts, or two switches if `directed`.

    >>> graph = nx.path_graph(3)
    >>> [switch.name for switch in switches(graph, {"link": 2})]
    ['link 0 - 1', 'link 1 - 2']
    >>> [switch.rows for switch in switches(graph, {"link": 2}, directed=True)]
    [((0, 1),), ((1, 0),), ((1, 2),), ((2, 1),)]
    """
    if (found := link_relation(relations)) is not None:
        name, columns = found
        return _links(graph, name, facts(graph, {name: columns})[name], directed)
    if "isTriggered" not in relations:
        known = ", ".join(f"{name}/{columns}" for name, columns in sorted(relations.items())) or "no base relations"
        raise ValueError("there is nothing to switch off and on: the program needs a relation link with two or three "
                         f"columns, or isTriggered with one, and has {known}")
    name = "isTriggered"
    triggered = set(facts(graph, {name: relations[name]})[name])
    return [
        Switch(f"sensor {node}", (node,), name, ((node,),), (node,) in triggered, ("is released", "is triggered"))
        for node in sorted(graph)
    ]


def _links(graph: nx.Graph, relation: str, rows: list[Row], directed: bool) -> list[Switch]:
    verbs = ("fails", "recovers")
    if directed or graph.is_directed():
        return [Switch(f"link {row[0]} -> {row[1]}", row[:2], relation, (row,), True, verbs) for row in rows]
    both: dict[tuple[Any, Any], list[Row]] = {}
    for row in rows:
        both.setdefault((row[1], row[0]) if (row[1], row[0]) in both else (row[0], row[1]), []).append(row)
    return [Switch(f"link {a} - {b}", (a, b), relation, tuple(found), True, verbs) for (a, b), found in both.items()]


class Board:
    """The switches that are on and those that are off. It refuses to switch off what is off, and on what is on.

    >>> board = Board(switches(nx.path_graph(3), {"link": 2}))
    >>> board.turn_off(board.on[0])
    [('-', 'link', (0, 1)), ('-', 'link', (1, 0))]
    >>> [switch.name for switch in board.off]
    ['link 0 - 1']
    >>> board.turn_off(board.off[0])
    Traceback (most recent call last):
        ...
    ValueError: link 0 - 1 is off already
    """

    def __init__(self, switches: Iterable[Switch]) -> None:
        self.on: list[Switch] = []
        self.off: list[Switch] = []
        for switch in switches:
            (self.on if switch.on else self.off).append(switch)

    def turn_off(self, *chosen: Switch) -> list[Operation]:
        """Switch them off; the operations that do it."""
        operations = []
        for switch in chosen:
            if switch not in self.on:
                raise ValueError(f"{switch.name} is off already")
            self.on.remove(switch)
            self.off.append(switch)
            operations += switch.delete()
        return operations

    def turn_on(self, *chosen: Switch) -> list[Operation]:
        """Switch them on; the operations that do it."""
        operations = []
        for switch in chosen:
            if switch not in self.off:
                raise ValueError(f"{switch.name} is on already")
            self.off.remove(switch)
            self.on.append(switch)
            operations += switch.insert()
        return operations
