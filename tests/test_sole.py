"""One winner a group: the table against a model, and what leaves when it is overtaken."""

from __future__ import annotations

import random
from typing import Any

import pytest

import datalog
import livelog
from operators.aggsel import AggSel
from operators.fixpoint import Fixpoint
from operators.ledger import Death, ledger
from operators.provenance import Provenance
from operators.sole import Sole

Row = tuple[Any, ...]
STEP = "cost(x, y, c) :- link(x, y, c). least(x, y, min<c>) :- cost(x, y, c)."
SUM = STEP + "cost(x, y, a + b) :- link(x, z, a), cost(z, y, b)."
BOTTLENECK = STEP + "cost(x, y, max(a, b)) :- link(x, z, a), cost(z, y, b)."
DETOUR = STEP + "cost(x, y, a + b) :- link(x, z, a), cost(z, w, b), alias(w, y)."
WITNESS = """
    path(x, y, p, c) :- link(x, y, c), p = [x, y].
    path(x, y, p, c) :- link(x, z, a), path(z, y, q, b), c = a + b, p = concat([x], q).
    least(x, y, min<c>) :- path(x, y, _, c).
    cheapest(x, y, p) :- path(x, y, p, c), least(x, y, c).
"""


def sole_table(kind: str = "min", lean: bool = True) -> tuple[Fixpoint, Sole]:
    p = Provenance()
    selection = Sole((0,), ((1, kind),), ledger("demand", p), lean)
    return Fixpoint("r", ledger("demand", p), selection), selection


@pytest.mark.parametrize("values", [int, float])
@pytest.mark.parametrize("kind", ["min", "max"])
@pytest.mark.parametrize("seed", range(3))
def test_a_table_over_a_long_history(values: type, kind: str, seed: int) -> None:
    """Batches come, tuples are lost, and what is lost may be found again; winners and changes are those of a model."""
    rng = random.Random(seed)
    table, sole = sole_table(kind)
    index = table.index((1,))
    choose = min if kind == "min" else max
    for _ in range(60):
        before = {g: t for t in table.visible() for g in [t[0]]}
        death = Death({0}, table.ledger.provenance)
        fell = rng.sample(sorted(table.rows), min(len(table.rows), rng.randint(0, 2)))
        for t in fell:
            death.fell(table.rows[t][0])
        assert table.strike_all([*fell, ("nobody", 1)], death) == (fell, [])
        heads = list(sole.dirty.values())
        for g, t in zip(sole.take_dirty(), heads, strict=True):
            assert t in fell and t[0] == g == before[g][0]
        table.sweep(fell)
        model = {g: choose(t[1] for t in table.rows if t[0] == g) for g in {t[0] for t in table.rows}}
        for _ in range(rng.randint(0, 3)):
            batch = [((rng.randrange(3), values(rng.randrange(9))), ((1,), (2,))) for _ in range(rng.randint(1, 4))]
            on = table.arrive(batch)
            assert {t for t, _ in on} <= {t for t, _ in batch} and len({t[0] for t, _ in on}) == len(on)
            for (g, v), _ in batch:
                model[g] = choose(v, model.get(g, v))
            if rng.random() < 0.5:
                table.settle(table.take())
        table.settle(table.take())
        gained, lost = table.net()
        now = {t[0]: t for t in table.visible()}
        assert {g: t[1] for g, t in now.items()} == model
        assert sorted(gained) == sorted(t for g, t in now.items() if before.get(g) != t)
        assert sorted(lost) == sorted(t for g, t in before.items() if now.get(g) != t)
        table.check()
        assert all(sole.winners(g) == (t,) and table.shows(t) and index.find(t[1]) for g, t in now.items())
        assert values is float or table.rows.keys() == set(now.values()), "the overtaken have left"
    assert sole.lean == (values is int)


def test_what_is_overtaken_before_it_is_joined_is_not_joined() -> None:
    table, sole = sole_table()
    table.arrive([(("a", 5), ((1,), (1,)))])
    table.arrive([(("a", 3), ((2,), (2,))), (("b", 1), ((3,), (3,)))])
    assert [t for t, _ in table.take()] == [("a", 3), ("b", 1)] and not sole.behind


def test_the_first_float_ends_it() -> None:
    """Sums of floats round, so a head that ties may rest on a tuple that was overtaken."""
    table, sole = sole_table()
    for value in (5, 4.5, 4, 3):
        table.arrive([(("a", value), ((1,), (1,)))])
        table.settle(table.take())
        table.net()
    assert list(table.rows) == [("a", 5), ("a", 4.5), ("a", 4), ("a", 3)] and not sole.lean
    table.check()


def cost_table(session: Any, relation: str = "cost") -> Fixpoint:
    return next(s for s in session._runtime.workers[0].strata if relation in getattr(s, "home", ())).home[relation]


LINKS = [(1, 2, 5), (2, 3, 5), (1, 3, 20), (3, 4, 1), (1, 4, 30), (4, 1, 2)]


@pytest.mark.parametrize(
    ("program", "links", "selection", "leaves"),
    [
        (SUM, LINKS, Sole, True),
        (SUM, [(x, y, c / 2) for x, y, c in LINKS], Sole, False),
        (BOTTLENECK, LINKS, Sole, False),
        (DETOUR, LINKS, Sole, False),
        (WITNESS, [link for link in LINKS if link[0] != 4], AggSel, True),
    ],
    ids=["sum", "floats", "not-strict", "read-by-others", "witness"],
)
@pytest.mark.parametrize("way", [{}, {"strategy": "dred"}], ids=["absorption", "dred"])
def test_overtaken_tuples_leave_where_nothing_rests_on_them(
    program: str, links: list[Row], selection: type, leaves: bool, way: dict[str, str]
) -> None:
    """They enter first: the links come one by one, the short ways last."""
    with livelog.open(datalog.parse(program), **way) as session:
        if "alias" in program:
            session.load("alias", [(n, n) for n in range(1, 5)])
        for link in reversed(links):
            session.load("link", [link])
        session.check()
        table = cost_table(session, "path" if program == WITNESS else "cost")
        assert type(table.selection) is selection
        assert (set(table.rows) == set(table.visible())) == leaves


def test_on_several_partitions_they_stay() -> None:
    with livelog.open(datalog.parse(SUM), partitions=2) as session:
        for link in reversed(LINKS):
            session.load("link", [link])
        tables = [w.strata[0].home["cost"] for w in session._runtime.workers]
        assert all(type(t.selection) is AggSel for t in tables)
        assert any(set(t.rows) != set(t.visible()) for t in tables)
