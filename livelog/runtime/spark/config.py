"""Spark: what a person says about running a session over Spark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from datalog.errors import UsageProblem
from livelog.runtime.spark.jvm import prefer_own_python
from livelog.runtime.spark.tls import TLS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Spark"]


@dataclass(frozen=True)
class Spark:
    """Run a session over Spark: `livelog.open(program, runtime=livelog.Spark(spark, partitions=6))`.

    Each partition is a task of one barrier stage and holds a slot for as long as the session is open, so the cluster
    needs at least `partitions` slots; one more for what runs beside it: loading DataFrames, reading views as such.

    `checkpoint` is a folder that the driver and all executors reach under the same path. It has the log of transactions
    and the checkpoints; a session continues from there after a crash, of a worker by itself and of the driver with
    `livelog.resume`. Without it a temporary folder serves, which only survives workers.
    `checkpoint_every` is the number of transactions after which the facts are written anew and the log starts over.
    `patience` is how many seconds a lost executor may take to come back. `accept_loss` is for `livelog.resume`.
    With `tls` all connections are encrypted, see `livelog.TLS`.
    """

    spark: SparkSession
    partitions: int = 2
    checkpoint: str | Path | None = None
    checkpoint_every: int = 10_000
    patience: float = 120.0
    accept_loss: bool = False
    tls: TLS | None = None

    def __post_init__(self) -> None:
        if not hasattr(self.spark, "sparkContext"):
            raise UsageProblem(f"livelog.Spark takes a SparkSession, not {self.spark!r}")
        if type(self.partitions) is not int:
            raise UsageProblem(f"the number of partitions must be an integer, not {self.partitions!r}")
        if self.partitions < 1:
            raise UsageProblem(f"a session needs at least one partition, not {self.partitions}")
        if self.checkpoint is not None and not isinstance(self.checkpoint, (str, Path)):
            raise UsageProblem(f"`checkpoint` is the path of a folder, not {self.checkpoint!r}")
        if type(self.checkpoint_every) is not int:
            raise UsageProblem(f"checkpoint_every must be an integer, not {self.checkpoint_every!r}")
        if not isinstance(self.patience, (int, float)) or not self.patience >= 0:
            raise UsageProblem(f"`patience` is a number of seconds, not {self.patience!r}")
        if self.checkpoint_every < 1:
            raise UsageProblem(f"checkpoint_every must be positive, not {self.checkpoint_every}")
        if self.tls is not None:
            if not isinstance(self.tls, TLS):
                raise UsageProblem(f"`tls` is `livelog.TLS(certificate, key, authority)`, not {self.tls!r}")
            self.tls.check()
        prefer_own_python(self.spark.sparkContext)
