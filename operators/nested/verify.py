"""The test that all nested operators share: what was told against what should have been."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import add
from typing import Any

from operators.nested.heads import Heads

__all__ = ["verify"]


def verify(heads: Heads, qualifying: Iterable[tuple[tuple[Any, ...], Sequence[int]]]) -> None:
    """Assert that the heads show the sums of these groups and vectors, and nothing else."""
    heads.check()
    expected: dict[tuple[Any, ...], list[int]] = {}
    for key, vector in qualifying:
        group = heads.group(key)
        expected[group] = list(map(add, expected[group], vector)) if group in expected else list(vector)
    shown = {group: list(vector) for group, vector in heads.shown().items()}
    assert shown == expected, "what qualifies is not what is shown"
