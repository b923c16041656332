"""Stage: the barrier stage of a session, submitted to Spark and watched from a thread."""

from __future__ import annotations

import functools
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from datalog.errors import LivelogError
from livelog.runtime.spark.jvm import mute, own_python
from livelog.runtime.spark.task import Assignment, run_task

__all__ = ["Stage"]


class Stage:
    """One submission of the stage. `ended` is called once, from its thread, when the stage is over for any reason.

    Spark keeps the slots of all tasks, or starts none; it does not retry such a stage, so its owner does.
    """

    def __init__(self, spark: Any, assignment: Assignment, name: str, data: Any, ended: Callable[[], None]) -> None:
        self._context = spark.sparkContext
        self._group = f"livelog-{uuid.uuid4().hex[:12]}"
        self._name = name
        self._ended = ended
        self._over = threading.Event()
        self.error: str = ""
        self._exception: BaseException | None = None
        n = assignment.partitions
        rows = self._context.parallelize(range(n), n) if data is None else _rows(data)
        work = functools.partial(run_task, assignment)
        # in this thread: whatever cannot be shipped to the workers is an error of the caller's
        with own_python(self._context):
            self._job = rows.barrier().mapPartitions(work)
            self._job._jrdd  # noqa: B018  (pickles the function)
        self._thread = threading.Thread(target=self._run, name="livelog stage", daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        return self._over.is_set()

    def _run(self) -> None:
        try:
            with mute():
                self._context.setJobGroup(self._group, f"livelog: {self._name}")
                self._job.collect()
        except BaseException as error:
            self._exception = error
            self.error = _reason(error)
        finally:
            self._over.set()
            self._ended()

    def told(self) -> LivelogError | None:
        """What is wrong with the rows that came in with the stage, or the workers' Python, if that is why it ended."""
        from livelog.runtime.spark.dataframes import explained  # needs pyspark

        if not isinstance(self._exception, Exception):
            return None
        error = explained(self._exception)
        return error if isinstance(error, LivelogError) else None

    def end(self, timeout: float) -> None:
        """Wait for the tasks to end by themselves, which they do without a driver; cancel what does not."""
        if not self._over.wait(timeout):
            with mute(), suppress(Exception):  # Spark itself may be gone
                self._context.cancelJobGroup(self._group)
            self._over.wait(timeout)


def _rows(data: Any) -> Any:
    """The rows of a DataFrame; what has to be shuffled first is, and bad rows are found here."""
    from livelog.runtime.spark.dataframes import explained

    try:
        return data.rdd
    except Exception as error:
        if (told := explained(error)) is error:
            raise
        raise told from None


def _reason(error: BaseException) -> str:
    """The sentence of Spark's long story that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for start in ("pyspark.errors", "ModuleNotFoundError", "ImportError"):
        for line in reversed(lines):
            if line.startswith(start):
                return line
    told = [line for line in lines if "Exception: " in line or "failed" in line.lower() or "Error: " in line]
    return (told or lines or [type(error).__name__])[0][:500]
