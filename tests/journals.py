"""A journal and a plain list that says what must be in it, for the tests of the journal."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from livelog.store.journal import Description, Journal
from livelog.store.layout import write_atomically
from livelog.store.parts import Part

__all__ = ["DESCRIPTION", "Book", "facts_of", "settled", "snapshot"]

Row = tuple[Any, ...]
DESCRIPTION = Description(
    name="reach.dl", program="r(x) :- fact(x).\n", constants={"k": 2}, ship="demand", limit=1000, partitions=2
)


class Book:
    """A session's journal, each of whose transactions inserts one fact, and `model`: (number, fact, committed or None).

    Transactions of every third number come from the streaming query "q", others from the query "feed".
    """

    def __init__(self, folder: Path, journal: Journal | None = None) -> None:
        self.folder = folder
        self.journal = journal or Journal.create(folder, DESCRIPTION)
        self.model: list[tuple[int, Row, bool | None]] = []
        self.queries: dict[str, int] = {}
        self.follows: list[str] = []
        self.checkpoints: list[int] = []
        self.ending: bool | None = None  # the outcome that was logged last, or was being logged
        self.begun: Row | None = None  # the fact of a transaction that may or may not have been logged

    @property
    def committed(self) -> set[Row]:
        """The facts that must be there."""
        return {row for _, row, committed in self.model if committed is not False}

    def committed_until(self, number: int) -> set[Row]:
        return {row for n, row, committed in self.model if n <= number and committed}

    def begin(self) -> int:
        """Log a transaction."""
        name, row = ("q" if len(self.model) % 3 == 0 else "feed"), (f"fact {len(self.model)}",)
        self.begun = row
        entry = self.journal.begin(
            [("+", "fact", row)], query=(name, len(self.model)), source=name, position=len(self.model), follow=name
        )
        self.model.append((entry.number, row, None))
        self.begun = None
        return entry.number

    def end(self, committed: bool) -> None:
        """Log an outcome."""
        number, row, _ = self.model[-1]
        self.ending = committed
        self.journal.end(number, committed)
        self.model[-1] = (number, row, committed)
        if committed:
            self.journal.publish(number)
            name = "q" if (len(self.model) - 1) % 3 == 0 else "feed"
            self.queries[name] = len(self.model) - 1
            if name not in self.follows:
                self.follows.append(name)

    def transaction(self, committed: bool = True, between: Callable[[], None] | None = None) -> None:
        """A whole transaction."""
        self.begin()
        if between:
            between()
        self.end(committed)

    def interrupted(self, committed: bool) -> None:
        """A transaction whose outcome is only found after the journal was opened again."""
        number = self.begin()
        self.reopen()
        undecided = self.journal.waiting
        assert undecided is not None and undecided.number == number
        self.end(committed)

    def checkpoint(self, between: int = 0) -> int:
        """A checkpoint in two parts, with transactions while it is written."""
        number, _ = self.journal.start_checkpoint()
        parts = []
        facts = sorted(self.committed)
        for partition in (0, 1):
            data = json.dumps(facts[partition::2]).encode().ljust(50)
            write_atomically(self.journal.layout.part(number, "fact", partition), data)
            parts.append(("fact", partition, Part(len(facts), len(data), zlib.crc32(data))))
        for i in range(between):
            self.transaction(i != 0)
        self.journal.finish_checkpoint(number, 1.0, parts, 2)
        self.checkpoints.append(number)
        return number

    def reopen(self) -> None:
        """Close the journal and open it again."""
        self.journal.close()
        self.journal = Journal.open(self.folder)

    def size(self) -> int:
        """The size of the first file of the log."""
        return self.journal.layout.log(0).stat().st_size


def facts_of(journal: Journal, undecided: bool = True) -> set[Row]:
    """The facts by the newest checkpoint and the transactions after it, the last one without an outcome included."""
    facts: set[Row] = set()
    newest = journal.newest()
    if newest is not None:
        for part in newest.parts:
            path = journal.layout.part(newest.number, part.relation, part.partition)
            facts |= {tuple(row) for row in json.loads(path.read_bytes())}
    last = journal.waiting
    for entry in journal.entries(newest.number if newest else 0):
        if undecided or entry != last:
            facts |= {row for _, _, row in entry.operations}
    return facts


def settled(journal: Journal) -> set[Row]:
    """The facts of transactions that are known to be committed."""
    return facts_of(journal, undecided=False)


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """All that is in a folder, but for the lock."""
    paths = sorted(path for path in folder.rglob("*") if path.name != "lock")
    return {path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None for path in paths}
