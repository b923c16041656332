"""Definitions and drops in a folder: they are logged, survive whatever ends a process, and are there wholly or not."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

import datalog
import livelog
from datalog.errors import LivelogError, RuntimeProblem, UsageProblem
from livelog.planned import Planned
from livelog.runtime import stored
from livelog.store import journal
from livelog.store.followers import Follower, followed
from livelog.store.formats import Description, sealed
from livelog.store.journal import describe
from livelog.store.layout import Layout
from tests.cases import program_of, states, succeeding
from tests.defining import Group, Pieces
from tests.faults import ERRORS, Strike, forked
from tests.generate import generate
from tests.harness import METHODS, Mismatch, apply
from tests.oracle import Base, evaluate
from tests.registered import AGGREGATES, FUNCTIONS
from tests.stores import read
from tests.test_define import FACTS, PROGRAM, assert_right, changed, lines_of
from tests.test_store_crashes import KEPT, Tell, images, quick, ran  # noqa: F401

FAR = "far(x, y) :- reach(x, y), y > x + 1."
DEEP = "deep(x, max<y>) :- far(x, y). one(1 + 0) :- 1 < 2. first(y) :- one(x), link(x, y)."


def summed(folder: Path, view: str) -> set[Any]:
    """What the recorded changes of a view add up to."""
    rows: set[Any] = set()
    for number, inserted, deleted in read(Layout(folder), view):
        assert rows.issuperset(deleted), f"{view} loses at {number} what it has not: {deleted}"
        rows.difference_update(deleted)
        assert rows.isdisjoint(inserted), f"{view} gains at {number} what it has"
        rows.update(inserted)
    return rows


def hold(folder: Path) -> None:
    """Let nothing be removed of what is recorded: a reader has yet to read it."""
    layout = Layout(folder)
    for view in followed(layout):
        if not layout.follower(view, "holder").exists():
            Follower(layout, view, None, "holder").close()


def assert_kept(session: Any, folder: Path, interrupted: bool = False) -> None:
    """Every view is right, and what is recorded of the changes of each adds up to it."""
    assert_right(session)
    session._with_journal.journal.flush()
    found, outputs = followed(Layout(folder)), sorted(session.plan.outputs)
    assert found == outputs or (interrupted and set(found) > set(outputs))
    for view in session.plan.outputs:
        assert summed(folder, view) == set(session[view]), view


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_definitions_are_there_again(tmp_path: Path, partitions: int, checkpoint: bool) -> None:
    session = livelog.open(PROGRAM, facts=FACTS, store=tmp_path, partitions=partitions)
    assert session.define(FAR).transaction == 1
    hold(tmp_path)
    changed(session)
    session.define(DEEP)
    hold(tmp_path)
    changed(session)
    number = session.drop("lone").transaction
    if checkpoint:
        session.checkpoint()
    session.define("lone(x) :- seen(x), !far(x, _).")
    assert_kept(session, tmp_path)
    hold(tmp_path)
    before = {name: list(session[name]) for name in session.views}
    session.close()
    for way in ("resume", "open", "resume"):
        if way == "resume":
            session = livelog.resume(tmp_path)
        else:
            session = livelog.open(PROGRAM, store=tmp_path, partitions=partitions)
        assert {name: list(session[name]) for name in session.views} == before
        assert session.views == ("reach", "degree", "far", "deep", "one", "first", "lone")
        assert_kept(session, tmp_path)
        assert session.define("more(x) :- deep(x, _).").transaction > number
        session.drop("more")
        if way == "open":
            session.checkpoint()
            session.checkpoint()
        session.close()


def test_what_the_log_says_of_a_view_that_came_later(tmp_path: Path) -> None:
    """Its changes begin with the definition, which inserts it as it is."""
    with livelog.open(PROGRAM, facts=FACTS, store=tmp_path) as session:
        session.load("link", [(4, 5)])
        log = session.define(FAR)
        reader = session.changes("far", name="reader")
        first = list(reader)
        assert [(c.transaction, c.inserted) for c in first] == [(log.transaction, log["far"].inserted)]
        session.load("link", [(9, 20)])
        assert [c.inserted for c in reader] == [[(9, 20)]]
    done = subprocess.run(
        [sys.executable, "-m", "livelog", "changes", str(tmp_path), "far", "--format", "json"], capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["transaction"] for record in told] == [2, 3]
    assert told[1]["changes"] == {"far": {"inserted": [[9, 20]], "deleted": []}}
    with livelog.resume(tmp_path) as session:
        session.drop("far")
        session.define("far(x) :- link(x, _).")
        assert summed(tmp_path, "far") == set(session["far"])
        with pytest.raises(UsageProblem):
            list(reader)


def test_a_view_that_is_no_output_is_not_recorded(tmp_path: Path) -> None:
    with livelog.open(PROGRAM + ".output lone", facts=FACTS, store=tmp_path) as session:
        session.define(f".output deep\n{FAR} deep(x, max<y>) :- far(x, y).")
        assert followed(Layout(tmp_path)) == ["deep", "lone"]
        session.changes("far").close()
        session.drop("deep")
        assert followed(Layout(tmp_path)) == ["far", "lone"]
    with livelog.resume(tmp_path) as session:
        assert session.plan.outputs == ("lone",) and session.views == ("reach", "lone", "degree", "far")


def test_the_program_and_its_definitions(tmp_path: Path) -> None:
    """The folder is of the program with which it began: that can be opened, another is refused, or takes it over."""
    with livelog.open(PROGRAM, facts=FACTS, store=tmp_path) as session:
        session.define(FAR)
        assert describe(tmp_path).program == PROGRAM
        facts = session._runtime.facts()
    whole = f"{PROGRAM}\n{FAR}"
    with pytest.raises(UsageProblem, match="of another program"):
        livelog.open(whole, store=tmp_path)
    with livelog.open(whole, store=tmp_path, migrate=True) as session:
        assert session.views == ("reach", "lone", "degree", "far") and not session._with_journal.journal.edits
        assert sorted(session._runtime.facts()) == sorted(facts)
        assert_kept(session, tmp_path)
        session.drop("far", "lone")
    with livelog.open(whole, store=tmp_path) as session:
        assert session.views == ("reach", "degree")
        assert_kept(session, tmp_path)


def test_migration_from_a_folder_with_definitions_in_its_log(tmp_path: Path) -> None:
    with livelog.open(PROGRAM, facts=FACTS, store=tmp_path) as session:
        session.define(DEEP.replace("far", "reach"))
        session.load("link", [(30, 31)])
        session.drop("lone")
        session.checkpoint()
        session.define("lone(x) :- link(x, _).")
        session.load("link", [(31, 30)])
    with livelog.open(PROGRAM + "more(x) :- link(x, _).", store=tmp_path, migrate=True) as session:
        assert (31,) in session["more"] and session.views == ("reach", "lone", "degree", "more")
        assert_kept(session, tmp_path)


def test_a_folder_of_a_former_version(tmp_path: Path) -> None:
    with livelog.open(PROGRAM, facts=FACTS, store=tmp_path) as session:
        session.load("link", [(8, 9)])
    told = describe(tmp_path)
    Layout(tmp_path).session.write_bytes(sealed(msgspec.structs.replace(told, version=2)))
    with livelog.resume(tmp_path) as session:
        assert describe(tmp_path).version == 3 == Description(name="", program="").version
        session.define(FAR)
        assert_kept(session, tmp_path)
    with livelog.resume(tmp_path) as session:
        assert_kept(session, tmp_path)


def test_a_failed_definition_is_not_in_the_log(tmp_path: Path) -> None:
    with livelog.open(PROGRAM, facts=FACTS, store=tmp_path) as session:
        number = session._with_journal.journal.number
        for text in ("bad(x) :- reach(x, y), 1 / (y - 4) > 0.", "bad(x) :- nope(x)."):
            with pytest.raises(LivelogError):
                session.define(text)
                session.load("seen", [(1,)])
        assert session._with_journal.journal.number == number
        assert followed(Layout(tmp_path)) == ["degree", "lone", "reach"]
        assert_kept(session, tmp_path)


def test_what_nothing_is_left_of_goes_from_the_log(tmp_path: Path) -> None:
    with livelog.open(PROGRAM, facts=FACTS, store=tmp_path) as session:
        for i in range(5):
            session.define(f"v{i}(x) :- reach(x, {i}).")
            if i != 3:
                session.drop(f"v{i}")
        assert [edit.names for edit in session._with_journal.journal.edits] == [("v3",)]
        session.checkpoint()
    with livelog.resume(tmp_path) as session:
        assert session.views == ("reach", "lone", "degree", "v3")
        assert_kept(session, tmp_path)


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A definition that cannot be logged is undone."""
    with livelog.open(PROGRAM, facts=FACTS, store=tmp_path) as session:
        writer = session._with_journal.journal._writer
        with monkeypatch.context() as patch:
            def full(*bodies: bytes) -> None:
                raise RuntimeProblem("no space")

            patch.setattr(writer, "append", full)
            with pytest.raises(RuntimeProblem, match="no space"):
                session.define(FAR)
            assert "far" not in session.views and followed(Layout(tmp_path)) == ["degree", "lone", "reach"]
            assert_right(session)
        session.define(FAR)
        assert_kept(session, tmp_path)


TIMED = ".decl temp(r: symbol, v: number) key(r)\n.decl s(x: number) stream\nbig(r) :- temp(r, v), v > 50."


@pytest.mark.parametrize("checkpoint", [False, True])
def test_definitions_with_times_are_there_again(tmp_path: Path, checkpoint: bool) -> None:
    """What is kept of a point, and the times that tuples were given, are those of the definition for ever."""
    def at(session: Any, when: float, *rows: Any) -> None:
        with session.transaction() as tx:
            tx.advance_to(when)
            for row in rows:
                tx.insert(*row)

    session = livelog.open(TIMED, store=tmp_path)
    at(session, 3, ("temp", ("a", 90)), ("s", (1,)))
    session.define("hot(r, v) :- temp(r, v) at every(4). since(r, t) :- big(r)@t. w(x) :- s(x)@t, now(n), n - 5 < t.")
    at(session, 4, ("temp", ("b", 70)))
    at(session, 5, ("temp", ("a", 95)))
    if checkpoint:
        session.checkpoint()
    session.define("hot2(r, v) :- temp(r, v) at every(4). times(r, t) :- temp(r, _)@t.")
    shown = {name: list(session[name]) for name in session.views}
    assert shown["hot"] == shown["hot2"] == [("a", 90), ("b", 70)] and shown["since"] == [("a", 3), ("b", 4)]
    assert shown["times"] == [("a", 5), ("b", 5)] and shown["w"] == [(1,)]
    session.close()
    for _ in range(2):
        session = livelog.resume(tmp_path)
        assert {name: list(session[name]) for name in session.views} == shown
        session.check()
        session.close()
    session = livelog.resume(tmp_path)
    at(session, 8.5)
    assert list(session["hot"]) == list(session["hot2"]) == [("a", 95), ("b", 70)] and list(session["w"]) == []
    session.drop("hot", "since", "w", "hot2")
    session.close()
    session = livelog.resume(tmp_path)
    assert session.views == ("big", "times") and list(session["times"]) == [("a", 5), ("b", 5)]
    session.check()
    session.close()


# --- a process that ends anywhere ----------------------------------------------------------------------------


STEPS: list[Any] = [
    {"link": [(4, 5)]}, FAR, {"link": [(5, 6)]}, DEEP, {"link": [(6, 1)], "seen": [(4,)]}, ("lone",), {"seen": [(2,)]},
    "lone(x) :- seen(x), !far(x, _).", {"link": [(9, 9)]}, ("deep", "far", "lone"), {"link": [(2, 9)]}, FAR,
    {"link": [(9, 3)]},
]  # fmt: skip
CHECKPOINTS = (4, 8, 10)


def prefixes() -> list[dict[str, set[Any]]]:
    """The views after each number of steps."""
    planned, base = Planned.of(program_of(PROGRAM), True), Base(program_of(PROGRAM))
    base.load(FACTS)
    found = []
    for step in [None, *STEPS]:
        if isinstance(step, str):
            _, planned = planned.define(step)
        elif isinstance(step, tuple):
            _, planned = planned.drop(step)
        elif step is not None:
            base.apply([("insert", name, row) for name, rows in step.items() for row in rows])
        everything = evaluate(planned.program, base.facts())
        found.append({name: everything[name] for name in planned.plan.published})
    return found


def do(session: Any, step: Any) -> None:
    if isinstance(step, str):
        session.define(step)
    elif isinstance(step, tuple):
        session.drop(*step)
    else:
        with session.transaction() as tx:
            for name, rows in step.items():
                tx.insert_all(name, rows)


@pytest.mark.parametrize(("partitions", "sync", "share"), [(1, "always", 3), (3, "interval", 4)])
def test_a_life_with_definitions_that_ends_anywhere(
    tmp_path: Path, quick: None, request: pytest.FixtureRequest, partitions: int, sync: str, share: int  # noqa: F811
) -> None:
    """Whatever call is the last one: a definition is there wholly or not, and what was told stands."""
    expected = prefixes()

    def act(folder: Path, tell: Tell) -> None:
        session = KEPT(livelog.open(PROGRAM, facts=FACTS, store=folder, partitions=partitions, sync=sync))
        tell("founded 1")
        hold(folder)
        for k, step in enumerate(STEPS, 1):
            tell(f"begun {k}")
            do(session, step)
            hold(folder)
            if sync == "always" or not isinstance(step, dict):
                tell(f"sure {k}")
            if k in CHECKPOINTS:
                session.checkpoint()
        session.close()

    (tmp_path / "dry").mkdir()
    total = ran(act, tmp_path / "dry", None).last("calls")
    assert total > 150
    asked, ends = request.config.getoption("--faults"), set()
    for stop in range(1, total + 1, 1 if asked else share):
        root = tmp_path / f"{stop}"
        root.mkdir()
        told = ran(act, root, stop)
        ways = images(root)
        for way, folder in ways if asked else [ways[stop // share % 3]]:
            try:
                if not Layout(folder).session.exists():
                    assert not told.all("founded")
                    continue
                session = livelog.open(PROGRAM, facts=FACTS, store=folder, partitions=partitions)
                views = {name: set(session[name]) for name in session.views}
                least, most = told.last("sure"), told.last("begun")
                at = [k for k in range(least, most + 1) if expected[k] == views]
                assert at, f"{sorted(views)} is not how things stood between {least} and {most}"
                ends.add(at[0])
                assert_kept(session, folder)
                hold(folder)
                for step in STEPS[at[-1] :]:
                    do(session, step)
                assert {name: set(session[name]) for name in session.views} == expected[-1]
                assert_kept(session, folder)
                session.close()
                session = livelog.resume(folder)
                assert_kept(session, folder)
                session.close()
            except BaseException:
                print(f"stopped at call {stop} of {total}, {way}: {folder}")
                raise
        for made in tmp_path.glob(f"{stop}*"):
            shutil.rmtree(made)
    assert len(ends) > 6


@pytest.mark.parametrize("sync", ["always", "interval"])
@pytest.mark.parametrize("edit", ["define", "drop"])
def test_an_interrupt_at_any_line(
    tmp_path: Path, quick: None, request: pytest.FixtureRequest, sync: str, edit: str  # noqa: F811
) -> None:
    before = tmp_path / "before"
    session = livelog.open(PROGRAM, facts=FACTS, store=before)
    session.define("more(x) :- degree(x, _).")
    if edit == "drop":
        session.define(f"{FAR} {DEEP}")
    session.close()

    def act(session: Any) -> None:
        if edit == "define":
            session.define(f"{FAR} {DEEP}")
        else:
            session.drop("deep", "far", "one", "first")

    def opened(name: str) -> Any:
        shutil.copytree(before, tmp_path / name)
        return livelog.open(PROGRAM, store=tmp_path / name, sync=sync)

    session = opened("dry")
    lines = lines_of(lambda: act(session))
    session.close()
    rng, outcomes = random.Random(f"{sync}{edit}"), set()
    for at in sorted(rng.sample(range(1, lines), int(request.config.getoption("--faults") or 50))):
        error = rng.choice(ERRORS)

        def trial(at: int = at, error: Any = error) -> str:
            session = opened(f"{at}")
            strike = Strike(at, error)
            strike.arm()
            with suppress(BaseException):
                act(session)
            sys.settrace(None)
            assert session.clock == 0
            there = "deep" in session
            changed(session)
            assert_kept(session, tmp_path / f"{at}", interrupted=True)
            session.close()
            session = livelog.resume(tmp_path / f"{at}")
            assert there == ("deep" in session)
            assert_kept(session, tmp_path / f"{at}")
            if there:
                session.drop("deep", "far", "one", "first")
            session.define(f"{FAR} {DEEP}")
            changed(session)
            assert_kept(session, tmp_path / f"{at}")
            session.close()
            return f"{there}"

        outcome = forked(trial)
        assert not outcome.startswith("wrong"), f"at line {at}: {outcome}"
        outcomes.add(outcome)
    assert outcomes == {"True", "False"} or edit == "drop"


# --- random histories ----------------------------------------------------------------------------------------


def run(seed: int, folder: Path) -> None:
    """A random program whose views come and go, in a folder that is closed or copied at random points."""
    case = succeeding(generate(seed))
    expected, pieces, rng = states(case), Pieces(case), random.Random(f"define store {seed}")
    there: list[Group] = []
    text, deaths = pieces.text, 0
    session: Any = livelog.open(program_of(text), facts=case.loaded, store=folder, limit=200_000)

    def edit() -> None:
        new, old = pieces.choice(rng, there)
        if new is not None:
            try:
                session.define(new.text)
            except datalog.errors.CheckProblem:
                return
            there.append(new)
        elif old is not None:
            session.drop(*old.names)
            there.remove(old)

    at = -1
    try:
        for at, operations in enumerate([(), *case.history]):
            for _ in range(rng.choice((0, 1, 2))):
                edit()
                hold(folder)
            if at:
                with session.transaction() as tx:
                    apply(tx, operations)
            roll = rng.random()
            if roll < 0.15:
                session.checkpoint()
            elif roll < 0.5:
                if roll < 0.3:  # killed: what is there is what is left
                    deaths += 1
                    session._with_journal.journal.flush()
                    left = folder.with_name(f"{folder.name}-{deaths}")
                    shutil.copytree(folder, left)
                    session.close()
                    folder = left
                else:
                    session.close()
                strategy, ship = rng.choice(METHODS)
                if rng.random() < 0.5:
                    session = livelog.resume(folder, functions=FUNCTIONS, aggregates=AGGREGATES)
                else:
                    session = livelog.open(
                        program_of(text), store=folder, strategy=strategy, ship=ship, partitions=rng.choice((1, 3)),
                        limit=200_000,
                    )  # fmt: skip
            for name in sorted(session.program.derived | session.program.base):
                if not name.startswith("known_") and name not in session.plan.pruned:
                    assert set(session[name]) == expected[at].relations[name], f"{name} after {at}"
        session.check()
        session._with_journal.journal.flush()
        for view in followed(Layout(folder)):
            assert summed(folder, view) == set(session[view]), view
    except Exception as error:
        text = f"seed {seed}: {error}\n{[g.names for g in there]}\n{case.show(at - 1)}"
        raise Mismatch(type(error).__name__, text) from error
    finally:
        session.close()


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_histories_with_definitions_across_reopenings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    monkeypatch.setattr(journal, "INTERVAL", 3600)
    monkeypatch.setattr(stored, "LEAST", 600)
    for seed in range(first, first + 10):
        run(seed, tmp_path / f"{seed}")


def test_followers_of_dropped_views_hear_of_it(tmp_path: Path) -> None:
    with livelog.open(PROGRAM, facts=FACTS, store=tmp_path) as session:
        session.define(FAR)
        reader = Follower(Layout(tmp_path), "far")
        assert list(reader.changes())
        session.drop("far")
        with pytest.raises(UsageProblem, match="kept no more"):
            list(reader.changes())
        reader.close()


def test_base_relations_of_definitions_are_not_lost_by_a_migration(tmp_path: Path) -> None:
    with livelog.open(PROGRAM, facts=FACTS, store=tmp_path) as session:
        session.define(".decl fresh(x: number)\nfine(x) :- fresh(x).")
        session.load("fresh", [(1,), (2,)])
        session.checkpoint()
        session.load("fresh", [(3,)])
    with pytest.raises(UsageProblem, match="no relation `fresh` for the facts that are there"):
        livelog.open(PROGRAM + "more(x) :- link(x, _).", store=tmp_path, migrate=True)
    with livelog.open(
        PROGRAM + ".decl fresh(x: number)\nfine(x) :- fresh(x), x > 1.", store=tmp_path, migrate=True
    ) as session:
        assert list(session["fine"]) == [(2,), (3,)]
        assert_kept(session, tmp_path)
