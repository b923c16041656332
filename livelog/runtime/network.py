"""The tables and rules of a recursive component on one partition, wired together from the plan.

Every partition builds the same network: tables have the same numbers everywhere, and messages name them by those.
"""

from __future__ import annotations

from typing import Any

from livelog.runtime.lookups import build_lookup
from operators.aggsel import AggSel
from operators.fixpoint import Fixpoint
from operators.join import PipelinedHashJoin, Projection
from operators.kernels import Shape
from operators.ledger import Derivation, ledger
from operators.lookup import Lookup
from operators.minship import MinShip
from operators.partition import Router
from operators.provenance import Provenance
from operators.seen import Seen
from planner.plan import BROADCAST, Input, JoinRule, LookupRule, MapRule, Placement, Plan, Stratum

__all__ = ["Network", "Wiring"]


class Wiring:
    """What reads a table: the joins it is a side of, the projections, the lookups that it asks, the copies."""

    def __init__(self) -> None:
        self.left: list[PipelinedHashJoin] = []
        self.right: list[PipelinedHashJoin] = []
        self.maps: list[Projection] = []
        self.asks: list[tuple[Lookup, LookupRule]] = []
        self.copies: list[tuple[Router | None, int]] = []  # where copies go (None: everywhere), and their table


class Network:
    """The parts of a component.

    `tables` and, beside each, its `wiring`; `numbers` finds a table by relation and placement; `home` has each
    relation's table on its owner; `ships` what is derived here and owned elsewhere; `rules` are by head.
    A network knows nothing of the component that runs it, so that it can be cleared when that one is gone.
    """

    def __init__(self, stratum: Stratum, plan: Plan, partitions: int, mode: str, provenance: Provenance) -> None:
        self.stratum = stratum
        self.plan = plan
        self.partitions = partitions
        self.mode = mode
        self.provenance = provenance
        self.tables: list[Fixpoint] = []
        self.wiring: list[Wiring] = []
        self.numbers: dict[tuple[str, Placement], int] = {}
        self.home: dict[str, Fixpoint] = {}
        self.ships: dict[str, MinShip] = {}
        self.rules: dict[str, list[PipelinedHashJoin | Projection]] = {}
        self.lookups: list[tuple[Lookup, LookupRule]] = []
        self.outgoing: dict[tuple[int, int], list[Derivation]] = {}  # (partition, table) -> what to ship there
        self._build()

    def clear(self) -> None:
        """Let go of all annotations.

        A BDD manager must outlive its functions. The collector takes cyclic garbage apart in any order; so this is
        called first.
        """
        self.outgoing.clear()
        for table in self.tables:
            table.clear()
        for ship in self.ships.values():
            ship.clear()
        self.provenance.clear()

    def _build(self) -> None:
        rules = self.stratum.rules
        read = {i.relation for r in rules for i in _inputs(r)}
        for name in (*self.stratum.inputs, *self.stratum.relations):
            if name in read or name in self.stratum.relations:
                self.home[name] = self.tables[self._table(name, self.plan.relations[name].partition)]
        for rule in rules:
            for i in _inputs(rule):
                self._table(i.relation, i.at)
        for rule in rules:
            if isinstance(rule, LookupRule):
                self._build_lookup(rule)
            else:
                self._build_rule(rule)
        if self.partitions > 1:
            for name in self.rules:
                self.ships[name] = MinShip(name, ledger(self.mode, self.provenance), self._selection(name))
        for name, built in self.rules.items():
            selection = self.plan.relations[name].selection
            for r in built:
                r.prepare(selection.group if selection else None, searching=self.mode == "demand")
            self._use_seen(name, built)

    def _use_seen(self, name: str, rules: list[PipelinedHashJoin | Projection]) -> None:
        """Where a recursive step carries columns over, let it look before it makes a head."""
        joins = [r for r in rules if isinstance(r, PipelinedHashJoin) and r.purpose == "direct"]
        steps = [
            r.shape.carried(side)
            for r in joins
            for side, table in (("left", r.left), ("right", r.right))
            if table.name in self.stratum.relations
        ]
        carried = next((c for c in steps if c is not None), None)
        if carried is not None:
            seen = self.home[name].seen = Seen(carried, self.plan.relations[name].arity)
            for r in joins:
                r.use_seen(seen)

    def _table(self, relation: str, at: Placement) -> int:
        """The number of the table of a relation at a placement, made on first request."""
        own = self.plan.relations[relation].partition
        if self.partitions == 1:
            at = own  # one partition holds everything: a copy would be the table itself
        number = self.numbers.get((relation, at))
        if number is None:
            number = self.numbers[relation, at] = len(self.tables)
            derived = relation in self.stratum.relations
            self.tables.append(
                Fixpoint(
                    relation,
                    ledger(self.mode, self.provenance),
                    self._selection(relation) if at == own and derived else None,
                    journal=derived,
                )
            )
            self.wiring.append(Wiring())
            if at != own:
                router = None if at == BROADCAST else Router(at, self.partitions)
                self.wiring[self.numbers[relation, own]].copies.append((router, number))
        return number

    def _selection(self, relation: str) -> AggSel | None:
        chosen = self.plan.relations[relation].selection
        if chosen is None:
            return None
        return AggSel(chosen.group, chosen.values, ledger(self.mode, self.provenance))

    def _build_rule(self, rule: Any) -> None:
        selection = self.plan.relations[rule.head].selection
        if self.mode != "demand":
            purpose = "each"
        elif self.partitions > 1:
            purpose = "first"
        else:
            purpose = "direct" if selection is None else "select"
        chosen = (selection.group, selection.values) if selection else ((), ())
        built: PipelinedHashJoin | Projection
        if isinstance(rule, MapRule):
            number = self._table(rule.input.relation, rule.input.at)
            arity = self.plan.relations[rule.input.relation].arity
            shape = Shape(arity, (), None, (), rule.where, rule.outputs, *chosen)
            built = Projection(rule.text, rule.head, shape, self.tables[number], purpose)
            self.wiring[number].maps.append(built)
        else:
            assert isinstance(rule, JoinRule)
            left = self._table(rule.left.relation, rule.left.at)
            right = self._table(rule.right.relation, rule.right.at)
            shape = Shape(
                self.plan.relations[rule.left.relation].arity,
                rule.left.key,
                self.plan.relations[rule.right.relation].arity,
                rule.right.key,
                rule.where,
                rule.outputs,
                *chosen,
            )
            built = PipelinedHashJoin(
                rule.text, rule.head, shape, rule.probe, self.tables[left], self.tables[right], purpose
            )
            self.wiring[left].left.append(built)
            self.wiring[right].right.append(built)
        self.rules.setdefault(rule.head, []).append(built)

    def _build_lookup(self, rule: LookupRule) -> None:
        lookup = build_lookup(rule, self.plan)
        self.lookups.append((lookup, rule))
        number = self._table(rule.left.relation, rule.left.at)
        self.tables[number].index(rule.left.key)
        self.wiring[number].asks.append((lookup, rule))


def _inputs(rule: Any) -> list[Input]:
    """The inputs of a rule that are met as tables."""
    if isinstance(rule, MapRule):
        return [rule.input]
    if isinstance(rule, JoinRule):
        return [rule.left, rule.right]
    return [rule.left]
