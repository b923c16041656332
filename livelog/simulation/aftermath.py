"""What a stream of changes to a network has done: links that failed, and the part of the views that was affected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import networkx as nx

__all__ = ["Aftermath"]

Row = tuple[Any, ...]
Facts = Mapping[str, Iterable[Row]]


@dataclass(slots=True)
class Aftermath:
    """What a stream of changes has done: the facts before and after it, and all that has changed in between.

    What failed and recovered, and tuples of views that went and came back, count: a network that is whole in the end
    has had its outages, too.

    >>> aftermath = Aftermath({"link": [(1, 2)]}, {"link": [(1, 2)]})
    >>> aftermath.add({"r": ([], [(1, 2)])}); aftermath.add({"r": ([(1, 3)], [])}); aftermath.add({"r": ([(1, 2)], [])})
    >>> aftermath.affected(nx.path_graph(4))
    {1: 2, 2: 1, 3: 1}
    >>> aftermath.fall([("-", "link", (1, 2))]); aftermath.links(nx.path_graph(4))
    {(0, 1): 'never', (1, 2): 'recovered', (2, 3): 'never'}
    """

    before: Facts = field(default_factory=dict)
    after: Facts = field(default_factory=dict)
    fallen: dict[str, set[Row]] = field(default_factory=dict)
    """The facts that were deleted at some time, by relation."""
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By view, how often a tuple was gained, and how often one was lost."""
    _changed: set[tuple[str, Row]] = field(default_factory=set)

    def fall(self, operations: Iterable[tuple[str, str, Row]]) -> None:
        """Note the deletions among the operations of one transaction."""
        for sign, relation, row in operations:
            if sign == "-":
                self.fallen.setdefault(relation, set()).add(_frozen(row))

    def add(self, changed: Mapping[str, tuple[Iterable[Row], Iterable[Row]]]) -> None:
        """Work in the changes of one transaction, per view (inserted, deleted)."""
        for view, (inserted, deleted) in changed.items():
            gained, lost = [_frozen(row) for row in inserted], [_frozen(row) for row in deleted]
            before = self.counts.get(view, (0, 0))
            self.counts[view] = (before[0] + len(gained), before[1] + len(lost))
            self._changed.update((view, row) for row in (*gained, *lost))

    def affected(self, graph: nx.Graph) -> dict[Any, int]:
        """Per node, how many view tuples that name it were gained or lost at some time."""
        names = {str(node): node for node in graph}
        found: Counter[Any] = Counter()
        for _, row in self._changed:
            found.update({names[value] for value in map(str, _flat(row)) if value in names})
        return {node: found[node] for node in graph if found[node]}

    def links(self, graph: nx.Graph) -> dict[tuple[Any, Any], str]:
        """Each edge of the graph, and what became of it: "up", "failed", "recovered", "changed" or "never"."""
        before, after, fallen = (_rows_of_edges(graph, facts) for facts in (self.before, self.after, self.fallen))
        state = {}
        for edge in graph.edges:
            key = _key(graph, *edge)
            old, new = before.get(key, set()), after.get(key, set())
            missing = {row[:2] for row in old} - {row[:2] for row in new}
            down = fallen.get(key, set()) & new  # deleted, and there again
            up = "recovered" if down else "up" if old <= new else "changed"
            state[edge] = "never" if not old | new else "failed" if missing else up
        return state

    def marked(self, graph: nx.Graph) -> dict[str, list[Any]]:
        """The nodes about which a relation with one column has lost a fact, gained one, or lost it for a while."""
        names = {str(node): node for node in graph}
        old, new = (
            {str(row[0]) for rows in facts.values() for row in rows if len(row) == 1} & names.keys()
            for facts in (self.before, self.after)
        )
        fallen = {str(row[0]) for rows in self.fallen.values() for row in rows if len(row) == 1} & names.keys()
        found = {"lost": old - new, "gained": new - old, "for a while": fallen - (old ^ new)}
        return {what: [names[n] for n in sorted(which)] for what, which in found.items()}


def _key(graph: nx.Graph, a: Any, b: Any) -> tuple[str, str]:
    """An edge under the same name in both directions, where direction means nothing."""
    pair = (str(a), str(b))
    return pair if graph.is_directed() or pair[0] <= pair[1] else (pair[1], pair[0])


def _rows_of_edges(graph: nx.Graph, facts: Facts) -> dict[tuple[str, str], set[Row]]:
    """The facts that tell of an edge: those whose first two values are its ends."""
    names = {str(node): node for node in graph}
    found: dict[tuple[str, str], set[Row]] = {}
    for rows in facts.values():
        for row in rows:
            if len(row) >= 2 and str(row[0]) in names and str(row[1]) in names:
                a, b = names[str(row[0])], names[str(row[1])]
                if graph.has_edge(a, b):
                    found.setdefault(_key(graph, a, b), set()).add(_frozen(row))
    return found


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value


def _flat(row: Row) -> Iterator[Any]:
    """The values of a row, those inside of lists too: a path names all its nodes."""
    for value in row:
        if isinstance(value, tuple):
            yield from _flat(value)
        else:
            yield value
