"""Following: the change log of one view, kept from the moment somebody asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from livelog.runtime.spark.runtime import SparkRuntime

__all__ = ["Following"]


class Following:
    """The changes of a view of a session over Spark, transaction by transaction. Made by `Session.changes`.

    The first transaction in it inserts the view as it was then; so the changes always add up to the view. Each worker
    keeps its share in a file of the session's folder; they are there after a crash, and after the session.
    """

    def __init__(self, runtime: SparkRuntime, relation: str) -> None:
        self._runtime = runtime
        self.relation = relation
        self.since = runtime.follow(relation, True)
        """The transaction with which the log begins, or that it had reached if it was kept already."""

    def to_spark_stream(self, starting: int | str | None = None) -> DataFrame:
        """A streaming DataFrame: `_transaction`, `_change` ("+" or "-") and the view's columns, one row per change.

        `starting` is the first transaction to read, or "latest" for those still to come; else all that is kept.
        """
        from livelog.runtime.spark.source import read_changes_stream

        return read_changes_stream(self._runtime.config.spark, str(self._runtime.directory), self.relation, starting)

    def __repr__(self) -> str:
        return f"<Following {self.relation} since transaction {self.since}>"
