"""What must hold of relative provenance over all partitions together, and how to look into it."""

from __future__ import annotations

from typing import Any

import livelog
from livelog.runtime.local import LocalRuntime
from livelog.runtime.relative import Relative
from operators.join import PipelinedHashJoin
from operators.kernels import parents

Node = tuple[str, tuple[Any, ...]]
"""A relation and one of its tuples."""


def components(session: livelog.Session) -> list[list[Relative]]:
    """The recursive strata, each as its parts on all partitions."""
    workers = session._runtime.workers
    strata: list[list[Any]] = [[worker.strata[i] for worker in workers] for i in range(len(workers[0].strata))]
    return [parts for parts in strata if isinstance(parts[0], Relative)]


def check_supports(session: livelog.Session) -> None:
    """The invariants that no partition can see alone, and `session.check`."""
    session.check()
    if not isinstance(session._runtime, LocalRuntime):
        return  # the partitions are elsewhere
    for parts in components(session):
        edges = _edges(parts)
        for node, all_parents in edges.items():
            for relation, t in [parent for made_from in all_parents for parent in made_from]:
                owner = parts[parts[0].routers[relation](t)]
                assert t in owner.home[relation].rows, f"{node} rests on {relation}{t}, which is not there"
        _no_circle({node: all_parents[0] for node, all_parents in edges.items()})
        for part in parts:
            if part.lazy:
                _agrees(part, parts)


def _edges(parts: list[Relative]) -> dict[Node, list[list[Node]]]:
    """For each tuple, the parents of each of its edges, the support first."""
    found: dict[Node, list[list[Node]]] = {}
    for part in parts:
        for name, rules in part.rules.items():
            ways = [parents(rule.shape) for rule in rules]
            inputs = [
                [rule.left.name, rule.right.name] if isinstance(rule, PipelinedHashJoin) else [rule.table.name]
                for rule in rules
            ]
            for t, edges in part.home[name].rows.items():
                for key, value in edges.items():  # type: ignore[union-attr]
                    edge = value or key
                    made_from = list(zip(inputs[edge[0]], ways[edge[0]](t, edge), strict=False))
                    found.setdefault((name, t), []).append(made_from)
    return found


def _no_circle(supports: dict[Node, list[Node]]) -> None:
    """Assert that no tuple supports itself, over however many others."""
    done: set[Node] = set()
    for start in supports:
        path: set[Node] = set()
        stack = [(start, False)]
        while stack:
            node, leave = stack.pop()
            if leave:
                path.discard(node)
                done.add(node)
            elif node in supports and node not in done:
                assert node not in path, f"{node} supports itself"
                path.add(node)
                stack.append((node, True))
                stack.extend((parent, False) for parent in supports[node])


def _agrees(part: Relative, parts: list[Relative]) -> None:
    """Assert that a partition and the owners of what it shipped agree on the edge by which it stands by each tuple."""
    for name, ship in part.ships.items():
        for t, edges in ship.rows.items():
            owner = parts[part.routers[name](t)].home[name]
            held: dict[Any, Any] = owner.selection.held.first if owner.selection is not None else {}
            kept: Any = owner.rows.get(t) or held.get(t)
            assert kept and kept.get(part.partition) == next(iter(edges)), f"{name}{t} was shipped with another edge"
        home = [table for other in parts for table in (other.home[name],)]
        stand_by = [t for table in home for t, kept in table.rows.items() if part.partition in kept]
        assert set(stand_by) <= ship.rows.keys(), f"{name}: somebody waits for a partition that has forgotten"
