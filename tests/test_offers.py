"""Offers: who is asked for a derivation, who answers, and what is left on both sides when there is nothing to offer."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

import pytest

import livelog
from livelog.runtime import local
from livelog.runtime.absorption import Absorption
from livelog.runtime.frames import decode, encode
from operators.join import Rule
from operators.ledger import ledger
from operators.offers import Desk, Offering, Offers
from operators.partition import Owners, Router
from operators.provenance import Provenance
from operators.seen import Seen
from tests.cases import program_of
from tests.runs import Run

A, B, C = ("a",), ("b",), ("c",)
Row = tuple[Any, ...]


def offering() -> Offering:
    return Offering("r", ledger("demand", Provenance()))


# --- the sender's side ---------------------------------------------------------------------------------------


def test_a_tuple_is_offered_once() -> None:
    ship = offering()
    ship.arrive([(A, (1,)), (B, (2,)), (A, (3,))])
    assert list(ship.take()) == [A, B] and not ship.take()
    ship.arrive([(B, (4,)), (C, (5,))])
    assert list(ship.take()) == [C], "however it was derived"
    assert all(t in ship.rows for t in (A, B, C)) and ship.stats() == {"shipped": 3, "waiting": 0}
    ship.check()


def test_what_was_withdrawn_is_offered_again_when_it_comes_back() -> None:
    ship = offering()
    ship.arrive([(A, (1,)), (B, (2,))])
    ship.take()
    ship.withdraw([A])
    assert A not in ship.rows and B in ship.rows
    ship.arrive([(A, (3,)), (B, (4,))])
    assert list(ship.take()) == [A]


def test_derivations_are_at_hand_for_one_transaction() -> None:
    """Nothing is kept for an offer but that it was made."""
    ship = offering()
    ship.arrive([(A, (1,)), (A, (2,))])
    ship.arrive([(B, (3,)), (A, (4,))])
    ship.arrive([(C, (5,))])
    tuples, derivations = ship.picked(0, [0, 2])
    assert tuples == [A, C] and derivations in ([(1,), (5,)], [(2,), (5,)])
    ship.take()
    ship.close()
    assert not ship.posted and A in ship.rows and not ship.ledger.first
    ship.clear()
    assert not ship.rows and ship.stats()["shipped"] == 0


def test_a_sender_with_something_to_ship_is_not_at_rest() -> None:
    ship = offering()
    ship.arrive([(A, (1,))])
    with pytest.raises(AssertionError, match="something to ship"):
        ship.check()


def test_places_are_counted_by_destination() -> None:
    ship = offering()
    ship.arrive([(A, (1,))], 3)
    ship.arrive([(B, (2,))], 5)
    ship.arrive([(C, (3,))], 3)
    assert ship.picked(3, [1]) == ([C], [(3,)]) and ship.picked(5, [0]) == ([B], [(2,)])


def test_what_lies_on_the_desk_is_offered() -> None:
    ship = offering()
    ship.seen, ship.desk = Seen((0,), 1, ship.offered), Desk(Owners((0,), 3), 1)
    _, here, heads, annotations = ship.desk.parts
    heads[2] += [A, B]
    annotations[2] += [(1,), (2,)]
    ship.seen.add([A, B])
    assert here == 1 and list(ship.collect()) == [(2, [A, B])] and not list(ship.collect())
    ship.arrive([(B, (4,)), (C, (3,))], 2)
    assert list(ship.take()) == [C] and ship.picked(2, [1, 1]) == ([B, C], [(2,), (3,)])
    ship.withdraw([A])
    ship.seen.check(())
    assert set(ship.seen.groups) == {"b", "c"}


# --- the owner's side ----------------------------------------------------------------------------------------


def test_who_is_asked() -> None:
    offers = Offers()
    assert offers.offered(3, [A, B, C], known={B})[0] == [A, C], "not for what is there already"
    assert offers.offered(1, [A, B], known={B})[0] == [], "nor for what somebody was asked for"
    offers.answered(3, [(A, (7,)), (C, (8,))])
    offers.check({A, B, C})
    assert offers.lost([B]) in ({1: [B]}, {3: [B]}), "whoever offers it"
    assert offers.lost([B]) == {}, "one at a time"
    assert offers.lost([("z",)]) == {}, "nobody offers that"


def test_what_was_offered_is_asked_for_by_its_place() -> None:
    offers = Offers()
    assert offers.offered(3, [A, B, C], known={B}) == ([A, C], [0, 2])
    assert offers.offered(1, [B, ("d",)], known={B}) == ([("d",)], [1])
    assert offers.offered(3, [("e",), ("f",)], known={("e",)}) == ([("f",)], [4]), "of all that it has offered"
    assert offers.told(3, [(7,), (8,)]) == [(A, (7,)), (C, (8,))], "in the order of asking"
    assert offers.told(3, []) == [], "it will answer otherwise"
    offers.answered(3, [(A, (7,)), (C, (8,)), (("f",), (9,))])
    with pytest.raises(AssertionError, match="outstanding"):
        offers.check({A, B, C, ("d",), ("e",), ("f",)})
    with pytest.raises(AssertionError, match="has not told"):
        offers.close()
    assert offers.told(1, [(9,)]) == [(("d",), (9,))]
    offers.answered(1, [(("d",), (9,))])
    offers.check({A, B, C, ("d",), ("e",), ("f",)})
    offers.close()
    assert offers.offered(3, [("g",)], known=())[1] == [0], "in this transaction"


def test_many_are_asked_for_at_once() -> None:
    offers = Offers()
    offers.offered(1, [A, B], known={A, B, C})
    offers.offered(2, [C], known={A, B, C})
    assert offers.lost([C, A, ("z",), B]) == {1: [A, B], 2: [C]}


def test_after_a_refusal_all_others_are_asked() -> None:
    offers = Offers()
    assert offers.offered(1, [A, B], known=())[0] == [A, B]
    offers.offered(2, [A], known=())
    offers.offered(3, [A, B, C], known={C})
    offers.answered(1, [(B, (7,))])
    assert offers.refused(1, [A], known={B, C}) == {2: [A], 3: [A]}
    assert offers.lost([A]) == {}, "their offers are void until they answer"
    offers.check({B, C})
    offers.answered(3, [(A, (8,))])
    offers.check({A, B, C})
    assert offers.lost([A]) == {3: [A]}, "one of them did"
    assert offers.refused(3, [A], known={B, C}) == {}, "and nobody else is left"
    offers.check({B, C})


def test_an_answer_that_comes_as_well() -> None:
    """Several answered when all were asked: each of them is known to offer the tuple again."""
    offers = Offers()
    for source in (1, 2, 3):
        offers.offered(source, [A], known=())
    assert offers.refused(1, [A], known=()) == {2: [A], 3: [A]}
    offers.answered(2, [(A, (7,))])
    offers.answered(3, [(A, (8,))])
    assert offers.lost([A]) == {2: [A]}
    assert offers.refused(2, [A], known=()) == {3: [A]}


def test_a_refusal_of_what_has_come_otherwise() -> None:
    """It was derived at home while somebody was asked: nobody is asked further, and the other offer stands."""
    offers = Offers()
    assert offers.offered(1, [A], known=())[0] == [A]
    offers.offered(2, [A], known={A})
    assert offers.refused(1, [A], known={A}) == {}
    offers.check({A})
    assert offers.lost([A]) == {2: [A]}


def test_an_offer_may_be_made_again() -> None:
    offers = Offers()
    offers.offered(1, [A], known=())
    assert offers.refused(1, [A], known=()) == {}
    assert offers.offered(1, [A], known=())[0] == [A]
    offers.answered(1, [(A, (1,))])
    assert offers.lost([A]) == {1: [A]}


def test_the_check_finds_what_is_outstanding() -> None:
    offers = Offers()
    offers.offered(1, [A], known=())
    with pytest.raises(AssertionError, match="outstanding"):
        offers.check({A})
    offers.answered(1, [(A, (1,))])
    offers.check({A})
    with pytest.raises(AssertionError, match="nobody asked"):
        offers.check({B})
    offers.clear()
    offers.check(())
    assert offers.lost([A]) == {}


# --- both sides, by hand -------------------------------------------------------------------------------------


class Market:
    """An owner (0) and some senders that gain and lose what they can derive, with channels that keep their order.

    A derivation is a number. One that dies is told by partition -1, which everybody hears in its own time.
    """

    def __init__(self, senders: int, rng: random.Random) -> None:
        self.rng = rng
        self.channels: dict[tuple[int, int], deque[tuple[str, Any]]] = {}
        self.ships = {s: offering() for s in range(1, senders + 1)}
        self.can: dict[int, dict[Row, set[int]]] = {s: {} for s in self.ships}  # as far as each has heard
        self.dead: dict[int, set[int]] = {s: set() for s in range(senders + 1)}
        self.alive: dict[int, tuple[int, Row]] = {}
        self.offers, self.rows = Offers(), {}
        self.next = 0
        self.asked_again = self.refusals = self.told = 0

    def send(self, source: int, destination: int, kind: str, what: Any) -> None:
        self.channels.setdefault((source, destination), deque()).append((kind, what))

    def gain(self, s: int, t: Row) -> None:
        number, self.next = self.next, self.next + 1
        self.alive[number] = (s, t)
        self.can[s].setdefault(t, set()).add(number)
        self.ships[s].arrive([(t, number)])
        offered = list(self.ships[s].take())
        if offered:
            self.send(s, 0, "offer", offered)

    def lose(self, number: int) -> None:
        del self.alive[number]
        for partition in self.dead:
            self.send(-1, partition, "death", number)

    def want(self, wanted: dict[int, list[Row]], kind: str = "want") -> None:
        for s, tuples in wanted.items():
            self.send(0, s, kind, tuples)

    def deliver(self) -> None:
        channel = self.rng.choice([c for c, queue in self.channels.items() if queue])
        source, here = channel
        kind, what = self.channels[channel].popleft()
        if kind == "death":
            self.dead[here].add(what)
            if here:
                for numbers in self.can[here].values():
                    numbers.discard(what)
            else:
                gone = [t for t, number in self.rows.items() if number == what]
                for t in gone:
                    del self.rows[t]
                self.want(self.offers.lost(gone))
        elif kind == "offer":
            _, places = self.offers.offered(source, what, self.rows)
            if places:
                self.send(0, source, "pick", places)
        elif kind == "pick":
            tuples, derivations = self.ships[here].picked(0, what)
            told = self.dead[here].isdisjoint(derivations)
            self.told += told
            self.send(here, 0, "told", derivations if told else [])
            if not told:
                self.answer(here, "want", tuples)
        elif kind in ("want", "wish"):
            self.answer(here, kind, what)
        elif kind in ("answer", "told"):
            if kind == "told":
                what = self.offers.told(source, what)
            self.answered(source, what)
        else:
            self.refusals += len(what)
            self.want(self.offers.refused(source, what, self.rows), "wish")

    def answer(self, here: int, kind: str, what: list[Row]) -> None:
        found = [(t, min(self.can[here][t])) for t in what if self.can[here].get(t)]
        none = [t for t in what if not self.can[here].get(t)]
        self.ships[here].withdraw(none)
        if found:
            self.send(here, 0, "answer", found)
        if none and kind == "want":
            self.send(here, 0, "none", none)

    def answered(self, source: int, what: list[Any]) -> None:
        self.offers.answered(source, what)
        late = [t for t, number in what if number in self.dead[0] and t not in self.rows]
        self.asked_again += len(late)
        for t, number in what:
            if number not in self.dead[0]:
                self.rows.setdefault(t, number)
        again = self.offers.lost(late)
        for s in again:
            for number in sorted(self.dead[0]):
                self.send(0, s, "death", number)
        self.want(again)

    @property
    def busy(self) -> bool:
        return any(self.channels.values())

    def verify(self) -> None:
        derivable = {t for _, t in self.alive.values()}
        assert self.rows.keys() == derivable
        assert all(self.alive[number][1] == t for t, number in self.rows.items()), "it rests on what is alive"
        self.offers.check(self.rows)
        for s, ship in self.ships.items():
            can = {t for t, numbers in self.can[s].items() if numbers}
            assert can <= set(ship.rows), "whoever can derive a tuple offers it"
            assert set(ship.rows) <= set(self.offers.by.get(s, ())), "and the owner knows, or it would not ask"


@pytest.mark.parametrize("seed", range(25))
def test_the_owner_has_what_somebody_can_derive(seed: int) -> None:
    """In any order of messages: the owner ends up with all that can be derived, and nothing else."""
    rng = random.Random(seed)
    market = Market(rng.choice([1, 2, 4]), rng)
    for _ in range(150):
        roll = rng.random()
        if roll < 0.2:
            market.gain(rng.choice(list(market.ships)), (rng.randrange(5),))
        elif roll < 0.36 and market.alive:
            market.lose(rng.choice(list(market.alive)))
        elif market.busy:
            market.deliver()
        if roll > 0.97:
            while market.busy:
                market.deliver()
            market.verify()
    for number in list(market.alive):
        market.lose(number)
    while market.busy:
        market.deliver()
    market.verify()
    assert not market.rows and not any(market.offers.by.values()), "no offer outlives what it was about"
    assert not any(ship.rows for ship in market.ships.values())
    assert market.refusals > 0 and market.told > 0


def test_answers_come_too_late_there() -> None:
    """Or the test above would not be about much."""
    late = 0
    for seed in range(10):
        rng = random.Random(seed)
        market = Market(3, rng)
        for _ in range(150):
            if rng.random() < 0.4:
                market.gain(rng.choice(list(market.ships)), (rng.randrange(3),))
            if market.alive and rng.random() < 0.3:
                market.lose(rng.choice(list(market.alive)))
            if market.busy:
                market.deliver()
        while market.busy:
            market.deliver()
        market.verify()
        late += market.asked_again
    assert late > 0


# --- in sessions ---------------------------------------------------------------------------------------------


def components(session: Any) -> list[list[Absorption]]:
    """The recursive strata, each with its components by partition."""
    strata = zip(*(worker.strata for worker in session._runtime.workers), strict=True)
    return [list(parts) for parts in strata if isinstance(parts[0], Absorption)]


def on_offer(session: Any) -> Iterator[tuple[int, int, str, set[Row], set[Row]]]:
    """(owner, sender, relation, what the owner thinks is on offer, what the sender does)."""
    for parts in components(session):
        for owner in parts:
            for number, offers in owner.offers.items():
                name = owner.tables[number].name
                router = Router(owner.plan.relations[name].partition, len(parts))
                for sender in parts:
                    theirs = {t for t in sender.ships[name].rows if router(t) == owner.partition}
                    yield owner.partition, sender.partition, name, set(offers.by.get(sender.partition, ())), theirs


def agree(session: Any) -> None:
    """The owner knows of every offer, and whatever can be derived for another partition is on offer.

    (It may think of more: a sender that withdrew without a word had answered before.)
    """
    for owner, sender, name, known, offered in on_offer(session):
        assert known >= offered, f"{name}: {owner} and {sender} do not agree"
        assert owner != sender or not known
    for parts in components(session):
        for component in parts:
            for number in component.offers:
                name = component.tables[number].name
                router = component.routers[name]
                for rule in component.rules[name]:
                    heads = {h for h, _ in rule._everything() if router(h) != component.partition}
                    assert heads <= set(component.ships[name].rows), f"{name} is not offered"
                assert not component.home[name].ledger.rest, "of several derivations only one is told"


PLAIN = ["reachable", "pairs", "detours"]  # in `costs`, aggregate selection decides what is shipped


@pytest.mark.parametrize("partitions", [2, 5, 12])
@pytest.mark.parametrize("name", PLAIN)
def test_the_owner_knows_after_every_transaction(name: str, partitions: int) -> None:
    made = 0
    for seed in range(4):
        run = Run(name, seed, links=12, partitions=partitions)
        agree(run.session)
        for _ in range(8):
            run.step()
            run.verify()
            agree(run.session)
        made += sum(len(known) for *_, known, _ in on_offer(run.session))
        run.clear()
        run.verify()
        assert not any(known or offered for *_, known, offered in on_offer(run.session)), "no offer is left"
    assert made > 0


def test_what_has_a_selection_is_shipped_and_not_offered() -> None:
    run = Run("costs", 1, links=12, partitions=3)
    for ((component, *_),) in [components(run.session)]:
        assert not component.offers and component.ships
        assert not any(isinstance(ship, Offering) for ship in component.ships.values())


@pytest.mark.parametrize("ship", ["lazy", "eager"])
def test_only_demand_mode_makes_offers(ship: str) -> None:
    for parts in components(Run("pairs", 1, partitions=3, ship=ship).session):
        assert all(not component.offers and component.ships for component in parts)


class Late:
    """Counts the answers that are dead on arrival."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        real = Absorption._answered

        def spy(component: Absorption, source: int, number: int, derived: Any) -> Any:
            self.count += sum(not component.dead.isdisjoint(cube) for _, cube in derived)
            return real(component, source, number, derived)

        monkeypatch.setattr(Absorption, "_answered", spy)


def histories(name: str, seeds: range, partitions: int = 3, steps: int = 8) -> int:
    """Run histories in as many orders of messages; returns in how many of them something was wrong."""
    wrong = 0
    for seed in seeds:
        try:
            run = Run(name, seed, links=14, partitions=partitions)
            for _ in range(steps):
                run.step()
            run.verify()
        except (AssertionError, KeyError):
            wrong += 1
    return wrong


@pytest.mark.parametrize("name", PLAIN)
def test_an_answer_that_is_dead_on_arrival_is_asked_for_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    late = Late(monkeypatch)
    assert histories(name, range(40)) == 0
    assert late.count > 0


def test_whoever_is_asked_again_is_told_who_died(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the same dead answer could come again and again, as long as the death is under way."""
    asked_again = 0
    real = Absorption._answered

    def spy(self: Absorption, source: int, number: int, derived: Any) -> Any:
        nonlocal asked_again
        sent: list[tuple[int, str, list[Any]]] = []
        send = self.send
        self.send = lambda to, kind, target, rows: sent.append((to, kind, rows)) or send(to, kind, target, rows)
        try:
            return real(self, source, number, derived)
        finally:
            self.send = send
            told = {to for to, kind, rows in sent if kind == "death" and rows == sorted(self.dead)}
            asked = [to for to, kind, _ in sent if kind == "want"]
            assert told == set(asked) and [kind for _, kind, _ in sent] == ["death"] * len(told) + ["want"] * len(told)
            asked_again += len(asked)

    monkeypatch.setattr(Absorption, "_answered", spy)
    assert histories("pairs", range(20)) == 0
    assert asked_again > 0


@pytest.mark.parametrize("name", ["reachable", "pairs"])
def test_if_it_were_not_views_would_be_wrong(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So these histories would show it missing."""

    def forgetful(self: Absorption, source: int, number: int, derived: Any) -> Any:
        self.offers[number].answered(source, derived)
        return self.tables[number].accept([d for d in derived if self.dead.isdisjoint(d[1])])

    monkeypatch.setattr(Absorption, "_answered", forgetful)
    assert histories(name, range(60)) > 0


def test_nor_may_it_be_taken_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(self: Absorption, source: int, number: int, derived: Any) -> Any:
        self.offers[number].answered(source, derived)
        return self.tables[number].accept(derived)

    monkeypatch.setattr(Absorption, "_answered", careless)
    assert histories("pairs", range(40)) > 0


def test_nobody_searches_for_what_was_just_derived(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a load, whoever is asked has the derivation at hand."""
    searches: list[int] = []
    real = Rule.find

    def spy(self: Rule, heads: list[Row]) -> Any:
        searches.append(len(heads))
        return real(self, heads)

    monkeypatch.setattr(Rule, "find", spy)
    run = Run("pairs", 1, links=20, partitions=4)
    assert any(known for *_, known, _ in on_offer(run.session)) and not searches
    run.clear()
    assert searches


SOURCES = """
.decl a(k: number, x: number) partition(k)
.decl step(x: number, y: number)
t(x) :- a(_, x).
t(y) :- t(x), step(x, y).
"""
PARTITIONS = 4


def key(partition: int) -> int:
    """A number that lives on a partition."""
    return next(k for k in range(1000) if Router((0,), PARTITIONS)((k,)) == partition)


class Traffic:
    """The messages under way since the last look: (source, kind, rows), without deaths."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[tuple[str, list[Any]]] = []

        def spy(*message: Any) -> bytes:
            if message[1] != "death":
                self.sent.append((message[1], list(message[3])))
            return encode(*message)

        monkeypatch.setattr(local, "encode", spy)

    def look(self) -> Counter[str]:
        sent, self.sent = self.sent, []
        return Counter(kind for kind, rows in sent for _ in rows)


def change(session: Any, *operations: tuple[str, str, Row]) -> Any:
    with session.transaction() as tx:
        for what, relation, row in operations:
            getattr(tx, what)(relation, row)
    return tx.changes["t"]


def test_a_stale_offer_costs_nothing_until_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three partitions offer a tuple of a fourth. Two lose their reasons; nobody hears of it until the third does."""
    traffic = Traffic(monkeypatch)
    x = key(0)
    sources = [(key(p), x) for p in (1, 2, 3)]
    with livelog.open(program_of(SOURCES), partitions=PARTITIONS) as session:
        change(session, ("insert", "a", sources[0]))
        assert traffic.look() == {"offer": 1, "pick": 1, "told": 1}
        change(session, ("insert", "a", sources[1]), ("insert", "a", sources[2]))
        assert traffic.look() == {"offer": 2}, "the owner has a derivation"
        for row in sources[1:]:
            assert not change(session, ("delete", "a", row))
            assert not traffic.look(), "it rests on neither of them"
        assert sum(len(known) for *_, known, _ in on_offer(session)) == 3
        assert change(session, ("delete", "a", sources[0])).deleted == [(x,)]
        assert traffic.look() == {"want": 1, "none": 1, "wish": 2}, "now everybody is asked, and withdraws"
        assert not any(known or offered for *_, known, offered in on_offer(session))
        assert change(session, ("insert", "a", sources[2])).inserted == [(x,)]
        assert traffic.look() == {"offer": 1, "pick": 1, "told": 1}
        session.check()


def test_whoever_still_can_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    traffic = Traffic(monkeypatch)
    x, y = key(0), key(1) + 1000 * PARTITIONS  # y is anywhere
    sources = [(key(p), x) for p in (1, 2, 3)]
    with livelog.open(program_of(SOURCES), partitions=PARTITIONS) as session:
        change(session, *(("insert", "a", row) for row in sources), ("insert", "step", (x, y)))
        for row in sources[:2]:
            traffic.look()
            assert not change(session, ("delete", "a", row)), "the view does not change"
            session.check()
            agree(session)
        assert session.why("t", (y,)) == [("a", sources[2]), ("step", (x, y))]
        assert change(session, ("delete", "a", sources[2])).deleted == sorted([(x,), (y,)])
        session.check()


def test_the_owners_own_derivation_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """It searches at home before it asks anybody."""
    traffic = Traffic(monkeypatch)
    x = key(0)
    home = next((k, x) for k in range(1000, 2000) if Router((0,), PARTITIONS)((k,)) == 0)
    with livelog.open(program_of(SOURCES), partitions=PARTITIONS) as session:
        change(session, ("insert", "a", (key(2), x)))
        change(session, ("insert", "a", home))
        traffic.look()
        assert not change(session, ("delete", "a", (key(2), x)))
        assert not traffic.look()
        assert change(session, ("delete", "a", home)).deleted == [(x,)]
        assert traffic.look() == {"want": 1, "none": 1}
        session.check()


def test_a_rollback_takes_offers_back() -> None:
    text = SOURCES.replace("step(x, y).", "step(x, y), 10 / (y - 7) < 100.")
    x = key(0)
    with livelog.open(program_of(text), partitions=PARTITIONS, seed=1) as session:
        for p in (1, 2, 3):
            change(session, ("insert", "a", (key(p), x)))
        before = [(known, offered) for *_, known, offered in on_offer(session)]
        with pytest.raises(livelog.RuntimeProblem, match="division by zero"):
            change(
                session, ("delete", "a", (key(1), x)), ("insert", "a", (key(1), 55)), ("insert", "step", (x, 7))
            )
        assert [(known, offered) for *_, known, offered in on_offer(session)] == before
        session.check()
        agree(session)
        assert not change(session, ("delete", "a", (key(1), x)))
        agree(session)


def test_offers_that_cross_a_question() -> None:
    """In one transaction a tuple is lost, refused, derived again elsewhere, offered and lost again: in any order."""
    for seed in range(60):
        rng = random.Random(seed)
        here: set[Row] = set()
        with livelog.open(program_of(SOURCES), partitions=PARTITIONS, seed=seed) as session:
            for _ in range(6):
                with session.transaction() as tx:
                    for _ in range(rng.randint(2, 8)):
                        relation = rng.choice(["a", "a", "step"])
                        row = (rng.randrange(12), rng.randrange(4))
                        if (relation, row) in here:
                            here.discard((relation, row))
                            tx.delete(relation, row)
                        else:
                            here.add((relation, row))
                            tx.insert(relation, row)
                want = {row[1:] for relation, row in here if relation == "a"}
                while more := {(y,) for r, (x, y) in here if r == "step" and (x,) in want} - want:
                    want |= more
                assert set(session["t"]) == want, seed
                session.check()
                agree(session)


def test_the_messages_are_what_they_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offers, wants and refusals are bare tuples; an answer says how, with the variables of one derivation.

    To an offer places are returned, and then derivations alone.
    """
    frames: list[bytes] = []
    monkeypatch.setattr(local, "encode", lambda *message: frames.append(encode(*message)) or frames[-1])
    run = Run("pairs", 2, links=14, partitions=4)
    for _ in range(8):
        run.step()
    run.clear()
    kinds = Counter()
    for frame in frames:
        _, kind, _, rows = decode(frame)
        kinds[kind] += 1
        for row in rows:
            if kind in ("offer", "want", "wish", "none"):
                assert len(row) == 2 and all(type(value) is int for value in row)
            elif kind == "answer":
                assert len(row[0]) == 2 and row[1] and all(type(v) is int for v in row[1])
                assert len(set(row[1])) == len(row[1])
            elif kind == "told":
                assert row and all(type(v) is int for v in row) and len(set(row)) == len(row)
            elif kind == "pick":
                assert type(row) is int
    assert all(kinds[kind] for kind in ("offer", "pick", "told", "want", "wish", "answer", "none"))
