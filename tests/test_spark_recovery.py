"""Whatever process of a session is killed, and whenever: no transaction is lost or applied twice, no change published
twice, and the views equal the oracle after every transaction.

    LIVELOG_KILLS=50 pytest tests/test_spark_recovery.py -k random      more random histories with random kills
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import livelog
from livelog.runtime.spark import runtime as runtime_module
from livelog.runtime.spark.runtime import SparkRuntime
from tests.cases import states
from tests.generate import generate
from tests.harness import METHODS, Configuration, run
from tests.kills import (
    FACTS,
    FATAL,
    Ambush,
    Checked,
    Sniper,
    deadly,
    kill,
    kill_daemon,
    kill_executor,
    lives,
    open_checked,
    published,
    random_operations,
    wait_until,
)

RANDOM = int(os.environ.get("LIVELOG_KILLS", "1"))


@pytest.fixture
def ambush(monkeypatch: pytest.MonkeyPatch) -> Ambush:
    return Ambush(monkeypatch)


# --- at all places, with all strategies ----------------------------------------------------------------------


@pytest.mark.parametrize(("strategy", "ship"), METHODS)
def test_a_worker_is_killed(spark: Any, tmp_path: Path, strategy: str, ship: str | None) -> None:
    folder = tmp_path / "lives"
    lives(folder, 0)
    checked = open_checked(spark, touch=deadly(folder), strategy=strategy, ship=ship)
    with checked.session as session:
        checked.transact(("delete", "link", (3, 1)), ("insert", "link", (9, 0)))
        lives(folder, 1)  # in the middle of a transaction
        checked.transact(("insert", "link", (6, FATAL)), ("insert", "link", (FATAL, 4)), ("delete", "link", (0, 1)))
        assert checked.runtime.generation == 2
        if ship == "demand":  # between two
            kill(checked.runtime.pids[1])
        checked.transact(("delete", "link", (6, FATAL)), ("delete", "link", (1, 2)))
        session.check()
        assert any("a worker was lost" in notice for notice in checked.runtime.notices)


def test_at_every_step_of_a_transaction(spark: Any, tmp_path: Path, ambush: Ambush) -> None:
    """Before the step reaches the victim, so that it is lost for certain and the others may have done it."""
    checked = open_checked(spark, tmp_path / "session", strategy="dred")
    rng = random.Random(1)
    with checked.session:
        checked.runtime.follow("reach", True)
        for number, step in enumerate(("apply", "begin", "resume", "finish", "changes", "commit")):
            ambush.set(step, number % 3)
            checked.transact(*random_operations(rng), ("delete", "link", (number, number + 1)))
            assert not ambush.waiting, f"there was no step {step}"
            assert published(checked.session, "reach") == checked.total["reach"], step
        assert ambush.deaths == 6
        checked.transact(*random_operations(rng))
        assert published(checked.session, "reach") == checked.total["reach"]


def test_right_after_a_step_was_sent(spark: Any, tmp_path: Path, ambush: Ambush) -> None:
    """The victim may be at it, or done. The commit without followers is what nobody waits for."""
    checked = open_checked(spark, tmp_path / "session")
    rng = random.Random(2)
    with checked.session:
        for number, step in enumerate(("begin", "changes", "commit")):
            ambush.set(step, number % 3, before=False)
            checked.transact(*random_operations(rng))
            checked.transact(*random_operations(rng))
            assert not ambush.waiting, f"there was no step {step}"


def test_during_recovery_itself(spark: Any, tmp_path: Path, ambush: Ambush) -> None:
    checked = open_checked(spark, tmp_path / "session")
    with checked.session as session:
        checked.transact(("insert", "link", (7, 8)))
        session.checkpoint()
        checked.transact(("delete", "link", (0, 1)))
        for number, step in enumerate(("see", "load", "absorb", "start_over", "begin")):
            ambush.set(step, number % 3, (number + 1) % 3, times=2 if step == "load" else 1)
            before = ambush.deaths
            kill(checked.runtime.pids[1])
            checked.verify()  # reading is enough to bring them back
            assert not ambush.waiting and ambush.deaths > before, f"there was no step {step}"
        checked.transact(("insert", "link", (0, 1)), ("delete", "link", (6, 7)))


def test_new_workers_are_killed_as_they_appear(spark: Any, tmp_path: Path) -> None:
    checked = open_checked(spark, tmp_path / "session")
    with checked.session:
        checked.transact(("insert", "link", (7, 8)))
        pids = checked.runtime.pids
        kill(pids[0])
        sniper = Sniper(checked.runtime, random.Random(3), shots=2, delay=0.0)
        sniper.start()
        checked.transact(("delete", "link", (0, 1)))
        sniper.stop()
        checked.transact(("insert", "link", (0, 1)))


def test_all_workers_at_once(spark: Any, tmp_path: Path, ambush: Ambush) -> None:
    checked = open_checked(spark, tmp_path / "session")
    with checked.session:
        checked.transact(("insert", "link", (7, 8)))
        for pid in checked.runtime.pids:
            kill(pid)
        checked.transact(("delete", "link", (0, 1)))
        ambush.set("begin", 0, 1, 2, before=False)
        checked.transact(("insert", "link", (0, 1)), ("delete", "link", (2, 3)))
        assert ambush.deaths == 1


def test_a_death_that_was_noticed_already(spark: Any) -> None:
    checked = open_checked(spark)
    with checked.session:
        crew = checked.runtime._crew
        kill(checked.runtime.pids[2])
        wait_until(lambda: crew.stage.over)
        checked.transact(("insert", "link", (7, 8)))
        checked.verify()


def test_the_clock_and_what_goes_by_it(spark: Any, tmp_path: Path) -> None:
    program = livelog_program(
        ".decl lease(host: symbol, n: number) key(host) ttl(10)\n.decl hit(host: symbol) bag\n"
        ".output busy\n.output held\nheld(h, n) :- lease(h, n).\nbusy(h, count<*>) :- hit(h), lease(h, _)."
    )
    runtime = livelog.Spark(spark, partitions=3, checkpoint=tmp_path / "session")
    with livelog.open(program, runtime=runtime) as session:
        checked = Checked(session, {})
        checked.transact(("insert", "lease", ("a", 1)), ("insert", "hit", ("a",)), ("insert", "hit", ("a",)))
        checked.transact(("advance", 6.0), ("insert", "lease", ("b", 1)), ("insert", "hit", ("b",)))
        kill(checked.runtime.pids[0])  # by the log
        assert session.clock == 6.0
        checked.verify()
        session.checkpoint()
        kill(checked.runtime.pids[1])  # by the checkpoint
        checked.transact(("insert", "lease", ("b", 2)), ("delete", "hit", ("a",)))
        checked.transact(("advance", 11.0))  # a's lease ends
        kill(checked.runtime.pids[2])  # by both
        checked.transact(("advance", 15.5))
        checked.transact(("advance", 16.0))  # and b's


# --- checkpoints ---------------------------------------------------------------------------------------------


def test_during_a_checkpoint(spark: Any, tmp_path: Path, ambush: Ambush) -> None:
    facts = {"link": [*FACTS["link"], *((1000 + i, 1000 + i) for i in range(1500))], "node": FACTS["node"]}
    checked = open_checked(spark, tmp_path / "session", facts=facts)
    with checked.session as session:
        for before in (True, False):
            ambush.set("checkpoint", 1, before=before)
            session.checkpoint()
            assert not ambush.waiting
            checked.transact(("delete" if before else "insert", "link", (0, 1)))
            kill(checked.runtime.pids[0])
            checked.verify()
        assert len(manifests(tmp_path)) == 2


def test_a_checkpoint_that_never_succeeds(
    spark: Any, tmp_path: Path, ambush: Ambush, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asked for it hears of that; a transaction after which one is due does not: it was committed."""
    monkeypatch.setattr(runtime_module, "ATTEMPTS", 2)
    checked = open_checked(spark, tmp_path / "session", every=3)
    with checked.session as session:
        ambush.set("checkpoint", 1, times=2)
        with pytest.raises(livelog.RuntimeProblem, match="while a checkpoint was written"):
            session.checkpoint()
        checked.transact(("insert", "link", (7, 8)))
        ambush.set("checkpoint", 1, times=2)
        checked.transact(("delete", "link", (0, 1)))
        assert not ambush.waiting and not manifests(tmp_path)
        checked.transact(("insert", "link", (0, 1)))  # which tries again
        assert len(manifests(tmp_path)) == 1


def manifests(folder: Path) -> list[Path]:
    """The checkpoints that count."""
    return list((folder / "session" / "checkpoints").glob("*/manifest.json"))


# --- poison --------------------------------------------------------------------------------------------------


def test_a_transaction_that_always_kills_is_given_up(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_module, "ATTEMPTS", 2)
    folder = tmp_path / "lives"
    lives(folder, 0)
    checked = open_checked(spark, tmp_path / "session", touch=deadly(folder))
    with checked.session:
        checked.runtime.follow("reach", True)
        checked.transact(("insert", "link", (7, 8)))
        lives(folder, 2 * 3)  # several workers may die of it at once
        poison: list[Any] = [("insert", "link", (1, FATAL)), ("delete", "link", (0, 7)), ("advance", 5.0)]
        checked.refuse("died 2 times in this transaction, which was given up", *poison)
        for life in folder.iterdir():
            life.unlink()
        assert published(checked.session, "reach") == checked.total["reach"]
        checked.transact(("insert", "link", (1, 4)))
        checked.transact(("insert", "link", (1, FATAL)))
        kill(checked.runtime.pids[0])
        checked.transact(("delete", "link", (1, 4)))  # the one that was given up stays so
        assert published(checked.session, "reach") == checked.total["reach"]


def test_a_commit_that_kills_stands(
    spark: Any, tmp_path: Path, ambush: Ambush, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has it by then. What is not published yet is when there are workers again, and nothing twice."""
    monkeypatch.setattr(runtime_module, "ATTEMPTS", 2)
    checked = open_checked(spark, tmp_path / "session")
    with checked.session:
        checked.runtime.follow("reach", True)
        ambush.set("commit", 1, times=3, with_arguments=True)  # the commit, and both attempts of the recovery
        checked.transact(("insert", "link", (7, 8)), ("insert", "link", (3, 4)), ("delete", "link", (0, 1)))
        assert ambush.deaths == 3
        assert any("was committed, and its changes are published later" in n for n in checked.runtime.notices)
        assert published(checked.session, "reach") == checked.total["reach"]
        checked.transact(("insert", "link", (7, 4)))
        assert published(checked.session, "reach") == checked.total["reach"]


def test_recovery_that_fails_for_a_while(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost when the workers die each time they are started: later they can be."""
    monkeypatch.setattr(runtime_module, "ATTEMPTS", 2)
    folder = tmp_path / "lives"
    lives(folder, 0)
    checked = open_checked(spark, tmp_path / "session", touch=deadly(folder))
    with checked.session:
        checked.transact(("insert", "link", (1, FATAL)))
        lives(folder, 60)
        kill(checked.runtime.pids[0])
        with pytest.raises(livelog.RuntimeProblem), checked.session.transaction() as tx:
            tx.insert("link", (7, 8))
        for life in folder.iterdir():
            life.unlink()
        checked.verify()
        checked.transact(("insert", "link", (7, 8)))


def test_recovery_that_is_interrupted(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was started half way must not be taken for the session."""
    checked = open_checked(spark, tmp_path / "session")
    with checked.session:
        checked.transact(("insert", "link", (7, 8)))
        original = SparkRuntime._each

        def each(self: SparkRuntime, step: str, arguments: list[Any]) -> list[Any]:
            if step == "load":
                raise KeyboardInterrupt
            return original(self, step, arguments)

        kill(checked.runtime.pids[0])
        with monkeypatch.context() as patch:
            patch.setattr(SparkRuntime, "_each", each)
            with pytest.raises(KeyboardInterrupt), checked.session.transaction() as tx:
                tx.insert("link", (8, 4))
        checked.verify()
        checked.transact(("delete", "link", (7, 8)))


@pytest.mark.parametrize("follow", [True, False])
def test_a_commit_that_is_interrupted(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, follow: bool
) -> None:
    """The log and the workers say the same about it, whatever that is."""
    checked = open_checked(spark, tmp_path / "session")
    with checked.session as session:
        if follow:
            checked.runtime.follow("reach", True)
        original = SparkRuntime._commit

        def commit(self: SparkRuntime) -> None:
            original(self)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(SparkRuntime, "_commit", commit)
            with pytest.raises(KeyboardInterrupt), session.transaction() as tx:
                tx.insert("link", (7, 8))
        before = set(session["reach"])
        kill(checked.runtime.pids[0])
        assert set(session["reach"]) == before
        if follow:
            assert published(session, "reach") == before


# --- DataFrames ----------------------------------------------------------------------------------------------


def test_rows_that_spark_brought(spark: Any, tmp_path: Path, ambush: Ambush) -> None:
    frame = spark.createDataFrame([*FACTS["link"]], "a long, b long")
    ambush.set("input", 1)  # the stage's own input: there is no checkpoint yet
    runtime = livelog.Spark(spark, partitions=3, checkpoint=tmp_path / "session")
    program = livelog_program("reach(x, y) :- link(x, y).\nreach(x, y) :- reach(x, z), link(z, y).\n.output reach")
    with livelog.open(program, facts={"link": frame}, runtime=runtime) as session:
        assert not ambush.waiting
        checked = Checked(session, {"link": FACTS["link"]})
        kill(checked.runtime.pids[0])  # not noticed before tasks push to it
        more = spark.createDataFrame([(7, 8), (3, 4)], "a long, b long")
        ambush.set("apply", 2)
        checked._note(checked.total, session.load("link", more))
        checked.base.load({"link": [(7, 8), (3, 4)]})
        checked.verify()
        kill(checked.runtime.pids[1])  # and now the files are read again
        checked.transact(("delete", "link", (7, 8)))


# --- on a cluster --------------------------------------------------------------------------------------------


def test_an_executor_is_killed(cluster: Any, tmp_path: Path, ambush: Ambush) -> None:
    """The cluster starts another one, and the session waits for it."""
    checked = open_checked(cluster, tmp_path / "session", partitions=4)
    with checked.session as session:
        checked.runtime.follow("reach", True)
        checked.transact(("insert", "link", (7, 8)))
        kill_executor(checked.runtime.pids[0])  # between transactions
        checked.transact(("delete", "link", (0, 1)))
        crew = checked.runtime._crew
        ambush.set("begin", 3, before=False, weapon=kill_executor)  # in the middle of one
        checked.transact(("insert", "link", (0, 1)), ("delete", "link", (2, 3)))
        assert not ambush.waiting
        wait_until(lambda: crew.stage.over)  # the workers outlive their executor by a moment, and may answer in time
        checked.verify()
        ambush.set("checkpoint", 1, before=False, weapon=kill_executor)
        session.checkpoint()
        checked.transact(("insert", "link", (2, 3)))
        assert published(session, "reach") == checked.total["reach"]
        session.check()


def test_a_daemon_is_killed(cluster: Any, tmp_path: Path, ambush: Ambush) -> None:
    """The process that all workers of an executor are forked from; and others when they come back."""
    checked = open_checked(cluster, tmp_path / "session", partitions=4)
    with checked.session:
        checked.transact(("insert", "link", (7, 8)), ("delete", "link", (0, 1)))
        ambush.set("begin", 2, weapon=kill_daemon)
        checked.transact(("insert", "link", (0, 1)))
        ambush.set("load", 3, weapon=kill_daemon)
        kill(checked.runtime.pids[1])
        checked.transact(("delete", "link", (2, 3)))
        assert not ambush.waiting


# --- at random -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(RANDOM))
def test_random_kills(spark: Any, tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"kills {seed}")
    strategy, ship = rng.choice(METHODS)
    checked = open_checked(spark, tmp_path / "session", every=rng.choice([3, 5, 100]), strategy=strategy, ship=ship)
    with checked.session as session:
        checked.runtime.follow("reach", bool(seed % 2))
        follows = set() if seed % 2 else set(session["reach"])
        sniper = Sniper(checked.runtime, rng, shots=3, delay=0.2)
        sniper.start()
        try:
            for number in range(200):
                checked.transact(*random_operations(rng))
                if number >= 10 and not sniper.shots:
                    break
                time.sleep(rng.random() * 0.03)
        finally:
            sniper.stop()
        assert checked.runtime.generation > 1, "nobody was killed"
        checked.verify()
        if not follows:
            assert published(session, "reach") == checked.total["reach"]
        session.check()


@dataclass(frozen=True)
class Hunted(Configuration):
    """A configuration over Spark whose workers are killed now and then."""

    spark: Any = None
    shots: int = 3

    def open(self, program: Any, facts: Any = None, **options: Any) -> Any:
        runtime = livelog.Spark(self.spark, partitions=self.partitions, checkpoint_every=4)
        session = livelog.open(
            program, facts=facts, runtime=runtime, strategy=self.strategy, ship=self.ship, **options
        )
        sniper = Sniper(session._runtime, random.Random(self.interleaving), self.shots, 0.03)
        close = session.close

        def closed() -> None:
            sniper.stop()
            assert sniper.shots < self.shots, "nobody was killed"
            close()

        session.close = closed  # type: ignore[method-assign]
        sniper.start()
        return session


@pytest.mark.parametrize("seed", range(500, 500 + RANDOM))
def test_random_programs_with_random_kills(spark: Any, seed: int) -> None:
    rng = random.Random(f"hunted {seed}")
    case = generate(seed)
    strategy, ship = rng.choice(METHODS)
    run(case, Hunted(strategy, ship, rng.choice([1, 2, 3]), rng.randrange(1000), spark), states(case))


def livelog_program(text: str) -> Any:
    import datalog

    return datalog.parse(text, "recovery.dl")
