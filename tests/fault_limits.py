"""Sessions that run out of memory or of stack, or get signals, in a process of their own. Run by `tests.test_faults`.

    python -m tests.fault_limits memory 2
"""

from __future__ import annotations

import ctypes
import json
import random
import resource
import signal
import sys
import threading
import time
from collections import Counter
from functools import partial
from typing import Any

import livelog
from datalog.errors import RuntimeProblem
from tests.cases import program_of
from tests.harness import apply
from tests.oracle import Base, evaluate

PROGRAM = """
.decl e(x: number, y: number)
.decl b(x: number, y: number) bag
.decl k(x: number, y: number) key(x)
r(x, y) :- e(x, y).
r(x, z) :- r(x, y), e(y, z), x < 20.
total(x, sum<y>, count<*>) :- b(x, y).
pair(x, z) :- e(x, y), b(y, z).
most(x, max<y>) :- k(x, y), !r(x, x).
"""
FACTS: dict[str, list[Any]] = {
    "e": [(i, i + 1) for i in range(7)],
    "b": [(i % 5, i) for i in range(20)] * 2,
    "k": [(i, i) for i in range(10)],
}


class Watched:
    """A session beside a model of its facts."""

    def __init__(self, **options: Any) -> None:
        self.program = program_of(PROGRAM)
        self.session = livelog.open(self.program, facts=FACTS, **options)
        self.base = Base(self.program)
        self.base.load(FACTS)
        self.outcomes: Counter[str] = Counter()

    def attempt(self, operations: list[Any], around: Any) -> bool:
        """Commit operations with something happening `around` it: the session is before it then, or after it."""
        tx = self.session.transaction()
        apply(tx, operations)
        raised: BaseException | None = None
        try:
            around(tx.commit)
        except (RuntimeProblem, MemoryError, RecursionError, KeyboardInterrupt) as error:
            raised = error
        except SystemError as error:  # CPython's own, where there was no room for the error: it says so in two ways
            assert "without exception set" in str(error) or "without setting an exception" in str(error), error
            raised = error
        after = self.base.copy()
        after.apply(operations)
        facts: dict[str, Counter[Any]] = {name: Counter() for name in self.program.base}
        for name, t, copies in self.session._settled().facts():
            facts[name][t] += copies
        if facts == after.facts():
            self.base = after
            self.outcomes["after" if raised is None else "after, and raised"] += 1
            return True
        assert facts == self.base.facts(), "a state between"
        assert raised is not None, "the commit returned, and it has not happened"
        self.outcomes["before"] += 1
        return False

    def verify(self) -> None:
        expected = evaluate(self.program, self.base.facts(), 50_000_000)
        for name in self.session.views:
            assert set(self.session[name]) == expected[name], name
        self.session.check()

    def close(self) -> None:
        """It goes on as if nothing had happened."""
        with self.session.transaction() as tx:
            tx.insert("e", (70, 71))
            tx.delete("e", (3, 4))
        self.base.apply([("insert", "e", (70, 71)), ("delete", "e", (3, 4))])
        assert (70, 71) in tx.changes["r"].inserted
        self.verify()


def memory(partitions: int) -> Counter[str]:
    """Transactions of growing size, with less and less room for them."""
    watched = Watched(partitions=partitions)

    def limited(commit: Any, room: int) -> None:
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        unlimited = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + room, unlimited[1]))
        try:
            commit()
        finally:
            resource.setrlimit(resource.RLIMIT_AS, unlimited)

    rows = [(100 + i, 100_000 + i) for i in range(20_000)]
    changes = {
        "a set grows": [("insert", "e", row) for row in rows],
        "a bag grows": [("insert", "b", row) for row in rows],
        "row by row": [(kind, name, row) for row in rows[:8_000] for kind, name in (("insert", "e"), ("insert", "b"))],
    }
    for room in (1 << 19, 2 << 20, 5 << 20):
        for operations in changes.values():
            if watched.attempt(operations, partial(limited, room=room)):  # there was room after all
                watched.attempt([("delete", name, row) for _, name, row in operations], lambda commit: commit())
            watched.verify()
    assert watched.attempt(changes["a set grows"], lambda commit: commit())
    away = [("delete", "e", row) for row in rows]
    assert watched.attempt(away, partial(limited, room=1 << 20)) or watched.attempt(away, lambda commit: commit())
    watched.close()
    return watched.outcomes


def signals(partitions: int) -> Counter[str]:
    """Ctrl-C once or twice, at any moment of a transaction."""
    watched = Watched(partitions=partitions)
    rng = random.Random(partitions)
    main = threading.main_thread().ident
    assert main is not None
    longest = 0.002
    sys.setswitchinterval(1e-5)  # whoever sends waits for nobody

    armed = False

    def heard(*_: Any) -> None:
        if armed:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, heard)

    def send(delays: list[float]) -> None:
        for delay in delays:
            time.sleep(delay)
            signal.pthread_kill(main, signal.SIGINT)

    def struck(commit: Any) -> None:
        nonlocal armed, longest
        delays = [rng.random() * longest for _ in range(rng.choice((1, 1, 2)))]
        sender = threading.Thread(target=send, args=(delays,))
        started = time.perf_counter()
        sender.start()
        try:
            armed = True
            commit()
            longest = min(0.02, (longest + time.perf_counter() - started) / 2)
        finally:
            armed = False
            sender.join()

    for number in range(40):
        name = rng.choice("ebk")
        rows = [(rng.randrange(9), rng.randrange(9)) for _ in range(rng.choice((1, 40, 80)))]
        operations = [(rng.choice(("insert", "delete")), name, row) for row in rows]
        watched.attempt([*operations, ("insert", "b", (number, number))], struck)
        watched.verify()
    watched.close()
    return watched.outcomes


def recursion(partitions: int) -> Counter[str]:
    """The stack ends somewhere in the transaction: it is committed from as deep as that."""
    watched = Watched(partitions=partitions)

    def deep(commit: Any, left: int) -> None:
        if left:
            deep(commit, left - 1)
        else:
            commit()

    depth = sys.getrecursionlimit() - 60
    for number in range(46):
        operations = [("insert", "e", (number % 7, number % 8)), ("delete", "b", (1, 1)), ("insert", "k", (3, number))]
        watched.attempt(operations, lambda commit, left=depth + number: deep(commit, left))
        if number % 5 == 0:
            watched.verify()
    watched.close()
    return watched.outcomes


def on_a_stack_of_its_own(partitions: int) -> Counter[str]:
    """The same in a thread, whose stack has its addresses from the beginning.

    That of the main thread is made longer by the system as it is needed, and where the limit leaves no room for that,
    the process ends with a segmentation fault: nothing that a program could catch.
    """
    outcomes: list[Counter[str]] = []
    ctypes.CDLL(None).mallopt(-8, 1)  # M_ARENA_MAX: no addresses are set aside for this thread to allocate from
    threading.stack_size(16 << 20)
    thread = threading.Thread(target=lambda: outcomes.append(memory(partitions)))
    thread.start()
    thread.join()
    return outcomes[0]


if __name__ == "__main__":
    what = {"memory": on_a_stack_of_its_own, "signals": signals, "recursion": recursion}[sys.argv[1]]
    print(json.dumps(what(int(sys.argv[2]))))
