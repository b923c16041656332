"""The tables and rules of a recursive component on one partition, wired together from the plan.

Every partition builds the same network: tables have the same numbers everywhere, and messages name them by those.
"""

from __future__ import annotations

from typing import Any

from livelog.runtime.lookups import build_lookup
from operators.aggsel import AggSel
from operators.edges import EdgeLedger
from operators.fixpoint import Fixpoint
from operators.join import PipelinedHashJoin, Projection
from operators.kernels import Shape
from operators.ledger import Derivation, Ledger, ledger
from operators.lookup import Lookup
from operators.minship import MinShip
from operators.offers import Desk, Offering, Offers
from operators.partition import Owners, Router
from operators.provenance import Provenance
from operators.seen import Seen
from operators.sole import Sole
from planner.plan import BROADCAST, Input, JoinRule, LookupRule, MapRule, Placement, Plan, Stratum

__all__ = ["Network", "Wiring"]


LEDGERS = {"nothing": "plain", "edges": "edges"}
"""The ledgers of methods that do not choose one by their ship mode."""


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

    `keeps` says what is kept of a derivation: its "annotations" in the way of the ship mode, its "edges" (the parents
    themselves), or "nothing".
    """

    def __init__(
        self, stratum: Stratum, plan: Plan, partitions: int, mode: str, keeps: str, provenance: Provenance
    ) -> None:
        self.stratum = stratum
        self.plan = plan
        self.partitions = partitions
        self.keeps = keeps
        self.provenance = provenance
        self._mode = mode if keeps == "annotations" else LEDGERS[keeps]
        self._searching = self._ledger().searching
        self._own = frozenset(self.stratum.relations)
        self.tables: list[Fixpoint] = []
        self.wiring: list[Wiring] = []
        self.numbers: dict[tuple[str, Placement], int] = {}
        self.home: dict[str, Fixpoint] = {}
        self.ships: dict[str, MinShip] = {}
        self.offers: dict[int, Offers] = {}  # by table
        self.rules: dict[str, list[PipelinedHashJoin | Projection]] = {}
        self.lookups: list[tuple[Lookup, LookupRule]] = []
        self.outgoing: dict[tuple[int, int], list[Derivation]] = {}  # (partition, table) -> what to ship there
        self._build()

    def _ledger(self) -> Ledger:
        return EdgeLedger(self.provenance) if self.keeps == "edges" else ledger(self._mode, self.provenance)

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
        for offers in self.offers.values():
            offers.clear()
        self.provenance.clear()

    def _build(self) -> None:
        rules = self.stratum.rules
        read = {i.relation for r in rules for i in _inputs(r)}
        for name in (*self.stratum.inputs, *self.stratum.relations):
            if name in read or name in self._own:
                self.home[name] = self.tables[self._table(name, self.plan.relations[name].partition)]
        for rule in rules:
            if isinstance(rule, LookupRule):
                self._build_lookup(rule)
            else:
                self._build_rule(rule)
        if self.partitions > 1:
            for name in self.rules:
                if self._mode == "demand" and self.plan.relations[name].selection is None:
                    self.ships[name] = Offering(name, self._ledger())
                    self.offers[self.numbers[name, self.plan.relations[name].partition]] = Offers()
                else:
                    self.ships[name] = MinShip(name, self._ledger(), self._selection(name))
        for name, built in self.rules.items():
            selection = self.plan.relations[name].selection
            for r in built:
                r.prepare(selection.group if selection else None, searching=self._searching)
            self._use_seen(name, built)

    def _use_seen(self, name: str, rules: list[PipelinedHashJoin | Projection]) -> None:
        """Where a recursive step carries columns over, let it look before it makes a head."""
        ship = self.ships.get(name)
        purpose = "first" if isinstance(ship, Offering) else "direct"
        joins = [r for r in rules if isinstance(r, PipelinedHashJoin) and r.purpose == purpose]
        steps = [
            step
            for r in joins
            for side, table in (("left", r.left), ("right", r.right))
            if table.name in self._own and (step := r.shape.carried(side)) is not None
        ]
        if steps:
            carried = steps[0]
            relation = self.plan.relations[name]
            seen = self.home[name].seen = Seen(carried, relation.arity)
            if isinstance(ship, Offering):
                ship.seen, seen.beside = seen, ship.offered
                ship.desk = Desk(Owners(relation.partition, self.partitions), self.provenance.partition)
            for r in joins:
                r.use_seen(seen, ship.desk if isinstance(ship, Offering) else None)

    def _table(self, relation: str, at: Placement) -> int:
        """The number of the table of a relation at a placement, made on first request."""
        own = self.plan.relations[relation].partition
        if self.partitions == 1:
            at = own  # one partition holds everything: a copy would be the table itself
        number = self.numbers.get((relation, at))
        if number is None:
            number = self.numbers[relation, at] = len(self.tables)
            derived = relation in self._own
            self.tables.append(
                Fixpoint(
                    relation,
                    self._ledger(),
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
        # see `operators.aggsel` for what letting go of overtaken tuples needs
        alone = all(r.head == relation for r in self.stratum.rules if relation in {i.relation for i in _inputs(r)})
        lean = chosen.strict and alone and self._searching and self.partitions == 1
        one_winner = len(chosen.values) == 1 and len(chosen.group) + 1 == self.plan.relations[relation].arity
        kind = Sole if one_winner and self._searching and self.partitions == 1 else AggSel
        return kind(chosen.group, chosen.values, self._ledger(), lean)

    def _build_rule(self, rule: Any) -> None:
        selection = self.plan.relations[rule.head].selection
        if self.keeps == "edges":
            purpose = "edges"
        elif not self._searching:
            purpose = "each"
        elif self.partitions > 1:
            purpose = "first"
        else:
            table = self.home[rule.head]
            purpose = "direct" if selection is None else "sole" if isinstance(table.selection, Sole) else "select"
        annotated = self.keeps != "nothing"
        chosen = (selection.group, selection.values) if selection else ((), ())
        count = len(self.rules.get(rule.head, ()))
        built: PipelinedHashJoin | Projection
        if isinstance(rule, MapRule):
            number = self._table(rule.input.relation, rule.input.at)
            arity = self.plan.relations[rule.input.relation].arity
            shape = Shape(arity, (), None, (), rule.where, rule.outputs, *chosen, count)
            built = Projection(rule.text, rule.head, shape, self.tables[number], purpose, annotated)
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
                count,
            )
            built = PipelinedHashJoin(
                rule.text, rule.head, shape, rule.probe, self.tables[left], self.tables[right], purpose, annotated
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
