"""A thousand kills: processes that run transactions on a session in a folder, each killed at some moment.

They are forked, one after the other, and open the folder that the one before has left. No transaction that was
acknowledged is lost, none is there twice, and who follows from another process hears of each of them once.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from ast import literal_eval
from collections.abc import Callable
from pathlib import Path

import pytest

import livelog
from livelog.runtime import stored
from livelog.store import journal
from livelog.store.followers import Follower
from livelog.store.layout import Layout
from tests.stores import SMALL, SMALL_FACTS, Model, assert_right

KILLS = 250  # of each of four
MOST = 40  # transactions of one process


def forked(act: Callable[[int], None]) -> tuple[int, int]:
    """A process that acts, and a pipe from it."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        status = 1
        with contextlib.suppress(BaseException):
            os.close(reading)
            try:
                act(writing)
                status = 0
            except BaseException as error:
                os.write(writing, f"wrong {error!r}\n".encode())
                raise
        os._exit(status)
    os.close(writing)
    return child, reading


def ended(child: int, reading: int) -> list[str]:
    """What a process has told, in whole lines, when it is over."""
    with os.fdopen(reading) as pipe:
        lines = pipe.read().splitlines(keepends=True)
    os.waitpid(child, 0)
    return [line.rstrip("\n") for line in lines if line.endswith("\n")]


def reader(folder: Path, view: str, text: Path, stop: Path) -> None:
    """Follow a view, by a name, and write down what is heard: a line for each transaction, before it is passed."""
    with open(text, "a") as file:
        follower = Follower(Layout(folder), view, None, "reader")
        while True:
            last = stop.exists()
            for number, inserted, deleted in follower.changes():
                file.write(f"{(number, sorted(inserted), sorted(deleted))!r}\n")
                file.flush()
            if last:
                return
            time.sleep(0.02)


def heard(text: Path) -> list[tuple[int, list[object], list[object]]]:
    """What was written down; the last line of a reader that was killed may be half, or come again."""
    found = {}
    for line in text.read_text().splitlines():
        with contextlib.suppress(SyntaxError):
            number, inserted, deleted = literal_eval(line)
            assert found.setdefault(number, (number, inserted, deleted)) == (number, inserted, deleted)
    return list(found.values())


@pytest.mark.parametrize(("sync", "partitions"), [("always", 1), ("interval", 1), ("always", 3), ("interval", 3)])
def test_a_thousand_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: str, partitions: int) -> None:
    monkeypatch.setattr(stored, "LEAST", 2000)  # checkpoints come by themselves
    monkeypatch.setattr(journal, "INTERVAL", 0.002)
    for name in ("fsync", "fdatasync"):  # what a killed process has written is there
        monkeypatch.setattr(os, name, lambda fd: None)
    rng = random.Random(f"kills {sync} {partitions}")
    folder, model = tmp_path / "s", Model(partitions, SMALL, SMALL_FACTS)
    session = livelog.open(SMALL, facts=SMALL_FACTS, store=folder, partitions=partitions, sync=sync)
    session.close()

    def work(tell: int) -> None:
        session = livelog.resume(folder, sync=sync)
        k = assert_right(session, model, sure, begun) if looked else session.position("feed")
        assert sure <= k <= begun, f"{k} is not between {sure} and {begun}"
        os.write(tell, f"there {k} {session._with_journal.journal.number}\n".encode())
        for i in range(k + 1, k + 1 + MOST):
            os.write(tell, f"begun {i}\n".encode())
            number = model.commit(session, i)
            os.write(tell, f"done {i} {number}\n".encode())
            if i % 7 == 0:
                session.checkpoint()
                os.write(tell, f"flushed {i}\n".encode())
        signal.pause()

    sure = begun = 0
    stop, texts = tmp_path / "stop", {view: tmp_path / view for view in ("reach", "share")}
    readers = {view: forked(lambda _, v=view: reader(folder, v, texts[v], stop)) for view in texts}
    for n in range(KILLS):
        looked = n % 25 == 24
        child, reading = forked(work)
        os.read(reading, 1)  # it has opened the folder, or failed
        time.sleep(rng.choice((0, 0.001, 0.005, 0.02)) * rng.random())
        os.kill(child, signal.SIGKILL)
        lines = ["t" + line if line.startswith("here") else line for line in ended(child, reading)]
        for line in lines:
            what, *words = line.split()
            assert what != "wrong" and not line.startswith("rong"), f"after {n} kills: {line}"
            i = int(words[0])
            if what == "there":
                model.numbers = {number: at for number, at in model.numbers.items() if at <= i}
                sure = begun = i
            elif what == "begun":
                begun = i
            elif what == "done":
                model.numbers[int(words[1])] = i
                sure = i if sync == "always" else sure
            else:
                sure = i
        if n % 50 == 49:  # a reader ends as well, and one of its name goes on
            child, reading = readers["reach"]
            os.kill(child, signal.SIGKILL)
            ended(child, reading)
            readers["reach"] = forked(lambda _: reader(folder, "reach", texts["reach"], stop))
    session = livelog.resume(folder, sync=sync)
    k = assert_right(session, model, sure, begun)
    assert k > KILLS / 4
    session.close()
    stop.touch()
    for child, reading in readers.values():
        assert ended(child, reading) == []
    for view, text in texts.items():
        rows: set[tuple[object, ...]] = set()  # the first that is heard is the view as it was opened
        changes = heard(text)
        assert [number for number, _, _ in changes] == sorted({number for number, _, _ in changes})
        for number, inserted, deleted in changes:
            assert rows.issuperset(deleted) and rows.isdisjoint(inserted), f"{view} at {number}"
            rows.difference_update(deleted)
            rows.update(inserted)
            if number in model.numbers:
                assert rows == model.views(model.numbers[number])[view], f"{view} at {number}"
        assert rows == model.views(k)[view]
