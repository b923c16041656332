"""Points, windows and streams over Spark: the same steps as in one process, whoever dies in between."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import livelog
from datalog.errors import UsageProblem
from tests.kills import Ambush
from tests.test_streaming import Folder

PROGRAM = """
.decl roomTemp(room: symbol, temp: number) key(room)
.decl reading(room: symbol, temp: number) stream
.decl link(a: number, b: number)
.decl alive(x: number) ttl(7)
.output hot
.output last
.output recent
.output many
.output reach
.output aged
every2(t) :- clock(t), t % 2 = 0.
alarm(t) :- reading(_, v)@t, v > 120.
hot(r, v) :- roomTemp(r, v) at every2, v > 80.
last(r, v, t) :- roomTemp(r, v)@t at alarm.
recent(r, v, t) :- reading(r, v)@t, now(n), n - 3 < t, t <= n.
many(r, count<*>) :- reading(r, _)@t at every(3), now(n), n - 5 < t, t <= n.
reach(x, y) :- link(x, y) at every2.
reach(x, z) :- reach(x, y), link(y, z) at every(5, from=1).
aged(x, t) :- alive(x)@t, !link(x, x) at every2.
"""
VIEWS = ("hot", "last", "recent", "many", "reach", "aged")
Script = list[list[tuple[Any, ...]]]


def script(seed: int, length: int = 10) -> Script:
    """Transactions: moves of the clock, some of them over many points, with operations before and behind them."""
    rng = random.Random(seed)
    clock, found = 0, []
    for _ in range(length):
        operations: list[tuple[Any, ...]] = []
        for _ in range(rng.randrange(1, 4)):
            for _ in range(rng.randrange(4)):
                room, links = (rng.choice("abc"), rng.randrange(60, 140)), (rng.randrange(5), rng.randrange(5))
                operations.append(
                    rng.choice([
                        ("insert", "roomTemp", room), ("insert", "reading", room), ("insert", "link", links),
                        ("delete", "link", links), ("insert", "alive", links[:1]),
                    ])
                )  # fmt: skip
            clock += rng.choice([0, 1, 1, 2, 9])
            operations.append(("advance", clock))
        found.append(operations)
    return found


def perform(session: livelog.Session, operations: list[tuple[Any, ...]]) -> list[Any]:
    """What a transaction told."""
    with session.transaction() as tx:
        for kind, *rest in operations:
            {"insert": tx.insert, "delete": tx.delete, "advance": tx.advance_to}[kind](*rest)
    return [[(step.time, step.full, str(step)) for step in tx.steps], str(tx.changes)]


def views(session: livelog.Session) -> dict[str, list[Any]]:
    return {view: sorted(session[view]) for view in VIEWS}


def alone(transactions: Script) -> Iterator[tuple[list[Any], dict[str, list[Any]]]]:
    """What one process tells, and has in its views, after each transaction."""
    with livelog.open(PROGRAM) as session:
        for operations in transactions:
            yield perform(session, operations), views(session)


@pytest.mark.parametrize(("strategy", "seed"), [("absorption", 1), ("dred", 2), ("recompute", 3)])
def test_the_same_steps_as_in_one_process(spark: Any, strategy: str, seed: int) -> None:
    transactions = script(seed)
    assert sum(len(told[0]) for told, _ in alone(transactions)) > len(transactions)  # some have several steps
    with livelog.open(PROGRAM, strategy=strategy, runtime=livelog.Spark(spark, partitions=3)) as session:
        for operations, (told, expected) in zip(transactions, alone(transactions), strict=True):
            assert perform(session, operations) == told
            assert views(session) == expected
        session.check()


@pytest.mark.parametrize("step", ["due", "step_over", "begin", "passed", "commit"])
def test_killed_in_the_middle_of_a_jump(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Whoever reads the changes hears of each point once, and a session that goes on has what was kept."""
    transactions = script(4, 6)
    expected = list(alone(transactions))
    ambush = Ambush(monkeypatch)
    folder = tmp_path / "session"
    heard: list[Any] = []
    with livelog.open(PROGRAM, runtime=livelog.Spark(spark, partitions=3, checkpoint=folder)) as session:
        session.subscribe("hot", lambda changes: heard.append((changes.time, str(changes))))
        feed = session.changes("hot")
        for number, operations in enumerate(transactions[:4]):
            if number in (1, 3):
                ambush.set(step, number % 3)
            assert perform(session, operations) == expected[number][0]
            assert not ambush.waiting, f"there was no step {step}"
            assert views(session) == expected[number][1]
        assert ambush.deaths == 2
        feed.close()
    told = [(time, part) for steps, _ in (e[0] for e in expected[:4]) for time, _, text in steps
            if (part := "\n".join(line for line in text.splitlines() if " +hot(" in line or " -hot(" in line))]
    assert len(heard) == len(told)
    assert [time for time, _ in heard] == [time for time, _ in told]
    with livelog.resume(folder, runtime=livelog.Spark(spark, partitions=3)) as session:
        assert views(session) == expected[3][1]
        session.checkpoint()
        assert perform(session, transactions[4]) == expected[4][0]
    with livelog.resume(folder, runtime=livelog.Spark(spark, partitions=3)) as session:
        assert perform(session, transactions[5]) == expected[5][0]
        assert views(session) == expected[5][1]


def test_a_data_frame_arrives_in_a_stream(spark: Any) -> None:
    frame = spark.createDataFrame([("a", 130), ("b", 70), ("b", 70)], "room string, temp long")
    with livelog.open(PROGRAM, facts={"reading": frame}, runtime=livelog.Spark(spark, partitions=3)) as session:
        assert views(session)["recent"] == [("a", 130, 0), ("b", 70, 0)]
        assert views(session)["many"] == [("a", 1), ("b", 2)]
        perform(session, [("advance", 2)])
        session.load("reading", frame)
        assert ("a", 130, 2) in session["recent"] and session.clock == 2
        assert sorted(session["reading"]) == [("a", 130)] * 2 + [("b", 70)] * 4


# --- event time ------------------------------------------------------------------------------------------------

SENSORS = """
.decl reading(room: symbol, temp: number) stream
.output lately
.output hot
lately(r, v, t) :- reading(r, v)@t, now(n), n - 30 < t, t <= n.
hot(r, v) :- reading(r, v)@t at every(10), now(n), n - 30 < t, t <= n, v > 80.
"""
START = 1_767_225_600  # the beginning of 2026


def sensed(room: str, temp: int, second: int) -> dict[str, Any]:
    return {"room": room, "temp": temp, "at": f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z"}


def test_the_watermark_is_the_clock(spark: Any, tmp_path: Path) -> None:
    files = Folder(spark, tmp_path, "room string, temp long, at timestamp")
    dated = files.stream.withWatermark("at", "5 seconds")
    steps: list[tuple[float, list[tuple[str, Any]]]] = []
    folder = tmp_path / "session"
    with livelog.open(SENSORS, runtime=livelog.Spark(spark, partitions=2, checkpoint=folder)) as session:
        session.subscribe("hot", lambda changes: steps.append((changes.time - START, changes.operations)))
        files.put(sensed("a", 90, 12), sensed("b", 95, 4))  # no watermark yet: all of it waits
        files.put(sensed("a", 85, 31), sensed("c", 99, 8))  # up to 7: b
        query = session.stream(dated, tmp_path / "query", relation="reading", time_column="at", on_error="skip")
        query.processAllAvailable()
        assert session.clock == START + 7 and sorted(session["lately"]) == [("b", 95, START + 4)]
        assert steps == []
        files.put(sensed("z", 100, 6), sensed("d", 70, 45))  # up to 26; z is late
        query.processAllAvailable()
        assert session.clock == START + 26 and query.rejected == 1
        assert sorted(session["lately"]) == [("a", 90, START + 12), ("b", 95, START + 4), ("c", 99, START + 8)]
        query.stop()
    with livelog.resume(folder, runtime=livelog.Spark(spark, partitions=2)) as session:
        session.subscribe("hot", lambda changes: steps.append((changes.time - START, changes.operations)))
        query = session.stream(dated, tmp_path / "query", relation="reading", time_column="at", on_error="skip")
        files.put(sensed("d", 120, 60))  # up to 40: what waited before
        files.put(sensed("d", 60, 61))  # up to 55
        query.processAllAvailable()
        query.stop()
        assert session.clock == START + 55
    assert steps == [
        (10, [("+", ("b", 95)), ("+", ("c", 99))]),
        (20, [("+", ("a", 90))]),
        (34, [("-", ("b", 95))]),
        (38, [("-", ("c", 99))]),
        (40, [("+", ("a", 85))]),
        (42, [("-", ("a", 90))]),
    ]


def test_an_event_time_needs_a_watermark(spark: Any, tmp_path: Path) -> None:
    files = Folder(spark, tmp_path, "room string, temp long, at timestamp").stream
    with livelog.open(SENSORS, runtime=livelog.Spark(spark, partitions=1)) as session:
        for frame, column, why in [
            (files, "at", "no watermark"),
            (files.withWatermark("at", "1 second"), "temp", "no timestamp, but bigint"),
            (files.withWatermark("at", "1 second"), "then", "no column `then`"),
        ]:
            with pytest.raises(UsageProblem, match=why):
                session.stream(frame, tmp_path / "query", relation="reading", time_column=column)
