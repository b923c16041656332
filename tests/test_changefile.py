"""Files of partitions: change logs that survive any cut, and rows that Spark tasks push."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from livelog.runtime.spark.inbound import Inbound, decode_rows, read_batch
from livelog.store import changefile
from livelog.store.changefile import ChangeFiles, last_recorded, read_changes
from livelog.store.layout import Layout
from livelog.store.records import Damaged

encode = msgspec.msgpack.encode

Sides = tuple[list[Any], list[Any]]


# --- change files --------------------------------------------------------------------------------------------


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


def history(seed: int, numbers: range) -> list[tuple[int, Sides]]:
    """Transactions with what they gained and lost; often nothing."""
    rng = random.Random(seed)
    magic = "\xf5LR\xf6"  # what a record starts with, in a row
    return [
        (
            n,
            (
                [(n, i, magic, (1.5, (i,))) for i in range(rng.choice((0, 0, 1, 3, 10)))],
                [(n, -i) for i in range(rng.choice((0, 0, 0, 2, 9)))],
            ),
        )
        for n in numbers
    ]


def flat(transactions: list[tuple[int, Sides]]) -> list[tuple[int, str, Any]]:
    signed = [(n, sign, rows) for n, (gained, lost) in transactions for sign, rows in (("-", lost), ("+", gained))]
    return [(n, sign, row) for n, sign, rows in signed for row in rows]


def test_what_is_recorded_is_read_again(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changefile, "ROWS", 4)
    monkeypatch.setattr(changefile, "NEAR", 100)
    files = ChangeFiles(layout, 1)
    whole = [(i,) for i in range(11)]
    assert files.follow("v#1", 7, iter(whole)) == 7
    transactions = history(1, range(8, 300))
    for n, sides in transactions:
        files.record(n, {"v#1": sides, "other": ([(0,)], [])})
        files.flush()
    path = layout.changes("v#1", 1)
    expected = [(7, "+", row) for row in whole] + flat(transactions)
    assert list(read_changes(path, -1, 10_000)) == expected
    rng = random.Random(2)
    for _ in range(200):
        after, upto = rng.randrange(0, 310), rng.randrange(0, 310)
        assert list(read_changes(path, after, upto)) == [c for c in expected if after < c[0] <= upto]
    files.close()


def test_recovery_records_nothing_twice_and_loses_nothing(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the file at every byte, open it again, and run the same transactions again."""
    monkeypatch.setattr(changefile, "ROWS", 2)
    whole, transactions = [(i,) for i in range(5)], history(5, range(4, 9))
    path = layout.changes("v", 0)

    def run() -> int:
        files = ChangeFiles(layout, 0)
        last = files.follow("v", 3, whole)
        for n, sides in transactions:
            files.record(n, {"v": sides})
            files.flush()
        files.sync()
        files.close()
        return last

    run()
    expected = list(read_changes(path, -1, 8))
    assert expected == [(3, "+", row) for row in whole] + flat(transactions)
    size = path.stat().st_size
    lasts = []
    for cut in range(size, -1, -1):
        os.truncate(path, cut)
        lasts.append(run())
        assert list(read_changes(path, -1, 8)) == expected, cut
        assert path.stat().st_size == size
    assert lasts == sorted(lasts, reverse=True)
    assert set(lasts) == {3, *(n for n, (gained, lost) in transactions if gained or lost), 8}


def test_transactions_that_do_not_count_are_cut(layout: Layout) -> None:
    files = ChangeFiles(layout, 0)
    files.follow("v", 1, None)
    files.record(2, {"v": ([(2,)], [])})
    files.flush()
    files.record(3, {"v": ([(3,)], [])})
    files.flush()
    files.close()
    files = ChangeFiles(layout, 0)
    assert files.follow("v", 1, None, before=3) == 2
    files.record(3, {"v": ([(33,)], [])})
    files.flush()
    assert list(read_changes(layout.changes("v", 0), -1, 9)) == [(2, "+", (2,)), (3, "+", (33,))]
    files.close()


def test_a_quiet_partition_says_so_now_and_then(layout: Layout) -> None:
    """Recovery runs what may be missing one by one, so that a partition must not look far behind."""
    files = ChangeFiles(layout, 0)
    files.follow("v", 0, None)
    path = layout.changes("v", 0)
    for n in range(1, 1000):
        files.record(n, {})
        files.flush()
        last = last_recorded(path)
        assert last is not None
        assert n - last <= changefile.IDLE
    assert path.stat().st_size < 1000
    files.sync()
    assert last_recorded(path) == 999
    files.close()


def test_a_damaged_middle_is_no_end(layout: Layout) -> None:
    files = ChangeFiles(layout, 0)
    files.follow("v", 0, None)
    for n in range(1, 20):
        files.record(n, {"v": ([("a" * 50, n)], [])})
        files.flush()
    files.close()
    path = layout.changes("v", 0)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(Damaged, match="damaged"):
        list(read_changes(path, -1, 100))
    with pytest.raises(Damaged, match="damaged"):
        ChangeFiles(layout, 0).follow("v", 0, None)


def test_a_reader_beside_a_writer_never_sees_half_a_transaction(layout: Layout) -> None:
    files = ChangeFiles(layout, 0)
    files.follow("v", 0, None)
    path = layout.changes("v", 0)
    assert list(read_changes(layout.changes("other", 0), -1, 5)) == []  # a file that is not there has nothing
    for n in range(1, 50):
        files.record(n, {"v": ([(n, i) for i in range(n)], [])})
        files.flush()
        assert [c[2] for c in read_changes(path, n - 1, n)] == [(n, i) for i in range(n)]
    files.close()


# --- what is pushed ------------------------------------------------------------------------------------------


def rows_of(files: list[Any], layout: Layout) -> list[Any]:
    return [row for f in files for row in read_batch(layout, f[2])]


def answer(answers: Iterator[bytes]) -> Any:
    [data] = answers
    return msgspec.msgpack.decode(data)


def test_pushed_rows_wait_in_files_of_their_attempt(layout: Layout) -> None:
    inbound = Inbound(layout, 1, 3, {"link": 2, "path#1": 1})
    deep: Any = 1
    for _ in range(12):
        deep = (deep,)
    for task, value in ((0, "a"), (1, deep)):
        for i in range(3):
            push = ["8", task, 70 + task, "link", "+", encode([(value, i), (value, -i)])]
            assert list(inbound.take("client", "rows", push)) == []
    assert list(inbound.take("client", "rows", ["8", 0, 70, "path#1", "-", encode([(2.5,)])])) == []
    files = answer(inbound.take("client", "staged", ["8", 0, 70]))
    assert [(relation, sign, rows) for relation, sign, _, rows in files] == [("link", "+", 6), ("path#1", "-", 1)]
    assert rows_of(files, layout) == [("a", 0), ("a", 0), ("a", 1), ("a", -1), ("a", 2), ("a", -2), (2.5,)]
    assert all(name.startswith("8/") and ".1." in name for _, _, name, _ in files)
    files = answer(inbound.take("client", "staged", ["8", 1, 71]))
    assert rows_of(files, layout)[0] == (deep, 0)
    assert answer(inbound.take("client", "staged", ["8", 2, 72])) == []  # a task without rows for this partition


def test_the_same_attempt_of_another_application_does_not_mix(layout: Layout) -> None:
    names = []
    for value in (1, 2):
        inbound = Inbound(layout, 0, 1)
        list(inbound.take("c", "rows", ["3", 0, 0, "r", "+", encode([(value,)])]))
        names.append(answer(inbound.take("c", "staged", ["3", 0, 0])))
        inbound.close()
    assert [rows_of(files, layout) for files in names] == [[(1,)], [(2,)]]


def test_what_was_not_completed_is_removed(layout: Layout) -> None:
    inbound = Inbound(layout, 0, 2)
    for client in ("one", "two", "three"):
        list(inbound.take(client, "rows", ["5", 0, ord(client[1]), "r", "+", encode([(client,)])]))
    kept = answer(inbound.take("two", "staged", ["5", 0, ord("w")]))
    inbound.forget("one")
    inbound.forget("two")
    inbound.close()
    assert [path.name for path in (layout.batches / "5").iterdir()] == [kept[0][2].removeprefix("5/")]
    assert rows_of(kept, layout) == [("two",)]


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("rows", ["../x", 0, 0, "r", "+", encode([(1,)])]),
        ("rows", ["", 0, 0, "r", "+", encode([(1,)])]),
        ("rows", ["a\n", 0, 0, "r", "+", encode([(1,)])]),
        ("rows", [5, 0, 0, "r", "+", encode([(1,)])]),
        ("rows", ["5", -1, 0, "r", "+", encode([(1,)])]),
        ("rows", ["5", 0, "x", "r", "+", encode([(1,)])]),
        ("rows", ["5", 0, True, "r", "+", encode([(1,)])]),
        ("rows", ["5", 0, 0, "unknown", "+", encode([(1,)])]),
        ("rows", ["5", 0, 0, ["r"], "+", encode([(1,)])]),
        ("rows", ["5", 0, 0, "r", "*", encode([(1,)])]),
        ("rows", ["5", 0, 0, "r", ["+"], encode([(1,)])]),
        ("rows", ["5", 0, 0, "r", "+", encode([(1, 2)])]),
        ("rows", ["5", 0, 0, "r", "+", encode([1])]),
        ("rows", ["5", 0, 0, "r", "+", encode([({},)])]),
        ("rows", ["5", 0, 0, "r", "+", encode({"a": 1})]),
        ("rows", ["5", 0, 0, "r", "+", b"\xc1garbage"]),
        ("rows", ["5", 0, 0, "r", "+", b"\x91" * 100_000]),
        ("rows", ["5", 0, 0, "r", "+", "text"]),
        ("rows", ["5", 0, 0, "r", "+"]),
        ("staged", ["5", 0]),
        ("staged", ["../../etc", 0, 0]),
        ("nothing", []),
        (["rows"], []),
    ],
)
def test_nonsense_is_refused_and_leaves_nothing(layout: Layout, kind: Any, arguments: list[Any]) -> None:
    inbound = Inbound(layout, 0, 1, {"r": 1})
    with pytest.raises(ValueError):
        list(inbound.take("client", kind, arguments))
    inbound.forget("client")
    assert not layout.batches.exists()


def test_a_push_that_cannot_be_written_fails_alone(layout: Layout) -> None:
    layout.batches.parent.mkdir(exist_ok=True)
    layout.batches.write_text("a file where a folder should be")
    inbound = Inbound(layout, 0, 1)
    assert list(inbound.take("client", "rows", ["5", 0, 0, "r", "+", encode([(1,)])])) == []
    assert "cannot keep what was pushed" in answer(inbound.take("client", "staged", ["5", 0, 0]))["error"]


def test_a_damaged_batch_is_never_half_applied(layout: Layout) -> None:
    inbound = Inbound(layout, 0, 1)
    for i in range(3):
        list(inbound.take("c", "rows", ["5", 0, 0, "r", "+", encode([(i, "x" * 100)])]))
    [[_, _, name, _]] = answer(inbound.take("c", "staged", ["5", 0, 0]))
    path = layout.batches / name
    data = path.read_bytes()
    for broken in (data[:-1], data[:-120] + b"?" + data[-119:], data[:200] + b"?" + data[201:]):
        path.write_bytes(broken)
        with pytest.raises(Damaged):
            list(read_batch(layout, name))
    path.unlink()
    with pytest.raises(Damaged, match="not there"):
        list(read_batch(layout, name))


def test_the_stage_s_own_input_becomes_operations() -> None:
    rows = [(0, "link", "+", bytearray(encode([("a", 1), ("b", 2)]))), (0, "link", "-", encode([("c", 3)]))]
    assert list(Inbound.operations(rows)) == [
        ("+", "link", ("a", 1)), ("+", "link", ("b", 2)), ("-", "link", ("c", 3)),
    ]  # fmt: skip
    assert decode_rows(encode([])) == []
