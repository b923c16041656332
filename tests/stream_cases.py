"""A case with times, and what the oracle makes of it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.cases import Case, program_of
from tests.oracle import OracleError, OracleLimit, Row
from tests.oracle_streams import Moment, Timeline


@dataclass(frozen=True)
class StreamCase(Case):
    """A case of which the oracle looks at every multiple of `grid`."""

    grid: float = 1


@dataclass(frozen=True)
class StreamState:
    """What the oracle says of a transaction, or of the load: all that is seen meanwhile, and how it ends.

    `failed`: it must fail, and everything is as it was before.
    """

    moments: tuple[Moment, ...]
    relations: dict[str, set[Row]]
    clock: float
    failed: bool = False


STATES: dict[StreamCase, list[StreamState]] = {}
"""Of the last cases."""


def states(case: StreamCase, work: int = 5_000_000) -> list[StreamState]:
    """The states of a case by the oracle: of the load, then of each transaction. To be read only."""
    if case not in STATES:
        result = _states(case, work)
        while len(STATES) >= 16:
            del STATES[next(iter(STATES))]
        STATES[case] = result
    return STATES[case]


def _states(case: StreamCase, work: int) -> list[StreamState]:
    timeline = Timeline(program_of(case.text), case.grid, work)
    first = timeline.load(case.loaded)
    result = [StreamState((first,), first.relations, timeline.base.clock)]
    for operations in case.history:
        after = timeline.copy()
        try:
            moments = after.run(operations)
        except OracleLimit:
            raise
        except OracleError:
            result.append(StreamState((), result[-1].relations, timeline.base.clock, failed=True))
            continue
        timeline = after
        relations = moments[-1].relations if moments else result[-1].relations
        result.append(StreamState(tuple(moments), relations, timeline.base.clock))
    return result
