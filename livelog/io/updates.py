"""Update scripts: transactions as text, read line by line and written back.

One operation per line; an empty line, `commit` or the end of the script ends a transaction:

    +link("a", "b", 3)     // insert
    -link("b", "c", 1)     // delete
    -link("b", _, _)       // delete all that match
    @12.5                  // the clock advances
    commit

A line that starts with `{` is the same as JSON: `{"op": "+", "relation": "link", "row": ["a", "b", 3]}`,
`{"op": "@", "time": 12.5}`, `{"op": "commit"}`. Its row may also be an object by the names of the columns. Both
kinds may be mixed. Only the transaction that is being read is held in memory, so a script may be an endless stream.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, NoReturn, Protocol

from datalog.errors import LivelogError
from livelog.io.problems import line_problem, say
from livelog.io.values import INTEGERS, Scanner, TextProblem, format_row, format_value
from livelog.shapes import ANY

__all__ = [
    "Operation", "ScriptTransaction", "Target", "format_operation", "format_transaction", "parse_operation",
    "read_script",
]

OPS = {
    "+": "+", "insert": "+", "update": "+",
    "-": "-", "delete": "-",
    "@": "@", "advance": "@", "advance_to": "@",
    "commit": "commit",
}  # fmt: skip

Reject = Callable[[str, int, str, str], None]
"""Takes a line that was not applied: the script, the number of the line, its text, and why."""

_FIELDS = {"+": {"op", "relation", "row"}, "-": {"op", "relation", "row"}, "@": {"op", "time"}, "commit": {"op"}}
_PLAIN = re.compile(r"\s*([-+])\s*((?![0-9])[\w?]+)\s*\((.*)\)\s*\.?\s*")
_decode = json.JSONDecoder(strict=False).decode


@dataclass(frozen=True, slots=True)
class Operation:
    """One line of a script: `+` inserts and `-` deletes `row` of `relation`, `@` advances the clock to `time`.

    A row is a tuple, or a dict by the names of the columns. In a deletion, a dict may have those of the key only, and a
    tuple may have `ANY` in it: then all facts that match are deleted.
    """

    op: Literal["+", "-", "@"]
    relation: str = ""
    row: tuple[Any, ...] | dict[str, Any] = ()
    time: float = 0.0

    def apply(self, target: Target) -> int | None:
        """Do it in a transaction that is open. Of a deletion with `ANY`, how many facts it meets."""
        if self.op == "+":
            target.insert(self.relation, self.row)
        elif self.op == "@":
            target.advance_to(self.time)
        elif any(value is ANY for value in self.row):
            return target.delete_matching(self.relation, self.row)
        else:
            target.delete(self.relation, self.row)
        return None


class Target(Protocol):
    """What operations are applied to: a `livelog.Transaction`."""

    def insert(self, relation: str, row: Any, /) -> Any: ...

    def delete(self, relation: str, row: Any, /) -> Any: ...

    def delete_matching(self, relation: str, row: Any, /) -> int: ...

    def advance_to(self, time: float, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class ScriptTransaction:
    """The operations of one transaction, each with the line it came from."""

    operations: tuple[Operation, ...]
    lines: tuple[int, ...]
    texts: tuple[str, ...]
    name: str

    @property
    def where(self) -> str:
        """Where it stands in the script: `updates.txt:3-5`."""
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
            if number not in but:
                reject(self.name, number, text, reason)


def read_script(
    lines: Iterable[str | None], name: str = "<updates>", most: int | None = None, reject: Reject | None = None
) -> Iterator[ScriptTransaction]:
    """The transactions of a script, each as soon as its last line is read.

    A transaction ends where the script says so, after `most` operations, and where a line is None. Lines that cannot be
    understood go to `reject`, or end it.

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


def parse_operation(line: str) -> Operation | Literal["commit", "comment"]:
    """What one line says. An empty line is a `commit`; a line with only a comment is a `comment`.

    >>> parse_operation('+link("a", "b", 3)')
    Operation(op='+', relation='link', row=('a', 'b', 3), time=0.0)
    >>> parse_operation(""), parse_operation("// nothing")
    ('commit', 'comment')
    """
    start = len(line) - len(line.lstrip())
    first = line[start : start + 1]
    if not first:
        return "commit"
    if first == "{":
        return _parse_json(line, start)
    if first in "+-":
        if (plain := _parse_plain(line)) is not None:
            return plain
        scanner = Scanner(line, start + 1, blank=ANY if first == "-" else None)
        relation = scanner.name()
        row = scanner.row()
        scanner.finish()
        return Operation("+" if first == "+" else "-", relation, row)
    if first == "@":
        scanner = Scanner(line, start + 1)
        if scanner.kind != "number":
            raise scanner.problem(f"expected a time after '@', but {scanner.found()}")
        time = float(scanner.value())
        scanner.finish()
        return Operation("@", time=time)
    scanner = Scanner(line, start)
    if scanner.kind == "end":
        return "comment"
    if scanner.kind == "name" and scanner.text == "commit":
        scanner.advance()
        scanner.finish()
        return "commit"
    raise scanner.problem(f"a line starts with '+', '-', '@', '{{' or 'commit', but {scanner.found()}")


def _parse_plain(line: str) -> Operation | None:
    """A line of numbers and strings without escapes, which is nearly every line there is, at the speed of C.

    Such arguments are a JSON array. None for anything else: the scanner knows what to say about it.
    """
    match = _PLAIN.fullmatch(line)
    if match is None or "\\" in line:
        return None
    try:
        row = _decode(f"[{match[3]}]")
    except (ValueError, RecursionError):
        return None
    for value in row:
        if not isinstance(value, (str, int, float)) or isinstance(value, bool) or not _fits(value):
            return None
    return Operation("+" if match[1] == "+" else "-", match[2], tuple(row))


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
    op = OPS.get(record.get("op")) if isinstance(record.get("op"), str) else None
    if op is None:
        bad('"op" must be "+", "-", "@" or "commit"')
    fields = _FIELDS[op]
    if record.keys() != fields:
        for name in sorted(fields - record.keys()):
            bad(f'"{name}" is missing')
        for name in sorted(record.keys() - fields):
            bad(f'unknown field "{name}"')
    if op == "commit":
        return "commit"
    if op == "@":
        time = record["time"]
        if isinstance(time, bool) or not isinstance(time, (int, float)) or not _fits(time):
            bad('"time" must be a number')
        return Operation("@", time=float(time))
    if not isinstance(record["relation"], str):
        bad('"relation" must be a string')
    row = record["row"]
    if not isinstance(row, (list, dict)):
        bad('"row" must be a list, or an object by the names of the columns')
    values = {name: value_of(item) for name, item in row.items()} if isinstance(row, dict) else value_of(row)
    return Operation("+" if op == "+" else "-", record["relation"], values)


# --- writing -------------------------------------------------------------------------------------------------


def format_operation(operation: Operation) -> str:
    """An operation as a line of a script.

    >>> format_operation(Operation("@", time=12.0))
    '@12.0'
    """
    if operation.op == "@":
        return f"@{operation.time!r}"
    if isinstance(operation.row, dict):
        return json.dumps({"op": operation.op, "relation": operation.relation, "row": operation.row})
    if any(value is ANY for value in operation.row):
        values = ", ".join("_" if value is ANY else format_value(value) for value in operation.row)
        return f"{operation.op}{operation.relation}({values})"
    return operation.op + format_row(operation.relation, operation.row)


def format_transaction(operations: Iterable[Operation]) -> str:
    """A transaction as text that `read_script` reads back as the same operations.

    >>> print(format_transaction([Operation("+", "link", ("a", "b", 3)), Operation("@", time=2.0)]), end="")
    +link("a", "b", 3)
    @2.0
    commit
    """
    return "".join(format_operation(operation) + "\n" for operation in operations) + "commit\n"
