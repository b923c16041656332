"""Reachability the obvious way on Spark: rounds of jobs. The yardstick of `spark.py`, as good as it honestly can be.

A round is one job: join the newest tuples with the links, take away doubles and what is known, count what is left;
until nothing is. What helps:

- semi-naive: only the tuples of the last round are joined;
- doubles and known tuples go in one aggregation, the only shuffle of a round: known and found tuples together, grouped,
  those without a known one among them are new. Two shuffles, a distinct and an anti-join, take longer;
- every round is kept by a local checkpoint: the next one reads it, and plans do not grow. With `persist` alone the
  optimizer looks at all the rounds before, twice as much in each;
- the links, which are few, are sent to every partition of the join;
- as many shuffle partitions as the machine has cores, not 200; no adaptive execution, whose statistics are of no use to
  jobs this small (`python -m bench.spark rounds` shows what it takes with it);
- what is old is let go at once.

A deletion: all anew from the links that are left ("recompute"), or over-delete and re-derive ("dred", which takes away
nearly everything where most pairs have some path over the link, and then brings it back).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

__all__ = ["WAYS", "SparkRounds"]

Link = tuple[int, int]
WAYS = ("recompute", "dred")


class SparkRounds:
    """`reachable` over `link`, kept in Spark and brought up to date by rounds of jobs.

    `way` is how deletions are done, `adaptive` whether Spark plans adaptively. `rounds` counts the rounds of the last
    call.
    """

    def __init__(
        self, spark: SparkSession, way: str = "recompute", *, partitions: int | None = None, adaptive: bool = False
    ) -> None:
        if way not in WAYS:
            raise ValueError(f"the ways are {' and '.join(WAYS)}, not {way!r}")
        self._spark = spark.newSession()  # the same Spark; its settings are not those of others
        self._spark.conf.set("spark.sql.shuffle.partitions", partitions or os.cpu_count() or 1)
        self._spark.conf.set("spark.sql.adaptive.enabled", adaptive)
        self._way = way
        self._links: DataFrame | None = None
        self._view: DataFrame | None = None
        self._kept: list[DataFrame] = []
        self.rounds = 0

    def load(self, links: Iterable[Link]) -> None:
        """Evaluate the view over these links."""
        old = self._start()
        self._links, _ = self._keep(self._spark.createDataFrame(sorted(set(links)), "x int, y int").repartition("y"))
        self._view = self._evaluate(self._links)
        _let_go(old)

    def delete(self, link: Link) -> tuple[list[Link], list[Link]]:
        """Take a link away; the tuples that came into the view (a positive program: none), and those that left it."""
        before, view, old = self._links, self._view, self._start()
        assert before is not None and view is not None, "load first"
        self._links, _ = self._keep(before.where((F.col("x") != link[0]) | (F.col("y") != link[1])))
        if self._way == "recompute":
            self._view = self._evaluate(self._links)
        else:
            self._view = self._dred(link, before, self._links, view)
        gone = view.join(self._view, ["x", "y"], "left_anti").collect()
        _let_go(old)
        return [], sorted((row.x, row.y) for row in gone)

    def rows(self) -> set[Link]:
        """The view; for checks."""
        assert self._view is not None, "load first"
        return {(row.x, row.y) for row in self._view.collect()}

    def close(self) -> None:
        """Let go of all that is kept. Spark itself stays."""
        _let_go(self._start())
        self._links = self._view = None

    def _start(self) -> list[DataFrame]:
        """Start a call; returns what can go at its end."""
        old, self._kept, self.rounds = self._kept, [], 0
        return old

    # --- deletions -------------------------------------------------------------------------------------------

    def _evaluate(self, links: DataFrame) -> DataFrame:
        """The view from nothing but the links."""
        return self._close(links, _marked(links, 1))

    def _dred(self, link: Link, before: DataFrame, after: DataFrame, view: DataFrame) -> DataFrame:
        """The view without all that some derivation over the link supports, and of that what has another derivation."""
        through = view.where(F.col("x") == link[1]).select(F.lit(link[0]).alias("x"), "y")
        itself = before.where((F.col("x") == link[0]) & (F.col("y") == link[1]))
        over = self._close(before, _marked(itself.union(through).distinct(), 1))
        safe, _ = self._keep(view.join(over, ["x", "y"], "left_anti"))
        again = _step(after, safe).union(after).join(over, ["x", "y"], "left_semi").distinct()
        return self._close(after, _marked(safe, 0).union(_marked(again, 1)))

    # --- rounds ----------------------------------------------------------------------------------------------

    def _close(self, links: DataFrame, tuples: DataFrame) -> DataFrame:
        """Tuples, some of them marked as new, with all that follows from the new ones over the links."""
        tuples, new = self._keep(tuples)
        while new:
            found = _marked(_step(links, tuples.where("new = 1")), 1).union(_marked(tuples, 0))
            tuples, new = self._keep(found.groupBy("x", "y").agg(F.min("new").alias("new")))
            self.rounds += 1
        return tuples.select("x", "y")

    def _keep(self, table: DataFrame) -> tuple[DataFrame, int]:
        """Evaluate a table, keep it, and count what is new in it: one job."""
        kept = table.localCheckpoint(eager=False)
        self._kept.append(kept)
        return kept, (kept.where("new = 1") if "new" in kept.columns else kept).count()


def _marked(tuples: DataFrame, new: int) -> DataFrame:
    return tuples.select("x", "y", F.lit(new).alias("new"))


def _step(links: DataFrame, tuples: DataFrame) -> DataFrame:
    """What the recursive rule makes of some tuples."""
    hops = F.broadcast(links.select("x", F.col("y").alias("z")))
    return hops.join(tuples.select(F.col("x").alias("z"), "y"), "z").select("x", "y")


def _let_go(tables: Iterable[DataFrame]) -> None:
    for table in tables:
        plan: Any = table._jdf.logicalPlan()  # what a local checkpoint keeps is an RDD that DataFrames do not show
        plan.rdd().unpersist(False)
