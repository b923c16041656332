"""Queries over views, as the `repl` takes them: `?reachable("a", x)`.

A pattern holds values, variables and `_`; a variable that stands twice must match the same value twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from livelog.io.values import Scanner

__all__ = ["Pattern", "parse_atom", "parse_pattern"]

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A relation and what its columns must look like; `arguments` is None for the whole relation.

    An argument is a pair: `("value", 3)`, `("variable", "x")` or `("any", "_")`.
    """

    relation: str
    arguments: tuple[tuple[str, Any], ...] | None

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables, each once, in order of first use."""
        return tuple(dict.fromkeys(value for kind, value in self.arguments or () if kind == "variable"))

    def bindings(self, rows: Iterable[Row]) -> Iterator[Row]:
        """What the variables are in each row that matches, each binding once, in the order of the rows.

        >>> list(parse_pattern('link(x, x, _)').bindings([("a", "a", 1), ("a", "b", 1), ("b", "b", 2)]))
        [('a',), ('b',)]
        """
        if self.arguments is None:
            yield from rows
            return
        values = [(i, value) for i, (kind, value) in enumerate(self.arguments) if kind == "value"]
        first: dict[str, int] = {}
        repeats: list[tuple[int, int]] = []
        for index, (kind, name) in enumerate(self.arguments):
            if kind == "variable":
                if name in first:
                    repeats.append((first[name], index))
                else:
                    first[name] = index
        wanted = list(first.values())
        seen: set[Row] = set()
        for row in rows:
            if all(row[i] == v for i, v in values) and all(row[i] == row[j] for i, j in repeats):
                found = tuple([row[i] for i in wanted])
                if found not in seen:
                    seen.add(found)
                    yield found


def parse_pattern(text: str, start: int = 0) -> Pattern:
    """A pattern from the text of a query, without the question mark.

    >>> parse_pattern('reachable("a", x)').variables
    ('x',)
    """
    scanner = Scanner(text, start)
    relation = scanner.name()
    if scanner.kind == "end" or scanner.text == ".":
        scanner.finish()
        return Pattern(relation, None)
    scanner.expect("(", "'(' or the end of the line")
    arguments: list[tuple[str, Any]] = []
    if not scanner.take(")"):
        arguments.append(_argument(scanner))
        while scanner.take(","):
            arguments.append(_argument(scanner))
        scanner.expect(")", "',' or ')'")
    scanner.finish()
    return Pattern(relation, tuple(arguments))


def _argument(scanner: Scanner) -> tuple[str, Any]:
    if scanner.kind == "name" and scanner.text != "nil":
        name = scanner.text
        scanner.advance()
        return ("any", name) if name == "_" else ("variable", name)
    return "value", scanner.value()


def parse_atom(text: str, start: int = 0) -> tuple[str, Row]:
    """A relation and a row of values.

    >>> parse_atom('reachable("a", "c")')
    ('reachable', ('a', 'c'))
    """
    scanner = Scanner(text, start)
    relation = scanner.name()
    row = scanner.row()
    scanner.finish()
    return relation, row
