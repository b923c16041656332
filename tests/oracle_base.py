"""The oracle's model of the base relations under operations: keys, bags, expirations, the clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from datalog import ast
from tests.oracle_values import FUNCTIONS, OracleError

Row = tuple[Any, ...]
# ("insert", relation, row) | ("delete", relation, row) | ("advance", time) | ("raise",): an exception in the block
Operation = tuple[Any, ...]


def stored(relation: ast.Relation, row: Iterable[Any]) -> Row:
    """A row as the relation keeps it: an int in a float column becomes a float."""
    return tuple(
        float(value) if column.type == "float" and isinstance(value, int) else value
        for value, column in zip(row, relation.columns, strict=True)
    )


class Base:
    """The base relations of a program and the clock, under operations applied one by one.

    It starts with the facts of the program text that belong to base relations. `absent` and `present` count
    the operations that changed nothing. `born` has the time of each row: when it was inserted last; a row of a plain
    set that is there is not inserted again. Those of a stream have it in their last column.
    """

    def __init__(self, program: ast.Program) -> None:
        self.program = program
        self.clock = 0.0
        self.absent = 0
        self.present = 0
        self.copies: dict[str, Counter[Row]] = {name: Counter() for name in program.base}
        self.born: dict[str, dict[Row, float]] = {name: {} for name in program.base}
        for rule in program.facts:
            if rule.head.relation in program.base:
                self.insert(rule.head.relation, tuple(constant(a) for a in rule.head.arguments))
        self.absent = self.present = 0

    def copy(self) -> Base:
        other = Base.__new__(Base)
        other.program, other.clock, other.absent, other.present = self.program, self.clock, self.absent, self.present
        other.copies = {name: Counter(rows) for name, rows in self.copies.items()}
        other.born = {name: dict(rows) for name, rows in self.born.items()}
        return other

    def facts(self) -> dict[str, Counter[Row]]:
        return {name: Counter(rows) for name, rows in self.copies.items()}

    def load(self, facts: Mapping[str, Iterable[Row]]) -> None:
        for name, rows in facts.items():
            for row in rows:
                self.insert(name, row)

    def apply(self, operations: Iterable[Operation]) -> None:
        for operation in operations:
            if operation[0] == "insert":
                self.insert(operation[1], operation[2])
            elif operation[0] == "delete":
                self.delete(operation[1], operation[2])
            elif operation[0] == "advance":
                self.advance(operation[1])

    def insert(self, name: str, values: Iterable[Any]) -> None:
        relation = self.program.relations[name]
        if relation.stream:
            values = (*values, time_of(self.clock))
        row, rows = stored(relation, values), self.copies[name]
        if relation.bag:
            rows[row] += 1
            return
        if relation.key:
            for old in [old for old in rows if all(old[i] == row[i] for i in relation.key)]:
                if old != row:
                    del rows[old], self.born[name][old]
        if row in rows:
            self.present += 1
        if row not in rows or relation.key or relation.ttl is not None:
            self.born[name][row] = self.clock
        rows[row] = 1

    def delete(self, name: str, values: Iterable[Any]) -> None:
        if self.program.relations[name].stream:
            raise OracleError("what has arrived has arrived")
        row, rows = stored(self.program.relations[name], values), self.copies[name]
        if row not in rows:
            self.absent += 1
            return
        rows[row] -= 1
        if not rows[row]:
            del rows[row]
            self.born[name].pop(row, None)

    def advance(self, time: float) -> None:
        self.clock = max(self.clock, time)
        for name, rows in self.copies.items():
            relation = self.program.relations[name]
            ttl = relation.ttl
            if ttl is not None and relation.stream:
                for row in [row for row in rows if row[-1] + ttl <= self.clock]:
                    del rows[row]
            elif ttl is not None:
                for row in [row for row, born in self.born[name].items() if born + ttl <= self.clock]:
                    del rows[row], self.born[name][row]


def time_of(clock: float) -> int | float:
    """A time as rows have it: a whole one is an int."""
    return int(clock) if clock == int(clock) else clock


def constant(argument: Any) -> Any:
    """The value of an argument of a fact: a constant, or a call of constants such as `[1, 2]` or `-1`."""
    if isinstance(argument, ast.Call):
        return FUNCTIONS[argument.function](*map(constant, argument.arguments))
    return argument.value
