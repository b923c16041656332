"""Mistakes over a Spark that a person started, from a Python whose environment is not activated: one sentence each, and
not a line of a stack trace around it; and the end of Spark's own process.

All of it in one process of its own: it ends with its Java being killed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from datalog.errors import UsageProblem
from livelog.runtime.spark.dataframes import explained
from livelog.runtime.spark.java import check_java
from tests.conftest import JAVA

ROOT = Path(__file__).parents[1]

CHILD = r"""
import contextlib, io, json, os, signal, sys, threading, time, types
from pyspark import SparkContext
from pyspark.sql import SparkSession
import datalog, livelog
from livelog.cli import main
from livelog.store.journal import Journal

spark = (
    SparkSession.builder.master("local[3]").config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false").config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "1").getOrCreate()
)
print("SPARK IS THERE", file=sys.stderr, flush=True)
told = {}

def tell(name, act):
    try:
        told[name] = ["", str(act())]
    except Exception as error:
        told[name] = [type(error).__name__, str(error)]

REACH = datalog.parse(open("reach.dl").read(), "reach.dl")

def opened(program=REACH, partitions=2, **options):
    return livelog.open(program, runtime=livelog.Spark(spark, partitions=partitions), **options)

ghost = types.ModuleType("ghost")  # that only this process has
exec("def f(x):\n    return x", ghost.__dict__)
sys.modules["ghost"] = ghost
lock = threading.Lock()
CALLS = datalog.parse("r(y) :- e(x), y = f(x).\ne(1).")
LINK = "src string, dst string, cost long"
before = spark.sparkContext.pythonExec
livelog.Spark(spark)
frame = spark.createDataFrame([("a", "b", 1), ("b", "c", None)], LINK).coalesce(1)

tell("slots", lambda: opened(partitions=5))
tell("pickle", lambda: opened(CALLS, functions={"f": lambda x: lock}))
tell("module", lambda: opened(CALLS, functions={"f": ghost.f}))
tell("program", lambda: opened(datalog.parse("r(1 / x) :- e(x).\ne(0).")))
tell("input", lambda: opened(facts={"link": frame}))
with livelog.open(REACH, runtime=livelog.Spark(spark, partitions=2, checkpoint="state")) as session:
    tell("null", lambda: session.load("link", frame))
    tell("type", lambda: session.load("link", spark.createDataFrame([("a", "b", "x")], ["src", "dst", "cost"])))
    tell("column", lambda: session.load("link", spark.createDataFrame([("a", "b")], ["src", "dst"])))
    session.load("link", frame.dropna())
    tell("fine", lambda: sorted(map(tuple, session["reachable"].to_spark().collect())))
    tell("python", lambda: [before, spark.sparkContext.pythonExec == sys.executable])
    out, err, sent = io.StringIO(), io.StringIO(), [0]
    reading, writing = os.pipe()
    sys.stdin = open(reading)

    def kills():
        with open(writing, "w") as feed, contextlib.suppress(BrokenPipeError):
            feed.write('+link("x", "y", 1)\n\n')
            feed.flush()
            while "transaction 1" not in out.getvalue():
                time.sleep(0.05)
            os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
            while not sent[0]:
                feed.write('+link("y", "z", 1)\n\n')
                feed.flush()
                time.sleep(0.3)

    thread = threading.Thread(target=kills, daemon=True)
    thread.start()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["run", "reach.dl", "--updates", "-", "--runtime", "spark", "--partitions", "1"])
    sent[0] = 1
    told["command"] = [str(code), err.getvalue()]
    committed = 0

    def insert():
        global committed
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:  # workers may outlive it by a moment
            with session.transaction() as tx:
                tx.insert("link", ("n", str(committed), 1))
            committed += 1

    tell("transaction", insert)
    tell("read", lambda: list(session["reachable"]))
    tell("to_spark", lambda: session["reachable"].to_spark())
journal = Journal.open("state")
found = sum(1 for entry in journal.entries(0) if entry.operations and entry.operations[0][2][0] == "n")
told["logged"] = [str(committed), str(found)]
print(json.dumps(told))
"""


def test_explained() -> None:
    error = explained(ValueError('java.io.IOException: Cannot run program "python3": error=2, No such file'))
    assert isinstance(error, UsageProblem)
    assert "Spark cannot run `python3` for its workers: set PYSPARK_PYTHON" in error.message


@pytest.mark.xdist_group("spark")
def test_one_sentence_each(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--runtime") == "local":
        pytest.skip("nothing over Spark")
    try:
        check_java()
    except UsageProblem as problem:
        pytest.skip(problem.message)
    (tmp_path / "reach.dl").write_text(
        ".decl link(src: symbol, dst: symbol, cost: number)\n"
        "reachable(x, y) :- link(x, y, _).\nreachable(x, y) :- link(x, z, _), reachable(z, y).\n"
    )
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").write_text("#!/bin/sh\nexit 1\n")  # what Spark would find is of no use
    (tmp_path / "bin" / "python3").chmod(0o755)
    java = os.path.dirname(shutil.which("java") or "")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK", "VIRTUAL"))}
    env |= {"PATH": f"{tmp_path / 'bin'}:{java}:/usr/bin:/bin", "PYTHONPATH": str(ROOT), "JDK_JAVA_OPTIONS": JAVA}
    env["SPARK_LOCAL_IP"] = "127.0.0.1"
    done = subprocess.run(
        [sys.executable, "-c", CHILD], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=550
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    expected = {
        "slots": ("UsageProblem", "a session with 5 partitions needs 5 task slots, and Spark has 3: start Spark with"),
        "pickle": ("UsageProblem", "the function `f` cannot be sent to the workers: cannot pickle"),
        "module": ("UsageProblem", "the Python of Spark's workers has no module `ghost`: install it there, or set PY"),
        "program": ("RuntimeProblem", "division by zero: 1 / 0"),
        "input": ("FactProblem", 'link("b", "c", null): column `cost` is null'),
        "null": ("FactProblem", 'link("b", "c", null): column `cost` is null'),
        "type": ("UsageProblem", "column `cost` of `link` is a number, which string is not"),
        "column": ("UsageProblem", "`link` has 3 columns (src, dst, cost), but the DataFrame has 2 columns"),
        "fine": ("", "[('a', 'b')]"),
        "python": ("", "['python3', True]"),
        "command": ("1", "Spark's own process (Java) has ended"),
        "transaction": ("RuntimeProblem", "Spark's own process (Java) has ended"),
        "read": ("RuntimeProblem", "Spark's own process (Java) has ended"),
        "to_spark": ("RuntimeProblem", "Spark's own process (Java) has ended"),
    }
    for name, (kind, sentence) in expected.items():
        assert told[name][0] == kind and sentence in told[name][1], (name, told[name])
        if name not in ("program", "command"):  # these show the rule, and how far the script came
            assert len(told[name][1].splitlines()) == 1, (name, told[name])
    assert len(told["command"][1].splitlines()) == 2, told["command"]
    assert told["logged"][0] == told["logged"][1], "what was acknowledged is what the log has"
    around = done.stderr.partition("SPARK IS THERE\n")[2].splitlines()
    noise = [line for line in around if line.strip().startswith(("at ", "Traceback", "File ", "ERROR", "Caused"))]
    assert not noise and len(around) <= 4, done.stderr
