"""The laws of provenance.

Sufficiency: the base facts of an explanation alone derive the row. Deletion: a session without one base tuple is
the evaluation of the program without it, row by row.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.cases import Case, monotone, program_of, succeeding
from tests.generate import generate
from tests.harness import METHODS, Configuration, apply, difference
from tests.oracle import Base, OracleError, Row, evaluate


def name_of(method: tuple[str, str | None]) -> str:
    return "-".join(part for part in method if part)


def suitable(case: Case) -> bool:
    """Programs without negation and aggregates: there a row follows from some of the facts alone."""
    return monotone(case) and not case.pruned


SEEDS = (13, 14, 17, 20, 21, 22, 23, 28, 34, 38, 42, 48, 51, 52, 94, 111)
"""The suitable ones below 120. They are not looked for here: all processes of a test run would do so, for seconds."""


def final_base(case: Case) -> Base:
    base = Base(program_of(case.text))
    base.load(case.loaded)
    for operations in case.history:
        base.apply(operations)
    return base


def replayed(case: Case, configuration: Configuration) -> Any:
    session = configuration.open(program_of(case.text), facts=case.loaded)
    for operations in case.history:
        with session.transaction() as transaction:
            apply(transaction, operations)
    return session


@pytest.mark.everywhere(spark=3)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("method", METHODS, ids=name_of)
def test_the_facts_of_an_explanation_derive_the_row(seed: int, method: tuple[str, str | None]) -> None:
    assert suitable(generate(seed)), "the generator has changed: look for other seeds"
    case, rng = succeeding(generate(seed)), random.Random(seed)
    program = program_of(case.text)
    held = final_base(case).facts()
    with replayed(case, Configuration(*method, partitions=rng.choice([1, 2]), interleaving=seed)) as session:
        for view in program.outputs:
            rows = list(session[view])
            for row in rng.sample(rows, min(4, len(rows))):
                facts: dict[str, list[Row]] = {name: [] for name in program.base}
                for name, fact in session.why(view, row):
                    if name not in program.base:
                        continue  # a fact that the program itself states of a view: it is there in any case
                    assert tuple(fact) in held[name], f"{name}{fact} explains {view}{row} but is not a fact"
                    facts[name].append(tuple(fact))
                assert row in evaluate(program, facts)[view], f"{facts} does not derive {view}{row}\n{case.show()}"


@pytest.mark.parametrize("seed", range(200, 212))
@pytest.mark.parametrize("method", METHODS, ids=name_of)
def test_deleting_a_tuple_is_evaluation_without_it(seed: int, method: tuple[str, str | None]) -> None:
    case, rng = succeeding(generate(seed)), random.Random(seed)
    program, reference = program_of(case.text), program_of(case.reference)
    base = final_base(case)
    everything = [(name, row) for name, rows in base.copies.items() for row in sorted(rows, key=repr)]
    for name, row in rng.sample(everything, min(4, len(everything))):
        left = base.copy()
        left.delete(name, row)
        try:
            expected = evaluate(reference, left.facts())
        except OracleError:  # a rule fails without the tuple: nothing to compare
            continue
        with replayed(case, Configuration(*method, partitions=rng.choice([1, 3]), interleaving=seed)) as session:
            with session.transaction() as transaction:
                transaction.delete(name, row)
            for view in program.outputs:
                if view not in case.pruned:
                    wrong = difference(expected[view], set(session[view]))
                    assert not wrong, f"without {name}{row}, {view}:\n{wrong}\n{case.show()}"
