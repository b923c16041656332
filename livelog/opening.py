"""How a session begins: `livelog.open` and `livelog.resume`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import datalog
from datalog.errors import UsageProblem
from livelog.methods import LIMIT
from livelog.runtime.spark.config import Spark
from livelog.session import Session

__all__ = ["open", "resume"]


def open(  # the name that a person expects: livelog.open
    program: str | Path | datalog.Program,
    *,
    facts: str | Path | Mapping[str, Iterable[Iterable[Any]]] | None = None,
    partitions: int = 1,
    runtime: Spark | None = None,
    strategy: str = "absorption",
    ship: str | None = None,
    constants: Mapping[str, Any] | None = None,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    aggregates: Mapping[str, Callable[[list[Any]], Any]] | None = None,
    limit: int = LIMIT,
    seed: int | None = None,
    select: bool = True,
    script: str | None = None,
) -> Session:
    """Open a program: load its facts, evaluate it, and keep it fresh from then on.

    `program` is the path of a `.dl` file, or a program from `datalog.parse`. `facts` is a folder of fact files,
    or a mapping from relations to rows. `constants` set or override the program's `.const`s; `functions` and
    `aggregates` are Python callables for use in rules (an aggregate takes the list of values, or is made by
    `livelog.aggregate`). `limit` is the number of tuples that one transaction may add to a recursive component
    before it is taken for one without end. `seed` shuffles the messages between partitions: the results never
    depend on it. `select=False` turns aggregate selection off, to see what it saves.

    `strategy` is how recursive views are maintained: "absorption" (with `ship` "demand", "lazy" or "eager"), or one of
    the baselines it is compared with: "relative" (`ship` "lazy" or "eager"), "dred", and "recompute".

    `script` is the path of an update script that feeds the session, noted for `livelog resume`.
    `runtime` runs the partitions somewhere else than in this process: `livelog.Spark(spark, partitions=6)`. The rows of
    a relation in `facts` may then also be a DataFrame of Spark.

    >>> s = open(datalog.parse("twice(x, y) :- n(x), y = double(x)."), facts={"n": [(1,), (2,)]},
    ...          functions={"double": lambda x: 2 * x})
    >>> list(s["twice"])
    [(1, 2), (2, 4)]
    """
    if isinstance(program, (str, Path)):
        path = Path(program)
        try:
            text = path.read_text(encoding="utf-8-sig")
        except OSError as e:
            raise UsageProblem(f"cannot read the program {str(program)!r}: {e.strerror or e}") from None
        except UnicodeDecodeError as e:
            raise UsageProblem(f"the program {str(program)!r} is not UTF-8 text: {e.reason}") from None
        program = datalog.parse(text, str(program))
    checked = datalog.check(program, constants=constants or {}, functions=functions or {}, aggregates=aggregates or {})
    return Session(checked, facts, partitions, strategy, ship, limit, seed, select, runtime, script=script)


def resume(
    directory: str | Path,
    runtime: Spark,
    *,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    aggregates: Mapping[str, Callable[[list[Any]], Any]] | None = None,
) -> Session:
    """Go on with a session over Spark whose driver ended, in the folder that was its `checkpoint`.

    All transactions that were committed, and the one that was under way if there was one, are there. Python functions
    of the program are not stored, and must be given again. `runtime.partitions` may be another number than before.
    """
    from livelog.runtime.spark.journal import describe

    told = describe(directory)
    program = datalog.parse(told.program, told.name)
    checked = datalog.check(
        program, constants=told.constants, functions=functions or {}, aggregates=aggregates or {}
    )
    limit = LIMIT if told.limit is None else told.limit
    runtime = replace(runtime, checkpoint=directory)
    return Session(checked, None, 1, told.strategy, told.ship or None, limit, None, told.select, runtime, resumed=True)
