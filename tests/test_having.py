"""Rules that aggregate rows and compare an aggregate of the same rows: grouped once where that does, and exact."""

from __future__ import annotations

import operator
import random
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

import datalog
import livelog
import planner
from operators.expr import Apply, Col, Const, Expr
from operators.groupby import GroupBy
from operators.monoids import factory
from planner.draft import Draft
from planner.passes.filter_groups import _is_about, filter_groups
from planner.plan import GroupRule, Input, JoinRule, PlanRule, RelationPlan
from planner.validate import problems
from planner.words import conditions
from tests.cases import Case, small_case, states
from tests.harness import Configuration, run

TYPES = (
    ".decl c(k: number, n: symbol)",
    ".decl o(id: number, k: number)",
    ".decl l(id: number, pos: number, x: number)",
)
BAG = (*TYPES[:2], ".decl l(id: number, pos: number, x: number) bag")
FLOATS = (*TYPES[:2], ".decl l(id: number, pos: number, x: float)")

GROUPED: dict[str, tuple[tuple[str, ...], str]] = {
    "three atoms": (
        TYPES,
        "q(n, k, i, sum<x>) :- c(k, n), o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v > 3.",
    ),
    "alone": (TYPES, "q(i, sum<x>) :- l(i, _, x), v = sum y : { l(i, _, y) }, v > 3."),
    "inside a comparison": (TYPES, "q(i, k, sum<x>) :- o(i, k), l(i, _, x), 3 < sum y : { l(i, _, y) }."),
    "a bag of rows": (BAG, "q(i, k, sum<x>, count<*>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v > 2."),
    "floats": (FLOATS, "q(i, k, avg<x>) :- o(i, k), l(i, _, x), v = avg y : { l(i, _, y) }, v < 1.5."),
    "into a float": (
        (*TYPES, ".decl q(i: number, k: number, highest: float)"),
        "q(i, k, max<x>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v >= 2.",
    ),
    "another aggregate": (
        TYPES,
        "q(i, k, sum<x>, min<x>, avg<i>) :- o(i, k), l(i, _, x), v = count : { l(i, _, _) }, v > 1.",
    ),
    "two conditions": (
        TYPES,
        "q(i, k, sum<x>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, m = max y : { l(i, _, y) }, v > m.",
    ),
    "the result twice": (
        TYPES,
        "q(i, k, v, sum<x>, sum<x>, v * 2) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v != 2.",
    ),
    "two keys": (
        TYPES,
        "q(i, p, k, sum<x>) :- o(i, k), l(i, p, x), v = sum y : { l(i, p, y) }, v > 0.",
    ),
    "compared with a column": (TYPES, "q(i, k, sum<x>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v > k."),
    "negation": (TYPES, "q(i, k, sum<x>) :- o(i, k), !c(k, _), l(i, _, x), v = sum y : { l(i, _, y) }, v > 1."),
    "over a view": (
        TYPES,
        "w(i, x) :- l(i, _, x), x > 0. q(i, k, sum<x>) :- o(i, k), w(i, x), v = sum y : { w(i, y) }, v > 2.",
    ),
    "two rules": (
        TYPES,
        """q(i, k, sum<x>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v > 3.
        q(i, k, max<x>) :- o(i, k), l(i, _, x).""",
    ),
    "two rules that share": (
        TYPES,
        """q(i, k, sum<x>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v > 3.
        p(i, sum<x>) :- l(i, _, x), v = sum y : { l(i, _, y) }, v < 3.""",
    ),
}

LEFT_ALONE: dict[str, tuple[tuple[str, ...], str]] = {
    "another aggregate beside it": (
        TYPES,
        "q(i, k, sum<x>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v > count : { o(_, k) }.",
    ),
    "a bag beside it": (
        (".decl o(id: number, k: number) bag", TYPES[0], TYPES[2]),
        "q(i, k, sum<x>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v > 3.",
    ),
    "a column that the head does not tell": (
        TYPES,
        "q(i, sum<x>) :- o(i, _), l(i, _, x), v = sum y : { l(i, _, y) }, v > 3.",
    ),
    "a key that the head does not tell": (
        TYPES,
        "q(k, sum<x>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v > 3.",
    ),
    "a condition on a row": (TYPES, "q(i, k, sum<x>) :- o(i, k), l(i, p, x), p > 1, 3 < sum y : { l(i, _, y) }."),
    "a condition inside": (TYPES, "q(i, k, sum<x>) :- o(i, k), l(i, _, x), 1 < sum y : { l(i, _, y), y > 1 }."),
    "a sum of floats": (FLOATS, "q(i, k, sum<x>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v < 1.5."),
    "a computed value": (TYPES, "q(i, k, max<x * 2>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v < 2."),
    "a sum into a float": (
        (*TYPES, ".decl q(i: number, k: number, total: float)"),
        "q(i, k, sum<x>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v >= 2.",
    ),
    "another function": (TYPES, "q(i, k, variance<x>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v < 2."),
    "a condition that may fail": (
        TYPES,
        "q(i, k, sum<x>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, 100 / (v + 1) > 30.",
    ),
    "a value of both": (TYPES, "q(i, k, sum<x * k>) :- o(i, k), l(i, _, x), 3 < sum y : { l(i, _, y) }."),
    "correlated by a row": (TYPES, "q(i, k, sum<x>) :- o(i, k), l(i, p, x), 2 < count : { l(_, p, _) }."),
    "other rows": (TYPES, "q(i, k, sum<x>) :- o(i, k), l(i, _, x), 1 < count : { o(i, _) }."),
    "all rows": (TYPES, "q(i, sum<x>) :- l(i, _, x), 9 < sum y : { l(_, _, y) }."),
    "not typed": ((), "q(i, k, sum<x>) :- o(i, k), l(i, _, x), 3 < sum y : { l(i, _, y) }. p(n) :- c(_, n)."),
    "a result that is joined": (
        TYPES,
        "q(i, k, v, w, sum<x>) :- o(i, k), o(v, w), l(i, _, x), v = sum y : { l(i, _, y) }.",
    ),
    "approximated": (
        (*TYPES, ".approx q 0.5"),
        "q(i, k, sum<x>) :- o(i, k), l(i, _, x), 3 < sum y : { l(i, _, y) }.",
    ),
}


def history(name: str, lines: tuple[str, ...], rules: str, seed: int, transactions: int = 8) -> Case:
    """Few values, so that groups come and go and pass their conditions in both directions."""
    rng = random.Random(f"{name} {seed}")
    shapes = {"c": "kn", "o": "ik", "l": "ipx"}

    def value(column: str) -> Any:
        if column == "n":
            return rng.choice("ab")
        number = rng.randrange(3)
        return number + rng.choice((0.0, 0.1, 0.5)) if column == "x" and "x: float" in " ".join(lines) else number

    def row(relation: str) -> tuple[Any, ...]:
        return tuple(value(c) for c in shapes[relation])

    return small_case(rng, (*lines, rules), "colll", row, transactions)


def plan(lines: tuple[str, ...], rules: str) -> planner.Plan:
    return planner.plan(datalog.check(datalog.parse("\n".join((*lines, ".input c, o, l", rules)))))


def grouped(lines: tuple[str, ...], rules: str) -> list[str]:
    return [name for name in plan(lines, rules).relations if name.endswith(".groups")]


@pytest.mark.parametrize("name", GROUPED)
def test_grouped_once(name: str) -> None:
    assert grouped(*GROUPED[name]) == ["q/1.groups"]


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_left_alone(name: str) -> None:
    assert grouped(*LEFT_ALONE[name]) == []


@pytest.mark.parametrize("name", [*GROUPED, *LEFT_ALONE])
def test_exact_after_any_history(name: str) -> None:
    lines, rules = (GROUPED | LEFT_ALONE)[name]
    if "approx" in " ".join(lines):
        lines = tuple(line for line in lines if "approx" not in line)  # exact without it, and still the law
    for seed in range(4):
        case = history(name, lines, rules, seed)
        expected = states(case)
        for partitions in (1, 3):
            run(case, Configuration("absorption", "demand", partitions, seed if partitions > 1 else None), expected)


@pytest.mark.parametrize("strategy", ["recompute", "dred"])
def test_other_strategies(strategy: str) -> None:
    run(history("three atoms", *GROUPED["three atoms"], 9), Configuration(strategy, None, 2))


def test_it_is_explained_and_shown_as_what_it_is() -> None:
    lines, rules = GROUPED["three atoms"]
    text = planner.explain(plan(lines, rules))
    assert "what it aggregates is compared too: grouped once, as q/1.groups" in text
    assert "nested" not in text and "-> q/1.groups(l.id, sum'<l.x>)" in text
    facts = {"c": [(1, "a")], "o": [(7, 1)], "l": [(7, 1, 3), (7, 2, 2), (8, 1, 9)]}
    with livelog.open(datalog.parse("\n".join((*lines, rules))), facts=facts) as session:
        assert session.views == ("q",)
        assert list(session["q"]) == [("a", 1, 7, 5)]
        assert set(session.why("q", ("a", 1, 7, 5))) == {
            ("c", (1, "a")), ("o", (7, 1)), ("l", (7, 1, 3)), ("l", (7, 2, 2)),
        }  # fmt: skip
        with pytest.raises(KeyError):
            session["q/1.groups"]
        with session.transaction() as tx:
            tx.delete("l", (7, 1, 3))
        assert tx.changes["q"].deleted == [("a", 1, 7, 5)] and not list(session["q"])
        session.check()


HUGE = [(1, position, 2**62) for position in range(9)]


def test_a_sum_out_of_range_is_an_error_of_the_rule_that_reads_it() -> None:
    lines, rules = GROUPED["alone"]
    with livelog.open(datalog.parse("\n".join((*lines, rules)))) as session:
        with pytest.raises(livelog.RuntimeProblem, match="overflow: the sum is outside") as caught:
            session.load("l", HUGE)
        assert "in the rule q(i, sum<x>) :- l(i, _, x), v = sum y" in str(caught.value)
        assert not list(session["l"])


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_sum_that_nobody_reads_is_no_error(partitions: int) -> None:
    lines, rules = GROUPED["three atoms"]
    with livelog.open(datalog.parse("\n".join((*lines, rules))), partitions=partitions) as session:
        session.load("l", HUGE)
        session.load("o", [(1, 5)])
        with pytest.raises(livelog.RuntimeProblem, match="overflow"):
            session.load("c", [(5, "a")])
        with session.transaction() as tx:
            tx.insert("c", (5, "a"))
            tx.delete_all("l", HUGE[1:])
        assert tx.changes["q"].inserted == [("a", 5, 1, 2**62)]
        session.check()


# --- conditions that are tested where the groups are ---------------------------------------------------------

HAVING = {
    "three atoms": "v > 3",
    "alone": "v > 3",
    "inside a comparison": "3 < sum'1",
    "floats": "v < 1.5",
    "into a float": "v >= 2",
    "another aggregate": "v > 1",
    "two conditions": "v > m",
    "negation": "v > 1",
    "two rules": "v > 3",
    "compared with a column": "",
    "two rules that share": "",  # each has another condition
}


def having(lines: tuple[str, ...], rules: str) -> str:
    """The condition on the first groups of a plan."""
    planned = plan(lines, rules)
    made = next(r for s in planned.strata for r in s.rules if isinstance(r, GroupRule) and r.head == "q/1.groups")
    return "".join(conditions(made.having, planned.relations[made.head].columns, ""))[1:]


@pytest.mark.parametrize("name", HAVING)
def test_a_condition_is_tested_where_the_groups_are(name: str) -> None:
    assert having(*GROUPED[name]) == HAVING[name]


@pytest.mark.parametrize("atoms", ["o(i, k), l(i, _, x)", "l(i, _, x), o(i, k)"])
def test_only_what_is_about_the_groups_is_tested_there(atoms: str) -> None:
    """Whichever side of the join they are."""
    rules = f"q(i, k, sum<x>) :- {atoms}, v = sum y : {{ l(i, _, y) }}, v > 1, v < k, k > 0, v < 8."
    assert having(TYPES, rules) == "v > 1 and v < 8"
    (text,) = [line for line in planner.explain(plan(TYPES, rules)).splitlines() if "where" in line]
    assert text.strip() == "where q/1.groups.v < o.k and o.k > 0"


def above(column: int, limit: int) -> Apply:
    return Apply(">", operator.gt, (Col(column), Const(limit)), ">")


def test_groups_of_groups_and_two_sides_of_a_join() -> None:
    """What reads groups may be groups that are read; a join may read two, and gives each its own condition."""
    kinds = {"l": "base", "a": "auxiliary", "b": "auxiliary", "c": "auxiliary", "q": "view"}
    relations = {name: RelationPlan(name, ("i", "v"), ("number",) * 2, kind, (0,)) for name, kind in kinds.items()}

    def group(head: str, source: str, *where: Expr) -> GroupRule:
        return GroupRule(head, head, Input(source, ()), where, (Col(0),), (("sum", Col(1)),), (0, 1), "")

    def join(left: str, right: str) -> JoinRule:
        where = (above(1, 4), above(3, 5), Apply("<", operator.lt, (Col(1), Col(3)), "<"))
        return JoinRule("q", "q", Input(left, (), (0,)), Input(right, (), (0,)), where, (Col(0), Col(3)), "left", "")

    def passed(*rules: PlanRule) -> list[tuple[tuple[Expr, ...], tuple[Expr, ...]]]:
        draft = filter_groups(Draft(datalog.parse(""), relations=relations, rules=rules))
        assert [rule.id for rule in draft.rules] == [rule.id for rule in rules]
        return [(rule.where, rule.having if isinstance(rule, GroupRule) else ()) for rule in draft.rules]

    both = join("b", "c").where[2:]
    chain = (group("a", "l"), group("b", "a", above(1, 3)), group("c", "l", above(1, 2)))
    assert passed(*chain, join("b", "c")) == [
        ((), (above(1, 3),)),
        ((), (above(1, 4),)),
        ((above(1, 2),), (above(1, 5),)),  # `l` is no group-by
        (both, ()),
    ]
    for reader in (join("b", "b"), join("l", "l")):  # twice by one rule, or by nobody
        assert passed(*chain[:2], reader)[1:] == [((), ()), (reader.where, ())]
    two = (group("b", "l"), replace(group("b", "a"), id="b/2"), join("b", "c"))
    assert passed(*two)[-1] == (two[-1].where, ())  # the groups of two rules


@pytest.mark.parametrize(
    "op, left, right, safe",
    [
        (">", Col(1), Const(3), True),
        ("<", Const(2.5), Col(3), True),
        ("<=", Col(2), Const("b"), True),
        (">=", Col(1), Col(3), True),
        ("==", Col(4), Const("b"), True),
        ("!=", Col(5), Col(4), True),
        (">", Col(4), Const(3), False),  # may be a symbol
        ("<", Col(5), Col(5), False),  # of what?
        (">", Col(0), Const(3), False),  # of the other side
        (">", Col(1), Col(0), False),
        (">", Col(1), Col(6), False),
        ("<", Const(1), Const(2), False),
        (">", Apply("+", operator.add, (Col(1), Const(1)), "+"), Const(3), False),  # may overflow
    ],
)
def test_what_might_fail_stays_where_the_rows_are_joined(op: str, left: Expr, right: Expr, safe: bool) -> None:
    compared = Apply(op, lambda a, b: None, (left, right), op)
    assert _is_about(compared, 1, ("number", "symbol", "float", "any", "list")) is safe


def test_groups_that_are_shown_have_no_condition() -> None:
    rules = "q(i, sum<x>) :- l(i, _, x). r(i, v) :- q(i, v), v > 3."
    planned = plan(TYPES, rules)
    assert "having" not in planner.explain(planned)
    (q, r) = planned.strata
    (made,) = q.rules
    assert isinstance(made, GroupRule)
    for condition, problem in (
        (above(1, 3), "q/1: groups that others than rules see have a condition"),
        (above(2, 3), "q/1: a condition on groups reads a column that is not there"),
    ):
        wrong = replace(planned, strata=(replace(q, rules=(replace(made, having=(condition,)),)), r))
        assert problem in list(problems(wrong))


@pytest.mark.parametrize("seed", range(6))
def test_groups_with_conditions_against_groups_without(seed: int) -> None:
    """The same heads, of those that pass: by a result, by a column of the group, by both."""
    rng = random.Random(seed)
    names = ("count", "sum", "max")
    ops = {">": operator.gt, "<=": operator.le, "!=": operator.ne, "==": operator.eq}

    def compared(left: Expr, right: Expr) -> Apply:
        op = rng.choice(sorted(ops))
        return Apply(op, ops[op], (left, right), op)

    columns = (Col(1), Col(0), Col(3), Col(4))  # results, the group's second column, a result
    conditions = [compared(rng.choice(columns), Const(rng.randrange(-1, 3))) for _ in range(rng.randint(1, 2))]
    if seed % 2:
        conditions.append(compared(Col(1), Col(3)))
    plain, groups = (
        GroupBy("rule", 2, tuple(factory(n, {}) for n in names), (3, 2, 0, 1, 4), having=having)
        for having in ((), conditions)
    )
    inside: Counter[tuple[Any, ...]] = Counter()
    everything: set[tuple[Any, ...]] = set()
    told: set[tuple[Any, ...]] = set()
    for _ in range(80):
        batch: Counter[tuple[Any, ...]] = Counter()
        for _ in range(rng.randint(1, 5)):
            row = (rng.choice("xy"), rng.randrange(2), None, rng.randrange(-2, 3), rng.randrange(3))
            batch[row] += -1 if inside[row] + batch[row] > 0 and rng.random() < 0.6 else 1
        inside.update(batch)
        for each in (plain, groups):
            each.update(list(batch.items()))
        gone, new = plain.flush()
        everything = (everything - set(gone)) | set(new)
        gone, new = groups.flush()
        assert set(gone) <= told and not set(new) & told and not set(gone) & set(new)
        told = (told - set(gone)) | set(new)
        assert told == set(groups) == {h for h in everything if all(c.function(*values(c, h)) for c in conditions)}
        assert len(groups) == len(told) and all(h in groups for h in told) and not any(h in groups for h in gone)
        assert groups.stats() == plain.stats()
        groups.check()


def values(condition: Apply, head: tuple[Any, ...]) -> list[Any]:
    """The two sides of a comparison."""
    return [head[a.index] if isinstance(a, Col) else a.value for a in condition.arguments if not isinstance(a, Apply)]


def test_a_head_that_should_not_be_there_is_found() -> None:
    groups = GroupBy("rule", 1, (factory("sum", {}),), (0, 1), having=[above(1, 3)])
    groups.update([(("a", 2), 1)])
    assert groups.flush() == ([], [])
    groups.check()
    groups.tell(("a", 2))
    with pytest.raises(AssertionError, match="a head is missing, or should be"):
        groups.check()
    with pytest.raises(AssertionError):
        groups.approximate([1], 2)


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("name", ["three atoms", "alone"])
def test_a_group_falls_below_the_limit_and_comes_back(name: str, partitions: int) -> None:
    lines, rules = GROUPED[name]
    row = (lambda v: ("a", 1, 7, v)) if name == "three atoms" else (lambda v: (7, v))
    facts = {"c": [(1, "a")], "o": [(7, 1), (8, 1), (9, 1)], "l": [(7, 1, 3), (8, 1, 1), (8, 2, -9)]}
    facts = {relation: facts[relation] for relation in (("c", "o", "l") if name == "three atoms" else ("l",))}
    with livelog.open(datalog.parse("\n".join((*lines, rules))), facts=facts, partitions=partitions) as session:

        def change(
            insert: list[tuple[int, ...]], delete: list[tuple[int, ...]], gone: list[Any], new: list[Any]
        ) -> None:
            with session.transaction() as tx:
                tx.insert_all("l", insert)
                tx.delete_all("l", delete)
            changes = tx.changes.get("q")
            assert ([] if changes is None else changes.deleted) == gone
            assert ([] if changes is None else changes.inserted) == new
            session.check()

        assert not list(session["q"])
        change([(7, 2, 1)], [], [], [row(4)])
        change([(7, 3, -1)], [], [row(4)], [])  # a negative value
        change([], [(7, 3, -1)], [], [row(4)])
        change([(7, 4, 5)], [(7, 1, 3)], [row(4)], [row(6)])
        change([], [(7, 2, 1), (7, 4, 5)], [row(6)], [])  # empty
        change([(7, 1, 3)], [], [], [])
        assert session.stats().aggregates["q"]["groups"] == 2  # that of 8 is one, too
        change([], [(7, 1, 3)], [], [])  # empty, and never told
        assert session.stats().aggregates["q"]["groups"] == 1
        change([(7, 1, 9), (9, 1, 3)], [(8, 2, -9)], [], [row(9)])
        why = set(session.why("q", row(9)))
        assert ("l", (7, 1, 9)) in why and not {fact for fact in why if fact[0] == "l"} - {("l", (7, 1, 9))}
        assert session.stats().aggregates["q"]["groups"] == 3


@pytest.mark.parametrize("partitions", [1, 3])
def test_negative_sums_pass(partitions: int) -> None:
    rules = "q(i, k, sum<x>) :- o(i, k), l(i, _, x), v = sum y : { l(i, _, y) }, v < -2."
    facts = {"o": [(1, 1), (2, 1)], "l": [(1, 1, -3), (2, 1, -2)]}
    with livelog.open(datalog.parse("\n".join((*TYPES, rules))), facts=facts, partitions=partitions) as session:
        assert list(session["q"]) == [(1, 1, -3)]
        with session.transaction() as tx:
            tx.insert_all("l", [(1, 2, 1), (2, 2, -5)])
        assert list(session["q"]) == [(2, 1, -7)]
        session.check()


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_transaction_that_fails_leaves_groups_as_they_were(partitions: int) -> None:
    lines, rules = GROUPED["alone"]
    facts = {"l": [(1, 1, 3), (2, 1, 9), (3, 1, 2)]}
    with livelog.open(datalog.parse("\n".join((*lines, rules))), facts=facts, partitions=partitions) as session:
        with pytest.raises(livelog.RuntimeProblem, match="overflow"), session.transaction() as tx:
            tx.insert_all("l", [(1, 2, 3), *[(4, position, 2**62) for position in range(9)]])
            tx.delete("l", (2, 1, 9))
        assert list(session["q"]) == [(2, 9)]
        session.check()
        with session.transaction() as tx:
            tx.insert("l", (1, 2, 3))
        assert tx.changes["q"].inserted == [(1, 6)] and not tx.changes["q"].deleted
        session.check()


def test_sums_out_of_range_that_do_not_pass_are_no_error() -> None:
    rules = "q(i, sum<x>) :- l(i, _, x), v = sum y : { l(i, _, y) }, v < 3."
    with livelog.open(datalog.parse("\n".join((*TYPES, rules)))) as session:
        session.load("l", [*HUGE, (2, 1, 1)])
        assert list(session["q"]) == [(2, 1)]
        session.check()
