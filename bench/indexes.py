"""What does an operation of an aggregate index take, with a thousand to a million keys?

The product's `RPAITree` beside other forms of it (`index_candidates.py`, `index_arrays.py`), and with nodes of other
widths. Means in microseconds; what takes longer than a second in all is given up on early.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from bench.harness import Bar, Result, finish, progress, settle
from bench.index_arrays import NumpyBlocks, Sorted
from bench.index_candidates import BinaryTree, FenwickBlocks, check_alike
from operators.indexes import PAIMap, RPAITree, RPAIVectors, nodes, rpai, tree, vectors

SIZES = (1_000, 10_000, 100_000, 1_000_000)
WIDTHS = (24, 32, 48, 64, 96, 128)
OPERATIONS = ("get", "get_sum", "add", "insert", "remove", "shift up", "shift down", "first_sum", "first_above")
LIMIT = 10.0  # microseconds
GAP = 1000  # between keys, so that there is room for new ones


def run(sizes: Sequence[int] = SIZES, widths: Sequence[int] = WIDTHS, calls: int = 10_000) -> Result:
    largest = sizes[-1]
    rows, bars = [], []
    for kind in KINDS:
        if kind not in ("RPAITree", "PAIMap", "vectors of 3"):
            check_alike(KINDS[kind](items(500, 10)), RPAITree.from_items(items(500, 10), shifting=True), 500)
    for size in sizes:
        for kind, make in KINDS.items():
            progress(f"{size:,} keys: {kind}")
            rows.append({"keys": size, "index": kind} | measured(make, size, calls))
            if kind == "RPAITree" and size == largest:
                bars = [Bar(f"{name}, {size:,} keys", rows[-1][f"{name} µs"], LIMIT, " µs") for name in OPERATIONS]
    for width in widths:
        progress(f"{largest:,} keys: nodes of {width}")
        with_width(width)
        make = KINDS["RPAITree"]
        rows.append({"keys": largest, "index": f"RPAITree, nodes of {width}"} | measured(make, largest, calls))
    with_width(WIDEST)
    return Result("indexes", "What does an operation of an aggregate index take?", bars, rows)


def items(size: int, gap: int = GAP) -> list[tuple[int, int]]:
    return [(i * gap, i % 97 + 1) for i in range(size)]


def vector_items(entries: Iterable[tuple[int, int]]) -> list[tuple[int, tuple[int, int, int]]]:
    return [(k, (v, 7 * v, 1)) for k, v in entries]


KINDS: dict[str, Callable[[list[tuple[int, int]]], Any]] = {
    "RPAITree": partial(RPAITree.from_items, shifting=True),
    "vectors of 3": lambda entries: RPAIVectors.from_items(vector_items(entries), width=3, shifting=True),
    "binary tree": BinaryTree,
    "blocks, Fenwick trees": FenwickBlocks,
    "blocks of numpy": NumpyBlocks,
    "SortedDict": Sorted,
    "PAIMap": PAIMap.from_items,
}

WIDEST = nodes.WIDEST


def with_width(width: int) -> None:
    """Let nodes be as wide as this."""
    for module in (nodes, rpai, tree, vectors):
        module.WIDEST, module.FEWEST = width, width // 4  # type: ignore[attr-defined]


def measured(make: Callable[[list[tuple[int, int]]], Any], size: int, calls: int) -> dict[str, float | None]:
    """What each operation takes, in microseconds."""
    with settle():
        index = make(items(size))
        value: Callable[[int], Any] = (lambda v: (v, 7 * v, 1)) if isinstance(index, RPAIVectors) else lambda v: v
        rng = random.Random(size)
        figures: dict[str, float | None] = {}
        for name, made in workload(index, size, rng, calls, value).items():
            figures[f"{name} µs"] = mean(made) if made is not None else None
        return figures


Calls = tuple[Callable[..., Any], list[tuple[Any, ...]]]


def workload(index: Any, size: int, rng: random.Random, calls: int, value: Callable[[int], Any]) -> dict[str, Any]:
    """The calls of each operation, at random keys. Those that change something leave it as it was."""
    some = [rng.randrange(size) * GAP for _ in range(calls)]
    new = [k + rng.randrange(1, GAP) for k in rng.sample(some, calls)]
    made: dict[str, Calls | None] = dict.fromkeys(OPERATIONS)
    made["get"] = index.get, [(k,) for k in some]
    made["get_sum"] = index.get_sum, [(k,) for k in new]
    made["add"] = index.add, [(k, value(1)) for k in some]
    made["insert"] = index.add, [(k, value(5)) for k in new]
    if hasattr(index, "first_sum"):
        minus = tuple(-x for x in value(5)) if isinstance(value(5), tuple) else -5
        made["remove"] = index.add, [(k, minus) for k in new]
        total = index.total if isinstance(index.total, int) else index.total[0]
        bounds = [rng.randrange(total) for _ in range(calls)]
        made["first_sum"] = index.first_sum, [(bound.__lt__,) for bound in bounds]
        made["first_above"] = index.first_above, [(bound,) for bound in bounds]
    made["shift up"] = index.shift_keys, [(k, 7) for k in some]
    # the other way round, so that what was shifted last goes back first
    made["shift down"] = index.shift_keys, [(k, -7) for k in reversed(some)]
    return made


def mean(calls: Calls) -> float:
    """Microseconds a call, over as many calls as fit into a second or so."""
    operation, given = calls
    done, spent, step = 0, 0.0, 1
    while done < len(given) and spent < 1:
        part = given[done : done + step]
        start = time.process_time()
        for arguments in part:
            operation(*arguments)
        spent += time.process_time() - start
        done += len(part)
        step = min(2 * step, 1000)
    return spent / done * 1e6


if __name__ == "__main__":
    raise SystemExit(finish(run))
