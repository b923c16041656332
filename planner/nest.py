"""From a recognised comparison to a rule of the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from datalog.ast import Expression, HeadAggregate, Variable
from operators.expr import Col, Expr, columns
from planner.build import Part
from planner.chain import Chain, Step
from planner.draft import Body, Lookup
from planner.plan import Asked, Inner, Input, NestedRule, PlanRule
from planner.recognise import Pattern, Ties
from planner.translate import Translator

__all__ = ["Nest", "Rows", "at_home", "spread"]

Rows = Callable[[Chain, Lookup, Part | None], tuple[Part, Body]]
"""What makes the relation of the inner rows of a lookup (`planner.solve.inner_rows`)."""


@dataclass(frozen=True, slots=True)
class Nest:
    """A comparison that is to be kept by a rule over a step of one part."""

    pattern: Pattern

    def results(
        self,
        chain: Chain,
        step: Step,
        rows: Rows,
        group: tuple[Expr, ...],
        aggregates: Sequence[tuple[str, Expr | None]],
        layout: tuple[int, ...],
    ) -> NestedRule:
        """The rule that makes a head with aggregates of those rows of a step that pass."""
        head = chain.clause.rule.head
        kinds = []
        for node, column in zip(head.arguments, chain.builder.relations[head.relation].types, strict=True):
            if isinstance(node, HeadAggregate):
                cast = node.function in ("min", "max", "sum") and column == "float"
                kinds.append("float" if cast else chain.translator.type(node.target, step.types))
        typed = tuple((name, e, kind) for (name, e), kind in zip(aggregates, kinds, strict=True))
        rule = self.rule(chain, step, rows, head.relation, "results", group, typed, layout)
        return replace(rule, id=chain.clause.id)

    def rule(
        self,
        chain: Chain,
        step: Step,
        rows: Rows,
        head: str,
        shows: Literal["results", "rows"],
        group: tuple[Expr, ...],
        aggregates: tuple[tuple[str, Expr | None, str], ...] = (),
        layout: tuple[int, ...] = (),
    ) -> NestedRule:
        """The rule, whose id is its head's name; placements are chosen later."""
        pattern, translator = self.pattern, chain.translator
        equal = tuple(translator.expression(one, step.row) for one, _ in pattern.ties.equal)
        inner = None if pattern.lookup is None else _inner(chain, pattern.lookup, rows, pattern.ties)
        scalars = tuple(_inner(chain, lookup, rows) for lookup in pattern.scalars)
        names = [lookup.result for lookup in pattern.scalars]
        compared: Expr | None = None
        if pattern.method == "each":
            return self._each(chain, step, rows, scalars, head, shows, group, aggregates, layout)
        if pattern.method == "value":
            names = names if pattern.lookup is None else [pattern.lookup.result, *names]
        else:
            assert pattern.lookup is not None and pattern.lookup.result is not None
            compared = translator.expression(pattern.compared, {pattern.lookup.result: Col(0)})
        threshold = translator.expression(pattern.threshold, {n: Col(i) for i, n in enumerate(names) if n is not None})
        return NestedRule(
            head,
            head,
            Input(step.parts[0].relation, ()),
            step.where,
            equal,
            None if pattern.key is None else translator.expression(pattern.key, step.row),
            inner,
            scalars,
            pattern.method,
            None if compared == Col(0) else compared,
            pattern.falls,
            pattern.op,
            threshold,
            shows,
            group,
            aggregates,
            layout,
            _single(pattern, equal, group),
            chain.clause.rule.text,
        )


    def _each(
        self,
        chain: Chain,
        step: Step,
        rows: Rows,
        scalars: tuple[Inner, ...],
        head: str,
        shows: Literal["results", "rows"],
        group: tuple[Expr, ...],
        aggregates: tuple[tuple[str, Expr | None, str], ...],
        layout: tuple[int, ...],
    ) -> NestedRule:
        """The rule that tries every distinct row."""
        pattern, translator = self.pattern, chain.translator
        free: dict[Expr, int] = {}

        def column(node: Expression) -> int:
            return free.setdefault(translator.expression(node, step.row), len(free))

        read = {name: column(Variable(name)) for name in pattern.columns}
        asked = tuple(
            Asked(
                _inner(chain, lookup, rows, ties),
                tuple(column(one) for one, _ in ties.equal),
                None if ties.order is None else column(ties.order[2]),
            )
            for lookup, ties in pattern.asked
        )
        names = [*(lookup.result for lookup, _ in pattern.asked), *(lookup.result for lookup in pattern.scalars)]
        row: dict[str, Expr] = {name: Col(len(free) + i) for i, name in enumerate(names) if name is not None}
        row.update({name: Col(i) for name, i in read.items()})
        return NestedRule(
            head,
            head,
            Input(step.parts[0].relation, ()),
            step.where,
            (),
            None,
            None,
            scalars,
            "each",
            None,
            False,
            pattern.op,
            translator.comparison(pattern.comparison, row),
            shows,
            group,
            aggregates,
            layout,
            False,
            chain.clause.rule.text,
            free=tuple(free),
            asked=asked,
            reason=pattern.reason,
        )


def _single(pattern: Pattern, equal: Sequence[Expr], group: Iterable[Expr]) -> bool:
    """Whether all rows of one index are in one group."""
    fixed = set() if pattern.method == "answer" else {e.index for e in equal if isinstance(e, Col)}
    return all(set(columns(e)) <= fixed or (pattern.method != "answer" and e in equal) for e in group)


def at_home(rule: PlanRule, partition: Sequence[int]) -> bool:
    """Whether a rule can make its head where these columns of the head say: they must be columns of the equality."""
    if not isinstance(rule, NestedRule):
        return True
    group = [rule.group[k] if (k := rule.layout[c]) < len(rule.group) else None for c in partition]
    return all(entry is not None and entry in spread(rule) for entry in group)


def spread(rule: NestedRule) -> dict[Expr, int]:
    """The outer columns by which the rows of a rule may be told apart on partitions, with the inner ones."""
    if rule.inner is None:
        return {}
    pairs = zip(rule.equal, rule.inner.equal, strict=True)
    return {one: other.index for one, other in pairs if isinstance(one, Col) and isinstance(other, Col)}


def _inner(chain: Chain, lookup: Lookup, rows: Rows, ties: Ties | None = None) -> Inner:
    """An aggregate over the rows of one relation."""
    part, late = rows(chain, lookup, None)
    translator = Translator(chain.builder.program, late.definitions, chain.builder.functions)
    row: dict[str, Expr] = {name: Col(i) for i, name in enumerate(part.variables)}
    own = [f for f in late.filters if late.roots(f, row) <= row.keys()]
    value, kind = None, "any"
    if lookup.function != "count" and lookup.target is not None:
        value = translator.expression(lookup.target, row)
        kind = translator.type(lookup.target, dict(zip(part.variables, part.types, strict=True)))
    equal: tuple[Expr, ...] = ()
    order = None
    if ties is not None:
        equal = tuple(translator.expression(other, row) for _, other in ties.equal)
        if ties.order is not None:
            q, op, _ = ties.order
            order = (op, translator.expression(q, row))
    where = tuple(translator.comparison(f, row) for f in own)
    return Inner(Input(part.relation, ()), where, lookup.function, value, lookup.type, kind, equal, order)
