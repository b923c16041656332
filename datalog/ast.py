"""The nodes of a Livelog program: immutable, and each one knows where it stands in the text.

`datalog.parse` builds these from text, `datalog.check` returns the same kind of `Program` with names
resolved and types filled in. Nothing here knows how a program is evaluated.

Sugar that is gone after parsing: several heads, disjunction and the empty body each become plain rules;
every `_` becomes a variable of its own, so "all variables of the body" means just that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any, ClassVar

import msgspec
from msgspec.structs import force_setattr, replace

__all__ = [
    "ARRIVAL", "DEEPEST", "Aggregate", "Atom", "Call", "Column", "Comparison", "Constant", "Directive", "Expression",
    "HeadAggregate", "Literal", "Negation", "Program", "Read", "Relation", "Rule", "Source", "Span", "Sync", "Ticks",
    "Variable", "expressions", "replace", "variables",
]


DEEPEST = 200
"""Levels of nesting, in a program and in a list: whatever walks them is recursive."""


ARRIVAL = "@"
"""The column of a stream, and of a relation that is read with its times, that no program can write: the time."""


class Source(msgspec.Struct, frozen=True, gc=False):
    """The text a program was read from; `name` is what error messages call it.

    `first_line` is the number of the first line of `text`: an excerpt of a long file starts further down. `parts` are
    texts of their own that stand in it, in order: what is written in one of them, messages show in that.
    """

    text: str
    name: str = "<program>"
    first_line: int = 1
    parts: tuple[Source, ...] = ()

    def own(self, span: Span) -> tuple[Source, Span]:
        """The text that a place is in, and the place by the lines of that.

        >>> whole = Source("a.\\nb.", "x", parts=(Source("b.", "y", 2),))
        >>> [(source.name, place.line) for source, place in map(whole.own, (Span(1, 1, 1, 3), Span(2, 1, 2, 3)))]
        [('x', 1), ('y', 1)]
        """
        part = next((p for p in reversed(self.parts) if p.first_line <= span.line), None)
        if part is None:
            return self, span
        above = part.first_line - 1
        place = Span(span.line - above, span.column, span.end_line - above, span.end_column)
        return Source(part.text, part.name), place


class Span(msgspec.Struct, frozen=True, gc=False):
    """A stretch of source text. Lines and columns count from 1; `end_column` is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


NOWHERE = Span(0, 0, 0, 0)


class Node(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A part of a program: two are equal if what they say is, wherever they stand. `compared` is what they say.

    Programs may have many, so they are what is made fastest, and hidden from the collector: a tree has no cycles.

    >>> Variable("x", Span(1, 2, 1, 3)) == Variable("x"), Variable("x") == Constant("x")
    (True, False)
    """

    compared: ClassVar[attrgetter[Any]]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self is other or bool(self.compared(self) == self.compared(other))

    def __hash__(self) -> int:
        return hash(self.compared(self))


# --- expressions ---------------------------------------------------------------------------------------------


class Variable(Node, frozen=True, eq=False):
    """A variable. Every `_` of the text is a `Variable` with a unique name that starts with `_#`."""

    compared = attrgetter("name")
    name: str
    span: Span = NOWHERE

    @property
    def anonymous(self) -> bool:
        return self.name.startswith("_#")


class Constant(Node, frozen=True, eq=False):
    """A literal value: int, float, str, or a tuple (a list such as `[1, 2]` or `nil`)."""

    compared = attrgetter("value")
    value: Any
    span: Span = NOWHERE


class Call(Node, frozen=True, eq=False):
    """A function applied to arguments.

    Operators are calls too: `+ - * / % ^` with two arguments, `neg` with one, `list` (the constructor
    `[a, b]`) with any number. `type` is filled in by the checker: the type of the result.
    """

    compared = attrgetter("function", "arguments", "type")
    function: str
    arguments: tuple[Expression, ...]
    span: Span = NOWHERE
    type: str | None = None


class Aggregate(Node, frozen=True, eq=False):
    """A body aggregate, `sum v : { bids(v, p2), p2 <= p }`. `target` is None for `count : {...}`.

    Variables of `body` that also occur outside the aggregate are the correlated ones. `parameter` is the constant
    of aggregates that have one, `quantile v, 0.9 : {...}`.
    """

    compared = attrgetter("function", "target", "body", "type", "parameter")
    function: str
    target: Expression | None
    body: tuple[Literal, ...]
    span: Span = NOWHERE
    type: str | None = None
    parameter: Expression | None = None


Expression = Variable | Constant | Call | Aggregate


class HeadAggregate(Node, frozen=True, eq=False):
    """An aggregate in the head of a rule, `min<c>` or `top<c, 3>`; `target` is None for `count<*>`."""

    compared = attrgetter("function", "target", "type", "parameter")
    function: str
    target: Expression | None
    span: Span = NOWHERE
    type: str | None = None
    parameter: Expression | None = None


# --- literals ------------------------------------------------------------------------------------------------


class Ticks(Node, frozen=True, eq=False):
    """The points of time `start`, `start + period`, ... `Ticks(1, 0)` is every whole tick of the clock.

    Until the program is checked these are constants, or variables that name them; a start that is not given is None.
    """

    compared = attrgetter("period", "start")
    period: Any
    start: Any


class Sync(Node, frozen=True, eq=False):
    """What stands behind `at`: the name of a view of time points, or `every` and the `ticks` of `every(2)`."""

    compared = attrgetter("name", "ticks")
    name: str
    ticks: Ticks | None = None
    span: Span = NOWHERE


class Atom(Node, frozen=True, eq=False):
    """A relation applied to arguments. In a head the arguments may be `HeadAggregate`s.

    `r(x)@t at s`, until the program is checked: `time` is what is bound to the time of the tuple, `sync` at which
    points the relation is read.
    """

    compared = attrgetter("relation", "arguments", "time", "sync")
    relation: str
    arguments: tuple[Any, ...]
    span: Span = NOWHERE
    time: Any = None
    sync: Sync | None = None


class Negation(Node, frozen=True, eq=False):
    """`!atom` in a body."""

    compared = attrgetter("atom")
    atom: Atom
    span: Span = NOWHERE


class Comparison(Node, frozen=True, eq=False):
    """`left op right`, with op one of `= != < <= > >=`. An `=` may bind a variable."""

    compared = attrgetter("op", "left", "right")
    op: str
    left: Expression
    right: Expression
    span: Span = NOWHERE


Literal = Atom | Negation | Comparison


class Rule(Node, frozen=True, eq=False):
    """One rule with one head. `text` is the rule as it stood in the source, for messages.

    A fact is a rule without a body whose arguments are all constants. A rule is `flat` if it is atoms over variables
    and constants, as most are: nothing is computed, negated or aggregated.
    """

    compared = attrgetter("head", "body")
    head: Atom
    body: tuple[Literal, ...]
    span: Span = NOWHERE
    text: str = ""
    flat: bool = False  # whatever is given

    def __post_init__(self) -> None:
        force_setattr(self, "flat", _is_flat(self.head, self.body))  # everybody asks, and rules are made once or twice

    @property
    def is_fact(self) -> bool:
        return not self.body

    @property
    def aggregates(self) -> tuple[HeadAggregate, ...]:
        if self.flat:
            return ()
        return tuple([a for a in self.head.arguments if isinstance(a, HeadAggregate)])


# --- declarations --------------------------------------------------------------------------------------------


class Column(Node, frozen=True, eq=False):
    """A column of a relation. `type` is number, unsigned, float, symbol, list, or `any` if unknown.

    `numeric` is True if all values must be numbers, also where it is not known which kind (`any`).
    """

    compared = attrgetter("name", "type")
    name: str
    type: str
    numeric: bool = False
    span: Span = NOWHERE


class Relation(Node, frozen=True, eq=False):
    """What is known of a relation. Column lists are positions. `declared` is False for inferred ones.

    In a checked program a `stream` is a bag with one more column, the last one: the time of arrival (`ARRIVAL`).
    """

    compared = attrgetter("name", "columns", "key", "ttl", "bag", "partition", "declared", "stream")
    name: str
    columns: tuple[Column, ...]
    key: tuple[int, ...] = ()
    ttl: float | None = None
    bag: bool = False
    partition: tuple[int, ...] | None = None
    declared: bool = True
    span: Span = NOWHERE
    stream: bool = False

    @property
    def arity(self) -> int:
        return len(self.columns)

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns that a program can name: of a checked stream, all but the time."""
        return self.columns[:-1] if self.columns and self.columns[-1].name == ARRIVAL else self.columns


class Read(Node, frozen=True, eq=False):
    """How a checked program reads a relation: `name` stands for it in rules.

    `kind` `time`: `r@` has the tuples of `relation` with their times in one more column. `at`: `r at s` is `relation`
    as of the last point of `sync`, a view of time points or one of `Program.clocks`.
    """

    compared = attrgetter("name", "relation", "kind", "sync")
    name: str
    relation: str
    kind: str
    sync: str = ""


class Directive(Node, frozen=True, eq=False):
    """`.input r(...)`, `.output r(...)`, `.printsize r`, `.limitsize r(n=...)`: kind, relation, parameters.

    `.approx r 1e-9` has the parameter `threshold`.
    """

    compared = attrgetter("kind", "relation", "parameters")
    kind: str
    relation: str
    parameters: Mapping[str, Any]
    span: Span = NOWHERE


class Program(Node, frozen=True, eq=False, gc=True):
    """A program. After `check`, `relations` holds every relation used, declared or inferred.

    `functions` and `aggregates` are the Python callables that the user registered with `check`.
    `problems` are mistakes in declarations that the parser met; `check` reports them with its own. `remarks` are about
    what was read and does nothing. `longest` is how long the texts and lists that rules make may be; None is what
    `datalog.values` has.

    After `check`, `reads` are the relations that stand for another one with its times, or as of the last point of a
    view, each after what it reads; `clocks` are those of time: `now` (None), `clock`, and each `every(...)`.

    `shown` are relations that are outputs beside those of `.output`; None: all views, if there is no `.output`.
    """

    compared = attrgetter(
        "rules", "relations", "directives", "constants", "source", "checked", "aliases", "longest", "reads", "clocks",
        "shown",
    )
    rules: tuple[Rule, ...]
    relations: Mapping[str, Relation]
    directives: tuple[Directive, ...] = ()
    constants: Mapping[str, Any] = {}
    source: Source = Source("")
    checked: bool = False
    functions: Mapping[str, Any] = {}
    aggregates: Mapping[str, Any] = {}
    aliases: Mapping[str, str] = {}
    constant_spans: Mapping[str, Span] = {}
    alias_spans: Mapping[str, Span] = {}
    problems: tuple[Any, ...] = ()
    remarks: tuple[Any, ...] = ()
    longest: int | None = None
    reads: Mapping[str, Read] = {}
    clocks: Mapping[str, Ticks | None] = {}
    shown: tuple[str, ...] | None = None

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
        return frozenset(self.relations) - self.derived - self.reads.keys() - self.clocks.keys()

    def directives_of(self, kind: str) -> tuple[Directive, ...]:
        return tuple(d for d in self.directives if d.kind == kind)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The relations of `.output`, or every view when the program names none, in order of first rule."""
        named = tuple(dict.fromkeys(d.relation for d in self.directives_of("output")))
        if self.shown is not None:
            return tuple(dict.fromkeys((*named, *self.shown)))
        if named or self.directives_of("printsize"):
            return named
        derived = self.derived
        return tuple(dict.fromkeys(r.head.relation for r in self.rules if r.head.relation in derived))


# --- walking -------------------------------------------------------------------------------------------------


def expressions(node: Any) -> Iterator[Expression]:
    """Every expression below a node, outermost first, the bodies of aggregates included."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (Variable, Constant)):
            yield node
        elif isinstance(node, Call):
            yield node
            waiting += reversed(node.arguments)
        elif isinstance(node, Atom):
            if node.sync is not None and node.sync.ticks is not None:
                waiting += (node.sync.ticks.start, node.sync.ticks.period)
            if node.time is not None:
                waiting.append(node.time)
            waiting += reversed(node.arguments)
        elif isinstance(node, Comparison):
            waiting += (node.right, node.left)
        elif isinstance(node, Negation):
            waiting.append(node.atom)
        elif isinstance(node, (Aggregate, HeadAggregate)):
            waiting += (node.parameter, node.target)
            if isinstance(node, Aggregate):
                yield node
                waiting += reversed(node.body)
        elif isinstance(node, Rule):
            waiting += reversed(node.body)
            waiting.append(node.head)


def _is_flat(head: Atom, body: tuple[Literal, ...]) -> bool:
    for atom in (head, *body):
        if type(atom) is not Atom or atom.time is not None or atom.sync is not None:
            return False
        for argument in atom.arguments:
            if type(argument) is not Variable and type(argument) is not Constant:
                return False
    return True


def variables(node: Any) -> list[str]:
    """The names of the variables below a node, each once, in order of first occurrence."""
    if isinstance(node, Variable):
        return [node.name]
    if isinstance(node, Rule) and node.flat:
        every = (node.head, *node.body)
        return list(dict.fromkeys([a.name for x in every for a in x.arguments if isinstance(a, Variable)]))  # type: ignore[union-attr]
    if isinstance(node, Atom) and (node.time is not None or node.sync is not None):
        return list(dict.fromkeys([e.name for e in expressions(node) if isinstance(e, Variable)]))
    names: dict[str, None] = {}
    for below in (node.left, node.right) if isinstance(node, Comparison) else getattr(node, "arguments", (node,)):
        if isinstance(below, Variable):
            names[below.name] = None
        elif not isinstance(below, Constant):  # there is more to it
            return list(dict.fromkeys([e.name for e in expressions(node) if isinstance(e, Variable)]))
    return list(names)
