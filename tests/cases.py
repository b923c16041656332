"""A test case: a program in pieces, the facts it is opened with, a history, and what the oracle makes of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import datalog
from datalog import ast
from tests.oracle import Base, Operation, OracleError, OracleLimit, Row, evaluate
from tests.registered import AGGREGATES, FUNCTIONS


@dataclass(frozen=True)
class RuleText:
    """A rule in pieces, so that the shrinker can drop some. `bound` is a literal that only the oracle gets: it
    makes a walk on a cyclic graph finite without touching the winners."""

    head: str
    body: tuple[str, ...] = ()
    bound: str = ""

    def text(self, bounded: bool = False) -> str:
        body = self.body + ((self.bound,) if bounded and self.bound else ())
        return f"{self.head} :- {', '.join(body)}." if body else f"{self.head}."


@dataclass(frozen=True)
class Pruned:
    """A relation that aggregate selection may prune: only the best rows of each group are to be seen.

    `best` holds (column, "min" | "max") pairs. When `surely` is false the whole relation is right too.
    """

    group: tuple[int, ...]
    best: tuple[tuple[int, str], ...]
    surely: bool = True

    def winners(self, rows: set[Row]) -> set[Row]:
        found: set[Row] = set()
        for column, function in self.best:
            top: dict[Row, Any] = {}
            pick = min if function == "min" else max
            for row in rows:
                key = tuple(row[i] for i in self.group)
                top[key] = pick(top[key], row[column]) if key in top else row[column]
            found |= {row for row in rows if row[column] == top[tuple(row[i] for i in self.group)]}
        return found


@dataclass(frozen=True)
class Case:
    """A program, the facts it is opened with, and a history of transactions."""

    seed: int
    lines: tuple[str, ...]
    rules: tuple[RuleText, ...]
    facts: tuple[tuple[str, Row], ...]
    history: tuple[tuple[Operation, ...], ...]
    pruned: dict[str, Pruned] = field(default_factory=dict, hash=False)

    @property
    def text(self) -> str:
        return "\n".join([*self.lines, *(rule.text() for rule in self.rules)]) + "\n"

    @property
    def reference(self) -> str:
        """The program for the oracle."""
        return "\n".join([*self.lines, *(rule.text(bounded=True) for rule in self.rules)]) + "\n"

    @property
    def loaded(self) -> dict[str, list[Row]]:
        """The facts by relation, in order."""
        rows: dict[str, list[Row]] = {}
        for name, row in self.facts:
            rows.setdefault(name, []).append(row)
        return rows

    def show(self, upto: int | None = None) -> str:
        """The case for a person: program, facts, and the transactions up to and with number `upto`."""
        parts = ["--- program", self.text, "--- facts", *(f"{name}{row!r}" for name, row in self.facts)]
        for number, operations in enumerate(self.history[: None if upto is None else upto + 1]):
            parts.append(f"--- transaction {number}")
            parts.extend(f"  {operation!r}" for operation in operations)
        return "\n".join(parts)


@dataclass(frozen=True)
class State:
    """What the oracle says after the load or after a transaction: every relation, and the base model's clock.

    `failed`: the transaction must fail, and everything is as it was before.
    """

    relations: dict[str, set[Row]]
    clock: float
    failed: bool = False


def program_of(text: str) -> ast.Program:
    return datalog.check(datalog.parse(text), functions=FUNCTIONS, aggregates=AGGREGATES)


STATES: dict[Case, list[State]] = {}
"""Of the last cases: a generator asks for them to see whether a case is any good, and then the tests of it do."""


def states(case: Case, work: int = 5_000_000) -> list[State]:
    """The states of a case by the oracle: after the load, then after each transaction. To be read only."""
    if case not in STATES:
        result = _states(case, work)
        while len(STATES) >= 64:
            del STATES[next(iter(STATES))]
        STATES[case] = result
    return STATES[case]


def _states(case: Case, work: int) -> list[State]:
    program = program_of(case.reference)
    base = Base(program)
    base.load(case.loaded)
    result = [State(evaluate(program, base.facts(), work), base.clock)]
    for operations in case.history:
        after = base.copy()
        after.apply(operations)
        try:
            if ("raise",) in operations:
                raise OracleError("on purpose")
            result.append(State(evaluate(program, after.facts(), work), after.clock))
            base = after
        except OracleLimit:
            raise
        except OracleError:
            result.append(State(result[-1].relations, base.clock, failed=True))
    return result


def succeeding(case: Case) -> Case:
    """The case without the transactions that fail."""
    after = states(case)[1:]
    kept = tuple(part for part, state in zip(case.history, after, strict=True) if not state.failed)
    return replace(case, history=kept)


def monotone(case: Case) -> bool:
    """Whether the program has no negation and no aggregate, so that a row follows from some facts alone."""
    rules = program_of(case.text).rules
    return not any(
        rule.aggregates
        or any(isinstance(literal, ast.Negation) for literal in rule.body)
        or any(isinstance(e, ast.Aggregate) for e in ast.expressions(rule))
        for rule in rules
    )


def small_case(
    rng: random.Random, text: tuple[str, ...], relations: str, row: Callable[[str], Row], transactions: int
) -> Case:
    """A program over relations with names of one letter, with a few facts and a history that takes some of them back.

    A relation that is named more often in `relations` changes more often. Rows should have few values, so that joins
    are of many with many and deletions find something.
    """
    facts = [(relation, row(relation)) for relation in dict.fromkeys(relations) for _ in range(4)]
    known = list(facts)

    def operation() -> Operation:
        if rng.random() < 0.45:
            return ("delete", *rng.choice(known))
        relation = rng.choice(relations)
        known.append((relation, row(relation)))
        return ("insert", *known[-1])

    steps = tuple(tuple(operation() for _ in range(rng.randrange(1, 7))) for _ in range(transactions))
    return Case(-1, text, (), tuple(facts), steps)
