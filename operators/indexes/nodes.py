"""The nodes of an RPAI tree: wide, plain lists, and what is done to them when they grow too large or too small.

A node is a tuple `(keys, children, *columns)`:

- a leaf holds entries in order: `keys` and, column by column, their values; `children` is None;
- an inner node holds children in order: `columns` are the sums of what is below each, and `keys[i]` is a fence: no key
  below child i is smaller. (Nobody asks for `keys[0]`: what is smaller than all fences is below the first child too.)

There are two kinds of trees. In a *fixed* one, which never shifted, keys stand as they were given. In a *relative* one
all that is below child i is relative to `keys[i]`, which has to be added to it: to shift all children from the i-th on
is to change the fences from the i-th on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

__all__ = [
    "FEWEST", "WIDEST", "Node", "above", "build", "halve", "highest", "join", "leaf", "lift", "lowest", "place",
    "sound",
]

Node = tuple[Any, ...]

WIDEST = 48  # entries of a node; docs/indexes.md shows how this was chosen
FEWEST = WIDEST // 4  # but for the root


def leaf(width: int) -> Node:
    """A leaf without entries.

    >>> leaf(2)
    ([], None, [], [])
    """
    return ([], None, *([] for _ in range(width)))


def above(fences: list[Any], children: list[Node]) -> Node:
    """The node above these children. O(width²)

    >>> above([0, 7], [([1, 2], None, [10, 20]), ([0], None, [5])])[2]
    [30, 5]
    """
    return (fences, children, *([sum(child[c]) for child in children] for c in range(2, len(children[0]))))


def build(keys: list[Any], columns: Sequence[list[Any]], relative: bool) -> Node:
    """The tree of entries whose keys ascend. O(n)

    Nodes are three quarters full, so that they take a while to split.

    >>> build([1, 5], [[10, 20]], relative=True)
    ([1, 5], None, [10, 20])
    """
    if not keys:
        return leaf(len(columns))
    cuts = even_cuts(len(keys))
    fences = [keys[start] for start, _ in cuts]
    level: list[Node] = [
        (relative_to(keys[a:b], keys[a], relative), None, *(column[a:b] for column in columns)) for a, b in cuts
    ]
    while len(level) > 1:
        cuts = even_cuts(len(level))
        level = [above(relative_to(fences[a:b], fences[a], relative), level[a:b]) for a, b in cuts]
        fences = [fences[start] for start, _ in cuts]
    if relative:
        lift(level[0], fences[0])
    return level[0]


def even_cuts(n: int) -> list[tuple[int, int]]:
    """The ends of pieces of n things in a row, as equal as can be, none above three quarters of a node.

    >>> even_cuts(10), len(even_cuts(WIDEST))
    ([(0, 10)], 2)
    """
    pieces = -(-n // (WIDEST * 3 // 4))
    return list(pairwise(n * i // pieces for i in range(pieces + 1)))


def relative_to(keys: list[Any], base: Any, relative: bool) -> list[Any]:
    """Keys as a child writes them whose fence is `base`."""
    return [k - base for k in keys] if relative else keys


def lift(node: Node, by: Any) -> None:
    """Add to all keys of a relative node. O(width)

    >>> node = ([1, 5], None, [10, 20]); lift(node, 3); node[0]
    [4, 8]
    """
    node[0][:] = [k + by for k in node[0]]


def lowest(node: Node, relative: bool) -> Any:
    """The smallest key below a node, as the node writes keys. O(log n)

    >>> lowest(([3, 7], [([1, 2], None, [10, 20]), ([0], None, [5])], [30, 5]), relative=True)
    4
    """
    by = 0
    while node[1] is not None:
        by += node[0][0] if relative else 0
        node = node[1][0]
    return node[0][0] + by if relative else node[0][0]


def highest(node: Node, relative: bool) -> Any:
    """The largest key below a node, as the node writes keys. O(log n)

    >>> highest(([3, 7], [([1, 2], None, [10, 20]), ([0], None, [5])], [30, 5]), relative=True)
    7
    """
    by = 0
    while node[1] is not None:
        by += node[0][-1] if relative else 0
        node = node[1][-1]
    return node[0][-1] + by if relative else node[0][-1]


def place(values: list[Any], before: Any, holds: Callable[[Any], bool]) -> tuple[int, Any]:
    """The first value up to and with which something holds of the sum, if only of all together; and the sum before it.

    Halving a list and summing the halves is quick while they are long, and walking is when they are short.

    >>> place([1, 2, 3, 4], 100, lambda s: s > 103), place([1, 2], 0, lambda s: s > 5)
    ((2, 103), (1, 1))
    """
    start, end = 0, len(values)
    while end - start > 8:
        middle = (start + end) >> 1
        total = before + sum(values[start:middle])
        if holds(total):
            end = middle
        else:
            start, before = middle, total
    for value in values[start : end - 1]:
        total = before + value
        if holds(total):
            break
        before = total
        start += 1
    return start, before


def halve(parent: Node, i: int, relative: bool) -> None:
    """Cut child i into two children. O(width)"""
    fences, children, *sums = parent
    keys, below, *columns = children[i]
    middle = len(keys) // 2
    base = keys[middle]
    fences.insert(i + 1, base + fences[i] if relative else base)
    halves = [column[middle:] for column in columns]
    children.insert(
        i + 1, (relative_to(keys[middle:], base, relative), None if below is None else below[middle:], *halves)
    )
    del keys[middle:]
    if below is not None:
        del below[middle:]
    for column, total, half in zip(columns, sums, halves, strict=True):
        del column[middle:]
        moved = sum(half)
        total[i] -= moved
        total.insert(i + 1, moved)


def join(parent: Node, i: int, relative: bool) -> None:
    """Put what is below child i + 1 into child i, and cut again if that is too much. O(width)"""
    fences, children, *sums = parent
    lower, upper = children[i], children.pop(i + 1)
    fence = fences.pop(i + 1)
    if upper[1] is not None:  # its first fence becomes one that is asked for
        if relative:
            lift(upper[1][0], upper[0][0])
        upper[0][0] = 0 if relative else fence
    lower[0].extend(relative_to(upper[0], fences[i] - fence, True) if relative else upper[0])
    if upper[1] is not None:
        lower[1].extend(upper[1])
    for column, more in zip(lower[2:], upper[2:], strict=True):
        column.extend(more)
    for total in sums:
        total[i] += total.pop(i + 1)
    if len(lower[0]) > WIDEST:
        halve(parent, i, relative)


def sound(node: Node, low: Any, high: Any, height: int, relative: bool, root: bool = False) -> list[Any]:
    """Assert that all is well below a node whose keys must be >= low and < high; the sums of its columns. O(n)

    >>> sound(([3, 7], [([1, 2], None, [10, 20]), ([0, 4], None, [5, 1])], [30, 6]), None, None, 1, True, root=True)
    Traceback (most recent call last):
    AssertionError: a node of the wrong width
    """
    keys, children, *columns = node
    assert len(keys) <= WIDEST and (root or len(keys) >= FEWEST), "a node of the wrong width"
    assert all(len(column) == len(keys) for column in columns), "a column of the wrong length"
    if children is None:
        assert not height, "leaves on different levels"
        assert all((low is None or low <= k) and (high is None or k < high) for k in keys), "a key past a fence"
        assert all(any(v) for v in zip(*columns, strict=True)), "an entry of nothing"
        return [sum(column) for column in columns]
    assert len(children) == len(keys) > 1, "an inner node is broken"
    for i, child in enumerate(children):
        start, end = keys[i] if i else low, keys[i + 1] if i + 1 < len(keys) else high
        if relative:
            start, end = (None if limit is None else limit - keys[i] for limit in (start, end))
        assert sound(child, start, end, height - 1, relative) == [c[i] for c in columns], "a sum is wrong"
    return [sum(column) for column in columns]
