"""Sessions that are interrupted at given lines of the engine, each in a process of its own. Run by `tests.test_faults`.

A session is prepared once. For every trial the process is forked: what is forked commits a transaction, and at so many
lines of the engine after its begin an error is raised, in its undoing another one, and in the next look at the session
a third. Then the session must be as before the transaction or as after it, and go on.

    python -m tests.faults '{"method": ["dred", null], "partitions": 2, "scenario": "mixed", "faults": 2, "sample": 50}'
"""

from __future__ import annotations

import gc
import json
import math
import os
import random
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import livelog
from datalog.errors import RuntimeProblem, UsageProblem
from livelog.runtime.runtime import Runtime
from livelog.store.followers import Follower
from livelog.store.layout import Layout
from tests.cases import program_of
from tests.fault_cases import SCENARIOS, Scenario
from tests.harness import apply
from tests.oracle import Base, evaluate

ERRORS = (KeyboardInterrupt, MemoryError, RecursionError)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PARTS = tuple(os.path.join(ROOT, part) + os.sep for part in ("livelog", "operators"))
LEFT_OUT = "/livelog/subscribers.py"  # which tells of a transaction when it is committed
FRAME = (
    "/livelog/session.py", "/livelog/transaction.py", "/livelog/runtime/runtime.py", "/livelog/runtime/local.py",
    "/livelog/runtime/worker.py", "/livelog/runtime/collecting.py", "/operators/base.py", "/operators/approx.py",
    "/livelog/runtime/journaled.py", "/livelog/runtime/stored.py", "/livelog/store/",
)  # fmt: skip
NEXT = 4000  # lines after the begin of an undoing, or of a look at the session, within which the next fault comes

Views = dict[str, list[Any]]
State = tuple[Views, Any, float]
"""Views, facts and the clock."""


class Strike:
    """Raises an error at the line of that number, counted in the frames of the engine that begin from now on."""

    def __init__(self, at: int, error: type[BaseException]) -> None:
        self.lines = 0
        self.where = ""
        self.passed: dict[str, list[int]] = {}  # by place in the source; only if nothing is raised
        self._at = at
        self._error = error

    def arm(self) -> None:
        sys.settrace(self._call)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        return self._line if name.startswith((*PARTS, "<kernel")) and not name.endswith(LEFT_OUT) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.lines += 1
            if not self._at:
                self.passed.setdefault(_place(frame), []).append(self.lines)
            elif self.lines == self._at:
                self.where = _place(frame)
                raise self._error("struck")  # which ends the tracing, too
        return self._line


def _place(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename.removeprefix(ROOT)}:{frame.f_lineno}"


def forked(act: Callable[[], str]) -> str:
    """What a function returns in a process that is forked for it and ends with it."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            answer = act()
        except BaseException:
            sys.settrace(None)
            answer = f"wrong\n{traceback.format_exc()}"
        with os.fdopen(writing, "w") as pipe:
            pipe.write(answer)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    return answer if status == 0 and answer else f"wrong\nthe process ended with status {status}"


class Expected:
    """What a session holds before and after the transaction, and what `more` makes of either."""

    def __init__(self, scenario: Scenario, open_: Callable[[], Any]) -> None:
        program = program_of(scenario.text)
        before = Base(program)
        before.load(scenario.facts)
        for operations in scenario.before:
            before.apply(operations)
        after = before.copy()
        if not scenario.fails:
            after.apply(scenario.change)
        self.states = {}
        for name, base, changed in (("before", before, False), ("after", after, not scenario.fails)):
            then = base.copy()
            then.apply(scenario.more)
            if scenario.near:
                now, later = _undisturbed(scenario, open_, changed)
            else:
                now, later = [(_evaluated(program, b), b.facts(), b.clock) for b in (base, then)]
            self.states[name] = (now, later)


def _evaluated(program: Any, base: Base) -> Views:
    return {name: sorted(rows) for name, rows in evaluate(program, base.facts()).items() if name in program.derived}


def _undisturbed(scenario: Scenario, open_: Callable[[], Any], changed: bool) -> tuple[State, State]:
    session = open_()
    if changed:
        commit(session, scenario.change)
    now = state_of(session)
    commit(session, scenario.more)
    return now, state_of(session)


def commit(session: Any, operations: Any) -> Any:
    with session.transaction() as tx:
        apply(tx, operations)
    return tx


def shown(session: Any) -> Views:
    return {name: list(session[name]) for name in session.views}


def facts_of(session: Any) -> dict[str, Counter[Any]]:
    found: dict[str, Counter[Any]] = {name: Counter() for name in session.program.base}
    for name, t, copies in session._settled().facts():
        found[name][t] += copies
    return found


def state_of(session: Any) -> State:
    return shown(session), facts_of(session), session.clock


class Trials:
    """The trials of one session; or, with `sync`, of one that is kept in a folder."""

    def __init__(self, scenario: Scenario, options: dict[str, Any], sync: str | None = None) -> None:
        self.scenario = scenario
        self._options = options
        self.expected = Expected(scenario, self._open)
        self._sync = sync
        self._folders = None if sync is None else Path(tempfile.mkdtemp(prefix="livelog-faults-"))
        self.session = self._open() if self._folders is None else None
        if self._folders is not None:
            self._open(store=self._folders / "s").close()
        self.counts: Counter[str] = Counter()

    def close(self) -> None:
        if self._folders is not None:
            shutil.rmtree(self._folders)

    def _own(self) -> None:
        """In a process that was forked: a session that is kept in a folder must be its own."""
        if self._folders is not None:
            self.session_folder = self._folders / f"{os.getpid()}"
            shutil.copytree(self._folders / "s", self.session_folder)
            self.session = livelog.resume(self.session_folder, sync=self._sync or "")

    def _reopened(self, views: Views) -> list[str]:
        """Close the session and open it again: what is wrong then."""
        _, facts, clock = state_of(self.session)
        self.session.close()
        self.session = livelog.resume(self.session_folder, sync=self._sync or "")
        if state_of(self.session) == (views, facts, clock):
            return []
        return [f"the folder has something else than the session: {state_of(self.session)}"]

    def _open(self, **store: Any) -> Any:
        options = {**self._options, **store}
        session = livelog.open(program_of(self.scenario.text), facts=self.scenario.facts, seed=5, **options)
        for operations in self.scenario.before:
            commit(session, operations)
        return session

    def lines(self) -> dict[str, list[int]]:
        """The lines that the transaction takes, by number, for each place in the source."""
        def passing() -> str:
            self._own()
            return json.dumps(self._struck([(0, KeyboardInterrupt)])[0].passed)

        passed = forked(passing)
        return dict(json.loads(passed))

    def trial(self, strikes: list[tuple[int, type[BaseException]]]) -> str:
        """What is wrong after faults at these lines of the commit, of its undoing and of the next look."""
        answer = forked(lambda: self._verified(strikes))
        kind, _, problem = answer.partition("\n")
        self.counts[kind] += 1
        return problem

    def _struck(self, strikes: list[tuple[int, type[BaseException]]]) -> tuple[Strike, Any, BaseException | None]:
        first, *others = [Strike(*strike) for strike in strikes]
        tx = self.session.transaction()
        apply(tx, self.scenario.change)
        raised: BaseException | None = None
        if others:
            real = Runtime._undo

            def undo(self: Runtime, error: BaseException) -> None:
                others[0].arm()
                real(self, error)

            Runtime._undo = undo  # type: ignore[method-assign]
        first.arm()
        try:
            tx.commit()
        except BaseException as error:
            raised = error
        finally:
            sys.settrace(None)
        for strike in others[1:]:
            strike.arm()
            try:
                list(self.session[self.session.views[0]])
            except BaseException:  # it was struck
                pass
            finally:
                sys.settrace(None)
        first.where = " ".join(strike.where for strike in (first, *others) if strike.where)
        return first, tx, raised

    def _verified(self, strikes: list[tuple[int, type[BaseException]]]) -> str:
        self._own()
        session = self.session
        begin = session._with_journal.journal.number if self._sync else 0
        transactions = session.stats().transactions
        heard: list[Any] = []
        for name in session.views:
            session.subscribe(name, heard.append)
        former = shown(session)
        strike, tx, raised = self._struck(strikes)
        problems = []
        if len(strikes) == 1 and not gc.isenabled() and "collecting.py" not in strike.where:
            problems.append("the collector is off")
        views = shown(session)
        facts, clock = facts_of(session), session.clock
        kinds = [
            kind for kind, ((want, known, time), _) in self.expected.states.items()
            if views == {name: want[name] for name in views} and facts == known and clock == time
        ]  # fmt: skip
        if not kinds:
            kinds = ["between"]
            problems.append(f"a state between: {views}\n{facts}\n{clock}")
        kind = kinds[0]
        told = self._told(tx)
        if raised is None and kind != "after":
            problems.append("the commit returned, and it has not happened")
        if isinstance(raised, RuntimeProblem) and "rolled back" in str(raised) and kind == "after":
            problems.append(f"it is said that it was rolled back: {raised}")
        if kind == "after" and session.stats().transactions != transactions + 1:
            problems.append("the transaction is not counted")
        if kind == "before" and session.stats().transactions != transactions:
            problems.append("a transaction is counted that was none")
        if told is not None and not problems:
            problems += self._differences(told, "before", kind, views)
        if not problems:
            session.check()
            if self._sync and strikes[0][0] % 2:
                problems += self._reopened(views)
                problems += self._goes_on(kind, views)
            else:
                problems += self._goes_on(kind, views)
                problems += _added_up(former, heard, shown(session))
                if self._sync:
                    problems += self._reopened(shown(session))
            if self._sync:
                problems += self._recorded(former, begin)
                self.session.close()
                shutil.rmtree(self.session_folder)
        name = kind if raised is None else f"{kind}, {type(raised).__name__}{'' if told is None else ', told'}"
        text = "".join(f"{strikes} at {strike.where}, raised {raised!r}: {p}\n" for p in problems)
        return f"{'wrong' if problems else name}\n{text}"

    def _recorded(self, former: Views, begin: int) -> list[str]:
        """What readers hear leads from one state to the other."""
        now, layout = shown(self.session), Layout(self.session_folder)
        self.session._with_journal.journal.flush()
        for view in self.session.plan.outputs:
            follower = Follower(layout, view, begin)
            rows = set(former[view])
            for number, inserted, deleted in follower.changes():
                if not rows.isdisjoint(inserted) or not rows.issuperset(deleted):
                    return [f"readers of {view} hear of {number} twice or out of order"]
                rows.difference_update(deleted)
                rows.update(inserted)
            follower.close()
            if rows != set(now[view]):
                return [f"readers of {view} do not hear of everything"]
        return []

    def _told(self, tx: Any) -> Any:
        try:
            return tx.changes
        except UsageProblem:
            return None

    def _differences(self, told: Any, old: str, new: str, views: Views) -> list[str]:
        if new != "after":
            return ["changes are told of a transaction that is none"]
        former = self.expected.states[old][0][0]
        return _compared(told, {name: former[name] for name in views}, views)

    def _goes_on(self, kind: str, views: Views) -> list[str]:
        later, facts, _ = self.expected.states[kind][1]
        session = self.session
        tx = commit(session, self.scenario.more)
        now = shown(session)
        problems = _compared(tx.changes, views, now)
        if now != {name: later[name] for name in now} or facts_of(session) != facts:
            problems.append(f"the next transaction is wrong: {now}")
        session.check()
        return problems


def _compared(told: Any, old: Views, new: Views) -> list[str]:
    return [
        f"the changes of {name} are wrong: {told[name]}"
        for name in new
        if (told[name].inserted, told[name].deleted)
        != (sorted(set(new[name]) - set(old[name])), sorted(set(old[name]) - set(new[name])))
    ]


def _added_up(former: Views, heard: list[Any], now: Views) -> list[str]:
    """What subscribers heard leads from one state to the other."""
    rows = {name: set(some) for name, some in former.items()}
    for changes in heard:
        held = rows[changes.relation]
        if not held.isdisjoint(changes.inserted) or not held.issuperset(changes.deleted):
            return [f"subscribers of {changes.relation} heard something twice or out of order: {changes}"]
        held.difference_update(changes.deleted)
        held.update(changes.inserted)
    return [f"subscribers of {name} did not hear of everything" for name in now if rows[name] != set(now[name])]


def strikes_of(lines: dict[str, list[int]], faults: int, sample: int | None, rng: random.Random) -> list[Any]:
    """Where the faults come: at every place in the source that the transaction passes, some time or other, with every
    error; or at some, with one.

    The faults that follow come soon, or late, with any error.
    """
    if sample is None:
        first = [(place, error) for place in lines for error in ERRORS]
    else:  # half of them in what leads through a transaction, where there are few lines
        frame = [place for place in lines if place.startswith(FRAME)]
        places = rng.choices(list(lines), k=sample // 2) + rng.choices(frame, k=sample - sample // 2)
        first = [(place, rng.choice(ERRORS)) for place in places]
    return [
        [
            (rng.choice(lines[place]), error),
            *((int(math.exp(rng.uniform(0, math.log(NEXT)))), rng.choice(ERRORS)) for _ in range(faults - 1)),
        ]
        for place, error in first
    ]


def main(job: dict[str, Any]) -> dict[str, Any]:
    strategy, ship = job["method"]
    scenario = SCENARIOS[job["scenario"]]
    rng = random.Random(json.dumps(job))
    trials = Trials(scenario, {"strategy": strategy, "ship": ship, "partitions": job["partitions"]}, job.get("sync"))
    problems = []
    lines = trials.lines()
    if "only" in job:
        lines = {place: at for place, at in lines.items() if place.startswith(tuple(job["only"]))}
    for strikes in strikes_of(lines, job["faults"], job["sample"], rng):
        if problem := trials.trial(strikes):
            problems.append(problem)
    trials.close()
    return {**job, "places": len(lines), "counts": trials.counts, "wrong": len(problems), "problems": problems[:5]}


if __name__ == "__main__":
    for text in sys.argv[1:]:
        print(json.dumps(main(json.loads(text))), flush=True)
