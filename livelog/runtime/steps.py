"""Steps: what a transaction did at each time at which something happened, where what is true depends on the clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from livelog.operations import Operation
from livelog.runtime.worker import Sides
from operators.dated import time_of
from operators.delta import Delta, Loaded

__all__ = ["PassedStep", "frozen", "net", "segments", "time_of"]

Tuple = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class PassedStep:
    """One step: its time, the regulated reads of which that is a point, and the changes of the published views."""

    time: float
    points: frozenset[str]
    changes: dict[str, Sides]


def segments(operations: Sequence[Operation], clock: float) -> list[tuple[float, list[Operation]]]:
    """The operations of a transaction by time: those up to the first move of the clock, and those from each move on.

    >>> segments([("+", "r", (1,)), ("@", None, 5.0), ("@", None, 7.0), ("-", "r", (1,))], 0.0)
    [(0.0, [('+', 'r', (1,))]), (5.0, [('@', None, 5.0)]), (7.0, [('@', None, 7.0), ('-', 'r', (1,))])]
    """
    found: list[tuple[float, list[Operation]]] = [(clock, [])]
    for operation in operations:
        if operation[0] == "@" and operation[2] > found[-1][0]:
            found.append((operation[2], [operation]))
        else:
            found[-1][1].append(operation)
    return found


def frozen(changes: dict[str, Sides]) -> dict[str, Sides]:
    """The changes as they are now, without those that are none: some are read from tables when they are asked for."""
    return {name: _frozen(sides) for name, sides in changes.items() if _any(sides)}


def _frozen(sides: Sides) -> Sides:
    if not isinstance(sides, Loaded):
        return sides
    weights = sides.weights
    return Delta(sides.gained, []) if weights is None else Delta.weighted(weights)


def _any(sides: Sides) -> bool:
    return bool(sides) if isinstance(sides, Delta) else any(sides)


def net(steps: Sequence[PassedStep]) -> dict[str, Sides]:
    """What steps change together. O(their changes)

    >>> a, b = (PassedStep(0.0, frozenset(), {"r": Delta(*sides)}) for sides in (([(1,), (2,)], []), ([(3,)], [(1,)])))
    >>> delta = net([a, b])["r"]; delta.gained, delta.lost
    ([(2,), (3,)], [])
    """
    if not steps:
        return {}
    if len(steps) == 1:
        return steps[0].changes
    sums: dict[str, dict[Tuple, int]] = {}
    for step in steps:
        for name, sides in step.changes.items():
            known = sums.setdefault(name, {})
            for t, w in _weights(sides):
                known[t] = known.get(t, 0) + w
    found: dict[str, Sides] = {}
    for name, weights in sums.items():
        gained, lost = [t for t, w in weights.items() if w > 0], [t for t, w in weights.items() if w < 0]
        if gained or lost:
            found[name] = Delta(gained, lost)
    return found


def _weights(sides: Sides) -> Iterator[tuple[Tuple, int]]:
    if isinstance(sides, Delta):
        yield from sides.items()
        return
    gained, lost = sides
    yield from ((t, 1) for t in gained)
    yield from ((t, -1) for t in lost)
