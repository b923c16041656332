"""Monotone functions as sets of derivations: a second, plain form of annotations to compare the engine's with."""

from __future__ import annotations

from collections.abc import Iterable

from operators.provenance import Annotation, Provenance

__all__ = ["Cubes", "derivations", "minimal", "restricted"]

Cubes = frozenset[frozenset[int]]


def minimal(cubes: Iterable[Iterable[int]]) -> Cubes:
    """The derivations that absorb all others. Equal functions have equal ones.

    >>> sorted(map(sorted, minimal([{1, 2}, {1}, {2, 3}])))
    [[1], [2, 3]]
    """
    chosen = {frozenset(c) for c in cubes}
    return frozenset(c for c in chosen if not any(d < c for d in chosen))


def restricted(cubes: Iterable[frozenset[int]], dead: set[int]) -> Cubes:
    """What is left when variables die."""
    return frozenset(c for c in cubes if not c & dead)


def derivations(p: Provenance, annotation: Annotation | None) -> Cubes:
    """What an annotation means, read off its shipped form; None means nothing.

    >>> p = Provenance()
    >>> sorted(map(sorted, derivations(p, p.disjunction(p.diagram((0,)), p.diagram(((1,), (2,)))))))
    [[0], [1, 2]]
    """
    if annotation is None:
        return frozenset()
    shipped = p.encode(annotation)
    if not shipped or isinstance(shipped[0], int):
        return frozenset({frozenset(shipped)})
    found: list[Cubes] = [frozenset(), frozenset({frozenset()})]
    flat = shipped[0]
    for i in range(0, len(flat), 3):
        v, low, high = flat[i : i + 3]
        found.append(minimal(found[low] | {c | {v} for c in found[high]}))
    return found[-1]
