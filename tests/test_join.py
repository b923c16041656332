"""PipelinedHashJoin and Projection: either side first, errors with names, and the search for what was lost."""

from __future__ import annotations

import operator
import random
from collections import Counter
from typing import Any

import pytest

from operators.aggsel import AggSel
from operators.errors import RuleFailure
from operators.expr import Apply, Col, Const
from operators.fixpoint import Fixpoint
from operators.join import PipelinedHashJoin, Projection
from operators.kernels import Shape
from operators.ledger import Derivation, ledger
from operators.provenance import Provenance
from operators.seen import Seen

Row = tuple[Any, ...]
STEP = Shape(2, (1,), 2, (0,), (), (Col(0), Col(3)))  # h(x, y) :- l(x, z), r(z, y).


def table(name: str, p: Provenance, mode: str = "demand") -> Fixpoint:
    return Fixpoint(name, ledger(mode, p))


def put(t: Fixpoint, p: Provenance, rows: list[Row]) -> list[Derivation]:
    """New base tuples; the batch is taken but not yet indexed."""
    t.arrive([(row, (p.fresh(),)) for row in rows])
    return t.take()


def lose(t: Fixpoint, rows: list[Row]) -> None:
    """Tuples that fell: out of the table, still in the indexes."""
    for row in rows:
        del t.ledger.first[row]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("purpose", ["first", "each"])
def test_every_pair_meets_once_whoever_comes_first(purpose: str, seed: int) -> None:
    rng, p = random.Random(seed), Provenance()
    mode = "demand" if purpose == "first" else "lazy"
    left, right = table("l", p, mode), table("r", p, mode)
    join = PipelinedHashJoin("rule", "h", STEP, "left", left, right, purpose)
    join.prepare(None, searching=True)
    arrivals: dict[str, set[Row]] = {"left": set(), "right": set()}
    met: list[tuple[Row, frozenset[int]]] = []
    for _ in range(12):
        side = rng.choice(["left", "right"])
        rows = {(rng.randrange(4), rng.randrange(4)) for _ in range(rng.randint(1, 4))} - arrivals[side]
        arrivals[side] |= rows
        side_table = left if side == "left" else right
        batch = put(side_table, p, sorted(rows))
        met += [(h, frozenset(p.implicant(a))) for h, a in join.derive(side, batch, {}, {}, p)]
        side_table.settle(batch)
    variables = {side: {t: p.implicant(a) for t, a in s.rows.items()} for side, s in (("l", left), ("r", right))}
    want = [
        ((x, y), frozenset(variables["l"][x, z] | variables["r"][w, y]))
        for x, z in left.rows for w, y in right.rows if z == w
    ]  # fmt: skip
    assert Counter(met) == Counter(want)
    for side in ("left", "right"):
        everything = list((left if side == "left" else right).rows)
        assert sorted(join.heads(side, everything)) == sorted(h for h, _ in want)
        heads = {h for h, _ in want}
        known, sent = set(sorted(heads)[::2]), set(sorted(heads)[::3])
        there = join.heads_there(side, everything, known, sent)
        assert sorted(there) == sorted(h for h, _ in want if h in known | sent)


def test_a_table_joined_with_itself_meets_itself_once() -> None:
    """Left before the batch is indexed, right after: two tuples of one batch meet exactly once."""
    p = Provenance()
    t = table("r", p)
    join = PipelinedHashJoin("rule", "h", STEP, "left", t, t, "first")
    batch = put(t, p, [(1, 2), (2, 3), (3, 3)])
    met = join.derive("left", batch, {}, {}, p)
    t.settle(batch)
    met += join.derive("right", batch, {}, {}, p)
    assert sorted(h for h, _ in met) == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("probe", ["left", "right"])
def test_lost_heads_are_searched_in_what_is_left(probe: str) -> None:
    p = Provenance()
    left, right = table("l", p), table("r", p)
    join = PipelinedHashJoin("rule", "h", STEP, probe, left, right, "first")
    join.prepare((0,), searching=True)
    for t, rows in ((left, [(0, 1), (0, 2), (5, 2)]), (right, [(1, 9), (2, 9), (2, 8)])):
        t.settle(put(t, p, rows))
    found, missing = join.find([(0, 9), (0, 8), (5, 7), (6, 9)])
    assert {h for h, _ in found} == {(0, 9), (0, 8)} and missing == [(5, 7), (6, 9)]
    lose(right, [(2, 9), (2, 8)])
    found, missing = join.find([(0, 9), (0, 8), (5, 9)])
    assert found == [((0, 9), (left.rows[0, 1], right.rows[1, 9]))] and missing == [(0, 8), (5, 9)]
    assert [h for h, _ in join.find_group([(0, None)])] == [(0, 9)]


@pytest.mark.parametrize("count", [3, 40])
def test_a_search_that_fixes_nothing_scans_once(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """h(x + z) :- l(x, y), r(y, z): for many lost heads the rule is evaluated once instead of searched for each."""
    p = Provenance()
    total = (Apply("+", operator.add, (Col(0), Col(3)), "+"),)
    left, right = table("l", p), table("r", p)
    join = PipelinedHashJoin("rule", "h", Shape(2, (1,), 2, (0,), (), total), "left", left, right, "first")
    difference = Shape(2, (), None, (), (), (Apply("-", operator.sub, (Col(0), Col(1))),))
    projection = Projection("rule", "h", difference, left, "first")
    scans: list[int] = []
    for rule in (join, projection):
        rule.prepare(None, searching=True)
        real = rule._scan
        monkeypatch.setattr(rule, "_scan", lambda heads, real=real: scans.append(len(heads)) or real(heads))
    left.settle(put(left, p, [(x, x % 3) for x in range(6)]))
    right.settle(put(right, p, [(y, 10 * y) for y in range(3)]))
    lose(left, [(5, 2)])
    lose(right, [(1, 10)])
    derivable = {(x + 10 * (x % 3),) for x in range(5) if x % 3 != 1}
    found, missing = join.find([(i,) for i in range(count)])
    assert {h for h, _ in found} == derivable & {(i,) for i in range(count)}
    assert {h for h, _ in found} | set(missing) == {(i,) for i in range(count)} and len(found) + len(missing) == count
    live = set(left.rows.values()) | set(right.rows.values())
    assert all(a in live and b in live for _, (a, b) in found)
    found, missing = projection.find([(i,) for i in range(count)])
    assert {h for h, _ in found} == {(x - x % 3,) for x in range(5)} & {(i,) for i in range(count)}
    assert scans == ([] if count == 3 else [count, count])


def test_the_groups_of_a_selection_serve_as_an_index() -> None:
    p = Provenance()
    best = Fixpoint("b", ledger("demand", p), AggSel((0,), ((1, "min"),), ledger("demand", p)))
    best.arrive([(("a", 3), (p.fresh(),)), (("b", 4), (p.fresh(),))])
    assert list(best.search((0,))("a")) == [("a", 3)] and not best.indexes
    assert best.search((1,))(3) is None and (1,) in best.indexes


def test_seen_is_asked_from_the_sides_that_carry_its_columns() -> None:
    p = Provenance()
    link, reach = table("link", p), table("reach", p)
    join = PipelinedHashJoin("rule", "reach", STEP, "left", link, reach, "direct")
    assert STEP.carried("right") == (1,) and STEP.carried("left") == (0,)
    seen = reach.seen = Seen((1,), 2)
    join.use_seen(seen)
    assert join.fills_seen("right") and not join.fills_seen("left")
    link.settle(put(link, p, [("a", "b"), ("c", "b")]))
    batch = put(reach, p, [("b", "z")])
    out = join.derive("right", batch, reach.rows, (), p)
    assert sorted(h for h, _ in out) == [("a", "z"), ("c", "z")]
    seen.check(reach.rows)
    assert join.derive("right", batch, reach.rows, (), p) == []


# --- errors --------------------------------------------------------------------------------------------------


def ratio(a: Any, b: Any) -> Any:
    return a // b


BROKEN = (Apply("/", ratio, (Col(0), Col(3))),)


@pytest.mark.parametrize("side", ["left", "right"])
def test_an_error_names_the_rule_and_the_tuple(side: str) -> None:
    p = Provenance()
    left, right = table("l", p), table("r", p)
    join = PipelinedHashJoin("h(x / z) :- ...", "h", Shape(2, (1,), 2, (0,), (), BROKEN), "left", left, right, "first")
    if side == "left":
        right.settle(put(right, p, [(0, 1), (1, 0)]))
        batch = put(left, p, [(8, 0), (9, 1)])
    else:
        left.settle(put(left, p, [(8, 0), (9, 1)]))
        batch = put(right, p, [(0, 1), (1, 0)])
    with pytest.raises(RuleFailure, match="by zero") as failure:
        join.derive(side, batch, {}, {}, p)
    assert failure.value.rule == "h(x / z) :- ..."
    assert failure.value.row == ((9, 1) if side == "left" else (1, 0))
    assert isinstance(failure.value.cause, ZeroDivisionError)


def test_an_error_in_a_projection_and_on_the_way_back() -> None:
    p = Provenance()
    t = table("l", p)
    where = Apply(">", operator.gt, (Apply("/", ratio, (Const(1), Col(1))), Const(-9)))
    projection = Projection("rule", "h", Shape(2, (), None, (), (where,), (Col(0),)), t, "first")
    projection.prepare((), searching=True)
    batch = put(t, p, [(1, 1), (2, 0)])
    t.settle(batch)
    with pytest.raises(RuleFailure) as failure:
        projection.derive(batch, {}, {})
    assert failure.value.row == (2, 0)
    for call, argument in ((projection.heads, (2, 0)), (projection.find, (2,)), (projection.find_group, ())):
        with pytest.raises(RuleFailure, match="by zero") as failure:
            call([argument])
        assert failure.value.rule == "rule"


def test_interrupts_are_not_errors_of_a_rule() -> None:
    def stop(_: Any) -> Any:
        raise KeyboardInterrupt

    p = Provenance()
    t = table("l", p)
    projection = Projection("rule", "h", Shape(1, (), None, (), (), (Apply("stop", stop, (Col(0),)),)), t, "first")
    with pytest.raises(KeyboardInterrupt):
        projection.derive(put(t, p, [(1,)]), {}, {})
