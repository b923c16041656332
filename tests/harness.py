"""Runs a case on the engine and holds every state against the oracle."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import livelog
from datalog.errors import RuntimeProblem
from tests.cases import Case, State, program_of, states
from tests.oracle import Operation, Row


@dataclass(frozen=True)
class Configuration:
    """One way of running a program. `interleaving` seeds the order in which messages are delivered."""

    strategy: str
    ship: str | None
    partitions: int
    interleaving: int | None = None

    def open(self, program: Any, facts: Any = None, **options: Any) -> Any:
        return livelog.open(
            program, facts=facts, partitions=self.partitions, strategy=self.strategy, ship=self.ship,
            seed=self.interleaving, **options,
        )


METHODS = (
    ("absorption", "demand"),
    ("absorption", "lazy"),
    ("absorption", "eager"),
    ("relative", "lazy"),
    ("relative", "eager"),
    ("dred", None),
    ("recompute", None),
)
PARTITIONS = (1, 2, 5)
# Eager mode keeps every derivation, and dense programs have exponentially many: a history ends early there.
EAGER_NODES = 3000
MATRIX = tuple(Configuration(s, m, n) for s, m in METHODS for n in PARTITIONS)


def configurations(seed: int, count: int = len(METHODS)) -> list[Configuration]:
    """Some of the matrix, every method once before any comes again, with interleavings drawn from the seed."""
    rng = random.Random(f"configurations {seed}")
    chosen = []
    methods = list(METHODS)
    for i in range(count):
        strategy, ship = methods[i % len(methods)]
        partitions = rng.choice(PARTITIONS)
        chosen.append(Configuration(strategy, ship, partitions, rng.randrange(1000) if partitions > 1 else None))
    return chosen


class Mismatch(AssertionError):
    """The engine and the oracle do not agree. `kind` is what a shrinker must keep: the failure, not its rows."""

    def __init__(self, kind: str, text: str, upto: int | None = None) -> None:
        super().__init__(text)
        self.kind = kind
        self.upto = upto


class OnPurpose(Exception):
    """Raised inside a transaction, to see it rolled back."""


def apply(transaction: Any, operations: Iterable[Operation]) -> None:
    """Put operations into a transaction; several in a row of one kind and relation go in at once."""
    for (kind, *where), group in groupby(operations, key=lambda operation: operation[:2]):
        rows = [operation[-1] for operation in group]
        if kind == "raise":
            raise OnPurpose
        elif kind == "advance":
            transaction.advance_to(*where)
        elif len(rows) > 3:
            (transaction.insert_all if kind == "insert" else transaction.delete_all)(*where, rows)
        else:
            for row in rows:
                (transaction.insert if kind == "insert" else transaction.delete)(*where, row)


def difference(expected: set[Row], got: set[Row]) -> str:
    """Both differences of two sets, in words; empty when they are equal."""
    missing, extra = sorted(expected - got, key=repr), sorted(got - expected, key=repr)
    return "" if not missing and not extra else f"missing: {missing}\nextra:   {extra}"


def accumulate(current: dict[str, set[Row]], changes: Mapping[str, Any], views: Iterable[str]) -> str:
    """Add published changes to the sum so far. They are net changes: nothing comes twice or goes unseen."""
    problems = []
    for view in views:
        change, rows = changes[view], current[view]
        inserted, deleted = list(change.inserted), list(change.deleted)
        if len(set(inserted)) != len(inserted) or len(set(deleted)) != len(deleted):
            problems.append(f"{view}: a row comes twice in one change: +{inserted} -{deleted}")
        if again := rows & set(inserted):
            problems.append(f"{view}: inserted although present: {sorted(again, key=repr)}")
        if unseen := set(deleted) - rows:
            problems.append(f"{view}: deleted although absent: {sorted(unseen, key=repr)}")
        if bool(change) != bool(inserted or deleted):
            problems.append(f"{view}: the truth value of the change is wrong")
        rows -= set(deleted)
        rows |= set(inserted)
    return "\n".join(problems)


def compare(case: Case, state: State, session: Any, total: dict[str, set[Row]], views: Iterable[str]) -> str:
    """What is wrong with the state of a session; empty when it is right."""
    problems = []
    for view in views:
        rows = list(session[view])
        got, expected = set(rows), state.relations[view]
        if len(got) != len(rows) or len(session[view]) != len(rows):
            problems.append(f"{view}: rows are listed twice or miscounted")
        if found := difference(expected, got):
            problems.append(f"{view} is wrong\n{found}")
        if found := difference(got, total[view]):
            problems.append(f"{view}: the sum of its changes is not the view\n{found}")
    for view in session.plan.pruned:  # the engine keeps the winners, and shows them to nobody but their readers
        expected = case.pruned[view].winners(state.relations[view])
        if found := difference(expected, set(session._runtime.rows(view))):
            problems.append(f"the winners of {view} are wrong\n{found}")
        if case.reference == case.text and (found := difference(state.relations[view], set(session[view]))):
            problems.append(f"{view} is wrong, asked for by name\n{found}")
    return "\n".join(problems)


def run(case: Case, configuration: Configuration, expected: list[State] | None = None, limit: int = 200_000) -> None:
    """Run a case; raises `Mismatch` with all that is needed to reproduce it."""
    if expected is None:
        expected = states(case)
    program = program_of(case.text)
    base = sorted(program.base)

    def fail(kind: str, what: str, upto: int) -> None:
        text = (
            f"{what}\n{configuration}\n{case.show(upto)}\n"
            + (f"reproduce with: pytest tests/test_histories.py --seed {case.seed}" if case.seed >= 0 else "")
        )
        raise Mismatch(kind, text, upto)

    at = -1
    try:
        with configuration.open(program, facts=case.loaded, limit=limit) as session:
            outputs = list(session.plan.outputs)
            missing = set(program.outputs) - set(outputs) - set(case.pruned)
            assert not missing, f"{missing} is not shown, and nobody expects it to be pruned"
            total: dict[str, set[Row]] = {view: set() for view in outputs}
            wrong = accumulate(total, session.initial, outputs)
            wrong += compare(case, expected[0], session, total, outputs)
            wrong += _base(expected[0], session, base)
            if wrong:
                fail("wrong", f"after the load: {wrong}", -1)
            for at, operations in enumerate(case.history):
                wrong = ""
                try:
                    with session.transaction() as transaction:
                        apply(transaction, operations)
                    wrong += accumulate(total, transaction.changes, outputs)
                    if expected[at + 1].failed:
                        wrong += "the transaction should have failed\n"
                except (OnPurpose, RuntimeProblem):
                    if not expected[at + 1].failed:
                        raise
                if session.clock != expected[at + 1].clock:
                    wrong += f"the clock is {session.clock}, not {expected[at + 1].clock}\n"
                wrong += compare(case, expected[at + 1], session, total, outputs)
                wrong += _base(expected[at + 1], session, base)
                if wrong:
                    fail("wrong", f"after transaction {at}: {wrong}", at)
                if configuration.ship == "eager" and session.stats().bdd_nodes > EAGER_NODES:
                    break
            session.check()
    except Mismatch:
        raise
    except Exception as error:  # any error of the engine is a finding, to be told with its case
        text = f"{type(error).__name__}: {error}"
        try:
            fail(type(error).__name__, f"at transaction {at}: {text}", at)
        except Mismatch as mismatch:
            raise mismatch from error


def _base(state: State, session: Any, base: Iterable[str]) -> str:
    """Base relations are readable too, and follow keys and expirations."""
    return "".join(
        f"{name} (a base relation) is wrong\n{found}\n"
        for name in base
        if (found := difference(state.relations[name], set(session[name])))
    )
