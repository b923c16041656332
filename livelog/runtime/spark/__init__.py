"""The Spark runtime: partitions are the tasks of one long-running barrier stage."""
