"""The nodes of a Livelog program: immutable, and each one knows where it stands in the text.

`datalog.parse` builds these from text, `datalog.check` returns the same kind of `Program` with names
resolved and types filled in. Nothing here knows how a program is evaluated.

Sugar that is gone after parsing: several heads, disjunction and the empty body each become plain rules;
every `_` becomes a variable of its own, so "all variables of the body" means just that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = [
    "DEEPEST", "Aggregate", "Atom", "Call", "Column", "Comparison", "Constant", "Directive", "Expression",
    "HeadAggregate", "Literal", "Negation", "Program", "Relation", "Rule", "Source", "Span", "Variable",
    "expressions", "replace", "variables",
]


DEEPEST = 200
"""Levels of nesting, in a program and in a list: whatever walks them is recursive."""


@dataclass(frozen=True, slots=True)
class Source:
    """The text a program was read from; `name` is what error messages call it.

    `first_line` is the number of the first line of `text`: an excerpt of a long file starts further down.
    """

    text: str
    name: str = "<program>"
    first_line: int = 1


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of source text. Lines and columns count from 1; `end_column` is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


NOWHERE = Span(0, 0, 0, 0)


# --- expressions ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable. Every `_` of the text is a `Variable` with a unique name that starts with `_#`."""

    name: str
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def anonymous(self) -> bool:
        return self.name.startswith("_#")


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal value: int, float, str, or a tuple (a list such as `[1, 2]` or `nil`)."""

    value: Any
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function applied to arguments.

    Operators are calls too: `+ - * / % ^` with two arguments, `neg` with one, `list` (the constructor
    `[a, b]`) with any number. `type` is filled in by the checker: the type of the result.
    """

    function: str
    arguments: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False)
    type: str | None = None


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A body aggregate, `sum v : { bids(v, p2), p2 <= p }`. `target` is None for `count : {...}`.

    Variables of `body` that also occur outside the aggregate are the correlated ones. `parameter` is the constant
    of aggregates that have one, `quantile v, 0.9 : {...}`.
    """

    function: str
    target: Expression | None
    body: tuple[Literal, ...]
    span: Span = field(default=NOWHERE, compare=False)
    type: str | None = None
    parameter: Expression | None = None


Expression = Variable | Constant | Call | Aggregate


@dataclass(frozen=True, slots=True)
class HeadAggregate:
    """An aggregate in the head of a rule, `min<c>` or `top<c, 3>`; `target` is None for `count<*>`."""

    function: str
    target: Expression | None
    span: Span = field(default=NOWHERE, compare=False)
    type: str | None = None
    parameter: Expression | None = None


# --- literals ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Atom:
    """A relation applied to arguments. In a head the arguments may be `HeadAggregate`s."""

    relation: str
    arguments: tuple[Any, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Negation:
    """`!atom` in a body."""

    atom: Atom
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left op right`, with op one of `= != < <= > >=`. An `=` may bind a variable."""

    op: str
    left: Expression
    right: Expression
    span: Span = field(default=NOWHERE, compare=False)


Literal = Atom | Negation | Comparison


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule with one head. `text` is the rule as it stood in the source, for messages.

    A fact is a rule without a body whose arguments are all constants.
    """

    head: Atom
    body: tuple[Literal, ...]
    span: Span = field(default=NOWHERE, compare=False)
    text: str = field(default="", compare=False)

    @property
    def is_fact(self) -> bool:
        return not self.body

    @property
    def aggregates(self) -> tuple[HeadAggregate, ...]:
        return tuple(a for a in self.head.arguments if isinstance(a, HeadAggregate))


# --- declarations --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a relation. `type` is number, unsigned, float, symbol, list, or `any` if unknown.

    `numeric` is True if all values must be numbers, also where it is not known which kind (`any`).
    """

    name: str
    type: str
    numeric: bool = field(default=False, compare=False)
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Relation:
    """What is known of a relation. Column lists are positions. `declared` is False for inferred ones."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[int, ...] = ()
    ttl: float | None = None
    bag: bool = False
    partition: tuple[int, ...] | None = None
    declared: bool = True
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def arity(self) -> int:
        return len(self.columns)


@dataclass(frozen=True, slots=True)
class Directive:
    """`.input r(...)`, `.output r(...)`, `.printsize r`, `.limitsize r(n=...)`: kind, relation, parameters.

    `.approx r 1e-9` has the parameter `threshold`.
    """

    kind: str
    relation: str
    parameters: Mapping[str, Any]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Program:
    """A program. After `check`, `relations` holds every relation used, declared or inferred.

    `functions` and `aggregates` are the Python callables that the user registered with `check`.
    `problems` are mistakes in declarations that the parser met; `check` reports them with its own.
    """

    rules: tuple[Rule, ...]
    relations: Mapping[str, Relation]
    directives: tuple[Directive, ...] = ()
    constants: Mapping[str, Any] = field(default_factory=dict)
    source: Source = Source("")
    checked: bool = False
    functions: Mapping[str, Any] = field(default_factory=dict, compare=False)
    aggregates: Mapping[str, Any] = field(default_factory=dict, compare=False)
    aliases: Mapping[str, str] = field(default_factory=dict)
    constant_spans: Mapping[str, Span] = field(default_factory=dict, compare=False)
    alias_spans: Mapping[str, Span] = field(default_factory=dict, compare=False)
    problems: tuple[Any, ...] = field(default=(), compare=False)

    @property
    def facts(self) -> tuple[Rule, ...]:
        return tuple(r for r in self.rules if r.is_fact)

    @property
    def derived(self) -> frozenset[str]:
        """Relations that some rule with a body defines: the views."""
        return frozenset(r.head.relation for r in self.rules if r.body)

    @property
    def base(self) -> frozenset[str]:
        """Relations that only facts, files and updates fill."""
        return frozenset(self.relations) - self.derived

    def directives_of(self, kind: str) -> tuple[Directive, ...]:
        return tuple(d for d in self.directives if d.kind == kind)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The relations of `.output`, or every view when the program names none, in order of first rule."""
        named = tuple(dict.fromkeys(d.relation for d in self.directives_of("output")))
        if named or self.directives_of("printsize"):
            return named
        derived = self.derived
        return tuple(dict.fromkeys(r.head.relation for r in self.rules if r.head.relation in derived))


# --- walking -------------------------------------------------------------------------------------------------


def expressions(node: Any) -> Iterator[Expression]:
    """Every expression below a node, outermost first, the bodies of aggregates included."""
    if isinstance(node, (Variable, Constant)):
        yield node
    elif isinstance(node, Call):
        yield node
        for argument in node.arguments:
            yield from expressions(argument)
    elif isinstance(node, (Aggregate, HeadAggregate)):
        if isinstance(node, Aggregate):
            yield node
            for literal in node.body:
                yield from expressions(literal)
        for part in (node.target, node.parameter):
            if part is not None:
                yield from expressions(part)
    elif isinstance(node, Atom):
        for argument in node.arguments:
            yield from expressions(argument)
    elif isinstance(node, Negation):
        yield from expressions(node.atom)
    elif isinstance(node, Comparison):
        yield from expressions(node.left)
        yield from expressions(node.right)
    elif isinstance(node, Rule):
        yield from expressions(node.head)
        for literal in node.body:
            yield from expressions(literal)


def variables(node: Any) -> list[str]:
    """The names of the variables below a node, each once, in order of first occurrence."""
    return list(dict.fromkeys(e.name for e in expressions(node) if isinstance(e, Variable)))
