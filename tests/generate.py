"""Random cases: programs and histories of transactions over their base relations.

Everything is drawn from one `random.Random`, so a seed is a whole test case: `generate(seed)`. The strategy
`cases()` hands hypothesis the same generator with a `Random` that hypothesis controls. Programs come from
`tests/draw.py`, from `tests/classics.py`, and, for the shortest-path family, from `tests/paths.py`.
"""

from __future__ import annotations

import itertools
import random
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from hypothesis import strategies as st

from datalog import ast
from datalog.errors import LivelogError
from tests.cases import Case, Pruned, RuleText, State, program_of, states
from tests.classics import draw_classic
from tests.draw import Draw
from tests.oracle import Base, Operation, OracleError, Row, evaluate
from tests.paths import draw_path

WORK = 40_000  # steps the oracle may take for one state; a program that needs more is drawn again


def draw_history(
    rng: random.Random, program: ast.Program, pools: dict[str, list[Row]], loaded: list[tuple[str, Row]],
    longest: int = 15,
) -> tuple[tuple[Operation, ...], ...]:
    """A history over rows of the pools. A model of the base relations tells which rows are there to delete."""
    base = Base(program)
    for name, row in loaded:
        base.insert(name, row)
    expiring = any(program.relations[name].ttl is not None for name in pools)
    history = []
    for _ in range(rng.randint(4, longest)):
        operations: list[Operation] = []

        def do(*new: Operation, into: list[Operation] = operations, model: Base = base) -> None:
            into.extend(new)
            model.apply(new)

        for _ in range(rng.randint(1, 5)):
            name = rng.choice(list(pools))
            row = rng.choice(pools[name])
            present = sorted(base.copies[name], key=repr)
            roll = rng.random()
            if rng.random() < (0.15 if expiring else 0.02):
                do(("advance", base.clock + rng.choice([0.5, 1, 1, 2, 3])))
            elif present and roll < 0.38:
                do(("delete", name, rng.choice(present)))
            elif roll < 0.44:
                do(("delete", name, row))
            elif roll < 0.48:
                do(("insert", name, row), ("delete", name, row))
            elif present and roll < 0.53:
                row = rng.choice(present)
                do(("delete", name, row), ("insert", name, row))
            else:
                do(("insert", name, row))
        roll = rng.random()
        name = rng.choice(list(pools))
        if roll < 0.1:
            for _ in range(rng.randint(6, 16)):
                name = rng.choice(list(pools))
                do(("insert", name, rng.choice(pools[name])))
        elif roll < 0.16:
            for row in sorted(base.copies[name], key=repr):
                do(("delete", name, row))
        elif roll < 0.18:
            operations.clear()
            base = _replayed(program, loaded, history)
        elif roll < 0.22:
            operations.insert(rng.randint(0, len(operations)), ("raise",))
            base = _replayed(program, loaded, history)
        history.append(tuple(operations))
    if rng.random() < 0.25:
        history.append(tuple(("delete", name, row) for name in pools for row in sorted(base.copies[name], key=repr)))
    return tuple(history)


def _replayed(program: ast.Program, loaded: list[tuple[str, Row]], history: list[tuple[Operation, ...]]) -> Base:
    base = Base(program)
    for name, row in loaded:
        base.insert(name, row)
    for operations in history:
        if ("raise",) not in operations:
            base.apply(operations)
    return base


def complete(
    rng: random.Random, seed: int, lines: list[str], rules: list[RuleText], pools: dict[str, list[Row]],
    pruned: dict[str, Pruned] | None = None, fallible: bool = False, longest: int = 15,
) -> Case:
    """A case with facts and a history for a drawn program; raises if the program is not acceptable."""
    case = Case(seed, tuple(lines), tuple(rules), (), (), pruned or {})
    program = program_of(case.reference)
    pools = {name: rows for name, rows in pools.items() if name in program.base}
    if not pools:
        raise OracleError("no base relation is left in the program")
    everything = Base(program)
    everything.load(pools)
    with suppress(OracleError) if fallible else nullcontext():
        evaluate(program, everything.facts(), WORK)
    loaded: list[tuple[str, Row]] = []
    if rng.random() < 0.75:
        for name, rows in pools.items():
            loaded.extend((name, row) for row in rows if rng.random() < 0.5)
    return replace(case, facts=tuple(loaded), history=draw_history(rng, program, pools, loaded, longest))


def draw_case(rng: random.Random, seed: int) -> Case:
    """One attempt at a case."""
    draw = Draw(rng)
    draw.program()
    pools = {}
    for relation in draw.base:
        rows = list(itertools.product(*(draw.domain[kind] for kind in relation.types)))
        pools[relation.name] = sorted(rng.sample(rows, min(len(rows), rng.randint(3, 14))), key=repr)
    return complete(rng, seed, draw.lines, draw.rules, pools, fallible=draw.fallible)


def lively(case: Case, all_states: list[State]) -> bool:
    """Whether some view takes at least three different states: a case where nothing happens tests nothing."""
    views = program_of(case.text).outputs
    return any(len({frozenset(state.relations[view]) for state in all_states}) > 2 for view in views)


@dataclass
class Tally:
    """How many attempts were drawn and how many of them were no good."""

    drawn: int = 0
    rejected: int = 0


TALLY = Tally()


def attempt(rng: random.Random, seed: int) -> Case | None:
    TALLY.drawn += 1
    try:
        roll = rng.random()
        if roll < 0.16:
            case = complete(rng, seed, *draw_path(rng))
        elif roll < 0.36:
            case = complete(rng, seed, *draw_classic(rng), longest=25)
        else:
            case = draw_case(rng, seed)
        if not lively(case, states(case, WORK)):
            raise OracleError("nothing happens")
    except (LivelogError, OracleError):
        TALLY.rejected += 1
        return None
    return case


@lru_cache(maxsize=64)
def generate(seed: int) -> Case:
    """The case of a seed: the first acceptable one of its attempts."""
    for number in itertools.count():
        case = attempt(random.Random(f"{seed}/{number}"), seed)
        if case is not None:
            return case
    raise AssertionError


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Cases for hypothesis, which controls (and shrinks) the random choices."""
    rng = draw(st.randoms(use_true_random=False))
    for _ in range(20):
        case = attempt(rng, -1)
        if case is not None:
            return case
    return generate(0)
