"""What a run tells while it goes on. These are sent between processes, so they are plain data.

The order is: `Opened`; for each phase, `Done` after each transaction and `PhaseEnd` after the last. A run that is
stopped says `Stopped` instead, and then, if the state can be measured as it is, `PhaseEnd`. One that fails says
`Failed`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

__all__ = ["Done", "Failed", "Figures", "Opened", "PhaseEnd", "PhaseName", "Report", "Stopped", "Why"]

PhaseName = Literal["load", "change"]
Why = Literal["time", "memory", "interrupted"]
Row = tuple[Any, ...]


class Figures(msgspec.Struct, frozen=True):
    """One partition over one phase; the sizes are as at its end."""

    partition: int
    bytes_shipped: int
    frames: int
    tuples: int
    state_bytes: int
    annotated: int
    provenance_bytes: int

    @property
    def provenance_bytes_per_tuple(self) -> float:
        """Bytes of annotation of a tuple, on average over the tuples that have one."""
        return self.provenance_bytes / max(1, self.annotated)


class Opened(msgspec.Struct, frozen=True, tag="opened"):
    """The session is open, with the facts that stand in the program's own text. `views` counts their tuples."""

    views: dict[str, int]
    digests: dict[str, str]


class Done(msgspec.Struct, frozen=True, tag="done"):
    """A transaction is done. `number` counts from 1 in each phase.

    `inserted` and `deleted` count the net changes of the views that changed, `digests` are hashes of them.
    `changed` holds the changes themselves, per view (inserted, deleted), if they were asked for.
    """

    phase: PhaseName
    number: int
    time: float
    about: str
    operations: int
    seconds: float
    bytes_shipped: int
    frames: int
    inserted: dict[str, int]
    deleted: dict[str, int]
    digests: dict[str, str]
    changed: dict[str, tuple[list[Row], list[Row]]] | None = None


class PhaseEnd(msgspec.Struct, frozen=True, tag="phase"):
    """All that could be measured at the end of a phase. `facts` are the base relations, if they were asked for.

    `resident_bytes` is the most memory that was held so far, or None where nobody can say.
    """

    phase: PhaseName
    partitions: tuple[Figures, ...]
    resident_bytes: int | None
    facts: dict[str, list[Row]] | None = None


class Stopped(msgspec.Struct, frozen=True, tag="stopped"):
    """The run ends before its end, in a phase that had taken `seconds` and shipped so much; and why.

    `seconds`, `bytes_shipped` and `frames` count the transaction that was under way, `transactions` does not.
    """

    why: Why
    phase: PhaseName
    transactions: int
    seconds: float
    bytes_shipped: int
    frames: int


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The program failed on its facts: what a person is told about it."""

    text: str


Report = Opened | Done | PhaseEnd | Stopped | Failed
