"""Base files: the facts of a partition, to and from the Parquet files of a checkpoint."""

from __future__ import annotations

from itertools import compress

from livelog.runtime.worker import Worker
from livelog.store.layout import Layout
from livelog.store.parts import Part, read_batches, read_part, write_part
from operators.partition import Router

__all__ = ["load_facts", "write_facts"]


def write_facts(layout: Layout, number: int, worker: Worker) -> list[tuple[str, int, Part]]:
    """Write the facts of a partition; returns what the manifest says of them. O(facts)"""
    written = []
    for name, table in worker.base.items():
        relation = worker.plan.relations[name]
        path = layout.part(number, name, worker.partition)
        part = write_part(path, relation.columns, relation.types, table.export())
        written.append((name, worker.partition, part))
    for name in _approximated(worker):
        relation = worker.plan.relations[name]
        path = layout.part(number, name, worker.partition)
        part = write_part(path, relation.columns, relation.types, ((t, 1, None) for t in worker.rows(name)))
        written.append((name, worker.partition, part))
    return written


def _approximated(worker: Worker) -> list[str]:
    """The relations of which something else may be shown than follows from the facts: it is part of a checkpoint."""
    return [name for name, relation in worker.plan.relations.items() if relation.tolerance is not None]


def load_facts(layout: Layout, number: int | None, clock: float, partitions: int, worker: Worker) -> None:
    """Take in a partition's share of a checkpoint that so many partitions wrote. O(facts)"""
    worker.clock = clock
    if number is None:
        return
    for name, table in worker.base.items():
        assert not table.rows, "a checkpoint is loaded into an empty partition"
        if partitions == worker.partitions:
            for batch in read_batches(layout.part(number, name, worker.partition)):
                table.restore(*batch)
        else:
            owner = Router(worker.plan.relations[name].partition, worker.partitions)
            for p in range(partitions):
                for facts, counts, expiries in read_batches(layout.part(number, name, p)):
                    mine = [owner(t) == worker.partition for t in facts]
                    table.restore(
                        list(compress(facts, mine)),
                        None if counts is None else list(compress(counts, mine)),
                        None if expiries is None else list(compress(expiries, mine)),
                    )
    worker.resumed()
    worker.commit()
    for name in _approximated(worker):
        owner = Router(worker.plan.relations[name].partition, worker.partitions)
        shown = (t for p in range(partitions) for t, _, _ in read_part(layout.part(number, name, p)))
        worker.remember(name, [t for t in shown if owner(t) == worker.partition])
