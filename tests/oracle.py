"""A naive evaluator of checked programs, to test the engine by.

It shares no code with the engine: it reads only the nodes of `datalog.ast`, finds its own strata, has its own
functions and aggregates, and evaluates every rule over whole relations again and again until nothing is new.
Simple and slow on purpose.

A program fails if, for some binding, an expression fails although all that does not need its value holds: a literal
that fails is put aside, and the failure counts if the binding passes the others (`_Evaluator.around`).

`Base` is the model of the base relations under operations; `evaluate` computes every view from what is left:

>>> import datalog
>>> program = datalog.check(datalog.parse("r(x, y) :- e(x, y). r(x, y) :- e(x, z), r(z, y)."))
>>> base = Base(program)
>>> base.apply([("insert", "e", (1, 2)), ("insert", "e", (2, 3)), ("delete", "e", (9, 9))])
>>> sorted(evaluate(program, base.facts())["r"])
[(1, 2), (1, 3), (2, 3)]
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from datalog import ast
from tests.oracle_base import Base, Operation, Row, constant, stored
from tests.oracle_layers import derive_layers, index_columns
from tests.oracle_values import ARITHMETIC, COMPARE, FUNCTIONS, OracleError, OracleLimit, aggregate, in_range

__all__ = ["Base", "Operation", "OracleError", "OracleLimit", "Reading", "Row", "evaluate", "strata"]

Environment = dict[str, Any]
Reading = Callable[[ast.Read, Mapping[str, dict[Row, int]]], dict[Row, int]]


# --- strata --------------------------------------------------------------------------------------------------


def _inner_relations(node: Any) -> Iterator[str]:
    """The relations inside the body aggregates below a literal."""
    for expression in ast.expressions(node):
        if isinstance(expression, ast.Aggregate):
            for literal in expression.body:
                if isinstance(literal, (ast.Atom, ast.Negation)):
                    yield (literal.atom if isinstance(literal, ast.Negation) else literal).relation


def _uses(rule: ast.Rule) -> Iterator[tuple[str, bool]]:
    """The relations that a rule reads, and whether it needs them complete (negated or aggregated)."""
    complete = bool(rule.aggregates)
    for literal in rule.body:
        if isinstance(literal, ast.Atom):
            yield literal.relation, complete
        elif isinstance(literal, ast.Negation):
            yield literal.atom.relation, True
        for name in _inner_relations(literal):
            yield name, True


def strata(program: ast.Program) -> list[frozenset[str]]:
    """The views in groups that depend on each other, each group after all those that it reads.

    Synchronised reads and those with times are groups of their own, after what they read and the points they wait for.
    """
    views = sorted({*program.derived, *program.reads})
    reads: dict[str, set[str]] = {view: set() for view in views}
    for read in program.reads.values():
        reads[read.name].update(name for name in (read.relation, read.sync) if name in reads)
    for rule in program.rules:
        if rule.body:
            reads[rule.head.relation].update(name for name, _ in _uses(rule) if name in reads)
    for middle in views:  # Warshall's closure
        for view in views:
            if middle in reads[view]:
                reads[view] |= reads[middle]
    groups = {view: frozenset({view} | {w for w in reads[view] if view in reads[w]}) for view in views}
    for group in set(groups.values()):
        if through_index(program, group):
            index_columns([rule for rule in program.rules if rule.body and rule.head.relation in group], group)
    # A group that reads another one has strictly more views below it, itself included.
    return sorted(set(groups.values()), key=lambda g: (len(set().union(*(reads[v] | {v} for v in g))), sorted(g)))


def through_index(program: ast.Program, group: frozenset[str]) -> bool:
    """Whether views that depend on each other need all of each other: only an index makes that possible."""
    rules = [rule for rule in program.rules if rule.body and rule.head.relation in group]
    return any(complete and name in group for rule in rules for name, complete in _uses(rule))


# --- evaluation ----------------------------------------------------------------------------------------------


@dataclass
class _Step:
    """A literal of an ordered body. `bound`: the positions of an atom that are known when its turn comes.

    `risky`: it computes something, or needs what is computed.
    """

    literal: ast.Literal
    bound: tuple[int, ...] = ()
    scope: frozenset[str] = frozenset()
    risky: bool = False


@dataclass
class _Evaluator:
    program: ast.Program
    limit: int = 2_000_000
    hasty: bool = False
    rows: dict[str, dict[Row, int]] = field(default_factory=dict)
    work: int = 0

    def __post_init__(self) -> None:
        self.indexes: dict[str, dict[tuple[int, ...], dict[Row, list[Row]]]] = {}
        self.rests: dict[tuple[int, int, bool], tuple[Any, tuple[ast.Literal, ...]]] = {}
        self.orders: dict[tuple[int, frozenset[str], bool], tuple[Any, list[_Step]]] = {}

    # -- relations

    def add(self, name: str, row: Row) -> bool:
        """Add a row to a view; whether it is new."""
        rows = self.rows[name]
        if row in rows:
            return False
        rows[row] = 1
        for positions, index in self.indexes.get(name, {}).items():
            index[tuple(row[i] for i in positions)].append(row)
        return True

    def matching(self, name: str, positions: tuple[int, ...], values: Row) -> Iterable[Row]:
        if not positions:
            return list(self.rows[name])
        indexes = self.indexes.setdefault(name, {})
        if positions not in indexes:
            index: dict[Row, list[Row]] = defaultdict(list)
            for row in self.rows[name]:
                index[tuple(row[i] for i in positions)].append(row)
            indexes[positions] = index
        return list(indexes[positions].get(values, ()))

    # -- expressions

    def value(self, expression: Any, env: Environment, scope: frozenset[str] = frozenset()) -> Any:
        """The value of an expression, or None when it has none (the minimum of nothing)."""
        if isinstance(expression, ast.Constant):
            return expression.value
        if isinstance(expression, ast.Variable):
            return env[expression.name]
        if isinstance(expression, ast.Aggregate):
            return self.aggregate(expression, env, scope)
        arguments = [self.value(a, env, scope) for a in expression.arguments]
        if any(a is None for a in arguments):
            return None
        own = self.program.functions.get(expression.function)
        try:
            result = (own or FUNCTIONS[expression.function])(*arguments)
        except OracleError:
            raise
        except Exception as error:  # a function of the user's, or values that it cannot take
            raise OracleError(str(error)) from error
        return in_range(result, expression.type) if expression.function in ARITHMETIC else result

    def aggregate(self, node: ast.Aggregate, env: Environment, scope: frozenset[str]) -> Any:
        inner = set(_names(node.body, node.target))
        outer = {name: env[name] for name in inner & scope}
        values = []
        for binding, copies in self.solve(node.body, outer):
            counts = node.target is None or node.function == "count"
            target = None if counts else self.value(node.target, binding, frozenset(binding))
            if target is not None or counts:
                values.append((target, copies))
        return self.apply_aggregate(node, values)

    def apply_aggregate(self, node: ast.Aggregate | ast.HeadAggregate, values: list[tuple[Any, int]]) -> Any:
        own = self.program.aggregates.get(node.function)
        if own is not None:
            return own(sorted(value for value, n in values for _ in range(n))) if values else None
        parameter = "" if node.parameter is None else f"({node.parameter.value})"
        return aggregate(node.function + parameter, values, node.type)

    # -- bodies

    def order(
        self, body: tuple[ast.Literal, ...], given: frozenset[str], scope: frozenset[str] | None = None
    ) -> list[_Step]:
        """The literals in an order in which each finds its variables bound: filters as early as possible.

        With a `scope` they are what is left of a body after a failure: those that need what failed are left out.
        """
        cached = self.orders.get((id(body), given, scope is None))
        if cached is not None:
            return cached[1]
        rest = scope is not None
        scope = given | frozenset(_outer_names(body)) if scope is None else scope
        bound, left, steps = set(given), list(body), []
        computed: set[str] = set()
        while left:
            ready = [(self.rank(literal, bound, scope), i) for i, literal in enumerate(left)]
            rank, position = min(ready)
            if rank == math.inf:
                if rest:
                    break
                raise OracleError(f"no safe order: {left}")
            literal = left.pop(position)
            known = ()
            if isinstance(literal, ast.Atom):
                known = tuple(i for i, a in enumerate(literal.arguments) if _needs(a, scope) <= bound)
            names = set(_outer_names((literal,)))
            risky = _computes(literal) or not computed.isdisjoint(ast.variables(literal))
            steps.append(_Step(literal, known, scope, risky))
            if not isinstance(literal, ast.Negation):
                computed |= names - bound if risky else set()
                bound |= names
        self.orders[id(body), given, not rest] = (body, steps)  # the body is kept, so that its id stays its own
        return steps

    def rank(self, literal: ast.Literal, bound: set[str], scope: frozenset[str]) -> float:
        """How early a literal should come; infinite as long as it lacks a variable."""
        if isinstance(literal, ast.Comparison):
            missing_left, missing_right = _needs(literal.left, scope) - bound, _needs(literal.right, scope) - bound
            if not missing_left and not missing_right:
                return 0.0
            binds_left = isinstance(literal.left, ast.Variable) and not missing_right
            binds_right = isinstance(literal.right, ast.Variable) and not missing_left
            return 1.0 if literal.op == "=" and (binds_left or binds_right) else math.inf
        if isinstance(literal, ast.Negation):
            needed = {name for a in literal.atom.arguments for name in _needs(a, scope) if not name.startswith("_#")}
            return 0.0 if needed <= bound else math.inf
        own = {a.name for a in literal.arguments if isinstance(a, ast.Variable)}
        if any(_needs(a, scope) - bound - own for a in literal.arguments):
            return math.inf
        return 100.0 - sum(1 for a in literal.arguments if _needs(a, scope) <= bound)

    def solve(self, body: tuple[ast.Literal, ...], given: Environment) -> Iterator[tuple[Environment, int]]:
        """Every binding of all the variables of a body, with the number of its copies (bags)."""
        return self.follow(self.order(body, frozenset(given)), 0, given, 1)

    def follow(
        self,
        steps: list[_Step],
        at: int,
        env: Environment,
        copies: int,
        failure: OracleError | None = None,
        lost: bool = False,
    ) -> Iterator[tuple[Environment, int]]:
        """The bindings from a step on. Of one that is `lost` already, only what fails is of interest."""
        self.work += 1
        if self.work > self.limit:
            raise OracleLimit("too much work")
        if at == len(steps):
            if failure is not None:
                raise failure
            if not lost:
                yield env, copies
            return
        step = steps[at]
        try:
            met = list(self.meet(step, env))
        except OracleLimit:
            raise
        except OracleError as error:
            yield from self.around(steps, at, env, failure or error)
            return
        for extended, n, missed in met:
            if missed is None or failure is not None:
                yield from self.follow(steps, at + 1, extended, copies * n, failure, lost)
            else:
                yield from self.around(steps, at, extended, missed)
        if self.hasty and not met and step.risky:
            yield from self.around(steps, at, env, failure)

    def meet(self, step: _Step, env: Environment) -> Iterator[tuple[Environment, int, OracleError | None]]:
        """The bindings with which a literal holds, with copies, and what failed in an atom that holds otherwise."""
        literal = step.literal
        if isinstance(literal, ast.Comparison):
            yield from ((extended, 1, None) for extended in self.compare(literal, env, step.scope))
        elif isinstance(literal, ast.Negation):
            if not self.exists(literal.atom, env, step.scope):
                yield env, 1, None
        else:
            yield from self.match(literal, step.bound, env, step.scope)

    def around(
        self, steps: list[_Step], at: int, env: Environment, failure: OracleError | None
    ) -> Iterator[tuple[Environment, int]]:
        """A literal has failed: that counts if what does not need it holds, as far as it does not fail itself.

        With `hasty`, what may fail itself does not protect: of two such things either may come first. Without a failure
        the literal does not hold, but could have come after those that are left.
        """
        key = (id(steps), at, failure is None)
        rest = self.rests.get(key)
        if rest is None:
            left = [x.literal for x in steps[at + 1 :] if failure is None or not self.hasty or not x.risky]
            rest = self.rests[key] = (steps, tuple(left))
        yield from self.follow(self.order(rest[1], frozenset(env), steps[at].scope), 0, env, 1, failure, True)

    def compare(self, node: ast.Comparison, env: Environment, scope: frozenset[str]) -> Iterator[Environment]:
        for side, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(side, ast.Variable) and side.name not in env:
                value = self.value(other, env, scope)
                if value is not None:
                    yield {**env, side.name: value}
                return
        left, right = self.value(node.left, env, scope), self.value(node.right, env, scope)
        try:
            holds = left is not None and right is not None and COMPARE[node.op](left, right)
        except TypeError as error:
            raise OracleError(str(error)) from error
        if holds:
            yield env

    def exists(self, atom: ast.Atom, env: Environment, scope: frozenset[str]) -> bool:
        known = tuple(i for i, a in enumerate(atom.arguments) if not (isinstance(a, ast.Variable) and a.anonymous))
        values = tuple(self.value(atom.arguments[i], env, scope) for i in known)
        return any(True for _ in self.matching(atom.relation, known, values))

    def match(
        self, atom: ast.Atom, known: tuple[int, ...], env: Environment, scope: frozenset[str]
    ) -> Iterator[tuple[Environment, int, OracleError | None]]:
        """The rows of an atom. An argument that fails is as good as any: what else the atom says still counts."""
        failure: OracleError | None = None
        values: dict[int, Any] = {}
        for i in known:
            try:
                values[i] = self.value(atom.arguments[i], env, scope)
            except OracleLimit:
                raise
            except OracleError as error:
                failure = error
        rows = self.rows[atom.relation]
        for row in self.matching(atom.relation, tuple(values), tuple(values.values())):
            extended, later, same = dict(env), [], True
            for i, (argument, value) in enumerate(zip(atom.arguments, row, strict=True)):
                if isinstance(argument, ast.Variable):
                    if extended.setdefault(argument.name, value) != value:
                        same = False
                        break
                elif i not in known:
                    later.append((argument, value))
            missed = failure
            for argument, value in later if same else ():
                try:
                    same = same and self.value(argument, extended, scope) == value
                except OracleLimit:
                    raise
                except OracleError as error:
                    missed = error
            if same:
                yield extended, rows[row], missed

    # -- rules

    def derive(self, rule: ast.Rule, given: Environment | None = None) -> set[Row]:
        """The rows of the head that one rule derives from the relations as they stand."""
        relation = self.program.relations[rule.head.relation]
        given = given or {}
        if not rule.aggregates:
            return {
                stored(relation, (self.value(a, env) for a in rule.head.arguments))
                for env, _ in self.solve(rule.body, given)
            }
        groups: dict[Row, list[tuple[Environment, int]]] = defaultdict(list)
        plain = [a for a in rule.head.arguments if not isinstance(a, ast.HeadAggregate)]
        for env, copies in self.solve(rule.body, given):
            groups[tuple(self.value(a, env) for a in plain)].append((env, copies))
        result = set()
        for group, bindings in groups.items():
            rest, row = iter(group), []
            for a in rule.head.arguments:
                if isinstance(a, ast.HeadAggregate):
                    counts = a.target is None or a.function == "count"  # `count<x>` counts, whatever x is
                    values = [(None if counts else self.value(a.target, env), n) for env, n in bindings]
                    row.append(self.apply_aggregate(a, values))
                else:
                    row.append(next(rest))
            result.add(stored(relation, row))
        return result


def _computes(literal: ast.Literal) -> bool:
    return any(isinstance(e, (ast.Call, ast.Aggregate)) for e in ast.expressions(literal))


def _needs(argument: Any, scope: frozenset[str]) -> set[str]:
    """The variables that must be bound to evaluate an expression: those of its aggregates' insides only if they
    occur outside too."""
    if isinstance(argument, ast.Variable):
        return {argument.name}
    if isinstance(argument, ast.Aggregate):
        return set(_names(argument.body, argument.target)) & scope
    if isinstance(argument, ast.Call):
        return set().union(*(_needs(a, scope) for a in argument.arguments)) if argument.arguments else set()
    return set()


def _names(body: Iterable[ast.Literal], target: Any = None) -> list[str]:
    """All the variables of the body of an aggregate and of its target."""
    names = [name for literal in body for name in ast.variables(literal)]
    return names + (ast.variables(target) if target is not None else [])


def _outer_names(body: Iterable[ast.Literal]) -> Iterator[str]:
    """The variables of a body that occur outside its aggregates."""

    def walk(node: Any) -> Iterator[str]:
        if isinstance(node, ast.Variable):
            yield node.name
        elif isinstance(node, (ast.Call, ast.Atom)):
            for argument in node.arguments:
                yield from walk(argument)
        elif isinstance(node, ast.Comparison):
            yield from walk(node.left)
            yield from walk(node.right)

    for literal in body:
        yield from walk(literal.atom if isinstance(literal, ast.Negation) else literal)


def evaluate(
    program: ast.Program,
    facts: Mapping[str, Iterable[Row]] | None = None,
    limit: int = 2_000_000,
    hasty: bool = False,
    reading: Reading | None = None,
) -> dict[str, set[Row]]:
    """Every relation of a checked program, as sets of rows.

    Where two things in a body may fail, neither of which needs the other, an engine may begin with either. It must fail
    if this does, and must not if this does not even if it is `hasty`.

    `facts` are the rows of base relations; a `Counter` gives the copies in a bag. A base relation that is not
    named starts with its facts from the program text. Facts of views always come from the text.

    `reading` says what a read (see `ast.Read`) finds, given the relations below it with the copies of their rows.
    """
    evaluator = _Evaluator(program, limit, hasty)
    contents = {**Base(program).facts(), **(facts or {})}
    for name, relation in program.relations.items():
        rows = contents.get(name, ())
        counts = rows if isinstance(rows, Counter) else Counter(map(tuple, rows))
        evaluator.rows[name] = {
            stored(relation, row): n if relation.bag else 1 for row, n in counts.items() if n > 0
        }
    for rule in program.facts:
        if rule.head.relation in program.derived:
            evaluator.add(rule.head.relation, stored(program.relations[rule.head.relation],
                                                     (constant(a) for a in rule.head.arguments)))
    for group in strata(program):
        if (read := program.reads.get(min(group))) is not None:
            assert reading is not None, f"nobody says what {read.name} finds"
            evaluator.rows[read.name] = reading(read, evaluator.rows)
            continue
        rules = [rule for rule in program.rules if rule.body and rule.head.relation in group]
        if through_index(program, group):
            derive_layers(evaluator, rules, group)
            continue
        changed = True
        while changed:
            changed = False
            for rule in rules:
                for row in evaluator.derive(rule):
                    changed |= evaluator.add(rule.head.relation, row)
    return {name: set(rows) for name, rows in evaluator.rows.items()}
