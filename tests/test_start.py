"""Spark as the command line starts it: the Java that it needs, no word on the terminal, enough slots, a clean end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from datalog.errors import UsageProblem
from livelog.runtime.spark import java, slots, start
from livelog.runtime.spark.java import check_java
from livelog.runtime.spark.slots import check_slots
from livelog.runtime.spark.start import check_master

ROOT = Path(__file__).parents[1]

# --- java ----------------------------------------------------------------------------------------------------

Fake = Callable[..., Path]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Makes a java that says what it is told to say, the only one on the PATH."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def make(said: str, code: int = 0, folder: Path | None = None) -> Path:
        path = (folder or tmp_path) / "bin" / "java"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n[ \"$1\" = -version ] || exit 9\n/bin/cat >&2 <<'END'\n{said}\nEND\nexit {code}\n")
        path.chmod(0o755)
        return path

    return make


def openjdk(version: str) -> str:
    return (
        f'openjdk version "{version}" 2025-04-15\n'
        f"OpenJDK Runtime Environment (build {version}+6-Debian-1deb12u1)\n"
        f"OpenJDK 64-Bit Server VM (build {version}+6-Debian-1deb12u1, mixed mode, sharing)"
    )


NEW = [
    openjdk("17.0.15"),
    openjdk("17"),
    openjdk("21"),
    openjdk("25-ea"),
    "Picked up JAVA_TOOL_OPTIONS: -Dname=1.8\n" + openjdk("21.0.7"),
    'java version "17.0.7" 2023-04-18 LTS\nJava(TM) SE Runtime Environment Oracle GraalVM 17.0.7+8.1 (build ...)',
    'openjdk version "17.0.4.1" 2022-08-12\nIBM Semeru Runtime Open Edition 17.0.4.1 (build 17.0.4.1+1)',
    "something else altogether",
]
OLD = {
    openjdk("11.0.2"): "11.0.2",
    openjdk("1.8.0_292"): "1.8.0_292",
    openjdk("9-internal"): "9-internal",
    'java version "1.8.0_281"\nIBM J9 VM (build 2.9, JRE 1.8.0 Linux amd64-64-Bit Compressed References)': "1.8.0_281",
    "Picked up _JAVA_OPTIONS: -Xmx17g\n" + openjdk("16.0.2"): "16.0.2",
}
HOW = "install one (apt-get install openjdk-17-jre-headless) or set JAVA_HOME"


def complaint() -> str:
    with pytest.raises(UsageProblem) as caught:
        check_java()
    assert "\n" not in str(caught.value)
    return caught.value.message


@pytest.mark.parametrize("said", NEW)
def test_java_that_will_do(said: str, fake: Fake) -> None:
    fake(said)
    check_java()


@pytest.mark.parametrize("said", OLD)
def test_java_that_is_too_old(said: str, fake: Fake) -> None:
    path = fake(said)
    assert complaint() == (
        f"Spark needs Java 17 or newer, but {path} is version {OLD[said]}: {HOW} to where a newer one is"
    )


def test_no_java(fake: Fake) -> None:
    assert complaint() == f"Spark needs Java 17 or newer, but there is no java on the PATH: {HOW} to where one is"


def test_java_home_goes_first(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(openjdk("21"))
    home = tmp_path / "old java"
    fake(openjdk("11.0.2"), folder=home)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert f"{home}/bin/java is version 11.0.2" in complaint()
    fake(openjdk("17.0.1"), folder=home)
    fake(openjdk("11.0.2"))
    check_java()
    monkeypatch.setenv("JAVA_HOME", "")  # as good as none
    assert f"{tmp_path}/bin/java is version 11.0.2" in complaint()


def test_java_home_that_points_nowhere(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(openjdk("21"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert f"JAVA_HOME is '{tmp_path}/nowhere', where there is no bin/java" in complaint()


def test_broken_java(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fake("\nThe operation couldn’t be completed.\nVisit a page", code=1)
    assert f"`{path} -version` fails (exit code 1: The operation couldn’t be completed.)" in complaint()
    path.write_bytes(b"\x7fELF of another kind of machine")
    assert f"{path} cannot be run (Exec format error)" in complaint()
    path.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    monkeypatch.setattr(java, "PATIENCE", 0.2)
    assert f"`{path} -version` does not answer" in complaint()


def test_java_is_looked_at_before_spark_is_started(fake: Fake) -> None:
    fake(openjdk("11.0.2"))
    with pytest.raises(UsageProblem, match=r"java is version 11\.0\.2"):
        start.start_spark(None, 2)


# --- masters -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "master", ["local", "local[4]", "local[*]", "local[*,2]", "local-cluster[2,1,1024]", "yarn", "k8s://https://h:443"]
)
def test_masters(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize(
    "master", ["", "locl[4]", "local[", "local[x]", "local[-1]", "http://h:1", "Local[2]", "h:7077"]
)
def test_not_a_master(master: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        start.launch(master, 1)
    assert caught.value.message == (
        f"{master!r} is not a Spark master: it is local[N], local-cluster[N,CORES,MB], spark://HOST:PORT, yarn or "
        "k8s://URL"
    )


def test_a_master_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        port = there.getsockname()[1]
        start._reach(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    with pytest.raises(UsageProblem, match=f"no Spark master answers at 127.0.0.1:{port}$"):
        start.launch(f"spark://127.0.0.1:{port}", 1)
    for wrong in ("spark://", "spark://127.0.0.1", "spark://127.0.0.1:99999"):
        with pytest.raises(UsageProblem, match="expected spark://HOST:PORT"):
            check_master(wrong)


# --- slots ---------------------------------------------------------------------------------------------------


def spark_with(master: str, *counts: int) -> Any:
    """As much of a Spark session as is asked for its slots; on a cluster, executors come one after the other."""
    left = list(counts)
    manager = SimpleNamespace(defaultResourceProfile=lambda: "default")
    inner = SimpleNamespace(
        resourceProfileManager=lambda: manager,
        maxNumConcurrentTasks=lambda profile: left.pop(0) if len(left) > 1 else left[0],
    )
    context = SimpleNamespace(master=master, _jsc=SimpleNamespace(sc=lambda: inner), defaultParallelism=7)
    return SimpleNamespace(sparkContext=context)


def test_slots() -> None:
    spark = spark_with("local[4]", 4)
    assert slots.slots(spark) == 4
    del spark.sparkContext._jsc.sc().maxNumConcurrentTasks  # a Spark that does not tell
    assert slots.slots(spark) == 7


@pytest.mark.parametrize(("partitions", "beside", "held"), [(4, False, 0), (3, True, 0), (1, True, 2), (1, False, 3)])
def test_enough_slots(partitions: int, beside: bool, held: int) -> None:
    check_slots(spark_with("local[4]", 4), partitions, beside, held=held)


@pytest.mark.parametrize(
    ("master", "partitions", "beside", "held", "message"),
    [
        ("local[4]", 6, False, 0, "a session with 6 partitions needs 6 task slots, and Spark has 4: start Spark with "
         "the master local[6], or use fewer partitions"),
        ("local[4]", 4, True, 0, "a session with 4 partitions needs 4 task slots and one more for jobs beside it, and "
         "Spark has 4: start Spark with the master local[5], or use fewer partitions"),
        ("local", 1, True, 4, "a session with 1 partition needs 1 task slot and one more for jobs beside it, and Spark "
         "has 4, of which other sessions hold 4: start Spark with the master local[6]"),
        ("spark://h:7077", 5, False, 0, "a session with 5 partitions needs 5 task slots, and Spark has 4: give it more "
         "executors or cores (spark.executor.instances, spark.executor.cores, spark.cores.max), or use fewer "
         "partitions"),
    ],
)  # fmt: skip
def test_too_few_slots(master: str, partitions: int, beside: bool, held: int, message: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        check_slots(spark_with(master, 4), partitions, beside, held=held, wait=None if "local" in master else 0.2)
    assert caught.value.message == message


def test_executors_are_waited_for() -> None:
    check_slots(spark_with("spark://h:7077", 0, 0, 2, 4), 3, True)
    with pytest.raises(UsageProblem):
        check_slots(spark_with("local[4]", 0, 0, 2, 4), 3, True)  # here nobody comes later


# --- Spark itself --------------------------------------------------------------------------------------------

BEGIN = """
import os, signal, sys, time
from argparse import Namespace
from datalog.errors import LivelogError, RuntimeProblem, UsageProblem
from livelog.runtime.spark.slots import check_slots, slots
from livelog.runtime.spark.start import launch, spark_for, start_spark
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("here", "temporary"):
        (tmp_path / name).mkdir()
    return tmp_path


def begin(script: str, place: Path) -> subprocess.Popen[str]:
    """A process that runs a script; whatever it starts can be found by a mark in its environment."""
    return subprocess.Popen(
        [sys.executable, "-c", BEGIN + textwrap.dedent(script)], cwd=place / "here", text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(place / "temporary"), "LIVELOG_MARK": str(place)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def marked(place: Path) -> list[int]:
    """The processes that carry the mark."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"LIVELOG_MARK={place}\0".encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # gone, or not ours
            continue
    return found


def left_behind(place: Path, patience: float = 60.0) -> list[int]:
    """The processes that are still there after a while. They are ended."""
    deadline = time.monotonic() + patience
    while (left := marked(place)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return left


QUIET = """
with spark_for(Namespace(master=None, partitions=2)) as spark:
    context = spark.sparkContext
    def task(x):
        import datalog, livelog, operators, planner, topologies
        print("out"), print("err", file=sys.stderr)
        return livelog.__file__, os.environ["SPARK_LOCAL_IP"], sys.executable
    print(spark.range(10).repartition(3).count(), set(context.parallelize(range(4), 2).map(task).collect()))
    print(slots(spark), context.master, context.getConf().get("spark.driver.host"), context.uiWebUrl)
    check_slots(spark, 3, True)
    try:
        check_slots(spark, 4, True)
    except UsageProblem as problem:
        print(problem.message)
    spark.range(3).createOrReplaceTempView("three")
    print(spark.sql("select sum(id) from three").collect()[0][0], os.listdir("."))
    with spark_for(Namespace(master="local[1]", partitions=1)) as again:
        print(again is spark)
    print(slots(spark), signal.getsignal(signal.SIGINT) is signal.default_int_handler)
print("SPARK_LOCAL_IP" in os.environ, os.listdir("."))
"""


def test_not_a_word(place: Path) -> None:
    out, err = begin(QUIET, place).communicate(timeout=300)
    assert err == ""
    assert out.splitlines() == [
        f"10 {({(str(ROOT / 'livelog' / '__init__.py'), '127.0.0.1', sys.executable)})}",
        "4 local[4] 127.0.0.1 None",
        "a session with 4 partitions needs 4 task slots and one more for jobs beside it, and Spark has 4: start Spark "
        "with the master local[5], or use fewer partitions",
        "3 []",
        "True",
        "4 True",
        "False []",
    ]
    assert left_behind(place) == []
    assert [path.name for path in (place / "temporary").iterdir() if path.name.startswith("livelog")] == []


FAILS = """
try:
    start_spark("local[0]", 1)
except UsageProblem as problem:
    print(problem)
try:
    with spark_for(Namespace(master="local[1]", partitions=1)) as spark:
        print(spark.range(3).count())
        os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGKILL)
        try:
            spark.range(3).count()
        except Exception:
            raise RuntimeProblem("nobody answers") from None
except RuntimeProblem as problem:
    print(problem)
"""


def test_the_log_is_named_where_spark_fails(place: Path) -> None:
    out, err = begin(FAILS, place).communicate(timeout=300)
    assert err == ""
    failed, count, problem, note = out.splitlines()
    told, _, log = failed.partition("; its log is ")
    assert told == "error: Spark did not start with the master 'local[0]': Asked to run locally with 0 threads"
    assert "Asked to run locally with 0 threads" in Path(log).read_text()
    assert (count, problem) == ("3", "error: nobody answers")
    assert note.startswith("note: the process of Spark itself has ended; its log is ")
    assert Path(note.rpartition(" ")[2]).is_file()
    assert left_behind(place) == []


INTERRUPTED = """
import livelog.cli, livelog.commands.demo, pyspark, pyspark.java_gateway
def tell(name, where, method):
    before = getattr(where, method)
    def told(*args, **options):
        print(name, flush=True)
        return before(*args, **options)
    setattr(where, method, told)
tell("process", pyspark.java_gateway, "Popen")
tell("context", pyspark.SparkContext, "_initialize_context")
def run(args):
    with spark_for(Namespace(master=None, partitions=1)) as spark:
        print("running", flush=True)
        spark.sparkContext.parallelize([1], 1).foreach(lambda x: time.sleep(600))
livelog.commands.demo.run = run
sys.exit(livelog.cli.main(["demo"]))
"""


@pytest.mark.parametrize("phase", ["process", "context", "running"])
def test_interrupted(phase: str, place: Path) -> None:
    process = begin(INTERRUPTED, place)
    assert process.stdout is not None
    while (line := process.stdout.readline()) != f"{phase}\n":
        assert line
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (130, "livelog: interrupted\n")
    assert left_behind(place) == []
    assert list((place / "temporary").glob("livelog*")) == []
