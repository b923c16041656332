"""The four questions of `spark.py`, each as a function of a running Spark: what is timed, and how.

Results are asserted equal before anything is timed, or, where one run takes long, beside what is timed.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import datalog
import livelog
import topologies
from bench.harness import Bar, progress, settle, typical
from bench.memory import is_complete
from bench.programs import REACHABLE, delete, insert_all
from bench.spark_rounds import WAYS, Link, SparkRounds

__all__ = ["CORES", "FULL", "QUICK", "Part", "Size", "deletion", "load", "recovery", "rounds"]

SEED = 1
CORES = os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it: nodes and links, repetitions."""

    small: tuple[int, int]
    large: tuple[int, int]
    share: int  # one in so many links is deleted
    passes: int
    jobs: int  # empty ones
    by_rounds: int  # deletions
    loads: int
    kills: int


FULL = Size((100, 394), (1000, 4000), 5, 3, 15, 8, 3, 5)
QUICK = Size((12, 30), (30, 90), 10, 1, 2, 1, 1, 1)


@dataclass(frozen=True, slots=True)
class Part:
    """The answer to one of the questions."""

    bars: list[Bar]
    rows: list[dict[str, Any]]
    notes: dict[str, str]


class Wall:
    """Keeps laps by the clock on the wall: `with wall: ...` is one lap, in seconds."""

    def __init__(self) -> None:
        self.laps: list[float] = []
        self._start = 0.0

    def __enter__(self) -> Wall:
        self._start = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self.laps.append(time.perf_counter() - self._start)

    @property
    def median(self) -> float:
        return statistics.median(self.laps)


def row(part: str, who: str, nodes: int | None, laps: Sequence[float], **more: Any) -> dict[str, Any]:
    """A row of the table; all have the same columns."""
    known = {"partitions": None, "shipped MB": None, "largest state MB": None, "busiest worker s": None} | more
    seconds = {"median s": statistics.median(laps), "mean s": statistics.mean(laps)}
    return {"part": part, "who": who, "nodes": nodes, **seconds, **known}


def network(size: tuple[int, int]) -> list[Link]:
    return topologies.pairs(topologies.dense(size[0], links=size[1], seed=SEED))


def chosen(links: list[Link], share: int) -> list[Link]:
    """The links that will be deleted."""
    return random.Random(SEED).sample(links, len(links) // share)


def local(partitions: int) -> livelog.Session:
    return livelog.open(datalog.parse(REACHABLE), partitions=partitions)


def over_spark(spark: Any, partitions: int) -> livelog.Session:
    return livelog.open(datalog.parse(REACHABLE), runtime=livelog.Spark(spark, partitions=partitions))


# --- deletion --------------------------------------------------------------------------------------------------


def deletion(spark: Any, size: Size, partitions: int = 4) -> Part:
    """Deletions over Spark and locally, in turns, and empty shuffle jobs."""
    links = network(size.small)
    victims = chosen(links, size.share)
    kinds = {"empty shuffle job": empty_shuffles, "empty shuffle job, no Python in it": empty_shuffles_without_python}
    jobs = {who: [kind(spark, partitions, size.jobs)] for who, kind in kinds.items()}
    progress(f"deletion: {len(victims)} of {len(links)} links, asserting equal results")
    delete_in_turns(spark, links, victims, partitions, check=True)
    runs: list[tuple[list[float], list[float]]] = []
    for number in range(size.passes):
        progress(f"deletion: run {number + 1} of {size.passes}")
        runs.append(delete_in_turns(spark, links, victims, partitions))
    for who, kind in kinds.items():
        jobs[who].append(kind(spark, partitions, size.jobs))
    session, embedded = (typical([laps[side] for laps in runs]) for side in (0, 1))
    job = {who: min(several, key=statistics.median) for who, several in jobs.items()}
    mine = statistics.median(session)
    nodes = size.small[0]
    return Part(
        [
            Bar("deletion: median, Spark / local", mine / statistics.median(embedded), 10.0),
            *(
                Bar(f"deletion: median, Spark / {who}", mine / statistics.median(laps) * 100, 10.0, " %")
                for who, laps in job.items()
            ),
        ],
        [
            row("deletion", "session over Spark", nodes, session, partitions=partitions),
            row("deletion", "local runtime", nodes, embedded, partitions=partitions),
            *(row("deletion", who, None, laps, partitions=partitions) for who, laps in job.items()),
        ],
        {},
    )


def delete_in_turns(
    spark: Any, links: list[Link], victims: list[Link], partitions: int, check: bool = False
) -> tuple[list[float], list[float]]:
    """Seconds of each deletion over Spark, and locally; with `check`, equal results are asserted."""
    walls = Wall(), Wall()
    with settle(), over_spark(spark, partitions) as session, local(partitions) as embedded:
        insert_all(session, links)
        insert_all(embedded, links)
        for link in victims:
            changes = []
            for wall, one in zip(walls, (session, embedded), strict=True):
                with wall:
                    changes.append(delete(one, "reachable", link))
            if check:
                assert changes[0].inserted == changes[1].inserted
                assert changes[0].deleted == changes[1].deleted
        if check:
            assert set(session["reachable"]) == set(embedded["reachable"])
    return walls[0].laps, walls[1].laps


def empty_shuffles(spark: Any, partitions: int, count: int) -> list[float]:
    """Seconds of jobs that send no pairs of Python's through one shuffle, as a fixpoint in PySpark would in a round."""
    nothing = spark.sparkContext.parallelize([], partitions)
    wall = Wall()
    for number in range(2 * count):  # the first half warms up
        with wall:
            assert nothing.map(lambda x: (x, x)).partitionBy(partitions).count() == 0
        if number < count:
            wall.laps.clear()
    return wall.laps


def empty_shuffles_without_python(spark: Any, partitions: int, count: int) -> list[float]:
    """The same in the JVM alone, with a sink that throws everything away: the fastest kind there is."""
    plain = spark.newSession()
    plain.conf.set("spark.sql.adaptive.enabled", False)
    wall = Wall()
    for number in range(2 * count):  # the first half warms up
        nothing = plain.range(0, 0, 1, partitions).repartition(partitions, "id")
        with wall:
            nothing.write.format("noop").mode("overwrite").save()
        if number < count:
            wall.laps.clear()
    return wall.laps


# --- rounds ----------------------------------------------------------------------------------------------------


def rounds(spark: Any, size: Size, partitions: int = 4) -> Part:
    """Deletions by the session and by rounds of jobs, all in turns, in the same Spark."""
    links = network(size.small)
    victims = chosen(links, size.share)[: 2 * size.by_rounds]
    others = {way: SparkRounds(spark, way) for way in WAYS} | {"adaptive": SparkRounds(spark, adaptive=True)}
    walls = {"session": Wall()} | {who: Wall() for who in others}
    with settle(), over_spark(spark, partitions) as session:
        insert_all(session, links)
        for who, other in others.items():
            progress(f"rounds: load, {who}")
            other.load(links)
            assert other.rows() == set(session["reachable"])
        for number, link in enumerate(victims, 1):  # the first half warms up, and equal results are asserted
            progress(f"rounds: deletion {number} of {len(victims)}")
            with walls["session"]:
                changes = delete(session, "reachable", link)
            for who, other in others.items():
                with walls[who]:
                    inserted, deleted = other.delete(link)
                assert (inserted, deleted) == (list(changes.inserted), list(changes.deleted)), who
            if 2 * number == len(victims):
                assert all(other.rows() == set(session["reachable"]) for other in others.values())
                for wall in walls.values():
                    wall.laps.clear()
        count = {who: other.rounds for who, other in others.items()}
        for other in others.values():
            other.close()
    best = min(others, key=lambda who: walls[who].median)
    figure = walls["session"].median / walls[best].median * 100
    nodes = size.small[0]
    names = {who: f"rounds of jobs: {who}{' recompute' * (who == 'adaptive')}" for who in others}
    return Part(
        [Bar(f"rounds: median deletion, session / {names[best]}", figure, 2.0, " %")],
        [row("rounds", "session over Spark", nodes, walls["session"].laps, partitions=partitions)]
        + [row("rounds", names[who], nodes, walls[who].laps, partitions=CORES) for who in others],
        {"rounds: jobs of the last deletion, one per round": ", ".join(f"{who} {n}" for who, n in count.items())},
    )


# --- load ------------------------------------------------------------------------------------------------------


def load(spark: Any, size: Size) -> Part:
    """The load in one transaction: locally and over Spark, with more and more partitions."""
    links, nodes = network(size.large), size.large[0]
    kinds: list[tuple[str, int, Callable[[], livelog.Session]]] = [
        *(("local runtime", n, partial(local, n)) for n in (1, 2)),
        *(("session over Spark", n, partial(over_spark, spark, n)) for n in (1, 2, 4)),
    ]
    walls = {(who, n): Wall() for who, n, _ in kinds}
    costs: dict[tuple[str, int], list[dict[str, Any]]] = {key: [] for key in walls}
    for number in range(size.loads + 1):  # in the first one the results are looked at, the others are timed
        for who, n, open_session in kinds:
            progress(f"load: {who}, {n} partitions, {f'run {number} of {size.loads}' if number else 'checking'}")
            with settle(), open_session() as session:
                with walls[who, n]:
                    insert_all(session, links)
                if number == 0:
                    assert is_complete(session["reachable"], nodes)
                    walls[who, n].laps.clear()
                else:
                    costs[who, n].append(cost(session))
    rows = [
        row("load", who, nodes, wall.laps, partitions=n, **middle(wall.laps, costs[who, n]))
        for (who, n), wall in walls.items()
    ]
    by = {(entry["who"], entry["partitions"]): entry for entry in rows}
    state = {n: by["session over Spark", n]["largest state MB"] for n in (1, 2, 4)}
    one, two = by["local runtime", 1], by["session over Spark", 2]
    return Part(
        [
            Bar("load: Spark, 2 partitions / local, 1 partition", two["median s"] / one["median s"], 2.0),
            Bar("load: largest state of a partition, 2 partitions / 1", state[2] / state[1], 1.0),
            Bar("load: largest state of a partition, 4 partitions / 2", state[4] / state[2], 1.0),
        ],
        rows,
        {"load: what limits it": limits(one, by["local runtime", 2], two)},
    )


def middle(laps: list[float], costs: list[dict[str, Any]]) -> dict[str, Any]:
    """What the run of median time has cost: other runs were busy for other times."""
    order = sorted(range(len(laps)), key=laps.__getitem__)
    return costs[order[(len(order) - 1) // 2]]


def cost(session: livelog.Session) -> dict[str, Any]:
    """What a load has shipped, kept, and kept the workers busy with."""
    runtime: Any = session._runtime
    top = runtime.top()["partitions"] if hasattr(runtime, "top") else []  # before the stats, which are work too
    stats = session.stats()
    return {
        "shipped MB": stats.bytes_shipped / 1e6,
        "largest state MB": max(p.state_bytes for p in stats.partitions) / 1e6,
        "busiest worker s": max((p["busy_seconds"] for p in top), default=None),
    }


def limits(one: dict[str, Any], both: dict[str, Any], two: dict[str, Any]) -> str:
    """One sentence on what the load with two partitions waits for, computed from what was measured."""
    idle = max(0.0, two["median s"] - two["busiest worker s"])
    return (
        f"of {two['median s']:.2f} s with 2 partitions the busier worker works {two['busiest worker s']:.2f} s; the "
        f"rest, {idle:.2f} s, is the driver's part and waiting; one partition does it all in {one['median s']:.2f} s "
        f"and ships nothing, two ship {two['shipped MB']:.1f} MB that are encoded and decoded, which in one process "
        f"makes it {both['median s']:.2f} s; {CORES} cores for 2 workers, the driver and the JVM"
    )


# --- recovery --------------------------------------------------------------------------------------------------


def recovery(spark: Any, size: Size, partitions: int = 2) -> Part:
    """A worker is killed; the time until the session answers again."""
    stage = Wall()
    empty_stage(spark, partitions)  # starts the daemon that makes the others
    bars, rows = [], []
    for nodes, links in (size.small, size.large):
        facts = network((nodes, links))
        loads, answers = Wall(), Wall()
        for number in range(size.kills):
            progress(f"recovery: {nodes} nodes, kill {number + 1} of {size.kills}")
            for pid in empty_stage(spark, partitions):
                kill(pid)
            with stage:
                empty_stage(spark, partitions)
            with settle(), over_spark(spark, partitions) as session:
                with loads:
                    insert_all(session, facts)
                runtime: Any = session._runtime
                expected = len(session["reachable"])
                assert expected == nodes * nodes
                with answers:
                    kill(runtime.pids[number % partitions])
                    assert len(session["reachable"]) == expected
                assert runtime.generation == 2
                assert is_complete(session["reachable"], nodes)
        figure = answers.median / (loads.median + stage.median)
        bars.append(Bar(f"recovery: first answer, {nodes:,} nodes / (load + stage start)", figure, 2.0))
        rows += [
            row("recovery", "load", nodes, loads.laps, partitions=partitions),
            row("recovery", "first answer after a kill", nodes, answers.laps, partitions=partitions),
        ]
    rows.append(row("recovery", "empty barrier stage", None, stage.laps, partitions=partitions))
    return Part(bars, rows, {})


def empty_stage(spark: Any, partitions: int) -> list[int]:
    """Start and end a barrier stage; the processes of its tasks.

    What they do is a lambda, which is sent to them as it is: they need not import this module.
    """
    tasks = spark.sparkContext.parallelize(range(partitions), partitions).barrier()
    pids: list[int] = tasks.mapPartitions(lambda _: [os.getpid()]).collect()
    return pids


def kill(pid: int) -> None:
    """End a process, and wait until it is gone: until its parent, a daemon of Spark, has noticed."""
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10.0
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.001)
