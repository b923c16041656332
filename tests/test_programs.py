"""Every golden program, in a matrix of modes and runtimes, against one expected result. See `tests/golden.py`."""

from __future__ import annotations

import pytest

from tests.golden import NAMES, Golden, final, log
from tests.harness import METHODS, Configuration, apply

CONFIGURATIONS = [Configuration(strategy, ship, n, 7) for strategy, ship in METHODS for n in (1, 3)]


@pytest.mark.everywhere(spark=28, cluster=7)
@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda c: f"{c.strategy}-{c.ship}-{c.partitions}")
@pytest.mark.parametrize("name", NAMES)
def test_golden(name: str, configuration: Configuration) -> None:
    golden = Golden(name)
    lines: list[str] = []
    with configuration.open(
        golden.folder / "program.dl", facts=golden.folder / "facts", constants=golden.constants
    ) as session:
        outputs = session.plan.outputs
        lines += log(-1, ((n, session.initial[n].inserted, session.initial[n].deleted) for n in outputs))
        for number, operations in enumerate(golden.transactions):
            with session.transaction() as transaction:
                apply(transaction, operations)
            changes = transaction.changes
            lines += log(number, ((n, changes[n].inserted, changes[n].deleted) for n in outputs))
        expected = golden.folder / "expected"
        assert lines == (expected / "changes.txt").read_text().splitlines()
        for output in outputs:
            assert final(session[output]) == (expected / f"{output}.csv").read_text()
        session.check()


@pytest.mark.parametrize("name", NAMES)
def test_the_expected_files_are_what_the_oracle_says(name: str) -> None:
    *_, last = Golden(name).states()
    for output, rows in last.items():
        assert final(rows) == (Golden(name).folder / "expected" / f"{output}.csv").read_text()
