"""Conditions that are tried before it is known that they matter: a failure waits until the row has met all else.

Where a condition that may fail is decided on the way to a longer join, a row on which it fails goes on with the text of
the failure in a column of its own. Most such rows meet no partner, and nothing has happened; the last step raises the
failure of those that do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from operators.expr import Apply, Col, Expr, columns
from operators.source import row_function

__all__ = ["SOUND", "Attempt", "attempt", "sound"]

SOUND = ""
"""What the column of failures holds where nothing failed."""


CAUSES: dict[str, Exception] = {}
"""The last failures by their text. A text may travel; where it has not, what it was caused by can still be told."""


def _told(cause: Exception) -> str:
    """The text of a failure, as it would be shown."""
    try:
        text = str(cause)
    except Exception:  # a class of the user's
        text = ""
    text = text or type(cause).__name__
    text = text if isinstance(cause, (ArithmeticError, ValueError)) else f"{type(cause).__name__}: {text}"
    while len(CAUSES) >= 16:
        del CAUSES[next(iter(CAUSES))]
    CAUSES[text] = cause
    return text


@dataclass(frozen=True)
class Attempt:
    """Whether no one of some conditions is false, or (with `tells`) the first failure among them.

    >>> from operator import gt
    >>> def inverse(x): return 1 / x
    >>> above = Apply(">", gt, (Apply("inverse", inverse, (Col(0),)), Col(1)), ">")
    >>> [Attempt((above,))(x, 0) for x in (1, 0, -1)], [Attempt((above,), True)(x, 0) for x in (1, 0)]
    ([True, True, False], ['', 'division by zero'])
    """

    conditions: tuple[Expr, ...]
    tells: bool = False
    _tests: list[Callable[[tuple[Any, ...]], tuple[Any, ...]]] = field(
        init=False, repr=False, compare=False, default_factory=list
    )

    def __call__(self, *row: Any) -> Any:
        if not self._tests:
            self._tests.extend(row_function((condition,)) for condition in self.conditions)
        trouble = SOUND
        for test in self._tests:
            try:
                if not test(row)[0]:
                    return SOUND if self.tells else False
            except Exception as error:
                trouble = trouble or _told(error)
        return trouble if self.tells else True


def attempt(conditions: Sequence[Expr]) -> tuple[Apply, Apply]:
    """A condition that holds unless one of some conditions is false, and the text of what failed among them.

    >>> from operator import gt
    >>> attempt([Apply(">", gt, (Col(3), Col(1)), ">")])[0].arguments
    (Col(index=1), Col(index=3))
    """
    read = sorted({column for condition in conditions for column in columns(condition)})
    own = {column: i for i, column in enumerate(read)}
    tried = tuple(_over(condition, own) for condition in conditions)
    arguments = tuple(map(Col, read))
    return Apply("passes", Attempt(tried), arguments), Apply("failure", Attempt(tried, True), arguments)


def _over(expr: Expr, own: dict[int, int]) -> Expr:
    if isinstance(expr, Col):
        return Col(own[expr.index])
    if isinstance(expr, Apply):
        return replace(expr, arguments=tuple(_over(a, own) for a in expr.arguments))
    return expr


def sound(column: Expr) -> Apply:
    """A condition that holds where a column of failures says that there was none, and otherwise raises it."""
    return Apply("sound", _raise, (column,), "sound")


def _raise(trouble: str) -> bool:
    if trouble == SOUND:
        return True
    raise CAUSES.get(trouble) or ValueError(trouble)
