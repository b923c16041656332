"""What a change stream is made of: steps, each of them one transaction, and the facts that are there before the first.

Nothing here knows of Datalog. A relation is a name with a number of columns, a row is a tuple; whoever runs the
stream inserts and deletes rows in whatever engine there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

__all__ = ["Columns", "Operation", "Row", "Step", "Steps", "Workload"]

Row = tuple[Any, ...]

Operation = tuple[str, str, Row]
"""("+", relation, row) inserts, ("-", relation, row) deletes."""

Columns = Mapping[str, int]
"""The base relations of a program: name to number of columns."""


@dataclass(frozen=True, slots=True)
class Step:
    """One transaction of a change stream.

    The clock is advanced to `time` first; it never goes back from one step to the next. `about` is for a person:
    "link 3 - 7 fails". A step without operations only advances the clock.

    >>> Step(2.5, (("-", "link", (3, 7)), ("-", "link", (7, 3))), "link 3 - 7 fails").time
    2.5
    """

    time: float
    operations: tuple[Operation, ...]
    about: str


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps that can be gone through any number of times: every time the same ones are drawn anew from the seed.

    `draw` makes an iterator, perhaps an endless one; `limit` cuts it off.

    >>> steps = Steps(lambda: (Step(float(n), (), f"tick {n}") for n in range(10)), 2)
    >>> [step.about for step in steps], [step.time for step in steps]
    (['tick 0', 'tick 1'], [0.0, 1.0])
    """

    draw: Callable[[], Iterator[Step]]
    limit: int | None = None

    def __iter__(self) -> Iterator[Step]:
        return islice(self.draw(), self.limit)


@dataclass(frozen=True, slots=True)
class Workload:
    """What to do to a program: load the facts, then take the steps one by one, each as one transaction."""

    facts: dict[str, list[Row]]
    steps: Iterable[Step]
