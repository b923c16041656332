"""The first phase of the checker: what every name means.

Constants take their values, type aliases disappear, and every relation, function and aggregate that is used
is looked up: does it exist, and does it take so many arguments?
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from datalog.aggregates import RESERVED, check_aggregate, signature
from datalog.ast import (
    Aggregate,
    Call,
    Column,
    Comparison,
    Constant,
    HeadAggregate,
    Program,
    Relation,
    Rule,
    Variable,
    expressions,
    replace,
)
from datalog.errors import Note, UsageProblem
from datalog.functions import Function
from datalog.pieces import fold_list
from datalog.points import CLOCKS, clocks_of
from datalog.report import Report, listed, suggestion
from datalog.souffle import CONDITIONS, SECTION
from datalog.souffle import FUNCTIONS as SOUFFLE_FUNCTIONS
from datalog.values import brief, value_of
from datalog.walking import atoms, rewrite

__all__ = ["FORMS", "TYPES", "check_calls", "check_relations", "resolve_constants", "resolve_types"]

TYPES = ("number", "unsigned", "float", "symbol", "list")
FORMS = ("streamed", "complete")
_OTHER_NAMES = {
    "string": "symbol", "str": "symbol", "text": "symbol", "varchar": "symbol", "int": "number", "integer": "number",
    "bigint": "number", "long": "number", "uint": "unsigned", "double": "float", "real": "float", "tuple": "list",
    "array": "list",
}


# --- constants and types -------------------------------------------------------------------------------------


def resolve_constants(program: Program, given: Mapping[str, Any]) -> Program:
    """The program with the names of constants replaced by their values; `given` ones win over `.const`.

    Raises `UsageProblem` for a given constant that no rule and no `.const` knows: that is a slip of the pen.
    """
    values = dict(program.constants)
    used = {e.name for rule in program.rules for e in expressions(rule) if isinstance(e, Variable)} if given else set()
    for name, value in given.items():
        if name not in used and name not in values:
            raise UsageProblem(f"no constant `{name}` in {program.source.name}{suggestion(name, {*values, *used})}")
        if program.checked and name not in used and values[name] != value:
            raise UsageProblem(f"the program is checked already: `{name}` can no longer be set to {value!r}")
        try:
            values[name] = value_of(value, f"the constant `{name}`", longest=sys.maxsize)
        except OverflowError:
            raise UsageProblem(f"the constant `{name}` cannot be {brief(value)}: it does not fit in 64 bits") from None
        except ValueError:
            raise UsageProblem(
                f"the constant `{name}` cannot be {brief(value)}: it must be a number, a string of valid Unicode or a "
                "list"
            ) from None

    def change(node: Any) -> Any:
        if isinstance(node, Variable) and node.name in values:
            return Constant(values[node.name], node.span)
        if isinstance(node, Call) and node.function == "list":
            return fold_list(node)
        if isinstance(node, (Aggregate, HeadAggregate)) and node.function == "mean":
            return replace(node, function="avg")
        return node

    # in a flat rule there is nothing but the names of constants to replace
    rules = tuple([rule if not values and rule.flat else rewrite(rule, change) for rule in program.rules])
    return replace(program, rules=rules, constants=values)


def resolve_types(program: Program, report: Report) -> Program:
    """The program with type aliases in declarations replaced by what they stand for."""

    def resolve(name: str, seen: tuple[str, ...] = ()) -> str | None:
        if name in TYPES:
            return name
        if name in seen or name not in program.aliases:
            return None
        return resolve(program.aliases[name], (*seen, name))

    for name, type_ in program.aliases.items():
        if name in TYPES:
            report.add(f"`{name}` is a type of the language and cannot be defined again", program.alias_spans[name])
        elif resolve(name) is None and (type_ not in program.aliases or _circular(name, program.aliases)):
            circular = type_ in program.aliases
            message = f"the type `{name}` is defined by itself" if circular else _unknown_type(type_, program)
            report.add(message, program.alias_spans[name])
    relations: dict[str, Relation] = {}
    for relation in program.relations.values():
        if not relation.declared:
            continue  # of an earlier check: inferred again
        columns: list[Column] = []
        for column in relation.columns:
            type_or_none = resolve(column.type)
            if type_or_none is None and column.type not in program.aliases:
                report.add(_unknown_type(column.type, program), column.span, Note(f"the types are {listed(TYPES)}"))
            known = type_or_none or "any"
            columns.append(replace(column, type=known, numeric=known in TYPES[:3]))
        relations[relation.name] = replace(relation, columns=tuple(columns))
    return replace(program, relations=relations)


def _circular(name: str, aliases: Mapping[str, str]) -> bool:
    target = aliases[name]
    for _ in aliases:
        if target == name:
            return True
        target = aliases.get(target, "")
    return False


def _unknown_type(name: str, program: Program) -> str:
    meant = _OTHER_NAMES.get(name.lower())
    near = f": did you mean `{meant}`?" if meant else suggestion(name, {*TYPES, *program.aliases})
    return f"unknown type `{name}`{near}"


# --- relations -----------------------------------------------------------------------------------------------


def check_relations(program: Program, functions: Mapping[str, Function], report: Report) -> bool:
    """Whether every relation exists and is used with one arity; whether its qualifiers suit it.

    Tells whether the program reads anything with times or at points, which `datalog.reads` takes apart.
    """
    heads = {rule.head.relation for rule in program.rules}
    declared = {name for name, relation in program.relations.items() if relation.declared}
    every = [atom for rule in program.rules for atom in atoms(rule)]
    used = {atom.relation for atom in every}
    directed = {directive.relation for directive in program.directives}
    suffixed = [atom for atom in every if atom.time is not None or atom.sync is not None]
    points = {atom.sync.name for atom in suffixed if atom.sync is not None}
    # Without declarations a relation that only bodies mention is a base relation that updates will fill.
    known = declared | heads | directed | (set() if declared else used)
    times = frozenset[str]() if used.isdisjoint(CLOCKS) else clocks_of(program)
    known |= times
    for name in sorted({*heads, *declared} & RESERVED):
        place = program.relations[name].span if name in declared else next(
            r.head.span for r in program.rules if r.head.relation == name)
        report.add(f"`{name}` is the name of an aggregate; a relation cannot have it", place)
    for directive in program.directives:
        if directive.relation in CLOCKS and directive.relation in clocks_of(program):
            report.add(f"`{directive.relation}` is the time itself, and there is no .{directive.kind} of it",
                       directive.span, Note(f"a view of it can have one: time(t) :- {directive.relation}(t)."))
        elif directive.relation not in declared | used | points:
            report.add(f"unknown relation `{directive.relation}` in .{directive.kind}"
                       + suggestion(directive.relation, declared | used), directive.span)
    arities: dict[str, tuple[int, Any, str]] = {
        name: (relation.arity, relation.span, "it is declared here")
        for name, relation in program.relations.items() if relation.declared
    }
    arities.update({name: (1, None, f"it is the time: {name}(t)") for name in times})
    sound: set[tuple[str, int]] = set()
    for atom in every:
        name, count = atom.relation, len(atom.arguments)
        if (name, count) in sound:
            continue
        if name in functions and name not in declared | heads | directed:
            report.add(f"`{name}` is a function, not a relation: compare its result with something", atom.span)
        elif name not in known and name in CONDITIONS and count == 2:
            report.add(CONDITIONS[name], atom.span, Note(SECTION))
        elif name not in known:
            report.add(f"unknown relation `{name}`{suggestion(name, known)}", atom.span,
                       Note(f"no .decl, rule, fact or directive mentions `{name}`"))
        else:
            arity, span, what = arities.setdefault(name, (count, atom.span, "it is used like this here"))
            if arity != count:
                report.add(f"`{name}` has {_columns(arity)}, but {count} {'is' if count == 1 else 'are'} given",
                           atom.span, Note(what, span))
            else:
                sound.add((name, count))
    _check_qualifiers(program, report)
    return bool(suffixed or times or any([relation.stream for relation in program.relations.values()]))


def _columns(count: int) -> str:
    return f"{count or 'no'} column{'' if count == 1 else 's'}"


def _check_qualifiers(program: Program, report: Report) -> None:
    for name in sorted(program.derived & set(program.relations)):
        relation = program.relations[name]
        kind = "stream" if relation.stream else "ttl" if relation.ttl is not None else "bag" if relation.bag else ""
        if kind and relation.declared:
            rule = next(r for r in program.rules if r.body and r.head.relation == name)
            report.add(f"`{kind}` is for relations that facts fill, but `{name}` is defined by rules", relation.span,
                       Note("it is defined here", rule.head.span))
    for directive in program.directives_of("output"):
        form = directive.parameters.get("form", "streamed")
        if form not in FORMS:
            report.add(f".output has no form `{form}`{suggestion(str(form), FORMS)}", directive.span,
                       Note("a view is shown `streamed`, as changes, or `complete`, all of it at each of its points"))
    for directive in program.directives_of("limitsize"):
        size = directive.parameters.get("n")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            report.add(".limitsize needs a size: .limitsize r(n=100)", directive.span)


# --- functions and aggregates --------------------------------------------------------------------------------


def check_calls(
    program: Program, functions: Mapping[str, Function], aggregates: Mapping[str, Any], report: Report
) -> None:
    """Whether every function and aggregate exists, takes so many arguments, and may stand where it does."""
    for rule in program.rules:
        if rule.flat:
            continue
        for node in (*expressions(rule), *rule.aggregates):
            if isinstance(node, Call):
                _check_call(node, functions, aggregates, report)
            elif isinstance(node, (Aggregate, HeadAggregate)):
                check_aggregate(node, aggregates, report)
        _check_places(rule, report)


def _check_call(
    call: Call, functions: Mapping[str, Function], aggregates: Mapping[str, Any], report: Report
) -> None:
    function = functions.get(call.function)
    count = len(call.arguments)
    if function is None:
        name = call.function
        aggregate = signature(name, aggregates)
        if aggregate is not None:
            in_head, in_body = aggregate.uses
            report.add(f"`{name}` is an aggregate: write {in_body} in a body, {in_head} in a head", call.span)
        elif name in SOUFFLE_FUNCTIONS:
            report.add(SOUFFLE_FUNCTIONS[name], call.span, Note(SECTION))
        else:
            known = sorted(f for f in functions if f.isidentifier() and f not in ("neg", "list"))
            report.add(f"unknown function `{name}`{suggestion(name, known)}", call.span,
                       Note(f"the functions are {listed(known)}"))
    elif not function.accepts(count):
        least, most = function.least, function.most
        wanted = f"{least}" if least == most else f"at least {least}" if most is None else f"{least} to {most}"
        plural = "" if wanted.endswith(" 1") or wanted == "1" else "s"
        given = f"{count} {'is' if count == 1 else 'are'} given"
        report.add(f"`{call.function}` takes {wanted} argument{plural}, but {given}", call.span,
                   Note(f"it is used as {function.usage}"))


def _check_places(rule: Rule, report: Report) -> None:
    """Body aggregates belong in the comparisons of a body, so that their value has a name or a test."""

    def refuse(node: Any, where: str) -> None:
        for expression in expressions(node):
            if isinstance(expression, Aggregate):
                report.add(f"an aggregate cannot stand in {where}", expression.span,
                           Note(f"give its value a name in the body: v = {expression.function} ..., and use v"))

    refuse(rule.head, "a head" if rule.body else "a fact")
    literals = list(rule.body)
    while literals:
        literal = literals.pop()
        if isinstance(literal, Comparison):
            for expression in expressions(literal):
                if isinstance(expression, Aggregate):
                    if expression.target is not None:
                        refuse(expression.target, "what another aggregate ranges over")
                    literals += [inner for inner in expression.body if not isinstance(inner, Comparison)]
        else:
            refuse(literal, "the arguments of a relation")


