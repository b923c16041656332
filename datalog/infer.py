"""The second half of type inference: which kind of number, and what every relation looks like in the end.

Kinds are ordered by promotion, `unsigned < number < (not known) < float`, and flow from bodies to heads until
nothing changes. Columns that are declared stay as declared, and are checked.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any

from datalog.aggregates import signature
from datalog.ast import (
    Aggregate,
    Atom,
    Call,
    Column,
    Comparison,
    Constant,
    HeadAggregate,
    Negation,
    Program,
    Relation,
    Rule,
    Variable,
    replace,
)
from datalog.errors import Note
from datalog.facts import describe, evaluate_fact, misfit
from datalog.families import Families, Scope, family_of_type, family_of_value
from datalog.format import format_expression
from datalog.functions import Function, in_range
from datalog.report import Report
from datalog.walking import atoms

__all__ = ["infer_types"]

# NONE: nothing known yet. LITERAL: a small non-negative integer of the text, at home in every kind.
NONE, LITERAL, UNSIGNED, NUMBER, UNKNOWN, FLOAT = range(6)
_RANKS = {"unsigned": UNSIGNED, "number": NUMBER, "float": FLOAT}
_NAMES = {LITERAL: "number", UNSIGNED: "unsigned", NUMBER: "number", FLOAT: "float"}


def infer_types(
    program: Program, functions: Mapping[str, Function], report: Report, definitions: tuple[Rule, ...] = ()
) -> Program:
    """The program with all relations it uses and the types of all calls and aggregates; reports type clashes.

    Facts come back evaluated: their arguments are constants of the type of their column. `definitions` are what the
    reads of the program rest on (see `datalog.reads`).
    """
    whole = replace(program, rules=(*program.rules, *definitions)) if definitions else program
    inference = _Inference(whole, functions, report, definitions)
    inference.settle()
    rules = [inference.typed(rule, scope) for rule, scope in zip(program.rules, inference.scopes, strict=False)]
    relations = inference.relations()
    inference.check_heads(report)
    wrong = {problem.span.line for problem in report.problems if problem.span}
    rules = [
        evaluate_fact(rule, relations[rule.head.relation], functions, report)
        if rule.is_fact and not (wrong and wrong & set(range(rule.span.line, rule.span.end_line + 1))) else rule
        for rule in rules
    ]
    return replace(program, rules=tuple(rules), relations=relations)


class _Inference:
    """The kinds of the numeric columns of one program, `ranks`, and what follows from them."""

    def __init__(
        self, program: Program, functions: Mapping[str, Function], report: Report, definitions: tuple[Rule, ...]
    ) -> None:
        self.program = program
        self.functions = functions
        self.families = Families(program, functions, report, definitions)
        self.scopes = self.families.scopes
        self.ranks: dict[tuple[str, int], int] = defaultdict(int)
        heads = {rule.head.relation for rule in program.rules}
        loaded = {d.relation for d in program.directives_of("input")}
        self.first: dict[str, Atom] = {}
        for rule in program.rules:
            for atom in atoms(rule):
                self.first.setdefault(atom.relation, atom)
        for name, atom in self.first.items():
            if name not in heads or name in loaded:
                self.ranks.update({(name, i): UNKNOWN for i in range(len(atom.arguments))})
        for relation in self.declared():
            for index, column in enumerate(relation.columns):
                self.ranks[relation.name, index] = _RANKS.get(column.type, UNKNOWN if column.numeric else NONE)
        for name in program.reads.keys() | program.clocks.keys():
            if name in program.relations:
                columns = program.relations[name].columns
                self.ranks.update({(name, i): _RANKS.get(c.type, UNKNOWN) for i, c in enumerate(columns) if c.numeric})

    def declared(self) -> list[Relation]:
        return [relation for relation in self.program.relations.values() if relation.declared]

    def settle(self) -> None:
        """Let the kinds of numbers flow from bodies to heads until nothing changes."""
        fixed = {relation.name for relation in self.declared()}
        readers: dict[str, list[int]] = defaultdict(list)
        for number, rule in enumerate(self.program.rules):
            for atom in atoms(rule)[1:]:
                readers[atom.relation].append(number)
        queue = deque(range(len(self.program.rules)))
        waiting = set(queue)
        while queue:
            number = queue.popleft()
            waiting.discard(number)
            rule, scope = self.program.rules[number], self.scopes[number]
            name = rule.head.relation
            if name in fixed:
                self.bind(rule.body, scope)
                continue  # nothing else can come of it
            if self.raised(rule, scope):
                fresh = [r for r in readers[name] if r not in waiting]
                queue.extend(fresh)
                waiting.update(fresh)

    def raised(self, rule: Rule, scope: Scope) -> bool:
        """Raise the kinds of a head's columns to those of its arguments; whether that changed any."""
        if rule.flat:
            return self.copied(rule)
        self.bind(rule.body, scope)
        changed = False
        for index, argument in enumerate(rule.head.arguments):
            place, rank = (rule.head.relation, index), self.rank(argument, scope)
            if rank > self.ranks[place]:
                self.ranks[place] = rank
                changed = True
        return changed

    def copied(self, rule: Rule) -> bool:
        """The same for a flat rule, of which nobody asks for the kinds of its variables."""
        ranks = self.ranks
        found: dict[str, int] = {}
        for atom in rule.body:
            relation = atom.relation  # type: ignore[union-attr]
            for index, argument in enumerate(atom.arguments):  # type: ignore[union-attr]
                if type(argument) is Variable:
                    rank = ranks[relation, index]
                    if rank > found.get(argument.name, NONE):
                        found[argument.name] = rank
        relation, changed = rule.head.relation, False
        for index, argument in enumerate(rule.head.arguments):
            rank = found.get(argument.name, NONE) if type(argument) is Variable else _kind_of(argument.value)
            if rank > ranks[relation, index]:
                ranks[relation, index] = rank
                changed = True
        return changed

    def bind(self, body: tuple[Any, ...], scope: Scope) -> None:
        """The kinds of the variables of a body: by the columns they stand in, else by the equation that binds them."""
        ranks = scope.ranks
        equations = []
        for literal in body:
            if isinstance(literal, Atom):
                for index, argument in enumerate(literal.arguments):
                    if isinstance(argument, Variable):
                        name = argument.name
                        if scope.parent is None or scope.owner(name) is scope:
                            rank = self.ranks[literal.relation, index]
                            if rank >= ranks.get(name, NONE):
                                ranks[name] = rank
            elif isinstance(literal, Comparison):
                equations.append(literal)
        if not equations:
            return
        fixed = {a.name for atom in body if isinstance(atom, Atom) for a in atom.arguments if isinstance(a, Variable)}
        for _ in range(len(equations) + 1):
            before = dict(scope.ranks)
            for equation in equations:
                for side, other in ((equation.left, equation.right), (equation.right, equation.left)):
                    rank = self.rank(other, scope)
                    if (isinstance(side, Variable) and equation.op == "=" and side.name not in fixed
                            and scope.owner(side.name) is scope):
                        scope.ranks[side.name] = max(scope.ranks.get(side.name, NONE), rank)
            if scope.ranks == before:
                break

    # --- expressions ---

    def rank(self, node: Any, scope: Scope) -> int:
        """The kind of number that an expression gives (without meaning for symbols and lists)."""
        if isinstance(node, Variable):
            return (scope if scope.parent is None else scope.owner(node.name)).ranks.get(node.name, NONE)
        if isinstance(node, Constant):
            return _kind_of(node.value)
        if isinstance(node, Call):
            ranks = [self.rank(argument, scope) for argument in node.arguments]
            function = self.functions.get(node.function)
            if function is None or not ranks:
                return UNKNOWN if function is None else _RANKS.get(function.result, UNKNOWN)
            if function.result not in ("numeric", "same"):
                return _RANKS.get(function.result, UNKNOWN)
            promoted = max(ranks)
            below = node.function == "neg" or (node.function == "-" and promoted == LITERAL)
            return max(promoted, NUMBER) if below and promoted else promoted
        if isinstance(node, Aggregate):
            inner = self.families.scope_of(node, scope)
            self.bind(node.body, inner)
            return self.aggregated(node, inner)
        return self.aggregated(node, scope)

    def aggregated(self, node: Aggregate | HeadAggregate, scope: Scope) -> int:
        target = NONE if node.target is None else self.rank(node.target, scope)
        known = signature(node.function, self.program.aggregates)
        if known is not None and known.gives in ("same", "numeric"):
            return NUMBER if target == LITERAL else target
        return UNKNOWN if known is None else _RANKS.get(known.gives, UNKNOWN)

    def family(self, node: Any, scope: Scope) -> str | None:
        if isinstance(node, Variable):
            return self.families.variable(scope, node.name)
        if isinstance(node, Constant):
            return family_of_value(node.value)
        if isinstance(node, Call):
            function = self.functions.get(node.function)
            if function is not None and function.result == "same":
                return next(filter(None, (self.family(a, scope) for a in node.arguments)), None)
            return family_of_type(function.result) if function else None
        known = signature(node.function, self.program.aggregates)
        if known is not None and known.gives == "same" and node.target is not None:
            inner = self.families.scope_of(node, scope) if isinstance(node, Aggregate) else scope
            return self.family(node.target, inner)
        return None if known is None else family_of_type(known.gives)

    def type_of(self, node: Any, scope: Scope) -> str:
        family = self.family(node, scope)
        return _NAMES.get(self.rank(node, scope), "any") if family == "number" else family or "any"

    # --- results ---

    def typed(self, node: Any, scope: Scope) -> Any:
        """The node with the types of its calls and aggregates filled in."""
        if isinstance(node, Rule):
            if node.flat:
                return node
            body = tuple(self.typed(literal, scope) for literal in node.body)
            return replace(node, head=self.typed(node.head, scope), body=body)
        if isinstance(node, Atom):
            return replace(node, arguments=tuple(self.typed(a, scope) for a in node.arguments))
        if isinstance(node, Negation):
            return replace(node, atom=self.typed(node.atom, scope))
        if isinstance(node, Comparison):
            return replace(node, left=self.typed(node.left, scope), right=self.typed(node.right, scope))
        if isinstance(node, Call):
            arguments = tuple(self.typed(a, scope) for a in node.arguments)
            return replace(node, arguments=arguments, type=self.type_of(node, scope))
        if isinstance(node, (Aggregate, HeadAggregate)):
            inner = self.families.scope_of(node, scope) if isinstance(node, Aggregate) else scope
            target = None if node.target is None else self.typed(node.target, inner)
            type_ = self.type_of(node, scope)
            if isinstance(node, HeadAggregate):
                return replace(node, target=target, type=type_)
            return replace(node, target=target, type=type_, body=tuple(self.typed(x, inner) for x in node.body))
        return node

    def relations(self) -> dict[str, Relation]:
        """Every relation: the declared ones as they are, the others as they were inferred, in order of use."""
        found = {relation.name: relation for relation in self.declared()}
        names = _column_names(self.program.rules)
        reads, clocks = self.program.reads, self.program.clocks
        for name, first in self.first.items():
            if name not in found and name not in reads and name not in clocks:
                columns = []
                for index in range(len(first.arguments)):
                    family = self.families.column(name, index)
                    type_ = _NAMES.get(self.ranks[name, index], "any") if family == "number" else family or "any"
                    columns.append(Column(names[name, len(first.arguments)][index], type_, numeric=family == "number"))
                found[name] = Relation(name, tuple(columns), declared=False, span=first.span)
        given = self.program.relations
        found.update({name: given[name] for name in clocks if name in given})
        for name, read in reads.items():
            columns = list(found[read.relation].columns)
            if read.kind == "time":
                columns.append(given[name].columns[-1])
            found[name] = replace(given[name], columns=tuple(columns))
        return found

    def check_heads(self, report: Report) -> None:
        """Report rules that put a float, or a constant out of range, into a declared column of integers."""
        for rule, scope in zip(self.program.rules, self.scopes, strict=True):
            relation = self.program.relations.get(rule.head.relation)
            if relation is None or not relation.declared or rule.is_fact:
                continue
            for argument, column in zip(rule.head.arguments, relation.columns, strict=False):
                problem = misfit(argument.value, column.type) if isinstance(argument, Constant) else None
                if problem and "is a " not in problem:  # another type is a clash, and reported as such
                    report.add(*describe(argument.value, problem, column, relation, argument.span))
                elif column.type in ("number", "unsigned") and self.type_of(argument, scope) == "float":
                    where = f"column `{column.name}` of `{relation.name}` is"
                    report.add(f"`{format_expression(argument)}` is a float, but {where} {column.type}", argument.span,
                               Note(f"{where} declared {column.type}", column.span))


def _kind_of(value: Any) -> int:
    """The kind of number that a constant is (without meaning for symbols and lists)."""
    if isinstance(value, float):
        return FLOAT
    small = isinstance(value, int) and in_range(value)
    return (LITERAL if value >= 0 else NUMBER) if small else UNSIGNED


def _column_names(rules: Sequence[Rule]) -> dict[tuple[str, int], tuple[str, ...]]:
    """Names for columns: the variables of the first atom, heads first, that has nothing but different variables.

    Where there is none, what the first head has in each place: a variable, or the name of an aggregate.

    By relation and arity, since this also runs on programs that use a relation in two ways.
    """
    every = [rule.head for rule in rules]
    every += [atom for rule in rules for atom in atoms(rule)[1:]]
    names: dict[tuple[str, int], tuple[str, ...]] = {}
    others: dict[tuple[str, int], Atom] = {}
    for atom in every:
        which = (atom.relation, len(atom.arguments))
        if which not in names:
            found = [a.name for a in atom.arguments if isinstance(a, Variable) and not a.anonymous]
            if len(set(found)) == len(atom.arguments):
                names[which] = tuple(found)
            else:
                others.setdefault(which, atom)
    for which, atom in others.items():
        if which not in names:
            names[which] = _makeshift_names(atom)
    return names


def _makeshift_names(atom: Atom) -> tuple[str, ...]:
    names: list[str] = []
    for i, argument in enumerate(atom.arguments):
        name = f"c{i}"
        if isinstance(argument, Variable) and not argument.anonymous:
            name = argument.name
        elif isinstance(argument, HeadAggregate):
            name = argument.function
        names.append(name if name not in names else f"c{i}")
    return tuple(names)
