"""Layers that are alike are told once: what `explain` says of an iteration of a thousand layers fits on a page."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["alike", "runs"]

_LAYER = re.compile(r"@(-?\d+)")
_STRATUM = re.compile(r"^stratum \d+")


def alike(parts: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Texts about relations, and for each the relations of other layers about which the same was said.

    `parts` are pairs of a relation and a text. Two texts are alike if they differ only in the numbers of layers, and in
    these by as much as the relations they are about, or not at all.

    >>> alike([("r@1", "r@1 from r@0"), ("s", "s"), ("r@2", "r@2 from r@1"), ("r@3", "r@3 from r@1")])
    [('r@1 from r@0', ['r@2']), ('s', []), ('r@3 from r@1', [])]
    """
    result: list[tuple[str, list[str]]] = []
    first: dict[str, tuple[list[int], list[str]]] = {}
    for name, text in parts:
        others: list[str] = []
        if _LAYER.search(name):
            numbers = [int(n) for n in _LAYER.findall(f"{name} {text}")]
            general = _LAYER.sub("@", _STRATUM.sub("", text))
            known, others = first.setdefault(general, (numbers, others))
            moves = {a - b for a, b in zip(numbers, known, strict=True)}
            if known is not numbers and moves <= {numbers[0] - known[0], 0}:
                others.append(name)
                continue
            others = others if known is numbers else []
        result.append((text, others))
    return result


def runs(names: Iterable[str]) -> str:
    """Names with a comma between them, and of more than two layers of one relation only the first and the last.

    >>> runs(["a", "r@0", "r@1", "r@2", "s@0/1.1", "s@1/1.1"])
    'a, r@0 to r@2, s@0/1.1, s@1/1.1'
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_LAYER.sub("@", name), []).append(name)
    return ", ".join(f"{g[0]} to {g[-1]}" if len(g) > 2 else ", ".join(g) for g in groups.values())
