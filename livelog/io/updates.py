"""Update scripts: transactions as text, read line by line and written back.

One operation per line; an empty line, `commit` or the end of the script ends a transaction:

    +link("a", "b", 3)     // insert
    -link("b", "c", 1)     // delete
    -link("b", _, _)       // delete all that match
    u link("a", "b", 4)    // insert, in place of what has the key
    @12.5                  // the clock advances
    @13 +link("c", "d", 1) // the clock advances, and then this
    commit

Behind an operation may stand `partial`, as where the changes of a view are told at a point at which not all that it
reads was synchronised: it says nothing to those who apply the operation.

A line that starts with `{` is the same as JSON: `{"op": "+", "relation": "link", "row": ["a", "b", 3]}`,
`{"op": "@", "time": 12.5}`, `{"op": "commit"}`; an operation may have a `time`, and `"full": false` if it is partial.
Its row may also be an object by the names of the columns. `{"op": "=", "relation": "link", "rows": [...]}` has all rows
of a relation: others go. Both kinds may be mixed. Only the transaction that is being read is held in memory, so a
script may be an endless stream.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Literal, NoReturn, Protocol

from datalog.errors import LivelogError
from livelog.io.problems import line_problem, say
from livelog.io.values import INTEGERS, Scanner, TextProblem, format_row, format_value
from livelog.runtime.steps import time_of
from livelog.shapes import ANY

__all__ = [
    "Operation", "Reject", "ScriptTransaction", "Target", "format_operation", "format_transaction", "operation_json",
    "operation_line", "parse_operation", "read_script",
]

OPS = {
    "+": "+", "insert": "+", "update": "+",
    "-": "-", "delete": "-",
    "u": "u", "=": "=",
    "@": "@", "advance": "@", "advance_to": "@",
    "commit": "commit",
}  # fmt: skip

Reject = Callable[[str, int, str, str], None]
"""Takes a line that was not applied: the script, the number of the line, its text, and why."""

_ROW, _ROWS, _MORE = {"op", "relation", "row"}, {"op", "relation", "rows"}, {"time", "full"}
_FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "+": (_ROW, _MORE), "-": (_ROW, _MORE), "u": (_ROW, _MORE), "=": (_ROWS, _MORE), "@": ({"op", "time"}, set()),
    "commit": ({"op"}, {"transaction"}),
}  # fmt: skip
"""By operation, the fields that a line of JSON must have, and those that it may have."""

_TIME = r"@\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)(?:\s+|(?=[-+]))"
_PLAIN = re.compile(rf"\s*(?:{_TIME})?([-+]|u(?=\s))\s*((?![0-9])[\w?]+)\s*\((.*)\)\s*\.?\s*")
_decode = json.JSONDecoder(strict=False).decode


@dataclass(frozen=True, slots=True)
class Operation:
    """One line of a script: `+` inserts and `-` deletes `row` of `relation`, `u` inserts it in place of the one with
    its key, `@` advances the clock to `time`. `=` has all rows of a relation, each a tuple or a dict in `row`.

    A row is a tuple, or a dict by the names of the columns. In a deletion, a dict may have those of the key only, and a
    tuple may have `ANY` in it: then all facts that match are deleted. With a `time`, the clock is advanced there first.
    What is not `full` was told of a view at a partial point.
    """

    op: Literal["+", "-", "u", "=", "@"]
    relation: str = ""
    row: tuple[Any, ...] | dict[str, Any] = ()
    time: float | None = None
    full: bool = True

    def apply(self, target: Target) -> int | None:
        """Do it in a transaction that is open. Of a deletion with `ANY`, how many facts it meets."""
        if self.op == "@":
            target.advance_to(0.0 if self.time is None else self.time)
            return None
        given = (self.relation, self.row) if self.time is None else (self.relation, self.row, self.time)
        if self.op == "+":
            target.insert(*given)
        elif self.op == "u":
            target.update(*given)
        elif self.op == "=":
            target.replace(*given)
        elif any(value is ANY for value in self.row):
            return target.delete_matching(*given)
        else:
            target.delete(*given)
        return None


class Target(Protocol):
    """What operations are applied to: a `livelog.Transaction`."""

    def insert(self, relation: str, row: Any, at: float | None = None, /) -> Any: ...

    def update(self, relation: str, row: Any, at: float | None = None, /) -> Any: ...

    def delete(self, relation: str, row: Any, at: float | None = None, /) -> Any: ...

    def delete_matching(self, relation: str, row: Any, at: float | None = None, /) -> int: ...

    def replace(self, relation: str, rows: Any, at: float | None = None, /) -> Any: ...

    def advance_to(self, time: float, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class ScriptTransaction:
    """The operations of one transaction, each with the line it came from."""

    operations: tuple[Operation, ...]
    lines: tuple[int, ...]
    texts: tuple[str, ...]
    name: str

    @property
    def silent(self) -> bool:
        """Whether nothing but time has come."""
        return not any(self.texts)

    @property
    def until(self) -> float:
        """The time at which it ends, if its operations have times."""
        return self.operations[-1].time or 0.0

    @property
    def where(self) -> str:
        """Where it stands in the script: `updates.txt:3-5`."""
        if self.silent:
            return "the clock"
        first, last = self.lines[0], self.lines[-1]
        return f"{self.name}:{first}" if first == last else f"{self.name}:{first}-{last}"

    def apply(self, target: Target, reject: Reject | None = None) -> list[tuple[str, int]]:
        """All operations in order; what is wrong with one of them is said with its line, or to `reject`.

        Tells how many facts the deletions with `_` met: pairs of the line and the number.
        """
        met: list[tuple[str, int]] = []
        for index, operation in enumerate(self.operations):
            text = self.texts[index]
            try:
                count = operation.apply(target)
            except LivelogError as error:
                if reject is not None:
                    reject(self.name, self.lines[index], text, error.message)
                    continue
                start = len(text) - len(text.lstrip())
                problem = line_problem(error.message, self.name, self.lines[index], text, start, len(text.rstrip()))
                problem.notes = error.notes
                raise problem from None
            if count is not None:
                met.append((text.strip(), count))
        return met

    def reject(self, reject: Reject, reason: str, but: Collection[int]) -> None:
        """Reject all of it, but for lines that were rejected before: it could not be committed."""
        for number, text in zip(self.lines, self.texts, strict=True):
            if number not in but and text:
                reject(self.name, number, text, reason)


def read_script(
    lines: Iterable[str | None], name: str = "<updates>", most: int | None = None, reject: Reject | None = None,
    now: Callable[[], float] | None = None,
) -> Iterator[ScriptTransaction]:  # fmt: skip
    """The transactions of a script, each as soon as its last line is read.

    A transaction ends where the script says so, after `most` operations, and where a line is None. Lines that cannot be
    understood go to `reject`, or end it. With `now` they have no times of their own: it is asked for the time of each,
    and where a line is None, the clock moves.

    >>> script = ['+link("a", "b", 3)', "@12.5", "", '{"op": "-", "relation": "link", "row": ["a", "b", 3]}']
    >>> for transaction in read_script(script, "updates.txt"):
    ...     print(transaction.where, [format_operation(o) for o in transaction.operations])
    updates.txt:1-2 ['+link("a", "b", 3)', '@12.5']
    updates.txt:4 ['-link("a", "b", 3)']
    """
    operations: list[Operation] = []
    numbers: list[int] = []
    texts: list[str] = []
    number = 0
    try:
        for line in lines:
            ended = line is None
            if line is not None:
                number += 1
                text = line.rstrip("\r\n")
                if number == 1:
                    text = text.removeprefix("\ufeff")
                try:
                    operation = parse_operation(text)
                    if now is not None:
                        operation = _stamped(operation, text, now())
                except TextProblem as problem:
                    if reject is None:
                        raise line_problem(problem.message, name, number, text, problem.start, problem.end) from None
                    reject(name, number, text, problem.message)
                    continue
                ended = operation == "commit"
                if isinstance(operation, Operation):
                    operations.append(operation)
                    numbers.append(number)
                    texts.append(text)
                    ended = len(operations) == most
            elif now is not None:
                operations.append(Operation("@", time=now()))
                numbers.append(number)
                texts.append("")
            if ended and operations:
                transaction = ScriptTransaction(tuple(operations), tuple(numbers), tuple(texts), name)
                operations, numbers, texts = [], [], []
                yield transaction
    except KeyboardInterrupt:
        if operations:
            some = "operation was" if len(operations) == 1 else f"{len(operations)} operations were"
            say(f"{name}: the last {some} not committed")
        raise
    if operations:
        yield ScriptTransaction(tuple(operations), tuple(numbers), tuple(texts), name)


def _stamped(
    operation: Operation | Literal["commit", "comment"], text: str, time: float
) -> Operation | Literal["commit", "comment"]:
    """An operation with the time at which it came."""
    if not isinstance(operation, Operation):
        return operation
    if operation.time is not None:
        start = len(text) - len(text.lstrip())
        raise TextProblem("the clock is real: a line has the time at which it comes, and no other", start, len(text))
    return replace(operation, time=time)


def parse_operation(line: str) -> Operation | Literal["commit", "comment"]:
    """What one line says. An empty line is a `commit`; a line with only a comment is a `comment`.

    >>> parse_operation('@8 u link("a", "b", 3)')
    Operation(op='u', relation='link', row=('a', 'b', 3), time=8.0, full=True)
    >>> parse_operation(""), parse_operation("// nothing")
    ('commit', 'comment')
    """
    start = len(line) - len(line.lstrip())
    first = line[start : start + 1]
    if not first:
        return "commit"
    if first == "{":
        return _parse_json(line, start)
    if first in "+-@u" and (plain := _parse_plain(line)) is not None:
        return plain
    if first in "+-":
        return _operation(line, start, None)
    if first == "@":
        scanner = Scanner(line, start + 1)
        if scanner.kind != "number":
            raise scanner.problem(f"expected a time after '@', but {scanner.found()}")
        time = float(scanner.value())
        if (scanner.kind == "sign" and scanner.text in "+-") or scanner.text == "u":
            return _operation(line, scanner.start, time)
        scanner.finish()
        return Operation("@", time=time)
    scanner = Scanner(line, start)
    if scanner.kind == "end":
        return "comment"
    if scanner.kind == "name" and scanner.text == "commit":
        scanner.advance()
        scanner.finish()
        return "commit"
    if scanner.kind == "name" and scanner.text == "u":
        return _operation(line, start, None)
    raise scanner.problem(f"a line starts with '+', '-', '@', 'u', '{{' or 'commit', but {scanner.found()}")


def _operation(line: str, start: int, time: float | None) -> Operation:
    """An operation that begins here: the sign, the relation and the row."""
    op: Literal["+", "-", "u"] = "+" if line[start] == "+" else "-" if line[start] == "-" else "u"
    scanner = Scanner(line, start + 1, blank=ANY if op == "-" else None)
    relation = scanner.name()
    row = scanner.row()
    full = not (scanner.kind == "name" and scanner.text == "partial")
    if not full:
        scanner.advance()
    scanner.finish()
    return Operation(op, relation, row, time, full)


def _parse_plain(line: str) -> Operation | None:
    """A line of numbers and strings without escapes, which is nearly every line there is, at the speed of C.

    Such arguments are a JSON array. None for anything else: the scanner knows what to say about it.
    """
    match = _PLAIN.fullmatch(line)
    if match is None or "\\" in line:
        return None
    try:
        row = _decode(f"[{match[4]}]")
    except (ValueError, RecursionError):
        return None
    for value in row:
        if not isinstance(value, (str, int, float)) or isinstance(value, bool) or not _fits(value):
            return None
    op: Any = match[2]
    return Operation(op, match[3], tuple(row), None if match[1] is None else float(match[1]))


def _fits(value: Any) -> bool:
    """Whether a number is one of ours: in 64 bits, or finite."""
    if isinstance(value, int):
        return INTEGERS[0] <= value <= INTEGERS[1]
    return isinstance(value, str) or isfinite(value)


def _parse_json(line: str, start: int) -> Operation | Literal["commit"]:
    end = len(line.rstrip())

    def bad(message: str) -> NoReturn:
        raise TextProblem(message, start, end)

    def value_of(item: Any) -> Any:
        if isinstance(item, list):
            return tuple(map(value_of, item))
        if isinstance(item, (bool, dict)) or item is None:
            bad(f"{json.dumps(item)} is not a value: a row holds numbers, strings and lists")
        if not _fits(item):
            bad(f"{item} is not a value: numbers have 64 bits and are finite")
        return item

    try:
        record = _decode(line)
    except json.JSONDecodeError as error:
        raise TextProblem(f"not valid JSON: {error.msg}", min(error.pos, end)) from None
    except ValueError:  # thousands of digits
        bad("a number does not fit in 64 bits")
    except RecursionError:
        bad("the JSON is nested too deeply")
    op: Any = OPS.get(record.get("op")) if isinstance(record.get("op"), str) else None
    if op is None:
        bad('"op" must be "+", "-", "u", "=", "@" or "commit"')
    needed, possible = _FIELDS[op]
    for name in sorted(needed - record.keys()):
        bad(f'"{name}" is missing')
    for name in sorted(record.keys() - needed - possible):
        bad(f'unknown field "{name}"')
    if op == "commit":
        return "commit"
    time = record.get("time")
    if "time" in record and (isinstance(time, bool) or not isinstance(time, (int, float)) or not _fits(time)):
        bad('"time" must be a number')
    when = None if time is None else float(time)
    if op == "@":
        return Operation("@", time=when)
    full = record.get("full", True)
    if not isinstance(full, bool):
        bad('"full" must be true or false')
    if not isinstance(record["relation"], str):
        bad('"relation" must be a string')

    def row_of(row: Any) -> Any:
        if isinstance(row, dict):
            return {name: value_of(item) for name, item in row.items()}
        if not isinstance(row, list):
            bad('"row" must be a list, or an object by the names of the columns')
        return value_of(row)

    if op != "=":
        return Operation(op, record["relation"], row_of(record["row"]), when, full)
    if not isinstance(record["rows"], list):
        bad('"rows" must be a list of rows')
    return Operation("=", record["relation"], tuple(map(row_of, record["rows"])), when, full)


# --- writing -------------------------------------------------------------------------------------------------


def format_operation(operation: Operation) -> str:
    """An operation as a line of a script.

    >>> format_operation(Operation("@", time=12.0)), format_operation(Operation("u", "hot", ("c", 103), 8.0, False))
    ('@12.0', '@8 u hot("c", 103) partial')
    """
    op, row = operation.op, operation.row
    if op == "@":
        return f"@{operation.time!r}"
    if op == "=" or isinstance(row, dict):
        return operation_json(operation)
    if any(value is ANY for value in row):
        text = f"{operation.relation}({', '.join('_' if value is ANY else format_value(value) for value in row)})"
    else:
        text = format_row(operation.relation, row)
    return operation_line(op, text, operation.time, operation.full)


def operation_line(op: str, text: str, time: float | None = None, full: bool = True) -> str:
    """An operation on an atom as a line of a script: `@8 -hot("a")`, `@8 u hot("c", 103) partial`."""
    when = "" if time is None else f"@{time_of(time)} "
    return f"{when}{op}{' ' if op == 'u' else ''}{text}{'' if full else ' partial'}"


def operation_json(operation: Operation) -> str:
    """An operation as a line of JSON.

    >>> operation_json(Operation("-", "hot", ("a",), 8.0, False))
    '{"time": 8, "op": "-", "relation": "hot", "row": ["a"], "full": false}'
    """
    record: dict[str, Any] = {} if operation.time is None else {"time": time_of(operation.time)}
    record["op"] = operation.op
    if operation.op != "@":
        record |= {"relation": operation.relation, "rows" if operation.op == "=" else "row": operation.row}
    if not operation.full:
        record["full"] = False
    return json.dumps(record, ensure_ascii=False)


def format_transaction(operations: Iterable[Operation]) -> str:
    """A transaction as text that `read_script` reads back as the same operations.

    >>> print(format_transaction([Operation("+", "link", ("a", "b", 3)), Operation("@", time=2.0)]), end="")
    +link("a", "b", 3)
    @2.0
    commit
    """
    return "".join(format_operation(operation) + "\n" for operation in operations) + "commit\n"
