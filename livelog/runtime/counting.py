"""A non-recursive stratum on one partition: derivations are counted.

The stratum defines one relation. A change of an input meets, in each join, what has arrived on the other side so
far; every pair of tuples is counted once, when the later of the two arrives, and taken back when the
first of them leaves. So changes may come from other partitions in any order. A tuple is in the relation
while its count is not zero.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from livelog.runtime.columnar import Columnar, lineage
from livelog.runtime.counted import Joined, Mapped, Table
from livelog.runtime.grouping import Groups
from livelog.runtime.lineage import Lineage
from livelog.runtime.lookups import Asking
from livelog.runtime.nesting import Nesting
from livelog.runtime.node import Links, Node, unpacked
from livelog.runtime.windows import Clocked, Windowed
from operators.approx import Approx, ApproxGroups
from operators.columnar.groups import ColumnGroups
from operators.delta import Copies, Delta
from operators.errors import Excess, Outgrown, RuleFailure
from operators.expr import Col
from operators.groupby import GroupBy
from operators.partition import Router
from operators.shared import Shared
from operators.window import Window
from operators.zset import Counts, ZTable
from planner.plan import (
    BROADCAST,
    ClockRule,
    GroupRule,
    Input,
    JoinRule,
    LineageRule,
    LookupRule,
    MapRule,
    NestedRule,
    Placement,
    Plan,
    Stratum,
    WindowRule,
)

__all__ = ["NODES", "Counting"]

Tuple = tuple[Any, ...]
Weights = list[tuple[Tuple, int]]
Send = Callable[[int, str, int, list[Any]], None]

NODES: dict[type, Callable[[Any, Plan, Links], Node]] = {
    GroupRule: Groups,
    LineageRule: lineage,
    LookupRule: Asking,
    NestedRule: Nesting,
    WindowRule: Windowed,
    ClockRule: Clocked,
}
"""What runs the rules that keep state of their own; see `livelog.runtime.node`."""


def _copied(stratum: Stratum, plan: Plan) -> str | None:
    """The relation that this stratum's one rule copies tuple by tuple, to the same place, if that is all it does."""
    head = plan.relations[stratum.relations[0]]
    rule = stratum.rules[0] if len(stratum.rules) == 1 else None
    if not isinstance(rule, MapRule) or rule.where:
        return None
    source = plan.relations[rule.input.relation]
    same = rule.outputs == tuple(map(Col, range(source.arity))) and source.partition == head.partition
    return source.name if same and not (source.bag or source.weighted or head.weighted) else None


def _tells_heads(rule: Any) -> bool:
    """Whether its node tells what becomes of each head: they are one for each group, or those of a window. There is
    nothing to count."""
    groups = isinstance(rule, (GroupRule, LineageRule)) or (isinstance(rule, NestedRule) and rule.shows != "rows")
    return groups or isinstance(rule, WindowRule)


class Counting:
    """The state and the rules of one counting stratum on one partition.

    `_tables` are numbered the same way on every partition, and so are the ports of the nodes; messages name them:
    `side` carries changes of an input to a table, `node` and `vector` rows to a port of a node, and `count` changes
    of the relation's counts to their owner.

    `limit` is how many tuples a transaction may add beyond as many as there are in what the rules read (which `read`
    counts), and `most` how many there may be at all; None is no limit.
    """

    def __init__(
        self,
        stratum: Stratum,
        plan: Plan,
        partition: int,
        partitions: int,
        send: Send,
        memory: Any = None,
        below: Mapping[str, Any] | None = None,
        limit: int | None = None,
        most: int | None = None,
        read: Callable[[], int] = int,
    ) -> None:
        """`memory` is what the stratum before this one `remembered`; `below` are the strata of lower relations."""
        self.limit = limit
        self.most = most
        self._read = read
        self._next = 0  # how much may be written down before somebody looks again
        self.stratum = stratum
        self.plan = plan
        self.partition = partition
        self.partitions = partitions
        self.send = send
        (self.name,) = stratum.relations
        self.relation = plan.relations[self.name]
        self.counts = Counts()
        self.nodes: list[tuple[str, Node]] = []  # by the rule's id
        self._ports: list[tuple[Node, int]] = []
        self._owner = Router(self.relation.partition, partitions)
        self._below = below or {}
        self._tables: list[Table] = []
        self._numbers: dict[tuple[str, Placement | None], int] = {}
        self._readers: list[list[tuple[Joined, str]]] = []  # table -> joins, with the side that it is
        self._maps: list[tuple[str, Mapped]] = []
        self._copied = _copied(stratum, plan)
        for rule in stratum.rules if self._copied is None else ():
            self._build(rule)
        self._sole = len(stratum.rules) == 1 and _tells_heads(stratum.rules[0])
        # where the one rule's node has them all: no tuple is counted
        self.heads: GroupBy | ColumnGroups | Window | None = None
        if self._sole and isinstance(node := self.nodes[0][1], (Groups, Lineage, Columnar, Windowed)):
            self.heads = node.heads
        self.shown = self._approximation(memory)

    def _approximation(self, memory: Any) -> Approx | ApproxGroups | None:
        """Of an approximated relation: what readers see instead of the exact tuples."""
        near = self.relation.tolerance
        if near is None:
            return None
        if isinstance(self.heads, GroupBy) and self.heads.results.issuperset(near.columns):
            return ApproxGroups(self.heads, near.columns, near.threshold, memory)
        return Approx(self.relation.arity, near.columns, near.threshold, memory)

    def _build(self, rule: Any) -> None:
        if isinstance(rule, MapRule):
            self._maps.append((rule.input.relation, Mapped(rule, self.plan)))
        elif isinstance(rule, JoinRule):
            left, right = self._table(rule.left), self._table(rule.right)
            joined = Joined(rule, self.plan, self._tables[left], self._tables[right], self._look)
            self._readers[left].append((joined, "left"))
            self._readers[right].append((joined, "right"))
        else:
            node = NODES[type(rule)](
                rule, self.plan, Links(len(self._ports), self.partition, self.partitions, self.send)
            )
            self.nodes.append((rule.id, node))
            self._ports += [(node, port) for port in range(node.ports)]

    def _table(self, side: Input) -> int:
        groups = self._groups(side)
        home = self.plan.relations[side.relation].partition
        at = None if groups is not None else home if self.partitions == 1 else side.at
        number = self._numbers.setdefault((side.relation, at), len(self._tables))
        if number == len(self._tables):
            self._tables.append(ZTable() if groups is None else Shared(groups))
            self._readers.append([])
        return number

    def _groups(self, side: Input) -> GroupBy | None:
        """The groups whose heads a side of a join reads by their very key, if they are at hand."""
        producer = self._below.get(side.relation)
        if self.partitions > 1 or not isinstance(producer, Counting) or isinstance(producer.shown, Approx):
            return None
        return producer.heads if isinstance(producer.heads, GroupBy) and producer.heads.key == side.key else None

    # --- a transaction ---------------------------------------------------------------------------------------

    def prepare(self, deltas: dict[str, Delta]) -> None:
        """Nothing has to be in place before `begin`: lookups answer at the end."""

    def begin(self, deltas: dict[str, Delta]) -> None:
        """Work in the net changes of lower strata, as far as this partition owns them."""
        if self._copied is not None:
            if delta := deltas.get(self._copied):
                self.counts.came += delta.gained
                self.counts.went += delta.lost
            return
        for name, mapped in self._maps:
            if delta := deltas.get(name):
                self._count(mapped.run, delta)
        for (name, _), number in self._numbers.items():
            table = self._tables[number]
            if isinstance(table, Shared):
                table.coming = deltas.get(name)
        for (name, at), number in self._numbers.items():
            if delta := deltas.get(name):
                if self.partitions == 1 or at is None:
                    self._arrive(number, delta)
                else:
                    self._deliver(number, delta.items(), at)
        for _, node in self.nodes:
            node.begin(deltas)

    def _deliver(self, number: int, delta: Weights, at: Placement) -> None:
        """Bring a change of one side of some joins to the partitions where they want it."""
        if at == BROADCAST:
            shares = dict.fromkeys(range(self.partitions), delta)
        else:
            shares = Router(at, self.partitions).split(delta)
        for destination, share in shares.items():
            self._pass(destination, "side", number, share)

    def _pass(self, destination: int, kind: str, number: int, share: Weights) -> None:
        if destination == self.partition:
            self.receive(self.partition, kind, number, share)
        else:
            try:
                self.send(destination, kind, number, [[t, w] for t, w in share])
            except OverflowError:
                ways = OverflowError("overflow: a tuple has more derivations than 64 bits can count")
                raise RuleFailure(self.stratum.rules[0].text, None, ways) from None

    def receive(self, source: int, kind: str, target: int, rows: list[Any]) -> None:
        """Work off a message, of another partition or of this one."""
        if kind == "side":
            self._arrive(target, Delta.weighted(rows))
        elif kind == "count":
            self.counts.add(rows)
        else:
            node, port = self._ports[target]
            node.receive(port, rows if kind == "node" else unpacked(rows))

    def _arrive(self, number: int, delta: Delta) -> None:
        """A change of one side of some joins. A table joined with itself meets its old state from the left
        and its new one from the right."""
        readers = self._readers[number]
        for joined, side in readers:
            if side == "left":
                self._count(joined.run, side, delta)
        self._tables[number].add(delta)
        for joined, side in readers:
            if side == "right":
                self._count(joined.run, side, delta)

    def _count(self, run: Callable[..., None], *batch: Any) -> None:
        """Changes of counts, to the owners of the tuples: on a single partition they are written where they belong."""
        if self.partitions == 1:
            run(*batch, self.counts)
            return
        out = Counts()
        run(*batch, out)
        for destination, share in self._owner.split(list(out.gathered().items())).items():
            self._pass(destination, "count", 0, share)

    def _look(self, text: str, out: Counts) -> None:
        """A rule has made so much so far: see that these are not too many tuples. Amortised O(1) for each."""
        least = min([n for n in (self.limit, self.most) if n is not None], default=None)
        if least is None or out.written <= max(self._next, least):
            return
        rows, gathered = self.counts.rows, out.gathered()
        new = [t for t, w in gathered.items() if w > 0 and t not in rows]
        lost = sum(1 for t, w in gathered.items() if w < 0 and rows.get(t, 0) <= -w)
        self.check_growth(new, len(rows) - lost + len(new), text)
        self._next = 2 * len(gathered)

    def check_growth(self, new: list[Tuple], size: int, text: str = "") -> None:
        """Raise if these are too many new tuples, or if there are too many now. `text` is the rule that is at work."""
        if self.limit is not None and len(new) > self.limit:
            read = self._read()
            if len(new) > self.limit + read:
                raise Excess(
                    f"{len(new):,} new tuples in one transaction, more than the limit of {self.limit:,} beside the "
                    f"{read:,} tuples that the rule reads",
                    text or self.stratum.rules[0].text,
                    new[-3:],
                )
        if text and self.most is not None and size > self.most:
            raise Outgrown(self.name, size, self.most, text)

    def work(self) -> None:
        """Counting works every message off as it comes."""

    def resume(self, level: int) -> bool:
        """Counting waits for nothing."""
        return False

    def finish(self) -> dict[str, Delta]:
        """The net change of the relation on this partition; the engine is quiescent."""
        if self._sole:
            gone, new = self.nodes[0][1].settle()
            if not gone and not new and self.shown is None:
                return {}
            if self.heads is None:
                delta = self.counts.replace(gone, new)
            else:
                delta = Copies(new, gone) if self.relation.weighted else Delta(new, gone)
        else:
            for _, node in self.nodes:
                gone, new = node.settle()
                self.counts.went += gone
                self.counts.came += new
            delta = self.counts.net(self.relation.weighted)
        if self.limit is not None and len(delta.gained) > self.limit:
            self.check_growth(delta.gained, 0)
        self._next = 0
        if self.shown is not None:
            delta = self.shown.publish(delta)
        return {self.name: delta} if delta else {}

    def commit(self) -> None:
        """The transaction stands."""
        if self.shown is not None:
            self.shown.commit()

    def remembered(self) -> Any:
        """What an evaluation from scratch must know of the last commit. This stratum is of no use afterwards."""
        return None if self.shown is None else self.shown.remembered()

    def clear(self) -> None:
        """Let go of all state."""
        self.counts = Counts()
        self.heads = self.shown = None
        self._below = {}
        self._tables.clear()
        self._readers.clear()
        self.nodes.clear()
        self._ports.clear()

    # --- looking in ------------------------------------------------------------------------------------------

    @property
    def rows(self) -> Collection[Tuple]:
        """The tuples of the relation, as readers see them."""
        return self._exact_rows if self.shown is None else self.shown.rows

    @property
    def _exact_rows(self) -> Collection[Tuple]:
        return self.counts.rows if self.heads is None else self.heads

    def held(self, side: Input) -> int:
        """How many tuples of one side of a join there are here, wherever they are kept."""
        groups = self._groups(side)
        if groups is not None:
            return len(groups)
        table = self._tables[self._table(side)]
        return sum(map(len, table.index(side.key).values())) if isinstance(table, ZTable) else 0

    def exact(self, t: Tuple) -> Tuple | None:
        """The tuple that the rules derive where an approximated one is shown."""
        return t if self.shown is None else self.shown.exact_of(t)

    def stats(self) -> dict[str, int]:
        """Counts of what this partition keeps for the stratum."""
        kept = sum(n for _, node in self.nodes for n in node.stats().values())
        shown = len(self.shown.rows) if isinstance(self.shown, Approx) else 0
        return {"tuples": len(self._exact_rows) + shown + sum(map(len, self._tables)) + kept}

    def state_bytes(self, size: Callable[[Any], int]) -> int:
        """Bytes of what this partition keeps; `size` measures a value."""
        total = sum(size((t, w)) for t, w in self.counts.rows.items())
        total += 0 if self.heads is None else sum(size((t, 1)) for t in self.heads)
        if isinstance(self.shown, Approx):
            total += sum(size((t, w)) for t, w in self.shown.rows.items())
        total += sum(size((t, w)) for table in self._tables for t, w in table.items())
        return total + sum(size(value) for _, node in self.nodes for value in node.kept())

    def check(self) -> None:
        """Assert the invariants of everything in here; the engine is quiescent."""
        self.counts.check()
        for table in self._tables:
            table.check()
        for _, node in self.nodes:
            node.check()
        if isinstance(self.shown, Approx):
            self.shown.check(self._exact_rows)
        elif self.shown is not None:
            self.shown.check()
