"""What a person sees of relations: not what stands for others at other times, nor the times of a stream's tuples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from datalog.ast import Program, Relation
from livelog.runtime.steps import copies
from livelog.runtime.worker import Sides
from planner.plan import Plan, RelationPlan

__all__ = ["is_kept", "named", "not_kept", "settled", "shown_columns", "timeless"]

Tuple = tuple[Any, ...]


def named(program: Program) -> Mapping[str, Relation]:
    """The relations of a program that it names, and not those that stand for others `at` some points, or for time.

    >>> import datalog
    >>> sorted(named(datalog.check(datalog.parse("r(x) :- e(x), now(n), x < n."))))
    ['e', 'r']
    """
    hidden = program.reads.keys() | program.clocks.keys()
    if not hidden:
        return program.relations
    return {name: r for name, r in program.relations.items() if name not in hidden}


def is_kept(plan: Plan, name: str) -> bool:
    """Whether there is a table of a relation. Of points of the clock that no rule reads as data there is none."""
    relation = plan.relations.get(name)
    return relation is not None and relation.kind in ("base", "view") and "#" not in name


def not_kept(name: str) -> str:
    """What is said of a relation of the program that is not kept."""
    return f"the points of `{name}` follow from the clock and are not kept; `.output {name}` in the program keeps them"


def shown_columns(relation: RelationPlan) -> tuple[str, ...]:
    """The columns of a relation, and of a stream all but the time."""
    return relation.columns[:-1] if relation.stream else relation.columns


def timeless(rows: Iterable[Tuple]) -> list[Tuple]:
    """The rows of a stream without their times.

    >>> timeless([("a", 3, 8.0), ("a", 3, 9.0)])
    [('a', 3), ('a', 3)]
    """
    return [t[:-1] for t in rows]


def settled(sides: Sides, stream: bool) -> tuple[list[Tuple], list[Tuple]]:
    """The changes of a base relation as lists; of a stream without times, each as often as it arrived or expired.

    What arrives while as much of the same expires is no change.
    """
    if not stream:
        inserted, deleted = sides
        return inserted, deleted
    came, went = map(timeless, copies(sides))
    if came and went:
        arrived, expired = Counter(came), Counter(went)
        came, went = list((arrived - expired).elements()), list((expired - arrived).elements())
    return came, went
