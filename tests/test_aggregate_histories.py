"""The law for programs about aggregates: after any history of transactions every view equals the naive evaluation of
the program over the facts that are left, and the published changes add up to it. The options are those of
`tests/test_histories.py`:

    pytest tests/test_aggregate_histories.py --histories 4000    more of them
    pytest tests/test_aggregate_histories.py --seed 123          exactly one
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.aggregate_cases import DRAWN, TALLY, configurations, generate
from tests.cases import states
from tests.harness import Configuration, run
from tests.kept_aggregates import KEPT_AGGREGATES

CHUNK = 10  # program-histories per test, so that parallel workers share them out


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "chunk" in metafunc.fixturenames:
        seed = metafunc.config.getoption("--seed")
        count = metafunc.config.getoption("--histories") // 2
        starts = range(0, count, CHUNK)
        chunks = [range(s, min(s + CHUNK, count)) for s in starts] if seed is None else [range(seed, seed + 1)]
        metafunc.parametrize("chunk", chunks, ids=[f"{c.start}-{c.stop - 1}" for c in chunks])


def test_every_state_equals_the_oracle(chunk: range) -> None:
    for seed in chunk:
        case = generate(seed)
        expected = states(case)
        for configuration in configurations(seed):
            run(case, configuration, expected)


@pytest.mark.parametrize("name", KEPT_AGGREGATES)
def test_kept_cases(name: str) -> None:
    case = KEPT_AGGREGATES[name]
    expected = states(case)
    for partitions in (1, 2, 4):
        for interleaving in (None, 1, 2):
            run(case, Configuration("absorption", "demand", partitions, interleaving), expected)


def test_few_programs_are_rejected() -> None:
    """The generators draw again when the checker or the oracle refuses, or nothing happens: not too often."""
    before = replace(TALLY)
    for seed in range(500, 500 + 10 * len(DRAWN)):
        generate.__wrapped__(seed)
    drawn, rejected = TALLY.drawn - before.drawn, TALLY.rejected - before.rejected
    assert rejected < 0.6 * drawn, f"{rejected} of {drawn} programs were rejected"
