"""Aggregates of one's own as monoids: `livelog.aggregate`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from datalog.errors import UsageProblem
from datalog.functions import result_type, type_of_annotation
from operators.monoids import UserMonoid

__all__ = ["aggregate"]


def aggregate(
    zero: Any,
    merge: Callable[[Any, Any], Any],
    inverse: Callable[[Any, Any], Any] | None = None,
    answer: Callable[[Any], Any] | None = None,
    unit: Callable[[Any], Any] | None = None,
    type: type | None = None,  # the word that fits
) -> UserMonoid:
    """An aggregate for `livelog.open(..., aggregates={...})`, given as a monoid.

    `unit` makes the state of one value (by default the value itself); `merge(state, other)`, associative and
    commutative, that of two states together, and `zero` is the state of nothing. `answer` makes the result of a state
    (by default the state itself). States are yours: any Python objects, which no function may change in place.

    `inverse(state, other)` takes a state that was merged out again. With it, a group is one state, and a change costs
    one merge. Without it, the values of a group are kept and merged anew, in ascending order, after a change.

    The type of the results is `type` (int, float, str or list), or what the annotation of `answer` says.

    Here the mean of angles in degrees, which no sum of the angles themselves gives:

    >>> import cmath, datalog, livelog
    >>> mean_angle = livelog.aggregate(
    ...     zero=0, unit=lambda degrees: cmath.rect(1, degrees * cmath.pi / 180),
    ...     merge=lambda a, b: a + b, inverse=lambda a, b: a - b,
    ...     answer=lambda state: round(cmath.phase(state) * 180 / cmath.pi, 6), type=float)
    >>> program = datalog.parse("wind(place, mean_angle<a>) :- gust(place, _, a).")
    >>> session = livelog.open(program, facts={"gust": [("pier", 1, 350), ("pier", 2, 20), ("pier", 3, 120)]},
    ...                        aggregates={"mean_angle": mean_angle})
    >>> with session.transaction() as tx:
    ...     tx.delete("gust", ("pier", 3, 120))
    >>> list(session["wind"])
    [('pier', 5.0)]
    """
    for name, function in (("merge", merge), ("inverse", inverse), ("answer", answer), ("unit", unit)):
        if not callable(function) and (function is not None or name == "merge"):
            raise UsageProblem(f"livelog.aggregate: `{name}` must be a function, not {function!r}")
    kind = "any"
    if type is not None:
        kind = type_of_annotation(type)
        if kind == "any":
            raise UsageProblem(f"livelog.aggregate: `type` must be int, float, str or list, not {type!r}")
    elif answer is not None:
        kind = result_type(answer)
    return UserMonoid(zero, merge, inverse, answer, unit, kind)
