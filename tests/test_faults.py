"""Whatever is raised wherever, a session is before a transaction or after it, never between, and goes on.

Everything here happens in other processes: see `tests.faults` and `tests.fault_limits`.

    pytest tests/test_faults.py --faults all     at every line with every error, once, twice and three times (hours)
    pytest tests/test_faults.py --faults 100     at so many, in each of these ways
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fault_cases import SCENARIOS
from tests.harness import METHODS

ROOT = Path(__file__).parent.parent


def run(module: str, *arguments: str, seed: int = 0) -> list[Any]:
    """What a module of tests prints when it is run in a process of its own, line by line. `seed` is that of hashes."""
    ended = subprocess.run(
        [sys.executable, "-m", f"tests.{module}", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=7200,
        env={**os.environ, "PYTHONHASHSEED": str(seed)},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-5000:]
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.mark.timeout(0)  # it is asked for more than fits in any
@pytest.mark.parametrize("method", METHODS, ids=lambda method: "-".join(filter(None, method)))
def test_errors_at_lines_of_a_transaction(method: tuple[str, str | None], request: pytest.FixtureRequest) -> None:
    asked = request.config.getoption("--faults")
    jobs = []
    number = METHODS.index(method)
    for scenario in SCENARIOS:
        for partitions in (1, 2):
            for faults in (1, 2, 3):
                number += 1
                if asked is None and number % 27:  # each of them has its turn with some method
                    continue
                sample = None if asked == "all" else int(asked or 6)
                job = {"method": method, "partitions": partitions, "scenario": scenario, "faults": faults}
                jobs.append(json.dumps({**job, "sample": sample}))
    results = run("faults", *jobs)
    assert len(results) == len(jobs)
    wrong = [problem for result in results for problem in result["problems"]]
    assert not any(result["wrong"] for result in results), "\n".join(wrong)
    outcomes = {outcome.partition(",")[0] for result in results for outcome in result["counts"]}
    assert "before" in outcomes


@pytest.mark.timeout(0)
@pytest.mark.parametrize("sync", ["always", "interval"])
def test_errors_at_lines_of_a_transaction_in_a_folder(sync: str, request: pytest.FixtureRequest) -> None:
    """The session and its folder agree, and so do those who follow its views."""
    asked = request.config.getoption("--faults")
    jobs = []
    for number, (scenario, faults) in enumerate((s, n) for s in SCENARIOS for n in (1, 2, 3)):
        if asked is None and number % 3 != (sync == "always"):
            continue
        sample = None if asked == "all" else int(asked or 16)
        for partitions in (1, 2) if asked else (number % 2 + 1,):
            job = {"method": METHODS[number % len(METHODS)], "partitions": partitions, "scenario": scenario}
            jobs.append(json.dumps({**job, "faults": faults, "sample": sample, "sync": sync}))
    results = run("faults", *jobs)
    assert len(results) == len(jobs)
    wrong = [problem for result in results for problem in result["problems"]]
    assert not any(result["wrong"] for result in results), "\n".join(wrong)
    outcomes = {outcome.partition(",")[0] for result in results for outcome in result["counts"]}
    assert outcomes >= {"before", "after"}


@pytest.mark.parametrize("partitions", ["1", "2"])
def test_a_transaction_that_memory_does_not_suffice_for(partitions: str) -> None:
    """With a limit on the address space. See `test_unwinding` for why it comes to an end.

    Now and then CPython gives up by itself, and ends the process: "Cannot recover from MemoryErrors", or "from stack
    overflow". Then it is tried with other hashes, and so with another layout of the memory.
    """
    for seed in range(5):
        try:
            (outcomes,) = run("fault_limits", "memory", partitions, seed=seed)
            break
        except AssertionError as ended:
            if "Cannot recover from" not in str(ended):
                raise
    assert outcomes["before"] >= 5 and outcomes["after"] >= 2


@pytest.mark.parametrize("partitions", ["1", "2"])
def test_signals_at_any_moment(partitions: str) -> None:
    (outcomes,) = run("fault_limits", "signals", partitions)
    assert sum(outcomes.values()) == 40


@pytest.mark.parametrize("partitions", ["1", "2"])
def test_the_end_of_the_stack(partitions: str) -> None:
    (outcomes,) = run("fault_limits", "recursion", partitions)
    assert outcomes["before"] >= 5 and outcomes["after"] >= 5
