"""Times of operations: what a time may be, and what is said of an operation that does not fit in time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

from datalog.errors import UsageProblem
from datalog.format import brief_value
from livelog.operations import Operation
from livelog.runtime.steps import time_of

__all__ = ["check_time", "no_deletion", "operation_text", "overtaken", "too_late"]


def check_time(when: Any) -> float:
    """A time as a float, or an error that says what is wrong with it.

    >>> check_time(8)
    8.0
    """
    if isinstance(when, bool) or not isinstance(when, (int, float)):
        raise UsageProblem(f"the clock needs a number, not {when!r}")
    if not -inf < when < inf:
        raise UsageProblem(f"the clock needs a finite number, not {when!r}")
    try:
        return float(when)
    except OverflowError:
        raise UsageProblem("the clock needs a number that fits in a float") from None


def operation_text(operation: Operation) -> str:
    """An operation as a message names it; its row is None where it is for many rows, whatever they look like.

    >>> operation_text(("+", "reading", ("a", 3))), operation_text(("-", "link", {"src": "a"}))
    ('+reading("a", 3)', '-link(src="a")')
    """
    op, relation, row = operation
    if len(op) > 1:  # many rows
        op, row = op[0], None
    if isinstance(row, Mapping):
        values = [f"{name}={_shown(value)}" for name, value in row.items()]
    elif isinstance(row, (str, bytes)) or not isinstance(row, Iterable):
        values = ["..."]
    else:
        values = [_shown(value) for value in row]
    return f"{op}{relation}({', '.join(values)})"


def _shown(value: Any) -> str:
    """Any value that somebody may hand in, in short."""
    return brief_value(value) if type(value) in (int, float, str) else repr(value)[:60]


def too_late(operation: Operation, when: float, clock: float, outcome: str = "") -> UsageProblem:
    """An operation has a time that has passed.

    >>> print(too_late(("+", "reading", ("a", 3)), 5.0, 8.0).message)
    +reading("a", 3) at 5 is late: the clock stands at 8 and cannot go back
    """
    text = operation_text(operation)
    where = f"the clock stands at {time_of(clock)}{' by now' if outcome else ''} and cannot go back"
    return UsageProblem(f"{text} at {time_of(when)} is late: {where}{outcome}")


def overtaken(operations: Iterable[Operation], first: float, clock: float) -> UsageProblem:
    """A transaction moves the clock to a time that passed since it was made: another one was faster.

    >>> print(overtaken([("@", None, 5.0), ("+", "r", (1,))], 5.0, 8.0).message)
    +r(1) at 5 is late: the clock stands at 8 by now and cannot go back: the transaction was not applied
    """
    outcome = ": the transaction was not applied"
    moved = False
    for operation in operations:
        if moved and operation[0] != "@":
            return too_late(operation, first, clock, outcome)
        moved = moved or operation[0] == "@"
    return UsageProblem(f"the clock stands at {time_of(clock)} by now and cannot go back to {time_of(first)}{outcome}")


def no_deletion(relation: str) -> UsageProblem:
    """A stream knows no deletions."""
    return UsageProblem(
        f"`{relation}` is a stream: what has arrived stays so, and cannot be deleted; let its tuples go with time, by "
        "ttl(...) in its declaration or a window over `now`, or declare it with a key if rows are to be taken back"
    )
