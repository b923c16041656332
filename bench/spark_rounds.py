"""Reachability the obvious way on Spark: rounds of jobs. The yardstick of `spark.py`, as good as it honestly can be.

A round is one job: join the newest tuples with the links, distinct, subtract what is known, count what is left; until
nothing is. What helps:

- semi-naive: only the tuples of the last round are joined;
- every round is kept by a local checkpoint: the next one reads it, and plans do not grow (with `persist` alone they
  double with every round, for the optimizer looks at all the rounds before);
- views are partitioned by their second column, which the join with the links, sent to every partition, leaves alone:
  distinct and subtract move nothing between partitions;
- as many shuffle partitions as Spark has slots, not 200; no adaptive execution, which plans for statistics that jobs this
  small have no use for (`python -m bench.spark rounds` times the other way too);
- what is old is let go at once.

A deletion: all from the links that are left ("recompute"), or over-delete and re-derive ("dred", which takes away
nearly everything where most pairs have a path over most links, and then brings it back). The bench takes the faster.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

__all__ = ["WAYS", "SparkRounds"]

Link = tuple[int, int]
WAYS = ("recompute", "dred")
PAIRS = "x int, y int"


class SparkRounds:
    """`reachable` over `link`, kept in Spark and brought up to date by rounds of jobs.

    `way` is how deletions are done, `adaptive` whether Spark plans adaptively. `rounds` counts the rounds of the last call.
    """

    def __init__(self, spark: SparkSession, way: str = "recompute", *, adaptive: bool = False) -> None:
        if way not in WAYS:
            raise ValueError(f"the ways are {' and '.join(WAYS)}, not {way!r}")
        self._spark = spark.newSession()  # the same Spark; its settings are not those of others
        self._partitions = spark.sparkContext.defaultParallelism
        self._spark.conf.set("spark.sql.shuffle.partitions", self._partitions)
        self._spark.conf.set("spark.sql.adaptive.enabled", adaptive)
        self._way = way
        self._links: set[Link] = set()
        self._view: DataFrame | None = None
        self._kept: list[DataFrame] = []
        self.rounds = 0

    def load(self, links: Iterable[Link]) -> None:
        """Evaluate the view over these links."""
        self._links = set(links)
        self.rounds = 0
        old, self._kept = self._kept, []
        self._view = self._evaluate()
        _let_go(old)

    def delete(self, link: Link) -> tuple[list[Link], list[Link]]:
        """Take a link away; the tuples that came into the view (a positive program: none), and those that left it."""
        if link not in self._links:
            raise ValueError(f"no such link: {link}")
        before, old = self.view, self._kept
        self._kept = []
        self.rounds = 0
        self._view = self._evaluate_without(link) if self._way == "recompute" else self._dred(link)
        gone = before.join(self._view, ["x", "y"], "left_anti").collect()
        _let_go(old)
        return [], sorted((row.x, row.y) for row in gone)

    @property
    def view(self) -> DataFrame:
        if self._view is None:
            raise ValueError("load first")
        return self._view

    def rows(self) -> set[Link]:
        """The view; for checks."""
        return {(row.x, row.y) for row in self.view.collect()}

    def close(self) -> None:
        """Let go of all that is kept. Spark itself stays."""
        _let_go(self._kept)
        self._kept, self._view = [], None

    # --- recompute -------------------------------------------------------------------------------------------

    def _evaluate_without(self, link: Link) -> DataFrame:
        self._links.remove(link)
        return self._evaluate()

    def _evaluate(self) -> DataFrame:
        links = self._table(self._links)
        delta, size = self._keep(links.distinct())
        return self._close(_hops(links), delta, size, None)

    # --- over-delete and re-derive ---------------------------------------------------------------------------

    def _dred(self, link: Link) -> DataFrame:
        before, hops = self.view, _hops(self._table(self._links))
        x, z = link
        seeds = self._table([link]).union(before.where(F.col("x") == z).select(F.lit(x).alias("x"), "y")).distinct()
        delta, size = self._keep(self._by_target(seeds))
        over, _ = self._keep(self._close(hops, delta, size, None))
        self._links.remove(link)
        links = self._table(self._links)
        hops = _hops(links)
        safe, _ = self._keep(before.join(over, ["x", "y"], "left_anti"))
        found = _step(hops, safe).union(links).distinct().join(over, ["x", "y"], "left_semi")
        delta, size = self._keep(self._by_target(found))
        view, _ = self._keep(self._close(hops, delta, size, safe))
        return view

    # --- rounds ----------------------------------------------------------------------------------------------

    def _close(self, hops: DataFrame, delta: DataFrame, size: int, known: DataFrame | None) -> DataFrame:
        """What is known, with the newest tuples (that are not), and all that follows from these over the links."""
        while size:
            known = delta if known is None else known.union(delta)
            delta, size = self._keep(_step(hops, delta).distinct().join(known, ["x", "y"], "left_anti"))
            self.rounds += 1
        return delta if known is None else known

    def _keep(self, table: DataFrame) -> tuple[DataFrame, int]:
        """Evaluate a table, keep it and count it, all in one job."""
        kept = table.localCheckpoint(eager=False)
        self._kept.append(kept)
        return kept, kept.count()

    def _table(self, rows: Iterable[Link]) -> DataFrame:
        table, _ = self._keep(self._by_target(self._spark.createDataFrame(sorted(rows), PAIRS)))
        return table

    def _by_target(self, table: DataFrame) -> DataFrame:
        return table.repartition(self._partitions, "y")


def _hops(links: DataFrame) -> DataFrame:
    """Links as the join wants them: sent to every partition."""
    return F.broadcast(links.select("x", F.col("y").alias("z")))


def _step(hops: DataFrame, delta: DataFrame) -> DataFrame:
    """One link before each tuple."""
    return hops.join(delta.select(F.col("x").alias("z"), "y"), "z").select("x", "y")


def _let_go(tables: Iterable[DataFrame]) -> None:
    for table in tables:
        plan: Any = table._jdf.logicalPlan()  # what a local checkpoint keeps is an RDD that DataFrames do not show
        plan.rdd().unpersist(False)
