"""The plan: what every partition runs, as plain immutable data.

A plan is a list of strata, bottom up. A stratum defines one relation, or several that are recursive through
each other. Rules have at most two inputs: longer bodies are chains over *auxiliary* relations, so that
a join, its exchange and its state are the same thing whether a person or the planner named the result.

The rows that expressions see are described in `operators.expr`: the left tuple's columns, then the right's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from operators.expr import Expr

BROADCAST: Literal["all"] = "all"

Placement = tuple[int, ...] | Literal["all"]
"""Where tuples live: hashed by these columns (`()` is one fixed partition), or a copy on every partition."""


@dataclass(frozen=True, slots=True)
class RelationPlan:
    """A relation of the plan.

    `kind`: `base` (facts and updates), `view` (a relation of the program that rules define; facts may be
    added to it as well), `auxiliary` (made by the planner).
    `partition`: the columns whose hash picks the owner of a tuple.
    `weighted`: an auxiliary or a `bag` whose multiplicities matter to its readers; otherwise a set.
    `selection`: aggregate selection pushed into the relation's Fixpoint, if the planner proved it.
    """

    name: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    kind: Literal["base", "view", "auxiliary"]
    partition: tuple[int, ...]
    key: tuple[int, ...] = ()
    ttl: float | None = None
    bag: bool = False
    weighted: bool = False
    selection: Selection | None = None

    @property
    def arity(self) -> int:
        return len(self.columns)


@dataclass(frozen=True, slots=True)
class Selection:
    """Keep, per group, the tuples that are best for at least one of the values (AggSel).

    `values` are pairs of a column and `min` or `max`. `strict`: a recursive step that starts from a worse value always
    ends at a worse one, as long as numbers are whole. Nothing that is best can then rest on a tuple that is not.
    """

    group: tuple[int, ...]
    values: tuple[tuple[int, Literal["min", "max"]], ...]
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a rule: a relation, where the rule wants its tuples, and the columns it joins on.

    `at == relation.partition` means that tuples are met at home and nothing is shipped.
    """

    relation: str
    at: Placement
    key: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MapRule:
    """`head(outputs) :- input, where.`: filter, compute and project, one tuple at a time."""

    id: str
    head: str
    input: Input
    where: tuple[Expr, ...]
    outputs: tuple[Expr, ...]
    text: str


@dataclass(frozen=True, slots=True)
class JoinRule:
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


@dataclass(frozen=True, slots=True)
class LookupRule:
    """`head(key..., value)`: for each distinct key of `left`, what `function` says of the matching `inner` rows.

    The key is `left.key`. An inner row matches if its `inner.key` columns equal the first `len(inner.key)`
    key columns and `where` holds over the row (key columns, inner columns). `value` is over the same row.
    `function` `absent` gives the head `key` (no value) when nothing matches: negation. Otherwise it is an
    aggregate; `count` and `sum` of nothing are 0, any other aggregate of nothing gives no head tuple.
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


@dataclass(frozen=True, slots=True)
class GroupRule:
    """`head(group..., aggregates...) :- input, where.`, the head aggregates of a rule.

    `aggregates` are pairs of a function and its argument (None for `count<*>`). `layout` puts the head
    together: column i of the head is entry `layout[i]` of (group..., results...).
    """

    id: str
    head: str
    input: Input
    where: tuple[Expr, ...]
    group: tuple[Expr, ...]
    aggregates: tuple[tuple[str, Expr | None], ...]
    layout: tuple[int, ...]
    text: str


PlanRule = MapRule | JoinRule | LookupRule | GroupRule


@dataclass(frozen=True, slots=True)
class Stratum:
    """Relations that are evaluated together.

    `method` is `absorption` (a recursive component) or `counting` (a single relation). `inputs` are
    the relations of lower strata and base relations that its rules read, in a fixed order.
    """

    index: int
    method: Literal["absorption", "counting"]
    relations: tuple[str, ...]
    inputs: tuple[str, ...]
    rules: tuple[PlanRule, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole program, ready to run. `facts` are the facts in the program text, by relation.

    `outputs` are the relations to show; a relation pruned by aggregate selection is not among them.
    `aggregates` maps each aggregate function that a user registered to its Python implementation.
    `notes` are remarks of the passes ("aggregate selection not pushed: ..."), for `explain`.
    """

    relations: dict[str, RelationPlan]
    strata: tuple[Stratum, ...]
    outputs: tuple[str, ...]
    facts: dict[str, tuple[tuple[Any, ...], ...]]
    aggregates: dict[str, Any]
    notes: tuple[str, ...] = ()

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
