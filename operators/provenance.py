"""Absorption provenance: for every tuple, a monotone Boolean function of the base tuples that support it.

A *variable* stands for one insertion of one base tuple. The tuple is in the view as long as its annotation
is not false with the dead variables set to false (section 4 of the absorption paper).

An *annotation* is one of

- a cube, `(v1, v2, ...)`: the conjunction of variables. A base tuple has `(v,)`; a derivation that came
  from another partition is a longer one;
- a pair, `(a, b)` of annotations: the conjunction of two parents, by reference. It costs one small tuple
  however long the derivation is, and it says which very annotations it rests on, so that deaths can be
  followed by identity;
- a `Diagram`: a BDD with a conservative support beside it, wherever derivations are merged.

All functions here are monotone: nothing is ever negated, so setting a variable to false is universal
quantification, which CUDD does at the cost of the diagram and not of the number of variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, final

try:
    from dd import cudd as _bdd
except ImportError:  # wheels without CUDD: the pure Python diagrams have the same interface
    from dd import autoref as _bdd

# Estimates, not limits. CUDD's own are made for one large problem and are slow to set up; there is a manager for
# every recursive component on every partition here.
_ESTIMATES = {"memory_estimate": 2**28, "initial_cache_size": 2**12}

__all__ = ["Annotation", "Diagram", "Provenance", "cube", "cubes", "support"]


@final
class Diagram:
    """A BDD and a superset of the variables that it mentions.

    The superset is what makes the hot path cheap: asking CUDD for a support walks the whole manager.
    """

    __slots__ = ("function", "support")

    def __init__(self, function: Any, support: frozenset[int]) -> None:
        self.function = function
        self.support = support

    def __repr__(self) -> str:
        return f"Diagram({sorted(self.support)})"


Annotation = tuple[Any, ...] | Diagram


def support(annotation: Annotation) -> set[int]:
    """The variables that an annotation rests on (for a diagram: a superset).

    >>> sorted(support(((1,), ((2,), (1, 3)))))
    [1, 2, 3]
    """
    found: set[int] = set()
    seen: set[int] = set()
    stack = [annotation]
    while stack:
        a = stack.pop()
        if type(a) is Diagram:
            found |= a.support
        elif id(a) not in seen:
            seen.add(id(a))
            if a and type(a[0]) is not int:
                stack.extend(a)
            else:
                found.update(a)
    return found


class Provenance:
    """The variables and diagrams of one partition.

    Life of a variable: `fresh` hands out a number that no other partition uses; it is dead from the moment
    its tuple is deleted; `release` takes it back once the engine is quiescent and nothing mentions it. The
    BDD level behind it is made when the variable first enters a diagram and is reused after release.

    >>> p = Provenance()
    >>> a, b = (p.fresh(),), (p.fresh(),)
    >>> both = p.conjunction(a, b)
    >>> p.disjunction(p.diagram(a), both) is not None   # absorbed: a or (a and b) is a
    True
    >>> p.disjunction(p.diagram(a), both).function == p.diagram(a).function
    True
    >>> p.restrict(both, frozenset({0})) is None
    True
    """

    def __init__(self, partition: int = 0, partitions: int = 1, backend: Any = None) -> None:
        self.partition = partition
        self.partitions = partitions
        self._module = backend or _bdd
        self._manager: Any = None
        self._made = 0
        self._free: list[int] = []
        self._levels: dict[int, tuple[int, Any]] = {}  # variable -> (level, its function)
        self._spare_levels: list[int] = []
        self._level_count = 0
        self._functions: list[Any] = []  # level -> function of that level's variable
        self._variable_of: dict[str, int] = {}  # the diagrams' own name of a level -> variable

    @property
    def _bdd(self) -> Any:
        """The BDD manager, made when the first derivations are merged: many components never need one."""
        if self._manager is None:
            estimates = _ESTIMATES if self._module.__name__ == "dd.cudd" else {}
            self._manager = self._module.BDD(**estimates)
            # dynamic reordering is on by default and costs far more than it saves here
            self._manager.configure(reordering=False)
        return self._manager

    # --- variables -------------------------------------------------------------------------------------------

    def fresh(self) -> int:
        """A variable that nothing alive mentions. O(1)."""
        if self._free:
            return self._free.pop()
        v = self.partition + self.partitions * self._made
        self._made += 1
        return v

    def release(self, dead: Iterable[int]) -> None:
        """Forget variables that died. Call when quiescent: no annotation here mentions them any more."""
        for v in dead:
            level = self._levels.pop(v, None)
            if level is not None:
                self._spare_levels.append(level[0])
            if v % self.partitions == self.partition:
                self._free.append(v)

    def _level(self, v: int) -> tuple[int, Any]:
        entry = self._levels.get(v)
        if entry is None:
            if self._spare_levels:
                level = self._spare_levels.pop()
            else:
                level = self._level_count
                self._level_count += 1
                self._bdd.add_var(f"v{level}")
                self._functions.append(self._bdd.var(f"v{level}"))
            entry = self._levels[v] = (level, self._functions[level])
            self._variable_of[f"v{level}"] = v
        return entry

    @property
    def variables(self) -> int:
        """How many variables this partition has handed out and not got back."""
        return self._made - len(self._free)

    @property
    def levels(self) -> int:
        """How many BDD levels are in use."""
        return len(self._levels)

    @property
    def nodes(self) -> int:
        """How many BDD nodes the manager holds."""
        return 0 if self._manager is None else len(self._manager)

    # --- functions -------------------------------------------------------------------------------------------

    def cube(self, variables: Iterable[int]) -> Any:
        """The BDD of a conjunction, built from the lowest level up so that each step adds one node."""
        function = None
        for _, f in sorted((self._level(v) for v in variables), key=_by_level, reverse=True):
            function = f if function is None else f & function
        return self._bdd.true if function is None else function

    def diagram(self, annotation: Annotation) -> Diagram:
        """The annotation as a diagram."""
        if type(annotation) is Diagram:
            return annotation
        mentioned: set[int] = set()
        functions: list[Any] = []
        seen: set[int] = set()
        cube: set[int] = set()
        stack: list[Annotation] = [annotation]
        while stack:
            a = stack.pop()
            if type(a) is Diagram:
                functions.append(a.function)
                mentioned |= a.support
            elif id(a) not in seen:
                seen.add(id(a))
                if a and type(a[0]) is not int:
                    stack.extend(a)
                else:
                    cube.update(a)
        function = self.cube(cube)
        for f in functions:
            function = function & f
        return Diagram(function, frozenset(mentioned | cube))

    def conjunction(self, a: Annotation, b: Annotation) -> Diagram:
        """Both: the annotation of a join's result."""
        a, b = self.diagram(a), self.diagram(b)
        return Diagram(a.function & b.function, a.support | b.support)

    def disjunction(self, a: Diagram, b: Diagram) -> Diagram:
        """Either. Returns `a` itself if it absorbs `b`, so that `is` tells whether anything was learnt."""
        function = a.function | b.function
        if function == a.function:
            return a
        if function == b.function:
            return b
        return Diagram(function, a.support | b.support)

    def killer(self, dead: Iterable[int]) -> Any:
        """What `restrict` needs of a set of dead variables, computed once per batch."""
        return self.cube(v for v in dead if v in self._levels)

    def restrict(self, diagram: Diagram, dead: frozenset[int] | set[int], killer: Any = None) -> Diagram | None:
        """The diagram with the dead variables false; None if nothing is left. The same object if untouched."""
        if diagram.support.isdisjoint(dead):
            return diagram
        function = self._bdd.apply("forall", self.killer(dead) if killer is None else killer, diagram.function)
        if function == self._bdd.false:
            return None
        return Diagram(function, diagram.support - dead)

    def exact_support(self, annotation: Annotation) -> set[int]:
        """The variables that an annotation depends on. Slow for diagrams: for tests."""
        if type(annotation) is not Diagram and not _has_diagram(annotation):
            return support(annotation)
        return {self._variable_of[name] for name in self.diagram(annotation).function.support}

    def implicant(self, annotation: Annotation) -> set[int]:
        """Variables that suffice: one derivation out of those that the annotation stands for.

        >>> p = Provenance()
        >>> p.implicant(p.disjunction(p.conjunction((0,), (1,)), p.diagram((2,)))) in ({0, 1}, {2})
        True
        """
        if type(annotation) is not Diagram and not _has_diagram(annotation):
            return support(annotation)
        chosen: set[int] = set()
        u = self.diagram(annotation).function
        while u != self._bdd.true:
            low, high = (~u.low, ~u.high) if u.negated else (u.low, u.high)
            if low != self._bdd.false:  # monotone: if it can be had without this variable, it can
                u = low
            else:
                chosen.add(self._variable_of[u.var])
                u = high
        return chosen

    # --- shipping --------------------------------------------------------------------------------------------

    def flat(self, annotation: Annotation) -> Annotation:
        """The annotation without references to others: a cube or a diagram."""
        cube = _conjuncts(annotation) if type(annotation) is tuple else None
        return self.diagram(annotation) if cube is None else tuple(cube)

    def encode(self, annotation: Annotation) -> list[Any]:
        """A cube as `[v, ...]`, a diagram as `[[v, low, high, ...]]`.

        Nodes of a diagram come children first; 0 and 1 are the leaves, the node at position i is i + 2, and
        the last one is the root. Receivers need not agree on an order of the variables.
        """
        if type(annotation) is tuple:
            cube = _conjuncts(annotation)
            if cube is not None:
                return cube
        root = self.diagram(annotation).function
        nodes: list[int] = []
        places: dict[int, int] = {int(self._bdd.false): 0, int(self._bdd.true): 1}
        stack = [root]
        while stack:  # by hand: a diagram can be deeper than Python's own stack
            u = stack[-1]
            if int(u) in places:
                stack.pop()
                continue
            low, high = (~u.low, ~u.high) if u.negated else (u.low, u.high)
            below = [child for child in (low, high) if int(child) not in places]
            if below:
                stack.extend(below)
            else:
                nodes.extend((self._variable_of[u.var], places[int(low)], places[int(high)]))
                places[int(u)] = len(nodes) // 3 + 1
        return [nodes]

    def decode(self, shipped: list[Any]) -> Annotation:
        """What `encode` shipped, as an annotation of this partition."""
        if not shipped or type(shipped[0]) is int:
            return tuple(shipped)
        flat = shipped[0]
        for v in reversed(flat[::3]):
            self._level(v)  # new variables get the sender's order: in the reverse one each step rebuilds all before it
        functions = [self._bdd.false, self._bdd.true]
        for i in range(0, len(flat), 3):
            v, low, high = flat[i : i + 3]
            functions.append(self._bdd.ite(self._level(v)[1], functions[high], functions[low]))
        return Diagram(functions[-1], frozenset(flat[::3]))

    def size(self, annotation: Annotation) -> int:
        """Bytes of the shipped form of an annotation: about three per variable or diagram node."""
        shipped = self.encode(annotation)
        numbers = shipped[0] if shipped and type(shipped[0]) is list else shipped
        return 1 + sum(_varint(n) for n in numbers)

    def clear(self) -> None:
        """Let go of the manager; no function of it may be in use any more."""
        self._levels.clear()
        self._functions.clear()
        self._manager = None

    def check(self) -> None:
        """Assert what must always hold of the bookkeeping (not of the annotations, which others keep)."""
        assert len(set(self._free)) == len(self._free), "a variable was released twice"
        used = [level for level, _ in self._levels.values()]
        assert len(set(used)) == len(used), "two variables share a level"
        assert not set(used) & set(self._spare_levels), "a level in use is also spare"


def _by_level(entry: tuple[int, Any]) -> int:
    return entry[0]


def _varint(n: int) -> int:
    """Bytes of a non-negative number in msgpack."""
    return 1 if n < 128 else 2 if n < 256 else 3 if n < 65536 else 5


def cubes(annotations: Iterable[Annotation]) -> list[Sequence[int]]:
    """The variables of each of many pairs that have no diagram in them: `cube`, without a call each.

    >>> cubes([((1,), (2, 3)), (((1,), (2,)), (1, 3)), ((1,), (3, 1)), (((1,), (2,)), ((3,), (4,)))])
    [(1, 2, 3), [1, 3, 2], [1, 3], [1, 2, 3, 4]]
    """
    found: list[Sequence[int]] = []
    add = found.append
    for a in annotations:
        left, right = a  # type: ignore[misc]
        flat: Any
        if type(left[0]) is int and type(right[0]) is int:
            flat = (*left, *right)
        else:
            flat, rest = [], a
            while type(rest[0]) is not int:  # type: ignore[index]
                left, right = rest  # type: ignore[misc]
                if type(left[0]) is int:
                    flat += left
                    rest = right
                elif type(right[0]) is int:
                    flat += right
                    rest = left
                else:
                    flat, rest = [], sorted(support(a))  # type: ignore[assignment]
            flat += rest
        add(flat if len(set(flat)) == len(flat) else list(dict.fromkeys(flat)))
    return found


def cube(annotation: Annotation) -> list[int]:
    """The variables of an annotation that has no diagram in it.

    >>> cube(((1,), (2, 3))), cube((((1,), (2,)), (1, 3)))
    ([1, 2, 3], [1, 3, 2])
    """
    a: Any = annotation
    if len(a) == 2 and type(a[0]) is tuple and len(a[0]) == 1 and type(a[1][0]) is int and type(a[0][0]) is int:
        left, right = a
        return list(right) if left[0] in right else [*left, *right]  # one step from what another partition shipped
    found: list[int] = []
    while type(a[0]) is not int:  # a chain of steps, each with a cube on one side, is what most are
        left, right = a
        if type(left[0]) is int:
            found += left
            a = right
        elif type(right[0]) is int:
            found += right
            a = left
        else:
            return sorted(support(annotation))
    found += a
    return list(dict.fromkeys(found))


def _conjuncts(annotation: tuple[Any, ...]) -> list[int] | None:
    """The variables of a conjunction; None if there is a diagram in it."""
    if not annotation:
        return []
    return None if _has_diagram(annotation) else cube(annotation)


def _has_diagram(annotation: Annotation) -> bool:
    seen: set[int] = set()
    stack = [annotation]
    while stack:
        a = stack.pop()
        if type(a) is Diagram:
            return True
        if a and type(a[0]) is not int and id(a) not in seen:
            seen.add(id(a))
            stack.extend(a)
    return False
