"""What can go wrong while operators run. The session turns these into messages for people."""

from __future__ import annotations

from typing import Any


class OperatorError(Exception):
    """The root of this module's errors. `rule` is the text of the rule that was being evaluated."""

    def __init__(self, message: str, rule: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.rule = rule


class RuleFailure(OperatorError):
    """A function or an operator of a rule raised: division by zero, overflow, a user's own function."""

    def __init__(self, rule: str, row: tuple[Any, ...] | None, cause: BaseException) -> None:
        try:
            text = str(cause)
        except Exception:  # a class of the user's
            text = ""
        super().__init__(text or type(cause).__name__, rule)
        self.row = row
        self.cause = cause


class Outgrown(OperatorError):
    """A relation has more tuples than it may have."""

    def __init__(self, relation: str, size: int, limit: int) -> None:
        super().__init__(f"{relation} has {size} tuples, more than its .limitsize of {limit}")
        self.relation = relation


class Divergence(OperatorError):
    """A recursive component went past its limit. `sample` shows the tuples that were derived last."""

    def __init__(self, message: str, rule: str, sample: list[tuple[Any, ...]]) -> None:
        super().__init__(message, rule)
        self.sample = sample
