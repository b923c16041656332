"""Steps: what a transaction did at each time at which something happened, where what is true depends on the clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from livelog.operations import Operation
from livelog.runtime.worker import Sides
from operators.dated import time_of
from operators.delta import Delta, Loaded

__all__ = ["PassedStep", "copies", "frozen", "net", "segments", "time_of"]

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


def copies(sides: Sides) -> tuple[list[Tuple], list[Tuple]]:
    """What came and what went, each tuple as often as it did.

    >>> copies(Delta.weighted([(("a",), 2), (("b",), -1)]))
    ([('a',), ('a',)], [('b',)])
    """
    if isinstance(sides, Delta) and sides.weights is not None:
        weights = sides.weights
        return [t for t, n in weights for _ in range(n)], [t for t, n in weights for _ in range(-n)]
    gained, lost = sides
    return gained, lost


def net(steps: Sequence[dict[str, Sides]]) -> dict[str, Sides]:
    """What the changes of steps, one after the other, are together. O(changes)

    >>> delta = net([{"r": Delta([(1,), (2,)], [])}, {"r": ([(3,)], [(1,)])}])["r"]; delta.gained, delta.lost
    ([(2,), (3,)], [])
    """
    if not steps:
        return {}
    if len(steps) == 1:
        return steps[0]
    sums: dict[str, dict[Tuple, int]] = {}
    for changes in steps:
        for name, sides in changes.items():
            known = sums.setdefault(name, {})
            for t, w in _weights(sides):
                known[t] = known.get(t, 0) + w
    found: dict[str, Sides] = {}
    for name, weights in sums.items():
        changed = [(t, w) for t, w in weights.items() if w]
        if changed:  # of a stream several copies may have come at one time
            once = all(w in (1, -1) for _, w in changed)
            gained, lost = [t for t, w in changed if w > 0], [t for t, w in changed if w < 0]
            found[name] = Delta(gained, lost) if once else Delta.weighted(changed)
    return found


def _weights(sides: Sides) -> Iterator[tuple[Tuple, int]]:
    if isinstance(sides, Delta):
        yield from sides.items()
        return
    gained, lost = sides
    yield from ((t, 1) for t in gained)
    yield from ((t, -1) for t in lost)
