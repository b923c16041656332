"""What the RPAI trees of numbers and of vectors have in common: order, shifts of keys, balance."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from math import isinf
from typing import Any

from operators.indexes.index import AggregateIndex, exact, exactly
from operators.indexes.nodes import (
    FEWEST,
    WIDEST,
    Node,
    above,
    build,
    halve,
    highest,
    join,
    leaf,
    lift,
    lowest,
    sound,
)

__all__ = ["Tree"]


class Tree(AggregateIndex):
    """A tree of wide nodes (nodes.py) with some columns. Subclasses say what the value of an entry is.

    The life of a key: it is given, and stands as it is while the tree is *fixed*; the first `shift_keys` makes the
    tree *relative* for good, and from then on a key is the sum of the fences on the way to it and of its leaf's number.
    """

    __slots__ = ("_relative", "_root", "_size")

    def __init__(self, width: int) -> None:
        self._root: Node = leaf(width)
        self._relative = False
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @abstractmethod
    def _value(self, numbers: list[Any]) -> Any:
        """The value that consists of one number of each column."""

    @abstractmethod
    def _columns(self, values: list[Any]) -> list[list[Any]]:
        """The columns that values are kept in."""

    def _load(self, items: Iterable[tuple[Any, Any]], relative: bool) -> None:
        """Take in all entries of a new index. O(n log n)"""
        entries = sorted(self._added_up(items).items(), key=lambda entry: entry[0])
        if relative:
            for k, _ in entries:
                exact(k)
        columns = self._columns([v for _, v in entries])
        self._relative = relative
        self._size = len(entries)
        self._root = build([k for k, _ in entries], columns, relative)
        self.total = self._value([sum(column) for column in columns])

    def items(self, lo: Any = None, hi: Any = None, reverse: bool = False) -> Iterator[tuple[Any, Any]]:
        """The entries with lo <= key <= hi, in order or from the other end. O(log n) and O(1) an entry

        >>> from operators.indexes import RPAITree
        >>> index = RPAITree.from_items([(1, 10), (2, 20), (3, 30)])
        >>> list(index.items(2)), list(index.items(hi=2, reverse=True))
        ([(2, 20), (3, 30)], [(2, 20), (1, 10)])
        """
        if self._relative:
            lo, hi = self._exactly(lo), self._exactly(hi)
        return self._entries(self._root, 0, lo, hi, -1 if reverse else 1)

    def _entries(self, node: Node, by: Any, lo: Any, hi: Any, step: int) -> Iterator[tuple[Any, Any]]:
        """Those below a node, to whose keys `by` has to be added, as to all below it that its keys are relative to."""
        keys, children, *columns = node
        relative = self._relative
        if relative:
            keys = [k + by for k in keys]
        start = 0 if lo is None else bisect_left(keys, lo) if children is None else bisect_right(keys, lo, 1) - 1
        stop = len(keys) if hi is None else bisect_right(keys, hi, 0 if children is None else 1)
        for i in range(start, stop)[::step]:
            if children is None:
                yield keys[i], self._value([column[i] for column in columns])
            else:
                yield from self._entries(children[i], keys[i], lo, hi, step)

    def _exactly(self, k: Any) -> Any:
        """A key to look for in a relative tree, whose arithmetic must not round: infinity is what no key reaches."""
        if isinstance(k, float) and isinf(k):
            if not self._size:
                return 0
            return lowest(self._root, True) - 1 if k < 0 else highest(self._root, True) + 1
        return exactly(k)

    # -- shifts

    def shift_keys(self, k: Any, d: Any, inclusive: bool = False) -> None:
        """Add d to all keys > k, or >= k if `inclusive`; entries whose keys become equal are added up.

        O(log n), where no key passes over another and at most one meets another: so it is for every d > 0, and for sums
        of what is positive. Else O(m log n), where m shifted entries pass over or meet entries that stay.

        Keys must be ints or Fractions (TypeError): a float that went up and down again might not be what it was. The
        first shift of an index that was not made for it (`from_items(..., shifting=True)`) costs O(n).

        >>> from operators.indexes import RPAITree
        >>> index = RPAITree.from_items([(1, 10), (2, 20), (3, 30)])
        >>> index.shift_keys(1, 5); list(index.items())
        [(1, 10), (7, 20), (8, 30)]
        >>> index.shift_keys(7, -7, inclusive=True); list(index.items())
        [(0, 20), (1, 40)]
        """
        if type(k) is not int:
            k = self._exactly(k)
        if type(d) is not int:
            exact(d)
        if not self._relative:
            self._load(list(self.items()), relative=True)
        key = k
        way = []  # per level: the fences, the first of them that moves, and the key as that level writes it
        node = self._root
        keys, children = node[0], node[1]
        while children is not None:
            i = bisect_right(keys, key, 1)
            way.append((keys, i, key))
            key -= keys[i - 1]
            node = children[i - 1]
            keys, children = node[0], node[1]
        at = bisect_left(keys, key) if inclusive else bisect_right(keys, key)
        if d < 0 and not (keys[at - 1] < keys[at] + d if 0 < at < len(keys) else self._room(way, keys, at, key, d)):
            self._shift_towards(k, d, inclusive)
            return
        for fences, i, _ in way:
            fences[i:] = [fence + d for fence in fences[i:]]
        keys[at:] = [key + d for key in keys[at:]]

    @staticmethod
    def _room(way: list[tuple[list[Any], int, Any]], keys: list[Any], at: int, key: Any, d: Any) -> bool:
        """Whether it is plain to see that what moves down, a whole leaf, stays above the last entry that does not."""
        if not at:
            return False
        for fences, i, known in reversed(way):  # the first fence that moves, and the last entry as that level writes it
            if i < len(fences):
                return bool(known + keys[-1] - key < fences[i] + d)
        return True

    def _shift_towards(self, k: Any, d: Any, inclusive: bool) -> None:
        """A shift downwards by which an entry may meet or pass the last one that stays.

        Those that would are taken out first and added again afterwards. Between the last that stays and the first that
        moves is nothing then, but the fence of what moves may lie far below it: it is raised.
        """
        last = self._last(k, inclusive)
        if last is None:
            lift(self._root, d)
            return
        passing = [(key, v) for key, v in self.items(last, last - d) if key != last]
        for key, v in passing:
            self.add(key, self._minus(self.zero, v))
        key = last
        node = self._root
        border = None  # the deepest node some of whose children move as a whole, and the first that does
        while node[1] is not None:
            fences = node[0]
            i = bisect_right(fences, key, 1)
            fences[i:] = [fence + d for fence in fences[i:]]
            if i < len(fences):
                border = node, i
            key -= fences[i - 1]
            node = node[1][i - 1]
        keys = node[0]
        at = bisect_right(keys, key)
        keys[at:] = [key + d for key in keys[at:]]
        if border is not None and at == len(keys):
            (fences, children, *_), i = border
            low = lowest(children[i], True)
            fences[i] += low
            lift(children[i], -low)
        for key, v in passing:
            self.add(key + d, v)

    def _last(self, k: Any, below: bool) -> Any:
        """The last key <= k, or < k if `below`, of a relative tree; None if there is none. O(log n)"""
        by, node, left = 0, self._root, None
        while node[1] is not None:
            i = bisect_right(node[0], k - by, 1) - 1
            if i:
                left = by + node[0][i - 1], node[1][i - 1]
            by += node[0][i]
            node = node[1][i]
        at = (bisect_left if below else bisect_right)(node[0], k - by)
        if at:
            return node[0][at - 1] + by
        return None if left is None else left[0] + highest(left[1], True)

    # -- searches for what holds from some key on

    def first_key(self, holds: Callable[[Any], bool]) -> Any:
        """The first key of which something holds; None if there is none. O(log n)

        >>> from operators.indexes import RPAITree
        >>> RPAITree.from_items([(1, 10), (2, 20), (3, 30)]).first_key(lambda k: k * k > 4)
        3
        """
        by, node, right, relative = 0, self._root, None, self._relative
        while True:
            keys, children, *_ = node
            if relative:
                keys = [k + by for k in keys]
            if children is None:
                break
            i = bisect_left(keys, True, 1, key=holds) - 1
            if i + 1 < len(keys):
                right = keys[i + 1], children[i + 1]
            by, node = keys[i], children[i]
        i = bisect_left(keys, True, key=holds)
        if i < len(keys):
            return keys[i]
        if right is None:
            return None
        by, node = right
        return by + lowest(node, True) if relative else lowest(node, False)

    # -- balance

    def _path(self, k: Any) -> list[tuple[Node, int]]:
        """The inner nodes on the way to a key, and which child comes next."""
        path = []
        node = self._root
        while node[1] is not None:
            i = bisect_right(node[0], k, 1) - 1
            path.append((node, i))
            if self._relative:
                k -= node[0][i]
            node = node[1][i]
        return path

    def _split(self, k: Any) -> None:
        """The leaf of this key has grown too wide. O(log n)"""
        for parent, i in reversed(self._path(k)):
            halve(parent, i, self._relative)
            if len(parent[0]) <= WIDEST:
                return
        self._root = above([0], [self._root])
        halve(self._root, 0, self._relative)

    def _merge(self, k: Any) -> None:
        """The leaf of this key has grown too thin. O(log n)"""
        for parent, i in reversed(self._path(k)):
            join(parent, i - 1 if i else 0, self._relative)
            if len(parent[0]) >= FEWEST:
                return
        if self._root[1] is not None and len(self._root[0]) == 1:
            (offset,), (child,), *_ = self._root
            if self._relative:
                lift(child, offset)
            self._root = child

    # -- health

    def height(self) -> int:
        """The number of levels above the leaves: what the costs are proportional to. O(log n)

        >>> from operators.indexes import RPAITree
        >>> [RPAITree.from_items((i, 1) for i in range(n)).height() for n in (10, 1000)]
        [0, 1]
        """
        node, height = self._root, 0
        while node[1] is not None:
            node, height = node[1][0], height + 1
        return height

    def check(self) -> None:
        """Assert that keys ascend, nodes are as wide as they must be, and sums are right. O(n)

        >>> from operators.indexes import RPAITree
        >>> RPAITree.from_items([(1, 10), (2, 20)]).check()
        """
        keys = [k for k, _ in self.items()]
        assert all(a < b for a, b in pairwise(keys)), "keys do not ascend"
        assert len(keys) == self._size, "the number of entries is wrong"
        sums = sound(self._root, None, None, self.height(), self._relative, root=True)
        assert self._value(sums) == self.total, "the total is wrong"
