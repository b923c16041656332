"""What the rules of an iteration read, and how far from the head's index: the groundwork of `datalog.indexed`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from datalog.ast import Aggregate, Atom, Comparison, HeadAggregate, Negation, Rule, variables
from datalog.offsets import Offset, Offsets, holds
from datalog.scope import walk_level

__all__ = ["Read", "SteppingRule", "offset_of", "reads_of"]


@dataclass(frozen=True, slots=True)
class Read:
    """An atom of a body, how it is read (as in `Dependency.kind`), and the distances that hold where it stands."""

    atom: Atom
    kind: str
    offsets: Offsets


class SteppingRule:
    """A rule of the relations `members`: what it reads of them, and the distances in its body."""

    def __init__(self, rule: Rule, members: frozenset[str]) -> None:
        self.rule = rule
        self.offsets = Offsets(rule.body)
        self.reads = [r for r in reads_of(rule.body, self.offsets) if r.atom.relation in members]
        self.relations = {rule.head.relation, *(r.atom.relation for r in self.reads)}
        self.names = [name for literal in rule.body for name in variables(literal)]
        self.conditions = [x for x in rule.body if isinstance(x, Comparison)]

    def head(self, columns: Mapping[str, int]) -> Offset | None:
        argument = self.rule.head.arguments[columns[self.rule.head.relation]]
        return None if isinstance(argument, HeadAggregate) else self.offsets.of(argument)

    def read(self, read: Read, columns: Mapping[str, int], root: str | None) -> Offset | None:
        return offset_of(read.atom.arguments[columns[read.atom.relation]], root, read.offsets, self.offsets)

    def steps(self, columns: Mapping[str, int]) -> set[int] | None:
        """How far the index moves from what is read to the head; None if that is not the same for all tuples."""
        head = self.head(columns)
        if head is None:
            return None
        found = set()
        for read in self.reads:
            offset = self.read(read, columns, head[0])
            if offset is None or offset[0] not in (head[0], None):
                return None
            if offset[0] == head[0]:
                found.add(head[1] - offset[1])
        return found

    def allows(self, root: str | None, value: int) -> bool:
        """Whether the comparisons of the body let the index variable have a value."""
        known = self.offsets.given(root, value, self.names)
        return all(holds(condition, known) is not False for condition in self.conditions)

    def bounds(self, root: str) -> tuple[int | None, int | None]:
        """The least and the greatest value that comparisons with constants leave to a variable."""
        low: int | None = None
        high: int | None = None
        for condition in self.conditions:
            left, right = self.offsets.of(condition.left), self.offsets.of(condition.right)
            if left is None or right is None or (left[0], right[0]) not in ((root, None), (None, root)):
                continue
            op, limit = condition.op, right[1] - left[1]
            if left[0] is None:
                op, limit = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op), left[1] - right[1]
            if op in ("<", "<="):
                limit -= op == "<"
                high = limit if high is None else min(high, limit)
            elif op in (">", ">="):
                limit += op == ">"
                low = limit if low is None else max(low, limit)
        return low, high


def reads_of(body: Iterable[Any], offsets: Offsets, kind: str = "") -> Iterator[Read]:
    """The atoms of a body, also those inside negations and aggregates, which know what the bodies around them know."""
    for literal in body:
        if isinstance(literal, Negation):
            yield Read(literal.atom, kind or "negation", offsets)
        elif isinstance(literal, Atom):
            yield Read(literal, kind, offsets)
        else:
            for expression in walk_level(literal):
                if isinstance(expression, Aggregate):
                    yield from reads_of(expression.body, Offsets(expression.body, offsets), "aggregate")


def offset_of(argument: Any, root: str | None, offsets: Offsets, outer: Offsets) -> Offset | None:
    """Where an argument stands: by what the rule itself says, else by what the body of the aggregate around it does."""
    found = outer.of(argument)
    return found if found is not None and found[0] in (root, None) else offsets.of(argument)
