"""Give every body aggregate a name of its own, and its local variables too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from datalog.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Expression,
    HeadAggregate,
    Literal,
    Negation,
    Rule,
    Variable,
)
from datalog.walking import rewrite
from operators.monoids import named, parameter_of
from planner.draft import Clause, Draft
from planner.rewrite import Fresh, substitute

__all__ = ["name_aggregates"]

LISTS = ("collect", "top", "bottom")


def name_aggregates(draft: Draft) -> Draft:
    """Aggregates leave the expressions they stand in, and variables that are local to one are renamed apart.

    Afterwards an aggregate stands only as one side of `variable = aggregate`, a name means one variable throughout
    the rule, `mean` is called `avg`, and the name of an aggregate holds its parameter: `quantile(0.9)`.

    >>> from planner.show import before_and_after
    >>> before_and_after(name_aggregates, "r(x) :- a(x), x < 2 * sum y : { b(x, y) }.")
    r(x) :- a(x), x < 2 * sum y : { b(x, y) }.
    r(x) :- a(x), sum'1 = sum y'2 : { b(x, y'2) }, x < 2 * sum'1.
    """
    clauses = tuple([_clause(c) for c in draft.clauses])
    if draft.program.longest is not None:
        clauses = tuple(replace(c, rule=rewrite(c.rule, _sizing(draft.program.longest))) for c in clauses)
    return replace(draft, clauses=clauses)


def _sizing(longest: int) -> Callable[[Any], Any]:
    """A function of nodes that tells the aggregates that make lists how long these may be."""

    def sized(node: Any) -> Any:
        if isinstance(node, (Aggregate, HeadAggregate)):
            function, parameter = parameter_of(node.function)
            if function in LISTS:
                sizes = str(longest) if parameter is None else f"{parameter}, {longest}"
                return replace(node, function=f"{function}({sizes})")
        return node

    return sized


def _clause(clause: Clause) -> Clause:
    rule = _rule(clause.rule)
    return clause if rule is clause.rule else replace(clause, rule=rule)


def _rule(rule: Rule) -> Rule:
    parts = (rule.head, *rule.body)
    if rule.flat or all(isinstance(a, (Variable, Constant)) for part in parts for a in _sides(part)):
        return rule
    fresh = Fresh()
    scope = frozenset(_names_outside(rule.body))
    found: list[Literal] = []
    arguments = tuple(_lift(a, scope, fresh, found) for a in rule.head.arguments)
    body = (*_body(rule.body, scope, fresh), *found)
    return replace(rule, head=replace(rule.head, arguments=arguments), body=body)


def _sides(part: Literal) -> tuple[Any, ...]:
    """What stands in a head or a literal."""
    if isinstance(part, Comparison):
        return (part.left, part.right)
    return (part.atom if isinstance(part, Negation) else part).arguments


def _body(body: Iterable[Literal], scope: frozenset[str], fresh: Fresh) -> tuple[Literal, ...]:
    result: list[Literal] = []
    for literal in body:
        if isinstance(literal, Atom):
            result.append(replace(literal, arguments=tuple(_lift(a, scope, fresh, result) for a in literal.arguments)))
        elif isinstance(literal, Negation):
            arguments = tuple(_lift(a, scope, fresh, result) for a in literal.atom.arguments)
            result.append(replace(literal, atom=replace(literal.atom, arguments=arguments)))
        elif literal.op == "=" and isinstance(literal.left, Variable) and isinstance(literal.right, Aggregate):
            result.append(replace(literal, right=_open(literal.right, scope, fresh)))
        elif literal.op == "=" and isinstance(literal.right, Variable) and isinstance(literal.left, Aggregate):
            result.append(replace(literal, left=literal.right, right=_open(literal.left, scope, fresh)))
        else:
            left, right = _lift(literal.left, scope, fresh, result), _lift(literal.right, scope, fresh, result)
            result.append(replace(literal, left=left, right=right))
    return tuple(result)


def _lift(node: Any, scope: frozenset[str], fresh: Fresh, into: list[Literal]) -> Any:
    """The expression with each aggregate replaced by a fresh variable, whose equation goes to `into`."""
    if isinstance(node, Aggregate):
        name = Variable(fresh(node.function), node.span)
        into.append(Comparison("=", name, _open(node, scope, fresh), node.span))
        return name
    if isinstance(node, Call):
        return replace(node, arguments=tuple(_lift(a, scope, fresh, into) for a in node.arguments))
    if isinstance(node, HeadAggregate):
        target = None if node.target is None else _lift(node.target, scope, fresh, into)
        return replace(node, target=target, function=_spelling(node), parameter=None)
    return node


def _open(node: Aggregate, scope: frozenset[str], fresh: Fresh) -> Aggregate:
    """The aggregate with its own variables renamed, and the same done to the aggregates inside it."""
    names = dict.fromkeys([*_names_outside(node.body), *_names_of(node.target)])
    local: dict[str, Expression] = {n: Variable(fresh(n)) for n in names if n not in scope and not n.startswith("_#")}
    node = substitute(node, local)
    scope = scope | frozenset(_names_outside(node.body)) | frozenset(_names_of(node.target))
    lifted: list[Literal] = []
    body = _body(node.body, scope, fresh)
    target = None if node.target is None else _lift(node.target, scope, fresh, lifted)
    return replace(node, function=_spelling(node), target=target, body=(*body, *lifted), parameter=None)


def _spelling(node: Aggregate | HeadAggregate) -> str:
    """The name of an aggregate in plans, which holds its parameter."""
    value = node.parameter.value if isinstance(node.parameter, Constant) else None
    return named("avg" if node.function == "mean" else node.function, value)


def _names_outside(body: Iterable[Literal]) -> Iterator[str]:
    """The variables of a body that occur outside its aggregates."""
    for literal in body:
        if isinstance(literal, Comparison):
            yield from _names_of(literal.left)
            yield from _names_of(literal.right)
        else:
            for argument in (literal.atom if isinstance(literal, Negation) else literal).arguments:
                yield from _names_of(argument)


def _names_of(node: Any) -> Iterator[str]:
    if isinstance(node, Variable):
        yield node.name
    elif isinstance(node, Call):
        for argument in node.arguments:
            yield from _names_of(argument)
