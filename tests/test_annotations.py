"""The annotations themselves: in eager mode they are complete, so setting a variable to false tells what would be
left without its tuple."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

import datalog
import livelog
from livelog.runtime.component import Component
from tests.oracle import evaluate
from tests.runs import WAYS

PROGRAMS = {
    "reachable": "r(x, y) :- e(x, y). r(x, y) :- e(x, z), r(z, y).",
    "non-linear": "r(x, y) :- e(x, y). r(x, y) :- r(x, z), r(z, y).",
    "mutual": "odd(x, y) :- e(x, y). odd(x, y) :- e(x, z), even(z, y). even(x, y) :- e(x, z), odd(z, y).",
    "same generation": "sg(x, y) :- e(p, x), e(p, y). sg(x, y) :- e(p, x), sg(p, q), e(q, y).",
}


def components(session: livelog.Session) -> Iterator[Component]:
    for worker in session._runtime.workers:
        yield from (stratum for stratum in worker.strata if isinstance(stratum, Component))


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_variable_to_false_is_evaluation_without_its_tuple(name: str, partitions: int) -> None:
    program = datalog.check(datalog.parse(PROGRAMS[name]))
    rng = random.Random(f"{name} {partitions}")
    edges = sorted({(rng.randrange(5), rng.randrange(5)) for _ in range(8)})
    gone, kept = edges[0], edges[1:]
    session = livelog.open(program, facts={"e": edges}, ship="eager", partitions=partitions, seed=1)
    with session.transaction() as tx:  # so that there is a history
        tx.delete("e", gone)
    variable = {
        row: next(iter(annotation.support))
        for component in components(session)
        for row, annotation in component.home["e"].rows.items()
    }
    assert sorted(variable) == kept
    for row in kept:
        expected = evaluate(program, {"e": [e for e in kept if e != row]})
        for component in components(session):
            for view in program.derived & set(component.home):
                for t, annotation in component.home[view].rows.items():
                    left = component.provenance.restrict(annotation, {variable[row]})
                    assert (left is not None) == (t in expected[view]), f"{view}{t} without e{row}"


@pytest.mark.everywhere(spark=7, cluster=1)
@pytest.mark.parametrize("partitions", [1, 2, 4])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_annotation_alone_suffices(name: str, way: str, partitions: int) -> None:
    """Whatever the mode keeps of a tuple's derivations, it is true: its facts alone derive the tuple.

    So do they where nothing is kept, and an explanation has to be found."""
    program = datalog.check(datalog.parse(PROGRAMS[name]))
    rng = random.Random(name)
    edges = sorted({(rng.randrange(5), rng.randrange(5)) for _ in range(9)})
    session = livelog.open(program, facts={"e": edges}, partitions=partitions, seed=3, **WAYS[way])
    with session.transaction() as tx:
        tx.delete("e", edges[3])
    for view in session.views:
        for t in session[view]:
            facts = session.why(view, t)
            assert t in evaluate(program, {"e": [row for _, row in facts]})[view]
