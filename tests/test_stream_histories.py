"""The law of programs with times: at every time, in the middle of a transaction too, the sum of the published steps is
what the oracle finds there, and so is every view at the end.

    pytest tests/test_stream_histories.py --stream-histories 2000     more of them
    pytest tests/test_stream_histories.py --seed 123                  exactly one, in every configuration
    python -m tests.stream_shrink 123                                 the smallest case that fails as it does
"""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import livelog
from datalog.errors import LivelogError
from livelog.runtime import stored
from livelog.store import journal
from tests.cases import program_of
from tests.harness import METHODS, Configuration, Mismatch, OnPurpose
from tests.kept_streams import KEPT_STREAMS
from tests.registered import AGGREGATES, FUNCTIONS
from tests.stream_cases import StreamCase, states
from tests.stream_generate import TALLY, generate
from tests.stream_harness import PARTITIONS, Followed, apply, compare, configurations, run

CHUNK = 9  # cases per test, so that parallel workers share them out


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    seed = metafunc.config.getoption("--seed")
    count = metafunc.config.getoption("--stream-histories")
    if "chunk" in metafunc.fixturenames:
        starts = range(0, count, CHUNK) if seed is None else []
        chunks = [range(start, min(start + CHUNK, count)) for start in starts]
        metafunc.parametrize("chunk", chunks, ids=[f"{c.start}-{c.stop - 1}" for c in chunks])
    if "whole" in metafunc.fixturenames:
        metafunc.parametrize("whole", [seed] if seed is not None else range(100_000, 100_003))
    if "stored_seeds" in metafunc.fixturenames:
        starts = range(200_000, 200_000 + max(12, count // 6), 4)
        chunks = [range(start, start + 4) for start in starts] if seed is None else [range(seed, seed + 1)]
        metafunc.parametrize("stored_seeds", chunks, ids=[f"{c.start}-{c.stop - 1}" for c in chunks])


def test_every_step_equals_the_oracle(chunk: range) -> None:
    for seed in chunk:
        case = generate(seed)
        expected = states(case)
        for configuration in configurations(seed):
            run(case, configuration, expected)


@pytest.mark.parametrize("name", KEPT_STREAMS)
def test_kept_cases(name: str) -> None:
    case = KEPT_STREAMS[name]
    expected = states(case)
    for strategy, ship in METHODS:
        for partitions in PARTITIONS:
            run(case, Configuration(strategy, ship, partitions, 1 if partitions > 1 else None), expected)


def test_every_way_of_running(whole: int) -> None:
    case = generate(whole)
    expected = states(case)
    for strategy, ship in METHODS:
        for partitions in PARTITIONS:
            interleaving = whole % 1000 if partitions > 1 else None
            run(case, Configuration(strategy, ship, partitions, interleaving), expected)


class Life:
    """A session in a folder that is closed or killed now and then, and opened again in another way."""

    def __init__(self, folder: Path, case: StreamCase, rng: random.Random) -> None:
        self.folder, self._case, self._rng, self._deaths = folder, case, rng, 0
        self.session = livelog.open(program_of(case.text), facts=case.loaded, store=folder, **self._how())

    def _how(self) -> dict[str, Any]:
        strategy, ship = self._rng.choice(METHODS)
        return {"strategy": strategy, "ship": ship, "partitions": self._rng.choice(PARTITIONS), "limit": 200_000}

    def something(self) -> None:
        """What may happen between two transactions."""
        roll = self._rng.random()
        if roll < 0.2:
            self.session.checkpoint()
        elif roll < 0.6:
            self.end(kill=roll < 0.4)

    def end(self, kill: bool) -> None:
        """It is closed; or killed, of which a copy of the folder is what is left. Then it is opened again."""
        if kill:
            self._deaths += 1
            left = self.folder.with_name(f"{self.folder.name}-{self._deaths}")
            shutil.copytree(self.folder, left)
            self.session.close()
            self.folder = left
        else:
            self.session.close()
        if self._rng.random() < 0.5:
            self.session = livelog.resume(self.folder, functions=FUNCTIONS, aggregates=AGGREGATES)
        else:
            self.session = livelog.open(program_of(self._case.text), store=self.folder, **self._how())


def across_reopenings(seed: int, folder: Path) -> None:
    """A case in a folder: what is published after each opening goes on from what was before."""
    case, rng = generate(seed), random.Random(f"stream store {seed}")
    expected = states(case)
    life = Life(folder, case, rng)
    try:
        followed = Followed(program_of(case.text), life.session)
        first = life.session
        wrong = followed.transaction(expected[0].moments, first.initial_steps, first.initial)
        assert not (wrong := wrong + compare(case, expected[0], first)), wrong
        for at, operations in enumerate(case.history):
            life.something()
            state = expected[at + 1]
            wrong = compare(case, expected[at], life.session)
            assert not wrong, f"before transaction {at}: {wrong}"
            try:
                with life.session.transaction() as tx:
                    apply(tx, operations, rng)
                assert not state.failed, f"transaction {at} should have failed"
                wrong = followed.transaction(state.moments, tx.steps, tx.changes)
            except (OnPurpose, LivelogError):
                if not state.failed:
                    raise
            assert not (wrong := wrong + compare(case, state, life.session)), f"after transaction {at}: {wrong}"
        life.session.check()
    except Exception as error:
        raise Mismatch(type(error).__name__, f"seed {seed}: {error}\n{case.show()}") from error
    finally:
        life.session.close()


def test_histories_across_reopenings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored_seeds: range) -> None:
    monkeypatch.setattr(journal, "INTERVAL", 3600)
    monkeypatch.setattr(stored, "LEAST", 600)
    for seed in stored_seeds:
        across_reopenings(seed, tmp_path / f"{seed}")


def test_few_programs_are_rejected() -> None:
    """The generator draws again when the checker refuses, or when nothing happens; that must stay the exception."""
    before = replace(TALLY)
    for seed in range(500, 540):
        generate.__wrapped__(seed)
    drawn, refused, dull = TALLY.drawn - before.drawn, TALLY.refused - before.refused, TALLY.dull - before.dull
    assert refused < 0.05 * drawn, f"{refused} of {drawn} programs were refused"
    assert dull < 0.6 * drawn, f"in {dull} of {drawn} programs nothing happens"
