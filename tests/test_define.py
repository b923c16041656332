"""Views that are defined and dropped while a session runs: what they hold, what is refused, what stays untouched."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

import datalog
import livelog
from datalog.errors import CheckProblem, LivelogError, ProgramErrors, RuntimeProblem, SyntaxProblem, UsageProblem
from datalog.growth import defined, dropped
from livelog.planned import Planned
from planner.extend import extend
from tests.cases import program_of
from tests.faults import ERRORS, Strike, forked
from tests.harness import METHODS
from tests.oracle import evaluate
from tests.test_define_histories import untouched

PROGRAM = """\
.decl link(x: number, y: number)
.decl price(x: number, p: float) key(x)
.decl part(x: number, n: number) bag
.decl seen(x: number) ttl(10)
.const near = 3
reach(x, y) :- link(x, y).
reach(x, y) :- link(x, z), reach(z, y).
lone(x) :- seen(x), !reach(x, _).
degree(x, count<*>) :- link(x, _).
"""
OWN = ("reach", "lone", "degree")
FACTS: dict[str, list[Any]] = {
    "link": [(1, 2), (2, 3), (3, 1), (3, 4), (7, 7)], "price": [(1, 1.5), (2, 2.5), (4, 9.0)],
    "part": [(1, 5), (1, 5), (2, 6)], "seen": [(1,), (5,), (6,)],
}  # fmt: skip


@pytest.fixture(params=[1, 3])
def session(request: pytest.FixtureRequest) -> Iterator[livelog.Session]:
    with livelog.open(datalog.parse(PROGRAM, "p.dl"), facts=FACTS, partitions=request.param) as session:
        yield session


def base_facts(session: Any) -> dict[str, Any]:
    names = [name for name in session.program.base if "#" not in name]
    found: dict[str, Any] = {name: set(session[name]) for name in names}
    for name in names:
        if session.program.relations[name].bag:
            copies = [t for relation, t, n in session._runtime.facts() if relation == name for _ in range(n)]
            found[name] = {t: copies.count(t) for t in copies}
    return found


def assert_right(session: Any) -> None:
    """Every view is what its rules make of the facts."""
    expected = evaluate(session.program, base_facts(session))
    for name in session.program.derived:
        assert set(session[name]) == expected[name], name
    session.check()


DEFINITIONS = {
    "a filter": "near(x, y) :- reach(x, y), y - x < near.",
    "a recursion over a recursion": (
        "two(x, y) :- reach(x, z), link(z, y). two(x, y) :- two(x, z), reach(z, y), x != y."
    ),
    "views in a cycle": "a(x) :- link(x, _), !lone(x). a(y) :- b(y). b(y) :- a(x), link(x, y).",
    "an aggregate of a bag": (
        ".decl total(x: number, s: number)\ntotal(x, sum<n>) :- part(x, n). most(max<s>) :- total(_, s)."
    ),
    "a negation of a view": "apart(x, y) :- degree(x, _), degree(y, _), !reach(x, y).",
    "an aggregate in the body": "busy(x, n) :- price(x, _), n = count : { reach(x, y), y > 1 }.",
    "groups of another's groups": "top(x) :- degree(x, n), n = max m : { degree(_, m) }.",
    "a fact that follows from nothing": "one(1 + 1) :- 2 > 1. both(x) :- one(x), link(x, _).",
    "something from nothing": "n(c) :- c = count : { link(_, _) }.",
    "three atoms": "triangle(x, y, z) :- link(x, y), link(y, z), link(z, x).",
    "an iteration": (
        "walk(0, x) :- seen(x). walk(i + 1, count<y>) :- walk(i, x), link(x, y), i < 3. last(x) :- walk(2, x)."
    ),
    "a pruned recursion": """path(x, y, c) :- link(x, y), c = x + y.
        path(x, y, c) :- link(x, z), path(z, y, b), c = b + x. best(x, y, min<c>) :- path(x, y, c).""",
    "nothing that is there": ".decl fresh(x: number)\nfresh2(x) :- fresh(x).",
}


@pytest.mark.parametrize("what", DEFINITIONS)
@pytest.mark.parametrize("method", METHODS, ids=lambda method: "-".join(filter(None, method)))
def test_all_kinds_of_views(what: str, method: tuple[str, str | None]) -> None:
    """They are filled, kept fresh, dropped, and defined again; and a session that is opened with them has the same."""
    text, plan = DEFINITIONS[what], Planned.of(program_of(PROGRAM), True).plan
    for partitions in (1, 3):
        with livelog.open(
            PROGRAM, facts=FACTS, partitions=partitions, strategy=method[0], ship=method[1], seed=3
        ) as session:
            for _ in range(2):
                with untouched(session):
                    log = session.define(text)
                with livelog.open(f"{PROGRAM}\n{text}", facts=base_of(session)) as whole:
                    for name in whole.views:
                        assert list(session[name]) == list(whole[name]), name
                        brought = log[name].inserted
                        assert brought == (list(whole[name]) if name not in OWN else []), name
                    pruned = [name for name in session.plan.pruned if name not in whole.plan.pruned]
                    assert not pruned
                changed(session)
                with livelog.open(f"{PROGRAM}\n{text}", facts=base_of(session)) as whole:
                    for name in whole.views:
                        assert list(session[name]) == list(whole[name]), name
                session.check()
                new = [name for name in session.program.derived if name not in OWN]
                with untouched(session):
                    session.drop(*new)
                assert set(session.plan.relations) == set(plan.relations) | session.program.base
                changed(session)
                if "fresh" in session.program.base:  # it stays, and cannot be declared again
                    break
            session.check()


def base_of(session: Any) -> dict[str, list[Any]]:
    found = {name: list(session[name]) for name in FACTS if name != "part"}
    return {**found, "part": [t for name, t, n in session._runtime.facts() if name == "part" for _ in range(n)]}


def changed(session: Any) -> None:
    rng = random.Random(len(session["link"]))
    for _ in range(3):
        with session.transaction() as tx:
            tx.insert("link", (rng.randrange(6), rng.randrange(6)))
            tx.delete("link", rng.choice(list(session["link"])))
            tx.insert("price", (rng.randrange(6), 0.5))
            tx.insert("part", (1, rng.randrange(6)))
            tx.insert("seen", (rng.randrange(9),))


def test_a_defined_view_is_like_any_other(session: Any) -> None:
    log = session.define("far(x, y) :- reach(x, y), y > x + 1.")
    assert log.transaction == 1 and log["far"].inserted == [(1, 3), (1, 4), (2, 4)] and not log["reach"]
    assert session.views == ("reach", "lone", "degree", "far") and "far" in session
    assert session.program.outputs == session.plan.outputs == session.views
    heard: list[Any] = []
    session.subscribe("far", heard.append)
    with session.transaction() as tx:
        tx.insert("link", (4, 6))
    assert tx.changes["far"].inserted == heard[0].inserted == [(1, 6), (2, 6), (3, 6), (4, 6)]
    assert tx.changes.transaction == 2
    assert sorted(session.why("far", (2, 6))) == [("link", (2, 3)), ("link", (3, 4)), ("link", (4, 6))]
    assert "far" in str(planner_text(session))
    with pytest.raises(UsageProblem, match="`far` is a view"), session.transaction() as tx:
        tx.insert("far", (1, 1))
    assert_right(session)


def planner_text(session: Any) -> str:
    from planner.explain import explain

    return explain(session.plan)


def test_definitions_over_definitions(session: Any) -> None:
    session.define("far(x, y) :- reach(x, y), y > x + 1.")
    session.define("farther(x) :- far(x, _), !lone(x).")
    session.define("farthest(max<x>) :- farther(x).")
    assert list(session["farthest"]) == [(2,)]
    for name, reader in (("far", "farther"), ("farther", "farthest")):
        with pytest.raises(UsageProblem, match=f"`{name}` cannot be dropped: `{reader}` reads it"):
            session.drop(name)
    with pytest.raises(UsageProblem, match="`reach` cannot be dropped: `far` and `lone` read it"):
        session.drop("reach")
    log = session.drop("far", "farthest", "farther")
    assert log.transaction == 4 and not any(log[name] for name in log)
    assert session.views == ("reach", "lone", "degree") and "far" not in session
    with pytest.raises(KeyError, match="no relation 'far'"):
        session["far"]
    assert_right(session)


def test_views_of_the_program_can_be_dropped(session: Any) -> None:
    session.drop("lone", "reach")
    assert session.views == ("degree",) and sorted(session.program.base) == sorted(FACTS)
    with session.transaction() as tx:
        tx.insert("seen", (3,))
        tx.delete("link", (1, 2))
    session.define("reach(x) :- link(x, _), !seen(x).")
    assert list(session["reach"]) == [(2,), (7,)]
    assert_right(session)


def test_what_nobody_mentions_any_more_is_still_there() -> None:
    """Base relations of a program without declarations are known by their rules alone."""
    with livelog.open("r(x) :- e(x, y), f(y).", facts={"e": [(1, 2), (3, 4)], "f": [(2,)]}) as session:
        session.drop("r")
        assert session.views == () and list(session["e"]) == [(1, 2), (3, 4)]
        session.load("e", [(5, 6)])
        with pytest.raises(CheckProblem, match="`e` has 2 columns, but 1 is given"):
            session.define("q(x) :- e(x).")
        session.define("q(x) :- e(_, x).")
        assert list(session["q"]) == [(2,), (4,), (6,)]
        session.drop("q")
        session.define("q(x) :- e(_, x), x > 2.")  # now it is of numbers
        with pytest.raises(LivelogError, match="column `y`"):
            session.load("e", [(1, "a")])
        session.drop("q")
        session.load("e", [(1, "a")])
        with pytest.raises(LivelogError, match="column `y`") as raised:
            session.define("q(x) :- e(_, x), x > 2.")
        assert "this fact is there" in str(raised.value)
        assert_right(session)


REFUSED = {
    "link(x, y) :- reach(x, y).": ("<definition>:1:1: error: `link` is a base relation", "facts fill it"),
    "  lone(x) :- reach(x, _).": ("<definition>:1:3: error: `lone` is a view of the session", 'session.drop("lone")'),
    ".decl reach(x: number)": ("<definition>:1:7: error: `reach` is a view", ""),
    "far(x) :- raech(x, _).": ("<definition>:1:11: error: unknown relation `raech`: did you mean `reach`?", ""),
    "far(x) :- reach(x).": ("<definition>:1:11: error: `reach` has 2 columns, but 1 is given", "p.dl:6:1: note: "),
    "far(x) :-\n  reach(x, _), x < k.": (
        "<definition>:2:20: error: unsafe variable `k`", "    2 |   reach(x, _), x < k."
    ),
    'far(x) :- reach(x, _), x = "a".': ("<definition>:1:24: error: type clash", "p.dl:"),
    "far(x) :- reach(x, _), !far(x).": ("<definition>:1:24: error: cannot stratify", ""),
    "far(x) :- reach(x, _)": ("<definition>:1:21: error: expected `.` after this", ""),
    "far(1, 2).": ("<definition>:1:1: error: a definition has no facts", "insert them in a transaction"),
    ".input far\nfar(x) :- link(x, _).": ("<definition>:1:8: error: .input cannot stand in a definition", ""),
    ".approx far 0.1\nfar(avg<x>) :- link(x, _).": ("<definition>:1:9: error: .approx cannot stand", ""),
    '.output far(filename="x")\nfar(x) :- link(x, _).': (
        "<definition>:1:9: error: .output in a definition has no `filename`", ""
    ),
    ".const k = 3\nfar(x) :- link(x, k).": ("<definition>:1:8: error: the constant `k` cannot be defined here", ""),
    ".type t = number\n.decl far(x: t)": ("<definition>:1:1: error: the type `t` cannot be defined here", ""),
    ".output reach\nfar(x) :- link(x, _).": ("<definition>:1:9: error: `reach` is not defined here", ""),
    ".decl far(x: nmber)\nfar(x) :- link(x, _).": ("<definition>:1:11: error: unknown type `nmber`", ""),
    ".decl far(x: number) ttl(3)\nfar(x) :- link(x, _).": ("<definition>:1:7: error: `ttl` is for relations", ""),
    "": ("error: a definition has rules, and here is none", ""),
    "// nothing": ("error: a definition has rules, and here is none", ""),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(session: Any, text: str) -> None:
    program, plan, number = session.program, session.plan, session.stats().transactions
    begins, note = REFUSED[text]
    with pytest.raises(LivelogError) as raised:
        session.define(text)
    assert str(raised.value).startswith(begins) and note in str(raised.value)
    assert session.program is program and session.plan is plan and session.stats().transactions == number
    assert_right(session)


def test_all_errors_of_a_definition_at_once(session: Any) -> None:
    with pytest.raises(ProgramErrors) as raised:
        session.define("far(x) :- nope(x).\nfar(x) :- reach(x, y),\n  z < 3.")
    told = str(raised.value)
    assert "<definition>:1:11: error: unknown relation `nope`" in told and "<definition>:3:3: error: unsafe" in told
    with pytest.raises(SyntaxProblem, match="<definition>:1:5"):
        session.define("far x")
    with pytest.raises(UsageProblem, match="the text of rules, not 3"):
        session.define(3)


def test_drops_that_are_refused(session: Any) -> None:
    for names, message in (
        (("link",), "`link` is a base relation"), (("raech",), "no view `raech`: did you mean `reach`"),
        ((), "needs the name"), ((["lone"],), "the name of a view"), (("lone", "reach", "nope"), "no view `nope`"),
    ):  # fmt: skip
        with pytest.raises(UsageProblem, match=message):
            session.drop(*names)
    assert_right(session)


def test_outputs(session: Any) -> None:
    """All views of a definition are outputs, or those that it names; those of the program are as they were."""
    session.define(".output q(form=complete)\nq(x) :- p(x). p(x) :- link(x, _).")
    assert session.plan.outputs == ("q", "reach", "lone", "degree")
    session.define("s(x) :- p(x).")
    assert session.plan.outputs == ("q", "reach", "lone", "degree", "s")
    with livelog.open(PROGRAM + ".output lone", facts=FACTS) as other:
        other.define("s(x) :- link(x, _).")
        assert other.plan.outputs == ("lone", "s")
        other.drop("lone")
        assert other.plan.outputs == ("s",) and other.views == ("reach", "degree", "s")


def test_pruned_relations_can_be_read_by_winners_alone() -> None:
    text = """path(x, y, c) :- link(x, y, c). path(x, y, c + d) :- link(x, z, c), path(z, y, d).
    best(x, y, min<c>) :- path(x, y, c)."""
    with livelog.open(text, facts={"link": [(1, 2, 3), (2, 1, 1), (2, 3, 1)]}) as session:
        assert session.plan.pruned == ("path",)
        with pytest.raises(CheckProblem) as raised:
            session.define("far(x) :-\n  path(x, _, c), c > 3.")
        assert str(raised.value).startswith("<definition>:2:3: error: of `path` only the best tuples are kept")
        assert "`.output path` in the program keeps it whole" in str(raised.value)
        session.define("cheapest(x, y, min<c>) :- path(x, y, c). step(x, y, c) :- path(x, y, c), best(x, y, c).")
        assert list(session["cheapest"]) == list(session["step"]) == list(session["best"])
        session.load("link", [(1, 3, 1)])
        assert list(session["cheapest"]) == list(session["step"]) == list(session["best"])
        session.drop("best", "cheapest", "step")
        with pytest.raises(CheckProblem, match="only the best"):
            session.define("all(x) :- path(x, _, _).")
        session.define("best(x, y, min<c>) :- path(x, y, c).")
        assert (1, 3, 1) in session["best"]
    with livelog.open(text + ".output path", facts={"link": [(1, 2, 3), (2, 3, 1)]}) as session:
        session.define("far(x) :- path(x, _, c), c > 3.")
        assert list(session["far"]) == [(1,)]


def test_auxiliaries_that_others_still_need_stay() -> None:
    """Two views share what is made on the way: when one is dropped and defined again, names do not meet."""
    text = "p(x, w) :- a(x, y), b(y, z), c(z, w). q(x, w) :- a(x, y), b(y, z), c(z, w), x < w."
    facts = {name: [(1, 1), (1, 2), (2, 2)] for name in "abc"}
    with livelog.open(text, facts=facts) as session:
        before = [name for name in session.plan.relations if "/" in name]
        session.drop("p")
        assert [name for name in session.plan.relations if "/" in name] == before
        session.define("p(x, w) :- b(x, y), b(y, z), a(z, w).")
        assert len([name for name in session.plan.relations if "/" in name]) > len(before)
        assert_right(session)
        session.drop("q")
        session.drop("p")
        assert sorted(session.plan.relations) == ["a", "b", "c"]


# --- all or nothing ------------------------------------------------------------------------------------------


FAILING: dict[str, tuple[str, dict[str, Any], str]] = {
    "a rule": ("bad(x) :- reach(x, y), 1 / (y - 4) > 0.", {}, "division by zero"),
    "an overflow": ("bad(s) :- s = sum p * 9223372036854775807 : { part(_, p) }.", {}, "overflow"),
    "the limit of a recursion": (
        "n(x) :- seen(x). n(x + 1) :- n(x).", {"limit": 1000}, "the recursion seems to have no end"
    ),
    "the limit of a product": (
        "prod(a, b, c) :- seen(a), seen(b), link(c, _).", {"limit": 50}, "more than the limit of 50"
    ),
    "the time": (
        "n(x) :- seen(x). n(x + 1) :- n(x), x < 100000000.", {"limit": 10**9, "timeout": 0.3}, "takes longer than 0.3 s"
    ),
    "the second stratum": (
        "fine(x, y) :- reach(x, y). bad(y / x) :- fine(x, z), y = x - 1, z / (x - 7) > 0.", {}, "division"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", FAILING)
@pytest.mark.parametrize("partitions", [1, 3])
def test_what_fails_while_it_is_filled_leaves_nothing(what: str, partitions: int) -> None:
    text, options, message = FAILING[what]
    facts = {**FACTS, "seen": [(i,) for i in range(30)]} if "product" in what else FACTS
    with livelog.open(datalog.parse(PROGRAM, "p.dl"), facts=facts, partitions=partitions, **options) as session:
        session.define("far(x, y) :- reach(x, y), y > x + 1.")
        before = list(session._runtime.workers[0].strata), session.plan, session.stats().tuples
        with pytest.raises(RuntimeProblem, match=message) as raised:
            session.define(text)
        told = str(raised.value)
        assert "the session is as it was" in told and "<definition>:1:" in told, told
        assert (list(session._runtime.workers[0].strata), session.plan, session.stats().tuples) == before
        assert session.views == ("reach", "lone", "degree", "far")
        changed(session)
        assert_right(session)
        session.define("bad(x) :- far(x, _). n(x) :- far(_, x). fine(x) :- n(x). prod(x) :- n(x).")
        assert_right(session)


def test_a_rule_that_fails_later_is_named() -> None:
    with livelog.open(datalog.parse(PROGRAM, "p.dl"), facts=FACTS) as session:
        session.define("ok(x) :- link(x, _).")
        session.define("ratio(x, 10 / y) :-\n  link(x, y).")
        with pytest.raises(RuntimeProblem, match="division by zero") as raised:
            session.load("link", [(1, 0)])
        assert str(raised.value).startswith("<definition>:1:1: error: division by zero")
        assert_right(session)


def lines_of(act: Any) -> int:
    strike = Strike(0, KeyboardInterrupt)
    strike.arm()
    try:
        act()
    finally:
        sys.settrace(None)
    return strike.lines


TEXT = "far(x, y) :- reach(x, y), y > x + 1. two(x, y) :- far(x, y). two(x, y) :- two(x, z), link(z, y), !lone(x)."


@pytest.mark.parametrize("strategy", ["absorption", "recompute"])
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("edit", ["define", "drop"])
def test_an_interrupt_at_any_line(strategy: str, partitions: int, edit: str) -> None:
    """A definition is there wholly or not, and the session goes on; so with a drop."""

    def prepared() -> Any:
        session = livelog.open(PROGRAM, facts=FACTS, partitions=partitions, strategy=strategy)
        session.define("more(x) :- degree(x, _).")
        if edit == "drop":
            session.define(TEXT)
        return session

    def act(session: Any) -> Any:
        return session.define(TEXT) if edit == "define" else session.drop("two", "far")

    session = prepared()
    lines = lines_of(lambda: act(session))
    outcomes = set()
    rng = random.Random(f"{strategy}{partitions}{edit}")
    for at in sorted(rng.sample(range(1, lines), 45)):
        session = prepared()
        error = rng.choice(ERRORS)

        def trial(session: Any = session, at: int = at, error: Any = error) -> str:
            strike = Strike(at, error)
            strike.arm()
            with suppress(BaseException):
                act(session)
            sys.settrace(None)
            assert session.clock == 0
            there = "two" in session
            assert there == ("far" in session) == ("two" in session.views) == ("two" in session.plan.relations)
            assert_right(session)
            changed(session)
            assert_right(session)
            if there:
                session.drop("two", "far")
            session.define(TEXT)
            changed(session)
            assert_right(session)
            return f"{there}"

        outcome = forked(trial)
        assert not outcome.startswith("wrong"), f"at line {at}: {outcome}"
        outcomes.add(outcome)
        session.close()
    assert outcomes == {"True", "False"} or edit == "drop"


# --- threads, subscribers ------------------------------------------------------------------------------------


def test_subscriptions_to_dropped_views_end(session: Any) -> None:
    heard: list[Any] = []
    session.define("far(x, y) :- reach(x, y), y > x + 1.")
    session.subscribe("far", heard.append)
    session.drop("far")
    session.define("far(x) :- link(x, _).")
    session.load("link", [(8, 9)])
    assert not heard
    with pytest.raises(UsageProblem, match="not a view"):
        session.drop("far")
        session.subscribe("far", heard.append)


def test_defining_in_a_callback_and_beside_other_threads(session: Any) -> None:
    rule = "far(x) :- link(x, _)."
    session.subscribe("degree", lambda changes: session.define(rule) if "far" not in session else None)
    session.load("link", [(20, 21)])
    assert (20,) in session["far"]
    problems: list[BaseException] = []

    def commit(start: int) -> None:
        try:
            for i in range(start, start + 20):
                session.load("link", [(i, i + 1)])
        except BaseException as error:
            problems.append(error)

    def define() -> None:
        try:
            for i in range(10):
                session.define(f"v{i}(x) :- reach(x, {30 + i}).")
                session.drop(f"v{i}")
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=commit, args=(30,)), threading.Thread(target=commit, args=(130,)),
               threading.Thread(target=define)]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert_right(session)


# --- what it costs -------------------------------------------------------------------------------------------


def test_dropped_views_leave_nothing_behind() -> None:
    with livelog.open(PROGRAM, facts=FACTS) as session:
        before = session.stats(), len(session.program.rules), len(session.plan.relations)
        for i in range(30):
            session.define(f"v{i}(x, y) :- reach(x, z), reach(z, y), x != {i}. w{i}(count<*>) :- v{i}(_, _).")
            session.drop(f"w{i}", f"v{i}")
        after = session.stats(), len(session.program.rules), len(session.plan.relations)
        assert after[0].tuples == before[0].tuples and after[0].state_bytes == before[0].state_bytes
        assert after[1:] == before[1:] and not session.program.source.parts
        worker = session._runtime.workers[0]
        assert len(worker._places) == len(worker.strata) and set(worker._producer) == {*session.views, "lone/1.1"}


def test_planning_is_the_same_everywhere() -> None:
    """Workers plan what they are told by themselves: the same edits lead to the same plan."""
    from planner.explain import explain

    texts = list(DEFINITIONS.values())
    plans = []
    for _ in range(2):
        planned = Planned.of(program_of(PROGRAM), True)
        for text in texts:
            _, planned = planned.define(text)
        _, planned = planned.drop(["near", "triangle", "two"])
        plans.append(explain(planned.plan))
    assert plans[0] == plans[1]


def test_old_strata_are_the_same_objects() -> None:
    program = program_of(PROGRAM)
    planned = Planned.of(program, True)
    more, _ = defined(program, "far(x) :- reach(x, _).")
    plan = extend(planned.plan, program, more)
    assert all(new is old for new, old in zip(plan.strata, planned.plan.strata, strict=False))
    _, less = Planned(more, plan, True).drop(["lone"])
    assert [s.relations for s in less.plan.strata] == [("reach",), ("degree",), ("far",)]
    assert all(s.index == i for i, s in enumerate(less.plan.strata))
    assert dropped(more, ["far"]).outputs == ("reach", "lone", "degree")
