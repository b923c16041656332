"""What a session has cost so far: the four metrics of the absorption paper, and the sizes behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from livelog.runtime.skew import Skew

__all__ = ["PartitionStats", "Stats"]


@dataclass(frozen=True, slots=True)
class PartitionStats:
    """One partition.

    `state_bytes` is the size of all tuples and annotations kept, in the form in which they would be
    shipped; `provenance_bytes` is the annotations' part of it, over `annotated` tuples.
    """

    partition: int
    bytes_shipped: int
    frames_shipped: int
    tuples: int
    state_bytes: int
    annotated: int
    provenance_bytes: int
    variables: int
    bdd_levels: int
    bdd_nodes: int


@dataclass(frozen=True, slots=True)
class Stats:
    """A session.

    `seconds` is the time to converge of all transactions, `last_seconds` that of the last one.
    `ignored_inserts` and `ignored_deletes` count operations that found nothing to change. `skew` names the joins of
    which one partition holds most. `aggregates` has, by view, how many entries each part of the state of its aggregates
    has on all partitions: the `groups`, and of a view over a join the partial sums of the `left` and the `right` side.
    """

    transactions: int
    clock: float
    seconds: float
    last_seconds: float
    ignored_inserts: int
    ignored_deletes: int
    partitions: tuple[PartitionStats, ...]
    skew: tuple[Skew, ...] = ()
    aggregates: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def _total(self, field: str) -> int:
        return sum(getattr(p, field) for p in self.partitions)

    @property
    def bytes_shipped(self) -> int:
        """Bytes that crossed from one partition to another."""
        return self._total("bytes_shipped")

    @property
    def state_bytes(self) -> int:
        """Bytes of operator state on all partitions."""
        return self._total("state_bytes")

    @property
    def provenance_bytes_per_tuple(self) -> float:
        """Bytes of annotation of a tuple, on average over the tuples that have one."""
        return self._total("provenance_bytes") / max(1, self._total("annotated"))

    @property
    def tuples(self) -> int:
        """Tuples kept in operators, copies included."""
        return self._total("tuples")

    @property
    def variables(self) -> int:
        """Provenance variables alive."""
        return self._total("variables")

    @property
    def bdd_nodes(self) -> int:
        """Nodes in all BDD managers."""
        return self._total("bdd_nodes")

    def __str__(self) -> str:
        lines = [
            f"transactions       {self.transactions}, {self.seconds * 1000:.1f} ms in all, "
            f"{self.last_seconds * 1000:.1f} ms the last",
            f"clock              {self.clock:g}",
            f"no effect          {self.ignored_inserts} inserts, {self.ignored_deletes} deletes",
            f"state              {self.tuples} tuples, {self.state_bytes} bytes",
            f"provenance         {self.provenance_bytes_per_tuple:.1f} bytes a tuple, {self.variables} variables, "
            f"{self.bdd_nodes} BDD nodes",
            f"shipped            {self.bytes_shipped} bytes in {self._total('frames_shipped')} frames",
        ]
        if len(self.partitions) > 1:
            lines += [
                f"  partition {p.partition}: {p.tuples} tuples, {p.state_bytes} bytes, shipped {p.bytes_shipped} bytes"
                for p in self.partitions
            ]
        for view, parts in self.aggregates.items():
            lines.append(f"aggregates of {view:<5}" + ", ".join(f"{n} {name}" for name, n in parts.items()))
        lines += [f"skew               {s}" for s in self.skew]
        return "\n".join(lines)
