"""Random cases about aggregates: the programs of three generators, with facts and histories. A seed is a whole case."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from datalog.errors import LivelogError
from tests.aggregate_data import TRAP
from tests.aggregate_programs import draw_aggregates
from tests.cases import Case, program_of, states
from tests.generate import WORK, Tally, draw_history, lively
from tests.harness import METHODS, Configuration
from tests.index_programs import draw_layers
from tests.nested_programs import draw_nested
from tests.oracle import Operation, OracleError, Row

TALLY = Tally()
DRAWN: dict[str, Callable[[random.Random], tuple[Case, dict[str, list[Row]]]]] = {
    "aggregates": draw_aggregates,
    "nested": draw_nested,
    "layers": draw_layers,
}


def filled(rng: random.Random, case: Case, pools: dict[str, list[Row]]) -> Case:
    """The case with facts and a history."""
    program = program_of(case.reference)
    pools = {name: rows for name, rows in pools.items() if name in program.base}
    if not pools:
        raise OracleError("no base relation is left in the program")
    share = rng.choice((0, 0.5, 0.5, 0.8))
    harmless = {name: [row for row in rows if TRAP not in row] for name, rows in pools.items()}
    loaded = [(name, row) for name, rows in harmless.items() for row in rows if rng.random() < share]
    history = list(draw_history(rng, program, pools, loaded, longest=10))
    for _ in range(rng.choice((0, 0, 1, 2))):
        history[(at := rng.randint(0, len(history))) : at] = bulk(rng, rng.choice((pools, harmless)))
    return replace(case, facts=tuple(loaded), history=tuple(history))


def bulk(rng: random.Random, pools: dict[str, list[Row]]) -> list[tuple[Operation, ...]]:
    """Transactions that fill or empty everything at once: kept, or rolled back, on top of much or of nothing."""
    everything: tuple[Operation, ...] = tuple(("insert", name, row) for name, rows in pools.items() for row in rows)
    nothing: tuple[Operation, ...] = tuple(("delete", name, row) for _, name, row in everything)
    undone: Operation = ("raise",)
    return rng.choice((
        [(*everything, undone)], [everything], [nothing, (*everything, undone), everything], [nothing + everything],
        [(*nothing, undone)], [everything, nothing],
    ))  # fmt: skip


def attempt(rng: random.Random, seed: int, kind: str) -> Case | None:
    TALLY.drawn += 1
    try:
        case, pools = DRAWN[kind](rng)
        case = filled(rng, replace(case, seed=seed), pools)
        if not lively(case, states(case, WORK)):
            raise OracleError("nothing happens")
    except (LivelogError, OracleError):
        TALLY.rejected += 1
        return None
    return case


@lru_cache(maxsize=64)
def generate(seed: int, kind: str = "") -> Case:
    """The case of a seed: the first acceptable one of its attempts. The kinds take turns."""
    kind = kind or list(DRAWN)[seed % len(DRAWN)]
    for number in itertools.count():
        case = attempt(random.Random(f"{kind} {seed}/{number}"), seed, kind)
        if case is not None:
            return case
    raise AssertionError


def configurations(seed: int) -> list[Configuration]:
    """One partition, several with messages shuffled, and one of the other methods."""
    rng = random.Random(f"aggregate configurations {seed}")
    strategy, ship = rng.choice([method for method in METHODS if method[1] != "eager"])
    return [
        Configuration("absorption", "demand", 1),
        Configuration("absorption", "demand", 3, rng.randrange(1000)),
        Configuration(strategy, ship, rng.choice((1, 2, 4)), rng.randrange(1000)),
    ]
