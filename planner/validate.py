"""Is a plan one that can be run? What the engine takes for granted, checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from operators.expr import Col, Expr, columns
from planner.passes.stratify import inputs_of
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
    Plan,
    PlanRule,
    RelationPlan,
    StampRule,
    Stratum,
    SyncRule,
    WindowRule,
)

__all__ = ["check", "problems"]


def check(plan: Plan) -> Plan:
    """The plan itself; AssertionError, with all that is wrong, if the planner broke a promise."""
    found = list(problems(plan))
    assert not found, "the planner made a plan that cannot be run:\n  " + "\n  ".join(found)
    return plan


def problems(plan: Plan) -> Iterator[str]:
    """What is wrong with a plan, a sentence each.

    >>> list(problems(Plan({}, (), ("r",), {}, {})))
    ['output r is not a relation']
    """
    for name in plan.outputs:
        if name not in plan.relations:
            yield f"output {name} is not a relation"
    for name, rows in plan.facts.items():
        if name not in plan.relations or plan.relations[name].kind != "base":
            yield f"facts of {name}, which is not a base relation"
        elif any(len(row) != plan.relations[name].arity - plan.relations[name].stream for row in rows):
            yield f"a fact of {name} has the wrong number of columns"
    yield from _relations(plan)
    yield from _strata(plan)
    for stratum in plan.strata:
        for rule in stratum.rules:
            for problem in _rule(plan, rule):
                yield f"{rule.id}: {problem}"


def _relations(plan: Plan) -> Iterator[str]:
    for name, relation in plan.relations.items():
        if relation.name != name or len(relation.types) != relation.arity:
            yield f"{name} does not describe itself"
        if not _within((*relation.partition, *relation.key), relation.arity):
            yield f"{name}: partition or key columns out of range"
        if relation.kind != "view" and relation.key and not set(relation.partition) <= set(relation.key):
            yield f"{name}: one key may be on several partitions"
        if relation.selection and not set(relation.partition) <= set(relation.selection.group):
            yield f"{name}: a group of the aggregate selection may be on several partitions"
        selection = relation.selection
        if selection and not _within((*selection.group, *(c for c, _ in selection.values)), relation.arity):
            yield f"{name}: selection columns out of range"
        yield from _timed(plan, relation)


def _timed(plan: Plan, relation: RelationPlan) -> Iterator[str]:
    """What is wrong with a relation that has times."""
    name = relation.name
    if relation.stamped:
        stamped = plan.relations.get(relation.stamped)
        if relation.kind != "base" or stamped is None or stamped.kind != "kept":
            yield f"{name}: its times are kept by {relation.stamped}"
        elif stamped.arity != relation.arity + 1 or stamped.partition != relation.partition:
            yield f"{name} and its times, {relation.stamped}, do not go together"
    if relation.stream and (not relation.bag or not relation.weighted or relation.kind != "base"):
        yield f"{name}: a stream is a bag"
    if any(not leaving.leaves for leaving in relation.until):
        yield f"{name}: a window that nothing leaves cannot tell what to forget"
    bounds = [bound.time for leaving in relation.until for bound in leaving.leaves]
    if not _within((c for time in bounds for c in columns(time)), relation.arity):
        yield f"{name}: a bound reads a column that is not there"


def _strata(plan: Plan) -> Iterator[str]:
    done = {name for name, r in plan.relations.items() if r.kind == "base"}
    done |= {r.stamped for r in plan.relations.values() if r.stamped}  # operations write it
    ids: set[str] = set()
    for i, stratum in enumerate(plan.strata):
        if stratum.index != i:
            yield f"stratum {stratum.index} stands at {i}"
        if again := done & set(stratum.relations):
            yield f"{sorted(again)} defined twice"
        yield from _stratum(plan, stratum, done)
        done |= set(stratum.relations)
        for rule in stratum.rules:
            if rule.id in ids:
                yield f"two rules are called {rule.id}"
            ids.add(rule.id)
    for name in plan.relations.keys() - done:
        yield f"nothing defines {name}"


def _stratum(plan: Plan, stratum: Stratum, done: set[str]) -> Iterator[str]:
    members = set(stratum.relations)
    read = {source.relation for rule in stratum.rules for source in inputs_of(rule)}
    where = f"stratum {stratum.index}"
    if read - members != set(stratum.inputs):
        yield f"{where}: its inputs are {sorted(read - members)}"
    if late := read - members - done:
        yield f"{where} reads {sorted(late)}, which come later"
    if {rule.head for rule in stratum.rules} != members:
        yield f"{where}: rules and relations do not match"
    recursive = bool(read & members)
    kept = any(isinstance(rule, (SyncRule, StampRule)) for rule in stratum.rules)
    if kept and (len(stratum.rules) > 1 or any(plan.relations[m].kind != "kept" for m in members)):
        yield f"{where}: what is kept has one rule"
    if kept != (stratum.method == "kept"):
        yield f"{where}: the method does not fit"
    if recursive != (stratum.method == "absorption") or (not recursive and len(members) > 1):
        yield f"{where}: the method does not fit"
    if recursive:
        if any(plan.relations[m].weighted for m in members & plan.relations.keys()):
            yield f"{where}: weights in a recursive component"
        for rule in stratum.rules:
            if isinstance(rule, (GroupRule, LineageRule, NestedRule)):
                yield f"{where}: groups in a recursive component"
            if isinstance(rule, (WindowRule, ClockRule)):
                yield f"{where}: a window in a recursive component"
            if isinstance(rule, LookupRule) and rule.inner.relation in members:
                yield f"{where}: {rule.id} looks up what is not complete yet"


def _rule(plan: Plan, rule: PlanRule) -> Iterator[str]:
    sources = inputs_of(rule)
    if [name for name in (rule.head, *[s.relation for s in sources]) if name not in plan.relations]:
        yield "a relation is missing"
        return
    head = plan.relations[rule.head]
    width = 0
    for source in sources:
        arity = plan.relations[source.relation].arity
        width += arity
        if not _within(source.key if source.at == BROADCAST else (*source.key, *source.at), arity):
            yield f"key or placement of {source.relation} out of range"
    if isinstance(rule, NestedRule):
        width = plan.relations[rule.outer.relation].arity
    if isinstance(rule, LookupRule):
        width = len(rule.left.key) + plan.relations[rule.inner.relation].arity
    if not _within(_read(rule), width):
        yield "an expression reads a column that is not there"
    if isinstance(rule, (MapRule, JoinRule)) and len(rule.outputs) != head.arity:
        yield "the outputs are not the columns of the head"
    if isinstance(rule, MapRule):
        if rule.input.at != plan.relations[rule.input.relation].partition:
            yield "its input is not met at home"
    elif isinstance(rule, JoinRule):
        yield from _join(rule)
    elif isinstance(rule, GroupRule):
        yield from _group(rule, head)
    elif isinstance(rule, LineageRule):
        yield from _join(rule)
        yield from _lineage(rule, plan, head)
    elif isinstance(rule, NestedRule):
        yield from _nested(rule, plan, head)
    elif isinstance(rule, (SyncRule, StampRule, WindowRule)):
        yield from _copied(rule, plan, head)
    elif isinstance(rule, ClockRule):
        if head.arity != 1 or head.partition != ():
            yield "the clock is one number on one partition"
    else:
        yield from _lookup(rule, head.partition, head.arity)


def _read(rule: PlanRule) -> list[int]:
    """The columns that the expressions of a rule read."""
    found: list[int] = []
    for expr in _expressions(rule):
        if isinstance(expr, Col):
            found.append(expr.index)
        else:
            found += columns(expr)
    return found


def _expressions(rule: PlanRule) -> Iterator[Expr]:
    if isinstance(rule, WindowRule):
        yield from (bound.time for bound in (*rule.enters, *rule.leaves))
    if isinstance(rule, (SyncRule, StampRule, WindowRule, ClockRule)):
        return
    yield from rule.where
    if isinstance(rule, (MapRule, JoinRule)):
        yield from rule.outputs
    elif isinstance(rule, (GroupRule, LineageRule)):
        yield from rule.group
        yield from (e for _, e in rule.aggregates if e is not None)
    elif isinstance(rule, NestedRule):
        yield from (*rule.equal, *rule.group, *(e for _, e, _ in rule.aggregates if e is not None))
        yield from [*rule.free, *([] if rule.key is None else [rule.key])]
    elif rule.value is not None:
        yield rule.value


def _copied(rule: SyncRule | StampRule | WindowRule, plan: Plan, head: RelationPlan) -> Iterator[str]:
    """What is wrong with a rule of which the head has tuples of its input."""
    source = plan.relations[rule.input.relation]
    if not head.partition == source.partition == rule.input.at:
        yield "its tuples do not stay where they are"
    if head.arity != source.arity + isinstance(rule, StampRule):
        yield "the head has another number of columns"
    if head.weighted != (source.weighted and not isinstance(rule, StampRule)):
        yield "the head does not count as its input does"
    if head.kind != ("auxiliary" if isinstance(rule, WindowRule) else "kept"):
        yield f"the head is {head.kind}"
    if isinstance(rule, WindowRule) and not rule.enters + rule.leaves:
        yield "a window without bounds"
    if isinstance(rule, SyncRule):
        for event in rule.events:
            if event.at != BROADCAST or plan.relations[event.relation].arity != 1:
                yield f"{event.relation} does not tell points of time everywhere"


def _join(rule: JoinRule | LineageRule) -> Iterator[str]:
    if len(rule.left.key) != len(rule.right.key):
        yield "the keys have different lengths"
    elif not rule.left.key:
        if (rule.left.at == BROADCAST) == (rule.right.at == BROADCAST):
            yield "a product ships one side everywhere"
    elif not _together(rule.left, rule.right, len(rule.left.key)):
        yield "the two sides do not meet"


def _group(rule: GroupRule, head: RelationPlan) -> Iterator[str]:
    plain = {e.index for e in rule.group if isinstance(e, Col)}
    if rule.input.at == BROADCAST or not set(rule.input.at) <= plain:
        yield "a group may be on several partitions"
    if not _within((c for e in rule.having for c in columns(e)), head.arity):
        yield "a condition on groups reads a column that is not there"
    if rule.having and (head.kind != "auxiliary" or head.tolerance is not None):
        yield "groups that others than rules see have a condition"
    yield from _layout(rule, head)


def _lineage(rule: LineageRule, plan: Plan, head: RelationPlan) -> Iterator[str]:
    yield from _layout(rule, head)
    width = len(rule.left.key) + sum(len(partial.kept) for partial in rule.partials)
    if not _within((c for e in (*rule.filters, *rule.outputs) for c in columns(e)), width):
        yield "a contribution reads what is not kept"
    for source, partial in zip((rule.left, rule.right), rule.partials, strict=True):
        values = [factor.value for factor in partial.factors if factor.value is not None]
        read = (c for e in (*partial.where, *partial.kept, *values) for c in columns(e))
        if not _within(read, plan.relations[source.relation].arity):
            yield f"a partial sum reads a column that {source.relation} does not have"
    limits = [len(partial.factors) for partial in rule.partials]
    terms = [term for sums in rule.sums if sums is not None for entry in sums for term in entry]
    if any(not (left < limits[0] and right < limits[1]) for _, left, right in terms):
        yield "a sum is made of a factor that is not kept"


def _nested(rule: NestedRule, plan: Plan, head: RelationPlan) -> Iterator[str]:
    made = len(rule.group) + len(rule.aggregates)
    if sorted(rule.layout) != list(range(made)):
        yield "the layout does not fill the head"
        return
    if head.arity != made:
        yield "the head has another number of columns"
    home = [rule.group[k] if (k := rule.layout[c]) < len(rule.group) else None for c in head.partition]
    at = [Col(c) for c in rule.outer.at if isinstance(c, int)]
    if at != home:
        yield "the head is not at home where it is made"
    if rule.inner is not None:
        pairs = list(zip(rule.equal, rule.inner.equal, strict=True))
        inner_at = [Col(c) for c in rule.inner.input.at if isinstance(c, int)]
        if len(inner_at) != len(at) or any(pair not in pairs for pair in zip(at, inner_at, strict=False)):
            yield "outer and inner rows do not meet"
    for inner in rule.inners:
        ordered = [] if inner.order is None else [inner.order[1]]
        valued = [] if inner.value is None else [inner.value]
        read = (c for e in (*inner.where, *inner.equal, *ordered, *valued) for c in columns(e))
        if not _within(read, plan.relations[inner.input.relation].arity):
            yield f"an aggregate reads a column that {inner.input.relation} does not have"
    others = (*rule.scalars, *(asked.inner for asked in rule.asked))
    if any(other.input.at != (BROADCAST if rule.outer.at else ()) for other in others):
        yield "an aggregate is not where the rows are"


def _layout(rule: GroupRule | LineageRule, head: RelationPlan) -> Iterator[str]:
    if sorted(rule.layout) != list(range(len(rule.group) + len(rule.aggregates))) or len(rule.layout) != head.arity:
        yield "the layout does not fill the head"
    elif any(rule.layout[c] >= len(rule.group) for c in head.partition):
        yield "the head is partitioned by a result"


def _lookup(rule: LookupRule, partition: tuple[int, ...], arity: int) -> Iterator[str]:
    matched = len(rule.inner.key)
    if len(rule.left.key) < matched:
        yield "the inner key is longer than the key"
        return
    if arity != len(rule.left.key) + (rule.function != "absent"):
        yield "the head is not key and value"
    home = tuple(rule.left.key[i] for i in partition if i < len(rule.left.key))
    if rule.left.at != home:
        yield "the answers are not at home where they are made"
    left = Input(rule.left.relation, rule.left.at, rule.left.key[:matched])
    everywhere = rule.inner.at == BROADCAST
    if not everywhere and (rule.left.at or rule.inner.at) and not _together(left, rule.inner, matched):
        yield "keys and inner rows do not meet"


def _together(left: Input, right: Input, length: int) -> bool:
    """Whether two sides are hashed on corresponding columns of their keys."""
    if left.at == BROADCAST or right.at == BROADCAST:
        return True
    pairs = set(zip(left.key[:length], right.key[:length], strict=True))
    return len(left.at) == len(right.at) and pairs.issuperset(zip(left.at, right.at, strict=True))


def _within(indexes: Iterable[int], limit: int) -> bool:
    found = indexes if isinstance(indexes, (tuple, list)) else list(indexes)
    return not found or (min(found) >= 0 and max(found) < limit)
