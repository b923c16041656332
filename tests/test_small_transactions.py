"""Small transactions take few steps: what does not concern them is not looked at, and right rows stay as they are."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest

import datalog
import livelog
from bench import transactions
from datalog.errors import FactProblem
from livelog.changes import ChangeLog
from livelog.runtime.worker import Worker
from livelog.values import Coercer
from operators.base import BaseTable

VALUES: list[Any] = [
    0, -1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, True, 1.0, 1.5, -0.0, math.inf, math.nan, "",
    "a", "ä", "\ud800", [1], (1, "a"), None,
]  # fmt: skip
KINDS = ("number", "unsigned", "float", "symbol", "list", "numeric", "any")


def outcome(coercer: Coercer, row: Any) -> Any:
    try:
        result = coercer(row)
    except FactProblem as problem:
        return str(problem)
    return [(type(value), value) for value in result]


@pytest.mark.parametrize("kind", KINDS)
def test_plain_rows_are_told_apart_rightly(kind: str) -> None:
    """What passes without conversion is what conversion would have made of it."""
    quick, slow = (Coercer("r", ("a", "b"), (kind, "number")) for _ in range(2))
    slow._is_plain = lambda row: False
    for value in VALUES:
        for row in ((value, 1), [value, 1], (value,), (value, 1, 1), (value, True), (value, 2**63), value):
            assert outcome(quick, row) == outcome(slow, row), row


def test_only_what_a_transaction_concerns_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are counted in a program of one view, and of that one among a hundred others."""

    def steps(others: int) -> Counter[str]:
        more = "".join(f"v{i}(x) :- b{i}(x). w{i}(x, count<y>) :- v{i}(x), b{i}(y). " for i in range(others))
        session = livelog.open(datalog.parse("v(x) :- b(x). " + more), facts={f"b{i}": [(1,)] for i in range(others)})
        counted: Counter[str] = Counter()
        with monkeypatch.context() as patch:
            for kind in (Worker, BaseTable):
                for name in ("apply", "begin", "finish", "insert", "delta", "commit"):
                    if real := getattr(kind, name, None):
                        patch.setattr(kind, name, counting(counted, f"{kind.__name__}.{name}", real))
            with session.transaction() as tx:
                tx.insert("b", (1,))
        assert tx.changes["v"].inserted == [(1,)]
        session.check()
        return counted

    def counting(counted: Counter[str], name: str, real: Any) -> Any:
        def wrapped(*arguments: Any) -> Any:
            counted[name] += 1
            return real(*arguments)

        return wrapped

    few = steps(0)
    assert few["Worker.begin"] == few["BaseTable.insert"] == few["BaseTable.commit"] == 1
    assert steps(100) == few


def test_what_is_put_in_and_taken_out_changes_nothing() -> None:
    session = livelog.open(datalog.parse(".decl b(x: number) ttl(5)\n.decl c(x: number)\nv(x) :- b(x), !c(x)."))
    with session.transaction() as tx:
        tx.insert("b", (1,))
        tx.insert("c", (1,))
        tx.delete("c", (1,))
        tx.delete("b", (1,))
    assert not tx.changes and not list(session["v"])
    with session.transaction() as tx:
        tx.insert("b", (2,))
        tx.advance_to(4.0)
    assert tx.changes["v"].inserted == [(2,)] and session.clock == 4.0
    with session.transaction() as tx:
        tx.advance_to(5.0)
    assert tx.changes["v"].deleted == [(2,)]
    session.check()


def test_a_change_log_has_an_entry_for_every_view() -> None:
    log = ChangeLog(("r", "s"), {"s": ([(2,), (1,)], [])})
    assert list(log) == ["r", "s"] and len(log) == 2 and "r" in log and "t" not in log
    assert log["s"] is log["s"] and log["s"].inserted == [(1,), (2,)] and not log["r"]
    assert log and repr(log) == "<ChangeLog s: +2 -0>" and str(log) == "+s(1)\n+s(2)"
    assert not ChangeLog(("r",), {}) and repr(ChangeLog(("r",), {})) == "<ChangeLog nothing>"
    with pytest.raises(KeyError):
        log["t"]


def test_the_benchmark_runs() -> None:
    result = transactions.run(batches=1, runs=1)
    assert [row["program"] for row in result.rows] == list(transactions.PROGRAMS)


def test_the_benchmark_measures_another_checkout() -> None:
    result = transactions.compare(transactions.HERE, pairs=1, turns=2)
    assert [row["program"] for row in result.rows] == list(transactions.PROGRAMS)
    assert all(row["lowest"] == row["ratio"] == row["highest"] > 0 for row in result.rows)
    (bar,) = result.bars
    assert bar.limit == 1.05 and bar.figure > 0
