"""What a session may take: memory, time for a transaction, and long values. What depends on memory runs apart."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import datalog
import livelog
import planner
from datalog.values import LONGEST_LIST, LONGEST_TEXT
from livelog.memory import size_of, there_is
from operators.base import BaseTable

ROOT = Path(__file__).parents[1]
NO_SIZE = r"no size of memory|at least one byte"
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": ""}
HIGH = 10**12


def apart(text: str) -> str:
    """What a script prints in a process of its own."""
    done = subprocess.run([sys.executable, "-c", text], env=ENV, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(n: int) -> list[tuple[int]]:
    return [(i,) for i in range(n)]


# --- time ----------------------------------------------------------------------------------------------------

ENDLESS = "n(x) :- start(x). n(x + 1) :- n(x), x > 1."  # for what comes later
FRUITLESS = "r(x) :- start(x), start(y), x + y = 0 - 1."
GROUPS = "r(x, min<z>) :- start(x), start(y), z = x * y % 1000, z < 0. s(x) :- start(x)."
SUMS = "r(x, s) :- start(x), s = sum y : { start(y), (x * y) % 7 = 9 }."


@pytest.mark.everywhere(spark=2)
@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize(
    ("text", "rule"),
    [(ENDLESS, "n(x + 1) :- n(x), x > 1."), (FRUITLESS, FRUITLESS), (GROUPS, "r("), (SUMS, SUMS)],
    ids=["endless", "fruitless", "groups", "sums"],
)
def test_a_transaction_that_takes_too_long_is_as_if_it_had_not_been(text: str, rule: str, partitions: int) -> None:
    session = livelog.open(
        datalog.parse(text), facts={"start": [(1,)]}, timeout=1.0, limit=HIGH, partitions=partitions
    )
    before = {view: list(session[view]) for view in session.views}
    for _ in range(2):
        with pytest.raises(livelog.RuntimeProblem) as caught, session.transaction() as tx:
            tx.insert_all("start", numbers(20_000))
        assert "the transaction takes longer than 1 s" in str(caught.value)
        assert f"in the rule {rule}" in str(caught.value)
        assert "`timeout=` or `--time-limit`" in str(caught.value)
        assert {view: list(session[view]) for view in session.views} == before
        assert list(session["start"]) == [(1,)]
    with session.transaction() as tx:
        tx.delete("start", (1,))
        tx.insert("start", (0,))
    assert list(session["start"]) == [(0,)]
    session.close()


def test_the_rule_is_named() -> None:
    program = datalog.parse("s(x) :- start(x). n(x) :- start(x). n(x + 1) :- n(x), s(y).")
    with pytest.raises(livelog.RuntimeProblem, match=r"in the rule n\(x \+ 1\) :- n\(x\), s\(y\)"):
        livelog.open(program, facts={"start": [(1,)]}, timeout=0.3, limit=HIGH)


def test_a_function_that_waits_or_swallows_is_no_way_round() -> None:
    def stubborn(x: int) -> int:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                while time.monotonic() < deadline:
                    pass
            except BaseException:
                pass
            else:
                break
            try:
                while time.monotonic() < deadline:
                    time.sleep(0.01)
            except Exception:
                pass
        return x

    began = time.monotonic()
    with pytest.raises(livelog.RuntimeProblem, match=r"takes longer than 0.3 s(.|\n)*in the rule r\(f\(x\)\)"):
        livelog.open(datalog.parse("r(f(x)) :- e(x)."), facts={"e": [(1,)]}, functions={"f": stubborn}, timeout=0.3)
    assert time.monotonic() - began < 25


def test_what_is_evaluated_beside_a_session_has_the_same_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    program = datalog.parse(
        "path(x, y, 1) :- e(x, y). path(x, y, c + 1) :- e(x, z), path(z, y, c). best(x, y, min<c>) :- path(x, y, c)."
    )
    with livelog.open(program, facts={"e": [(1, 2), (2, 1)]}, timeout=0.3, limit=HIGH) as session:
        assert "path" in session.plan.pruned and len(session["best"]) == 4
        monkeypatch.setattr("livelog.session.WHOLE", HIGH)
        with pytest.raises(livelog.RuntimeProblem, match=r"takes longer than 0\.3 s"):
            list(session["path"])
        assert len(session["best"]) == 4


def test_nothing_is_raised_when_a_transaction_is_over() -> None:
    """The watchdog and the work race each other: what comes too late must not come at all."""
    assert apart(
        """
import sys, threading, time, datalog, planner
from livelog.runtime.limits import Exceeded, Watch
from operators.errors import Exhausted

sys.setswitchinterval(1e-6)
over = False
main = threading.get_ident()

class Owner:
    _watch = Watch(planner.plan(datalog.check(datalog.parse("r(x) :- e(x)."))))

    def work(self, n):
        for i in range(n):
            pass
        return n

    def run(self, n):
        try:
            result = self.work(n)
            if self._watch.firing:
                self._watch.calm()
        except BaseException as error:
            try:
                told = self._watch.told(error)
            except Exceeded as late:
                told = self._watch.told(late)
            if told is not error:
                raise told from None
            raise
        return result

def hunt():
    while not over:
        frame = sys._current_frames().get(main)
        while frame is not None:
            if frame.f_code is Owner.work.__code__:
                owner._watch.fire("because", frame, main)
            frame = frame.f_back
        time.sleep(0)

owner = Owner()

hunter = threading.Thread(target=hunt, daemon=True)
hunter.start()
done = failed = stray = 0
for i in range(50_000):
    try:
        try:
            assert owner.run(i % 50) == i % 50
            done += 1
        except Exhausted:
            failed += 1
        for _ in range(20):
            pass
        str(i)
    except Exceeded:
        stray += 1
over = True
hunter.join()
print(done + failed, failed > 0, stray, owner._watch.firing)
"""
    ).split() == ["50000", "True", "0", "False"]


def test_a_debugger_can_be_used_after_a_limit_was_passed() -> None:
    """What was to be raised and did not come leaves nothing behind that CPython would look for again and again."""
    assert apart(
        """
import sys, datalog, livelog
program = datalog.parse("n(x) :- s(x). n(x + 1) :- n(x).")
session = livelog.open(program, timeout=0.3, limit=10**12)
for _ in range(2):
    try:
        session.load("s", [(1,)])
    except livelog.RuntimeProblem as problem:
        print("longer than 0.3 s" in str(problem))
lines = 0
def count(*_):
    global lines
    lines += 1
    return count
sys.settrace(count)
session.load("s", [])
sys.settrace(None)
print(lines > 10)
"""
    ).split() == ["True"] * 3


def test_the_watchdog_ends_with_the_last_session() -> None:
    assert apart(
        """
import gc, threading, time, datalog, livelog
def dogs():
    return [t.name for t in threading.enumerate() if t.name == "livelog limits"]
for _ in range(2):
    session = livelog.open(datalog.parse("r(x) :- e(x)."))
    assert len(dogs()) == 1
    del session
    deadline = time.monotonic() + 60
    while dogs() and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.05)
    print(dogs())
"""
    ).split() == ["[]", "[]"]


def test_a_forked_process_has_a_watchdog_of_its_own() -> None:
    assert apart(
        """
import os, datalog, livelog
program = datalog.parse("r(x) :- e(x). n(x) :- s(x). n(x + 1) :- n(x).")
session = livelog.open(program, facts={"e": [(1,)]}, timeout=0.3, limit=10**12)
child = os.fork()
if not child:
    try:
        session.load("s", [(1,)])
    except livelog.RuntimeProblem as problem:
        os._exit(7 if "longer than 0.3 s" in str(problem) else 8)
    os._exit(9)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    ).split() == ["7"]


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), "1"])
def test_a_timeout_is_a_number_of_seconds(timeout: Any) -> None:
    with pytest.raises(livelog.UsageProblem, match="the timeout must be a positive number of seconds"):
        livelog.open(datalog.parse("r(x) :- e(x)."), timeout=timeout)


# --- memory --------------------------------------------------------------------------------------------------

TOO_MUCH = """
import datalog, livelog
from livelog.memory import resident, resident_peak
held = [bytes(1000) for _ in range(100_000)]  # what the process has already does not count
session = livelog.open(datalog.parse({text!r}), facts={{"a": [(1,)], "b": [(1,)]}}, memory="100MB", limit=10**12,
                       strategy={strategy!r}, partitions={partitions})
before = resident()
for _ in range(2):
    try:
        with session.transaction() as tx:
            tx.insert_all("a", [(i,) for i in range(30_000)])
            tx.insert_all("b", [(i,) for i in range(30_000)])
        print("no error")
    except livelog.RuntimeProblem as problem:
        print(problem)
    print(list(session["r"]), list(session["a"]))
session.check()
print("left", (resident() - before) // 10**6, "peak", (resident_peak() - before) // 10**6)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is known on Linux")
@pytest.mark.parametrize(
    ("text", "strategy", "partitions"),
    [
        ("r(x, y) :- a(x), b(y).", "absorption", 1),
        ("r(x, y) :- a(x), b(y). r(x, y) :- r(y, x), x < 0.", "absorption", 2),
        ("r(x, y) :- a(x), b(y).", "recompute", 1),
    ],
)
def test_a_session_that_takes_too_much_memory_is_as_before(text: str, strategy: str, partitions: int) -> None:
    out = apart(TOO_MUCH.format(text=text, strategy=strategy, partitions=partitions))
    assert out.count("error: the session takes more than 100 MB of memory") == 2
    assert out.count("in the rule r(x, y) :- a(x), b(y).") == 2 and out.count("`memory=` or `--memory`") == 2
    assert out.count("[(1, 1)] [(1,)]") == 2
    left, peak = out.split("left")[1].split("peak")
    assert int(left) < 100 and int(peak) < 800, "of 60 GB"


def test_the_default_is_three_quarters_of_what_there_is() -> None:
    there = there_is()
    session = livelog.open(datalog.parse("r(x) :- e(x)."))
    memory = session._watch.memory
    assert there is not None and memory is not None
    assert memory.passed(there * 3 // 4 + 1) and not memory.passed(there * 3 // 4)
    assert "three quarters of what there is" in repr(memory)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "4096\n"}, 4096),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/memory.max": "max\n",
                "sys/fs/cgroup/a/memory.max": "8192",
            },
            8192,
        ),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "5000"}, 5000),
        ({"proc/self/cgroup": "0::/../x\n", "sys/fs/cgroup/memory.max": "5000"}, 5000),
        (
            {
                "proc/self/cgroup": "5:cpu,cpuacct:/c\n4:memory:/docker/1\n",
                "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": "6000\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            6000,
        ),
        ({"proc/self/cgroup": "4:memory:/docker/1\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "7000\n"}, 7000),
    ],
)
def test_control_groups_of_both_versions(files: dict[str, str], expected: int, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert there_is(tmp_path) == expected


def test_a_machine_without_control_groups(tmp_path: Path) -> None:
    assert there_is(tmp_path) == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(("text", "size"), [("2GB", 2 * 10**9), ("1 gib", 2**30), ("100", 100), ("3b", 3), (5, 5)])
def test_sizes(text: int | str, size: int) -> None:
    assert size_of(text) == size


@pytest.mark.parametrize("text", ["", "lots", "-1", "0", "1e9", "2 XB", "5kk", None, 0, -4, True, 2.5, "9" * 1000])
def test_no_sizes(text: Any) -> None:
    with pytest.raises(livelog.UsageProblem, match=NO_SIZE):
        size_of(text)
    if text is not None:
        with pytest.raises(livelog.UsageProblem, match=NO_SIZE):
            livelog.open(datalog.parse("r(x) :- e(x)."), memory=text)


# --- the command line ----------------------------------------------------------------------------------------


def command(folder: Path, text: str, *options: str) -> tuple[int, str]:
    (folder / "p.dl").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "livelog", "run", "p.dl", *options],
        env=ENV, cwd=folder, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    return done.returncode, done.stderr


def test_limits_of_the_command_line(tmp_path: Path) -> None:
    endless = "n(0).\nn(x + 1) :- n(x).\n"
    code, text = command(tmp_path, endless, "--time-limit", "0.3", "--limit", str(HIGH))
    assert code == 1 and "p.dl:2:1: error: the transaction takes longer than 0.3 s" in text and "--time-limit" in text
    if sys.platform == "linux":
        code, text = command(tmp_path, endless, "--memory", "20MB", "--limit", str(HIGH))
        assert code == 1 and "p.dl:2:1: error: the session takes more than 20 MB of memory" in text
    code, text = command(tmp_path, endless, "--memory", "many")
    assert code == 2 and "'many' is no size of memory" in text
    code, text = command(tmp_path, endless, "--time-limit", "-3")
    assert code == 2 and "a positive number of seconds" in text


# --- long values ---------------------------------------------------------------------------------------------

DOUBLING = {
    "cat": 'r("ab"). r(cat(x, x)) :- r(x).',
    "concat": "r([1]). r(concat(x, x)) :- r(x).",
    "[...]": "r([1]). r([x, x]) :- r(x).",
}


@pytest.mark.everywhere(spark=1)
@pytest.mark.parametrize("name", DOUBLING)
@pytest.mark.parametrize("partitions", [1, 2])
def test_values_that_double_have_an_end(name: str, partitions: int) -> None:
    program = datalog.parse(DOUBLING[name])
    with pytest.raises(livelog.RuntimeProblem) as caught:
        livelog.open(program, longest=1000, partitions=partitions)
    text = str(caught.value)
    assert f"{name} makes a " in text and "`longest=`" in text and "in the rule r(" in text and "at the tuple" in text
    assert "1,000" in text and len(text) < 2000


def test_the_usual_length_of_values() -> None:
    """A text of 32 Mi characters is refused before it is made."""
    with pytest.raises(livelog.RuntimeProblem, match=f"33,554,432 characters, more than the {LONGEST_TEXT:,}"):
        livelog.open(datalog.parse(DOUBLING["cat"]))
    rows = [(i,) for i in range(LONGEST_LIST + 1)]
    with pytest.raises(livelog.RuntimeProblem, match=r"collect makes a list of 1,048,577 elements(.|\n)*in the rule"):
        livelog.open(datalog.parse("r(collect<x>) :- e(x)."), facts={"e": rows})


@pytest.mark.parametrize(
    ("text", "facts", "functions"),
    [
        ("r(to_string(f(x))) :- e(x).", {"e": [(1,)]}, {"f": lambda x: [x] * 9}),
        ("r(f(x)) :- e(x).", {"e": [(1,)]}, {"f": lambda x: "a" * 11}),
        ("r(f(x)) :- e(x).", {"e": [(1,)]}, {"f": lambda x: [x] * 11}),
        ("r(f(x)) :- e(x).", {"e": [(1,)]}, {"f": lambda x: [[x, x, x]] * 3}),
        ("r(collect<x>) :- e(x).", {"e": [(i,) for i in range(11)]}, {}),
        ("r(y) :- y = collect x : { e(x) }.", {"e": [(i,) for i in range(11)]}, {}),
        ("r(top<x, 20>) :- e(x).", {"e": [(i,) for i in range(11)]}, {}),
        ("r(bottom<x, 11>) :- e(x).", {"e": [(i,) for i in range(20)]}, {}),
        ("r(y) :- y = top x, 12 : { e(x) }.", {"e": [(i,) for i in range(20)]}, {}),
        ("r(bottom<x, 3>) :- e(x).", {"e": [((i, i, i),) for i in range(3)]}, {}),
        ("r(collect<x>) :- e(x).", {"e": [((i, i, i),) for i in range(3)]}, {}),
        ("r(cat(x, x)) :- e(x).", {"e": [("a" * 6,)]}, {}),
        ("r(concat(x, x)) :- e(x).", {"e": [((1,) * 6,)]}, {}),
        ("r(concat(x, [])) :- e(x).", {"e": [((((1, 2, 3),) * 3),)]}, {}),
    ],
)
def test_whatever_makes_long_values(text: str, facts: Any, functions: dict[str, Callable[..., Any]]) -> None:
    program = datalog.parse(text)
    with pytest.raises(livelog.RuntimeProblem, match=r"`longest=` or `--longest` allows more(.|\n)*in the rule r\("):
        livelog.open(program, facts=facts, functions=functions, longest=10)
    assert len(livelog.open(program, facts=facts, functions=functions, longest=40)["r"]) == 1


def test_the_largest_of_many_are_few() -> None:
    program = datalog.parse("t(top<x, 20>) :- e(x). b(bottom<x, 3>) :- e(x).")
    rows = [(i,) for i in range(10)]
    with livelog.open(program, facts={"e": rows}, longest=10) as session:
        assert list(session["b"]) == [((0, 1, 2),)] and len(next(iter(session["t"]))[0]) == 10
        with pytest.raises(livelog.RuntimeProblem, match="top makes a list of 11 elements, more than the 10"):
            session.load("e", [(10,)])
        assert "answer: the 3 smallest\n" in planner.explain(session.plan)


def test_longest_on_the_command_line(tmp_path: Path) -> None:
    doubling = DOUBLING["cat"] + "\n.output r\n"
    code, text = command(tmp_path, doubling, "--longest", "1000")
    assert code == 1 and "cat makes a text of 1,024 characters, more than the 1,000" in text and "`--longest`" in text
    code, text = command(tmp_path, doubling, "--longest", "0")
    assert code == 2 and "--longest" in text


@pytest.mark.parametrize("partitions", [1, 2])
def test_facts_that_take_too_much_are_named(partitions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog comes while facts are put in: here they wait for it."""
    session = livelog.open(datalog.parse("r(x) :- e(x), !f(x)."), timeout=0.1, partitions=partitions)
    insert_all = BaseTable.insert_all

    def slowly(table: BaseTable, rows: Any, clock: float) -> None:
        deadline = time.monotonic() + 30
        while (7,) in rows and time.monotonic() < deadline:
            time.sleep(0.01)
        insert_all(table, rows, clock)

    monkeypatch.setattr(BaseTable, "insert_all", slowly)
    with pytest.raises(livelog.RuntimeProblem) as caught, session.transaction() as tx:
        tx.insert_all("e", numbers(5))
        tx.insert_all("f", numbers(50))
    assert "the transaction takes longer than 0.1 s, where facts of `f` come and go" in str(caught.value)
    assert not session["e"] and not session["f"]


def test_facts_may_be_as_long_as_they_like() -> None:
    program = datalog.parse(".const k = \"\" r(x) :- e(x). s(k) :- e(x). t(substr(x, 0, 5)) :- e(x).")
    session = livelog.open(program, facts={"e": [("a" * 50,)]}, constants={"k": "b" * 50}, longest=10)
    assert list(session["r"]) == [("a" * 50,)] and list(session["s"]) == [("b" * 50,)]
    assert list(session["t"]) == [("a" * 5,)]


@pytest.mark.parametrize("longest", [0, -1, "5", 2.5, True])
def test_longest_is_a_number(longest: Any) -> None:
    with pytest.raises(livelog.UsageProblem, match="longest= is a whole number of at least 1"):
        livelog.open(datalog.parse("r(x) :- e(x)."), longest=longest)
