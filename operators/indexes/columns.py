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

Enter = Callable[..., list[Any] | None]
"""`(tree, k, vector)`: adds to an entry of a tree, to the sums above it and to the total. If the entry is new, or is
gone now, the keys of its leaf."""


@lru_cache
def ways(width: int) -> tuple[Sum, Enter]:
    """The functions for vectors of this width.

    >>> from operators.indexes import RPAIVectors
    >>> tree = RPAIVectors.from_items([(3, (10, 1)), (7, (20, 1))], width=2)
    >>> summed, entered = ways(2)
    >>> entered(tree, 5, (15, 1)), tree.total, summed(tree._root, 5, False, bisect_right)
    ([3, 5, 7], (45, 3), (25, 2))
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
def entered(tree, k, vector):
    ({v#, }) = vector
    if not ({v# or } 0):
        return None
    ({t#, }) = tree.total
    tree.total = ({t# + v#, })
    relative = tree._relative
    keys, children, {c#, } = tree._root
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
        tree._size -= 1
    else:
        keys.insert(i, k)
        {c#.insert(i, v#); }
        tree._size += 1
    return keys
"""
