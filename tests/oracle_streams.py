"""What a program with times means, from the definition: it is evaluated anew at every point of a grid of times.

`Timeline` walks over the grid. At each time T all views are evaluated over the base relations as of T, lower ones
first. A read `r at s` is a copy of r that is made anew whenever T is in s as it is then, and `r@` has each row of r
with the time at which it was seen there for the first time since it was not. Nothing else is kept from one time to the
next.

The grid must have every time at which something can happen: all whole ticks, where the clock stops, and in programs
that compute with fractions of a tick all multiples of `grid`, which divides them.

>>> import datalog
>>> program = datalog.check(datalog.parse(
...     ".decl s(x: number) stream  w(x) :- s(x)@t, now(n), n < t + 3. v(x) :- w(x) at every(2)."))
>>> timeline = Timeline(program)
>>> for moment in timeline.run([("advance", 1), ("insert", "s", (7,)), ("advance", 5)]):
...     print(moment.time, sorted(moment.relations["w"]), sorted(moment.relations["v"]), moment.full["v"])
1 [(7,)] [] False
2 [(7,)] [(7,)] True
3 [(7,)] [(7,)] False
4 [] [] True
5 [] [] False
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from datalog import ast
from tests.oracle import evaluate
from tests.oracle_base import Base, Operation, Row, time_of
from tests.oracle_values import OracleError

__all__ = ["Moment", "Timeline", "numbered", "rests"]


@dataclass(frozen=True)
class Moment:
    """How everything is at one time. A row of a stream is shown without its time, and with the number of its copies
    below it: (1, 2) is `((1, 2), 0)`, and when it has arrived again there is also `((1, 2), 1)`.

    `points` are the synchronised reads of which the time is a point; `full` has each view: whether these are all that
    it rests on.
    """

    time: int | float
    relations: dict[str, set[Row]]
    points: frozenset[str]
    full: dict[str, bool]


class Timeline:
    """A program under operations and the clock. `limit` is the work that one evaluation may take."""

    def __init__(self, program: ast.Program, grid: float = 1, limit: int = 2_000_000) -> None:
        self.program, self.grid, self.limit = program, grid, limit
        self.base = Base(program)
        self._rests = rests(program)
        self._released: dict[str, dict[Row, int]] = {read: {} for read in program.reads}
        self._born: dict[str, dict[Row, Any]] = {read: {} for read in program.reads}

    def copy(self) -> Timeline:
        other = Timeline(self.program, self.grid, self.limit)
        other.base = self.base.copy()
        other._released, other._born = dict(self._released), dict(self._born)  # what is in them is never changed
        return other

    def load(self, facts: Mapping[str, Iterable[Row]]) -> Moment:
        self.base.load(facts)
        return self._look()

    def run(self, operations: Iterable[Operation]) -> list[Moment]:
        """All that is seen while the operations of a transaction are done. After an error it is of no more use."""
        moments = []
        waiting = False  # operations at this time that nobody has looked at
        for operation in operations:
            if operation[0] == "raise":
                raise OracleError("on purpose")
            if operation[0] != "advance":
                self.base.apply([operation])
                waiting = True
                continue
            if operation[1] < self.base.clock:
                raise OracleError("too late")
            for time in self._between(operation[1]):
                if waiting:
                    moments.append(self._look())
                self.base.advance(time)
                waiting = True
        return [*moments, self._look()] if waiting else moments

    def _between(self, end: float) -> Iterator[float]:
        """The times of the grid behind the clock, up to and with the time at which it stops."""
        start = self.base.clock
        for i in range(int(start / self.grid) + 1, int(end / self.grid) + 1):
            if i * self.grid < end:
                yield i * self.grid
        if start < end:
            yield end

    def _look(self) -> Moment:
        now = time_of(self.base.clock)
        facts: dict[str, Iterable[Row]] = dict(self.base.facts())
        facts["now"] = [(now,)] if "now" in self.program.clocks else facts.get("now", ())
        if "clock" in self.program.clocks:
            facts["clock"] = [(tick,) for tick in range(int(now) + 1)]
        points = set()

        def reading(read: ast.Read, rows: Mapping[str, dict[Row, int]]) -> dict[Row, int]:
            if read.kind == "time":
                return dict.fromkeys(self._stamped(read, rows[read.relation], now), 1)
            if self._is_point(read.sync, now, rows):
                points.add(read.name)
                self._released[read.name] = dict(rows[read.relation])
            return dict(self._released[read.name])

        relations = evaluate(self.program, facts, self.limit, reading=reading)
        shown = {name: relations[name] for name in (*self.program.base, *self.program.derived)}
        for name in self.program.base:
            if self.program.relations[name].stream:
                shown[name] = numbered(row[:-1] for row in self.base.copies[name].elements())
        full = {view: needed <= points for view, needed in self._rests.items()}
        return Moment(now, shown, frozenset(points), full)

    def _is_point(self, sync: str, now: float, rows: Mapping[str, dict[Row, int]]) -> bool:
        if sync not in self.program.clocks:
            return (now,) in rows[sync]
        ticks = self.program.clocks[sync]
        return ticks is None or (
            now >= ticks.start and (Fraction(now) - Fraction(ticks.start)) % Fraction(ticks.period) == 0
        )

    def _stamped(self, read: ast.Read, rows: Mapping[Row, int], now: float) -> Iterator[Row]:
        """The rows of a relation with their times."""
        if read.relation in self.program.base:
            born: dict[Row, Any] = self.base.born[read.relation]
        else:
            before = self._born[read.name]
            born = self._born[read.name] = {row: before.get(row, now) for row in rows}
        return ((*row, time_of(born[row])) for row in rows)


def numbered(rows: Iterable[Row]) -> set[Row]:
    """The copies of rows, told apart."""
    return {(row, i) for row, n in Counter(rows).items() for i in range(n)}


def rests(program: ast.Program) -> dict[str, frozenset[str]]:
    """For each view and each base relation, the synchronised reads that its rows come through."""
    below: dict[str, set[str]] = {name: set() for name in program.relations}
    for rule in program.rules:
        for node in _atoms(rule.body):
            below[rule.head.relation].add(node.relation)
    for read in program.reads.values():
        below[read.name].add(read.relation)
    for middle in below:  # Warshall's closure
        for name in below:
            if middle in below[name]:
                below[name] |= below[middle]
    synchronised = {read.name for read in program.reads.values() if read.kind == "at"}
    return {
        name: frozenset(below[name] & synchronised) for name in below if name in program.base or name in program.derived
    }


def _atoms(body: Iterable[ast.Literal]) -> Iterator[ast.Atom]:
    for literal in body:
        if isinstance(literal, ast.Atom):
            yield literal
        elif isinstance(literal, ast.Negation):
            yield literal.atom
        for expression in ast.expressions(literal):
            if isinstance(expression, ast.Aggregate):
                yield from _atoms(expression.body)
