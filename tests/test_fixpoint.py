"""Fixpoint and MinShip in the three modes: a table, its indexes and journals, and a sender and its receiver."""

from __future__ import annotations

import random
from typing import Any

import pytest

from operators.aggsel import AggSel
from operators.fixpoint import Fixpoint
from operators.ledger import LOST, REPLACED, Death, ledger
from operators.minship import MinShip
from operators.provenance import Annotation, Provenance, support
from operators.seen import Seen
from tests.derivations import derivations, minimal, restricted
from tests.test_ledger import MODES, A, B, C, Model, draw_cube, kept


def strike_table(table: Fixpoint, dead: set[int]) -> list[tuple[Any, ...]]:
    """What a component does to one table when variables die, without the joins."""
    death = Death(dead, table.ledger.provenance)
    tuples = list(table.touched(dead))
    lost = [t for t in table.suspects(tuples, death) if table.strike(t, death) == LOST]
    if table.selection is not None:
        candidates = [d for g in table.selection.take_dirty() for d in table.selection.next_best(g)]
        table.enter(table.ledger.offer(candidates, remote=True)[1])
    table.sweep(lost)
    return lost


def drain(table: Fixpoint) -> list[tuple[Any, ...]]:
    batch = table.take()
    table.settle(batch)
    return [t for t, _ in batch]


def listed(table: Fixpoint) -> dict[int, set[tuple[Any, ...]]]:
    """The tuples by the variables that their annotations mention."""
    books = [table.ledger] if table.selection is None else [table.ledger, table.selection.held]
    found: dict[int, set[tuple[Any, ...]]] = {}
    for book in books:
        for t in book.first:
            for a in (book.first[t], *book.others(t)):
                for v in support(a):
                    found.setdefault(v, set()).add(t)
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(3))
def test_a_table_over_a_long_history(mode: str, seed: int) -> None:
    """Rows, indexes, net changes and the lists of who mentions what, transaction by transaction."""
    rng = random.Random(seed)
    p = Provenance()
    table = Fixpoint("r", ledger(mode, p))
    by_first, _ = table.index((0,)), table.index((1,))
    table.seen = Seen((1,), 2)
    model: Model = {}
    alive = [p.fresh() for _ in range(10)]
    for _ in range(25):
        before = set(model)
        died: set[int] = set()
        for _ in range(rng.randint(1, 4)):
            if rng.random() < 0.6:
                batch: list[tuple[Any, Annotation]] = []
                for _ in range(rng.randint(1, 5)):
                    t, cube = (rng.randrange(3), rng.randrange(3)), draw_cube(rng, alive)
                    batch.append((t, cube))
                    model[t] = minimal(model.get(t, frozenset()) | {frozenset(cube)})
                new = {t for t, _ in batch} - table.rows.keys()
                on = table.arrive(batch, remote=True)
                assert new <= {t for t, _ in on} == {t for t, _ in table.pending}
                drain(table)
            else:
                dead = set(rng.sample(alive, rng.randint(1, 3)))
                alive = [v for v in alive if v not in dead] + [p.fresh() for _ in dead]
                died |= dead
                lost = strike_table(table, dead)
                model = {t: left for t, cubes in model.items() if (left := restricted(cubes, dead))}
                assert len(lost) == len(set(lost)) and not set(lost) & model.keys()
            assert table.rows.keys() == model.keys() == set(table.visible())
        gained, gone = table.net()
        assert sorted(gained) == sorted(model.keys() - before) and sorted(gone) == sorted(before - model.keys())
        p.release(died)
        table.check()
        assert all(kept(table.ledger, t) == cubes for t, cubes in model.items())
        assert set(by_first.find(0) or ()) == {t for t in model if t[0] == 0}
        for v, tuples in listed(table).items():
            assert tuples <= table.mentions[v].keys(), "a death could not find its tuples"


@pytest.mark.parametrize("mode", MODES)
def test_nobody_is_listed_who_is_gone(mode: str) -> None:
    """Over many tuples that come and go under a variable that stays, its list does not grow."""
    p = Provenance()
    table = Fixpoint("r", ledger(mode, p))
    stays, also = p.fresh(), p.fresh()
    for i in range(50):
        one, two = p.fresh(), p.fresh()
        table.arrive([((i,), (stays, one))], remote=True)
        table.arrive([((i,), (two,))], remote=True)
        table.arrive([((i,), (two, also)), ((i,), (one, two, also))], remote=True)  # both are absorbed
        drain(table)
        strike_table(table, {one})
        strike_table(table, {two})
        table.net()
        p.release({one, two})
        table.check()
    assert not table.rows
    assert sum(len(tuples) for tuples in table.mentions.values()) <= 1


def test_a_tuple_that_comes_and_goes_is_no_change() -> None:
    table = Fixpoint("r", ledger("demand", Provenance()))
    table.arrive([(A, (1,)), (B, (2,))], remote=True)
    assert drain(table) == [A, B]
    assert table.net() == ([A, B], [])
    strike_table(table, {1})
    table.arrive([(A, (3,)), (C, (4,))], remote=True)
    drain(table)
    strike_table(table, {4})
    assert table.net() == ([], [])
    strike_table(table, {3})
    table.arrive([(A, (5,))], remote=True)
    strike_table(table, {5})
    drain(table)
    assert table.net() == ([], [A])
    assert table.stats() == {"tuples": 1, "waiting": 0, "held": 0}


def test_a_lost_tuple_that_is_back_stays_in_the_indexes() -> None:
    p = Provenance()
    table = Fixpoint("r", ledger("demand", p))
    index = table.index((0,))
    table.arrive([(A, (1,)), (B, (2,))], remote=True)
    drain(table)
    death = Death({1, 2}, p)
    assert [table.strike(t, death) for t in (A, B)] == [LOST, LOST]
    assert index.find("a") and index.find("b"), "until they are swept, searches walk over them"
    table.ledger.first[A] = ((3,), (4,))  # found again
    table.enter([(A, table.rows[A])])
    table.sweep([A, B])
    assert index.find("a") and index.find("b") is None
    drain(table)
    assert table.net() == ([A], []), "this is its first transaction"


def test_a_table_without_a_journal_tells_nothing() -> None:
    table = Fixpoint("r", ledger("demand", Provenance()), journal=False)
    table.arrive([(A, (1,))], remote=True)
    drain(table)
    assert table.net() == ([], []) and table.shows(A) and not table.shows(B)
    table.check()


def test_what_was_asked_for_is_listed_and_only_once() -> None:
    """`accept` is for cubes that were asked for: the first is kept and listed, of a known tuple nothing is."""
    p = Provenance()
    table = Fixpoint("r", ledger("demand", p))
    table.arrive([(A, ((7,), (8,)))])
    drain(table)
    assert table.accept([(A, (1, 2)), (B, (2, 3)), (C, (4,))]) == [(B, (2, 3)), (C, (4,))]
    assert drain(table) == [B, C]
    assert strike_table(table, {99}) == [], "whoever only inserts need not have it listed; a death must"
    assert {v: set(ts) for v, ts in table.mentions.items()} == {2: {B}, 3: {B}, 4: {C}}
    assert not table.ledger.rest and table.rows[A] == ((7,), (8,))
    assert strike_table(table, {2}) == [B] and set(table.mentions) == {4}
    assert table.accept([]) == []
    assert table.accept([(B, (5,))]) == [(B, (5,))]
    drain(table)
    assert strike_table(table, {5}) == [B], "also if it comes before anything was listed"
    assert table.accept([(B, (6,))]) == [(B, (6,))]
    drain(table)
    assert sorted(table.net()[0]) == [A, B, C]
    table.check()


@pytest.mark.parametrize("selected", [False, True])
def test_removed_tuples_are_journalled_and_leave_the_indexes_when_swept(selected: bool) -> None:
    rows = [("a", 1), ("a", 2), ("b", 1)]
    p = Provenance()
    selection = AggSel((0,), ((1, "min"), (1, "max")), ledger("plain", p)) if selected else None
    table = Fixpoint("r", ledger("plain", p), selection)
    index = table.index((0,))
    table.seen = None if selected else Seen((0,), 2)
    table.arrive([(t, i) for i, t in enumerate(rows)])
    assert drain(table) == rows and sorted(table.net()[0]) == rows
    assert table.remove([rows[0], ("z", 9), rows[2], rows[0]]) == {rows[0]: 0, rows[2]: 2}
    assert list(table.rows) == [rows[1]] and index.find("b"), "still there for those who look for what it derived"
    table.arrive([(rows[2], 4)])
    if selected:
        assert table.selection is not None and sorted(table.selection.take_dirty()) == ["a", "b"]
    table.sweep([rows[0], rows[2]])
    assert set(index.find("a")) == {rows[1]} and set(index.find("b")) == {rows[2]}
    drain(table)
    assert table.net() == ([], [rows[0]]), "one of them is back"
    table.check()


# --- MinShip -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(4))
def test_the_owner_has_what_the_sender_can_derive(mode: str, seed: int) -> None:
    """A sender and an owner, frame by frame: whatever is forgotten or waits, the owner's table is right."""
    rng = random.Random(seed)
    here, there = Provenance(0, 2), Provenance(1, 2)
    ship, table = MinShip("r", ledger(mode, here)), Fixpoint("r", ledger(mode, there))
    parents = {v: (v,) for v in [here.fresh() for _ in range(8)]}  # variable -> the annotation that pairs refer to
    model: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    shipped = 0
    for _ in range(60):
        if rng.random() < 0.7:
            derived: list[tuple[Any, Annotation]] = []
            for _ in range(rng.randint(1, 4)):
                t, (v, w) = (rng.randrange(4),), rng.sample(sorted(parents), 2)
                model.setdefault(t, []).append((v, w))
                derived.append((t, (parents[v], parents[w])))
            ship.arrive(derived)
            dead = set()
        else:
            dead = set(rng.sample(sorted(parents), rng.randint(1, 2)))
            model = {
                t: left for t, pairs in model.items() if (left := [p for p in pairs if not dead.intersection(p)])
            }
            death = Death(dead, here)
            for v in dead:
                death.fell(parents.pop(v))
            for t in ship.suspects(list(ship.rows), death):
                outcome = ship.strike(t, death)
                if outcome == REPLACED and mode != "eager":
                    ship.outbox.append((t, ship.rows[t]))
                elif outcome == LOST and mode == "demand" and t in model:
                    v, w = rng.choice(model[t])  # the search of the joins
                    found = (t, (parents[v], parents[w]))
                    ship.ledger.first.update([found])
                    ship.enter([found])
        late = rng.random() < 0.5  # the death overtakes the message, or the other way round
        if not late:
            strike_table(table, dead)
        batch = [(t, there.decode(here.encode(a))) for t, a in ship.take()]
        shipped += len(batch)
        alive = [(t, a) for t, a in batch if restricted(derivations(there, a), dead)]
        table.arrive(alive if not late else batch, remote=True)
        if late:
            strike_table(table, dead)
        drain(table)
        table.net()
        for p in (here, there):
            p.release(dead)
        for _ in dead:
            v = here.fresh()
            parents[v] = (v,)
        ship.check()
        table.check()
        assert ship.rows.keys() == table.rows.keys() == model.keys()
        for t, pairs in model.items():
            assert kept(table.ledger, t) <= minimal(pairs), "nothing that is not so"
    assert shipped > 10
    ship.close()
    assert ship.stats()["shipped"] == len(model)


def test_what_was_shipped_can_be_taken_back() -> None:
    p = Provenance()
    for selection in (None, AggSel((0,), ((0, "min"),), ledger("plain", p))):
        ship = MinShip("r", ledger("plain", p), selection)
        ship.arrive([(A, 0), (B, 0)])
        assert [t for t, _ in ship.take()] == [A, B]
        assert ship.remove([A, C, A]) == [A] and list(ship.rows) == [B]
        if selection is not None:
            assert selection.take_dirty() == ["a"] and "a" not in selection.members
        ship.arrive([(A, 0), (B, 0)])
        assert [t for t, _ in ship.take()] == [A], "and be shipped again"
        ship.close()
        ship.check()


def test_how_much_each_mode_ships() -> None:
    """Of ten derivations of one tuple, eager ships all, the others one; on its death lazy ships the rest."""
    counts = {}
    for mode in MODES:
        p = Provenance()
        parents = [(p.fresh(),) for _ in range(10)]
        ship = MinShip("r", ledger(mode, p))
        for a in parents:
            ship.arrive([(A, (a, a))])
        first = len(ship.take())
        death = Death({0}, p)
        death.fell(parents[0])
        outcome = ship.strike(A, death)
        counts[mode] = first, outcome
    assert counts == {"demand": (1, LOST), "lazy": (1, REPLACED), "eager": (10, REPLACED)}
