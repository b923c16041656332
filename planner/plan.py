"""The plan: what every partition runs, as plain immutable data.

A plan is a list of strata, bottom up. A stratum defines one relation, or several that are recursive through
each other. Rules have at most two inputs: longer bodies are chains over *auxiliary* relations, so that
a join, its exchange and its state are the same thing whether a person or the planner named the result.

The rows that expressions see are described in `operators.expr`: the left tuple's columns, then the right's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from operators.expr import Expr
from operators.schedule import Schedule
from operators.sums import COUNT, Factor

BROADCAST: Literal["all"] = "all"

Placement = tuple[int, ...] | Literal["all"]
"""Where tuples live: hashed by these columns (`()` is one fixed partition), or a copy on every partition."""

Term = tuple[int, int, int]
"""A coefficient, the number of a factor of the left side, and of one of the right side: their product."""

Sums = tuple[tuple[Term, ...], ...]
"""The vector of a linear aggregate: each entry is a sum of terms."""


class RelationPlan(msgspec.Struct, frozen=True, gc=False):
    """A relation of the plan.

    `kind`: `base` (facts and updates), `view` (a relation of the program that rules define; facts may be
    added to it as well), `auxiliary` (made by the planner), `kept` (made by the planner as well; what is in it follows
    from what was there once, and so it is kept with the facts).
    `partition`: the columns whose hash picks the owner of a tuple.
    `weighted`: an auxiliary or a `bag` whose multiplicities matter to its readers; otherwise a set.
    `selection`: aggregate selection pushed into the relation's Fixpoint, if the planner proved it.
    `layer`: what an auxiliary that `unroll` made is a layer of.
    `tolerance`: the relation is approximated; all its columns but the tolerant ones are its key.
    `key` of a view: what tells its tuples apart, as declared or because they are groups; its changes may be updates.
    `stream`: a bag of which the last column is the time of arrival, which operations do not give.
    `stamped`: the kept relation of a base relation that has its tuples with the times of their arrival.
    `until`: the windows that read the relation, if nothing else does. A tuple that has left all may be forgotten.
    """

    name: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    kind: Literal["base", "view", "auxiliary", "kept"]
    partition: tuple[int, ...]
    key: tuple[int, ...] = ()
    ttl: float | None = None
    bag: bool = False
    weighted: bool = False
    selection: Selection | None = None
    layer: Layer | None = None
    tolerance: Tolerance | None = None
    stream: bool = False
    stamped: str = ""
    until: tuple[Leaving, ...] = ()

    @property
    def arity(self) -> int:
        return len(self.columns)

    @property
    def given(self) -> RelationPlan:
        """The relation as operations give its rows: those of a stream come without their times."""
        return replace(self, columns=self.columns[:-1], types=self.types[:-1]) if self.stream else self


class Bound(msgspec.Struct, frozen=True):
    """A time, over the columns of a tuple, up to which something holds, or from which on; not at it, if `strict`."""

    time: Expr
    strict: bool


class Leaving(msgspec.Struct, frozen=True):
    """When a tuple leaves a window for good: at the first of these bounds, as `WindowRule` has them."""

    leaves: tuple[Bound, ...]
    ticks: Schedule | None = None


class Layer(msgspec.Struct, frozen=True, gc=False):
    """A relation that stands for the tuples of another one with one value of its index, and leaves out that column."""

    relation: str
    column: int
    value: int


class Tolerance(msgspec.Struct, frozen=True, gc=False):
    """Numbers in these columns may be off by as much as the threshold before a change of them is published."""

    columns: tuple[int, ...]
    threshold: float


class Selection(msgspec.Struct, frozen=True, gc=False):
    """Keep, per group, the tuples that are best for at least one of the values (AggSel).

    `values` are pairs of a column and `min` or `max`. `strict`: a recursive step that starts from a worse value always
    ends at a worse one, as long as numbers are whole. Nothing that is best can then rest on a tuple that is not.
    """

    group: tuple[int, ...]
    values: tuple[tuple[int, Literal["min", "max"]], ...]
    strict: bool = False


class Input(msgspec.Struct, frozen=True, gc=False):
    """One input of a rule: a relation, where the rule wants its tuples, and the columns it joins on.

    `at == relation.partition` means that tuples are met at home and nothing is shipped.
    """

    relation: str
    at: Placement
    key: tuple[int, ...] = ()


class MapRule(msgspec.Struct, frozen=True):
    """`head(outputs) :- input, where.`: filter, compute and project, one tuple at a time."""

    id: str
    head: str
    input: Input
    where: tuple[Expr, ...]
    outputs: tuple[Expr, ...]
    text: str


class JoinRule(msgspec.Struct, frozen=True):
    """`head(outputs) :- left, right, where.`, with `left.key == right.key` column by column.

    An empty key is a filtered product; one side is then BROADCAST, and so is a side of a few tuples (a total) with a
    key. `probe` is the side from which a lost head tuple is looked up again (the smaller one): its columns that the
    head fixes are indexed.
    """

    id: str
    head: str
    left: Input
    right: Input
    where: tuple[Expr, ...]
    outputs: tuple[Expr, ...]
    probe: Literal["left", "right"]
    text: str


class LookupRule(msgspec.Struct, frozen=True):
    """`head(key..., value)`: for each distinct key of `left`, what `function` says of the matching `inner` rows.

    The key is `left.key`. An inner row matches if its `inner.key` columns equal the first `len(inner.key)`
    key columns and `where` holds over the row (key columns, inner columns). `value` is over the same row.
    `function` `absent` gives the head `key` (no value) when nothing matches: negation. Otherwise it is an
    aggregate by the name that `operators.monoids` knows; if it says something of nothing, `of_nothing` there says what.
    The head is always met where it is made: its partition columns are the key columns that `left.at` hashes.
    """

    id: str
    head: str
    left: Input
    inner: Input
    where: tuple[Expr, ...]
    function: str
    value: Expr | None
    text: str


class GroupRule(msgspec.Struct, frozen=True):
    """`head(group..., aggregates...) :- input, where.`, the head aggregates of a rule.

    `aggregates` are pairs of a function and its argument (None for `count<*>`). `layout` puts the head
    together: column i of the head is entry `layout[i]` of (group..., results...).

    `sums` says how each aggregate is kept. A linear one is a vector of sums, each a sum of terms over the `factors` of
    a row (the right factor of a term is always 0 here); for one that is not, None, it takes the argument itself.

    `having`: a group has a head only if these conditions hold, which are over the columns of the head. They are
    comparisons of columns and constants that cannot fail, and the head is an auxiliary.
    """

    id: str
    head: str
    input: Input
    where: tuple[Expr, ...]
    group: tuple[Expr, ...]
    aggregates: tuple[tuple[str, Expr | None], ...]
    layout: tuple[int, ...]
    text: str
    factors: tuple[Factor, ...] = (COUNT,)
    sums: tuple[Sums | None, ...] = ()
    having: tuple[Expr, ...] = ()


class Partial(msgspec.Struct, frozen=True):
    """What a lineage join keeps of one side, over that side's columns.

    Of the tuples that meet `where`, by their join key and the values of `kept`: the sums of `factors`, of which the
    first is the count.
    """

    where: tuple[Expr, ...]
    kept: tuple[Expr, ...]
    factors: tuple[Factor, ...]


class LineageRule(msgspec.Struct, frozen=True):
    """`head(group..., aggregates...) :- left, right, where.`: head aggregates over a join whose rows are not kept.

    `where`, `group`, `aggregates` and `layout` say what the rule means, as in a JoinRule and a GroupRule. The rest is
    how it is done (see `planner.lineage`). `partials` are what is kept of the two sides. Where two partial sums meet on
    the join key and `filters` hold, they contribute to `outputs`, which are the group terms and then the arguments of
    the aggregates that are not linear; the others are made of the factors as `sums` says. `filters` and `outputs` are
    over the row (join key..., kept of the left..., kept of the right...). Contributions go to the head's home.
    """

    id: str
    head: str
    left: Input
    right: Input
    where: tuple[Expr, ...]
    group: tuple[Expr, ...]
    aggregates: tuple[tuple[str, Expr | None], ...]
    layout: tuple[int, ...]
    text: str
    partials: tuple[Partial, Partial]
    filters: tuple[Expr, ...]
    outputs: tuple[Expr, ...]
    sums: tuple[Sums | None, ...]


class Inner(msgspec.Struct, frozen=True):
    """An aggregate over those rows of `input` that meet `where`: `function` of `value` (None: of the rows as such).

    `type` is that of its result, `of` that of the values. `equal`: what must be equal to `NestedRule.equal`, term by
    term. `order`: the operator and the left side of `q op key`, if the rows that count for an outer row are those up to
    its key, or from it on. All expressions are over the inner row.
    """

    input: Input
    where: tuple[Expr, ...]
    function: str
    value: Expr | None
    type: str
    of: str
    equal: tuple[Expr, ...] = ()
    order: tuple[str, Expr] | None = None


class Asked(msgspec.Struct, frozen=True):
    """A correlated aggregate of a comparison that is tried key by key.

    `equal` and `key` are columns of `NestedRule.free`: what its `Inner.equal` must be equal to, and the key of its
    order.
    """

    inner: Inner
    equal: tuple[int, ...]
    key: int | None


class NestedRule(msgspec.Struct, frozen=True):
    """`head(...) :- outer, where, compared op threshold.`: rows that pass a comparison with nested aggregates.

    `where`, `equal`, `key`, `group` and the arguments of aggregates are over the outer row. What is compared, by
    `method`:

    - `answer`: `compared`, over the answer (of `inner`) for the row's kind; kinds are told apart by `equal`;
    - `value`: the row's `key`. The threshold may then depend on the answer for the row's kind, too;
    - `sum`: `compared`, over a running sum of `inner`, up to the row's `key`; it goes one way with that sum,
      `falls` says which.

    - `each`: whatever there is. `threshold` is then the whole comparison, over the row (`free`..., the answers of
      `asked`..., scalars...); `free` is what it and its aggregates read of the outer row. `reason`: why no index does.

    Otherwise `threshold` is over the row (answer if the method is `value` and there is an `inner`, scalars...).

    The head is made of the rows that pass, by `shows`: `results` (group columns and aggregates, put together by
    `layout` as in a GroupRule), or `rows` (the group columns alone, as often as there are rows). An aggregate is a
    function, its argument, and the type of that. `single`: all rows that one index holds (those of a kind; with the
    method `answer`, all) are of one group.
    """

    id: str
    head: str
    outer: Input
    where: tuple[Expr, ...]
    equal: tuple[Expr, ...]
    key: Expr | None
    inner: Inner | None
    scalars: tuple[Inner, ...]
    method: Literal["answer", "value", "sum", "each"]
    compared: Expr | None
    falls: bool
    op: str
    threshold: Expr
    shows: Literal["results", "rows"]
    group: tuple[Expr, ...]
    aggregates: tuple[tuple[str, Expr | None, str], ...]
    layout: tuple[int, ...]
    single: bool
    text: str
    free: tuple[Expr, ...] = ()
    asked: tuple[Asked, ...] = ()
    reason: str = ""

    @property
    def inners(self) -> tuple[Inner, ...]:
        """All aggregates that are compared, the correlated ones first."""
        one = () if self.inner is None else (self.inner,)
        return (*one, *(asked.inner for asked in self.asked), *self.scalars)

    def with_inputs(self, new: Callable[[Input], Input]) -> NestedRule:
        """The rule with other inputs."""

        def inner(x: Inner) -> Inner:
            return replace(x, input=new(x.input))

        return replace(
            self,
            outer=new(self.outer),
            inner=None if self.inner is None else inner(self.inner),
            asked=tuple(replace(asked, inner=inner(asked.inner)) for asked in self.asked),
            scalars=tuple(map(inner, self.scalars)),
        )


class SyncRule(msgspec.Struct, frozen=True):
    """`head` is `input` as of the last point: a regulator.

    A time is a point if it is one of `ticks`, or a tuple of one of the `events`, relations of one column. The head is
    `kept`, and lives where the input does.
    """

    id: str
    head: str
    input: Input
    ticks: Schedule
    events: tuple[Input, ...]
    text: str


class StampRule(msgspec.Struct, frozen=True):
    """`head` has the tuples of `input`, each with the time at which it came there. It is `kept`, where the input is."""

    id: str
    head: str
    input: Input
    text: str


class WindowRule(msgspec.Struct, frozen=True):
    """`head` has the tuples of `input` for which the clock is within their bounds: at or behind all of `enters` (behind
    it, if that is strict), and before all of `leaves` (before or at it, if it is not strict).

    With `ticks`, what counts is not the clock but the last of these points; before the first the window is empty.
    """

    id: str
    head: str
    input: Input
    enters: tuple[Bound, ...]
    leaves: tuple[Bound, ...]
    ticks: Schedule | None
    text: str


class ClockRule(msgspec.Struct, frozen=True):
    """`head` has one column of time: the clock (`now`), the last point of `ticks` if there was one (`last`), or all
    points of them that have passed (`all`). It is on one partition."""

    id: str
    head: str
    what: Literal["now", "last", "all"]
    ticks: Schedule
    text: str


TimeRule = SyncRule | StampRule | WindowRule | ClockRule

PlanRule = MapRule | JoinRule | LookupRule | GroupRule | LineageRule | NestedRule | TimeRule


class Stratum(msgspec.Struct, frozen=True):
    """Relations that are evaluated together.

    `method` is `absorption` (a recursive component), `counting` (a single relation) or `kept` (one kept relation, with
    the one SyncRule or StampRule that writes it). `inputs` are
    the relations of lower strata and base relations that its rules read, in a fixed order.
    """

    index: int
    method: Literal["absorption", "counting", "kept"]
    relations: tuple[str, ...]
    inputs: tuple[str, ...]
    rules: tuple[PlanRule, ...]


class Plan(msgspec.Struct, frozen=True):
    """A whole program, ready to run. `facts` are the facts in the program text, by relation.

    `outputs` are the relations to show; a relation pruned by aggregate selection is not among them.
    `aggregates` maps each aggregate function that a user registered to its Python implementation.
    `notes` are remarks of the passes ("aggregate selection not pushed: ..."), for `explain`.
    `syncs` has, for each view that rests on synchronised reads, directly or not, the relations that these are.
    `sharing` says, line by line, which views read one another although they do not say so (`planner.sharing`).
    """

    relations: dict[str, RelationPlan]
    strata: tuple[Stratum, ...]
    outputs: tuple[str, ...]
    facts: dict[str, tuple[tuple[Any, ...], ...]]
    aggregates: dict[str, Any]
    notes: tuple[str, ...] = ()
    syncs: dict[str, tuple[str, ...]] = {}
    sharing: tuple[str, ...] = ()

    @property
    def timed(self) -> bool:
        """Whether moving the clock makes steps: what is true depends on it, besides `ttl`, or on when it came."""
        dated = any(r.stream or r.stamped for r in self.relations.values())
        return dated or any(isinstance(rule, TimeRule) for s in self.strata for rule in s.rules)

    @property
    def published(self) -> tuple[str, ...]:
        """The relations whose changes are told: the views that are kept whole, and base relations among the outputs."""
        return tuple(
            name
            for name, r in self.relations.items()
            if (r.kind == "view" and r.selection is None) or (r.kind == "base" and name in self.outputs)
        )

    @property
    def pruned(self) -> tuple[str, ...]:
        """The relations of which aggregate selection keeps only the best tuples."""
        return tuple(name for name, r in self.relations.items() if r.selection is not None)
