"""Ledgers in the three modes, against sets of derivations.

The model of a tuple is the set of all its derivations that are still alive. What each mode must keep of it differs.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from operators.ledger import LOST, REPLACED, Death, Ledger, ledger
from operators.provenance import Provenance, support
from tests.derivations import Cubes, derivations, minimal, restricted

MODES = ("demand", "lazy", "eager")
A, B, C = ("a",), ("b",), ("c",)
Model = dict[tuple[Any, ...], Cubes]


def kept(book: Ledger, t: tuple[Any, ...]) -> Cubes:
    """All derivations that a ledger has of a tuple."""
    first = book.first.get(t)
    annotations = book.others(t) if first is None else (first, *book.others(t))
    return minimal(cube for a in annotations for cube in derivations(book.provenance, a))


def bury(book: Ledger, dead: set[int]) -> dict[tuple[Any, ...], str]:
    """Strike every tuple that is worth a look; the others must not care."""
    death = Death(dead, book.provenance)
    tuples = list(book.first)
    suspects = book.suspects(tuples, death)
    for t in set(tuples) - set(suspects):
        before = book.first[t], book.others(t)
        assert book.strike(t, death) is None
        assert (book.first[t], book.others(t)) == before
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


def test_the_support_still_leads_to_what_rested_on_the_old_annotation() -> None:
    """What takes over may absorb what is left; but others were derived from what is left, and mention all of it."""
    book = ledger("lazy", Provenance())
    p = book.provenance
    merged = p.disjunction(p.diagram((1,)), p.diagram((2, 3)))
    book.offer([(A, merged), (A, (3,))])
    assert bury(book, {1}) == {A: REPLACED}
    assert derivations(p, book.first[A]) == minimal([{3}])
    assert support(book.first[A]) == {2, 3}
    assert bury(book, {2}) == {A: REPLACED}, "so that the death of 2 is followed from here"


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
    assert book.others(A) == ((6,),)
    death.fell(parent)
    assert book.strike(A, death) == REPLACED
    assert kept(book, A) == minimal([{6}]) and not book.rest


@pytest.mark.parametrize("partition", [0, 3])
def test_demand_mode_keeps_what_came_from_others_as_it_came(partition: int) -> None:
    """In a list, each derivation once, and without a diagram."""
    p = Provenance(partition, 5)
    book = ledger("demand", p)
    book.offer([(A, ((1,), (2,)))])
    book.offer([(A, (3, 4)), (A, (5,)), (A, (3, 4))], remote=True)
    assert book.others(A) == ((3, 4), (5,)) and book.others(B) == ()
    assert set(book.variables(A)) == {3, 4, 5}, "those of a pair are found by the walk"
    assert book.pop(A) == [(A, ((1,), (2,))), (A, (3, 4)), (A, (5,))] and book.pop(A) == []
    assert not book.first and not book.rest and p.nodes == p.levels == 0
    book.offer([(B, (6, 7))], remote=True)
    assert set(book.variables(B)) == {6, 7}
    book.check()


def test_the_next_in_line_takes_over() -> None:
    book = ledger("demand", Provenance())
    book.offer([(A, (1,)), (A, (2, 9)), (A, (3,)), (A, (4, 9)), (A, (5,))], remote=True)
    assert bury(book, {9}) == {} and book.others(A) == ((3,), (5,))
    assert bury(book, {1}) == {A: REPLACED} and book.first[A] == (3,) and book.others(A) == ((5,),)
    assert bury(book, {3}) == {A: REPLACED} and book.others(A) == ()
    assert bury(book, {5}) == {A: LOST}


def test_without_provenance_the_senders_are_kept_as_bits() -> None:
    book = ledger("plain", Provenance())
    assert (book.mode, book.searching, book.listed) == ("plain", True, False)
    on, created = book.offer([(A, 0), (B, 0b10), (A, 0)])
    assert on == created == [(A, 0), (B, 0b10)]
    assert book.offer([(A, 0b100), (B, 0b1), (B, 0b10)], remote=True) == ([], [])
    assert book.first == {A: 0b100, B: 0b11} and not book.rest
    assert book.others(A) == () and not book.variables(A)
    assert book.pop(B) == [(B, 0b11)] and book.pop(C) == []
    book.offer([(C, 0)])
    assert book.pop(C) == [(C, 0)], "nobody shipped it, and it is there all the same"
    book.check()


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
