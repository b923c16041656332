"""Let groups that their only reader would throw away have no tuples at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from datalog.families import family_of_type, family_of_value
from operators.expr import Apply, Col, Expr, columns, shifted
from planner.draft import Draft
from planner.passes.stratify import inputs_of
from planner.plan import GroupRule, JoinRule, MapRule, PlanRule, RelationPlan

__all__ = ["filter_groups"]


def filter_groups(draft: Draft) -> Draft:
    """Move conditions on the columns of an auxiliary of groups from the rule that reads it to the one that makes it.

    One input of one rule must be all that reads it: others might want the groups that do not pass. Groups that no row
    is joined with are compared then, too, so what might fail stays where it is.

    >>> from planner.show import before_and_after
    >>> before_and_after(filter_groups, '''.decl order(o: number, c: symbol)
    ... .decl line(o: number, x: number)
    ... q(o, c, sum<x>) :- order(o, c), line(o, x), v = sum y : { line(o, y) }, v > 9.''')
    q/1.groups :- line
    q :- order, q/1.groups
    q/1.groups :- line having v > 9
    q :- order, q/1.groups
    """
    if not any(isinstance(rule, GroupRule) for rule in draft.rules):
        return draft
    heads = Counter(rule.head for rule in draft.rules)
    readers: dict[str, list[str]] = {}
    for rule in draft.rules:
        for source in inputs_of(rule):
            readers.setdefault(source.relation, []).append(rule.id)
    rules: dict[str, PlanRule] = {rule.id: rule for rule in draft.rules}
    for name in [rule.id for rule in draft.rules]:
        made = rules[name]  # as it is by now: what reads groups may be groups that are read
        relation = draft.relations[made.head]
        by = readers.get(relation.name, [])
        if isinstance(made, GroupRule) and _is_hidden(relation) and heads[relation.name] == len(by) == 1:
            reader = rules[by[0]]
            if isinstance(reader, (MapRule, JoinRule, GroupRule)):
                start = _start(reader, relation, draft)
                having = [w for w in reader.where if _is_about(w, start, relation.types)]
                rules[reader.id] = replace(reader, where=tuple(w for w in reader.where if w not in having))
                rules[name] = replace(made, having=tuple(shifted(w, -start) for w in having))
    return replace(draft, rules=tuple(rules.values()))


def _is_hidden(relation: RelationPlan) -> bool:
    """Whether nobody but rules sees the tuples, and sees them all."""
    return relation.kind == "auxiliary" and relation.layer is None and relation.tolerance is None


def _start(reader: PlanRule, relation: RelationPlan, draft: Draft) -> int:
    """Where the columns of an input begin in the row of its reader."""
    names = [source.relation for source in inputs_of(reader)]
    return sum(draft.relations[name].arity for name in names[: names.index(relation.name)])


def _is_about(condition: Expr, start: int, types: Sequence[str]) -> bool:
    """Whether a condition compares columns of these types, the first of which is at `start`, and cannot fail.

    >>> from operator import gt
    >>> [_is_about(Apply(">", gt, (Col(2), other), ">"), 2, ("number", "symbol")) for other in (Col(0), Col(2), Col(3))]
    [False, True, False]
    """
    read = list(columns(condition))
    if not read or not all(0 <= c - start < len(types) for c in read):
        return False
    assert isinstance(condition, Apply)
    if any(isinstance(side, Apply) for side in condition.arguments):
        return False
    if condition.inline in ("==", "!="):
        return True
    # lists may have anything in them, and what may be anything may be a symbol here and a number there
    families = {
        family_of_type(types[side.index - start]) if isinstance(side, Col) else family_of_value(side.value)
        for side in condition.arguments
        if not isinstance(side, Apply)
    }
    return condition.inline in ("<", "<=", ">", ">=") and families in ({"number"}, {"symbol"})
