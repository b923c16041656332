"""A job: everything that a process needs to run one strategy over a workload, and how it travels.

Jobs and reports are msgpack, each behind its length in four bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import datalog
import livelog
from datalog.errors import UsageProblem
from livelog.methods import LIMIT
from livelog.modules import registered
from livelog.simulation.reports import Report
from livelog.simulation.strategies import Strategy

if TYPE_CHECKING:
    from topologies import Workload

__all__ = [
    "MEMORY_LIMIT", "TIME_LIMIT", "Job", "decode_job", "decode_report", "frame", "make_job", "open_job", "split",
    "workload_of",
]  # fmt: skip

TIME_LIMIT = 300.0
"""Seconds of processor time for each phase, unless the caller says otherwise: the five minutes of the paper."""

MEMORY_LIMIT = 6 * 10**9
"""Bytes that the process may hold, unless the caller says otherwise."""

_LENGTH = struct.Struct("!I")


class Job(msgspec.Struct, frozen=True):
    """One strategy, a program as text, a workload, limits. `rows`: tell the changes and the facts, not only numbers.

    `functions` is the Python file with the functions of the program.
    """

    text: str
    name: str
    constants: dict[str, Any]
    facts: dict[str, list[tuple[Any, ...]]]
    steps: list[tuple[float, list[tuple[str, str, tuple[Any, ...]]], str]]
    strategy: str
    ship: str | None
    partitions: int
    batches: int
    limit: int
    time_limit: float | None
    memory_limit: int | None
    select: bool
    rows: bool
    functions: str | None = None


def make_job(
    program: str | Path | datalog.Program,
    workload: Workload,
    strategy: Strategy,
    *,
    partitions: int = 1,
    constants: dict[str, Any] | None = None,
    batches: int = 1,
    limit: int = LIMIT,
    time_limit: float | None = TIME_LIMIT,
    memory_limit: int | None = MEMORY_LIMIT,
    select: bool = True,
    rows: bool = False,
    functions: str | Path | None = None,
) -> Job:
    """A job for a program: a path, or a program from `datalog.parse` or `datalog.check`.

    `functions` is a Python file that has the functions and aggregates of the program.
    """
    if isinstance(program, (str, Path)):
        try:
            program = datalog.parse(Path(program).read_text(encoding="utf-8-sig"), str(program))
        except OSError as e:
            raise UsageProblem(f"cannot read the program {str(program)!r}: {e.strerror or e}") from None
    if functions is None and (program.functions or program.aggregates):
        named = ", ".join(sorted((*program.functions, *program.aggregates)))
        raise UsageProblem("strategies run in processes of their own, where Python functions cannot follow: "
                           f"{named}; name a file that has them (`functions=`)")  # fmt: skip
    for name, value, least in (("partitions", partitions, 1), ("batches", batches, 1)):
        if value < least:
            raise UsageProblem(f"{name} must be at least {least}, not {value}")
    known = dict(program.constants) if program.checked else {}
    return Job(
        program.source.text,
        program.source.name,
        {**known, **(constants or {})},
        workload.facts,
        [(step.time, list(step.operations), step.about) for step in workload.steps],
        strategy.strategy,
        strategy.ship,
        partitions,
        batches,
        limit,
        time_limit,
        memory_limit,
        select,
        rows,
        None if functions is None else str(functions),
    )


# --- running it ----------------------------------------------------------------------------------------------


def open_job(job: Job, runtime: livelog.Spark | None = None) -> livelog.Session:
    """A session for a job, in this process or over Spark, without the workload's facts."""
    constants = {name: _value(value) for name, value in job.constants.items()}
    program = datalog.parse(job.text, job.name)
    functions, aggregates = ({}, {}) if job.functions is None else registered(job.functions, program)
    program = datalog.check(program, constants=constants, functions=functions, aggregates=aggregates)
    return livelog.open(
        program, partitions=job.partitions, strategy=job.strategy, ship=job.ship, limit=job.limit, select=job.select,
        runtime=runtime,
    )  # fmt: skip


def workload_of(job: Job) -> Workload:
    """The job's facts and steps."""
    from topologies import Step, Workload

    return Workload(job.facts, [Step(when, tuple(ops), about) for when, ops, about in job.steps])


def _value(value: Any) -> Any:
    """A constant as the language has it: lists are tuples."""
    return tuple(map(_value, value)) if isinstance(value, list) else value


# --- the way from process to process -------------------------------------------------------------------------

_encode = msgspec.msgpack.Encoder().encode
decode_job = msgspec.msgpack.Decoder(Job).decode
decode_report = msgspec.msgpack.Decoder(Report).decode


def frame(message: Job | Report) -> bytes:
    """A message with its length in front."""
    body = _encode(message)
    return _LENGTH.pack(len(body)) + body


def split(buffer: bytearray) -> Iterable[bytes]:
    """Take the whole messages from the front of a buffer.

    >>> buffer = bytearray(b"\\x00\\x00\\x00\\x02ab\\x00\\x00\\x00\\x05c")
    >>> [bytes(message) for message in split(buffer)], bytes(buffer)
    ([b'ab'], b'\\x00\\x00\\x00\\x05c')
    """
    while len(buffer) >= _LENGTH.size:
        end = _LENGTH.size + _LENGTH.unpack_from(buffer)[0]
        if len(buffer) < end:
            return
        body = bytes(buffer[_LENGTH.size : end])
        del buffer[:end]
        yield body
