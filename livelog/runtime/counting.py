"""A non-recursive stratum on one partition: derivations are counted.

The stratum defines one relation. A change of an input meets, in each join, what has arrived on the other side so
far; every pair of tuples is counted once, when the later of the two arrives, and taken back when the
first of them leaves. So changes may come from other partitions in any order. A tuple is in the relation
while its count is not zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from livelog.runtime.lookups import build_lookup
from operators.delta import Delta
from operators.errors import RuleFailure
from operators.expr import Col, Const
from operators.groupby import GroupBy
from operators.kernels import Shape, forward, mapper
from operators.monoids import factory
from operators.partition import Router
from operators.zset import Counts, ZTable
from planner.plan import BROADCAST, GroupRule, Input, JoinRule, LookupRule, MapRule, Placement, Plan, Stratum

__all__ = ["Counting"]

Tuple = tuple[Any, ...]
Weights = list[tuple[Tuple, int]]
Send = Callable[[int, str, int, list[Any]], None]


class _Mapped:
    """A MapRule or a GroupRule: what it makes of a batch of its input."""

    def __init__(self, rule: MapRule | GroupRule, plan: Plan) -> None:
        self.text = rule.text
        outputs = rule.outputs if isinstance(rule, MapRule) else _contribution(rule)
        arity = plan.relations[rule.input.relation].arity
        self._kernel = mapper(Shape(arity, (), None, (), rule.where, outputs), "weights")

    def run(self, batch: Weights) -> dict[Tuple, int]:
        out: dict[Tuple, int] = {}
        _guarded(self.text, self._kernel, batch, lambda b, o: (b, None, None, o), out)
        return out


class _Joined:
    """A JoinRule: its two sides and their kernels."""

    def __init__(self, rule: JoinRule, plan: Plan, left: ZTable, right: ZTable) -> None:
        self.text = rule.text
        arities = [plan.relations[i.relation].arity for i in (rule.left, rule.right)]
        shape = Shape(arities[0], rule.left.key, arities[1], rule.right.key, rule.where, rule.outputs)
        self._kernels = {side: forward(shape, side, "weights") for side in ("left", "right")}
        self._find = {"left": right.index(rule.right.key).get, "right": left.index(rule.left.key).get}

    def run(self, side: str, batch: Weights) -> dict[Tuple, int]:
        out: dict[Tuple, int] = {}
        find = self._find[side]
        _guarded(self.text, self._kernels[side], batch, lambda b, o: (b, find, None, None, None, o), out)
        return out


class _Asking:
    """A LookupRule: how much asks about each key, and the keys touched in this transaction."""

    def __init__(self, rule: LookupRule, plan: Plan) -> None:
        self.rule = rule
        self.lookup = build_lookup(rule, plan)
        self.askers: dict[Tuple, int] = {}
        self.touched: dict[Tuple, None] = {}


def _guarded(text: str, kernel: Any, batch: Weights, arguments: Any, out: dict[Tuple, int]) -> None:
    """Run a kernel; if it raises, run it again tuple by tuple to name the one that did it."""
    try:
        kernel(*arguments(batch, out))
    except Exception as e:
        for entry in batch:
            try:
                kernel(*arguments([entry], {}))
            except Exception as again:
                raise RuleFailure(text, entry[0], again) from again
        raise RuleFailure(text, None, e) from e


def _contribution(rule: GroupRule) -> tuple[Any, ...]:
    """The columns of what a GroupRule hands to its groups: the group, then the arguments."""
    return (*rule.group, *[Const(None) if e is None else e for _, e in rule.aggregates])


def _copied(stratum: Stratum, plan: Plan) -> str | None:
    """The relation that this stratum's one rule copies tuple by tuple, to the same place, if that is all it does."""
    head = plan.relations[stratum.relations[0]]
    rule = stratum.rules[0] if len(stratum.rules) == 1 else None
    if not isinstance(rule, MapRule) or rule.where:
        return None
    source = plan.relations[rule.input.relation]
    same = rule.outputs == tuple(map(Col, range(source.arity))) and source.partition == head.partition
    return source.name if same and not (source.bag or source.weighted or head.weighted) else None


class Counting:
    """The state and the rules of one counting stratum on one partition.

    `_tables` are numbered the same way on every partition, and so are the rules; messages name them:
    `side` carries changes of an input to a table, `inner` to a lookup, `group` contributions to a rule's
    groups, and `count` changes of the relation's counts to their owner.
    """

    def __init__(self, stratum: Stratum, plan: Plan, partition: int, partitions: int, send: Send) -> None:
        self.stratum = stratum
        self.plan = plan
        self.partition = partition
        self.partitions = partitions
        self.send = send
        (self.name,) = stratum.relations
        self.relation = plan.relations[self.name]
        self.counts = Counts()
        self._owner = Router(self.relation.partition, partitions)
        self._tables: list[ZTable] = []
        self._numbers: dict[tuple[str, Placement], int] = {}
        self._readers: list[list[tuple[_Joined, str]]] = []  # table -> joins, with the side that it is
        self._maps: list[tuple[str, _Mapped, int | None]] = []  # input, kernel, number of the group rule
        self._groups: list[tuple[GroupBy, Router]] = []
        self._lookups: list[_Asking] = []
        self._copied = _copied(stratum, plan)
        for rule in stratum.rules if self._copied is None else ():
            self._build(rule)

    def _build(self, rule: Any) -> None:
        if isinstance(rule, MapRule):
            self._maps.append((rule.input.relation, _Mapped(rule, self.plan), None))
        elif isinstance(rule, GroupRule):
            kinds = {entry: self.relation.types[c] for c, entry in enumerate(rule.layout)}
            makes = tuple(
                factory(name, self.plan.aggregates, kinds.get(len(rule.group) + i, "number"))
                for i, (name, _) in enumerate(rule.aggregates)
            )
            groups = GroupBy(rule.text, len(rule.group), makes, rule.layout)
            home = tuple(rule.layout[c] for c in self.relation.partition)
            self._maps.append((rule.input.relation, _Mapped(rule, self.plan), len(self._groups)))
            self._groups.append((groups, Router(home, self.partitions)))
        elif isinstance(rule, JoinRule):
            left, right = self._table(rule.left), self._table(rule.right)
            joined = _Joined(rule, self.plan, self._tables[left], self._tables[right])
            self._readers[left].append((joined, "left"))
            self._readers[right].append((joined, "right"))
        else:
            assert isinstance(rule, LookupRule)
            self._lookups.append(_Asking(rule, self.plan))

    def _table(self, side: Input) -> int:
        at = self.plan.relations[side.relation].partition if self.partitions == 1 else side.at
        number = self._numbers.setdefault((side.relation, at), len(self._tables))
        if number == len(self._tables):
            self._tables.append(ZTable())
            self._readers.append([])
        return number

    # --- a transaction ---------------------------------------------------------------------------------------

    def prepare(self, deltas: dict[str, Delta]) -> None:
        """Nothing has to be in place before `begin`: lookups answer at the end."""

    def begin(self, deltas: dict[str, Delta]) -> None:
        """Work in the net changes of lower strata, as far as this partition owns them."""
        if self._copied is not None:
            if delta := deltas.get(self._copied):
                self.counts.follow(delta.gained, delta.lost)
            return
        for name, mapped, group in self._maps:
            if delta := deltas.get(name):
                out = mapped.run(delta.items())
                if group is None:
                    self._count(out)
                else:
                    self._contribute(group, out)
        for (name, at), number in self._numbers.items():
            if delta := deltas.get(name):
                self._deliver("side", number, delta.items(), at)
        for number, asking in enumerate(self._lookups):
            for kind, source in (("inner", asking.rule.inner), ("ask", asking.rule.left)):
                if delta := deltas.get(source.relation):
                    self._deliver(kind, number, delta.items(), source.at)

    def _deliver(self, kind: str, number: int, delta: Weights, at: Placement) -> None:
        """Bring a change to the partitions where a rule wants it."""
        if self.partitions == 1:
            self.receive(self.partition, kind, number, delta)
            return
        if at == BROADCAST:
            shares = dict.fromkeys(range(self.partitions), delta)
        else:
            shares = Router(at, self.partitions).split(delta)
        for destination, share in shares.items():
            self._pass(destination, kind, number, share)

    def _pass(self, destination: int, kind: str, number: int, share: Weights) -> None:
        if destination == self.partition:
            self.receive(self.partition, kind, number, share)
        else:
            self.send(destination, kind, number, [[t, w] for t, w in share])

    def receive(self, source: int, kind: str, target: int, rows: list[Any]) -> None:
        """Work off a message, of another partition or of this one."""
        if kind == "side":
            self._arrive(target, rows)
        elif kind == "count":
            self.counts.add(rows)
        elif kind == "group":
            self._groups[target][0].update(rows)
        elif kind == "inner":
            self._lookups[target].lookup.change(rows)
        else:
            self._ask(target, rows)

    def _arrive(self, number: int, rows: Weights) -> None:
        """A change of one side of some joins. A table joined with itself meets its old state from the left
        and its new one from the right."""
        readers = self._readers[number]
        for joined, side in readers:
            if side == "left":
                self._count(joined.run(side, rows))
        self._tables[number].add(rows)
        for joined, side in readers:
            if side == "right":
                self._count(joined.run(side, rows))

    def _ask(self, number: int, rows: Weights) -> None:
        """The left side of a lookup changed: count who asks about which key."""
        asking = self._lookups[number]
        for t, w in rows:
            key = tuple([t[c] for c in asking.rule.left.key])
            asking.askers[key] = asking.askers.get(key, 0) + w
            asking.touched[key] = None

    def _settle(self, asking: _Asking) -> None:
        """All changes are in: forget the keys that nobody asks about, and take in the new answers."""
        idle = [key for key in asking.touched if not asking.askers[key]]
        for key in idle:
            del asking.askers[key]
        forgotten = asking.lookup.forget(idle)
        gone, new = asking.lookup.settle()
        new += asking.lookup.ask([key for key in asking.touched if key in asking.askers])
        asking.touched.clear()
        self.counts.add([(t, -1) for t in forgotten + gone] + [(t, 1) for t in new])

    def _count(self, out: dict[Tuple, int]) -> None:
        """Changes of counts, to the owners of the tuples."""
        if self.partitions == 1:
            self.counts.add(out.items())
            return
        for destination, share in self._owner.split(list(out.items())).items():
            self._pass(destination, "count", 0, share)

    def _contribute(self, number: int, out: dict[Tuple, int]) -> None:
        groups, router = self._groups[number]
        if self.partitions == 1:
            groups.update(out.items())
            return
        for destination, share in router.split(list(out.items())).items():
            self._pass(destination, "group", number, share)

    def work(self) -> None:
        """Counting works every message off as it comes."""

    def resume(self, level: int) -> bool:
        """Counting waits for nothing."""
        return False

    def finish(self) -> dict[str, Delta]:
        """The net change of the relation on this partition; the engine is quiescent."""
        for asking in self._lookups:
            self._settle(asking)
        for groups, _ in self._groups:
            gone, new = groups.flush()
            self.counts.add([(t, -1) for t in gone] + [(t, 1) for t in new])
        delta = self.counts.net(self.relation.weighted)
        return {self.name: delta} if delta else {}

    def clear(self) -> None:
        """Let go of all state."""
        self.counts = Counts()
        self._tables.clear()
        self._groups.clear()
        self._lookups.clear()

    # --- looking in ------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, int]:
        """Counts of what this partition keeps for the stratum."""
        groups = sum(g.stats()["groups"] for g, _ in self._groups)
        keys = sum(n for asking in self._lookups for n in asking.lookup.stats().values())
        return {"tuples": len(self.counts.rows) + sum(map(len, self._tables)) + groups + keys}

    def state_bytes(self, size: Callable[[Any], int]) -> int:
        """Bytes of what this partition keeps; `size` measures a value."""
        total = sum(size((t, w)) for t, w in self.counts.rows.items())
        total += sum(size((t, w)) for table in self._tables for t, w in table.items())
        return total + sum(size(t) for asking in self._lookups for t in asking.lookup.rows())

    def check(self) -> None:
        """Assert the invariants of everything in here; the engine is quiescent."""
        self.counts.check()
        for table in self._tables:
            table.check()
        for groups, _ in self._groups:
            groups.check()
        for asking in self._lookups:
            asking.lookup.check()
