"""What is compiled does what is written in Python beside it."""

from __future__ import annotations

import array
import gc
import importlib
import itertools
import os
import random
import shutil
import subprocess
import sys
import sysconfig
import weakref
from pathlib import Path
from typing import Any

import numpy
import pytest

import livelog.exchange
import livelog.values
import operators.anchored
import operators.tally
from livelog.values import Coercer
from operators.anchored import Anchored
from operators.cells import Cells
from operators.delta import Delta
from operators.expr import Apply, Col, Const
from operators.facts import Facts, PlainFacts
from operators.intake import Intake
from operators.sums import COUNT, Factor
from operators.tally import Tally

built = pytest.mark.skipif(operators.tally.compiled is None, reason="nothing was compiled")

PAIR = (Factor(Col(1)), Factor(Col(2)))
AMOUNTS = [0, 1, -1, 7, 2**31, 2**62, 2**63 - 1, -(2**63), 2**63, -(2**64), 10**40]


def test_what_can_be_compiled_is() -> None:
    """An install that cannot compile goes on without, and so would all tests here. Where it can, it must."""
    able = shutil.which("cc") and Path(sysconfig.get_path("include"), "Python.h").exists()
    if not able or os.environ.get("LIVELOG_COMPILED") == "0":
        pytest.skip("no C compiler or no headers of Python, or what is compiled is not wanted")
    for part in ("cells", "columns", "facts", "rows"):
        importlib.import_module(f"operators.compiled.{part}")
    assert operators.tally.compiled and operators.anchored.compiled and livelog.values.compiled
    assert livelog.exchange.compiled
    assert Facts is not PlainFacts


def state(cells: Cells) -> Any:
    rows = {key: (cell.row, cell.calm, cell.uses, cell.head, cell.s0, cell.s1, cell.s2)
            for key, cell in cells.rows.items()}  # fmt: skip
    return rows, [cell.row for cell in cells.touched]


@built
@pytest.mark.parametrize("key", [(), (0,), (1,), (1, 0), (0, 0, 1)])
@pytest.mark.parametrize("seed", range(5))
def test_rows_are_added_as_the_loop_adds_them(
    key: tuple[int, ...], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    plan = ("", (), [Col(c) for c in key], (COUNT, Factor(Col(2)), Factor(Col(3), exact=True)))
    compiled, plain = Cells(len(key), 3), Cells(len(key), 3)
    fast = Tally(*plan, compiled)
    monkeypatch.setattr(operators.tally, "compiled", None)
    slow = Tally(*plan, plain)
    assert fast._adder is not None and slow._adder is None
    for _ in range(30):
        size = rng.choice((0, 1, 3, 64, 65, 300))
        batch = [(rng.randrange(4), rng.choice(("a", "b", 1, 1.0, 2)), rng.choice(AMOUNTS), rng.choice(AMOUNTS))
                 for _ in range(size)]  # fmt: skip
        if rng.random() < 0.5:
            batch.sort(key=lambda t: [repr(t[c]) for c in key])  # rows of a group follow each other
        part = rng.randrange(size + 1)
        for tally in (fast, slow):
            tally(Delta(batch[:part], batch[part:]))
            if batch and part % 3 == 0:
                tally(Delta.weighted([(batch[0], 5)]))
        assert state(compiled) == state(plain)
        if rng.random() < 0.5:
            assert compiled.drain() == plain.drain()


@built
@pytest.mark.parametrize("seed", range(5))
def test_joins_add_as_their_loop_adds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """s1(a, b), s2(b, c, d): by a, how many rows, the sum of c and that of d."""
    rng = random.Random(seed)
    joins, cells = [], (Cells(1, 3), Cells(1, 3))
    for own in cells:
        left, right = Intake("", (1,), (), (Col(0),), (COUNT,)), Intake("", (0,), (), (), (COUNT, *PAIR))
        joins.append(Anchored("", (left, right), 0, (Col(1),), (((1, 0, 0),), ((1, 0, 1),), ((1, 0, 2),)), own))
        monkeypatch.setattr(operators.anchored, "compiled", None)
    fast, slow = joins
    assert fast._spread is not None and slow._spread is None
    there: tuple[list[Any], list[Any]] = ([], [])
    for step in range(40):
        side = step % 2
        gone = rng.sample(there[side], len(there[side]) // 3)
        new = [(x, rng.randrange(3)) if side == 0 else (x % 3, rng.choice(AMOUNTS), rng.choice(AMOUNTS))
               for x in rng.choices(range(200), k=rng.choice((1, 5, 150)))]  # fmt: skip
        if side == 0 and rng.random() < 0.5:
            new = list(dict.fromkeys(new))
        for t in gone:
            there[side].remove(t)
        there[side].extend(new)
        for join in joins:
            join.take(side, Delta.weighted([(t, -1) for t in gone] + [(t, 1) for t in new]))
            join.check()
        assert state(cells[0]) == state(cells[1])
        for own in cells:
            for cell in own.touched:
                cell.calm = True
            own.touched.clear()


@built
def test_a_sum_that_is_not_there() -> None:
    cells = Cells(1, 3)
    add = operators.anchored.compiled.Spreader(cells.make).add
    cell = cells.make(("a",))
    add({cell: 1}, 2, 5, cells.touched)
    assert (cell.s1, cell.s2) == (0, 5) and cells.touched == [cell]
    for number in (-1, 3, 16, 1000):
        with pytest.raises(IndexError):
            add({cell: 1}, number, 5, cells.touched)


@built
def test_rows_that_need_more_than_columns_are_for_the_loop() -> None:
    cells = Cells(1, 2)
    column, sums = Factor(Col(1)), [COUNT, Factor(Col(1))]
    twice = Apply("*", int.__mul__, (Col(1), Const(2)))
    assert Tally("", (), [Col(0)], sums, cells)._adder is not None
    assert Tally("", [Apply("<", int.__lt__, (Col(0), Const(3)))], [Col(0)], sums, cells)._adder is None
    assert Tally("", (), [twice], sums, cells)._adder is None
    assert Tally("", (), [Col(0)], [COUNT, Factor(twice)], cells)._adder is None
    assert Tally("", (), [Col(0)], [COUNT, Factor(Col(1), lambda v: (v,))], cells)._adder is None
    assert Tally("", (), [Col(0)], [column] * 40, Cells(1, 40))._adder is None


@built
def test_cells_are_let_go() -> None:
    class Word(str):
        pass

    word = Word("a")
    alive = weakref.ref(word)
    cells = Cells(1, 2)
    tally = Tally("", (), [Col(0)], (COUNT, Factor(Col(1))), cells)
    rows = [(word, 2**70)] * 100
    tally(Delta(rows, []))
    tally(Delta([], rows[:50]))
    assert cells.drain() == [(("a",), [50, 50 * 2**70])] and not cells.rows
    del word, rows
    gc.collect()
    assert alive() is None


@built
def test_plain_rows_are_taken_as_they_are() -> None:
    coerce = Coercer("r", tuple("abcdef"), ("number", "unsigned", "float", "symbol", "numeric", "any"))
    rows = [(-(2**63), 2**63 - 1, 1e300, "a", 2.5, "x"), (0, 0, -0.0, "", -7, -(2**63))]
    found = coerce.all(rows)
    assert found == rows and found is not rows and all(a is b for a, b in zip(found, rows, strict=True))


CHECK = """
import livelog.values, operators.anchored, operators.facts, operators.tally
assert operators.facts.Facts is operators.facts.PlainFacts
assert operators.tally.compiled is None and operators.anchored.compiled is None and livelog.values.compiled is None
"""


def test_the_engine_does_without_what_is_compiled() -> None:
    """Histories of facts, aggregates and failures, in a process where nothing compiled is used."""
    tests = ["tests/test_aggregate_histories.py", "tests/test_rollback.py", "tests/test_small_transactions.py"]
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--histories", "60", "--runtime", "local"]
    for command in (["-c", CHECK], ["-m", "pytest", *options, *tests]):
        done = subprocess.run(
            [sys.executable, *command], env={**os.environ, "LIVELOG_COMPILED": "0"}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


# --- the columns of rows -----------------------------------------------------------------------------------------

COLUMN_VALUES: dict[str, Any] = {
    "number": lambda rng: rng.choice([0, -1, 2**63 - 1, -(2**63), rng.randrange(-99, 99)]),
    "unsigned": lambda rng: rng.choice([0, 2**63, 2**64 - 1, rng.randrange(99)]),
    "float": lambda rng: rng.choice([0.0, -1e300, rng.random()]),
    "symbol": lambda rng: rng.choice(["", "a", "a" * 99, "\u00e4", "\U0001f600", str(rng.random())]),
    "name": lambda rng: rng.choice(["", "a\0", "\u00e4\u65e5", f"n{rng.randrange(9000)}"]),
}


def read_back(kind: str, held: Any) -> list[Any]:
    """The values of a column as the compiled walk holds them."""
    if kind == "name":
        return [held[1][code] for code in memoryview(held[0]).cast("I")]
    if kind == "symbol":
        ends = memoryview(held[0]).cast("i")
        return [held[1][start:end].decode() for start, end in itertools.pairwise(ends)]
    return memoryview(held).cast({"number": "q", "unsigned": "Q", "float": "d"}[kind]).tolist()


@built
@pytest.mark.parametrize("seed", range(20))
def test_columns_of_rows(seed: int) -> None:
    from operators.compiled import columns

    rng = random.Random(seed)
    kinds = rng.choices(list(COLUMN_VALUES), k=rng.randint(0, 4))
    rows = [tuple(COLUMN_VALUES[kind](rng) for kind in kinds) for _ in range(rng.choice([0, 1, 13, 30, 20_000]))]
    codes = bytes([columns.KINDS[kind] for kind in kinds])
    found = columns.columns_of(rows, codes)
    assert found is not None
    assert [read_back(kind, held) for kind, held in zip(kinds, found, strict=True)] == [
        [row[i] for row in rows] for i in range(len(kinds))
    ]
    order = array.array("q", rng.sample(range(len(rows)), len(rows)))
    for i, kind in enumerate(kinds):
        objects = numpy.empty(len(rows), object)
        columns.put_in_order(rows, i, order, objects)
        assert all(one is rows[at][i] for one, at in zip(objects, order, strict=True))
        if kind == "symbol":
            moved = columns.texts_in_order(*found[i], order)
            assert read_back("symbol", moved) == [rows[at][i] for at in order]


@built
@pytest.mark.parametrize(
    ("kind", "value"),
    [("number", 2**63), ("number", -(2**63) - 1), ("number", True), ("number", 1.0), ("number", "1"),
     ("unsigned", -1), ("unsigned", 2**64), ("unsigned", -(2**70)), ("float", 1), ("symbol", 1), ("symbol", ()),
     ("name", 1.5), ("name", type("Text", (str,), {})("a"))],
)  # fmt: skip
def test_rows_that_have_no_columns(kind: str, value: Any) -> None:
    from operators.compiled import columns

    fine = {"number": 1, "unsigned": 1, "float": 1.0, "symbol": "a", "name": "a"}[kind]
    code = bytes([columns.KINDS[kind]])
    assert columns.columns_of([(fine,)] * 40 + [(value,)], code) is None
    for row in ((), (fine, fine), [fine], None):
        assert columns.columns_of([(fine,), row, *[(fine,)] * 40], code) is None
    with pytest.raises(IndexError):
        columns.put_in_order([(fine,)], 0, array.array("q", [1]), numpy.empty(1, object))
    with pytest.raises(ValueError, match="a place for every row"):
        columns.put_in_order([(fine,)], 0, array.array("q", [0, 0]), numpy.empty(1, object))
    with pytest.raises(TypeError):
        columns.put_in_order([(fine,)], 1, array.array("q", [0]), numpy.empty(1, object))
    with pytest.raises(UnicodeEncodeError):
        columns.columns_of([("\ud800",)], bytes([columns.KINDS["symbol"]]))
    held = (array.array("i", [0, 1, 3]), b"abc")
    with pytest.raises(IndexError):
        columns.texts_in_order(*held, array.array("q", [0, 2]))
    with pytest.raises(ValueError, match="one place"):
        columns.texts_in_order(*held, array.array("q", [1, 1]))
