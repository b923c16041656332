"""Start Spark for the command line: quietly, on this machine unless told otherwise, and stop it without a trace.

Everything that the JVM and its Python workers print goes to a log in a temporary folder. It is thrown away in the end,
unless Spark did not start or its process died: then the error says where it is. The JVM is in a process group of its
own, so that Ctrl-C at a terminal reaches the command alone, which then ends the session in good order.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datalog.errors import LivelogError, Note, RuntimeProblem, UsageProblem
from livelog.runtime.spark.java import check_java

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

__all__ = ["Launch", "check_master", "launch", "spark_for", "start_spark"]

BESIDE = 2
"""Task slots beside those of a session, for the jobs that load and read."""

HERE = "127.0.0.1"
ENDING = 20.0
"""Seconds that the JVM gets for its own cleaning up."""
REACHING = 5.0
"""Seconds in which a master that is there accepts a connection."""

_LOCAL = re.compile(r"local(-cluster)?(\[.*)?")
_FORMS = re.compile(
    r"local(\[(\d+|\*)(\s*,\s*\d+)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]|yarn|k8s://.+|spark://.*"
)
_ADDRESS = re.compile(r"\[?([^\[\]]+?)\]?:(\d{1,5})")


def start_spark(master: str | None, partitions: int) -> SparkSession:
    """A Spark session for `partitions` partitions: the one that runs, or a new one that ends with this process.

    Without a master it is this machine, with a slot for every partition and two for jobs beside them.
    """
    return launch(master, partitions).spark


@contextmanager
def spark_for(args: Namespace) -> Iterator[SparkSession]:
    """Spark for the options `--master` and `--partitions`, while the block runs."""
    started = launch(args.master, args.partitions)
    try:
        yield started.spark
    except Exception as error:
        if _interrupted(error):
            raise KeyboardInterrupt from None
        if isinstance(error, LivelogError) and started.died:
            error.notes = (*error.notes, Note(f"the process of Spark itself has ended; its log is {started.log}"))
        elif started.died:
            raise RuntimeProblem(f"the process of Spark itself has ended; its log is {started.log}") from None
        raise
    finally:
        started.stop()


class Launch:
    """A Spark session and what was started for it: nothing, if it ran already."""

    def __init__(self, spark: SparkSession, folder: Path | None = None, process: Any = None, env: Any = None) -> None:
        self.spark = spark
        self.log = None if folder is None else folder / "spark.log"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = process
        self._env: Mapping[str, str | None] = env or {}
        if folder is not None:
            atexit.register(self.stop)

    @property
    def died(self) -> bool:
        """Whether the JVM that was started has ended by itself."""
        if self._process is None:
            return False
        try:
            self.spark.sparkContext._jsc.sc().isStopped()
        except Exception:
            # Its connections end before it does.
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(ENDING)
        return self._process.poll() is not None

    def stop(self) -> None:
        """Stop what was started. Once is enough; a session that ran before is left alone."""
        if self._folder is None:
            return
        atexit.unregister(self.stop)
        folder, self._folder = self._folder, None
        died = self._process is not None and self._process.poll() is not None
        # Of a JVM that is gone nobody can take leave, and pyspark warns of it.
        with warnings.catch_warnings(), suppress(Exception):
            warnings.simplefilter("ignore")
            self.spark.stop()
        _end(self._process)
        self._process = None
        _restore(self._env)
        if not died:
            shutil.rmtree(folder, ignore_errors=True)


# --- starting ------------------------------------------------------------------------------------------------


def launch(master: str | None, partitions: int) -> Launch:
    """Start Spark, or find the session that runs. Raises `UsageProblem` where it cannot be started."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        return Launch(SparkSession.builder.getOrCreate())
    if master is None:
        master = f"local[{partitions + BESIDE}]"
    check_master(master)
    _reach(master)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # under spark-submit the JVM is there before us
        check_java()
    return _launch(master)


def check_master(master: str) -> None:
    """Raise `UsageProblem` for a master that Spark could not take.

    >>> check_master("local[4]"), check_master("local[*,3]"), check_master("yarn")
    (None, None, None)
    >>> check_master("locl[4]")
    Traceback (most recent call last):
    datalog.errors.UsageProblem: error: 'locl[4]' is not a Spark master: it is local[N], local-cluster[N,CORES,MB], ...
    """
    if _FORMS.fullmatch(master) is None:
        raise UsageProblem(
            f"{master!r} is not a Spark master: it is local[N], local-cluster[N,CORES,MB], spark://HOST:PORT, yarn or "
            "k8s://URL"
        )
    _addresses(master)


def _addresses(master: str) -> list[tuple[str, int]]:
    """Where the masters of a standalone cluster are; nowhere, for other kinds of master."""
    if not master.startswith("spark://"):
        return []
    found = []
    for address in master.removeprefix("spark://").split(","):
        match = _ADDRESS.fullmatch(address)
        if match is None or not 0 < int(match[2]) < 65536:
            raise UsageProblem(f"{master!r} is not a Spark master: expected spark://HOST:PORT, not {address!r}")
        found.append((match[1], int(match[2])))
    return found


def _reach(master: str) -> None:
    """Raise `UsageProblem` if no master answers: Spark would try for a minute and then die of it."""
    addresses = _addresses(master)
    for address in addresses:
        with suppress(OSError), socket.create_connection(address, REACHING):
            return
    if addresses:
        raise UsageProblem(f"no Spark master answers at {master.removeprefix('spark://')}")


def _launch(master: str) -> Launch:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    # py4j logs every call that is interrupted, on the root logger, which without a handler prints it.
    if not logging.getLogger().handlers:
        logging.getLogger().addHandler(logging.NullHandler())
    folder = Path(tempfile.mkdtemp(prefix="livelog-spark-"))
    log = folder / "spark.log"
    env = _environment(master)
    handler = signal.getsignal(signal.SIGINT)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        conf = _configuration(SparkConf(loadDefaults=False), master, folder)
        with log.open("wb") as out, _noticing(processes):
            options: dict[str, Any] = {"stdout": out, "stderr": out, "start_new_session": True}
            gateway = launch_gateway(conf, options)  # type: ignore[no-untyped-call]
        context = SparkContext(conf=conf, gateway=gateway)
        return Launch(SparkSession(context), folder, gateway.proc, env)
    except BaseException as error:
        reason = _reason(error)  # the JVM may have to be asked
        SparkContext._active_spark_context = None
        for process in processes:
            _kill(process)
        _end(None)
        _restore(env)
        if not isinstance(error, Exception) or _interrupted(error):
            shutil.rmtree(folder, ignore_errors=True)
            raise KeyboardInterrupt if _interrupted(error) else error from None
        raise UsageProblem(f"Spark did not start with the master {master!r}: {reason}; its log is {log}") from None
    finally:
        # Spark's own handler would cancel all jobs, the one that is the session among them.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


@contextmanager
def _noticing(processes: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Note what pyspark starts: when it is interrupted before the JVM has answered, it leaves it to itself."""
    from pyspark import java_gateway

    module: Any = java_gateway
    before = module.Popen

    def noted(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        processes.append(before(*args, **options))
        return processes[-1]

    module.Popen = noted
    try:
        yield
    finally:
        module.Popen = before


def _configuration(conf: SparkConf, master: str, folder: Path) -> SparkConf:
    conf.setMaster(master).setAppName("livelog")
    conf.set("spark.ui.enabled", "false").set("spark.ui.showConsoleProgress", "false")
    # A barrier stage does not start while executors may come and go.
    conf.set("spark.dynamicAllocation.enabled", "false")
    if _LOCAL.fullmatch(master):
        conf.set("spark.driver.host", HERE).set("spark.driver.bindAddress", HERE)
        conf.set("spark.sql.warehouse.dir", (folder / "warehouse").as_uri())
    return conf


def _environment(master: str) -> dict[str, str | None]:
    """Set what Spark reads from the environment; returns how it was."""
    wanted = {"PYSPARK_PYTHON": sys.executable}
    if _LOCAL.fullmatch(master):
        root = str(Path(__file__).parents[3])  # where our packages are, however this interpreter found them
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        wanted |= {"SPARK_LOCAL_IP": HERE, "PYTHONPATH": path}
    elif "PYSPARK_PYTHON" in os.environ:  # the machines of a cluster may have theirs elsewhere
        wanted = {}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    return before


def _restore(env: Mapping[str, str | None]) -> None:
    for name, value in env.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _end(process: subprocess.Popen[bytes] | None) -> None:
    """End the JVM, and let pyspark forget it, so that another one can be started."""
    from pyspark import SparkContext

    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    if process is None:
        return
    with suppress(Exception):
        assert gateway is not None
        gateway.shutdown()
    with suppress(OSError):
        assert process.stdin is not None
        process.stdin.close()  # the JVM ends when this pipe does
    try:
        process.wait(ENDING)
    except subprocess.TimeoutExpired:
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process of ours and all that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _interrupted(error: BaseException | None) -> bool:
    """Whether an error only came up while Ctrl-C was on its way out: what pyspark puts in order may fail then."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _reason(error: BaseException) -> str:
    """The line of an error that tells something."""
    java = getattr(error, "java_exception", None)
    text = str(error)
    with suppress(Exception):
        text = java.getMessage() if java is not None else text
    lines = (line.strip() for line in text.splitlines())
    return next(filter(None, lines), type(error).__name__).rstrip(".")
