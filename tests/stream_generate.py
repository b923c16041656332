"""Random cases with times: programs, and histories of operations and of moves of the clock over their base relations.

A seed is a whole case: `generate(seed)`.
"""

from __future__ import annotations

import itertools
import random
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from datalog.errors import LivelogError
from tests.cases import program_of
from tests.oracle import Operation, OracleError, Row
from tests.oracle_streams import Timeline
from tests.stream_cases import StreamCase, StreamState, states
from tests.stream_programs import Draw

WORK = 60_000  # steps the oracle may take for one evaluation; a program that needs more is drawn again


def draw_history(rng: random.Random, draw: Draw, pools: dict[str, list[Row]]) -> tuple[tuple[Operation, ...], ...]:
    """Operations over rows of the pools, with moves of the clock before, between and after them."""
    streams = [relation.name for relation in draw.base if relation.stream and relation.name in pools]
    names, clock = list(pools), 0.0
    far = 45.0 if draw.whole else 16.0
    steps = [1, 1, 1, 2, 2, 3, 4, 6] if draw.whole else [0.5, 0.5, 1, 1, 1.5, 2, 3.5]
    leaps = [8, 12, 17] if draw.whole else [4.5, 6, 7.5]
    there: dict[str, list[Row]] = {name: [] for name in names}
    history = []
    for _ in range(rng.randint(5, 10)):
        operations: list[Operation] = []
        before = clock, {name: list(rows) for name, rows in there.items()}
        for _ in range(rng.randint(1, 7)):
            name = rng.choice(names)
            row = rng.choice(pools[name])
            roll = rng.random()
            if roll < 0.36:
                by = rng.choice(leaps) if rng.random() < 0.06 else 0 if rng.random() < 0.04 else rng.choice(steps)
                if clock + by <= far:
                    clock += by
                    operations.append(("advance", clock))
            elif roll < 0.52 and name not in streams:
                row = rng.choice(there[name]) if there[name] and rng.random() < 0.8 else row
                operations.append(("delete", name, row))
                there[name] = [other for other in there[name] if other != row]
            else:
                if roll < 0.56 and name not in streams:
                    operations.append(("delete", name, row))
                rows = [row]
                if rng.random() < 0.08:
                    rows += rng.choices(pools[name], k=rng.randint(2, 5))
                operations += [("insert", name, row) for row in rows]
                there[name] += rows
        fate = rng.random()
        if fate < 0.04:
            operations.insert(rng.randint(0, len(operations)), ("raise",))
        elif fate < 0.06:
            operations.append(("advance", clock - 1))
        elif fate < 0.08 and streams:
            name = rng.choice(streams)
            operations.append(("delete", name, rng.choice(pools[name])))
        elif fate < 0.1:
            operations.clear()
        if fate < 0.1:  # in most of these nothing has happened
            clock, there = before
        history.append(tuple(operations))
    return tuple(history)


def draw_case(rng: random.Random, seed: int) -> StreamCase:
    """One attempt at a case; raises if the program is not acceptable."""
    draw = Draw(rng, rng.random() < 0.75)
    draw.program()
    case = StreamCase(seed, tuple(draw.lines), tuple(draw.rules), (), (), grid=1 if draw.whole else 0.25)
    program = program_of(case.text)
    if not program.reads and not program.clocks and rng.random() < 0.9:
        raise OracleError("no times in it")
    pools = {}
    for relation in draw.base:
        if relation.name in program.base:
            rows = list(itertools.product(*(draw.values(kind) for kind in relation.kinds)))
            pools[relation.name] = rng.sample(rows, min(len(rows), rng.randint(3, 8)))
    if not pools:
        raise OracleError("no base relation is left in the program")
    loaded: list[tuple[str, Row]] = []
    if rng.random() < 0.6:
        for name, rows in pools.items():
            loaded.extend((name, row) for row in rows if rng.random() < 0.4)
    everything = Timeline(program, case.grid, WORK)
    with suppress(OracleError) if draw.fallible else nullcontext():
        everything.load(pools)
    return replace(case, facts=tuple(loaded), history=draw_history(rng, draw, pools))


def lively(case: StreamCase, all_states: list[StreamState]) -> bool:
    """Whether some view takes at least three different states: a case where nothing happens tests nothing."""
    views = program_of(case.text).outputs
    moments = [moment for state in all_states for moment in state.moments]
    return any(len({frozenset(moment.relations[view]) for moment in moments}) > 2 for view in views)


@dataclass
class Tally:
    """How many attempts were drawn, how many of them the checker refused, and how many were no good otherwise."""

    drawn: int = 0
    refused: int = 0
    dull: int = 0


TALLY = Tally()


def attempt(rng: random.Random, seed: int) -> StreamCase | None:
    TALLY.drawn += 1
    try:
        case = draw_case(rng, seed)
        if not lively(case, states(case, WORK)):
            raise OracleError("nothing happens")
    except LivelogError:
        TALLY.refused += 1
        return None
    except OracleError:
        TALLY.dull += 1
        return None
    return case


@lru_cache(maxsize=64)
def generate(seed: int) -> StreamCase:
    """The case of a seed: the first acceptable one of its attempts."""
    for number in itertools.count():
        case = attempt(random.Random(f"streams {seed}/{number}"), seed)
        if case is not None:
            return case
    raise AssertionError
