"""Runs a case with times on the engine, and holds every step of every transaction against the oracle."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from datalog.errors import LivelogError
from tests.cases import program_of
from tests.harness import METHODS, Configuration, Mismatch, OnPurpose, accumulate, difference
from tests.oracle import Operation, Row
from tests.oracle_streams import Moment, numbered, rests
from tests.stream_cases import StreamCase, StreamState, states

PARTITIONS = (1, 3)


def configurations(seed: int, count: int = 3) -> list[Configuration]:
    """Some ways of running: one seed after the other, every method comes as often as any."""
    rng = random.Random(f"stream configurations {seed}")
    chosen = []
    for i in range(count):
        strategy, ship = METHODS[(seed * count + i) % len(METHODS)]
        partitions = rng.choice(PARTITIONS)
        chosen.append(Configuration(strategy, ship, partitions, rng.randrange(1000) if partitions > 1 else None))
    return chosen


def apply(transaction: Any, operations: Iterable[Operation], rng: random.Random) -> None:
    """Put operations into a transaction: more than two of a kind at once, and some of those right behind a move of the
    clock move it themselves."""
    waiting = list(operations)
    while waiting:
        kind, *what = waiting.pop(0)
        if kind == "raise":
            raise OnPurpose
        options = {}
        if kind == "advance" and waiting and waiting[0][0] in ("insert", "delete") and rng.random() < 0.4:
            options = {"at": what[0]}
            kind, *what = waiting.pop(0)
        several = [what[-1]]
        while kind in ("insert", "delete") and waiting and waiting[0][:2] == (kind, what[0]):
            several.append(waiting.pop(0)[2])
        if len(several) > 2:
            if options:
                transaction.advance_to(options["at"])
            (transaction.insert_all if kind == "insert" else transaction.delete_all)(what[0], several)
            continue
        waiting[:0] = [(kind, what[0], row) for row in several[1:]]
        if kind == "advance":
            transaction.advance_to(*what)
        else:
            (transaction.insert if kind == "insert" else transaction.delete)(*what, **options)


class Followed:
    """What a reader of the steps knows: the rows of each view, by changes and by operations."""

    def __init__(self, program: Any, session: Any) -> None:
        self.views = list(session.views)
        self.streams = {view for view in self.views if program.relations[view].stream}
        self.timed = session.plan.timed
        self.keys = {view: session.plan.relations[view].key for view in self.views}
        self.rows: dict[str, set[Row]] = {view: set() for view in self.views}
        self.told: dict[str, set[Row]] = {view: set() for view in self.views}
        self.net: dict[str, set[Row]] = {view: set() for view in self.views}
        self._rests = rests(program)
        self._promised: dict[str, tuple[float, float, float | None, set[Row]]] = {}

    def promise(self, session: Any) -> str:
        """Note how long each view is said to be valid."""
        problems = []
        for view in self.views:
            through, following = session[view].valid
            self._promised[view] = session.clock, through, following, set(self.rows[view])
            if through < session.clock or (following is not None and following <= session.clock):
                problems.append(f"{view} is said to be valid through {through}, and to change next at {following}")
        return "\n".join(problems)

    def _kept(self, moment: Moment) -> Iterator[str]:
        """What was promised and is not so. While the clock stands every commit may change things."""
        for view, (since, through, following, rows) in self._promised.items():
            if moment.time <= since:
                self._promised[view] = since, through, following, moment.relations[view]
            elif moment.time <= through and moment.relations[view] != rows:
                yield f"{view} was said at {since} to be valid through {through}, and is other at {moment.time}"
            if following == moment.time and not moment.points & self._rests[view]:
                yield f"{view} was said at {since} to be refreshed at {following}"

    def transaction(self, moments: Iterable[Moment], steps: Iterable[Any], changes: Mapping[str, Any]) -> str:
        """What is wrong with the steps and the net changes of a transaction; empty if nothing is."""
        problems, left, last = [], list(steps), None
        moments = list(moments)
        for step in left:
            if last is not None and step.time <= last:
                problems.append(f"a step at {step.time} comes behind one at {last}")
            last = step.time
            if type(step.time) is not (int if step.time == int(step.time) else float):
                problems.append(f"the time {step.time!r} is a {type(step.time).__name__}")
        for moment in moments if self.timed else moments[-1:]:
            while left and left[0].time <= moment.time:
                step = left.pop(0)
                if step.time != moment.time:
                    problems.append(f"a step at {step.time}, where nothing can be due")
                problems.append(self._step(step, moment))
            for view in self.views:
                for how, rows in (("changes", self.rows), ("operations", self.told)):
                    if found := difference(moment.relations[view], rows[view]):
                        problems.append(f"{view} at {moment.time} by the {how} of steps\n{found}")
            problems.extend(self._kept(moment))
            if any(problems):
                return "\n".join(filter(None, problems))
        problems += [f"a step at {step.time} is not expected" for step in left]
        problems.append(self._add(self.net, changes))
        for view in self.views:
            if found := difference(self.rows[view], self.net[view]):
                problems.append(f"{view}: the net changes are not the sum of the steps\n{found}")
        return "\n".join(filter(None, problems))

    def _step(self, step: Any, moment: Moment) -> str:
        problems = [self._add(self.rows, step)]
        changed = [view for view in self.views if step[view]]
        for view in changed:
            change = step[view]
            if change.time != step.time:
                problems.append(f"{view} changes at {change.time} in a step at {step.time}")
            if self.timed and change.full != moment.full[view]:
                problems.append(f"{view} at {step.time} is said to be {'full' if change.full else 'partial'}")
            problems.append(self._operations(view, change.operations))
        if self.timed and changed and step.full != all(moment.full[view] for view in changed):
            problems.append(f"the step at {step.time} is said to be {'full' if step.full else 'partial'}")
        return "\n".join(filter(None, problems))

    def _add(self, current: dict[str, set[Row]], changes: Mapping[str, Any]) -> str:
        """Add published changes to the sum so far. Each arrival in a stream is one."""
        problems = [accumulate(current, changes, [view for view in self.views if view not in self.streams])]
        for view in self.streams:
            copies, change = Counter(row for row, _ in current[view]), changes[view]
            copies.update(change.inserted)
            copies.subtract(change.deleted)
            if -copies or set(change.inserted) & set(change.deleted):
                problems.append(f"{view}: +{change.inserted} -{change.deleted} is no net change")
            current[view] = numbered(copies.elements())
        return "\n".join(filter(None, problems))

    def _operations(self, view: str, operations: Iterable[tuple[str, Row]]) -> str:
        """One by one they make the new rows of the old ones."""
        rows, key, problems = self.told[view], self.keys[view], []
        operations = list(operations)
        if view in self.streams:
            copies = Counter(row for row, _ in rows)
            copies.update(row for op, row in operations if op == "+")
            copies.subtract(row for op, row in operations if op == "-")
            self.told[view] = numbered(copies.elements())
            return f"{view}: {operations}" if -copies or any(op == "u" for op, _ in operations) else ""
        for op, row in operations:
            if op == "u":
                old = [other for other in rows if all(other[i] == row[i] for i in key)]
                if not key or len(old) != 1 or old == [row]:
                    problems.append(f"{view}: {op}{row} is an update of {old}")
                rows.difference_update(old)
                rows.add(row)
            elif (row in rows) is (op == "+"):
                problems.append(f"{view}: {op}{row}, although it is {'there' if op == '+' else 'not there'}")
            elif op == "+":
                rows.add(row)
            else:
                rows.remove(row)
        if key:
            touched = [tuple(row[i] for i in key) for _, row in operations]
            if len(touched) != len(set(touched)):
                problems.append(f"{view}: one key comes twice in {operations}")
        return "\n".join(problems)


def compare(case: StreamCase, state: StreamState, session: Any) -> str:
    """What is wrong with the state of a session; empty when it is right."""
    problems = []
    if session.clock != state.clock:
        problems.append(f"the clock is {session.clock}, not {state.clock}")
    program = session.program
    for name in dict.fromkeys((*session.views, *sorted(program.base))):
        got, expected = set(session[name]), state.relations[name]
        if name in program.base and program.relations[name].stream:
            got = numbered(session[name])
            if name not in session.plan.outputs:
                expected = expected & got  # it may have forgotten what no window will show
        if found := difference(expected, got):
            problems.append(f"{name} is wrong\n{found}")
    return "\n".join(problems)


def sort_of(problem: str) -> str:
    """What a problem has in common with others, to be kept by a shrinker: its first line, without names and numbers."""
    return re.sub(r"\d[\d.]*|\b[a-z]\d+\b|\([^)]*\)", "#", problem.partition("\n")[0])


def run(
    case: StreamCase, configuration: Configuration, expected: list[StreamState] | None = None, limit: int = 200_000
) -> None:
    """Run a case; raises `Mismatch` with all that is needed to reproduce it."""
    expected = states(case) if expected is None else expected
    program = program_of(case.text)
    rng = random.Random(case.seed)

    def fail(kind: str, what: str, upto: int) -> None:
        text = f"{what}\n{configuration}\n{case.show(upto)}\n"
        if case.seed >= 0:
            text += f"reproduce with: pytest tests/test_stream_histories.py --seed {case.seed}"
        raise Mismatch(kind, text, upto)

    at = -1
    try:
        with configuration.open(program, facts=case.loaded, limit=limit) as session:
            followed = Followed(program, session)
            problems = [
                followed.transaction(expected[0].moments, session.initial_steps, session.initial),
                compare(case, expected[0], session), followed.promise(session),
            ]  # fmt: skip
            if wrong := "\n".join(filter(None, problems)):
                fail(sort_of(wrong), f"after the load: {wrong}", -1)
            for at, operations in enumerate(case.history):
                state, problems = expected[at + 1], []
                try:
                    with session.transaction() as transaction:
                        apply(transaction, operations, rng)
                    if state.failed:
                        problems.append("the transaction should have failed")
                    else:
                        problems.append(followed.transaction(state.moments, transaction.steps, transaction.changes))
                except (OnPurpose, LivelogError):
                    if not state.failed:
                        raise
                problems += [compare(case, state, session), followed.promise(session)]
                if wrong := "\n".join(filter(None, problems)):
                    fail(sort_of(wrong), f"after transaction {at}: {wrong}", at)
            session.check()
    except Mismatch:
        raise
    except Exception as error:  # any error of the engine is a finding, to be told with its case
        try:
            fail(type(error).__name__, f"at transaction {at}: {type(error).__name__}: {error}", at)
        except Mismatch as mismatch:
            raise mismatch from error
