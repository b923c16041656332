"""Aggregate selection: the visible tuples are the winners of all that is alive, whatever was dropped or overtaken."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest

from operators.aggsel import AggSel
from operators.fixpoint import Fixpoint
from operators.ledger import LOST, Death, ledger
from operators.minship import MinShip
from operators.provenance import Provenance
from tests.derivations import Cubes, minimal, restricted
from tests.test_fixpoint import drain, listed, strike_table
from tests.test_ledger import MODES, draw_cube, kept

Row = tuple[Any, ...]
CHEAP = ((1, "min"),)
CHEAP_OR_SHORT = ((1, "min"), (2, "min"))
CHEAP_OR_WIDE = ((1, "min"), (2, "max"))


def selection(values: tuple[tuple[int, str], ...], mode: str = "demand", group: tuple[int, ...] = (0,)) -> AggSel:
    return AggSel(group, values, ledger(mode, Provenance()))


def bare(tuples: Iterable[Row]) -> list[tuple[Row]]:
    return [(t,) for t in tuples]


def winners(rows: Iterable[Row], values: tuple[tuple[int, str], ...]) -> set[Row]:
    """The tuples that are best for at least one value in their group, by the definition."""
    rows, found = list(rows), set()
    for t in rows:
        same = [u for u in rows if u[0] == t[0]]
        for c, kind in values:
            if t[c] == (min if kind == "min" else max)(u[c] for u in same):
                found.add(t)
    return found


def admit(sel: AggSel, tuples: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """Admit and enter what goes on."""
    on, dominated = sel.admit(bare(tuples))
    sel.entered([t for (t,) in on])
    return [t for (t,) in on], [t for (t,) in dominated]


def test_ties_go_on() -> None:
    sel = selection(CHEAP)
    assert admit(sel, [("a", 3, "x"), ("a", 3, "y"), ("a", 4, "z")])[1] == [("a", 4, "z")]
    assert admit(sel, [("a", 3, "w"), ("b", 9, "v")])[0] == [("a", 3, "w"), ("b", 9, "v")]
    assert set(sel.winners("a")) == {("a", 3, n) for n in "xyw"}


def test_within_a_batch_only_the_best_go_on() -> None:
    sel = selection(CHEAP)
    assert admit(sel, [("a", c, 0) for c in (5, 4, 3, 4, 5)]) == ([("a", 3, 0)], [("a", c, 0) for c in (5, 4, 4, 5)])


def test_the_overtaken_stay_but_are_not_seen() -> None:
    sel = selection(CHEAP)
    admit(sel, [("a", 5, 0)])
    assert sel.net() == ([("a", 5, 0)], [])
    admit(sel, [("a", 2, 0)])
    assert sel.members["a"] == [("a", 5, 0), ("a", 2, 0)]
    assert sel.is_winner(("a", 2, 0)) and not sel.is_winner(("a", 5, 0))
    assert sel.net() == ([("a", 2, 0)], [("a", 5, 0)])
    sel.check([("a", 5, 0), ("a", 2, 0)])


def test_several_values_and_a_largest() -> None:
    sel = selection(CHEAP_OR_WIDE)
    on, dominated = admit(sel, [("a", 5, 5), ("a", 3, 1), ("a", 9, 9), ("a", 4, 8)])
    assert on == [("a", 3, 1), ("a", 9, 9)] and dominated == [("a", 5, 5), ("a", 4, 8)]
    assert admit(sel, [("a", 3, 0), ("a", 100, 9), ("a", 2, -1)])[0] == [("a", 100, 9), ("a", 2, -1)]
    assert set(sel.winners("a")) == {("a", 9, 9), ("a", 100, 9), ("a", 2, -1)}


def test_groups_of_no_and_of_several_columns() -> None:
    everything = selection(((0, "max"),), group=())
    assert admit(everything, [(1, "x"), (7, "y")])[0] == [(7, "y")]
    pairs = selection(((2, "min"),), group=(0, 1))
    assert admit(pairs, [("a", "b", 3), ("a", "c", 5), ("a", "b", 4)])[1] == [("a", "b", 4)]


def test_numbers_and_floats_tie() -> None:
    sel = selection(CHEAP)
    assert admit(sel, [("a", 1, "x"), ("a", 1.0, "y")])[1] == []


def test_a_group_dies_and_comes_back() -> None:
    sel = selection(CHEAP)
    admit(sel, [("a", 2, 0)])
    sel.net()
    sel.left(("a", 2, 0))
    assert sel.take_dirty() == ["a"] and "a" not in sel.best
    assert sel.net() == ([], [("a", 2, 0)])
    assert not sel.best and not sel.members
    assert admit(sel, [("a", 9, 0)])[0] == [("a", 9, 0)], "the old best is forgotten"
    assert sel.net() == ([("a", 9, 0)], [])
    sel.check([("a", 9, 0)])


def test_it_dies_and_comes_back_in_one_transaction() -> None:
    sel = selection(CHEAP)
    admit(sel, [("a", 2, 0)])
    sel.net()
    sel.left(("a", 2, 0))
    sel.take_dirty()
    admit(sel, [("a", 2, 0)])
    assert sel.net() == ([], [])


def test_only_the_loss_of_a_best_one_makes_a_group_dirty() -> None:
    sel = selection(CHEAP_OR_SHORT)
    admit(sel, [("a", 5, 5)])
    admit(sel, [("a", 3, 9)])
    admit(sel, [("a", 9, 3)])
    sel.left(("a", 5, 5))
    assert not sel.dirty
    sel.left(("a", 9, 3))
    assert sel.take_dirty() == ["a"]
    assert sel.best["a"] == [3, 9], "the best of what is in the table"


def test_held_tuples_take_over() -> None:
    """Several are held; after the best died, those that are best now come out, ties included, and the others stay."""
    sel = selection(CHEAP)
    admit(sel, [("a", 1, 0)])
    sel.hold([(("a", 4, i), (i + 1,)) for i in range(2)] + [(("a", 6, 0), (9,))], remote=True)
    sel.hold([(("a", 4, 0), (7,))], remote=True)
    sel.left(("a", 1, 0))
    (group,) = sel.take_dirty()
    out = sel.next_best(group)
    assert [t for t, _ in out] == [("a", 4, 0), ("a", 4, 0), ("a", 4, 1)], "with all their derivations"
    assert list(sel.held.first) == [("a", 6, 0)] and sel.waiting == {"a": {("a", 6, 0): None}}
    assert sel.next_best("nowhere") == []


def test_held_tuples_die() -> None:
    sel = selection(CHEAP)
    sel.hold([(("a", 4, 0), (1,)), (("a", 5, 0), (2,)), (("b", 4, 0), (2, 3))], remote=True)
    death = Death({2}, sel.held.provenance)
    for t in list(sel.held.first):
        sel.strike(t, death)
    assert list(sel.held.first) == [("a", 4, 0)] and list(sel.waiting) == ["a"]


@pytest.mark.parametrize("values", [CHEAP, CHEAP_OR_SHORT, CHEAP_OR_WIDE], ids=["min", "min-min", "min-max"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(2))
def test_what_is_seen_never_depends_on_history(values: tuple[tuple[int, str], ...], mode: str, seed: int) -> None:
    """A table with a selection: after every transaction its winners are those of all live tuples."""
    rng = random.Random(seed)
    p = Provenance()
    table = Fixpoint("r", ledger(mode, p), AggSel((0,), values, ledger(mode, p)))
    table.index((2,))
    model: dict[Row, Cubes] = {}
    alive = [p.fresh() for _ in range(12)]
    held = 0
    for _ in range(30):
        before, died = winners(model, values), set()
        for _ in range(rng.randint(1, 4)):
            if rng.random() < 0.55:
                batch = []
                for _ in range(rng.randint(1, 6)):
                    t = (rng.randrange(2), rng.randrange(5), rng.randrange(4))
                    cube = draw_cube(rng, alive)
                    batch.append((t, cube))
                    model[t] = minimal(model.get(t, frozenset()) | {frozenset(cube)})
                table.arrive(batch, remote=True)
                drain(table)
            else:
                dead = set(rng.sample(alive, rng.randint(1, 3)))
                alive = [v for v in alive if v not in dead] + [p.fresh() for _ in dead]
                died |= dead
                strike_table(table, dead)
                model = {t: left for t, cubes in model.items() if (left := restricted(cubes, dead))}
                drain(table)
            visible = list(table.visible())
            assert set(visible) == winners(model, values) and len(visible) == len(set(visible))
            assert all(table.shows(t) == (t in visible) for t in model)
        gained, lost = table.net()
        now = winners(model, values)
        assert sorted(gained) == sorted(now - before) and sorted(lost) == sorted(before - now)
        table.check()
        p.release(died)
        assert table.selection is not None
        waiting = table.selection.held
        held += len(waiting.first)
        assert waiting.first.keys() | table.rows.keys() == model.keys(), "a sender relies on every one of them"
        assert not waiting.first.keys() & table.rows.keys()
        for t, cubes in model.items():
            assert kept(waiting if t in waiting.first else table.ledger, t) == cubes
        for v, tuples in listed(table).items():
            assert tuples <= table.mentions[v].keys()
    assert held > 10
    assert table.stats()["held"] == len(table.selection.held.first)


@pytest.mark.parametrize(("mode", "held"), [("demand", 0), ("lazy", 1), ("eager", 1)])
def test_the_sender_ships_no_dominated_tuple(mode: str, held: int) -> None:
    p = Provenance()
    ship = MinShip("r", ledger(mode, p), AggSel((0,), CHEAP, ledger(mode, p)))
    parents = [(p.fresh(),) for _ in range(3)]
    ship.arrive([(("a", 2), (parents[0], parents[0]))])
    ship.arrive([(("a", 5), (parents[1], parents[1])), (("a", 2), (parents[2], parents[2]))])
    assert [t for t, _ in ship.take()] == [("a", 2)] * (2 if mode == "eager" else 1)
    assert ship.selection is not None and len(ship.selection.held.first) == held
    ship.close()
    ship.check()
    death = Death({0, 2}, p)
    death.fell(parents[0])
    death.fell(parents[2])
    assert ship.suspects([("a", 2), ("a", 5)], death)[0] == ("a", 2)
    assert ship.strike(("a", 5), death) is None
    assert ship.strike(("a", 2), death) == LOST
    assert ship.selection.take_dirty() == ["a"]
    found = ship.selection.next_best("a")
    assert [t for t, _ in found] == [("a", 5)] * held
    ship.arrive(found or [(("a", 5), (parents[1], parents[1]))])
    assert [t for t, _ in ship.take()] == [("a", 5)]
    ship.close()
    ship.check()
