"""Annotations are monotone Boolean functions: held against truth tables, the same tests for every BDD library."""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from operators.provenance import Annotation, Diagram, Provenance, cube, support
from tests.derivations import Cubes, derivations, minimal, restricted

N = 5
ROWS = 2**N
# Truth tables are ints: bit r is the value for the assignment in which variable v is bit v of r.
COLUMN = [sum(1 << r for r in range(ROWS) if r >> v & 1) for v in range(N)]
FULL = 2**ROWS - 1

Formula = tuple[Annotation, int]


def table_of(p: Provenance, annotation: Annotation) -> int:
    """The truth table of an annotation, read off its shipped form by nobody's code but this."""
    shipped = p.encode(annotation)
    if not shipped or isinstance(shipped[0], int):
        table = FULL
        for v in shipped:
            table &= COLUMN[v]
        return table
    tables, flat = [0, FULL], shipped[0]
    for i in range(0, len(flat), 3):
        v, low, high = flat[i : i + 3]
        tables.append((COLUMN[v] & tables[high]) | (~COLUMN[v] & FULL & tables[low]))
    return tables[-1]


def without(table: int, dead: Iterable[int]) -> int:
    """The truth table with some variables set to false."""
    mask = sum(1 << v for v in dead)
    return sum(1 << r for r in range(ROWS) if table >> (r & ~mask) & 1)


def draw(p: Provenance, rng: random.Random, depth: int) -> Formula:
    """A random annotation over variables 0 to N-1, with its truth table: cubes, pairs and diagrams mixed."""
    kind = rng.choice(["cube", "pair", "and", "or"]) if depth else "cube"
    if kind == "cube":
        variables = rng.sample(range(N), rng.randint(1, 2))
        table = FULL
        for v in variables:
            table &= COLUMN[v]
        return tuple(variables), table
    (a, one), (b, two) = draw(p, rng, depth - 1), draw(p, rng, depth - 1)
    if kind == "pair":
        return (a, b), one & two
    if kind == "and":
        return p.conjunction(a, b), one & two
    return p.disjunction(p.diagram(a), p.diagram(b)), one | two


class Laws:
    """The laws; subclasses name the library."""

    library = ""

    @pytest.fixture
    def backend(self) -> Any:
        return pytest.importorskip(self.library)

    def fresh(self, backend: Any, seed: int = 0) -> Provenance:
        """N variables, with their levels made in an order that depends on the seed."""
        p = Provenance(backend=backend)
        order = [p.fresh() for _ in range(N)]
        random.Random(seed).shuffle(order)
        for v in order:
            p.diagram((v,))
        return p

    def formulas(self, backend: Any, count: int, depth: int = 3) -> list[tuple[Provenance, Annotation, int]]:
        drawn = []
        for seed in range(count):
            p = self.fresh(backend, seed)
            drawn.append((p, *draw(p, random.Random(seed), depth)))
        return drawn

    def test_annotations_mean_what_they_were_built_from(self, backend: Any) -> None:
        for p, annotation, table in self.formulas(backend, 60):
            assert table_of(p, annotation) == table
            assert table_of(p, p.diagram(annotation)) == table
            assert table_of(p, p.flat(annotation)) == table
            p.check()

    def test_conjunction_and_disjunction(self, backend: Any) -> None:
        p, rng = self.fresh(backend), random.Random(1)
        for _ in range(40):
            (a, one), (b, two), (c, three) = (draw(p, rng, 2) for _ in range(3))
            x, y, z = p.diagram(a), p.diagram(b), p.diagram(c)
            assert p.conjunction(a, b).function == p.conjunction(b, a).function
            assert p.disjunction(x, y).function == p.disjunction(y, x).function
            assert table_of(p, p.conjunction(p.conjunction(a, b), c)) == one & two & three
            assert table_of(p, p.disjunction(p.disjunction(x, y), z)) == one | two | three
            distributed = p.disjunction(p.conjunction(x, y), p.conjunction(x, z))
            assert p.conjunction(x, p.disjunction(y, z)).function == distributed.function

    def test_absorption_is_told_by_identity(self, backend: Any) -> None:
        p, rng = self.fresh(backend), random.Random(2)
        outcomes = set()
        for _ in range(60):
            (a, one), (b, two) = draw(p, rng, 2), draw(p, rng, 2)
            x, y = p.diagram(a), p.diagram(b)
            assert p.disjunction(x, p.conjunction(x, y)) is x
            merged = p.disjunction(x, y)
            assert (merged is x) == (one | two == one)
            if merged is not x:
                assert (merged is y) == (one | two == two)
            outcomes.add((merged is x, merged is y))
        assert len(outcomes) == 3, "all three outcomes are to be seen"

    def test_restriction_is_evaluation_with_the_variables_false(self, backend: Any) -> None:
        rng = random.Random(3)
        for p, annotation, table in self.formulas(backend, 60):
            diagram = p.diagram(annotation)
            dead = set(rng.sample(range(N), rng.randint(0, 3)))
            left = p.restrict(diagram, dead)
            want = without(table, dead)
            assert (left is None) == (want == 0)
            if left is not None:
                assert table_of(p, left) == want
                assert left.support.isdisjoint(dead)
                assert (left is diagram) == diagram.support.isdisjoint(dead)
                step: Diagram | None = diagram
                for v in dead:  # one after the other is the same as at once
                    assert step is not None
                    step = p.restrict(step, {v})
                assert step is not None and step.function == left.function
            killer = p.killer(dead)
            again = p.restrict(diagram, dead, killer)
            assert (again is None) == (left is None) and (again is None or again.function == left.function)

    def test_unknown_variables_restrict_nothing(self, backend: Any) -> None:
        p = self.fresh(backend)
        late = p.fresh()  # it has no level: no diagram ever mentioned it
        diagram = p.disjunction(p.conjunction((0,), (1,)), p.diagram((2,)))
        assert p.restrict(diagram, {late}) is diagram
        left = p.restrict(diagram, {late, 2})
        assert left is not None and left.function == p.diagram((0, 1)).function

    def test_a_support_covers_what_the_function_depends_on(self, backend: Any) -> None:
        for p, annotation, table in self.formulas(backend, 60):
            needed = {v for v in range(N) if without(table, {v}) != table}
            assert needed <= support(annotation)
            assert support(p.diagram(annotation)) == support(annotation)
            shipped = p.decode(p.encode(p.diagram(annotation)))
            assert support(shipped) == needed, "what is shipped mentions no more than it has to"

    def test_an_implicant_suffices_and_no_part_of_it_does(self, backend: Any) -> None:
        for p, annotation, table in self.formulas(backend, 60):
            chosen = p.implicant(annotation)
            row = sum(1 << v for v in chosen)
            assert table >> row & 1
            assert not any(table >> (row & ~(1 << v)) & 1 for v in chosen)

    def test_shipping_between_managers_with_different_orders(self, backend: Any) -> None:
        for seed, (p, annotation, table) in enumerate(self.formulas(backend, 40)):
            q = Provenance(1, 2, backend)
            if seed % 3:
                order = list(range(N))
                random.Random(seed + 1000).shuffle(order)
                q.diagram(tuple(order[: seed % (N + 1)]))  # some levels are there already, in another order
                for v in order:
                    q.diagram((v,))
            received = q.decode(p.encode(annotation))
            assert table_of(q, received) == table
            home = p.decode(q.encode(received))
            assert p.diagram(home).function == p.diagram(annotation).function
            q.check()

    def test_the_shipped_form_survives_msgpack(self, backend: Any) -> None:
        for p, annotation, table in self.formulas(backend, 20):
            encoded = p.encode(annotation)
            data = msgspec.msgpack.encode(encoded)
            assert table_of(p, p.decode(msgspec.msgpack.decode(data))) == table
            assert abs(len(data) - p.size(annotation)) <= 4, "the size is that of the shipped form, up to headers"

    def test_numbers_are_recycled_and_partitions_never_share_one(self, backend: Any) -> None:
        one, two = Provenance(0, 2, backend), Provenance(1, 2, backend)
        mine, theirs = [one.fresh() for _ in range(4)], [two.fresh() for _ in range(4)]
        assert sorted(mine + theirs) == list(range(8))
        diagram = one.disjunction(one.diagram((mine[0],)), one.diagram((theirs[0],)))
        assert (one.variables, one.levels) == (4, 2)
        one.release([mine[0], theirs[0]])
        one.check()
        assert (one.variables, one.levels) == (3, 0)
        assert one.fresh() == mine[0], "its own number comes back"
        assert one.fresh() not in mine + theirs, "the other partition's does not"
        made = one._level_count
        one.diagram((mine[1], mine[2]))
        assert one._level_count == made, "the levels are used again"
        one.check()
        del diagram

    def test_a_recycled_variable_has_nothing_of_its_past(self, backend: Any) -> None:
        p = self.fresh(backend)
        kept = p.disjunction(p.conjunction((0,), (1,)), p.conjunction((2,), (3,)))
        left = p.restrict(kept, {0})
        assert left is not None
        p.release([0])
        again = p.fresh()
        assert again == 0
        new = p.disjunction(left, p.diagram((again,)))
        assert table_of(p, new) == (COLUMN[2] & COLUMN[3]) | COLUMN[0]
        assert p.implicant(p.diagram((again,))) == {0}

    def test_long_chains_of_pairs(self, backend: Any) -> None:
        """A derivation of 100,000 steps is a tuple nested as deep: nothing may recurse into it."""
        p = Provenance(backend=backend)
        variables = [p.fresh() for _ in range(20)]
        cubes = [(v,) for v in variables]
        chain: Annotation = cubes[0]
        for i in range(1, 100_000):
            chain = (chain, cubes[i % 20]) if i % 2 else (cubes[i % 20], chain)
        assert support(chain) == set(variables)
        assert sorted(p.flat(chain)) == variables, "in any order, but each once"
        assert sorted(p.encode(chain)) == variables
        assert p.implicant(chain) == set(variables)
        assert p.size(chain) == 21
        assert p.diagram(chain).function == p.diagram(tuple(variables)).function
        mixed = (chain, p.disjunction(p.diagram(cubes[0]), p.diagram(cubes[1])))
        assert p.diagram(mixed).function == p.diagram(chain).function
        assert p.decode(p.encode(mixed)) is not None

    def test_long_cubes_as_diagrams(self, backend: Any) -> None:
        """Derivations with many different variables, through every function that walks a diagram."""
        p = Provenance(0, 2, backend)
        q = Provenance(1, 2, backend)
        variables = [p.fresh() for _ in range(600)]
        diagram = p.diagram(tuple(variables))
        assert p.implicant(diagram) == set(variables)
        received = q.decode(p.encode(diagram))
        assert support(received) == set(variables)
        assert p.restrict(diagram, {variables[300]}) is None

    def test_stress(self, backend: Any) -> None:
        """A random life of annotations against sets of derivations, with deaths, recycling and a second partition."""
        for seed in range(3):
            self._live(backend, random.Random(seed))

    def _live(self, backend: Any, rng: random.Random) -> None:
        parts = [Provenance(i, 2, backend) for i in range(2)]
        kept: list[tuple[int, Diagram, Cubes]] = []  # partition, annotation, what it means
        alive: set[int] = set()
        for _ in range(150):
            action = rng.random()
            if action < 0.35 or len(kept) < 3:
                i = rng.randrange(2)
                v = parts[i].fresh()
                assert v not in alive and v % 2 == i
                alive.add(v)
                kept.append((i, parts[i].diagram((v,)), frozenset({frozenset({v})})))
            elif action < 0.75:
                (i, a, one), (j, b, two) = rng.sample(kept, 2)
                if i != j:
                    b = parts[i].diagram(parts[i].decode(parts[j].encode(b)))
                if rng.random() < 0.5 and len(one) * len(two) < 40:
                    merged, means = parts[i].conjunction(a, b), minimal(c | d for c in one for d in two)
                else:
                    merged, means = parts[i].disjunction(a, b), minimal(one | two)
                kept.append((i, merged, means))
            else:
                dead = set(rng.sample(sorted(alive), min(len(alive), rng.randint(1, 3))))
                alive -= dead
                survivors = []
                for i, a, means in kept:
                    left = parts[i].restrict(a, dead)
                    means = restricted(means, dead)
                    assert (left is None) == (not means)
                    if left is not None:
                        survivors.append((i, left, means))
                kept = survivors if len(survivors) < 25 else rng.sample(survivors, 25)
                for part in parts:
                    part.release(dead)
                    assert part.levels <= len(alive)
            for part in parts:
                part.check()
            i, a, means = rng.choice(kept) if kept else (0, None, frozenset())
            if a is not None:
                assert derivations(parts[i], a) == means
                assert parts[i].implicant(a) in means
        assert sum(part.variables for part in parts) == len(alive)


class TestCudd(Laws):
    library = "dd.cudd"


class TestAutoref(Laws):
    library = "dd.autoref"


def test_the_default_library_is_the_fast_one_where_it_is_installed() -> None:
    try:
        fast = importlib.import_module("dd.cudd")
    except ImportError:
        fast = importlib.import_module("dd.autoref")
    assert Provenance()._module is fast


def test_a_cube_has_every_variable_once() -> None:
    """Whatever the derivation looks like: a step from a cube, a chain, or a tree with branches on both sides."""
    rng = random.Random(1)

    def draw(depth: int) -> Annotation:
        if depth == 0 or rng.random() < 0.2:
            return tuple(rng.sample(range(12), rng.randint(1, 3)))
        sides = draw(depth - 1), draw(rng.choice([0, 0, depth - 1]))
        return sides if rng.random() < 0.5 else sides[::-1]

    shapes = set()
    for depth in (0, 1, 1, 2, 3, 6) * 60:
        annotation = draw(depth)
        found = cube(annotation)
        assert sorted(found) == sorted(support(annotation)), annotation
        assert cube(tuple(found)) == found, "one that is flat already stays as it is"
        shapes.add((depth, len(found)))
    assert len(shapes) > 20


def test_no_manager_is_made_before_derivations_are_merged() -> None:
    p = Provenance()
    a, b = (p.fresh(),), (p.fresh(),)
    pair = (a, b)
    assert p.flat(pair) == (0, 1) and p.encode(pair) == [0, 1] and p.implicant(pair) == {0, 1}
    assert p._manager is None and p.nodes == 0
    p.diagram(pair)
    assert p.nodes > 0
