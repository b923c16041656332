"""What the partitions of a running session are doing: asked over the driver's door, and shown as a table."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
from rich.console import Group
from rich.table import Table
from rich.text import Text

from datalog.errors import RuntimeProblem, UsageProblem
from livelog.render import plural
from livelog.runtime.skew import Skew, skew, threshold
from livelog.runtime.spark.handshake import Role, connect
from livelog.runtime.spark.tls import TLS
from livelog.runtime.spark.wire import Connection, TimedOut, WireError
from livelog.simulation.text import size
from livelog.store.journal import describe

__all__ = ["Client", "PartitionTop", "Silent", "Top", "as_json", "findings", "render"]

RUNNING = "running.json"
PATIENCE = 10.0
"""Seconds in which a driver that is well answers, however busy it is."""
SHOWN = 3
"""How many findings of skew are shown: the worst explain the others."""
IDLE = 0.1
"""The part of the time below which the work of all partitions together says nothing about its spread."""


class PartitionTop(msgspec.Struct, frozen=True):
    """One partition at one moment.

    `queue` counts frames that wait to be worked in, `outbox` bytes that wait to be sent; `bytes_shipped`,
    `frames_shipped` and `busy_seconds` count since the partition's task started. `relations` is what it holds of each
    side of a join, as `livelog.runtime.skew.held_by` tells.
    """

    partition: int
    host: str
    pid: int
    queue: int
    outbox: int
    tuples: int
    bytes_shipped: int
    frames_shipped: int
    busy_seconds: float
    relations: dict[str, int]
    state_bytes: int | None = None


class Top(msgspec.Struct, frozen=True):
    """A session at one moment.

    `transaction` is the number of the last one, `generation` counts how often the partitions were started, `seconds` is
    the time since the session was opened. `joins` has, for each side of a join, a rule that joins it.
    """

    transaction: int
    generation: int
    seconds: float
    busy: bool
    program: str
    partitions: list[PartitionTop]
    joins: dict[str, str] = {}


# --- asking --------------------------------------------------------------------------------------------------


class Silent(RuntimeProblem):
    """The session is there, and did not answer in time."""


class Client:
    """A way to a running session, by its directory. It connects when it is asked, and again after a failure."""

    def __init__(self, folder: Path, timeout: float | None = None) -> None:
        self.folder = folder
        self._timeout = PATIENCE if timeout is None else timeout
        self._connection: Connection | None = None

    def top(self) -> Top:
        """How it stands now. Raises `UsageProblem` if no session runs, `Silent` if it does not answer."""
        connection = self._connection
        if connection is None:
            connection = self._connection = self._connect()
        try:
            answer = msgspec.msgpack.decode(connection.call(msgspec.msgpack.encode(["top"]), self._timeout))
            if isinstance(answer, dict) and "error" in answer:
                raise RuntimeProblem(f"the session in {str(self.folder)!r} cannot tell: {answer['error']}")
            return msgspec.convert(answer, Top)
        except TimedOut as error:
            self.close()
            raise Silent(f"the session in {str(self.folder)!r} has not answered for {self._timeout:g} s") from error
        except WireError as error:
            self.close()
            raise UsageProblem(f"the session in {str(self.folder)!r} has ended") from error
        except msgspec.MsgspecError as error:
            self.close()
            raise RuntimeProblem(f"the session in {str(self.folder)!r} gave no sense: {error}") from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connect(self) -> Connection:
        host, port, secret, pid, tls = self._running()
        try:
            return connect((host, port), secret, Role.CLIENT, timeout=self._timeout, tls=tls)
        except WireError as error:
            why = str(error) if _lives(pid) else f"its process {pid} is gone"
            raise UsageProblem(f"no session runs in {str(self.folder)!r} any more: {why}{self._resume()}") from error

    def _running(self) -> tuple[str, int, bytes, int, TLS | None]:
        """Where the driver's door is, its secret, the driver's process, and the certificates to use."""
        path = self.folder / RUNNING
        try:
            said: Any = json.loads(path.read_text(encoding="utf-8"))
            host, port = said["address"]
            return str(host), int(port), bytes.fromhex(said["secret"]), int(said["pid"]), TLS.of(said.get("tls"))
        except FileNotFoundError:
            if self._was_one() and describe(self.folder).runtime == "local":
                raise UsageProblem(
                    f"the session in {str(self.folder)!r} is not over Spark, and only its own process looks into it; "
                    f"`livelog changes {self.folder} VIEW --follow` shows what its transactions change"
                ) from None
            raise UsageProblem(f"no session runs in {str(self.folder)!r}{self._resume()}") from None
        except OSError as error:
            raise UsageProblem(f"cannot read {str(path)!r}: {error.strerror or error}") from None
        except (ValueError, KeyError, TypeError):
            # Not chained: what such a file holds is secret.
            raise UsageProblem(f"{str(path)!r} is not what a session writes there") from None

    def _resume(self) -> str:
        return f"; livelog resume {self.folder} continues the one that did" if self._was_one() else ""

    def _was_one(self) -> bool:
        return (self.folder / "session.json").is_file()


def _lives(pid: int) -> bool:
    """Whether a process is there; True if nobody can say."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


# --- showing -------------------------------------------------------------------------------------------------


def render(previous: Top | None, current: Top, elapsed: float = 0.0) -> Group:
    """A table of the partitions, what is remarkable about them under it; rates are since `previous`, `elapsed` ago.

    >>> from rich import print
    >>> one = PartitionTop(0, "here", 7, 0, 0, 40, 1000, 3, 0.5, {"r": 40})
    >>> before, now = Top(1, 1, 0.5, False, "reach.dl", [one]), Top(5, 1, 2.5, True, "reach.dl", [one])
    >>> print(render(before, now, 2.0).renderables[0])
    reach.dl  transaction 5 (2/s), busy
    """
    before = _comparable(previous, current) if elapsed > 0 else {}
    title, table = _title(previous, current, elapsed), _table(before, current, elapsed)
    return Group(title, table, *_remarks(before, current, elapsed))


def findings(current: Top) -> list[Skew]:
    """The sides of joins of which one partition holds most."""
    return skew([p.relations for p in current.partitions], current.joins)


def as_json(current: Top) -> str:
    """One line of JSON: the answer as it came, and what `findings` says of it."""
    said = msgspec.to_builtins(current)
    said["skew"] = [
        {"partition": s.partition, "relation": s.relation, "share": round(s.share, 4), "rule": s.rule}
        for s in findings(current)
    ]
    return json.dumps(said, ensure_ascii=False)


def _comparable(previous: Top | None, current: Top) -> dict[int, PartitionTop]:
    """The partitions as they were, unless other tasks hold them now: those count from the start again."""
    if previous is None or previous.generation != current.generation:
        return {}
    return {p.partition: p for p in previous.partitions}


def _title(previous: Top | None, current: Top, elapsed: float) -> Text:
    title = Text(Path(current.program).name, style="bold")
    title.append(f"  transaction {current.transaction}", style="not bold")
    if previous is not None and elapsed > 0 and current.transaction >= previous.transaction:
        title.append(f" ({_rate(current.transaction - previous.transaction, elapsed)}/s)", style="not bold")
    title.append(", busy" if current.busy else ", idle", style="not bold green" if current.busy else "not bold dim")
    if current.generation > 1:
        title.append(f", recovered {plural(current.generation - 1, 'time')}", style="not bold yellow")
    return title


def _table(before: dict[int, PartitionTop], current: Top, elapsed: float) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("partition", "queue", "unsent", "tuples", "share", "state", "shipped", "bytes/s", "tuples/s", "work"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("process", no_wrap=True)
    partitions = current.partitions
    tuples = sum(p.tuples for p in partitions)
    work = [_worked(p, before) for p in partitions]
    for p, worked in zip(partitions, work, strict=True):
        old = before.get(p.partition)
        table.add_row(
            str(p.partition),
            f"{p.queue:,}",
            size(p.outbox),
            f"{p.tuples:,}",
            _share(p.tuples, tuples),
            "" if p.state_bytes is None else size(p.state_bytes),
            size(p.bytes_shipped),
            "" if old is None else size((p.bytes_shipped - old.bytes_shipped) / elapsed),
            "" if old is None else _rate(p.tuples - old.tuples, elapsed, signed=True),
            _share(worked, sum(work)),
            f"{p.host}:{p.pid}",
        )
    return table


def _remarks(before: dict[int, PartitionTop], current: Top, elapsed: float) -> Iterator[Text]:
    for found in findings(current)[:SHOWN]:
        yield Text(str(found), style="yellow")
    work = [_worked(p, before) for p in current.partitions]
    if before and len(work) > 1 and sum(work) > IDLE * elapsed and max(work) > threshold(len(work)) * sum(work):
        most = work.index(max(work))
        yield Text(f"partition {current.partitions[most].partition} does {_share(work[most], sum(work))} of the work",
                   style="yellow")  # fmt: skip


def _worked(p: PartitionTop, before: dict[int, PartitionTop]) -> float:
    """Seconds of work since the last look, or since the start."""
    old = before.get(p.partition)
    return max(0.0, p.busy_seconds - (0.0 if old is None else old.busy_seconds))


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole > 0 else ""


def _rate(count: int, elapsed: float, *, signed: bool = False) -> str:
    """
    >>> _rate(10, 4.0), _rate(-5000, 2.0, signed=True), _rate(0, 1.0, signed=True)
    ('2.5', '-2,500', '0')
    """
    rate = count / elapsed
    text = f"{rate:,.0f}" if abs(rate) >= 10 or rate == int(rate) else f"{rate:.1f}"
    return f"+{text}" if signed and rate > 0 else text
