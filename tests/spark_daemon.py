"""The daemon that Spark's Python workers are forked from, with what they need imported already.

Sessions that are killed on purpose get new workers, and every one of them would import the engine again: most of what
such a test costs. On the cluster the workers come from Spark's own daemon, as they do for everybody else.
"""

from __future__ import annotations

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import livelog.runtime.spark.task  # noqa: F401

if __name__ == "__main__":
    manager()
