"""A guard guards: what may fail is computed only for bindings that pass all that does not need its value.

    pytest tests/test_guards.py --histories 2000        more of the random programs
"""

from __future__ import annotations

import random
from typing import Any

import pytest

import datalog
import livelog
from datalog.errors import LivelogError, RuntimeProblem
from tests.guarded_programs import FUNCTIONS, OPTIONS, draw_facts, draw_program, draw_transaction
from tests.oracle import Base, OracleError, OracleLimit, evaluate

CHUNK = 20
WORK = 400_000

DECLARED = """
.decl e(x: number) .decl p(x: number, y: number) .decl q(x: number, y: number) .decl g(x: number)
.decl s(x: number, t: symbol) .decl far(t: symbol)
"""

HUGE = [(0, 2**62), (0, 2**62 + 1)]
GUARDED = {  # with e(0), g(0) and whatever else is named there, each of these has no binding that comes to the division
    "a negation": ("r(x) :- e(x), !g(x), y = 1 / x, y > 0.", {}),
    "a negation, written last": ("r(y) :- y = 1 / x, y > 0, e(x), !g(x).", {}),
    "an atom": ("r(x) :- 1 / x > 0, e(x), p(x, _).", {}),
    "an atom that is joined later": ("r(x) :- e(x), p(x, y), 1 / y > 0, q(y, z), q(z, x).", {"p": [(0, 0)]}),
    "a comparison": ("r(x) :- e(x), 1 / x > 0, x != 0.", {}),
    "a comparison, written first": ("r(x) :- x != 0, 1 / x > 0, e(x).", {}),
    "a comparison of what is computed": ("r(x) :- e(x), z = 1 / y, y = x + 0, y != 0, z > 0.", {}),
    "a comparison that needs less": ("r(x) :- e(x), z = 10 / y, y = 5 / 9, z > x, y > 0.", {}),
    "nothing but the head": ("r(1 / x) :- e(x), !g(x).", {}),
    "an aggregate in the head": ("r(sum<1 / x>) :- e(x), !g(x).", {}),
    "an aggregate in the head, over a join": ("r(x, sum<y / x>) :- e(x), p(x, y), !g(x).", {"p": [(0, 1)]}),
    "a condition below an aggregate": ("r(count<*>) :- p(x, y), q(y, _), 1 / x > 0.", {"p": [(0, 1)]}),
    "an overflow below an aggregate": (
        "r(count<*>) :- e(x), q(x, _), x + 9223372036854775807 > y, y = 1.", {"e": [(9,)]},
    ),
    "a value that a negation needs": ("r(x) :- e(x), !g(1 / x), p(x, _).", {}),
    "a value that an atom needs": ("r(x) :- e(x), g(1 / x), p(x, _).", {}),
    "a value that an atom needs, nothing else to join": ("r(x) :- e(x), q(1 / x, y), e(y), y > 5.", {"q": [(0, 0)]}),
    "an aggregate over it": ("r(x, n) :- e(x), !g(x), n = sum 1 / y : { p(x, y) }.", {"p": [(0, 0)]}),
    "an aggregate of all": ("r(n) :- e(x), !g(x), n = sum 1 / y : { p(_, y) }.", {"p": [(0, 0)]}),
    "a condition in an aggregate": (
        "r(x, n) :- e(x), !g(x), n = count : { p(y, z), q(z, w), 1 / w > y }.", {"p": [(0, 0)], "q": [(0, 0)]},
    ),
    "a negation in an aggregate": (
        "r(x, n) :- e(x), !g(x), n = count : { p(x, y), !g(1 / y) }.", {"p": [(0, 0)]},
    ),
    "a nested aggregate": (
        "r(x) :- e(x), !g(x), n = sum y : { p(_, y) }, m = count : { q(_, _) }, x >= n / m.", {"p": [(0, 0)]},
    ),
    "a recursion": (
        "r(x, y) :- p(x, y). r(x, z) :- r(x, y), q(y, z), 1 / z > 0, !g(z).", {"p": [(1, 2)], "q": [(2, 0)]},
    ),
    "a recursion that asks": (
        "r(x, y) :- p(x, y). r(x, n) :- r(x, y), !g(y), n = count : { q(y, z), !g(1 / z) }.",
        {"p": [(1, 0)], "q": [(0, 0)]},
    ),
    "a function of the user": ("r(x) :- e(x), !g(x), inverse(x) > 0.", {}),
    "a text that is no number": ('r(x) :- s(x, t), !far(t), to_number(t) > 0.', {"s": [(0, "a")], "far": [("a",)]}),
    "the sum of an aggregate": ("r(x) :- e(x), !g(x), n = sum y : { p(x, y) }, n != 3.", {"p": HUGE}),
    "the sum of an aggregate, compared": ("r(x) :- e(x), !g(x), n = sum y : { p(x, y) }, n > 3.", {"p": HUGE}),
    "the sum of an aggregate of all": ("r(n) :- e(x), !g(x), n = sum y : { p(_, y) }.", {"p": HUGE}),
    "the sum of an aggregate, by an atom": ("r(n) :- e(x), q(x, _), n = sum y : { p(x, y) }.", {"p": HUGE}),
    "the sum of an aggregate, by a comparison": ("r(n) :- e(x), x > 0, n = sum y : { p(x, y) }, n > 3.", {"p": HUGE}),
    "the sum of an aggregate of all, compared": (
        "r(x) :- e(x), !g(x), n = sum y : { p(_, y) }, m = count : { q(_, _) }, x * 4 >= n * 2 - m.", {"p": HUGE},
    ),
    "an overflow": ("r(x) :- e(x), !g(x), x * x > 0.", {"e": [(2**62,)], "g": [(2**62,)]}),
    "a sum that overflows": ("r(x) :- e(x), !g(x), x + 1 > 0.", {"e": [(2**63 - 1,)], "g": [(2**63 - 1,)]}),
}


def inverse(x: int) -> int:
    return 1 // x


@pytest.mark.parametrize("strategy", ["absorption", "relative", "dred", "recompute"])
@pytest.mark.parametrize("guard", GUARDED)
def test_a_guard_guards(guard: str, strategy: Any) -> None:
    text, more = GUARDED[guard]
    program = datalog.check(datalog.parse(DECLARED + text), functions={"inverse": inverse})
    facts: dict[str, Any] = {"e": [(0,)], "g": [(0,)], **more}
    for partitions in (1, 3):
        with livelog.open(program, facts=facts, strategy=strategy, partitions=partitions) as session:
            assert evaluate(program, facts)["r"] == set(session["r"])


FAILING = {  # the same with a binding that passes
    "a negation": ("r(x) :- e(x), !g(x), y = 1 / x, y > 0.", {"g": []}),
    "an atom": ("r(x) :- 1 / x > 0, e(x), p(x, _).", {"p": [(0, 0)]}),
    "an atom that is joined later": (
        "r(x) :- e(x), p(x, y), 1 / y > 0, q(y, z), q(z, x).", {"p": [(0, 0)], "q": [(0, 0)]},
    ),
    "a comparison that needs less": ("r(x) :- e(x), z = 10 / y, y = 5 / 9, z > x, y = 0.", {}),
    "an aggregate over it": ("r(x, n) :- e(x), n = sum 1 / y : { p(x, y) }.", {"p": [(0, 0)]}),
    "a condition below an aggregate": ("r(count<*>) :- p(x, y), q(y, _), 1 / x > 0.", {"p": [(0, 1)], "q": [(1, 1)]}),
    "a value that an atom needs": ("r(x) :- e(x), g(1 / x), p(x, _).", {"p": [(0, 0)]}),
    "a recursion": (
        "r(x, y) :- p(x, y). r(x, z) :- r(x, y), q(y, z), q(z, x), 1 / z > 0.", {"p": [(1, 2)], "q": [(2, 0), (0, 1)]},
    ),
}


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("guard", FAILING)
def test_what_passes_fails(guard: str, partitions: int) -> None:
    """The message is that of the division, wherever it was tried first, and names the rule."""
    text, more = FAILING[guard]
    program = datalog.check(datalog.parse(DECLARED + text))
    facts: dict[str, Any] = {"e": [(0,)], "g": [(0,)], **more}
    with pytest.raises(OracleError):
        evaluate(program, facts)
    with pytest.raises(RuntimeProblem, match="division by zero") as failure:
        livelog.open(program, facts=facts, partitions=partitions)
    assert failure.value.rule and failure.value.rule in text


def test_a_failure_waits_in_its_row_until_the_row_passes() -> None:
    """A row that fails early is joined like the others; the failure counts in the transaction that completes it."""
    program = datalog.check(datalog.parse(
        ".decl a(x: number, y: number) .decl b(y: number, z: number) .decl c(z: number, w: number)"
        "r(x, w) :- a(x, y), b(y, z), c(z, w), 6 / z > x."
    ))
    with livelog.open(program, facts={"a": [(1, 1)], "b": [(1, 0), (1, 2)], "c": [(2, 7)]}) as session:
        assert set(session["r"]) == {(1, 7)}
        with pytest.raises(RuntimeProblem, match="division by zero: 6 / 0"), session.transaction() as tx:
            tx.insert("c", (0, 9))
        assert set(session["r"]) == {(1, 7)}
        with session.transaction() as tx:
            tx.delete("b", (1, 0))
            tx.insert("c", (0, 9))
        assert set(session["r"]) == {(1, 7)}


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("text", [
    "r(x) :- e(x), !g(x), n = sum y : { p(x, y) }, n > 3.", "r(n) :- e(x), !g(x), n = sum y : { p(_, y) }.",
    "r(x) :- e(x), n = sum y : { p(x, y) }, n > 3.", "r(x) :- e(x), n = sum y : { p(_, y) }, x * 4 >= n * 2.",
])  # fmt: skip
def test_a_sum_that_is_out_of_range_and_passes_fails(text: str, partitions: int) -> None:
    with pytest.raises(RuntimeProblem, match="overflow: 9223372036854775809 is outside the range") as failure:
        livelog.open(datalog.parse(DECLARED + text), facts={"e": [(0,)], "p": HUGE}, partitions=partitions)
    assert failure.value.rule == text


LONG = {  # whatever makes a text or a list that is too long, under a guard
    "a constant text": "r(x) :- e(x), !g(x), cat(\"abcd\", \"efgh\") != \"\".",
    "a list in a list": "r(x) :- l(x, t), !g(x), [t, t] != [].",
    "an aggregate": "r(x) :- e(x), !g(x), n = collect y : { p(_, y) }, n != [].",
    "the largest": "r(x) :- e(x), !g(x), n = top y, 7 : { p(_, y) }, n != [].",
}


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("what", LONG)
def test_what_is_too_long_is_guarded(what: str, partitions: int) -> None:
    program = datalog.parse(DECLARED + ".decl l(x: number, t: list)\n" + LONG[what])
    facts: dict[str, Any] = {"e": [(0,)], "g": [(0,)], "l": [(0, (1, 2, 3, 4))], "p": [(i, i) for i in range(9)]}
    with livelog.open(program, facts=facts, longest=5, partitions=partitions) as session:
        assert not session["r"]
        with pytest.raises(RuntimeProblem, match="`longest=`"), session.transaction() as tx:
            tx.delete("g", (0,))


def test_an_aggregate_of_the_user_is_guarded() -> None:
    def refuse(values: list[Any]) -> int:
        raise KeyError("none of these")

    text = DECLARED + "r(n) :- e(x), !g(x), n = refuse y : { p(_, y) }."
    program = datalog.check(datalog.parse(text), aggregates={"refuse": refuse})
    with livelog.open(program, facts={"e": [(0,)], "g": [(0,)], "p": [(1, 1)]}) as session:
        with pytest.raises(RuntimeProblem, match="none of these"), session.transaction() as tx:
            tx.delete("g", (0,))
        assert not session["r"]


@pytest.mark.everywhere(spark=1)
@pytest.mark.parametrize(("text", "note"), [
    ("r(x) :- p(x, z), q(z, y), 6 / (x + y) > 1.", "at the tuples (7, -8) and (8, 7)"),
    ("r(x, y) :- p(x, y). r(6 / (x + y), y) :- r(x, z), q(z, y).", "at the tuples (8, 7) and (7, -8)"),
    ("r(x) :- p(x, y), 6 / (x - 8) > 1.", "at the tuple (8, 7)"),
])  # fmt: skip
def test_a_failure_at_a_join_names_both_tuples(text: str, note: str) -> None:
    with pytest.raises(RuntimeProblem, match="division by zero") as failure:
        livelog.open(datalog.parse(DECLARED + text), facts={"p": [(8, 7)], "q": [(7, -8)]})
    assert note in [n.message for n in failure.value.notes]


def test_a_failure_of_a_function_keeps_its_cause() -> None:
    def refuse(x: int) -> int:
        raise KeyError("no such thing")

    program = datalog.check(datalog.parse(
        ".decl a(x: number, y: number) .decl c(z: number)\nr(x) :- a(x, y), a(y, z), c(z), refuse(y) > 0."
    ), functions={"refuse": refuse})
    with pytest.raises(RuntimeProblem, match="KeyError: 'no such thing'"):
        livelog.open(program, facts={"a": [(1, 1)], "c": [(1,)]})
    with livelog.open(program, facts={"a": [(1, 1)]}) as session:
        assert not set(session["r"])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seeds" in metafunc.fixturenames:
        count = max(120, metafunc.config.getoption("--histories"))
        chunks = [range(start, start + CHUNK) for start in range(0, count, CHUNK)]
        metafunc.parametrize("seeds", chunks, ids=[f"{c.start}-{c.stop - 1}" for c in chunks])


def test_the_engine_fails_if_and_only_if_the_oracle_does(seeds: range) -> None:
    for seed in seeds:
        run(seed)


def test_random_programs_fail_and_are_guarded() -> None:
    """The random programs are worth something: many fail, and many would but for a guard."""
    outcomes = [run(seed) for seed in range(10_000, 10_030)]
    assert sum(failed for failed, _ in outcomes) > 10
    assert sum(passed for _, passed in outcomes) > 40


def run(seed: int) -> tuple[int, int]:
    """One program under a short history; returns how many transactions failed, and how many did not."""
    rng = random.Random(seed)
    text = draw_program(rng)
    try:
        program = datalog.check(datalog.parse(text), functions=FUNCTIONS)
    except LivelogError:  # the generator knows nothing of types
        return 0, 0
    base = Base(program)
    options = rng.choice(OPTIONS)
    outcomes = [0, 0]
    with livelog.open(program, **options) as session:
        for number in range(4):
            operations = draw_facts(rng) if number == 0 else draw_transaction(rng, base)
            after = base.copy()
            after.apply(operations)
            try:
                expected = {hasty: verdict(program, after, hasty) for hasty in (False, True)}
            except OracleLimit:
                break
            try:
                with session.transaction() as tx:
                    for operation, relation, row in operations:
                        getattr(tx, operation)(relation, row)
                failed = False
            except RuntimeProblem:
                failed = True
            story = f"seed {seed}, {options}, transaction {number}\n{text}\n{after.facts()}"
            assert failed or expected[False] is not None, f"it should have failed\n{story}"
            assert not failed or expected[True] is None, f"it should not have failed\n{story}"
            outcomes[0 if failed else 1] += 1
            if not failed:
                base = after
                rows = {name: set(session[name]) for name in program.derived}
                assert rows == {name: expected[False][name] for name in rows}, story  # type: ignore[index]
        session.check()
    return outcomes[0], outcomes[1]


def verdict(program: Any, base: Base, hasty: bool) -> dict[str, set[Any]] | None:
    try:
        return evaluate(program, base.facts(), WORK, hasty)
    except OracleLimit:
        raise
    except OracleError:
        return None
