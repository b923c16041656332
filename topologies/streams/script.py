"""Change streams as update scripts: the text that `livelog run --updates` reads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from topologies.streams.step import Row, Step, Workload

__all__ = ["format_value", "write_script"]

_ESCAPES: Mapping[str, str] = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}


def write_script(stream: Workload | Iterable[Step]) -> Iterator[str]:
    """The lines of a script, without line ends: one transaction per step, an empty line after each.

    The facts of a workload come first, as a transaction of their own.

    >>> steps = [Step(2.5, (("-", "link", ("a", 7)), ("+", "at", ("a", (1, 2.0)))), "link a - 7 fails")]
    >>> print(*write_script(steps), sep="\\n")
    // link a - 7 fails
    @2.5
    -link("a", 7)
    +at("a", [1, 2.0])
    <BLANKLINE>
    """
    if isinstance(stream, Workload):
        rows = [(relation, row) for relation, rows in sorted(stream.facts.items()) for row in rows]
        if rows:
            yield "// the facts"
            yield from (f"+{_atom(relation, row)}" for relation, row in rows)
            yield ""
    for step in stream.steps if isinstance(stream, Workload) else stream:
        yield f"// {' '.join(step.about.split())}"
        yield f"@{format_value(float(step.time))}"
        yield from (f"{sign}{_atom(relation, row)}" for sign, relation, row in step.operations)
        yield ""


def format_value(value: Any) -> str:
    r"""A value as a script has it: a number, a quoted string, or a list in brackets.

    >>> print(format_value(("a \"quoted\" word", 1, 2.5, ())))
    ["a \"quoted\" word", 1, 2.5, []]
    >>> format_value(None)
    Traceback (most recent call last):
        ...
    ValueError: None is not a value: a row holds numbers, strings and lists
    """
    if isinstance(value, str):
        return '"' + "".join(_ESCAPES.get(c, c if c.isprintable() else f"\\U{ord(c):08x}") for c in value) + '"'
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(format_value, value))}]"
    raise ValueError(f"{value!r} is not a value: a row holds numbers, strings and lists")


def _atom(relation: str, row: Row) -> str:
    return f"{relation}({', '.join(map(format_value, row))})"
