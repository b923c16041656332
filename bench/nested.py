"""Nested correlated aggregates: does an update cost the same in a large book, and what would triggers cost?

- growth: an order book of 10,000 and one of 1,000,000 live orders, kept at that size by orders that come and orders
  that are withdrawn, one for each transaction; the two in turns, in blocks of the same number of transactions.
- triggers: the engine and DBToaster-style triggers (`nested_triggers.py`, `nested_triggers_tpch.py`) take the same
  stream from the start, block by block in turns, and must agree after every block. The stream ends when the triggers
  have used up a minute: what they have finished by then is the largest trace that they finish in a minute. (It ends as
  well when the engine has, where the triggers are faster.) The order book grows from empty, one order in ten is
  withdrawn on the way, and each transaction is one row. Prices have many distinct values (`BOOK`), as prices in
  floating point have in the finance benchmark, and so have volumes where these are compared.
- naive: the engine and the loops that the queries spell out (`nested_naive.py`), run anew after every transaction, on
  the same streams, until the loops have used up ten seconds.
- TPC-H (`tpch.py`): the lines of orders are the stream, the other tables are there from the start. Q17 on the uniform
  data, on the skewed ones and (without a bar) on more skewed ones, a line for each transaction. Q18 with a line for
  each transaction and with 1,000; and 1,000 at a time into a program that has no rule for them: what it takes to check
  rows and to keep them as facts, which triggers do not do.

Bars: growth at most 2x for vwap, nq1, mst and psp. Against the triggers at most 1 % of their time for vwap and mst,
10 % for psp, 20 % for sq1, sq2 and nq2, 10 % for Q17 on skewed data. A transaction of vwap takes at most 50 µs, in the
small book as in the large one. Q18 takes at most 1.2x the time of the triggers in transactions of 1,000 rows. That bar
is about the work for a row: the triggers of Q18 are a few dictionary operations and no transaction at all, so that with
single rows one would compare these with a transaction's atomicity, its log and the changes it publishes, which cost
the same whatever the query is, and are in the table as well.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import livelog
import topologies
from bench import tpch
from bench.harness import Bar, Result, Stopwatch, finish, progress, settle
from bench.nested_naive import Row
from bench.nested_queries import QUERIES, Engine, Naive, Operation, Query, Run, Triggers, program
from bench.nested_sorted import SORTED
from bench.nested_triggers import Nq2Hoisted
from datalog.ast import replace

QUESTION = "Does an update of a nested aggregate cost the same in a large book, and what would triggers cost?"
SEED = 1
BOOK: dict[str, Any] = {"start": 1_000_000, "depth": 100_000, "updates": 0.0}
VOLUMES = {"psp": 100_000}  # the mean; what is compared should have many values, and mst's products 64 bits
MICRO = 1e6

Rival = Triggers | Naive


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured: live orders, transactions for growth, seconds for the triggers, TPC-H's factors."""

    sizes: tuple[int, int]
    blocks: int
    block: int
    limit: float
    naive: float  # the seconds for the loops
    lines: float  # the scale factor of the uniform data
    skewed: float


FULL = Scale((10_000, 1_000_000), 40, 100, 60.0, 10.0, 0.1, 0.1)
QUICK = Scale((100, 500), 3, 10, 0.05, 0.02, 0.001, 0.001)

GROWTH = ("vwap", "nq1", "mst", "psp")
GROWTH_BAR = 2.0
TRANSACTION_BAR = 50.0  # µs: 20,000 transactions a second
TRIGGER_BARS = {"vwap": 1.0, "mst": 1.0, "psp": 10.0, "sq1": 20.0, "sq2": 20.0, "nq2": 20.0, "q17, skewed": 10.0}
BATCH = 1_000
BATCH_BAR = 1.2


def row(part: str, query: str, who: str, **figures: Any) -> dict[str, Any]:
    """A row of the table; what does not apply is left out."""
    names = ("live rows", "distinct keys", "transactions", "rows each", "µs each, mean", "µs each, median", "seconds")
    return {"part": part, "query": query, "who": who} | {name: figures.get(name) for name in names}


def order_book(query: Query, size: int, events: int | None = None, filled: bool = True) -> topologies.Workload:
    """The book for a query: the sides that it reads."""
    volume = VOLUMES.get(query.view, 100)
    return topologies.order_book(
        size, events=events, filled=filled, sides=query.relations, volume=volume, seed=SEED, **BOOK
    )


# --- growth ------------------------------------------------------------------------------------------------------


def growth(name: str, scale: Scale) -> tuple[list[Bar], list[dict[str, Any]]]:
    """One query in two books, in turns."""
    query = QUERIES[name]
    column = 3 if name == "psp" else 4  # it compares volumes, the others prices
    events = scale.blocks * scale.block
    engines, books, streams, watches, rows = [], [], [], [], []
    for size in scale.sizes:
        progress(f"growth, {name}: filling a book of {size:,}")
        book = order_book(query, size, events + scale.block)
        engines.append(Engine(query, book.facts))
        streams.append(iter([step.operations for step in book.steps]))
        watches.append(Stopwatch())
        rows.append(row("growth", name, "engine", **{
            "live rows": size,
            "distinct keys": len({(side, r[column]) for side in query.relations for r in book.facts[side]}),
            "transactions": events,
            "rows each": 1,
        }))
        books.append({side: set(book.facts[side]) for side in query.relations})
        assert engines[-1].rows() == sorted(SORTED[name](books[-1]))
    with settle():  # what the loads left behind is collected before anything is timed
        for number in range(scale.blocks + 1):
            for engine, book, stream, watch in zip(engines, books, streams, watches, strict=True):
                block = list(islice(stream, scale.block))
                with watch:
                    feed(engine, block)
                for operations in block:
                    for sign, side, order in operations:
                        (book[side].add if sign == "+" else book[side].remove)(order)
                if number == 0:  # has warmed up
                    watch.laps.clear()
    for engine, book in zip(engines, books, strict=True):
        assert engine.rows() == sorted(SORTED[name](book)), f"{name}: a wrong answer"
    for entry, watch in zip(rows, watches, strict=True):
        entry["µs each, mean"] = statistics.mean(watch.laps) / scale.block * MICRO
        entry["µs each, median"] = statistics.median(watch.laps) / scale.block * MICRO
        entry["seconds"] = sum(watch.laps)
    small, large = (entry["µs each, mean"] for entry in rows)
    names = " / ".join(f"{size:,}" for size in reversed(scale.sizes))
    bars = [Bar(f"growth: {name}, mean transaction, {names} live orders", large / small, GROWTH_BAR)]
    if name == "vwap":
        bars += [
            Bar(f"growth: {name}, mean transaction, {entry['live rows']:,} live orders", entry["µs each, mean"],
                TRANSACTION_BAR, " µs")
            for entry in rows
        ]  # fmt: skip
    return bars, rows


def feed(who: Engine | Rival, block: Iterable[Any], runs: bool = False) -> None:
    """The transactions of a block: lists of operations, or of runs of many rows."""
    apply = who.apply_runs if runs else who.apply
    for transaction in block:
        apply(transaction)


# --- against triggers, and against loops -------------------------------------------------------------------------


def against(
    label: str,
    query: Query,
    operations: Iterator[Operation],
    limit: float,
    facts: dict[str, list[Row]] | None = None,
    size: int = 1,
    rival: type[Rival] = Triggers,
) -> tuple[float, list[dict[str, Any]]]:
    """Engine and rival in turns until one of them has used up its time, or the stream ends; the ratio."""
    progress(f"{rival.name}, {label}")
    with settle():
        engine, other = Engine(query, facts), rival(query, facts)
        ours, theirs = Stopwatch(), Stopwatch()
        done, live = 0, 0
        transactions = batches(operations, size)
        while max(sum(ours.laps), sum(theirs.laps)) < limit:
            # about a hundredth of what has been done: the blocks grow, and the limit is not passed by much
            block = list(islice(transactions, max(rival.block, done // 100)))
            if not block:
                break
            with theirs:
                feed(other, block, runs=size > 1)
            with ours:
                feed(engine, block, runs=size > 1)
            assert engine.rows() == other.rows(), f"{label}: different answers after {done + len(block):,}"
            done += len(block)
            live += sum((1 if sign == "+" else -1) * (len(rows) if size > 1 else 1)
                        for transaction in block for sign, _, rows in transaction)  # fmt: skip
    rows = [
        row(rival.name, label, who, **{
            "live rows": live, "transactions": done, "rows each": size, "seconds": sum(watch.laps),
            "µs each, mean": sum(watch.laps) / done * MICRO,
        })
        for who, watch in (("engine", ours), (rival.name, theirs))
    ]  # fmt: skip
    ratio = sum(ours.laps) / sum(theirs.laps)
    progress(f"{rival.name}, {label}: {done:,} transactions, engine / {rival.name} {100 * ratio:.2f} %")
    return ratio, rows


def growing(query: Query) -> Iterator[Operation]:
    """An order book that grows from empty. Example 2.1 gets prices and volumes alone."""
    for step in order_book(query, 10**9, filled=False).steps:
        for sign, side, row in step.operations:
            yield sign, side, (row[4], row[3]) if side == "r" else row


def finance(name: str, scale: Scale) -> tuple[list[Bar], list[dict[str, Any]]]:
    query = QUERIES[name]
    ratio, rows = against(name, query, growing(query), scale.limit)
    if name == "nq2":
        hoisted = Query(query.view, query.example, query.relations, Nq2Hoisted)
        rows += against("nq2, hoisted by hand", hoisted, growing(query), scale.limit)[1]
    rows += against(name, query, growing(query), scale.naive, rival=Naive)[1]
    return trigger_bar(name, ratio), rows


def trigger_bar(label: str, ratio: float) -> list[Bar]:
    limit = TRIGGER_BARS.get(label)
    return [] if limit is None else [Bar(f"triggers: {label}, engine / triggers", 100 * ratio, limit, " %")]


def batches(operations: Iterator[Operation], size: int) -> Iterator[list[Operation] | list[Run]]:
    """Transactions of so many rows; of more than one as runs, what is inserted first."""
    while batch := list(islice(operations, size)):
        if size == 1:
            yield batch
        else:
            runs: dict[tuple[str, str], list[Row]] = {}
            for sign, relation, row in sorted(batch, key=itemgetter(0)):  # "+" comes before "-"
                runs.setdefault((sign, relation), []).append(row)
            yield [(sign, relation, rows) for (sign, relation), rows in runs.items()]


def small_orders(scale: Scale) -> tuple[list[Bar], list[dict[str, Any]]]:
    """Q17 on uniform, skewed and more skewed data: the more lines a part has, the dearer the triggers."""
    bars: list[Bar] = []
    rows: list[dict[str, Any]] = []
    for label, exponent in (("q17, uniform", 0), ("q17, skewed", tpch.EXPONENT), ("q17, skewed more", 2)):
        data = tpch.tables(scale.skewed if exponent else scale.lines)
        data = tpch.skewed(data, SEED, exponent) if exponent else data
        lines = data["lineitem"] if exponent else data["lineitem"][: len(data["lineitem"]) // 10]
        changes = tpch.line_changes(lines, seed=SEED)
        ratio, more = against(label, QUERIES["q17"], changes, scale.limit, {"part": data["part"]})
        bars += trigger_bar(label, ratio)
        rows += more
        changes = tpch.line_changes(lines, seed=SEED)
        rows += against(label, QUERIES["q17"], changes, scale.naive, {"part": data["part"]}, rival=Naive)[1]
    return bars, rows


def large_orders(scale: Scale) -> tuple[list[Bar], list[dict[str, Any]]]:
    """Q18, by lines and by batches of them."""
    data = tpch.tables(scale.lines)
    base = {name: data[name] for name in ("customer", "orders")}
    bars: list[Bar] = []
    rows: list[dict[str, Any]] = []
    for size, lines in ((1, len(data["lineitem"]) // 10), (BATCH, len(data["lineitem"]))):
        label = f"q18, {size:,} a transaction"
        changes = tpch.line_changes(data["lineitem"][:lines], seed=SEED)
        ratio, more = against(label, QUERIES["q18"], changes, scale.limit, base, size)
        rows += more
        changes = tpch.line_changes(data["lineitem"][:lines], seed=SEED)
        rows += against(label, QUERIES["q18"], changes, scale.naive, base, size, Naive)[1]
        if size == BATCH:
            bars.append(Bar(f"triggers: {label}, engine / triggers", ratio, BATCH_BAR))
            rows.append(facts_alone(tpch.line_changes(data["lineitem"][:lines], seed=SEED), base))
    return bars, rows


def facts_alone(operations: Iterator[Operation], base: dict[str, list[Row]]) -> dict[str, Any]:
    """The same rows into a program without a rule that reads them."""
    whole = program("q18", "15_part_orders")
    watch = Stopwatch()
    with settle(), livelog.open(replace(whole, rules=(), directives=()), facts=base) as session:
        for runs in batches(operations, BATCH):
            with watch, session.transaction() as tx:
                for sign, relation, rows in runs:
                    (tx.insert_all if sign == "+" else tx.delete_all)(relation, rows)  # type: ignore[arg-type]
        live = len(session["lineitem"])
    done = len(watch.laps)
    return row("triggers", f"q18, {BATCH:,} a transaction", "facts alone", **{
        "live rows": live, "transactions": done, "rows each": BATCH, "seconds": sum(watch.laps),
        "µs each, mean": sum(watch.laps) / done * MICRO,
    })  # fmt: skip


# --- all of it ---------------------------------------------------------------------------------------------------

Part = Callable[[Scale], tuple[list[Bar], list[dict[str, Any]]]]

PARTS: dict[str, Part] = {
    **{f"growth-{name}": partial(growth, name) for name in GROWTH},
    **{name: partial(finance, name) for name in ("half", "vwap", "mst", "psp", "sq1", "sq2", "nq1", "nq2")},
    "q17": small_orders,
    "q18": large_orders,
}


def run(names: Sequence[str] = (), quick: bool = False) -> Result:
    bars: list[Bar] = []
    rows: list[dict[str, Any]] = []
    for name in names or PARTS:
        more_bars, more_rows = PARTS[name](QUICK if quick else FULL)
        bars += more_bars
        rows += more_rows
        for bar in more_bars:
            progress(str(bar))
    return Result("nested", QUESTION, bars, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.nested", description=QUESTION)
    parser.add_argument("names", nargs="*", metavar="PART", help=f"which parts (default: {', '.join(PARTS)})")
    parser.add_argument("--quick", action="store_true", help="small books and short limits, to see that it works")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - PARTS.keys()):
        parser.error(f"unknown part: {', '.join(unknown)}: choose from {', '.join(PARTS)}")
    if not options.quick and not options.names:
        return finish(run)
    folder = Path(tempfile.mkdtemp(prefix="livelog-bench-"))
    met = finish(partial(run, options.names, options.quick), folder)
    print(f"results are in {folder}: {'nothing was large enough to say anything' if options.quick else 'a part only'}")
    return 0 if options.quick else met


if __name__ == "__main__":
    raise SystemExit(main())
