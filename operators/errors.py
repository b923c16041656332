"""What can go wrong while operators run. The session turns these into messages for people."""

from __future__ import annotations

from pathlib import PurePath
from types import TracebackType
from typing import Any

OWN = ("operators", "datalog", "planner", "livelog")
"""The packages whose frames are none of a user's business."""


class OperatorError(Exception):
    """The root of this module's errors. `rule` is the text of the rule that was being evaluated."""

    def __init__(self, message: str, rule: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.rule = rule


class RuleFailure(OperatorError):
    """A function or an operator of a rule raised: division by zero, overflow, a user's own function.

    `where` is the place in the user's own code, "geo.py:12, in km", or empty if that was not reached. `row` is the
    tuple that was being worked in, and `beside` the one that it was joined with, if it was.
    """

    def __init__(
        self,
        rule: str,
        row: tuple[Any, ...] | None,
        cause: BaseException,
        where: str = "",
        beside: tuple[Any, ...] | None = None,
    ) -> None:
        try:
            text = str(cause)
        except Exception:  # a class of the user's
            text = ""
        super().__init__(text or type(cause).__name__, rule)
        self.row = row
        self.beside = _partner(cause) if row is not None and beside is None else beside
        self.cause = cause
        self.where = where or _place(cause)


class Outgrown(OperatorError):
    """A relation has more tuples than it may have. With a `rule`: so many when that one was still making more.

    If it is not `sure`, some of them may have been about to go again.
    """

    def __init__(self, relation: str, size: int, limit: int, rule: str = "", sure: bool = True) -> None:
        so_far = " already" if rule else ""
        super().__init__(f"{relation} has {size} tuples{so_far}, more than its .limitsize of {limit}", rule)
        self.relation = relation
        self.sure = sure

    @classmethod
    def told(cls, message: str, rule: str, relation: str) -> Outgrown:
        """The same error as another process has told it."""
        error = cls(relation, 0, 0, rule, sure=not rule)
        error.message, error.args = message, (message,)
        return error


class Exhausted(OperatorError):
    """A transaction takes more memory or time than it may."""


class Excess(OperatorError):
    """A rule that is not recursive makes more tuples than a transaction may. `sample` shows some of them."""

    def __init__(self, message: str, rule: str, sample: list[tuple[Any, ...]]) -> None:
        super().__init__(message, rule)
        self.sample = sample


class Divergence(OperatorError):
    """A recursive component went past its limit. `sample` shows the tuples that were derived last."""

    def __init__(self, message: str, rule: str, sample: list[tuple[Any, ...]]) -> None:
        super().__init__(message, rule)
        self.sample = sample


def is_own(trace: TracebackType) -> bool:
    """Whether a frame is the engine's, not that of a function which the engine called."""
    frame = trace.tb_frame
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return package in OWN or frame.f_code.co_filename.startswith("<kernel")


def _place(cause: BaseException) -> str:
    """Where the user's function raised: its last line in the file that the engine called into."""
    trace, place, file = cause.__traceback__, "", None
    while trace is not None:
        code = trace.tb_frame.f_code
        if not is_own(trace) and file in (None, code.co_filename):
            file = code.co_filename
            place = f"{PurePath(file).name}:{trace.tb_lineno}, in {code.co_name}"
        trace = trace.tb_next
    return place


def _partner(cause: BaseException) -> tuple[Any, ...] | None:
    """The row that a generated loop of a join had found for the one of its batch: it calls that `u`."""
    trace, found = cause.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith("<kernel"):
            found = trace.tb_frame.f_locals.get("u")
        trace = trace.tb_next
    return found if isinstance(found, tuple) else None
