"""The golden programs: how they are read, and how their expected results are written (by the oracle).

A program is a folder: `program.dl`, `facts/*.facts` (tab separated), `updates.txt` (an update script), `set.txt`
(constants, `k=20`, if any), and in `expected/` one file per output relation with its final rows, and
`changes.txt`, the change log. Write them anew with

    python -m tests.golden
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datalog
from datalog import ast
from tests.cases import Pruned
from tests.oracle import Base, Operation, Row, evaluate

ROOT = Path(__file__).parent / "programs"

# What the oracle cannot evaluate without help: a bound for its recursive rule, and the relation that is pruned.
BOUNDED = {"query2": ("l=1+l1.", "l=1+l1, l <= 6.", {"path": Pruned((0, 1), ((3, "min"), (4, "min")))})}

TOKEN = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|(-?\d+\.\d+)|(-?\d+)|([\[\],()]))')


def values(text: str) -> tuple[Any, ...]:
    """The values of `"a", 3, [1, 2.5]`.

    >>> values('"a", 3, [1, 2.5]')
    ('a', 3, (1, 2.5))
    """
    stack: list[list[Any]] = [[]]
    position = 0
    while position < len(text.rstrip()):
        match = TOKEN.match(text, position)
        if match is None:
            raise ValueError(text)
        position = match.end()
        string, float_, int_, mark = match.groups()
        if string is not None:
            stack[-1].append(string)
        elif float_ or int_:
            stack[-1].append(float(float_) if float_ else int(int_))
        elif mark == "[":
            stack.append([])
        elif mark == "]":
            stack[-2].append(tuple(stack.pop()))
    return tuple(stack[0])


def script(text: str) -> list[list[Operation]]:
    """The transactions of an update script."""
    transactions: list[list[Operation]] = [[]]
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("//"):
            continue
        if line in ("", "commit"):
            transactions.append([])
        elif line[0] == "@":
            transactions[-1].append(("advance", float(line[1:])))
        else:
            name, _, rest = line[1:].partition("(")
            transactions[-1].append(("insert" if line[0] == "+" else "delete", name, values(rest.rstrip(")"))))
    return [operations for operations in transactions if operations]


def field(text: str, type_: str) -> Any:
    """A field of a facts file, by the type of its column, or by its looks when that is not known."""
    if type_ == "symbol":
        return text
    if text.startswith("["):
        return values(text)[0]
    for convert in (int, float):
        try:
            value = convert(text)
        except ValueError:
            continue
        return float(value) if type_ == "float" else value
    return text


def shown(value: Any) -> str:
    """A value as the change log writes it."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(shown, value))}]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def line(sign: str, relation: str, row: Row) -> str:
    return f"{sign}{relation}({', '.join(map(shown, row))})"


def log(number: int, changes: Iterable[tuple[str, Iterable[Row], Iterable[Row]]]) -> Iterator[str]:
    """The lines of the change log for one transaction, from (relation, inserted, deleted)."""
    yield f"// {'load' if number < 0 else f'transaction {number}'}"
    for relation, inserted, deleted in changes:
        yield from (line("-", relation, row) for row in sorted(deleted))
        yield from (line("+", relation, row) for row in sorted(inserted))


@dataclass(frozen=True)
class Golden:
    """One golden program."""

    name: str

    @property
    def folder(self) -> Path:
        return ROOT / self.name

    @property
    def constants(self) -> dict[str, Any]:
        path = self.folder / "set.txt"
        lines = path.read_text().split() if path.exists() else []
        return {name: field(value, "any") for name, value in (line.split("=") for line in lines)}

    @property
    def transactions(self) -> list[list[Operation]]:
        return script((self.folder / "updates.txt").read_text())

    def program(self, bounded: bool = False) -> ast.Program:
        text = (self.folder / "program.dl").read_text()
        if bounded and self.name in BOUNDED:
            old, new, _ = BOUNDED[self.name]
            assert old in text
            text = text.replace(old, new)
        return datalog.check(datalog.parse(text, "program.dl"), constants=self.constants)

    def facts(self, program: ast.Program) -> dict[str, list[Row]]:
        result = {}
        for path in sorted((self.folder / "facts").glob("*.facts")):
            columns = program.relations[path.stem].columns
            result[path.stem] = [
                tuple(field(text, column.type) for text, column in zip(row.split("\t"), columns, strict=True))
                for row in path.read_text().splitlines()
            ]
        return result

    def states(self) -> Iterator[dict[str, set[Row]]]:
        """The outputs by the oracle, after the load and after each transaction."""
        program = self.program(bounded=True)
        pruned = BOUNDED[self.name][2] if self.name in BOUNDED else {}
        base = Base(program)
        base.load(self.facts(program))
        for operations in [[], *self.transactions]:
            base.apply(operations)
            result = evaluate(program, base.facts())
            yield {name: result[name] for name in program.outputs if name not in pruned}

    def write(self) -> None:
        """Write what the oracle says into `expected/`."""
        folder = self.folder / "expected"
        folder.mkdir(exist_ok=True)
        for path in folder.iterdir():
            path.unlink()
        before: dict[str, set[Row]] = {}
        lines: list[str] = []
        for number, state in enumerate(self.states(), -1):
            before = before or {name: set() for name in state}
            lines += log(number, ((n, state[n] - before[n], before[n] - state[n]) for n in state))
            before = state
        (folder / "changes.txt").write_text("\n".join(lines) + "\n")
        for name, rows in before.items():
            (folder / f"{name}.csv").write_text(final(rows))


def final(rows: Iterable[Row]) -> str:
    """The final rows of a relation, tab separated."""
    texts = ("\t".join(v if isinstance(v, str) else shown(v) for v in row) + "\n" for row in sorted(rows))
    return "".join(text if text != "\n" else "()\n" for text in texts)


NAMES = sorted(path.parent.name for path in ROOT.glob("*/program.dl"))

if __name__ == "__main__":
    for chosen in sys.argv[1:] or NAMES:
        Golden(chosen).write()
