"""Parts of checkpoints: what comes back is exactly what was written, and other tools can read it too."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datalog.errors import RuntimeProblem
from livelog.store import parts as module
from livelog.store.parts import Part, check_part, read_part, write_part
from livelog.store.records import Damaged

Rows = list[tuple[tuple[Any, ...], int, float | None]]

TYPED: dict[str, Any] = {
    "number": st.integers(-(2**63), 2**63 - 1),
    "unsigned": st.integers(0, 2**64 - 1),
    "float": st.floats() | st.sampled_from([-0.0, 0.0, 1.0, float("inf"), float("nan")]),
    "symbol": st.text() | st.sampled_from(["", "\0", "a", "nil"]),
}
SCALARS = st.one_of(*TYPED.values())
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)
TYPED["list"] = st.lists(VALUES, max_size=3).map(tuple)
TYPED["any"] = VALUES
quick = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def parts(draw: Any) -> tuple[list[str], list[str], Rows]:
    """Columns, their types, and rows; now and then with values that their type does not have."""
    types = draw(st.lists(st.sampled_from(sorted(TYPED)), max_size=3))
    columns = draw(st.lists(st.sampled_from(["a", "b", "count", "expires", "ü x"]), min_size=3, max_size=3))
    cells = [TYPED[kind] if draw(st.integers(0, 4)) else TYPED[kind] | VALUES for kind in types]
    counts = draw(st.sampled_from([st.just(1), st.integers(1, 2**63 - 1)]))
    times = draw(st.sampled_from([st.none(), st.none() | st.floats(), st.none() | st.floats() | st.integers(0, 9)]))
    rows = draw(st.lists(st.tuples(st.tuples(*cells), counts, times), max_size=12))
    return columns[: len(types)], types, rows


def there_and_back(folder: Path, columns: list[str], types: list[str], rows: Rows) -> pa.Schema:
    path = folder / "x.parquet"
    part = write_part(path, columns, types, iter(rows))
    assert [p.name for p in folder.iterdir()] == ["x.parquet"], "nothing is left behind"
    assert part.rows == len(rows) and part.bytes == path.stat().st_size
    assert repr(list(read_part(path, part))) == repr(rows), "the same values of the same types in the same order"
    return pq.read_schema(path)


@quick
@given(parts(), st.integers(1, 13))
def test_parts_come_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, given_: Any, batch: int
) -> None:
    """Also when it is only in a later batch that a column proves to be mixed, or the first count or expiry comes."""
    monkeypatch.setattr(module, "BATCH", batch)
    there_and_back(tmp_path_factory.mktemp("part"), *given_)


def kinds(schema: pa.Schema) -> dict[str, str]:
    return {field.name: str(field.type).removeprefix("large_") for field in schema}


def test_columns_have_their_names_and_types(tmp_path: Path) -> None:
    rows: Rows = [(("a", 1, 2**64 - 1, 2.0, ("x",), 5), 1, None), (("b", -1, 0, -0.0, (), 6), 1, None)]
    schema = there_and_back(tmp_path, list("abcdef"), ["symbol", "number", "unsigned", "float", "list", "any"], rows)
    assert kinds(schema) == {
        "a": "string", "b": "int64", "c": "uint64", "d": "double", "e": "binary", "f": "int64",
    }  # fmt: skip
    assert schema.field("e").metadata[b"livelog"] == b"msgpack"
    assert schema.field("f").metadata is None or b"livelog" not in schema.field("f").metadata
    assert pq.read_table(tmp_path / "x.parquet").column("a").to_pylist() == ["a", "b"], "as any tool would"


def test_what_nobody_asked_for_has_no_column(tmp_path: Path) -> None:
    assert list(kinds(there_and_back(tmp_path, ["a"], ["number"], [((1,), 1, None)]))) == ["a"]
    assert list(kinds(there_and_back(tmp_path, ["a"], ["number"], [((1,), 2, None)]))) == ["a", "count"]
    assert list(kinds(there_and_back(tmp_path, ["a"], ["number"], [((1,), 1, 2.0)]))) == ["a", "expires"]
    schema = there_and_back(tmp_path, ["count", "count"], ["number"] * 2, [((1, 2), 3, 4.0)])
    assert list(kinds(schema)) == ["count", "count_", "count__", "expires"]
    assert schema.field("count__").metadata[b"livelog"] == b"count"


@pytest.mark.parametrize(("rows", "columns"), [(0, 0), (0, 2), (1, 0), (5, 0)])
def test_nothing_is_something(tmp_path: Path, rows: int, columns: int) -> None:
    there_and_back(tmp_path, ["a", "b"][:columns], ["number", "any"][:columns], [((1, "x")[:columns], 1, None)] * rows)


@pytest.mark.parametrize(
    ("type_", "values", "kind"),
    [
        ("number", [1, 2, 2.0], "binary"),
        ("number", [1, 2**63], "binary"),
        ("float", [1.0, 2.0, 2], "binary"),
        ("symbol", ["1", 1], "binary"),
        ("any", ["x", "y", ("x",)], "binary"),
        ("any", [2**64 - 1, 0], "uint64"),
        ("any", [2**64 - 1, -1], "binary"),
        ("any", [1, None], "binary"),
        ("number", [True, 1], "binary"),
    ],
)
def test_a_column_is_typed_only_if_that_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, type_: str, values: list[Any], kind: str
) -> None:
    rows: Rows = [((v,), 1, None) for v in values]
    assert kinds(there_and_back(tmp_path, ["a"], [type_], rows)) == {"a": kind}
    monkeypatch.setattr(module, "BATCH", 1)
    assert kinds(there_and_back(tmp_path, ["a"], [type_], rows)) == {"a": kind}


def test_every_flipped_byte_is_found(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    part = write_part(path, ["a", "b"], ["symbol", "any"], [((f"n{i}", i), 1, None) for i in range(3)])
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(Damaged, match="does not match its checksum") as damaged:
            list(read_part(path, part))
        assert damaged.value.file == path
    path.write_bytes(data[:-1])
    with pytest.raises(Damaged, match=f"has {len(data) - 1} bytes instead of {len(data)}"):
        check_part(path, part)
    with pytest.raises(Damaged, match="cannot be read"):
        list(read_part(path))
    path.unlink()
    with pytest.raises(Damaged, match=r"cannot be read .*No such file"):
        check_part(path, part)
    with pytest.raises(Damaged, match=r"cannot be read .*No such file"):
        list(read_part(path))


def test_a_failure_in_the_middle_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 2)
    path = tmp_path / "x.parquet"
    part = write_part(path, ["a"], ["number"], [((1,), 1, None)])

    def broken(last: Any) -> Iterator[Any]:
        yield from [((i,), 1, None) for i in range(5)]
        if last is None:
            raise ZeroDivisionError
        yield last

    for last, problem in (
        (None, ZeroDivisionError), (((2**64,), 1, None), RuntimeProblem), ((("\ud800",), 1, None), RuntimeProblem),
        (((1, 2), 1, None), ValueError),
    ):  # fmt: skip
        with pytest.raises(problem):
            write_part(path, ["a"], ["number"], broken(last))
        assert [p.name for p in tmp_path.iterdir()] == ["x.parquet"]
        assert list(read_part(path, part)) == [((1,), 1, None)]


def test_a_folder_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    """The checkpoint was given up, and the task that writes is of a stage that is thought dead."""
    with pytest.raises(RuntimeProblem, match=r"cannot write .*/gone/x\.parquet: .*No such file"):
        write_part(tmp_path / "gone" / "x.parquet", ["a"], ["number"], [((1,), 1, None)])
    assert not (tmp_path / "gone").exists()


MILLION = """
import resource, sys
from pathlib import Path
from livelog.store.parts import read_part, write_part

names = [f"node {i}" for i in range(1000)]

def rows(n, odd):
    for i in range(n):
        yield (names[i % 1000], i), 1 + (i == odd), None

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

def both(n):
    path = Path(sys.argv[1]) / f"{n}.parquet"
    part = write_part(path, ("a", "b"), ("symbol", "number"), rows(n, n - 1))
    assert part.rows == n
    back = read_part(path, part)
    assert all(one == other for one, other in zip(rows(n, n - 1), back, strict=True))

both(100_000)
before = peak()
both(1_000_000)
print(peak() - before)
"""


def test_a_million_rows_in_little_memory(tmp_path: Path) -> None:
    """Ten times the rows take no more memory; the last one makes the file be written again with a count."""
    done = subprocess.run(
        [sys.executable, "-c", MILLION, str(tmp_path)], capture_output=True, text=True, cwd=Path(__file__).parent.parent
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 40, "MB"


def test_symbols_are_shared(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_part(path, ["a"], ["symbol"], [(("a long symbol"[: 5 + i % 3],), 1, None) for i in range(200_000)])
    assert len({id(row[0]) for row, _, _ in list(read_part(path))}) == 3


def test_a_part_can_be_sent(tmp_path: Path) -> None:
    import msgspec

    part = write_part(tmp_path / "x", [], [], [])
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(part), type=Part) == part
