"""Partition: what a task does with its worker besides evaluating: lists held for others, files, checkpoints."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from livelog.operations import Operation
from livelog.runtime.base_files import load_facts, write_facts
from livelog.runtime.spark.inbound import Inbound, read_batch
from livelog.runtime.spark.messages import Held, Share
from livelog.runtime.steps import net
from livelog.runtime.worker import Pair, Worker
from livelog.store.changefile import ChangeFiles
from livelog.store.layout import Layout
from operators.partition import Router

__all__ = ["Partition"]

INLINE = 10_000
"""Lists up to this length travel with the reply; longer ones are held and fetched by page."""

PAGE = 4 << 20
"""Bytes of a page, about."""

LARGE = 50_000
"""Changes that make a transaction a large one."""

YOUNG = 256
"""Transactions between two looks of the cycle collector at what is new."""

_encode = msgspec.msgpack.Encoder().encode


class Partition:
    """A worker with its files, and the lists that others read from it.

    `do` performs a step by its name: a method of this class if there is one, else the worker's own.
    """

    def __init__(self, worker: Worker, directory: str, rows: Iterable[Any]) -> None:
        self.worker = worker
        self._layout = Layout(Path(directory))
        self._input = rows
        self._held: dict[int, Sequence[Any]] = {}
        self._fitting: dict[int, int] = {}  # how many of its rows fit into a page, about
        self._count = 0
        self._stash: list[Operation] = []
        self._changes: dict[str, Pair] = {}
        self._steps: list[dict[str, Any]] = []  # the changes of the steps before, where a transaction has several
        self._commits = 0
        arities = {name: r.given.arity for name, r in worker.plan.relations.items() if r.kind == "base"}
        self.inbound = Inbound(self._layout, worker.partition, worker.partitions, arities)
        self._files = ChangeFiles(self._layout, worker.partition)

    def do(self, name: str, arguments: Sequence[Any]) -> Any:
        own = getattr(self, f"do_{name}", None)
        return own(*arguments) if own else getattr(self.worker, name)(*arguments)

    def close(self) -> None:
        self._held.clear()
        self.inbound.close()
        self._files.close()
        self.worker.clear()

    # --- transactions ----------------------------------------------------------------------------------------

    def do_stash(self, operations: list[Operation]) -> None:
        """Operations of the share that comes next: a large one comes in several messages."""
        self._stash += operations

    def do_apply(self, share: Share) -> list[int]:
        return self.worker.apply(self._operations(share))

    def do_absorb(self, share: Share) -> None:
        self.worker.absorb(self._operations(share))

    def do_start_over(self, limit: int | None) -> list[int]:
        self.worker = self.worker.renewed(limit)
        return self.worker.start_over()

    def do_rollback(self) -> None:
        self._stash = []
        self._steps = []
        self.worker.rollback()

    def do_step_over(self) -> None:
        self._steps.append(self._changes)
        self._changes = {}
        self.worker.step_over()

    def _operations(self, share: Share) -> Iterable[Operation]:
        stash, self._stash = self._stash, []
        files = (self._pushed(f) for f in share.files)
        return chain(stash, share.operations, chain.from_iterable(files))

    def _pushed(self, file: Any) -> Iterator[Operation]:
        """The rows of a file that are this partition's own."""
        worker = self.worker
        if file.partitions == worker.partitions:
            if file.owner == worker.partition:
                for row in read_batch(self._layout, file.name):
                    yield file.sign, file.relation, row
        else:
            owner = Router(worker.plan.relations[file.relation].partition, worker.partitions)
            for row in read_batch(self._layout, file.name):
                if owner(row) == worker.partition:
                    yield file.sign, file.relation, row

    def do_input(self) -> list[int]:
        """Apply the rows that came with the stage itself. They stay until they are committed."""
        self._input = list(self._input)
        return self.worker.apply(Inbound.operations(self._input))

    def do_changes(self) -> dict[str, Any]:
        self._changes = {name: (gained, lost) for name, (gained, lost) in self.worker.changes().items()}
        return self._told()

    def do_differences(self, kept_is_new: bool = False) -> dict[str, Any]:
        self._changes = self.worker.differences(kept_is_new)
        return self._told()

    def _told(self) -> dict[str, Any]:
        sides = self._changes.items()
        return {name: (self._hold(gained), self._hold(lost)) for name, (gained, lost) in sides if gained or lost}

    def do_commit(self, number: int = -1) -> None:
        self.worker.commit()
        self._input = ()
        steps = [*self._steps, self._changes]
        if number >= 0 and self._files.files:
            self._files.record(number, net(steps))
            self._files.flush()
        self.tidy(sum(len(side) for changes in steps for sides in changes.values() for side in sides))
        self._steps, self._changes = [], {}

    def tidy(self, size: int) -> None:
        """Let the collector look at what is new now and then: it is off, since it would walk over all state.

        What a large transaction leaves behind is there to stay, and is put out of the collector's sight at once.
        """
        self._commits += 1
        if size > LARGE:
            gc.freeze()
        elif self._commits % YOUNG == 0:
            gc.collect(1)

    # --- lists for others ------------------------------------------------------------------------------------

    def _hold(self, rows: Sequence[Any]) -> Any:
        """A list, encoded, or where to find it if it is long."""
        if len(rows) <= INLINE:
            data = _encode(rows)
            if len(data) <= PAGE:
                return msgspec.Raw(data)
        return self.hold(rows)

    def hold(self, rows: Sequence[Any]) -> Held:
        self._count += 1
        self._held[self._count] = rows
        return Held(self._count, len(rows))

    def do_rows(self, relation: str) -> Any:
        return self._hold(list(self.worker.rows(relation)))

    def do_facts(self) -> Any:
        return self._hold(self.worker.facts())

    def do_matching(self, relation: str, fixed: list[tuple[int, Any]]) -> Any:
        return self._hold(self.worker.matching(relation, fixed))

    def do_hold(self, relation: str) -> Held:
        """A relation as it is now, for readers that come later."""
        return self.hold(list(self.worker.rows(relation)))

    def do_page(self, held: int, start: int) -> msgspec.Raw:
        return msgspec.Raw(self.page(held, start))

    do_fact_page = do_page

    def page(self, held: int, start: int) -> bytes:
        """Some rows of a held list as msgpack, from a position on: as many as fit into a page, at least one."""
        rows = self._held[held]
        count = self._fitting.get(held, 4096)
        while True:
            page = _encode(rows[start : start + count])
            if len(page) <= PAGE or count == 1:
                # the pages that follow have rows like these
                self._fitting[held] = min(2 * count, 65_536) if len(page) < PAGE // 4 else count
                return page
            count = max(1, count // 8)

    def do_release(self, held: list[int]) -> None:
        for number in held:
            self._held.pop(number, None)
            self._fitting.pop(number, None)

    def serve(self, client: Any, message: bytes) -> Iterator[bytes]:
        """Answer a client: a reader of a held list, or a Spark task that pushes rows."""
        kind, *arguments = msgspec.msgpack.decode(message)
        if kind == "page":
            held, start = map(int, arguments)
            yield self.page(held, start) if held in self._held else _encode(None)
        else:
            yield from self.inbound.take(client, kind, arguments)

    def forget(self, client: Any) -> None:
        """A client is gone."""
        self.inbound.forget(client)

    # --- files -----------------------------------------------------------------------------------------------

    def do_checkpoint(self, number: int) -> list[Any]:
        """Write the facts of this partition; returns what the manifest says of them."""
        written = write_facts(self._layout, number, self.worker)
        self._files.record(number, {})  # if it is that of an empty transaction
        self._files.sync()
        return written

    def do_load(self, number: int | None, clock: float, partitions: int) -> None:
        """Take in the facts of a checkpoint that so many partitions wrote."""
        load_facts(self._layout, number, clock, partitions, self.worker)

    def do_follow(self, view: str, number: int, whole: bool, before: int | None = None) -> int:
        """Record the changes of a view from here on, after the view itself if it is to be whole.

        What is recorded of transactions not before a number is forgotten.
        """
        return self._files.follow(view, number, list(self.worker.rows(view)) if whole else None, before)

    def do_unfollow(self, view: str) -> None:
        """The changes of a view are not followed after all."""
        self._files.forget(view)

    def do_see(self, path: str) -> bool:
        """Whether this machine sees what the driver wrote, and may read it."""
        return os.access(path, os.R_OK)

    def do_gauge(self) -> dict[str, Any]:
        """What is cheap to count, for `livelog top`."""
        return {"tuples": self.worker.size(), "relations": self.worker.holdings()}
