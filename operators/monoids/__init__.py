"""Aggregates as states that grow and shrink: `add(value, weight)` with a weight of either sign, `result()`.

Every state takes back exactly what it was given, so after any history it equals the aggregate of what is left, whatever
the order of arrival.
"""

from operators.monoids.base import Linear, Monoid, Vector
from operators.monoids.boolean import All, Any_
from operators.monoids.linear import Avg, Count, Stddev, Sum, Variance
from operators.monoids.multisets import Bottom, Collect, CountDistinct, Quantile, Top
from operators.monoids.ordered import Extreme
from operators.monoids.table import factory, named, of_nothing, parameter_of
from operators.monoids.user import Folded, Merged, UserAggregate, UserMonoid

__all__ = [
    "All", "Any_", "Avg", "Bottom", "Collect", "Count", "CountDistinct", "Extreme", "Folded", "Linear", "Merged",
    "Monoid", "Quantile", "Stddev", "Sum", "Top", "UserAggregate", "UserMonoid", "Variance", "Vector", "factory",
    "named", "of_nothing", "parameter_of",
]  # fmt: skip
