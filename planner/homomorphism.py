"""Every aggregate view as q = a(h(.)): a homomorphism h, whose states merge, and an answer function a on top.

h is a homomorphism if the state of two batches together is the merge of their states: then a batch of new facts costs
its own size and a merge. For batches of facts that leave there must be a *diminisher*, which takes a state out of
another. What is not a homomorphism (the mean of two batches is not made of their means) is pulled out into the answer
function, which reads the state of a group and is cheap.

The inference goes bottom up over the plan, as that of the MRQL paper (sections 7 to 9) does over its algebra:

- a base relation, and whatever rules without aggregates make of it, is a bag that merges by bag union. In a recursive
  component that is not so: there its changes are what counts;
- an aggregate over a bag is a monoid of the table below; several in one head are the product of theirs;
- a group-by is the keyed merge of that product: states of the same group merge, others stand side by side;
- a join keeps, under the join key (the lineage), partial states of each side; per key the states are merged side by
  side, and what a pair of them gives is bilinear in the two;
- an answer function is no homomorphism, so a view over aggregate views is one over the *changes* of those:
  each answer that falls is taken out, and each that rises is merged in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from operators.monoids import UserMonoid, parameter_of
from operators.sums import Factor
from planner.passes.stratify import inputs_of
from planner.plan import GroupRule, LineageRule, NestedRule, Plan
from planner.words import expression, row_of

__all__ = ["Homomorphism", "Part", "State", "homomorphisms"]


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a state: what it is, and how two of them merge and one is taken out of another."""

    name: str
    merge: str = "+"
    diminisher: str = "-"


@dataclass(frozen=True, slots=True)
class State:
    """The states of one table: the product of its parts, merged key by key. A group-by has one, without a name."""

    table: str
    key: tuple[str, ...]
    parts: tuple[Part, ...]

    def __str__(self) -> str:
        key = "" if not self.key else f"per {self.key[0]}" if len(self.key) == 1 else f"per ({', '.join(self.key)})"
        words = " ".join(filter(None, (self.table, key)))
        parts = ", ".join(part.name for part in self.parts)
        return f"{words}: {parts}" if words else parts


@dataclass(frozen=True, slots=True)
class Homomorphism:
    """What `homomorphisms` finds of one rule: `answers` are the aggregates of the head, each as read off the state.

    `over` are the aggregate views, and the recursive ones, whose changes it is a homomorphism over.
    """

    states: tuple[State, ...]
    lineage: tuple[str, ...]
    answers: tuple[tuple[str, str], ...]
    over: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """The result in words, for `explain`."""
        parts = list(dict.fromkeys(part for state in self.states for part in state.parts))
        answers = [answer for _, answer in self.answers]
        if len(answers) > 1:
            answers = [f"{name}: {answer}" for name, answer in self.answers]
        lines = [f"over: the changes of {', '.join(self.over)}"] if self.over else []
        return [
            *lines,
            f"state: {'; '.join(map(str, self.states))}",
            f"lineage: {', '.join(self.lineage) or 'none, all facts together'}",
            f"merge: {_each([(part.name, part.merge) for part in parts])}",
            f"diminisher: {_each([(part.name, part.diminisher) for part in parts])}",
            f"answer: {'; '.join(answers)}",
        ]


def homomorphisms(plan: Plan) -> dict[str, Homomorphism]:
    """By rule, the homomorphism of each aggregate view of a plan.

    >>> import datalog, planner
    >>> program = ".decl s1(a: number, b: number) .decl s2(b: number, d: float) q(a, avg<d>) :- s1(a, b), s2(b, d)."
    >>> found = homomorphisms(planner.plan(datalog.check(datalog.parse(program))))
    >>> print(*found["q/1"].lines(), sep="\\n")
    state: s1 per (b, a): count; s2 per b: count, sum d; groups per s1.a: count, sum s2.d
    lineage: b
    merge: + on each
    diminisher: - on each
    answer: sum s2.d / count
    """
    found: dict[str, Homomorphism] = {}
    changes: dict[str, tuple[str, ...]] = {}  # relation -> the views below it of which only changes are known
    for stratum in plan.strata:
        below = tuple(dict.fromkeys(name for source in stratum.inputs for name in changes.get(source, ())))
        for rule in stratum.rules:
            if isinstance(rule, (GroupRule, LineageRule)):
                over = tuple(dict.fromkeys(n for s in inputs_of(rule) for n in changes.get(s.relation, ())))
                found[rule.id] = _infer(rule, plan, over)
            elif isinstance(rule, NestedRule) and rule.shows == "results":
                over = tuple(dict.fromkeys(n for s in inputs_of(rule) for n in changes.get(s.relation, ())))
                found[rule.id] = _nested(rule, plan, over)
        aggregate = any(isinstance(rule, (GroupRule, LineageRule, NestedRule)) for rule in stratum.rules)
        for name in stratum.relations:
            shown = name if plan.relations[name].kind == "view" else name.partition("/")[0].partition("@")[0]
            changes[name] = (shown,) if aggregate or stratum.method == "absorption" else below
    return found


def _infer(rule: GroupRule | LineageRule, plan: Plan, over: tuple[str, ...]) -> Homomorphism:
    row = row_of(rule, plan)
    short = row if isinstance(rule, LineageRule) else [name.rpartition(".")[2] for name in row]
    group = tuple(expression(e, short) for e in rule.group)
    parts: list[Part] = []
    answers = []
    for function, argument in rule.aggregates:
        text = "*" if argument is None else expression(argument, short)
        own, answer = _monoid(function, text, plan.aggregates)
        parts += own
        answers.append((f"{function}<{text}>", answer))
    groups = tuple(dict.fromkeys(parts))
    if isinstance(rule, GroupRule):
        return Homomorphism((State("", group, groups),), group, tuple(answers), over)
    sides: list[State] = []
    for source, partial in zip((rule.left, rule.right), rule.partials, strict=True):
        columns = plan.relations[source.relation].columns
        label = source.relation + ("'" if sides and sides[0].table == source.relation else "")
        key = (*(columns[c] for c in source.key), *(expression(e, columns) for e in partial.kept))
        sides.append(State(label, tuple(dict.fromkeys(key)), _factors(partial.factors, columns)))
    left = plan.relations[rule.left.relation].columns
    lineage = tuple(left[c] for c in rule.left.key)
    return Homomorphism((*sides, State("groups", group, groups)), lineage, tuple(answers), over)


def _nested(rule: NestedRule, plan: Plan, over: tuple[str, ...]) -> Homomorphism:
    """Of nested aggregates each one merges, and so do the sums of the rows by what is compared of them."""
    columns = plan.relations[rule.outer.relation].columns
    tied = [*rule.equal, *rule.free, *([] if rule.key is None else [rule.key])]
    key = tuple(dict.fromkeys(expression(e, columns) for e in tied))
    group = tuple(expression(e, columns) for e in rule.group)
    parts: list[Part] = []
    answers = []
    for function, argument, _ in rule.aggregates:
        text = "*" if argument is None else expression(argument, columns)
        own, answer = _monoid(function, text, plan.aggregates)
        parts += own
        answers.append((f"{function}<{text}>", answer))
    rows = tuple(dict.fromkeys([Part("count"), *parts]))
    states = [State("rows", tuple(dict.fromkeys((*key, *group))), rows)]
    names = [f"inner{i}" for i in range(1, len(rule.asked) + 1)] or ([] if rule.inner is None else ["inner"])
    names += [f"scalar{i}" for i in range(1, len(rule.scalars) + 1)]
    for name, inner in zip(names, rule.inners, strict=True):
        own_columns = plan.relations[inner.input.relation].columns
        by = [*inner.equal, *([] if inner.order is None else [inner.order[1]])]
        text = "*" if inner.value is None else expression(inner.value, own_columns)
        kept = tuple(_monoid(inner.function, text, plan.aggregates)[0])
        states.append(State(name, tuple(expression(e, own_columns) for e in by), kept))
    return Homomorphism((*states, State("groups", group, rows)), key, tuple(answers), over)


def _factors(factors: Sequence[Factor], columns: Sequence[str]) -> tuple[Part, ...]:
    """The sums that are kept of one side. The lifted ones are those of the aggregate that they are lifted for."""
    parts = [Part("count")]
    for factor in factors[1:]:
        assert factor.value is not None
        text = expression(factor.value, columns)
        if factor.lift is None:
            parts.append(Part(f"sum {text}"))
        else:
            parts += _SUMS[factor.lift.__qualname__.partition(".")[0]](text)
    return tuple(dict.fromkeys(parts))


# --- the monoids of the aggregates ---------------------------------------------------------------------------

_SUMS: Mapping[str, Any] = {
    "Sum": lambda x: [Part(f"sum {x}")],
    "coarse": lambda x: [Part(f"sum {x}")],
    "Variance": lambda x: [Part(f"sum {x}"), Part(f"sum {x}^2")],
    "All": lambda x: [Part(f"how many {x} are true")],
}
"""By the class or the function that lifts a value, the sums beside the count."""

_LINEAR: Mapping[str, tuple[str, str]] = {
    "count": ("", "count"),
    "sum": ("Sum", "sum {x}"),
    "sum'": ("Sum", "sum {x}"),
    "avg": ("Sum", "sum {x} / count"),
    "variance": ("Variance", "sum {x}^2 / count - (sum {x} / count)^2"),
    "stddev": ("Variance", "square root of sum {x}^2 / count - (sum {x} / count)^2"),
    "all": ("All", "as many as the count"),
    "any": ("All", "more than none"),
}
_MULTISET: Mapping[str, tuple[str, str]] = {
    "min": ("ordered multiset", "smallest"),
    "max": ("ordered multiset", "largest"),
    "median": ("ordered multiset", "the one in the middle"),
    "quantile": ("ordered multiset", "the one at {p} of the way"),
    "top": ("ordered multiset", "the {p} largest"),
    "bottom": ("ordered multiset", "the {p} smallest"),
    "collect": ("ordered multiset", "the list of them"),
    "count_distinct": ("multiset", "how many are different"),
}


def _monoid(name: str, x: str, registered: Mapping[str, Any]) -> tuple[list[Part], str]:
    """The parts of an aggregate's state, and how the answer is read off them.

    >>> _monoid("min", "c", {})
    ([Part(name='ordered multiset of c', merge='multiset union', diminisher='multiset difference')], 'smallest')
    """
    if name in registered:
        return _registered(name, x, registered[name])
    function, parameter = parameter_of(name)
    if function in _LINEAR:
        sums, answer = _LINEAR[function]
        return [Part("count"), *(_SUMS[sums](x) if sums else [])], answer.format(x=x)
    kind, answer = _MULTISET[function]
    size = (parameter or "").partition(",")[0]
    return [Part(f"{kind} of {x}", "multiset union", "multiset difference")], answer.format(p=size)


def _registered(name: str, x: str, implementation: Any) -> tuple[list[Part], str]:
    if isinstance(implementation, UserMonoid):
        if implementation.inverse is not None:
            return [Part(f"state of {name} of {x}", "the user's", "the user's inverse")], "the user's"
        answer = "the user's, of all of them merged by the user's function"
    else:
        answer = "the user's function of the list of them"
    return [Part(f"multiset of {x}", "multiset union", "multiset difference")], answer


def _each(parts: Sequence[tuple[str, str]]) -> str:
    """How the parts of a state are treated: in one word if all are treated alike."""
    ways: dict[str, list[str]] = {}
    for name, way in parts:
        ways.setdefault(way, []).append(name)
    if len(ways) == 1:
        return f"{next(iter(ways))} on each"
    return ", ".join(f"{way} on {'sums' if way in '+-' else ', '.join(names)}" for way, names in ways.items())
