"""Running a generated loop so that an error names the row that raised it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from operators.errors import RuleFailure

__all__ = ["guarded", "taking"]


def guarded(text: str, kernel: Callable[..., None], batch: Iterable[Any], *rest: Any, bare: bool = False) -> None:
    """Run `kernel(batch, *rest)`; if it raises, run it again entry by entry to name the one that did it.

    The entries of a batch are pairs with the row in front, or, in a `bare` one, the rows.

    The loops themselves check nothing per row. What they have already written into `rest` is void after an error: the
    transaction is rolled back. The second run writes there too, so a loop may not depend on what it finds.

    >>> def invert(batch, out):
    ...     for t, w in batch: out.append(1 / t[0])
    >>> guarded("r(1 / x) :- s(x).", invert, [((1,), 1), ((0,), 1)], [])
    Traceback (most recent call last):
    operators.errors.RuleFailure: division by zero
    """
    try:
        kernel(batch, *rest)
    except Exception as e:
        _blame(text, kernel, batch, rest, e, bare)


def taking(text: str, kernel: Callable[..., None], out: Any) -> Callable[[Iterable[Any]], None]:
    """`guarded` as a function of the batch, for a loop that always writes to the same place.

    >>> out = {}; take = taking("", lambda batch, out: out.update(batch), out); take([("a", 1)]); out
    {'a': 1}
    """

    def take(batch: Iterable[Any]) -> None:
        try:
            kernel(batch, out)
        except Exception as e:
            _blame(text, kernel, batch, (out,), e)

    return take


def _blame(
    text: str,
    kernel: Callable[..., None],
    batch: Iterable[Any],
    rest: tuple[Any, ...],
    error: Exception,
    bare: bool = False,
) -> NoReturn:
    for entry in batch:
        try:
            kernel([entry], *rest)
        except Exception as again:
            row = entry[0] if len(entry) == 2 and isinstance(entry[0], tuple) and not bare else entry
            raise RuleFailure(text, row, again) from again
    raise RuleFailure(text, None, error) from error
