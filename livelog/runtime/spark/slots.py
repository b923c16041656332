"""How many tasks Spark can run at once, and whether a session fits.

A session holds one slot per partition for as long as it is open. Spark would wait for slots that never come without a
word, so this is looked at when a session opens, and a sentence says what to write instead.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from datalog.errors import RuntimeProblem, UsageProblem
from livelog.runtime.spark.jvm import talking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_slots", "slots"]

WAIT = 30.0
"""Seconds in which the executors of a cluster that has room for them have come."""
LOOK = 0.1


def slots(spark: SparkSession) -> int:
    """How many tasks can run at once on the executors that there are now."""
    sc = spark.sparkContext
    if sc._jsc is None:
        raise RuntimeProblem("Spark has been stopped: the session cannot go on")
    with talking(spark):
        try:
            inner = sc._jsc.sc()
            return int(inner.maxNumConcurrentTasks(inner.resourceProfileManager().defaultResourceProfile()))
        except Exception as error:
            # Not a public method: where a version of Spark has it no more, this is the next best thing to know.
            if not _missing(error):
                raise
            return int(sc.defaultParallelism)


def check_slots(
    spark: SparkSession, partitions: int, beside: bool, *, held: int = 0, wait: float | None = None
) -> None:
    """Raise `UsageProblem` unless there is a slot for every partition, and with `beside` one more for other jobs.

    `held` slots belong to sessions that are open already. The executors of a cluster come one after the other: those
    that are missing are waited for, `wait` seconds at most (half a minute on a cluster, not at all on this machine).
    """
    master = str(spark.sparkContext.master)
    local = re.match(r"local(\[|$)", master) is not None
    needed = held + partitions + beside
    deadline = time.monotonic() + (wait if wait is not None else 0.0 if local else WAIT)
    found = slots(spark)
    while found < needed and time.monotonic() < deadline:
        time.sleep(LOOK)
        found = slots(spark)
    if found >= needed:
        return
    raise UsageProblem(_sentence(found, partitions, beside, held, _instead(master, local, needed)))


def _sentence(found: int, partitions: int, beside: bool, held: int, instead: str) -> str:
    """
    >>> _sentence(2, 4, False, 0, "write local[4]")
    'a session with 4 partitions needs 4 task slots, and Spark has 2: write local[4], or use fewer partitions'
    >>> _sentence(1, 1, True, 0, "write local[2]")
    'a session with 1 partition needs 1 task slot and one more for jobs beside it, and Spark has 1: write local[2]'
    """
    needs = f"a session with {_count(partitions, 'partition')} needs {_count(partitions, 'task slot')}"
    if beside:
        needs += " and one more for jobs beside it"
    has = f"Spark has {found}" + (f", of which other sessions hold {held}" if held else "")
    return f"{needs}, and {has}: {instead}" + (", or use fewer partitions" if partitions > 1 else "")


def _instead(master: str, local: bool, needed: int) -> str:
    if local:
        return f"start Spark with the master local[{needed}]"
    return "give it more executors or cores (spark.executor.instances, spark.executor.cores, spark.cores.max)"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _missing(error: Exception) -> bool:
    """Whether it was the method that is not there, rather than the call that failed."""
    return isinstance(error, (AttributeError, TypeError)) or "does not exist" in str(error)
