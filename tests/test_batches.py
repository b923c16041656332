"""Many rows at once mean what the same rows mean one by one: conversions, messages, tables, rollbacks."""

from __future__ import annotations

import enum
import pickle
import random
from collections import Counter, namedtuple
from collections.abc import Callable
from typing import Any

import pytest

import datalog
import livelog
import livelog.values
import operators.base
from datalog.errors import FactProblem
from livelog.values import Coercer
from operators.base import BaseTable
from operators.delta import Delta
from operators.errors import RuleFailure
from operators.expr import Apply, Col, Const
from operators.facts import Facts, PlainFacts
from operators.sums import COUNT, Factor, Summing

KINDS = ("number", "unsigned", "float", "symbol", "numeric", "any", "list")


class Whole(int):
    pass


class Text(str):
    pass


class Real(float):
    pass


class Colour(enum.IntEnum):
    RED = 1


Pair = namedtuple("Pair", "a b")

VALUES: list[Any] = [
    0, 1, -1, 5, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 1025, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 10**30, -(10**30),
    True, False, 1.0, 2.5, -0.0, 1e300, float("inf"), float("-inf"), float("nan"), 1.7976931348623157e308,
    "", "a", "a\tb", "ä", "\ud800", "\U0001f600", Text("t"), Whole(7), Whole(2**63), Real(2.5), Real(3.0), Colour.RED,
    None, b"a", (), (1, "a"), [1, 2.5], [True], {1: 2}, object,
]  # fmt: skip


def outcome(convert: Callable[[Any], Any], rows: Any) -> Any:
    try:
        return [tuple((type(v), repr(v)) for v in row) for row in convert(rows)]
    except Exception as error:
        return type(error), str(error)


def assert_alike(coerce: Coercer, rows: list[Any], what: str = "") -> None:
    assert outcome(coerce.all, rows) == outcome(lambda given: [coerce(row) for row in given], rows), what


@pytest.fixture(params=["built", "plain"])
def compiled_or_not(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compiled is used as far as it was built, or not at all."""
    if request.param == "plain":
        monkeypatch.setattr(livelog.values, "compiled", None)
        monkeypatch.setattr(operators.base, "Facts", PlainFacts)
    elif Facts is PlainFacts:
        pytest.skip("nothing was compiled")


pytestmark = pytest.mark.usefixtures("compiled_or_not")


@pytest.mark.parametrize("kind", KINDS)
def test_every_value_converts_in_a_batch_as_it_does_alone(kind: str) -> None:
    coerce = Coercer("r", ("x", "y"), (kind, "number"))
    for value in VALUES:
        rows = [(value, 1), (value, 2)]
        assert_alike(coerce, rows, repr(value))


def test_rows_of_every_shape_convert_in_a_batch_as_they_do_alone() -> None:
    coerce = Coercer("r", ("x", "y"), ("number", "symbol"))
    shapes: list[Any] = [
        (1, "a"), [1, "a"], Pair(1, "a"), (1,), (1, "a", 2), (), "ab", 7, None, {1: "a"}, {1: 0, "a": 0},
        frozenset([1]),
    ]  # fmt: skip
    for shape in shapes:
        rows = [(1, "b"), shape]
        assert_alike(coerce, rows, repr(shape))
    assert coerce.all(iter((x, "a")) for x in (1, 2)) == [(1, "a"), (2, "a")]
    assert coerce.all([]) == []


@pytest.mark.parametrize("seed", range(20))
def test_random_batches_convert_as_their_rows_do(seed: int) -> None:
    rng = random.Random(seed)
    kinds = [rng.choice(KINDS) for _ in range(rng.randint(1, 4))]
    coerce = Coercer("r", [f"c{i}" for i in range(len(kinds))], kinds)
    good = {kind: [v for v in VALUES if _fits(kind, v)] for kind in KINDS}
    for _ in range(50):
        rows = [tuple(rng.choice(good[kind]) for kind in kinds) for _ in range(rng.randint(1, 6))]
        if rng.random() < 0.3:
            rows.append(tuple(rng.choice(VALUES) for _ in kinds))
        assert_alike(coerce, rows)


def _fits(kind: str, value: Any) -> bool:
    try:
        Coercer("r", ("x",), (kind,))((value,))
    except (FactProblem, OverflowError):
        return False
    return True


def test_what_converts_travels() -> None:
    coerce = pickle.loads(pickle.dumps(Coercer("r", ("x", "y"), ("number", "float"))))
    assert coerce.all([(1, 2), [3, 4.5]]) == [(1, 2.0), (3, 4.5)]


def test_the_rows_of_a_batch_are_those_of_the_moment() -> None:
    s = livelog.open(datalog.parse(".decl e(x: number)\nr(x) :- e(x)."))
    rows = [(1,), (2,)]
    with s.transaction() as tx:
        tx.insert_all("e", rows)
        rows.append((3,))
        rows[0] = (4,)
    assert list(s["r"]) == [(1,), (2,)]


def test_a_bad_row_in_a_batch_is_named() -> None:
    s = livelog.open(datalog.parse(".decl e(x: number, y: symbol)\nr(x) :- e(x, _)."))
    good = [(i, "a") for i in range(1000)]
    for bad, message in (
        ((True, "a"), 'e(True, "a"): column `x`: True is not a number'),
        ((2**63, "a"), "column `x`: 9223372036854775808 is outside the range of a number"),
        ((1.5, "a"), "column `x`: 1.5 is not a number"),
        ((1, 2), "column `y`: 2 is not a symbol (a string)"),
        ((1, "\ud800"), "is not valid Unicode text"),
        ((1,), "`e` has 2 columns (x, y), the row e(1) has 1"),
        (7, "a row of `e` is a tuple, not 7"),
    ):
        with pytest.raises(FactProblem) as caught, s.transaction() as tx:
            tx.insert_all("e", [*good, bad, *good])
        assert message in str(caught.value)
    assert len(s["r"]) == 0
    with s.transaction() as tx:
        tx.insert_all("e", [*good, [1000.0, "ä"]])
    assert (1000,) in s["r"]


FORMS = {
    "set": {},
    "bag": {"bag": True},
    "key": {"key": (0,)},
    "ttl": {"ttl": 5.0},
    "key and ttl": {"key": (0,), "ttl": 5.0},
    "bag and ttl": {"bag": True, "ttl": 5.0},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(25))
def test_mixed_transactions_of_batches_and_rows(form: str, seed: int) -> None:
    """One table gets batches, another the same row by row; a third is what the facts are said to be in plain words."""
    rng = random.Random(f"{form} {seed}")
    many, one = BaseTable(**FORMS[form]), BaseTable(**FORMS[form])  # type: ignore[arg-type]
    now = 0.0
    for _ in range(25):
        before = dict(one.rows)
        ignored = one.ignored_inserts, one.ignored_deletes
        for _ in range(rng.randint(1, 5)):
            rows = [(rng.randrange(4), rng.randrange(4)) for _ in range(rng.choice((0, 1, 2, 10)))]
            what = rng.choice(("insert", "insert_all", "delete", "delete_all", "expire"))
            if what == "expire":
                now += rng.choice((0.0, 1.0, 3.0))
                many.expire(now)
                one.expire(now)
            elif what.endswith("_all"):
                given = list(rows)
                many.insert_all(given, now) if what == "insert_all" else many.delete_all(given)
                assert given == rows, "the batch is the caller's"
                for t in rows:
                    one.insert(t, now) if what == "insert_all" else one.delete(t)
            else:
                for table in (many, one):
                    for t in rows:
                        table.insert(t, now) if what == "insert" else table.delete(t)
            if rng.random() < 0.3:  # who looks makes a bag count
                assert many.rows == one.rows
        changes = {t: one.rows.get(t, 0) - before.get(t, 0) for t in {*before, *one.rows}}
        changes = {t: w for t, w in changes.items() if w}
        delta = many.delta()
        runs: Counter[Any] = Counter()
        for mode, batch in delta.runs():
            for entry in batch:
                t, w = entry if mode == "weighted" else (entry, 1 if mode == "gained" else -1)
                runs[t] += w
        assert {t: w for t, w in runs.items() if w} == changes
        assert dict(many.net()) == dict(one.net()) == dict(delta.items()) == changes
        assert len(many.net()) == len(changes)
        assert sorted(delta.gained) == sorted(t for t, w in changes.items() if w > 0)
        assert sorted(delta.lost) == sorted(t for t, w in changes.items() if w < 0)
        assert many.ignored_inserts == one.ignored_inserts and many.ignored_deletes == one.ignored_deletes
        if rng.random() < 0.4:
            many.rollback()
            one.rollback()
            assert many.rows == one.rows == before
            assert (many.ignored_inserts, many.ignored_deletes) == ignored
        else:
            many.commit()
            one.commit()
        one.check()
        if rng.random() < 0.3:
            many.check()
    many.check()
    assert many.rows == one.rows


def test_a_loaded_table_that_changes_in_the_same_transaction() -> None:
    for bag in (False, True):
        for finish in ("commit", "rollback"):
            table = BaseTable(bag=bag)
            table.insert_all([(1,), (2,), (1,)], 0.0)
            table.delete_all([(2,), (3,), (1,)])
            table.insert_all([(4,), (2,)], 0.0)
            expected = {(1,): 1, (2,): 1, (4,): 1} if bag else {(2,): 1, (4,): 1}
            assert dict(table.net()) == dict(table.rows) == expected
            getattr(table, finish)()
            assert table.rows == (expected if finish == "commit" else {})
            table.check()


def test_a_batch_that_fails_in_a_rule_leaves_nothing_behind() -> None:
    text = ".decl e(x: number, y: number){}\nq(x, sum<z>) :- e(x, y), z = 10 / y."
    for bag in ("", " bag"):
        s = livelog.open(datalog.parse(text.format(bag)), facts={"e": [(1, 1), (2, 2), (3, 5)]})
        shown, facts = list(s["q"]), list(s["e"])
        with pytest.raises(livelog.LivelogError), s.transaction() as tx:
            tx.delete_all("e", [(1, 1), (2, 2)])
            tx.insert_all("e", [(2, 2), (4, 0), (5, 1)])
            tx.delete_all("e", [(5, 1), (9, 9)])
        assert list(s["q"]) == shown and list(s["e"]) == facts
        with s.transaction() as tx:
            tx.delete_all("e", [(1, 1), (2, 2)])
            tx.insert_all("e", [(2, 2), (4, 1)])
        assert list(s["q"]) == [(2, 5), (3, 2), (4, 10)]


@pytest.mark.parametrize("bag", ["", " bag"])
def test_a_row_that_begins_with_a_list_is_named_whole(bag: str) -> None:
    """Two columns, the first of them a tuple: that looks like a row with its weight."""
    text = f".decl e(x: list, y: number){bag}\nq(x, sum<z>) :- e(x, y), z = 10 / y."
    s = livelog.open(datalog.parse(text))
    with pytest.raises(livelog.LivelogError) as caught, s.transaction() as tx:
        tx.insert_all("e", [([1], 2), ([2, 3], 0)])
    assert "[2, 3], 0" in str(caught.value), str(caught.value)
    sums = Summing("", (), None, (Col(0),), (COUNT, Factor(Apply("/", int.__floordiv__, (Const(1), Col(1))))))
    with pytest.raises(RuleFailure) as failed:
        sums(Delta([((1,), 2), ((2, 3), 0)], []))
    assert failed.value.row == ((2, 3), 0)
