"""Spark's own process, seen from Python: which Python its workers are, what it prints, and whether it still lives.

What goes wrong between the two ends in pages of Java's and Python's stack traces, on standard error and in the text of
exceptions. Where Livelog says itself what happened, in one sentence, these are not shown.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from datalog.errors import LivelogError, RuntimeProblem

__all__ = [
    "hush_accumulators", "lives", "mute", "own_python", "prefer_own_python", "quiet", "talking", "worker_problem",
]  # fmt: skip

LINGER = 2.0
"""Seconds in which other tasks of a job that failed may still have something to print."""

# Who prints stack traces of what a job raised: the job's own exception has all of it.
LOGGERS = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.scheduler.DAGScheduler",
    "org.apache.spark.api.python",
    "org.apache.spark.util.Utils",
    "org.apache.spark.sql.execution.datasources",
    "org.apache.spark.sql.execution.streaming",
)

_HERE = re.compile(r"local(-cluster)?(\[|$)")
_MODULE = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")
_VERSION = re.compile(r"PYTHON_VERSION_MISMATCH\].*?(\d+(?:, \d+|\.\d+)).*?(\d+(?:, \d+|\.\d+))", re.DOTALL)
_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')


# --- the workers' Python -------------------------------------------------------------------------------------


@contextmanager
def own_python(context: Any) -> Iterator[None]:
    """What is given to Spark in the block runs in the driver's own Python, where the workers are on this machine.

    Whether its environment was activated or not: Spark would take the `python3` that it finds. What this Python can
    import, they can. On a cluster nothing is changed: the machines may have theirs elsewhere.
    """
    if not _is_here(context):
        yield
        return
    before, path = context.pythonExec, context.environment.get("PYTHONPATH")
    context.pythonExec = sys.executable
    context.environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(os.path.abspath(p) for p in sys.path))
    try:
        yield
    finally:
        context.pythonExec = before
        if path is None:
            context.environment.pop("PYTHONPATH", None)
        else:
            context.environment["PYTHONPATH"] = path


def prefer_own_python(context: Any) -> None:
    """Let other jobs of a context on this machine run in the driver's own Python, too, unless one was chosen."""
    if _is_here(context) and "PYSPARK_PYTHON" not in os.environ and context._conf.get("spark.pyspark.python") is None:
        context.pythonExec = sys.executable


def _is_here(context: Any) -> bool:
    return bool(sys.executable) and _HERE.match(str(getattr(context, "master", ""))) is not None


def worker_problem(text: str) -> str | None:
    """What is wrong with the workers' Python, by the long story that Spark tells, if that is it.

    >>> worker_problem("Traceback ...\\nModuleNotFoundError: No module named 'livelog'\\n")[:67]
    "the Python of Spark's workers has no module `livelog`: install it t"
    >>> told = "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, ..."
    >>> worker_problem(told)[:83]
    "Spark's workers run Python 3.9, and this is Python 3.11: set PYSPARK_PYTHON to a Py"
    >>> worker_problem("OutOfMemoryError")
    """
    set_it = "on all machines, before Spark is started"
    if found := _VERSION.search(text):
        worker, driver = (version.replace(", ", ".") for version in found.groups())
        return (
            f"Spark's workers run Python {worker}, and this is Python {driver}: "
            f"set PYSPARK_PYTHON to a Python of the same version, {set_it}"
        )
    if found := _MODULE.search(text):
        return (
            f"the Python of Spark's workers has no module `{found[1]}`: install it there, or set PYSPARK_PYTHON to a "
            f"Python that has it, {set_it}"
        )
    if found := _PROGRAM.search(text):
        return f"Spark cannot run `{found[1]}` for its workers: set PYSPARK_PYTHON to a Python that is there, {set_it}"
    return None


# --- what it prints ------------------------------------------------------------------------------------------

_lock = threading.Lock()
_quiet = 0
_levels: dict[str, Any] = {}


@contextmanager
def quiet(context: Any) -> Iterator[None]:
    """Let Spark's process print no stack traces while the block runs, and for a moment after one that fails."""
    _turn_down(context)
    try:
        yield
    except BaseException:
        timer = threading.Timer(LINGER, _turn_up, (context,))
        timer.daemon = True
        timer.start()
        raise
    _turn_up(context)


def _turn_down(context: Any) -> None:
    global _quiet
    with _lock, mute(), suppress(Exception):  # another version of Spark may log by other means
        _quiet += 1
        if _quiet == 1:
            log4j = context._jvm.org.apache.logging.log4j
            known = log4j.LogManager.getContext(False).getConfiguration().getLoggers()
            for name in LOGGERS:
                _levels[name] = known.get(name).getLevel() if known.containsKey(name) else None
                log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)


def _turn_up(context: Any) -> None:
    global _quiet
    with _lock, mute(), suppress(Exception):  # it may be gone
        _quiet -= 1
        if not _quiet:
            log4j = context._jvm.org.apache.logging.log4j
            logging_ = log4j.LogManager.getContext(False)
            for name, level in _levels.items():
                if level is None:  # it had no level of its own, and Spark tells that from one that it was given
                    logging_.getConfiguration().removeLogger(name)
                else:
                    log4j.core.config.Configurator.setLevel(name, level)
            logging_.updateLoggers()


class _Muted(threading.local):
    """How many blocks of this thread want py4j to be silent."""

    depth = 0


_muted = _Muted()


def _heard(record: logging.LogRecord) -> bool:
    """Whether a record of the root logger is to be seen: py4j logs there whatever fails on its way to Java."""
    if f"{os.sep}py4j{os.sep}" not in record.pathname:
        return True
    told = record.exc_info and isinstance(record.exc_info[1], LivelogError)
    return not _muted.depth and not told


@contextmanager
def mute() -> Iterator[None]:
    """Whatever fails on its way to Java is not logged by py4j while the block runs in this thread."""
    for name in (None, "py4j", "py4j.java_gateway", "py4j.clientserver"):
        logger = logging.getLogger(name)
        if _heard not in logger.filters:
            logger.addFilter(_heard)
    _muted.depth += 1
    try:
        yield
    finally:
        _muted.depth -= 1


def hush_accumulators(context: Any) -> None:
    """Let pyspark's server of accumulators end without a trace when the process that it serves does."""
    server = getattr(context, "_accumulatorServer", None)
    if server is None or "handle_error" in vars(server):
        return
    shown = server.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if not isinstance(sys.exception(), (ConnectionError, EOFError)):
            shown(request, address)

    server.handle_error = handle_error


# --- whether it lives ----------------------------------------------------------------------------------------


def lives(spark: Any) -> bool:
    """Whether Spark's process is there and was not stopped."""
    with mute():
        try:
            return not spark.sparkContext._jsc.sc().isStopped()
        except Exception:
            return False


@contextmanager
def talking(spark: Any) -> Iterator[None]:
    """What Spark is asked for in the block ends in one sentence if its process has ended."""
    try:
        with mute():
            yield
    except Exception as error:
        if isinstance(error, LivelogError) or lives(spark):
            raise
        raise RuntimeProblem(
            "Spark's own process (Java) has ended, and the session cannot go on in this one: start Spark again, and "
            "`livelog.resume` the session, if it has a folder of its own (`checkpoint=`)"
        ) from None
