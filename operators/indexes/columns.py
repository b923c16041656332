"""The ways through a tree of vectors, written out for a width: on every level, a loop over the columns would cost more
than what it does.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from operators.source import Source

__all__ = ["Enter", "Sum", "ways"]

Sum = Callable[..., tuple[Any, ...]]
"""`(root, k, relative, bisect) -> vector`: the sum of what is before the place of k that `bisect` finds in its leaf."""

Enter = Callable[..., tuple[list[Any], int] | None]
"""`(root, k, vector, relative)`: adds to an entry and the sums above it. The keys of its leaf and 1 if it is new, -1
if it is gone."""


@lru_cache
def ways(width: int) -> tuple[Sum, Enter]:
    """The functions for vectors of this width.

    >>> summed, entered = ways(2)
    >>> root = ([3, 7], None, [10, 20], [1, 1])
    >>> entered(root, 5, (15, 1), False), root, summed(root, 5, False, bisect_right)
    (([3, 5, 7], 1), ([3, 5, 7], None, [10, 15, 20], [1, 1, 1]), (25, 2))
    """
    return _compiled("summed", SUMMED, width), _compiled("entered", ENTERED, width)


def _compiled(name: str, text: str, width: int) -> Any:
    """A function whose text has `{...}` for what stands there once a column, with the number of the column for `#`."""
    source = Source()
    source.values |= {"bisect_left": bisect_left, "bisect_right": bisect_right}
    source.line(0, re.sub("{(.*?)}", lambda found: "".join(found[1].replace("#", str(c)) for c in range(width)), text))
    return source.compile(name)


SUMMED = """
def summed(node, k, relative, bisect):
    keys, children, {c#,} = node
    {s# = 0; }
    while children is not None:
        i = bisect_right(keys, k, 1) - 1
        {s# += sum(c#[:i]); }
        if relative:
            k -= keys[i]
        keys, children, {c#, } = children[i]
    i = bisect(keys, k)
    return ({s# + sum(c#[:i]), })
"""

ENTERED = """
def entered(node, k, vector, relative):
    ({v#, }) = vector
    keys, children, {c#, } = node
    while children is not None:
        i = bisect_right(keys, k, 1) - 1
        {c#[i] += v#; }
        if relative:
            k -= keys[i]
        keys, children, {c#, } = children[i]
    i = bisect_left(keys, k)
    if i < len(keys) and keys[i] == k:
        {c#[i] += v#; }
        if {c#[i] or } 0:
            return None
        del keys[i], {c#[i], }
        return keys, -1
    keys.insert(i, k)
    {c#.insert(i, v#); }
    return keys, 1
"""
