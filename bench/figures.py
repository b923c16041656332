"""What the benches of the paper's figures share: workloads through strategies, and their four metrics as rows.

Every strategy runs in a process of its own (`livelog.simulation.compare`), and the changes of every view after every
transaction are asserted equal. A strategy that passes its limit is a row like the others, with `finished` false and
with what it had reached.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import datalog
import topologies
from bench.harness import progress
from livelog.simulation import MEMORY_LIMIT, Run, compare

__all__ = ["EAGER", "EXAMPLES", "LIMIT", "METRICS", "PARTITIONS", "SEED", "STRATEGIES", "Entry", "Metric", "Prefix"]
__all__ += ["assert_equal", "find", "found", "prefixes", "race", "ratio", "row"]

SEED = 1
PARTITIONS = 12
LIMIT = 30.0
"""Seconds of processor time that a strategy has for a load, and again for the changes, unless a figure says more."""

SHORT = 1.0
"""Seconds under which one run says little: the machine's moods are as large."""

EXAMPLES = Path(__file__).parents[1] / "examples"

EAGER = "absorption/eager"
STRATEGIES = ("absorption/demand", "absorption/lazy", EAGER, "relative/lazy", "relative/eager", "dred")

Entry = dict[str, Any]
"""A row of a result."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One of the paper's four: the column of the rows that holds it, and how an axis calls it."""

    column: str
    title: str
    unit: str


METRICS = (
    Metric("provenance B/tuple", "Provenance per tuple", "bytes"),
    Metric("shipped MB/partition", "Shipped per partition", "MB"),
    Metric("state MB/partition", "Operator state per partition", "MB"),
    Metric("seconds", "Time to converge, all partitions together", "s of processor time"),
)


def row(run: Run, partitions: int, *, scale: float = 1.0, **where: Any) -> Entry:
    """The metrics of a run. `where` are its coordinates, which come first.

    With a `scale` other than 1 the run did a part of the changes, and what they cost is multiplied by it.
    """

    def megabytes(count: float | None) -> float | None:
        return None if count is None else count / 1e6

    shipped = run.bytes_shipped * scale
    return {
        **{name.replace("_", " "): value for name, value in where.items()},
        "strategy": run.strategy,
        "provenance B/tuple": run.provenance_bytes_per_tuple,
        "shipped MB": megabytes(shipped),
        "shipped MB/partition": megabytes(shipped / partitions),
        "state MB/partition": megabytes(None if run.state_bytes is None else run.state_bytes / partitions),
        "seconds": run.seconds * scale,
        "finished": run.finished,
        "stopped by": run.stopped,
    }


def race(
    program: str | Path,
    workload: topologies.Workload,
    limits: Mapping[str, float],
    *,
    partitions: int = PARTITIONS,
    memory_limit: int = MEMORY_LIMIT,
    tuples: int = 10**9,
    about: str = "",
) -> dict[str, tuple[Run, Run]]:
    """Strategies with the limit in seconds of each -> its run of the load, its run of the changes.

    `program` is its text or the path of its file. `tuples` is the engine's own limit of tuples per transaction: here
    it is time and memory that end a run.
    """
    text = program.read_text(encoding="utf-8") if isinstance(program, Path) else program
    parsed = datalog.parse(text, program.name if isinstance(program, Path) else "program")
    runs: dict[str, tuple[Run, Run]] = {}
    for limit, names in groupby(limits, key=limits.__getitem__):  # one comparison for neighbours with the same limit
        chosen = list(names)
        progress(f"{about}: {', '.join(chosen)}")
        comparison = compare(
            parsed, workload, chosen, partitions=partitions, time_limit=limit, memory_limit=memory_limit, limit=tuples
        )
        for name in chosen:
            runs[name] = comparison.run(name, "load"), comparison.run(name, "change")
            for one in runs[name]:
                if one.stopped and one.begun:
                    progress(f"{about}: {name} passed its limit of {one.stopped} ({one.phase}, {one.seconds:.1f} s)")
    assert_equal(runs)
    return runs


def assert_equal(runs: Mapping[str, tuple[Run, Run]], views: Iterable[str] | None = None) -> None:
    """After every transaction that two of them did, the changes of the views (of all, or of those named) are equal."""
    first: dict[tuple[str, int], tuple[str, dict[str, str]]] = {}
    chosen = None if views is None else set(views)
    for name, pair in runs.items():
        for done in (done for run in pair for done in run.per_transaction):
            digests = {view: d for view, d in done.digests.items() if chosen is None or view in chosen}
            other, expected = first.setdefault((done.phase, done.number), (name, digests))
            differing = sorted(v for v in {*expected, *digests} if expected.get(v) != digests.get(v))
            if differing:
                when = f"{done.phase} {done.number}: {done.about}"
                raise AssertionError(f"{name} and {other} disagree on {', '.join(differing)} after {when}")


@dataclass(frozen=True, slots=True)
class Prefix:
    """The first so many steps of a stream, and the coordinates of the rows that they give."""

    length: int
    where: dict[str, Any]


def prefixes(
    program: str | Path,
    facts: dict[str, list[tuple[Any, ...]]],
    steps: Sequence[topologies.Step],
    wanted: Sequence[Prefix],
    limits: Mapping[str, float],
    *,
    repeat: int = 1,
) -> tuple[list[Entry], list[Run], list[str]]:
    """Load the facts and take the first so many steps, from the beginning for each of the prefixes.

    State can be measured only at the end of a run: that is why each prefix is a run of its own. Whoever passes a limit
    is not tried with longer ones. What takes less than `SHORT` is done `repeat` times, and the median time taken.
    Gives the rows of the steps, the runs of the loads, and who got to the end.
    """
    rows: list[Entry] = []
    loads: list[Run] = []
    left = dict(limits)
    for prefix in wanted:
        about = ", ".join(f"{name} {value}" for name, value in prefix.where.items())
        workload = topologies.Workload(facts, list(steps[: prefix.length]))
        runs = race(program, workload, left, about=about)
        seconds = {name: [change.seconds] for name, (_, change) in runs.items()}
        loads += [load for load, _ in runs.values()]
        short = {n: left[n] for n, (_, change) in runs.items() if change.finished and change.seconds < SHORT}
        for number in range(1, repeat if short else 1):
            for name, (load, change) in race(program, workload, short, about=f"{about}, run {number + 1}").items():
                loads.append(load)
                seconds[name].append(change.seconds)
        for name, (_, change) in runs.items():
            if change.begun:
                entry = row(change, PARTITIONS, **prefix.where)
                rows.append(entry | {"seconds": statistics.median(seconds[name])})
            if not change.finished:
                del left[name]
    return rows, loads, list(left)


# --- reading rows ----------------------------------------------------------------------------------------------


def found(rows: Iterable[Entry], **where: Any) -> list[Entry]:
    """The rows with these values in these columns.

    >>> found([{"phase": "load", "seconds": 1.0}, {"phase": "delete", "seconds": 2.0}], phase="load")
    [{'phase': 'load', 'seconds': 1.0}]
    """
    return [entry for entry in rows if all(entry.get(name) == value for name, value in where.items())]


def find(rows: Iterable[Entry], **where: Any) -> Entry | None:
    """The only row with these values, or None.

    >>> find([{"phase": "load"}], phase="delete") is None
    True
    """
    chosen = found(rows, **where)
    if len(chosen) > 1:
        raise ValueError(f"{len(chosen)} rows for {where}")
    return chosen[0] if chosen else None


def ratio(rows: Sequence[Entry], column: str, over: str, under: str, **where: Any) -> float:
    """A column of one strategy in multiples of another's, at most.

    If the first did not finish it is infinite. If the second did not, what it had reached is less than what it would
    have cost, so the quotient is not flattering.

    >>> rows = [{"strategy": s, "finished": f, "seconds": t} for s, t, f in (("a", 3.0, True), ("b", 2.0, False))]
    >>> ratio(rows, "seconds", "a", "b"), ratio(rows, "seconds", "b", "a"), ratio(rows, "seconds", "a", "c")
    (1.5, inf, inf)
    """
    one, other = (find(rows, strategy=name, **where) for name in (over, under))
    if not one or not other or not one["finished"] or not other[column]:
        return math.inf
    return float(one[column] / other[column])
