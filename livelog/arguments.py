"""What a person hands to `livelog.open` and to a session, looked at before anything is done with it.

Each check raises `UsageProblem` with a sentence that says what is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import datalog
from datalog.errors import UsageProblem
from datalog.report import listed
from livelog.complete import FORMS
from livelog.runtime.spark.config import Spark
from livelog.shown import is_kept, named, not_kept
from livelog.timing import check_time

if TYPE_CHECKING:
    from livelog.session import Session

__all__ = [
    "check_callback", "check_opening", "check_origin", "check_resuming", "check_row", "check_rows", "kind",
]

HIGHEST = 2**63 - 1  # a position that the log can hold
MOST = 10_000  # partitions: far beyond what is of use, and far below what takes all memory


def kind(value: Any) -> str:
    """What a value is, for an error: itself where that is short, else its type.

    >>> kind(None), kind("2"), kind([1, 2, 3])
    ('None', "'2'", 'a list')
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        text = repr(value)
        if len(text) <= 40:
            return text
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def check_opening(program: Any, **given: Any) -> None:
    """The arguments of `livelog.open`, by name.

    >>> check_opening(datalog.parse("r(x) :- e(x)."), partitions="2")
    Traceback (most recent call last):
        ...
    datalog.errors.UsageProblem: error: `partitions` is a whole number, not '2'
    """
    if not isinstance(program, (str, Path, datalog.Program)):
        raise UsageProblem(f"a program is the path of a file or what `datalog.parse` made, not {kind(program)}")
    for name, value in given.items():
        _CHECKS[name](name, value)


def check_resuming(directory: Any, runtime: Any, **given: Any) -> None:
    """The arguments of `livelog.resume`."""
    if not isinstance(directory, (str, Path)):
        raise UsageProblem(f"the folder of a session is a path, not {kind(directory)}")
    if runtime is not None and not isinstance(runtime, Spark):
        raise UsageProblem(f"`runtime` is `livelog.Spark(spark, ...)`, not {kind(runtime)}")
    for name, value in given.items():
        _CHECKS[name](name, value)


def _whole(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageProblem(f"`{name}` is a whole number, not {kind(value)}")


def _partitions(name: str, value: Any) -> None:
    _whole(name, value)
    if value > MOST:
        raise UsageProblem(f"a session has at most {MOST} partitions, not {value:.3g}")


def _whole_or_none(name: str, value: Any) -> None:
    if value is not None:
        _whole(name, value)


def _text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise UsageProblem(f"`{name}` is a text, not {kind(value)}")


def _text_or_none(name: str, value: Any) -> None:
    if value is not None:
        _text(name, value)


def _truth(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise UsageProblem(f"`{name}` is True or False, not {kind(value)}")


def _by_name(name: str, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise UsageProblem(f"`{name}` is a mapping from names, not {kind(value)}")
    for key in value:
        if not isinstance(key, str):
            raise UsageProblem(f"`{name}` is a mapping from names, and {kind(key)} is none")


def _clock(name: str, value: Any) -> None:
    if value is not None:
        check_time(value)


def _callables(name: str, value: Any) -> None:
    _by_name(name, value)
    for key, function in (value or {}).items():
        made = name == "aggregates" and hasattr(function, "merge")  # by `livelog.aggregate`
        if not made and not callable(function):
            raise UsageProblem(f"`{key}` in `{name}` is {kind(function)}, which cannot be called")


def _facts(name: str, value: Any) -> None:
    if value is None or isinstance(value, (str, Path)):
        return
    if not isinstance(value, Mapping):
        raise UsageProblem(f"`facts` is a folder or a mapping from relations to rows, not {kind(value)}")
    _by_name(name, value)
    for relation, rows in value.items():
        check_rows(relation, rows)


_CHECKS = {
    "facts": _facts,
    "partitions": _partitions,
    "strategy": _text,
    "ship": _text_or_none,
    "constants": _by_name,
    "functions": _callables,
    "aggregates": _callables,
    "limit": _whole,
    "seed": _whole_or_none,
    "select": _truth,
    "script": _text_or_none,
    "migrate": _truth,
    "clock": _clock,
}


def check_rows(relation: str, rows: Any) -> None:
    """Rows of a relation: anything that has rows, one after the other or as columns."""
    if type(rows).__module__.startswith("polars") and hasattr(rows, "collect"):
        raise UsageProblem(f"the rows of `{relation}` are {kind(rows)}, which has none yet: collect() makes them")
    if isinstance(rows, (str, bytes)) or not (
        isinstance(rows, Iterable) or hasattr(rows, "__getitem__") or hasattr(rows, "__arrow_c_stream__")
    ):
        raise UsageProblem(f"the rows of `{relation}` are a list of tuples, or something like it, not {kind(rows)}")


def check_row(session: Session, relation: Any, row: Any) -> tuple[Any, ...]:
    """A row to ask about, as a tuple."""
    if relation not in session:
        names = ", ".join(sorted(named(session.program)))
        raise UsageProblem(f"the program has no relation {kind(relation)} (it has {names})")
    if not is_kept(session.plan, relation):
        raise UsageProblem(not_kept(relation))
    wanted = len(session.program.relations[relation].shown)
    columns = f"{wanted} column{'' if wanted == 1 else 's'}"
    if isinstance(row, (str, bytes)) or not isinstance(row, Iterable):
        raise UsageProblem(f"a row of `{relation}` is a tuple with {columns}, not {kind(row)}")
    t = tuple(row)
    if len(t) != wanted:
        raise UsageProblem(f"`{relation}` has {columns}, and the row has {len(t)}")
    return t


def check_callback(relation: Any, callback: Any, form: Any = "streamed") -> None:
    """The arguments of `subscribe`, as far as the program does not matter."""
    if form not in FORMS:
        raise UsageProblem(f"a view is {listed(FORMS, 'or')}, and not {form!r}")
    if not isinstance(relation, str):
        raise UsageProblem(f"a view is named by a text, not {kind(relation)}")
    if not callable(callback):
        raise UsageProblem(f"a subscriber is a function that takes changes, not {kind(callback)}")


def check_origin(source: Any, position: Any) -> None:
    """Where a transaction comes from."""
    if position is not None:
        if isinstance(position, bool) or not isinstance(position, int) or not 0 <= position <= HIGHEST:
            raise UsageProblem(f"`position` is a whole number from 0 to {HIGHEST}, not {kind(position)}")
        if source is None:
            raise UsageProblem("a `position` needs the `source` in which it is one")
    _text("source", source)
    try:
        source.encode()
    except UnicodeEncodeError:
        raise UsageProblem(f"`source` is not valid Unicode text: {source!r}") from None
