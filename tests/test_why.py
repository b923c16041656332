"""`why`: the facts that are told derive the tuple alone; what is told besides, absences and groups, is true.

    pytest tests/test_why.py --histories 4000     more random programs
    pytest tests/test_why.py --seed 123           exactly one of them
"""

from __future__ import annotations

import io
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import datalog
import livelog
from livelog.cli import main
from livelog.why.proof import _Proof
from tests import aggregate_cases, generate
from tests.cases import program_of, succeeding
from tests.golden import BOUNDED, Golden
from tests.golden import NAMES as GOLDEN
from tests.harness import METHODS, Configuration, apply
from tests.oracle import Row
from tests.reasons import Whole, derives, facts_of
from tests.stacked_programs import draw_stacked
from tests.test_examples import APPROXIMATED, ENDLESS, states
from tests.test_examples import NAMES as EXAMPLES

CHUNK = 8
KINDS = ("stacked", "stacked", "stacked", "plain", "aggregates", "nested", "layers")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "chunk" in metafunc.fixturenames:
        seed = metafunc.config.getoption("--seed")
        count = metafunc.config.getoption("--histories") // 6
        starts = range(0, count, CHUNK)
        chunks = [range(s, min(s + CHUNK, count)) for s in starts] if seed is None else [range(seed, seed + 1)]
        metafunc.parametrize("chunk", chunks, ids=[f"{c.start}-{c.stop - 1}" for c in chunks])


def opened(text: str, facts: dict[str, list[Row]] | None = None, **options: Any) -> livelog.Session:
    return livelog.open(datalog.parse(text), facts=facts, **options)


def held(session: livelog.Session) -> dict[str, Counter[Row]]:
    """The facts of a session, with their copies."""
    facts: dict[str, Counter[Row]] = {name: Counter() for name in session.program.base}
    for name, row, copies in session._runtime.facts():
        if name in facts:
            facts[name][row] = copies
    return facts


def whole_of(session: livelog.Session) -> Whole:
    return Whole(session.program, held(session))


def check_some(session: livelog.Session, whole: Whole, rng: random.Random, most: int) -> None:
    """A sample of the tuples of every view."""
    for view in sorted(set(session.program.derived) - set(session.plan.pruned)):
        rows = sorted(session[view], key=repr)
        for row in rng.sample(rows, min(most, len(rows))):
            whole.check(session.why(view, row), view, row)


# --- case by case ----------------------------------------------------------------------------------------------

GRAPH = """
    .decl node(x: symbol)
    .decl link(x: symbol, y: symbol)
    reach(x, y) :- link(x, y).
    reach(x, y) :- link(x, z), reach(z, y).
    cut(x) :- node(x), !reach("a", x).
    sink(x) :- node(x), !link(x, _).
    near(x) :- node(x), !cut(x).
"""
GRAPH_FACTS = {"node": [("a",), ("b",), ("c",), ("d",)], "link": [("a", "b"), ("b", "c"), ("d", "b")]}


@pytest.mark.everywhere(spark=2)
@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("strategy", ["absorption", "dred", "relative", "recompute"])
def test_negation(strategy: str, partitions: int) -> None:
    with opened(GRAPH, GRAPH_FACTS, strategy=strategy, partitions=partitions) as session:
        why = session.why("cut", ("d",))
        assert why == [("node", ("d",))] == why.facts
        assert why.absent == [("reach", ("a", "d"))] and why.groups == []
        assert str(why) == 'node("d")\n!reach("a", "d")'
        why = session.why("sink", ("c",))
        assert why == [("node", ("c",))] and why.absent == [("link", ("c", None))]
        assert str(why) == 'node("c")\n!link("c", _)'
        # that c is not cut off rests on the links that reach it: without them it would be
        why = session.why("near", ("c",))
        assert why == [("link", ("a", "b")), ("link", ("b", "c")), ("node", ("c",))]
        assert why.absent == [("cut", ("c",))]


SALES = """
    .decl shop(s: symbol)
    .decl sale(id: number, s: symbol, v: number)
    total(s, sum<v>, count<*>) :- sale(_, s, v).
    best(s, max<v>) :- sale(_, s, v).
    span(s, min<v>, max<v>) :- sale(_, s, v).
    volume(s, v) :- shop(s), v = sum x : { sale(_, s, x) }.
    busy(s) :- shop(s), 1 < count : { sale(_, s, _) }.
    top(s) :- volume(s, v), v = max w : { volume(_, w) }.
"""
SHOPS: dict[str, list[Row]] = {
    "shop": [("kiosk",), ("mall",), ("closed",)],
    "sale": [(1, "mall", 10), (2, "mall", 10), (3, "kiosk", 5), (4, "mall", 1)],
}
MALL = [("sale", row) for row in SHOPS["sale"] if row[1] == "mall"]


@pytest.mark.everywhere(spark=2)
@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("strategy", ["absorption", "dred", "relative", "recompute"])
def test_aggregates(strategy: str, partitions: int) -> None:
    with opened(SALES, SHOPS, strategy=strategy, partitions=partitions) as session:
        why = session.why("total", ("mall", 21, 3))
        assert why == MALL and why.absent == []
        assert [(g.relation, g.aggregate, g.key, g.value, g.rows) for g in why.groups] == [
            ("total", "sum", {"s": "mall"}, 21, 3), ("total", "count", {"s": "mall"}, 3, 3),
        ]  # fmt: skip
        # winners are enough
        why = session.why("best", ("mall", 10))
        assert len(why) == 1 and why[0] in MALL[:2] and why.groups[0].rows == 3
        why = session.why("span", ("mall", 1, 10))
        assert len(why) == 2 and ("sale", (4, "mall", 1)) in why
        # the rows in the braces, and those beside
        why = session.why("volume", ("mall", 21))
        assert why == [*MALL, ("shop", ("mall",))]
        why = session.why("volume", ("closed", 0))
        assert why == [("shop", ("closed",))]
        rule = "volume(s, v) :- shop(s), v = sum x : { sale(_, s, x) }."
        assert str(why) == f'shop("closed")\nsum = 0 over no rows with s = "closed", in {rule}'
        assert session.why("busy", ("mall",)) == [*MALL, ("shop", ("mall",))]
        whole = whole_of(session)
        for view in session.views:
            for row in session[view]:
                whole.check(session.why(view, row), view, row)


@pytest.mark.parametrize(
    ("text", "facts", "view", "row", "expected", "absent"),
    [
        # what is not there rests on what is, again and again
        ("d(x) :- a(x). c(x) :- b(x), !d(x). r(x) :- b(x), !c(x). s(x) :- b(x), !r(x). t(x) :- b(x), !s(x).",
         {"a": [(1,), (2,)], "b": [(1,), (2,)]}, "t", (1,), [("a", (1,)), ("b", (1,))],
         [("c", (1,)), ("s", (1,))]),
        # two ways to be there wrongly: both are blocked
        ("n(x) :- b(x), !c(x). n(x) :- b(x), !d(x). r(x) :- b(x), !n(x).",
         {"b": [(1,)], "c": [(1,), (2,)], "d": [(1,)]}, "r", (1,), [("b", (1,)), ("c", (1,)), ("d", (1,))],
         [("n", (1,))]),
        # a group would have a row more
        ("n(x) :- b(x), !c(x). r(v) :- v = count : { n(_) }.",
         {"b": [(1,), (2,)], "c": [(2,), (3,)]}, "r", (1,), [("b", (1,))], [("c", (1,))]),
        # an absence rests on a group: with one row less it would be there
        ("n(x) :- b(x), 3 > sum y : { w(x, y) }. r(x) :- b(x), !n(x).",
         {"b": [(1,)], "w": [(1, 1), (1, 2), (2, 5)]}, "r", (1,), [("b", (1,)), ("w", (1, 1)), ("w", (1, 2))],
         [("n", (1,))]),
        # only the largest is needed
        ("n(x) :- b(x), m = max y : { w(x, y) }, m < 3. r(x) :- b(x), w(x, 1), !n(x).",
         {"b": [(1,)], "w": [(1, 1), (1, 2), (1, 5)]}, "r", (1,), [("b", (1,)), ("w", (1, 1)), ("w", (1, 5))],
         [("n", (1,))]),
        # copies
        (".decl w(x: number) bag\n r(count<*>) :- w(_). s(x) :- w(x).",
         {"w": [(1,), (1,), (2,)]}, "r", (3,), [("w", (1,)), ("w", (1,)), ("w", (2,))], []),
        (".decl w(x: number) bag\n r(count<*>) :- w(_). s(x) :- w(x).", {"w": [(1,), (1,)]}, "s", (1,),
         [("w", (1,))], []),
        # of two rules, the one that has this sum
        ("r(x, sum<y>) :- a(x, y). r(x, sum<y>) :- b(x, y).",
         {"a": [(1, 2), (1, 3)], "b": [(1, 4)]}, "r", (1, 4), [("b", (1, 4))], []),
        # inside a recursion, where only that binds what is asked about
        ("r(x) :- a(x). r(y) :- r(x), e(x, y), !n(x), 1 < count : { e(y, _) }.",
         {"a": [(1,)], "n": [(3,)], "e": [(1, 2), (2, 3), (2, 1), (3, 4)]}, "r", (2,),
         [("a", (1,)), ("e", (1, 2)), ("e", (2, 1)), ("e", (2, 3))], [("n", (1,))]),
        # layer by layer
        ("r(0, x, 1) :- a(x). r(i + 1, y, sum<n>) :- r(i, x, n), e(x, y), !stop(i, y), i < 3.",
         {"a": [(1,)], "e": [(1, 2), (2, 1), (2, 3)], "stop": [(0, 3)]}, "r", (2, 1, 1),
         [("a", (1,)), ("e", (1, 2)), ("e", (2, 1))], [("stop", (0, 2)), ("stop", (1, 1))]),
        ("r(0, x) :- a(x). r(i + 1, y) :- r(i, x), e(x, y), !r(i, y), i < 3.",
         {"a": [(1,)], "e": [(1, 2), (2, 2), (2, 3)]}, "r", (2, 3),
         [("a", (1,)), ("e", (1, 2)), ("e", (2, 3))], [("r", (0, 2)), ("r", (1, 3))]),
        ("r(0, x) :- a(x). r(i + 1, y) :- r(i, x), e(x, y), !r(i - 1, y), i < 3.",
         {"a": [(1,)], "e": [(1, 2), (2, 2), (2, 3)]}, "r", (1, 2), [("a", (1,)), ("e", (1, 2))], [("r", (-1, 2))]),
        # values that are computed, and constants
        ('r(x) :- a(x), !e(x + 1, 7).', {"a": [(1,)], "e": [(1, 7)]}, "r", (1,), [("a", (1,))], [("e", (2, 7))]),
        # groups and the condition on them
        (".decl o(i: number)\n .decl l(i: number, x: number)\n"
         "q(i, sum<x>) :- o(i), l(i, x), v = sum y : { l(i, y) }, v > 3.",
         {"o": [(1,)], "l": [(1, 2), (1, 3), (2, 9)]}, "q", (1, 5), [("l", (1, 2)), ("l", (1, 3)), ("o", (1,))], []),
        # an aggregate inside an aggregate
        ("r(x) :- a(x), 1 < count : { e(x, y), 1 < count : { e(y, _) } }.",
         {"a": [(1,)], "e": [(1, 2), (1, 3), (2, 1), (2, 5), (3, 1), (3, 2), (4, 4)]}, "r", (1,),
         [("a", (1,)), *(("e", t) for t in [(1, 2), (1, 3), (2, 1), (2, 5), (3, 1), (3, 2)])], []),
        # what the program itself states
        ("r(x) :- s(x), !n(x). s(7). s(x) :- a(x).", {"a": [(1,)], "n": []}, "r", (7,), [("s", (7,))], [("n", (7,))]),
        ("r(x) :- x = count : { a(_) }.", {"a": []}, "r", (0,), [], []),
    ],
)  # fmt: skip
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("strategy", ["absorption", "dred"])
def test_cases(
    text: str, facts: dict[str, list[Row]], view: str, row: Row, expected: Any, absent: Any, strategy: str,
    partitions: int,
) -> None:  # fmt: skip
    with opened(text, facts, strategy=strategy, partitions=partitions) as session:
        why = session.why(view, row)
        whole_of(session).check(why, view, row)
        assert why == expected
        assert sorted(why.absent) == absent


def test_running_sums() -> None:
    text = """.decl bids(price: number, volume: number)
        vwap(sum<p * v>) :- bids(p, v), total = sum v1 : { bids(_, v1) },
            below = sum v2 : { bids(p2, v2), p2 <= p }, 0.75 * total < below.
        high(p) :- bids(p, v), 2 * v > sum v1 : { bids(_, v1) }."""
    facts: dict[str, list[Row]] = {"bids": [(10, 1), (20, 2), (30, 3), (40, 9)]}
    with opened(text, facts) as session:
        (row,) = session["vwap"]
        why = session.why("vwap", row)
        assert why == [("bids", bid) for bid in facts["bids"]]
        assert [(g.aggregate, g.key, g.value, g.rows) for g in why.groups] == [
            ("sum", {}, 360, 1), ("sum", {"price": 40}, 15, 4), ("sum", {}, 15, 4)
        ]  # fmt: skip
        assert "over 4 rows with price = 40, in vwap" in str(why)
        assert {("sum", 15, 4)} == {(g.aggregate, g.value, g.rows) for g in session.why("high", (40,)).groups}


def test_where_only_the_best_tuples_are_kept() -> None:
    text = """path(x, y, c) :- link(x, y, c). path(x, y, c) :- link(x, z, a), path(z, y, b), c = a + b.
        cheapest(x, y, min<c>) :- path(x, y, c)."""
    with opened(text, {"link": [("a", "b", 1), ("b", "a", 1), ("b", "c", 1), ("a", "c", 5)]}) as session:
        assert session.plan.pruned == ("path",)
        why = session.why("cheapest", ("a", "c", 2))
        assert why == [("link", ("a", "b", 1)), ("link", ("b", "c", 1))]
        assert why.groups[0].rows is None and "min = 2 over the best rows with x" in str(why)


def test_many_groups_are_counted() -> None:
    text = "deg(x, count<*>) :- e(x, _). typical(avg<n>) :- deg(_, n)."
    with opened(text, {"e": [(i, j) for i in range(30) for j in range(2)]}) as session:
        why = session.why("typical", (2.0,))
        assert len(why.groups) == 31 and str(why).endswith("\n... and 11 groups more")


def test_what_is_approximated() -> None:
    """The facts of what is shown: evaluated alone it is exact, so it may differ by what the thresholds allow."""
    text = """.approx rank 0.05
        rank(0, x, 1.0) :- page(x).
        rank(i + 1, y, sum<r>) :- rank(i, x, s), link(x, y), n = count : { link(x, _) }, r = s / n, i < 4."""
    pages: dict[str, list[Row]] = {
        "page": [(i,) for i in range(6)], "link": [(i, (i * j + 1) % 6) for i in range(6) for j in (1, 2, 3)],
    }  # fmt: skip
    with opened(text, pages) as session:
        for change in ((0, 3), (1, 5), (2, 2)):
            with session.transaction() as tx:
                tx.insert("link", change)
        for row in session["rank"]:
            why = session.why("rank", row)
            with opened(text.replace(".approx rank 0.05", ""), facts_of(session.program, why)) as alone:
                (near,) = [r for r in alone["rank"] if r[:2] == row[:2]]
            assert abs(near[2] - row[2]) <= 0.05 * 6 * 5
            if row[0]:
                assert abs(why.groups[0].value - row[2]) <= 0.05  # what the rule says, not what is shown
        assert any(session.why("rank", row).groups[0].value != row[2] for row in session["rank"] if row[0])


def test_a_part_of_the_facts_on_which_a_rule_fails() -> None:
    """Where the facts of a trace alone end in an error, all are told that the tuple could depend on."""
    text = "n(x, 1 / x) :- b(x), !c(x). r(x) :- b(x), !n(x, _). t(x) :- n(x, _), d(x)."
    facts: dict[str, list[Row]] = {"b": [(0,), (1,)], "c": [(0,), (5,)], "d": [(1,)]}
    with opened(text, facts) as session:
        why = session.why("r", (0,))
        assert why == [(name, row) for name in "bc" for row in facts[name]]
        derives(session.program, why, "r", (0,))


def test_what_other_views_make_of_the_facts_is_not_looked_at() -> None:
    text = "n(x) :- b(x), !c(x). r(x) :- b(x), !n(x). t(1 / x) :- n(x)."
    with opened(text, {"b": [(0,), (1,)], "c": [(0,), (5,)]}) as session:
        why = session.why("r", (0,))
        assert why == [("b", (0,)), ("c", (0,))]
        derives(session.program, why, "r", (0,))


def test_one_that_does_not_hold() -> None:
    with opened(GRAPH, GRAPH_FACTS) as session, pytest.raises(livelog.UsageProblem, match="nothing to explain"):
        session.why("cut", ("b",))


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sales.dl"
    path.write_text(SALES + 'idle(s) :- shop(s), !sale(_, s, _). shop("closed"). sale(1, "mall", 2).')
    lines = b'why idle("closed")\nwhy total("mall", 2, 1)\n'
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
    assert main(["repl", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        '  shop("closed")',
        '  !sale(_, "closed", _)',
        '  sale(1, "mall", 2)',
        '  sum = 2 over 1 row with s = "mall", in total(s, sum<v>, count<*>) :- sale(_, s, v).',
        '  count = 1 over 1 row with s = "mall", in total(s, sum<v>, count<*>) :- sale(_, s, v).',
    ]


# --- programs of all kinds -------------------------------------------------------------------------------------


UNBOUNDED = ENDLESS | {"09_python_functions"}  # naive evaluation would not end
TIMED = {"16_parking_lot", "17_recent_links"}  # facts alone, without their times, say little: see test_stream_why


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in APPROXIMATED | TIMED])
def test_examples(name: str) -> None:
    rng = random.Random(name)
    for number, session in enumerate(states(name, partitions=1 + len(name) % 2)):
        if number % 3 == 0 and name not in UNBOUNDED:
            check_some(session, whole_of(session), rng, 1)
        elif number % 3 == 0:
            for view in session.plan.outputs:
                for row in rng.sample(sorted(session[view], key=repr), min(2, len(session[view]))):
                    facts = facts_of(session.program, session.why(view, row))
                    with livelog.open(session.program, facts=facts) as alone:
                        assert row in alone[view]


@pytest.mark.parametrize("name", [name for name in GOLDEN if name not in BOUNDED])
def test_golden_programs(name: str) -> None:
    golden, rng = Golden(name), random.Random(name)
    configuration = Configuration(*METHODS[len(name) % len(METHODS)], partitions=1 + len(name) % 2, interleaving=1)
    folder = golden.folder
    with configuration.open(folder / "program.dl", facts=folder / "facts", constants=golden.constants) as session:
        for operations in golden.transactions:
            with session.transaction() as transaction:
                apply(transaction, operations)
        check_some(session, whole_of(session), rng, 3)


def drawn(kind: str, seed: int, configuration: Configuration) -> tuple[livelog.Session, Whole]:
    """A random program over random facts, after a history if it has one; and what the oracle says."""
    if kind == "stacked":
        text, facts = draw_stacked(random.Random(f"stacked {seed}"))
        program = program_of(text)
        session = configuration.open(program, facts={n: rows for n, rows in facts.items() if n in program.base})
        return session, whole_of(session)
    case = succeeding(generate.generate(seed) if kind == "plain" else aggregate_cases.generate(seed, kind))
    session = configuration.open(program_of(case.text), facts=case.loaded)
    for operations in case.history:
        with session.transaction() as transaction:
            apply(transaction, operations)
    return session, Whole(program_of(case.reference), held(session))


def test_random_programs(chunk: range) -> None:
    for seed in chunk:
        rng = random.Random(f"why {seed}")
        kind = KINDS[seed % len(KINDS)]
        configuration = Configuration(*rng.choice(METHODS), partitions=rng.choice((1, 1, 2, 3)), interleaving=seed)
        session, whole = drawn(kind, seed, configuration)
        with session:
            check_some(session, whole, rng, 3)


@pytest.mark.everywhere(spark=2)
@pytest.mark.parametrize("partitions", [1, 2, 3])
@pytest.mark.parametrize("seed", [1, 8, 9, 15])
def test_random_programs_everywhere(seed: int, partitions: int) -> None:
    session, whole = drawn("stacked", seed, Configuration("absorption", None, partitions, None))
    with session:
        check_some(session, whole, random.Random(seed), 2)


def test_the_random_programs_need_mending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of them do: else they would not test it. All facts are needed by none."""
    mended, real = [], _Proof._mending

    def mending(self: Any, *given: Any) -> Any:
        found = list(real(self, *given))
        mended.append(bool(found))
        return iter(found)

    monkeypatch.setattr(_Proof, "_mending", mending)
    for seed in range(16):
        session, whole = drawn("stacked", seed, Configuration("absorption", None, 1))
        with session:
            check_some(session, whole, random.Random(seed), 3)
    assert len(mended) > 3 and all(mended)
