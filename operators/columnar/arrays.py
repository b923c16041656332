"""What large batches do with columns, by numpy. Nobody imports this before there is such a batch."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from operators.source import HIGHEST

__all__ = ["empty", "flush_many", "meet_many", "pairs_under", "sorted_pairs", "take_in_many"]

EXACT = 2**53  # the largest whole numbers that are all floats too


def view(column: Any) -> Any:
    """A column as an array that shares its memory; the column cannot grow while there is one.

    To numpy C's `long long` is not quite its int64, and adding one to the other takes a detour.
    """
    found = np.asarray(column)
    return found.view(np.int64) if found.dtype.char == "q" else found


def numbered(number_of: Callable[[Any], int], keys: Sequence[Any]) -> Any:
    return np.fromiter(map(number_of, keys), np.int64, len(keys))


def whole_numbers(values: Sequence[int]) -> Any:
    """Values as an array. OverflowError if there is one that takes more than 64 bits."""
    return np.fromiter(values, np.int64, len(values))


def counted(counts: int | list[int], size: int) -> Any:
    """How often each of so many rows counts, as an array."""
    return np.full(size, counts, np.int64) if isinstance(counts, int) else whole_numbers(counts)


def widest(values: Any) -> int:
    """The largest absolute value."""
    return max(int(values.max()), -int(values.min())) if len(values) else 0


def pairs_under(marked: Any, starts: array[int], groups: array[int], counts: array[int], recent: Any) -> Any:
    """See `operators.columnar.pairs.Pairs.under`."""
    first = view(starts)
    keys = np.flatnonzero(marked[: len(first) - 1])
    begin = first[keys]
    sizes = first[keys + 1] - begin
    ends = np.cumsum(sizes)
    at = np.arange(ends[-1] if len(ends) else 0) + np.repeat(begin - (ends - sizes), sizes)
    late = np.flatnonzero(marked[view(recent[0])])
    old = (np.repeat(keys, sizes), view(groups)[at], view(counts)[at])
    return tuple(np.concatenate((part, view(more)[late])) for part, more in zip(old, recent, strict=True))


def sorted_pairs(starts: array[int], groups: array[int], counts: array[int], recent: Any) -> Any:
    """Pairs in the order of keys and groups, each once: where each key begins, the groups, the counts, and what these
    add up to without their signs."""
    keys = np.repeat(np.arange(len(starts) - 1, dtype=np.int64), np.diff(view(starts)))
    codes = np.concatenate((keys, view(recent[0]))) << 32 | np.concatenate((view(groups), view(recent[1])))
    order = np.argsort(codes, kind="stable")  # which makes use of what is in order already
    codes = codes[order]
    firsts = np.flatnonzero(np.diff(codes, prepend=-1))
    totals = np.add.reduceat(np.concatenate((view(counts), view(recent[2])))[order], firsts)
    kept = np.flatnonzero(totals)
    codes, totals = codes[firsts[kept]], totals[kept]
    keys = codes >> 32
    width = int(keys[-1]) + 1 if len(keys) else 0
    begins = np.searchsorted(keys, np.arange(width + 1))
    return _packed(begins), _packed(codes & 0xFFFFFFFF), _packed(totals), int(abs(totals).sum())


def _packed(values: Any) -> array[int]:
    column = array("q")
    column.frombytes(values.astype(np.int64, copy=False).tobytes())
    return column


def _add(column: Any, at: Any, amounts: Any) -> None:
    np.add.at(view(column), at, amounts)


def take_in_many(state: Any, keys: list[Any], counts: int | list[int], groups: list[Any]) -> tuple[Any, Any]:
    """Rows of the anchor of a join, whose `state` is `operators.columnar.join.State`.

    Returns the groups that change, and the keys that lose rows.
    """
    at, to = numbered(state.keys.__getitem__, keys), numbered(state.groups.__getitem__, groups)
    amounts = counted(counts, len(keys))
    state.pairs.add_all(at, to, amounts)
    rows, *vectors = state.keys.columns
    uses, *sums = state.groups.columns
    _add(rows, at, amounts)
    _add(uses, to, amounts)
    for total, k in zip(sums, state.reads, strict=False):
        _add(total, to, view(vectors[k])[at] * amounts)
    return to, at[amounts < 0]


def meet_many(
    state: Any, top: list[int], keys: list[Any], counts: int | list[int], values: list[list[int]], sign: int
) -> tuple[Any, Any] | None:
    """Rows of the other side, which come or go as the sign says; `top` is changed too.

    Returns the groups that change, and the keys that may have lost all their rows. None, and nothing is done, if a sum
    could take more than 64 bits.
    """
    try:
        amounts = [counted(counts, len(keys)), *[sign * whole_numbers(part) for part in values]]
    except OverflowError:
        return None
    if any(widest(part) * len(keys) + highest > HIGHEST for part, highest in zip(amounts, top, strict=True)):
        return None
    at = numbered(state.keys.__getitem__, keys)
    _, *vectors = state.keys.columns
    marked = np.zeros(len(state.keys.names), bool)
    marked[at] = True
    changed = np.flatnonzero(marked)
    changes, after = [], []
    for part, vector in zip(amounts, vectors, strict=True):
        change = np.zeros(len(marked), np.int64)
        np.add.at(change, at, part)
        changes.append(change)
        after.append(view(vector)[changed] + change[changed])
    highest = [max(had, widest(part)) for had, part in zip(top, after, strict=True)]
    if max(1, state.pairs.weight) * max(highest) > HIGHEST:
        return None
    top[:] = highest
    for vector, part in zip(vectors, after, strict=True):
        view(vector)[changed] = part
    under, to, times = state.pairs.under(marked)
    _, *sums = state.groups.columns
    for total, k in zip(sums, state.reads, strict=False):
        _add(total, to, times * changes[k][under])
    return to, changed[after[0] == 0]


def empty(numbers: Any, arrays: list[Any]) -> list[int]:
    """Those of some numbers whose values are all 0."""
    at = np.concatenate(arrays)
    for column in numbers.columns:
        at = at[view(column)[at] == 0]
    found: list[int] = at.tolist()
    return found


def flush_many(groups: Any, answers: Any, touched: Iterable[int], arrays: list[Any]) -> tuple[list[Any], list[Any]]:
    """See `operators.columnar.groups.ColumnGroups.flush`."""
    arrays.append(np.fromiter(touched, np.int64))
    size = len(groups.numbers.names)
    if sum(map(len, arrays)) * 64 > size:
        marked = np.zeros(size, bool)
        for part in arrays:
            marked[part] = True
        at = np.flatnonzero(marked)
    else:
        at = np.unique(np.concatenate(arrays))
    sums = [view(column)[at] for column in groups.sums]
    told = view(groups.told)[at] != 0
    old = [view(column)[at] for column in groups.shown]
    there = sums[0] != 0
    results = [_answers(kind, sums[k], sums[0], there) for kind, k in answers]
    stays = told == there
    for before, now in zip(old, results, strict=True):
        stays &= (before == now) | ~there
    falls, rises = np.flatnonzero(told & ~stays), np.flatnonzero(there & ~stays)
    columns = groups.columns(at[falls].tolist())
    gone = groups.heads(columns, [part[falls].tolist() for part in old])
    if not np.array_equal(falls, rises):  # most groups that change do not come or go
        columns = groups.columns(at[rises].tolist())
    new = groups.heads(columns, [part[rises].tolist() for part in results])
    view(groups.told)[at] = there
    for column, part in zip(groups.shown, results, strict=True):
        view(column)[at] = part
    for g in at[~there & (view(groups.uses)[at] == 0)].tolist():
        groups.numbers.give_back(g)
    return gone, new


def _answers(kind: str, totals: Any, counts: Any, there: Any) -> Any:
    """The results of groups, 0 where there is nothing; see `operators.columnar.groups.Answer`."""
    if kind != "avg":
        return np.where(there, totals, 0)
    if max(widest(totals), widest(counts)) <= EXACT:
        return np.divide(totals, counts, out=np.zeros(len(totals)), where=there)
    return np.array([total / (count or 1) for total, count in zip(totals.tolist(), counts.tolist(), strict=True)])
