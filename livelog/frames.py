"""What a session needs to know of DataFrames and functions for Spark before there is any Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datalog.errors import UsageProblem

__all__ = ["check_functions", "frames_apart", "is_frame"]


def check_functions(functions: Mapping[str, Any]) -> None:
    """Raise `UsageProblem` if a Python function of the program cannot be sent to the workers."""
    from pyspark import cloudpickle

    for name, function in functions.items():
        try:
            cloudpickle.dumps(function)  # type: ignore[no-untyped-call, unused-ignore]
        except Exception as error:
            raise UsageProblem(f"the function `{name}` cannot be sent to the workers: {error}") from None


def is_frame(rows: Any) -> bool:
    """Whether rows are a DataFrame of Spark, without importing it."""
    return any(c.__module__.startswith("pyspark.sql") and c.__name__ == "DataFrame" for c in type(rows).__mro__)


def frames_apart(facts: Any) -> tuple[dict[str, Any], Any]:
    """The DataFrames among facts, and the rest of them."""
    if not isinstance(facts, Mapping):
        return {}, facts
    frames = {name: rows for name, rows in facts.items() if is_frame(rows)}
    return frames, {name: rows for name, rows in facts.items() if name not in frames}
