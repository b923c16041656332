"""Whether tuples are derivable: the derivation graph is walked backwards, from partition to partition.

A tuple that lost its support is a *goal*. To prove it, one of its edges is looked at: the edge's parents become goals
where they are owned, unless they are base tuples, which are proven by being there; whoever waits for a goal is told
when it is proven. A goal is tabled: asked for once in a transaction, from wherever, it is not walked again.

First every goal looks at its first edge only. That is the support of a tuple that was not in doubt, so mostly it
leads straight down to base tuples. Where a walk runs in a circle, nothing is under way any more and the goal is still
open: then, on all partitions at once, open goals look at their other edges (`walk`, until nobody has any). With lazy
shipping a part of a tuple's edges wait where they were made: those partitions are asked to vouch for it. What is
open when there is no edge left to look at can only be derived from itself: it is not derivable (`verdict`).

A goal that is proven gets the edge that proved it as its support. Such supports lead to proven tuples only, and never
in a circle, since a goal is proven after the parents that it was proven from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.edges import Edge, promote
from operators.join import PipelinedHashJoin
from operators.kernels import parents

if TYPE_CHECKING:
    from livelog.runtime.relative import Relative

__all__ = ["Derivability"]

Tuple = tuple[Any, ...]


class _Goal:
    """A tuple that is to be proven.

    `edges`: where its edges are, None if another partition is asked. `sent`: it is owned elsewhere, and its
    owner asks whether this partition can derive it by another edge than the one that was shipped.
    `steps` wait for it here, `asking` are the partitions that do.
    """

    __slots__ = ("asking", "edges", "proven", "relation", "sent", "steps", "t")

    def __init__(self, relation: str, t: Tuple, edges: Any, sent: bool = False) -> None:
        self.relation = relation
        self.t = t
        self.edges = edges
        self.sent = sent
        self.proven = False
        self.steps: list[_Step] = []
        self.asking: list[int] = []


class _Step:
    """An edge under proof: so many of its parents are still `missing`."""

    __slots__ = ("goal", "key", "missing")

    def __init__(self, goal: _Goal, key: Any, missing: int) -> None:
        self.goal = goal
        self.key = key
        self.missing = missing


class Derivability:
    """The goals of one component on one partition."""

    def __init__(self, component: Relative) -> None:
        self._c = component
        self._doubtful: dict[str, dict[Tuple, None]] = {}
        self._goals: dict[str, dict[Tuple, _Goal]] = {name: {} for name in component.rules}
        self._asked: list[_Goal] = []  # in this walk, for tuples of this partition and of others
        self._agenda: list[_Goal] = []  # new goals, whose first edge is to be looked at
        self._later: list[_Goal] = []  # goals with more edges than the first
        self._mail: dict[tuple[int, str, str], list[Tuple]] = {}  # (partition, kind, relation) -> tuples
        self._rules = {
            name: [(parents(rule.shape), *self._inputs(rule)) for rule in rules]
            for name, rules in component.rules.items()
        }

    def _inputs(self, rule: Any) -> tuple[str | None, str | None]:
        """The relations of a rule's inputs as far as their tuples have to be proven."""
        names = (rule.left.name, rule.right.name) if isinstance(rule, PipelinedHashJoin) else (rule.table.name, "")
        left, right = [name if name in self._c.rules else None for name in names]
        return left, right

    def doubt(self, relation: str, t: Tuple) -> None:
        """A tuple of this partition lost its support."""
        self._doubtful.setdefault(relation, {})[t] = None

    # --- the walk --------------------------------------------------------------------------------------------

    def walk(self) -> bool:
        """Look at the first edge of new goals and at all edges of old ones; whether there was anything to do."""
        later, self._later = [goal for goal in self._later if not goal.proven], []
        doubtful, self._doubtful = self._doubtful, {}
        busy = bool(later)
        for relation, tuples in doubtful.items():
            rows = self._c.home[relation].rows
            for t in tuples:
                if t in rows and t not in self._goals[relation]:
                    busy = True
                    self._own(relation, t)
        for goal in later:
            self._widen(goal)
        self.work()
        return busy

    def receive(self, source: int, kind: str, relation: str, rows: list[Tuple]) -> None:
        """A message of another partition's walk; it is worked off with `work`."""
        goals = self._goals[relation]
        if kind == "need":
            for t in rows:
                goal = goals.get(t) or self._own(relation, t)
                if goal.proven:
                    self._post(source, "proven", relation, t)
                else:
                    goal.asking.append(source)
        elif kind == "proven":
            for t in rows:
                self._prove(goals[t])
        elif kind == "vouch":
            for t in rows:
                goal = _Goal(relation, t, self._c.ships[relation].rows[t], sent=True)
                if len(goal.edges) > 1:
                    self._agenda.append(goal)
        else:
            assert kind == "keep", f"no messages of the kind {kind!r}"
            for t in rows:  # the one that was released stands in front of the one that was shipped before
                edges = self._c.ships[relation].rows[t]
                promote(edges, list(edges)[1])

    def released(self, source: int, relation: str, t: Tuple, edge: Edge) -> None:
        """A partition vouches for a tuple with an edge that waited there, and from now on stands by it with that.

        It comes too late if the edge that this partition shipped before has proven the tuple: what was proven from
        that may be what proves the new edge. Then it has to stand by the old one.
        """
        goal = self._goals[relation][t]
        if goal.proven and next(iter(goal.edges)) == source:
            self._post(source, "keep", relation, t)
        else:
            goal.edges[source] = edge
            self._prove(goal, source)

    def work(self) -> None:
        """Look at first edges until there is no new goal, and send what has gathered."""
        agenda = self._agenda
        while agenda:
            goal = agenda.pop()
            if not goal.proven:
                first = 1 if goal.sent else 0
                for at, (key, value) in enumerate(goal.edges.items()):
                    if at == first:
                        self._look(goal, key, value or key)
                        break
                if not goal.proven and (len(goal.edges) > first + 1 or (self._c.lazy and not goal.sent)):
                    self._later.append(goal)
        for (destination, kind, relation), rows in self._mail.items():
            self._c.send(destination, kind, self._c.number_of_home[relation], rows)
        self._mail.clear()

    def _own(self, relation: str, t: Tuple) -> _Goal:
        """A new goal for a tuple of this partition."""
        goal = self._goals[relation][t] = _Goal(relation, t, self._c.home[relation].rows[t])
        self._asked.append(goal)
        self._agenda.append(goal)
        return goal

    def _goal(self, relation: str, t: Tuple) -> _Goal:
        """The goal for a tuple of any partition."""
        goal = self._goals[relation].get(t)
        if goal is not None:
            return goal
        owner = self._c.routers[relation](t)
        if owner == self._c.partition:
            return self._own(relation, t)
        goal = self._goals[relation][t] = _Goal(relation, t, None)
        self._asked.append(goal)
        self._post(owner, "need", relation, t)
        return goal

    def _widen(self, goal: _Goal) -> None:
        """Look at the edges of a goal that were not looked at, and ask who else has some."""
        looked = 2 if goal.sent else 1
        for at, (key, value) in enumerate(list(goal.edges.items())):
            if goal.proven:
                return
            if type(key) is int and not goal.sent:
                self._post(key, "vouch", goal.relation, goal.t)
            if at >= looked:
                self._look(goal, key, value or key)

    def _look(self, goal: _Goal, key: Any, edge: Edge) -> None:
        """Make the parents of an edge goals."""
        of, left, right = self._rules[goal.relation][edge[0]]
        one, two = of(goal.t, edge)
        step = _Step(goal, key, 0)
        for relation, t in ((left, one), (right, two)):
            if relation is not None:
                parent = self._goal(relation, t)
                if not parent.proven:
                    parent.steps.append(step)
                    step.missing += 1
        if not step.missing:
            self._prove(goal, key)

    def _prove(self, goal: _Goal, key: Any = None) -> None:
        """A goal is proven by this edge, and with it, perhaps, what waits for it."""
        proven = [(goal, key)]
        while proven:
            goal, key = proven.pop()
            if goal.proven:
                continue
            goal.proven = True
            if goal.edges is not None:
                promote(goal.edges, key)
            if goal.sent:
                edge = next(iter(goal.edges))
                self._post(self._c.routers[goal.relation](goal.t), "release", goal.relation, goal.t + edge)
            for asking in goal.asking:
                self._post(asking, "proven", goal.relation, goal.t)
            for step in goal.steps:
                step.missing -= 1
                if not step.missing:
                    proven.append((step.goal, step.key))

    def _post(self, destination: int, kind: str, relation: str, t: Tuple) -> None:
        self._mail.setdefault((destination, kind, relation), []).append(t)

    # --- the end ---------------------------------------------------------------------------------------------

    def verdict(self) -> dict[str, list[Tuple]]:
        """There is no edge left to look at, on any partition: the tuples of this one that are not derivable."""
        lost: dict[str, list[Tuple]] = {}
        for goal in self._asked:
            if not goal.proven:
                del self._goals[goal.relation][goal.t]
                if goal.edges is not None:
                    lost.setdefault(goal.relation, []).append(goal.t)
        self._asked.clear()
        return lost

    def close(self) -> None:
        """The transaction is over; what was proven may not hold in the next one."""
        self._asked.clear()
        for goals in self._goals.values():
            goals.clear()
