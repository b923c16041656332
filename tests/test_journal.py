"""The journal: what was logged is there again, in whatever state the machine stopped."""

from __future__ import annotations

import json
import os
import random
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalog.errors import RuntimeProblem, UsageProblem
from livelog.edits import Edit
from livelog.store import records
from livelog.store.formats import BatchFile, Logged, decode_record, encode_record, load_sealed, sealed
from livelog.store.journal import Batch, Description, Entry, Journal, describe
from livelog.store.layout import Layout
from livelog.store.parts import Part, write_part
from livelog.store.records import Damaged
from tests.journals import DESCRIPTION, Book, facts_of, settled, snapshot


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without waiting for the disk, where nothing crashes."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)


def test_a_session_is_there_again(tmp_path: Path) -> None:
    with_all = [("+", "link", ("a", 1)), ("-", "link", ("b", 1.0)), ("@", None, 3.5)]
    batch = Batch((BatchFile("link", "+", "b-0", 0, 2), BatchFile("link", "-", "b-1", 1, 2)))
    journal = Journal.create(tmp_path / "s", DESCRIPTION)
    assert (journal.number, journal.waiting, journal.newest(), journal.follows) == (0, None, None, [])
    first = journal.begin(with_all, batch=batch, query=("q", 7), source="u.txt", position=2, follow="r")
    assert first == Entry(1, with_all, batch, ("q", 7), "u.txt", 2, "r")
    assert journal.waiting == first and journal.queries == {}, "not committed yet"
    journal.end(1, True)
    journal.end(journal.begin(query=("q", 8), source="u.txt", position=3, follow="other").number, False)
    third = journal.begin([("+", "link", ("c", 1))])
    journal.close()

    again = Journal.open(tmp_path / "s")
    assert again.description == DESCRIPTION
    assert (again.number, again.torn) == (3, 0)
    assert list(again.entries(0)) == [first, third] and again.waiting == third
    assert list(again.entries(1)) == [third] and list(again.entries(3)) == []
    assert again.queries == {"q": 7} and again.follows == ["r"]
    assert again.position("u.txt") == 2 and again.position("other") is None
    again.end(3, False)
    assert list(again.entries(0)) == [first]
    again.close()


def test_order_is_kept(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path, DESCRIPTION)
    with pytest.raises(RuntimeProblem, match="transaction 0 is not the one"):
        journal.end(0, True)
    journal.begin()
    with pytest.raises(RuntimeProblem, match="transaction 1 has no outcome yet"):
        journal.begin()
    with pytest.raises(RuntimeProblem, match="transaction 1 has no outcome yet"):
        journal.start_checkpoint()
    with pytest.raises(RuntimeProblem, match="transaction 2 is not the one"):
        journal.end(2, True)
    journal.end(1, True)
    with pytest.raises(RuntimeProblem, match="transaction 1 is not the one"):
        journal.end(1, True)
    with pytest.raises(RuntimeProblem, match="checkpoint 1 is not the one that was begun"):
        journal.finish_checkpoint(1, 0.0, [], 1)


def test_a_transaction_costs_one_sync_and_its_outcome_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    journal = Journal.create(tmp_path / "durable", DESCRIPTION)
    careless = Journal.create(tmp_path / "careless", DESCRIPTION, sync="never")
    monkeypatch.setattr(os, "fsync", lambda fd: calls.append("fsync"))
    monkeypatch.setattr(os, "fdatasync", lambda fd: calls.append("fdatasync"))
    journal.begin([("+", "link", (1, 2))])
    assert calls == ["fdatasync"]
    journal.end(1, True)
    careless.begin([("+", "link", (1, 2))])
    assert calls == ["fdatasync"]


def test_what_cannot_be_logged_has_not_happened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal.create(tmp_path, DESCRIPTION)
    for value in (2**64, -(2**63) - 1, "\ud800", object()):
        with pytest.raises(RuntimeProblem, match="cannot be logged"):
            journal.begin([("+", "link", (value,))])
    real = os.fdatasync

    def interrupted(fd: int) -> None:
        real(fd)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            journal.begin([("+", "link", ("lost",))])
    assert (journal.number, journal.waiting) == (0, None)
    journal.end(journal.begin([("+", "link", ("kept",))]).number, True)
    journal.close()
    assert [e.operations for e in Journal.open(tmp_path).entries(0)] == [[("+", "link", ("kept",))]]


# --- descriptions ------------------------------------------------------------------------------------------------


def test_a_directory_holds_one_session(tmp_path: Path) -> None:
    Journal.create(tmp_path, DESCRIPTION).close()
    with pytest.raises(UsageProblem, match="already holds a session: go on with it by `livelog resume"):
        Journal.create(tmp_path, DESCRIPTION)
    (tmp_path / "session.json").unlink()
    with pytest.raises(UsageProblem, match="there is no session in"):
        Journal.open(tmp_path)
    Journal.create(tmp_path, DESCRIPTION).close()  # there was nothing in its log
    journal = Journal.open(tmp_path)
    journal.end(journal.begin().number, True)
    journal.close()
    (tmp_path / "session.json").unlink()
    with pytest.raises(UsageProblem, match=r"its session\.json is gone"):
        Journal.create(tmp_path, DESCRIPTION)
    with pytest.raises(UsageProblem, match="there is no session in"):
        Journal.open(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageProblem, match=r"cannot use .*/file/s for a session: Not a directory"):
        Journal.create(tmp_path / "file" / "s", DESCRIPTION)


def test_only_one_at_a_time(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path, DESCRIPTION)
    with pytest.raises(UsageProblem, match=f"is already open in process {os.getpid()} on"):
        Journal.open(tmp_path)
    journal.close()
    Journal.open(tmp_path).close()


def test_constants_keep_their_types(tmp_path: Path) -> None:
    constants = {"k": 20, "f": 2.0, "s": "ü", "l": (1, 1.0, ("x", ())), "big": 2**64 - 1, "z": -0.0}
    described = msgspec.structs.replace(DESCRIPTION, constants=constants, script="/u.txt", limit=None)
    Journal.create(tmp_path / "a", described).close()
    journal = Journal.open(tmp_path / "a")
    assert repr(journal.description) == repr(described) == repr(describe(tmp_path / "a"))
    for value in (float("inf"), float("nan"), object(), "\ud800"):
        with pytest.raises(UsageProblem, match="the constant k cannot be stored"):
            Journal.create(tmp_path / "b", msgspec.structs.replace(DESCRIPTION, constants={"k": value}))


def test_another_format_is_refused(tmp_path: Path) -> None:
    Journal.create(tmp_path, msgspec.structs.replace(DESCRIPTION, version=99)).close()
    with pytest.raises(UsageProblem, match="has format 99; this Livelog reads 2 and 3"):
        Journal.open(tmp_path)


def test_a_former_format_becomes_the_present_one(tmp_path: Path) -> None:
    Journal.create(tmp_path, msgspec.structs.replace(DESCRIPTION, version=2)).close()
    journal = Journal.open(tmp_path)
    assert journal.description.version == describe(tmp_path).version == 3
    journal.end(journal.begin(edit=Edit("r(x) :- e(x).", names=("r",))).number, committed=True)
    journal.close()
    journal = Journal.open(tmp_path)
    assert [edit.names for edit in journal.edits] == [("r",)]
    journal.end(journal.begin(edit=Edit(drop=("r",))).number, committed=True)
    assert not journal.edits
    journal.close()


def test_records_without_an_edit_are_read(tmp_path: Path) -> None:
    """What an older version has logged is an entry with seven fields."""
    whole = encode_record(Entry(1, [("+", "e", (1,))], None, ("q", 3), "feed", 7, None))
    old = msgspec.msgpack.encode(msgspec.msgpack.decode(whole)[:-1])
    record = decode_record(old)
    assert isinstance(record, Logged) and record.entry() == Entry(1, [("+", "e", (1,))], None, ("q", 3), "feed", 7)


def test_a_description_that_was_touched_is_refused_or_the_same(tmp_path: Path) -> None:
    Journal.create(tmp_path, DESCRIPTION).close()
    path = tmp_path / "session.json"
    data = path.read_bytes()
    assert json.loads(data)["content"]["program"] == DESCRIPTION.program, "a person can read it"
    refused = 0
    for at in range(len(data)):
        for mask in (1, 4, 0x80):
            path.write_bytes(data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :])
            try:
                assert load_sealed(path, Description) == DESCRIPTION
            except Damaged as damaged:
                assert damaged.file == path
                refused += 1
    assert refused > 2.9 * len(data)


# --- values ------------------------------------------------------------------------------------------------------

SCALARS = (
    st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.sampled_from([0, 0.0, -0.0, 1, 1.0, "", "1", "\0"])
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=8)
ROWS = st.lists(VALUES, max_size=4).map(tuple)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("+-"), st.text(), ROWS) | st.tuples(st.just("@"), st.none(), st.floats())))
def test_rows_come_back_with_value_and_type(tmp_path_factory: pytest.TempPathFactory, operations: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("journal")
    journal = Journal.create(folder, DESCRIPTION, sync="never")
    journal.begin(operations)
    journal.close()
    journal = Journal.open(folder)
    assert repr(journal.waiting.operations) == repr(operations)  # type: ignore[union-attr]
    assert repr([entry.operations for entry in journal.entries(0)]) == repr([operations])
    journal.close()


@pytest.mark.parametrize("depth", [7, 8, 9, 10, 30])
def test_lists_nested_however_deep(tmp_path: Path, depth: int) -> None:
    value: Any = ("x", 1, 1.0)
    for _ in range(depth):
        value = (value, 2)
    journal = Journal.create(tmp_path, DESCRIPTION)
    operations = [("+", "r", (value, "y")), ("@", None, 3.0), ("-", "r", (1,))]
    journal.begin(operations)
    assert repr(next(journal.entries(0)).operations) == repr(operations)


def test_a_long_log_is_streamed(tmp_path: Path, fast: None) -> None:
    journal = Journal.create(tmp_path, DESCRIPTION)
    for i in range(60):
        journal.end(journal.begin([("+", "link", (i, "x" * 1_000_000))]).number, True)
    journal.close()
    tracemalloc.start()
    journal = Journal.open(tmp_path)
    assert sum(1 for _ in journal.entries(0)) == 60
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


# --- checkpoints -------------------------------------------------------------------------------------------------


def test_checkpoints_with_real_parts(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path, DESCRIPTION)
    journal.end(journal.begin([("+", "link", ("a", 1))], query=("q", 3), source="u", position=1).number, True)
    number, folder = journal.start_checkpoint()
    assert (number, folder) == (1, tmp_path / "checkpoints/1")
    path = journal.layout.part(number, "link#1", 0)
    part = write_part(path, ("src", "cost"), ("symbol", "number"), [(("a", 1), 1, None)])
    journal.end(journal.begin([("+", "link", ("b", 2))], query=("q", 4), follow="r").number, True)
    manifest = journal.finish_checkpoint(number, float("inf"), [("link#1", 0, part)], 2)
    assert (manifest.number, manifest.clock, manifest.partitions) == (1, float("inf"), 2)
    assert manifest.part("link#1", 0) == manifest.parts[0] and manifest.part("link#1", 1) is None
    assert manifest.progress.queries == {"q": 3}, "the transaction after it is not part of it"
    journal.close()
    again = Journal.open(tmp_path)
    assert again.newest() == manifest
    assert [entry.number for entry in again.entries(1)] == [2]
    assert again.queries == {"q": 4} and again.follows == ["r"] and again.position("u") == 1


def test_parts_that_lack_do_not_make_a_checkpoint(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path, DESCRIPTION)
    number, _ = journal.start_checkpoint()
    with pytest.raises(RuntimeProblem, match=r"lacks .*/link\.0\.parquet: No such file"):
        journal.finish_checkpoint(number, 0.0, [("link", 0, Part(1, 10, 0))], 1)
    journal.layout.part(number, "link", 0).write_bytes(b"123456789")
    with pytest.raises(RuntimeProblem, match=r"has 9 bytes in .*/link\.0\.parquet instead of 10"):
        journal.finish_checkpoint(number, 0.0, [("link", 0, Part(1, 10, 0))], 1)
    assert journal.newest() is None


def test_the_number_of_a_checkpoint_is_never_used_again(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path, DESCRIPTION)
    first, folder = journal.start_checkpoint()
    journal.close()
    journal = Journal.open(tmp_path)
    assert not folder.exists(), "what was not finished is cleared away"
    second, _ = journal.start_checkpoint()
    third, _ = journal.start_checkpoint()
    assert 0 < first < second < third == journal.number
    with pytest.raises(RuntimeProblem, match=f"checkpoint {second} is not the one"):
        journal.finish_checkpoint(second, 0.0, [], 1)
    journal.finish_checkpoint(third, 0.0, [], 1)
    fourth, _ = journal.start_checkpoint()
    assert fourth > third
    assert [entry.operations for entry in journal.entries(0)] == [[]] * fourth


def test_old_checkpoints_go_with_their_logs_and_batches(tmp_path: Path) -> None:
    book = Book(tmp_path)
    layout, checkpoints = Layout(tmp_path), []
    for _ in range(4):
        for _ in range(2):
            book.transaction()
            layout.batch(book.journal.number).mkdir()
        checkpoints.append(book.checkpoint())
    assert checkpoints == [2, 4, 6, 8]
    assert sorted(p.name for p in layout.checkpoints.iterdir()) == ["6", "8"]
    assert sorted(p.name for p in layout.logs.iterdir()) == ["6.log", "8.log"]
    assert sorted(p.name for p in layout.batches.iterdir()) == ["7", "8"]
    assert [entry.number for entry in book.journal.entries(6)] == [7, 8]
    with pytest.raises(RuntimeProblem, match="the log starts after transaction 6, not 5"):
        book.journal.entries(5)
    book.journal.close()
    layout.batch(9).mkdir()  # pushed for a transaction that was never logged
    (layout.directory / ".session.json.1234.tmp").touch()
    (layout.checkpoint(8) / ".manifest.json.1234.tmp").touch()
    layout.log(4).touch()
    Journal.open(tmp_path).close()
    assert sorted(p.name for p in layout.batches.iterdir()) == ["7", "8"]
    assert sorted(p.name for p in layout.logs.iterdir()) == ["6.log", "8.log"]
    assert not list(tmp_path.rglob("*.tmp"))


# --- damage ------------------------------------------------------------------------------------------------------


@pytest.fixture
def long(tmp_path: Path) -> Book:
    """A closed session with two checkpoints and transactions between and after them."""
    book = Book(tmp_path / "s")
    for step in "tattcttactt":
        {"t": book.transaction, "a": lambda: book.transaction(False), "c": book.checkpoint}[step]()
    book.journal.close()
    return book


def refused(book: Book, file: Path, what: str) -> Damaged:
    """Opening fails, names the file, and changes nothing."""
    before = snapshot(book.folder)
    with pytest.raises(Damaged, match=what) as damaged:
        Journal.open(book.folder)
    assert damaged.value.file == file and str(file) in damaged.value.message
    assert snapshot(book.folder) == before
    return damaged.value


@pytest.mark.parametrize("which", ["manifest.json", "fact.1.parquet"])
@pytest.mark.parametrize("how", ["flip", "cut", "gone"])
def test_a_damaged_newest_checkpoint_is_refused_with_a_way_out(long: Book, which: str, how: str) -> None:
    layout, newest = Layout(long.folder), long.checkpoints[-1]
    path = layout.checkpoint(newest) / which
    data = path.read_bytes()
    if how == "flip":
        path.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
    elif how == "cut":
        path.write_bytes(data[:-3])
    elif which != "manifest.json":
        path.unlink()
    else:
        path.unlink()
        path.mkdir()
    damaged = refused(long, path, "is damaged")
    assert f"checkpoint {long.checkpoints[0]} and the log after it are complete" in damaged.message
    assert f"move {path.parent} away" in damaged.message
    shutil.move(path.parent, long.folder.parent / "away")
    journal = Journal.open(long.folder)
    assert journal.newest().number == long.checkpoints[0]  # type: ignore[union-attr]
    assert facts_of(journal) == long.committed, "nothing is lost on that way"


def test_no_way_out_is_promised_that_is_none(long: Book) -> None:
    layout = Layout(long.folder)
    part = layout.part(long.checkpoints[-1], "fact", 0)
    part.unlink()
    layout.log(long.checkpoints[0]).unlink()
    assert "complete" not in refused(long, part, "is damaged").message


def test_every_flipped_byte_of_a_manifest_is_refused_or_harmless(long: Book) -> None:
    journal = Journal.open(long.folder)
    manifest = journal.newest()
    journal.close()
    path = Layout(long.folder).manifest(long.checkpoints[-1])
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        try:
            journal = Journal.open(long.folder)
        except Damaged as damaged:
            assert damaged.file == path
            continue
        assert journal.newest() == manifest
        journal.close()


def test_a_manifest_of_another_checkpoint_is_refused(long: Book) -> None:
    layout = Layout(long.folder)
    path = layout.manifest(long.checkpoints[-1])
    shutil.copy(layout.manifest(long.checkpoints[0]), path)
    refused(long, path, f"it belongs to checkpoint {long.checkpoints[0]}")


def test_a_file_of_the_log_that_lacks_is_missed(long: Book) -> None:
    layout, newest = Layout(long.folder), long.checkpoints[-1]
    saved = layout.log(newest).read_bytes()
    layout.log(newest).unlink()
    refused(long, layout.log(newest), "it is missing")
    layout.log(newest).write_bytes(saved)
    layout.manifest(newest).unlink()  # the log is followed from the checkpoint before
    layout.log(long.checkpoints[0]).unlink()
    refused(long, layout.log(long.checkpoints[0]), "it is missing")


@pytest.mark.parametrize("bytes_", [1, 40])
def test_only_the_last_file_of_the_log_may_be_torn(long: Book, bytes_: int) -> None:
    layout, (first, newest) = Layout(long.folder), long.checkpoints
    layout.manifest(newest).unlink()
    with layout.log(first).open("r+b") as file:
        file.truncate(layout.log(first).stat().st_size - bytes_)
    with pytest.raises(Damaged):
        Journal.open(long.folder)


def test_each_prefix_of_a_log_opens_with_its_whole_transactions(tmp_path: Path, fast: None) -> None:
    book = Book(tmp_path / "s")
    sizes = [(book.size(), 0, None)]
    for committed in (True, False, True):
        book.transaction(committed, between=lambda: sizes.append((book.size(), book.journal.number, None)))
        sizes.append((book.size(), book.journal.number, committed))  # type: ignore[arg-type]
    book.journal.close()
    path = book.journal.layout.log(0)
    data = path.read_bytes()
    for size in range(len(data)):
        book.journal.layout.acknowledged.unlink(missing_ok=True)  # as if the machine had stopped at this byte
        path.write_bytes(data[:size])
        known = [item for item in sizes if item[0] <= size]
        start, number, outcome = known[-1] if known else (0, 0, True)
        journal = Journal.open(book.folder)
        assert (journal.number, journal.torn) == (number, size - start)
        assert (journal.waiting is None) == (number == 0 or outcome is not None)
        assert settled(journal) == book.committed_until(number - (journal.waiting is not None))
        journal.close()


def test_each_flipped_byte_of_a_log_is_found_or_at_its_end(tmp_path: Path, fast: None) -> None:
    book = Book(tmp_path / "s")
    for committed in (True, False, True):
        book.transaction(committed)
    book.journal.close()
    path = book.journal.layout.log(0)
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 2]) + data[at + 1 :])
        try:
            journal = Journal.open(book.folder)
        except Damaged as damaged:
            assert damaged.file == path
            continue
        assert facts_of(journal) == book.committed and journal.number == 3, "only the last outcome can be lost"
        assert journal.waiting is not None
        journal.close()


def test_damage_while_the_session_runs_is_no_silent_loss(tmp_path: Path) -> None:
    book = Book(tmp_path / "s")
    for _ in range(4):
        book.transaction()
    path = book.journal.layout.log(0)
    os.truncate(path, path.stat().st_size - 90)
    with pytest.raises(Damaged, match="transaction 4 is not there as a whole"):
        list(book.journal.entries(0))
    path.unlink()
    with pytest.raises(Damaged):
        list(book.journal.entries(0))


def test_records_that_are_whole_and_make_no_sense_are_refused(tmp_path: Path) -> None:
    for i, bodies in enumerate([[b"\xc1"], [msgspec.msgpack.encode([2, 1, True])], [msgspec.msgpack.encode([3])]]):
        Journal.create(tmp_path / str(i), DESCRIPTION).close()
        writer = records.RecordWriter(tmp_path / str(i) / "log/0.log")
        for body in bodies:
            writer.append(body)
        writer.close()
        with pytest.raises(Damaged):
            Journal.open(tmp_path / str(i))


# --- the law -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_random_histories(tmp_path: Path, fast: None, seed: int) -> None:
    """Whatever was begun, ended, checkpointed and opened again: the journal tells what a list would."""
    draw = random.Random(seed)
    book = Book(tmp_path / "s")
    for _ in range(draw.randrange(5, 60)):
        match draw.choice(["transaction"] * 5 + ["abort", "checkpoint", "slow checkpoint", "give up", "open", "rerun"]):
            case "transaction":
                book.transaction()
            case "abort":
                book.transaction(False)
            case "checkpoint":
                book.checkpoint()
            case "slow checkpoint":
                book.checkpoint(between=draw.randrange(3))
            case "give up":
                book.journal.start_checkpoint()
            case "open":
                book.reopen()
            case "rerun":  # the outcome is lost, and decided after it was opened again
                book.interrupted(draw.random() < 0.5)
        assert facts_of(book.journal) == book.committed
        assert book.journal.queries == book.queries and book.journal.follows == book.follows
        assert book.journal.position("feed") == book.queries.get("feed")
        oldest = book.checkpoints[-2] if len(book.checkpoints) > 1 else 0
        after = draw.randint(oldest, book.journal.number)
        expected = [row for number, row, committed in book.model if number > after and committed]
        assert [e.operations[0][2] for e in book.journal.entries(after) if e.operations] == expected
    book.reopen()
    assert facts_of(book.journal) == book.committed


def test_sealed_content_is_what_counts(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(sealed(DESCRIPTION))
    assert load_sealed(path, Description) == DESCRIPTION
    with pytest.raises(Damaged, match="cannot be read"):
        load_sealed(tmp_path / "none.json", Description)
