"""Ledgers, and what is built on them: Fixpoint and MinShip, in the three modes, against sets of derivations.

The model of a tuple is the set of all its derivations that are still alive. What each mode must keep of it differs.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from operators.fixpoint import Fixpoint
from operators.ledger import LOST, REPLACED, Death, Ledger, ledger
from operators.minship import MinShip
from operators.provenance import Annotation, Provenance, support
from operators.seen import Seen
from tests.derivations import Cubes, derivations, minimal, restricted

MODES = ("demand", "lazy", "eager")
A, B, C = ("a",), ("b",), ("c",)
Model = dict[tuple[Any, ...], Cubes]


def kept(book: Ledger, t: tuple[Any, ...]) -> Cubes:
    """All derivations that a ledger has of a tuple."""
    p = book.provenance
    return minimal(derivations(p, book.first.get(t)) | derivations(p, book.rest.get(t)))


def bury(book: Ledger, dead: set[int]) -> dict[tuple[Any, ...], str]:
    """Strike every tuple that is worth a look; the others must not care."""
    death = Death(dead, book.provenance)
    tuples = list(book.first)
    suspects = book.suspects(tuples, death)
    for t in set(tuples) - set(suspects):
        before = book.first[t], book.rest.get(t)
        assert book.strike(t, death) is None
        assert (book.first[t], book.rest.get(t)) == before
    outcomes = {}
    for t in suspects:
        first = book.first[t]
        outcome = book.strike(t, death)
        if outcome is None:
            assert book.first[t] is first, "what was passed on stands"
        else:
            outcomes[t] = outcome
            assert (t in book.first) == (outcome == REPLACED)
            assert book.strike(t, death) is None, "once is enough"
    book.check()
    return outcomes


# --- one at a time -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_the_first_derivation_is_passed_on(mode: str) -> None:
    book = ledger(mode, Provenance())
    on, created = book.offer([(A, (1,)), (B, (2,))])
    assert [t for t, _ in on] == [A, B] and created == on
    assert book.mode == mode


@pytest.mark.parametrize(("mode", "passed", "waits"), [("demand", 0, 0), ("lazy", 0, 1), ("eager", 1, 0)])
def test_a_later_derivation(mode: str, passed: int, waits: int) -> None:
    book = ledger(mode, Provenance())
    book.offer([(A, (1,))])
    on, created = book.offer([(A, (2,))])
    assert (len(on), len(created), len(book.rest)) == (passed, 0, waits)


@pytest.mark.parametrize("mode", MODES)
def test_what_was_shipped_here_is_kept_in_every_mode(mode: str) -> None:
    book = ledger(mode, Provenance())
    book.offer([(A, (1, 2))], remote=True)
    book.offer([(A, (3,))], remote=True)
    assert kept(book, A) == minimal([{1, 2}, {3}])
    assert bury(book, {2}) == {A: REPLACED}
    assert kept(book, A) == minimal([{3}])
    assert bury(book, {3}) == {A: LOST}
    assert not book.first and not book.rest


@pytest.mark.parametrize("mode", MODES)
def test_a_death_elsewhere_does_not_matter(mode: str) -> None:
    book = ledger(mode, Provenance())
    book.offer([(A, (1,)), (B, (2,))])
    assert bury(book, {7}) == {}


@pytest.mark.parametrize("mode", ["lazy", "eager"])
def test_an_absorbed_derivation_is_no_news(mode: str) -> None:
    book = ledger(mode, Provenance())
    book.offer([(A, (1,))])
    on, _ = book.offer([(A, (1, 2))])
    assert not on and not book.rest
    if mode == "eager":
        on, created = book.offer([(B, (1, 2)), (B, (2,))])
        assert [t for t, _ in on] == [B, B] and [t for t, _ in created] == [B]
        assert kept(book, B) == minimal([{2}])


def test_the_waiting_ones_take_over_together() -> None:
    book = ledger("lazy", Provenance())
    book.offer([(A, (1,)), (A, (2,)), (A, (3,))])
    assert bury(book, {1}) == {A: REPLACED}
    assert derivations(book.provenance, book.first[A]) == minimal([{2}, {3}]) and not book.rest
    assert bury(book, {2}) == {A: REPLACED}
    assert bury(book, {3}) == {A: LOST}


def test_a_death_among_the_waiting_leaves_the_first_alone() -> None:
    book = ledger("lazy", Provenance())
    book.offer([(A, (1,)), (A, (2,))])
    assert bury(book, {2}) == {}
    assert not book.rest


def test_a_pair_falls_with_either_parent_and_by_identity() -> None:
    p = Provenance()
    book = ledger("demand", p)
    left, right, twin = (tuple([v]) for v in (1, 2, 1))  # equal constants would be one object
    book.offer([(A, (left, right)), (B, (right, left)), (C, (twin, right))])
    death = Death({1}, p)
    death.fell(left)
    assert book.suspects([A, B, C, ("nobody",)], death) == [A, B]
    assert [book.strike(t, death) for t in (A, B, C)] == [LOST, LOST, None]
    assert len(death.ids) == 3, "those that fell make others fall"


def test_the_first_falls_after_a_death_that_only_touched_the_rest() -> None:
    """The walk reaches a tuple twice: where the death enters, and from the parent of its first annotation."""
    p = Provenance()
    book = ledger("demand", p)
    parent, other = (1,), (2,)
    book.offer([(A, (parent, other))])
    book.offer([(A, (1, 5)), (A, (6,))], remote=True)
    death = Death({1}, p)
    assert book.strike(A, death) is None
    assert derivations(p, book.rest[A]) == minimal([{6}])
    death.fell(parent)
    assert book.strike(A, death) == REPLACED
    assert kept(book, A) == minimal([{6}]) and not book.rest


# --- histories -----------------------------------------------------------------------------------------------


def draw_cube(rng: random.Random, alive: list[int]) -> tuple[int, ...]:
    return tuple(rng.sample(alive, min(len(alive), rng.randint(1, 3))))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(4))
def test_a_ledger_over_a_long_history(mode: str, seed: int) -> None:
    rng = random.Random(seed)
    p = Provenance()
    book, model = ledger(mode, p), {}
    passed: Model = {}  # what others were told and that is still alive
    alive = [p.fresh() for _ in range(8)]
    for _ in range(80):
        if rng.random() < 0.7:
            batch = [((rng.randrange(4),), draw_cube(rng, alive)) for _ in range(rng.randint(1, 4))]
            new = {t for t, _ in batch} - model.keys()
            on, created = book.offer(batch, remote=True)
            assert {t for t, _ in created} == new and {t for t, _ in created} <= {t for t, _ in on}
            for t, cube in batch:
                model[t] = minimal(model.get(t, frozenset()) | {frozenset(cube)})
            for t, a in on:
                passed[t] = minimal(passed.get(t, frozenset()) | derivations(p, a))
        else:
            dead = set(rng.sample(alive, rng.randint(1, 2)))
            outcomes = bury(book, dead)
            model = {t: left for t, cubes in model.items() if (left := restricted(cubes, dead))}
            passed = {t: left for t, cubes in passed.items() if (left := restricted(cubes, dead))}
            for t, outcome in outcomes.items():
                assert (outcome == LOST) == (t not in model)
                if outcome == REPLACED and mode != "eager":
                    passed[t] = derivations(p, book.first[t])
            p.release(dead)
            alive = [v for v in alive if v not in dead] + [p.fresh() for _ in dead]
        assert book.first.keys() == model.keys()
        for t, cubes in model.items():
            assert kept(book, t) == cubes
            assert derivations(p, book.first[t]) == passed[t], "the first is what others rest on"
        if mode == "eager":
            assert not book.rest
        book.check()


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
            for a in (book.first[t], book.rest.get(t)):
                for v in support(a) if a is not None else ():
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


def test_a_table_without_a_journal_tells_nothing() -> None:
    table = Fixpoint("r", ledger("demand", Provenance()), journal=False)
    table.arrive([(A, (1,))], remote=True)
    drain(table)
    assert table.net() == ([], []) and table.shows(A) and not table.shows(B)
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
