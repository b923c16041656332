"""The law everything is tested by: after any history of transactions every view equals the naive evaluation of the
program over the facts that are left, and the sum of the published changes equals the view.

    pytest tests/test_histories.py --histories 2000                       more of them
    pytest tests/test_histories.py -k over_spark --spark-histories 200    more of them over Spark
    pytest tests/test_histories.py --seed 123                             exactly one, in every configuration
    pytest tests/test_histories.py -k over_spark --seed 123               the same over Spark, in every method
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from tests.cases import Case, states
from tests.generate import TALLY, cases, generate
from tests.harness import MATRIX, METHODS, Configuration, Mismatch, configurations, run
from tests.kept import KEPT_CASES

CHUNK = 8  # program-histories per test, so that parallel workers share them out

# Seeds that once failed; each runs in the whole matrix.
KEPT_SEEDS: tuple[int, ...] = (1134,)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    seed = metafunc.config.getoption("--seed")
    count = metafunc.config.getoption("--histories")
    if "chunk" in metafunc.fixturenames:
        starts = range(0, count, CHUNK) if seed is None else []
        chunks = [range(start, min(start + CHUNK, count)) for start in starts]
        metafunc.parametrize("chunk", chunks, ids=[f"{c.start}-{c.stop - 1}" for c in chunks])
    if "over" in metafunc.fixturenames:
        count = metafunc.config.getoption("--spark-histories")
        seeds = [(s, s % len(METHODS)) for s in range(200_000, 200_000 + count)]
        if seed is not None:
            seeds = [(seed, method) for method in range(len(METHODS))]
        places = [(s, m, "spark") for s, m in seeds] + [(s, m, "cluster") for s, m in seeds[:: max(1, count // 4)]]
        ids = [f"{s}-{m}-{place}" for s, m, place in places]
        metafunc.parametrize(("over", "method", "runtime"), places, indirect=["runtime"], ids=ids)
    if "whole" in metafunc.fixturenames:
        whole = [seed] if seed is not None else [*KEPT_SEEDS, *range(100_000, 100_000 + max(6, count // 40))]
        metafunc.parametrize("whole", whole)


def test_every_state_equals_the_oracle(chunk: range) -> None:
    for seed in chunk:
        case = generate(seed)
        expected = states(case)
        for configuration in configurations(seed):
            run(case, configuration, expected)


def test_the_whole_matrix(whole: int) -> None:
    case = generate(whole)
    expected = states(case)
    for i, configuration in enumerate([*MATRIX, *configurations(whole)]):
        if configuration.interleaving is None and configuration.partitions > 1 and i % 2:
            configuration = replace(configuration, interleaving=whole + i)
        run(case, configuration, expected)


def test_over_spark(over: int, method: int) -> None:
    case = generate(over)
    strategy, ship = METHODS[method]
    try:
        run(case, Configuration(strategy, ship, 2 + over % 2))
    except Mismatch as mismatch:
        again = f"over Spark: pytest tests/test_histories.py -k over_spark --seed {over}"
        raise Mismatch(mismatch.kind, f"{mismatch}\n{again}", mismatch.upto) from mismatch


@pytest.mark.parametrize("name", KEPT_CASES)
def test_kept_cases(name: str) -> None:
    case = KEPT_CASES[name]
    expected = states(case)
    for configuration in MATRIX:
        for interleaving in (None, 1, 2):
            run(case, replace(configuration, interleaving=interleaving), expected)


@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
@given(case=cases())
def test_with_hypothesis(case: Case) -> None:
    expected = states(case)
    for configuration in configurations(len(case.text), 2):
        run(case, configuration, expected)


def test_few_programs_are_rejected() -> None:
    """The generator draws again when the checker or the oracle refuses; that must stay the exception."""
    before = replace(TALLY)
    for seed in range(500, 540):
        generate.__wrapped__(seed)
    drawn, rejected = TALLY.drawn - before.drawn, TALLY.rejected - before.rejected
    assert rejected < 0.4 * drawn, f"{rejected} of {drawn} programs were rejected"
