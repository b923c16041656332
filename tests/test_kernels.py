"""The generated loops against the plainest join there is, for random rules and random tables."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from operators.delta import Delta
from operators.expr import Apply, Col, Const, Expr
from operators.finders import finder
from operators.index import Index
from operators.kernels import Shape, forward, key_of, mapper, parents
from operators.offers import Desk
from operators.partition import Router
from operators.seen import Seen
from operators.zset import ZTable

Row = tuple[Any, ...]
Match = tuple[Row, Row, Row]  # the head, and the left and right tuple behind it

quick = settings(
    max_examples=50, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)

VALUES = st.sampled_from([0, 1, 1.0, 2, -1])
COMPARISONS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt}
ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def mix(a: Any, b: Any) -> Any:
    """A function that has no operator."""
    return 10 * a + b


def value(expr: Expr, row: Row) -> Any:
    """What an expression says, evaluated node by node."""
    if isinstance(expr, Col):
        return row[expr.index]
    if isinstance(expr, Const):
        return expr.value
    return expr.function(*[value(a, row) for a in expr.arguments])


@st.composite
def expressions(draw: Any, width: int, depth: int = 2) -> Expr:
    kind = draw(st.sampled_from(["col", "col", "col", "const", "inline", "call"] if depth else ["col", "const"]))
    if kind == "col" and width:
        return Col(draw(st.integers(0, width - 1)))
    if kind in ("col", "const"):
        return Const(draw(VALUES))
    arguments = (draw(expressions(width, depth - 1)), draw(expressions(width, depth - 1)))
    if kind == "call":
        return Apply("mix", mix, arguments)
    name = draw(st.sampled_from(sorted(ARITHMETIC)))
    return Apply(name, ARITHMETIC[name], arguments, name)


@st.composite
def conditions(draw: Any, width: int) -> tuple[Expr, ...]:
    chosen = []
    for _ in range(draw(st.integers(0, 2))):
        name = draw(st.sampled_from(sorted(COMPARISONS)))
        sides = (draw(expressions(width, 1)), draw(expressions(width, 1)))
        chosen.append(Apply(name, COMPARISONS[name], sides, name))
    return tuple(chosen)


@st.composite
def shapes(draw: Any, joined: bool = True, plain: bool = False) -> Shape:
    """A rule. `plain`: its head only has columns."""
    left = draw(st.integers(0, 3))
    right = draw(st.integers(0, 3)) if joined else None
    width = left + (right or 0)
    keys = []
    if left and right:
        pairs = st.tuples(st.integers(0, left - 1), st.integers(0, right - 1))
        keys = draw(st.lists(pairs, max_size=2, unique=True))
    column = st.builds(Col, st.integers(0, width - 1)) if width else st.builds(Const, VALUES)
    output = column if plain else st.one_of(column, column, expressions(width))
    outputs = tuple(draw(st.lists(output, max_size=3)))
    group: tuple[int, ...] = ()
    values: tuple[tuple[int, str], ...] = ()
    if outputs:
        places = range(len(outputs))
        group = tuple(sorted(draw(st.sets(st.sampled_from(places)))))
        values = tuple(draw(st.lists(st.tuples(st.sampled_from(places), st.sampled_from(["min", "max"])),
                                     min_size=1, max_size=2)))
    return Shape(left, tuple(a for a, _ in keys), right, tuple(b for _, b in keys), draw(conditions(width)), outputs,
                 group, values)


@st.composite
def problems(draw: Any, joined: bool = True, plain: bool = False) -> tuple[Shape, list[Row], list[Row]]:
    shape = draw(shapes(joined, plain))
    rows = [st.lists(st.tuples(*[VALUES] * n), max_size=6, unique=True) for n in (shape.left, shape.right or 0)]
    return shape, draw(rows[0]), draw(rows[1]) if joined else []


def naive(shape: Shape, left: Iterable[Row], right: Iterable[Row]) -> list[Match]:
    """All that a rule derives."""
    found = []
    for t in left:
        for u in right if shape.right is not None else [()]:
            row = t + u
            meets = all(t[a] == u[b] for a, b in zip(shape.left_key, shape.right_key, strict=True))
            if meets and all(value(w, row) for w in shape.where):
                found.append((tuple(value(e, row) for e in shape.outputs), t, u))
    return found


def note(side: str, t: Row) -> Any:
    """Stands for the annotation of a tuple."""
    return (side, t)


class Bench:
    """The tables of a problem as the kernels want them."""

    def __init__(self, shape: Shape, left: list[Row], right: list[Row]) -> None:
        self.shape = shape
        self.tables = {"left": left, "right": right}
        self.rows = {side: {t: note(side, t) for t in ts} for side, ts in self.tables.items()}
        self.matches = naive(shape, left, right)
        self.pairs = [(h, (note("left", t), note("right", u))) for h, t, u in self.matches]

    def index(self, side: str, columns: tuple[int, ...]) -> Callable[[Any], Any]:
        index = Index(columns)
        index.add(self.tables[side])
        return index.find

    def run(
        self, side: str, purpose: str, known: Any = None, sent: Any = None, out: Any = None, annotated: bool = True,
        route: tuple[int, ...] = (),
    ) -> Any:
        """The batch is one whole side, and the other side is what was there before."""
        other, key = ("right", self.shape.right_key) if side == "left" else ("left", self.shape.left_key)
        bare = purpose in ("heads", "there")
        batch: list[Any] = self.tables[side] if bare else list(self.rows[side].items())
        out = [] if out is None else out
        kernel = forward(self.shape, side, purpose, annotated, route)
        kernel(batch, self.index(other, key), self.rows[other], known, sent, out)
        return out


def some(heads: Iterable[Row], step: int) -> set[Row]:
    """Every so many of them."""
    return set(sorted(set(heads), key=repr)[::step])


SIDES = ("left", "right")


@quick
@given(problems())
def test_heads_and_each_give_every_derivation(problem: tuple[Shape, list[Row], list[Row]]) -> None:
    bench = Bench(*problem)
    for side in SIDES:
        assert Counter(bench.run(side, "heads")) == Counter(h for h, _, _ in bench.matches)
        each = Counter((h, (a, b)) for h, a, b in bench.run(side, "each"))
        assert each == Counter(bench.pairs)


@quick
@given(problems())
def test_first_and_direct_skip_what_is_known(problem: tuple[Shape, list[Row], list[Row]]) -> None:
    bench = Bench(*problem)
    heads = [h for h, _, _ in bench.matches]
    known, sent = dict.fromkeys(some(heads, 2), "known"), dict.fromkeys(some(heads, 3))
    for side in SIDES:
        want = Counter((h, p) for h, p in bench.pairs if h not in known and h not in sent)
        assert Counter(bench.run(side, "first", known, sent)) == want
        table: dict[Row, Any] = dict(known)
        out = bench.run(side, "direct", table, ())
        assert len(out) == len(set(heads) - known.keys()), "each new head once"
        assert all((h, p) in bench.pairs and table[h] is p for h, p in out)
        assert table.keys() == known.keys() | set(heads)
        assert all(table[h] == "known" for h in known)


@quick
@given(problems())
def test_there_gives_just_what_is_known(problem: tuple[Shape, list[Row], list[Row]]) -> None:
    bench = Bench(*problem)
    heads = [h for h, _, _ in bench.matches]
    known, sent = dict.fromkeys(some(heads, 2)), dict.fromkeys(some(heads, 3))
    for side in SIDES:
        want = Counter(h for h in heads if h in known or h in sent)
        assert Counter(bench.run(side, "there", known, sent)) == want
        assert bench.run(side, "there", {}, ()) == []


@quick
@given(problems())
def test_without_annotations_a_new_head_gets_nothing(problem: tuple[Shape, list[Row], list[Row]]) -> None:
    """The same heads as with annotations, for every purpose that makes pairs."""
    bench = Bench(*problem)
    heads = [h for h, _, _ in bench.matches]
    known = dict.fromkeys(some(heads, 2), "known")
    for side in SIDES:
        for purpose in ("first", "direct", "select") if bench.shape.values else ("first", "direct"):
            sent: Any = {} if purpose == "select" else ()
            plain, full = dict(known), dict(known)
            out = bench.run(side, purpose, plain, sent, annotated=False)
            assert Counter(h for h, _ in out) == Counter(h for h, _ in bench.run(side, purpose, full, sent))
            assert all(a == 0 for _, a in out)
            assert plain.keys() == full.keys() and all(plain[h] == ("known" if h in known else 0) for h in plain)


@quick
@given(problems())
def test_an_edge_leads_back_to_the_parents(problem: tuple[Shape, list[Row], list[Row]]) -> None:
    """With the head it tells both, and two derivations of one head have two edges."""
    bench = Bench(*problem)
    behind = parents(bench.shape)
    for side in SIDES:
        edges = bench.run(side, "edges")
        assert Counter((h, *behind(h, e)) for h, e in edges) == Counter(bench.matches)
        assert len(set(edges)) == len(set(bench.matches)) and all(e[0] == bench.shape.number for _, e in edges)


@quick
@given(problems(plain=True))
def test_seen_is_direct_with_a_look_before(problem: tuple[Shape, list[Row], list[Row]]) -> None:
    bench = Bench(*problem)
    shape = bench.shape
    heads = [h for h, _, _ in bench.matches]
    for side in SIDES:
        carried = shape.carried(side)
        if carried is None:
            continue
        table: dict[Row, Any] = dict.fromkeys(some(heads, 2), "known")
        before = dict(table)
        seen = Seen(carried, len(shape.outputs))
        seen.add(table)
        out = bench.run(side, "seen", table, seen.groups)
        assert {h for h, _ in out} == set(heads) - before.keys() and len(out) == len({h for h, _ in out})
        assert all((h, p) in bench.pairs and table[h] is p for h, p in out)
        seen.check(table)


@quick
@given(problems(), st.integers(1, 3), st.integers(0, 2))
def test_routed_is_seen_with_a_desk_for_what_others_own(
    problem: tuple[Shape, list[Row], list[Row]], partitions: int, here: int
) -> None:
    bench = Bench(*problem)
    shape, here = bench.shape, here % partitions
    heads = [h for h, _, _ in bench.matches]
    arity = len(shape.outputs)
    for side in SIDES:
        carried = shape.carried(side)
        if carried is None:
            continue
        for route in ((), (0,), tuple(range(arity))[::-1]):
            router = Router(route, partitions)
            desk = Desk(router.owners, here)
            known = some(heads, 2)
            table: dict[Row, Any] = {h: "known" for h in known if router(h) == here}
            offered = {h for h in known if router(h) != here}
            before = {*table, *offered}
            seen = Seen(carried, arity, offered)
            seen.add(before)
            out = bench.run(side, "routed", table, (seen.groups, *desk.parts), route=route)
            assert all(router(h) == here and (h, p) in bench.pairs and table[h] is p for h, p in out)
            left = [(w, h, p) for w, lined, pairs in desk.take() for h, p in zip(lined, pairs, strict=True)]
            assert all(router(h) == w != here and (h, p) in bench.pairs for w, h, p in left)
            new = [h for h, _ in out] + [h for _, h, _ in left]
            assert len(new) == len(set(new)) and set(new) == set(heads) - before
            offered |= {h for _, h, _ in left}
            seen.check(table)


@quick
@given(problems())
def test_select_drops_what_the_best_dominates(problem: tuple[Shape, list[Row], list[Row]]) -> None:
    bench = Bench(*problem)
    shape = bench.shape
    if not shape.values:
        return
    group = key_of(shape.group)
    best = {group(h): [h[c] for c, _ in shape.values] for h, _, _ in bench.matches[::2]}
    known = dict.fromkeys(some((h for h, _, _ in bench.matches), 3))

    def dominated(h: Row) -> bool:
        beaten = best.get(group(h))
        if beaten is None:
            return False
        return all(
            h[c] > b if kind == "min" else h[c] < b for (c, kind), b in zip(shape.values, beaten, strict=True)
        )

    for side in SIDES:
        want = Counter((h, p) for h, p in bench.pairs if h not in known and not dominated(h))
        assert Counter(bench.run(side, "select", known, best)) == want


@quick
@given(problems())
def test_sole_lets_through_what_is_better_than_the_best(problem: tuple[Shape, list[Row], list[Row]]) -> None:
    bench = Bench(*problem)
    if not bench.shape.values:
        return
    bench.shape = replace(bench.shape, values=bench.shape.values[:1])
    ((column, kind),) = bench.shape.values
    group = key_of(bench.shape.group)
    best = {group(h): h for h, _, _ in bench.matches[::2]}

    def better(h: Row) -> bool:
        there = best.get(group(h))
        return there is None or (h[column] < there[column] if kind == "min" else h[column] > there[column])

    for side in SIDES:
        assert Counter(bench.run(side, "sole", {}, best)) == Counter((h, p) for h, p in bench.pairs if better(h))


@quick
@given(problems(), st.integers(-2, 3))
def test_weights_multiply(problem: tuple[Shape, list[Row], list[Row]], factor: int) -> None:
    shape, left, right = problem
    weights = {"left": {t: i + 1 for i, t in enumerate(left)}, "right": {t: factor or 1 for t in right}}
    want: Counter[Row] = Counter()
    for h, t, u in naive(shape, left, right):
        want[h] += weights["left"][t] * weights["right"][u]
    for side, other, key in (("left", "right", shape.right_key), ("right", "left", shape.left_key)):
        table = ZTable()
        buckets = table.index(key)
        table.add(Delta.weighted(list(weights[other].items())))
        out: dict[Row, int] = {}
        forward(shape, side, "weighted")(list(weights[side].items()), buckets.get, None, None, None, out)
        assert {h: w for h, w in out.items() if w} == {h: w for h, w in want.items() if w}


@quick
@given(problems(joined=False))
def test_mappers(problem: tuple[Shape, list[Row], list[Row]]) -> None:
    shape, left, _ = problem
    matches = naive(shape, left, [])
    heads = [h for h, _, _ in matches]
    pairs = [(h, (note("left", t),) * 2) for h, t, _ in matches]
    batch = [(t, note("left", t)) for t in left]

    def run(purpose: str, given: Any, known: Any = (), sent: Any = (), out: Any = None) -> Any:
        out = [] if out is None else out
        mapper(shape, purpose)(given, known, sent, out)
        return out

    assert Counter(run("heads", left)) == Counter(heads)
    assert Counter((h, (a, b)) for h, a, b in run("each", batch)) == Counter(pairs)
    known, sent = dict.fromkeys(some(heads, 2), "known"), dict.fromkeys(some(heads, 3))
    assert Counter(run("first", batch, known, sent)) == Counter(
        (h, p) for h, p in pairs if h not in known and h not in sent
    )
    table: dict[Row, Any] = dict(known)
    out = run("direct", batch, table)
    assert {h for h, _ in out} == set(heads) - known.keys() and all((h, p) in pairs and table[h] is p for h, p in out)
    assert Counter(run("there", left, known, sent)) == Counter(h for h in heads if h in known or h in sent)
    out = []
    mapper(shape, "first", annotated=False)(batch, known, sent, out)
    assert Counter(out) == Counter((h, 0) for h in heads if h not in known and h not in sent)
    behind = parents(shape)
    assert Counter((h, behind(h, e)) for h, e in run("edges", batch)) == Counter((h, (t, None)) for h, t, _ in matches)
    counted = run("weighted", [(t, 2) for t in left], out={})
    assert counted == {h: 2 * n for h, n in Counter(heads).items()}


def hunt(
    bench: Bench, probe: str, given: tuple[int, ...], want: str, tables: Any = None
) -> Callable[[Row], Any]:
    """A finder with the indexes that it asks for, and nothing where the table serves, as a function of one head."""
    shape = bench.shape
    found = finder(shape, probe, given, want)
    second = "right" if found.first == "left" else "left"
    finds: list[Any] = []
    for side, index in ((found.first, found.first_index), (second, found.second_index)):
        finds.append(None if index is None else bench.index(side, index))
    rows = bench.rows

    def search(h: Row) -> Any:
        known, sent, out, others = tables or ({}, {}, [], [])
        other = None if shape.right is None else rows[second]
        found.call([h], finds[0], rows[found.first], finds[1], other, known, sent, out, others)
        if want != "one":
            return out
        assert known == dict(out) and others == ([] if out else [h])
        return out[0][1] if out else None

    return search


def typed(found: Iterable[tuple[Row, Any]]) -> Counter[str]:
    """Derivations as text, in which 1 is not 1.0."""
    return Counter(repr(entry) for entry in found)


@settings(quick, max_examples=150)
@given(st.one_of(problems(), problems(plain=True), problems(joined=False)), st.data())
def test_finder_against_brute_force(problem: tuple[Shape, list[Row], list[Row]], data: Any) -> None:
    bench = Bench(*problem)
    shape = bench.shape
    if shape.right is None:
        bench.pairs = [(h, (note("left", t),) * 2) for h, t, _ in bench.matches]
    width = len(shape.outputs)
    strangers = data.draw(st.lists(st.tuples(*[VALUES] * width), max_size=8))
    everything = tuple(range(width))
    group = shape.group
    for probe in SIDES:
        one = hunt(bench, probe, everything, "one")
        several = hunt(bench, probe, group, "every")
        for h in [*(h for h, _, _ in bench.matches), *strangers]:
            possible = [p for g, p in bench.pairs if g == h]
            found = one(h)
            assert found in possible if possible else found is None, f"{shape} finds {found} for {h}"
            want = [(g, p) for g, p in bench.pairs if all(g[c] == h[c] for c in group)]
            assert typed(several(h)) == typed(want)


@settings(quick, max_examples=150)
@given(st.one_of(problems(), problems(joined=False)), st.data())
def test_the_best_of_a_group_is_found(problem: tuple[Shape, list[Row], list[Row]], data: Any) -> None:
    """Into a group without a tuple it goes at once; otherwise it is told, if it is better."""
    bench = Bench(*problem)
    if not bench.shape.values:
        return
    shape = replace(bench.shape, values=bench.shape.values[:1])
    bench.shape = shape
    if shape.right is None:
        bench.pairs = [(h, (note("left", t),) * 2) for h, t, _ in bench.matches]
    ((column, kind),) = shape.values
    sign = 1 if kind == "min" else -1
    group = key_of(shape.group)
    there = {group(h): h for h, _ in data.draw(st.permutations(bench.pairs))[:2]}
    for probe in SIDES:
        heads = list({group(h): h for h, _ in bench.pairs}.values())
        for h in heads:
            same = [(g, p) for g, p in bench.pairs if group(g) == group(h)]
            best = min(sign * g[column] for g, _ in same)
            known: dict[Row, Any] = {}
            sent = dict(there)
            out, others = [], []
            hunt(bench, probe, shape.group, "best", (known, sent, out, others))(h)
            old = there.get(group(h))
            if old is None:
                assert len(out) == 1 and not others and out[0] in same and sign * out[0][0][column] == best
                assert known == dict(out) and sent == {**there, group(h): out[0][0]}
            else:
                assert not out and not known and sent == there
                assert bool(others) == (best < sign * old[column])
                assert all(d in same and sign * d[0][column] == best for d in others)


@quick
@given(problems())
def test_finder_passes_over_what_left_the_table(problem: tuple[Shape, list[Row], list[Row]]) -> None:
    """Indexes may lag behind: a tuple that is no longer a row of its table is not found."""
    bench = Bench(*problem)
    gone = {side: some(bench.tables[side], 2) for side in SIDES}
    for side in SIDES:
        bench.rows[side] = {t: a for t, a in bench.rows[side].items() if t not in gone[side]}
    alive = [
        (h, (note("left", t), note("right", u)))
        for h, t, u in bench.matches
        if t not in gone["left"] and u not in gone["right"]
    ]
    for probe in SIDES:
        one = hunt(bench, probe, tuple(range(len(bench.shape.outputs))), "one")
        for h, _, _ in bench.matches:
            possible = [p for g, p in alive if g == h]
            found = one(h)
            assert found in possible if possible else found is None
