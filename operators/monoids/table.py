"""From the name of an aggregate to its states.

The name of one with a parameter holds it, as in `quantile(0.9)`: so a plan says all of an aggregate in one string. What
follows it in `collect(longest)`, `top(3, longest)` and `bottom(3, longest)` is how long a list may be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from operators.monoids.base import Monoid
from operators.monoids.boolean import All, Any_
from operators.monoids.linear import Avg, Count, Stddev, Sum, Total, Variance
from operators.monoids.multisets import Bottom, Collect, CountDistinct, Quantile, Top
from operators.monoids.ordered import Extreme
from operators.monoids.user import UserAggregate, UserMonoid

__all__ = ["factory", "named", "of_nothing", "parameter_of"]

_HALF = Fraction(1, 2)
_PLAIN: Mapping[str, Callable[[], Monoid]] = {
    "count": Count,
    "sum'": Total,  # of the planner: no program has such a name
    "avg": Avg,
    "variance": Variance,
    "stddev": Stddev,
    "min": lambda: Extreme(largest=False),
    "max": lambda: Extreme(largest=True),
    "median": lambda: Quantile(_HALF),
    "count_distinct": CountDistinct,
    "collect": Collect,
    "all": All,
    "any": Any_,
}
_OF_NOTHING: Mapping[str, Any] = {
    "count": 0, "sum": 0, "count_distinct": 0, "any": 0, "all": 1, "collect": (), "top": (), "bottom": (),
}  # fmt: skip


def named(function: str, parameter: Any = None) -> str:
    """The name of an aggregate with its parameter, if it has one.

    >>> named("sum"), named("quantile", 0.9)
    ('sum', 'quantile(0.9)')
    """
    return function if parameter is None else f"{function}({parameter!r})"


def parameter_of(name: str) -> tuple[str, str | None]:
    """The function and the parameter of a name.

    >>> parameter_of("sum"), parameter_of("quantile(0.9)")
    (('sum', None), ('quantile', '0.9'))
    """
    function, bracket, rest = name.partition("(")
    return function, rest[:-1] if bracket else None


def factory(
    name: str, registered: Mapping[str, Callable[[list[Any]], Any]], kind: str = "number"
) -> Callable[[], Monoid]:
    """What makes an empty state of the aggregate with that name; `kind` is the type of its result, `any` if unknown.

    >>> factory("count", {})().result()
    0
    >>> top = factory("top(2)", {})(); top.add_all([1, 3, 2]); top.result()
    (3, 2)
    """
    if name in registered:
        implementation = registered[name]
        if hasattr(implementation, "typed"):  # it looks after the type of what it answers
            implementation = implementation.typed(kind)
        if isinstance(implementation, UserMonoid):
            return implementation.empty
        return lambda: UserAggregate(implementation)
    function, parameter = parameter_of(name)
    if parameter is None:
        return (lambda: Sum(kind == "unsigned")) if function == "sum" else _PLAIN[function]
    if function == "quantile":
        fraction = Fraction(parameter)
        return lambda: Quantile(fraction)
    sizes = [int(size) for size in parameter.split(",")]
    state: Callable[..., Monoid] = {"top": Top, "bottom": Bottom, "collect": Collect}[function]
    return lambda: state(*sizes)


def of_nothing(name: str, registered: Mapping[str, Any]) -> Any:
    """What an aggregate answers where it ranges over nothing; None if it has no answer then.

    >>> of_nothing("sum", {}), of_nothing("top(3)", {}), of_nothing("max", {})
    (0, (), None)
    """
    return None if name in registered else _OF_NOTHING.get(parameter_of(name)[0])
