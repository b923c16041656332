"""When things happen: times of a clock that never goes back, with exponential or heavy-tailed gaps between them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["EVERY_SECOND", "Arrivals", "exponential", "heavy_tailed"]


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The gaps between the steps of a stream: a mean, and a shape for heavy tails.

    Without a `shape` the gaps are exponential: steps are independent of each other. With one, they have the Lomax
    distribution (Pareto's, moved to start at 0) of that shape and mean: P(gap > x) = (1 + x / scale) ** -shape, with
    scale = mean * (shape - 1). The smaller the shape, the heavier the tail: at 2 and below the variance is infinite,
    at 1 and below so would be the mean.

    >>> Arrivals(mean=0)
    Traceback (most recent call last):
        ...
    ValueError: the mean time between steps must be greater than 0, got 0
    >>> Arrivals(shape=1)
    Traceback (most recent call last):
        ...
    ValueError: gaps with a mean need a shape greater than 1, got 1
    """

    mean: float = 1.0
    shape: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.mean < float("inf"):
            raise ValueError(f"the mean time between steps must be greater than 0, got {self.mean}")
        if self.shape is not None and not self.shape > 1:
            raise ValueError(f"gaps with a mean need a shape greater than 1, got {self.shape}")

    def gap(self, rng: random.Random) -> float:
        """One gap.

        >>> Arrivals(10).gap(random.Random(1)) > 0
        True
        """
        if self.shape is None:
            return rng.expovariate(1 / self.mean)
        return self.mean * (self.shape - 1) * (rng.paretovariate(self.shape) - 1)

    def times(self, rng: random.Random, start: float = 0.0) -> Iterator[float]:
        """The times of the steps, for ever; each is the one before it and a gap.

        >>> from itertools import islice
        >>> times = list(islice(Arrivals(10, shape=1.5).times(random.Random(1)), 100))
        >>> times == sorted(times)
        True
        """
        time = start
        while True:
            time += self.gap(rng)
            yield time


EVERY_SECOND = Arrivals()
"""What streams take if nothing is said: exponential gaps of 1 on average."""


def exponential(mean: float = 1.0) -> Arrivals:
    """Steps that come independently of each other, so far apart on average.

    >>> exponential(2.5)
    Arrivals(mean=2.5, shape=None)
    """
    return Arrivals(mean)


def heavy_tailed(mean: float = 1.0, shape: float = 1.5) -> Arrivals:
    """Many steps close together and now and then a long silence.

    >>> heavy_tailed(2.5)
    Arrivals(mean=2.5, shape=1.5)
    """
    return Arrivals(mean, shape)
