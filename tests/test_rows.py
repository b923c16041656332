"""What a row may be: values in order, or by name; never in no order. Values of numpy and Arrow are values."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import datalog
import livelog
from datalog.errors import FactProblem

pytestmark = pytest.mark.everywhere(spark=1)

DECLARED = ".decl link(src: symbol, dst: symbol, cost: number) key(src, dst)\nr(x, y, c) :- link(x, y, c)."
INFERRED = "r(x, y) :- link(x, y)."

Give = Callable[[livelog.Session, Any], None]


def opened(text: str = DECLARED, **options: Any) -> livelog.Session:
    return livelog.open(datalog.parse(text), **options)


def insert(session: livelog.Session, row: Any) -> None:
    with session.transaction() as tx:
        tx.insert("link", row)


def insert_all(session: livelog.Session, row: Any) -> None:
    with session.transaction() as tx:
        tx.insert_all("link", [row])


def insert_more(session: livelog.Session, row: Any) -> None:
    with session.transaction() as tx:
        tx.insert_all("link", [("x", "y", 0), row])


def load(session: livelog.Session, row: Any) -> None:
    session.load("link", [row])


WAYS: list[Give] = [insert, insert_all, insert_more, load]


@pytest.mark.parametrize("kind", [dict, OrderedDict])
def test_a_dict_is_a_row_by_name(kind: type) -> None:
    with opened() as session:
        for i, way in enumerate(WAYS):
            way(session, kind(cost=i, dst="b", src=f"a{i}"))
        assert [row for row in session["r"] if row[0] != "x"] == [(f"a{i}", "b", i) for i in range(len(WAYS))]
        with session.transaction() as tx:
            tx.delete("link", {"dst": "b", "src": "a0", "cost": 0})
            tx.delete_all("link", [{"dst": "b", "src": "a1", "cost": 1}])
        assert [row[0] for row in session["r"] if row[0] != "x"] == ["a2", "a3"]


def test_facts_may_be_dicts() -> None:
    rows = [{"dst": "b", "cost": 1, "src": "a"}, ("b", "c", 2)]
    with opened(facts={"link": rows}) as session:
        assert list(session["r"]) == [("a", "b", 1), ("b", "c", 2)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"src": "a", "dst": "b"}, "a row of `link` lacks `cost` (its columns: src, dst, cost)"),
        ({"src": "a", "dst": "b", "cost": 1, "colour": 2}, "has `colour`, which `link` has not"),
        ({"src": "a", "to": "b", "cost": 1}, "lacks `dst` and has `to`, which `link` has not"),
        ({}, "lacks `src`, `dst`, `cost`"),
        ({1: "a"}, "has `1`, which"),
        ({"a", "b", 1}, "has its values in no order"),
        (frozenset(["a", "b", 1]), "has its values in no order"),
        ({"src": "a", "dst": "b", "cost": 1}.keys(), "has its values in no order"),
        ({"src": "a", "dst": "b", "cost": 1}.values(), "has its values in no order"),
        ({"src": "a", "dst": "b", "cost": 1}.items(), "has its values in no order"),
        (b"abc", "is a tuple, not b'abc'"),
        ({"src": "a", "dst": "b", "cost": "1"}, "column `cost`: '1' is not a number"),
    ],
)
def test_what_is_no_row(row: Any, message: str) -> None:
    with opened() as session:
        for way in WAYS:
            with pytest.raises(FactProblem) as caught:
                way(session, row)
            assert message in caught.value.message
        assert len(session["r"]) == 0


def test_columns_without_names() -> None:
    with opened(INFERRED) as session:
        with pytest.raises(FactProblem, match="`link` is not declared, so its columns have no names: give its rows as"):
            insert(session, {"x": 1, "y": 2})
        with pytest.raises(FactProblem, match="is not declared"):
            session.load("link", [{"x": 1, "y": 2}])


def test_facts_of_a_view_have_its_names() -> None:
    text = ".decl r(x: number, y: number)\n.input r\nr(x, y) :- r(y, x)."
    with opened(text, facts={"r": [{"y": 1, "x": 2}]}) as session:
        assert list(session["r"]) == [(1, 2), (2, 1)]


def test_scalars_of_numpy_and_arrow() -> None:
    with opened() as session:
        insert(session, (np.str_("a"), "b", np.int64(3)))
        session.load("link", [("b", pa.scalar("c"), np.uint8(4)), np.array(["c", "d", 5], object)])
        assert list(session["r"]) == [("a", "b", 3), ("b", "c", 4), ("c", "d", 5)]
        assert {type(v) for row in session["r"] for v in row} == {str, int}
        with pytest.raises(FactProblem, match="True is not a number"):
            insert(session, ("a", "b", np.bool_(True)))
        with pytest.raises(FactProblem, match="is not a number"):
            insert(session, ("a", "b", np.datetime64("2024-01-01")))
    with opened(".decl l(x: list)\nr(x) :- l(x).") as session:
        session.load("l", [(np.array([1, 2]),), ([np.float32(0.5), np.int8(1)],)])
        assert list(session["r"]) == [((0.5, 1),), ((1, 2),)]
