"""Turn rules into plan rules with at most two inputs."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from datalog.ast import Expression, HeadAggregate, Variable, variables
from operators.expr import Apply, Col, Expr
from operators.monoids import factory
from planner.build import Builder
from planner.chain import Chain, Step
from planner.draft import Clause, Draft, components
from planner.lineage import Split
from planner.nest import at_home
from planner.nested import take
from planner.plan import GroupRule, Input, LineageRule, MapRule, NestedRule
from planner.solve import inner_rows, last_step
from planner.translate import as_float

__all__ = ["binarise"]


def binarise(draft: Draft) -> Draft:
    """Join every body two at a time, over auxiliary relations, down to a last step that makes the head.

    >>> from planner.show import before_and_after
    >>> before_and_after(binarise, "r(x, w) :- a(x, y), b(y, z), c(z, w), x < w.")
    r(x, w) :- a(x, y), b(y, z), c(z, w), x < w.
    r/1.1 :- a, b
    r :- r/1.1, c
    """
    builder = Builder(draft)
    recursive = components(draft.program)
    for clause in draft.clauses:
        component = recursive.get(clause.rule.head.relation, frozenset())
        if clause.rule.aggregates:
            _group(builder, clause, bool(component))
        else:
            _plain(builder, clause, component)
    return replace(
        draft,
        relations=builder.relations,
        rules=tuple(builder.rules),
        facts=builder.facts,
        sizes=builder.sizes,
        functions=builder.functions,
        aggregates=builder.aggregates,
        notes=tuple(builder.notes),
    )


def _plain(builder: Builder, clause: Clause, component: frozenset[str]) -> None:
    body, head = clause.normal, clause.rule.head
    chain = Chain(builder, clause, body, variables(head), component, False)
    step = last_step(chain)
    types = builder.kinds(head.relation)
    stored = chain.translator.stored
    outputs = tuple([stored(a, step.row, step.types, kind) for a, kind in zip(head.arguments, types, strict=True)])
    builder.add(step.rule(clause.id, head.relation, outputs, clause.rule.text))


def _group(builder: Builder, clause: Clause, recursive: bool) -> None:
    """A rule with head aggregates: groups over one part, or over the join of two of which only partial sums are kept.

    The groups of one part meet on the partition that a plain column of theirs picks, so where every group term is
    computed they become columns of an auxiliary.
    """
    head = clause.rule.head
    relation = builder.relations[head.relation]
    types = dict(enumerate(builder.kinds(relation.name)))
    names: dict[int, Expression] = {i: a for i, a in enumerate(head.arguments) if not isinstance(a, HeadAggregate)}
    body = clause.normal
    computed = {f"group'{i}": a for i, a in names.items() if not isinstance(a, Variable) or a.name in body.definitions}
    if computed and len(computed) == len(names):
        body = replace(body, definitions={**body.definitions, **computed})
        names = {i: Variable(f"group'{i}") for i in names}
    else:
        computed = {}

    wanted = [n for a in (*names.values(), *clause.rule.aggregates) for n in variables(a)]
    chain = Chain(builder, clause, body, wanted, frozenset(), True)
    nest = take(chain)
    step = last_step(chain)
    if nest is not None:
        step = step if len(step.parts) == 1 else chain.step(chain.materialise(step))
    elif computed and len(step.parts) == 1:
        step = chain.step(chain.materialise(step, {f"group'{i}": types[i] for i in names}))

    aggregates = tuple(
        (a.function, _argument(chain, step, a, types[i]))
        for i, a in enumerate(head.arguments)
        if isinstance(a, HeadAggregate)
    )
    group = tuple(chain.translator.stored(a, step.row, step.types, types[i]) for i, a in names.items())
    order = [*names, *(i for i in types if i not in names)]
    layout = tuple(order.index(i) for i in types)
    kinds = [types[i] for i in types if i not in names]
    result: GroupRule | LineageRule | NestedRule
    if nest is None:
        result = _grouped(builder, clause, step, group, aggregates, kinds, layout)
    else:
        result = nest.results(chain, step, inner_rows, group, aggregates, layout)
    casts = {i for i, t in types.items() if t == "float" and _is_int(head.arguments[i])}
    if recursive or casts or not set(relation.partition) <= names.keys() or not at_home(result, relation.partition):
        # groups are complete before the recursion starts, a count becomes a float on its way out, and a group
        # is made where its group columns say
        columns = dict(zip(relation.columns, relation.types, strict=True))
        auxiliary = builder.auxiliary(clause, relation.columns, columns, False)
        builder.add(replace(result, id=auxiliary, head=auxiliary))
        outputs = tuple(Apply("float", as_float, (Col(i),)) if i in casts else Col(i) for i in types)
        builder.add(MapRule(clause.id, relation.name, Input(auxiliary, ()), (), outputs, clause.rule.text))
    else:
        builder.add(result)


def _grouped(
    builder: Builder,
    clause: Clause,
    step: Step,
    group: tuple[Expr, ...],
    aggregates: tuple[tuple[str, Expr | None], ...],
    kinds: Sequence[str],
    layout: tuple[int, ...],
) -> GroupRule | LineageRule:
    """The rule that groups the rows of a step; `kinds` are the types of the aggregates' results."""
    width = len(step.parts[0].variables)
    types = [kind for part in step.parts for kind in part.types]
    split = Split(width, types, step.keys, len(step.parts) > 1)
    registered = {**builder.program.aggregates, **builder.aggregates}
    sums = tuple(
        split.sums(factory(function, registered, kind), argument)
        for (function, argument), kind in zip(aggregates, kinds, strict=True)
    )
    others = [e for (_, e), linear in zip(aggregates, sums, strict=True) if linear is None and e is not None]
    outputs = [*group, *others]
    filters = [condition for condition in step.where if not split.where(condition)]
    for expr in (*outputs, *filters):
        split.keep(expr)
    partials = split.partials()
    name, text = clause.rule.head.relation, clause.rule.text
    if len(step.parts) == 1:
        factors = partials[0].factors
        return GroupRule(clause.id, name, step.input(0), step.where, group, aggregates, layout, text, factors, sums)
    return LineageRule(
        clause.id,
        name,
        step.input(0),
        step.input(1),
        step.where,
        group,
        aggregates,
        layout,
        text,
        partials,
        tuple(map(split.placed, filters)),
        tuple(map(split.placed, outputs)),
        sums,
    )


def _argument(chain: Chain, step: Step, node: HeadAggregate, column: str) -> Expr | None:
    if node.target is None or node.function == "count":
        return None
    if node.function in ("min", "max", "sum"):
        return chain.translator.stored(node.target, step.row, step.types, column)
    return chain.translator.expression(node.target, step.row)


def _is_int(node: object) -> bool:
    """Whether the result of an aggregate may be an int where its argument is not already made a float."""
    if not isinstance(node, HeadAggregate) or node.function in ("min", "max", "sum", "avg"):
        return False
    return node.type != "float"
