"""Holds what `why` tells against the oracle: the facts alone derive the row, absences are absent, groups are right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from datalog import ast
from livelog.why import Group, Reason
from tests import oracle
from tests.oracle import OracleError, Row, evaluate

SPELT = {"mean": "avg"}


@dataclass
class Whole:
    """A program over all its facts, as the oracle sees it.

    `answers` has every aggregate that it computed on the way: by function, value and number of bindings, the variables
    around it.
    """

    program: ast.Program
    facts: Mapping[str, Counter[Row]]
    relations: dict[str, set[Row]] = field(default_factory=dict)
    answers: dict[tuple[str, Any, int], list[dict[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        whole = self

        class Recording(oracle._Evaluator):
            def __post_init__(self) -> None:
                super().__post_init__()
                self.around: dict[str, Any] = {}

            def aggregate(self, node: ast.Aggregate, env: dict[str, Any], scope: frozenset[str]) -> Any:
                before, self.around = self.around, {name: env[name] for name in env if name in scope}
                try:
                    return super().aggregate(node, env, scope)
                finally:
                    self.around = before

            def apply_aggregate(self, node: Any, values: list[tuple[Any, int]]) -> Any:
                value = super().apply_aggregate(node, values)
                parameter = "" if node.parameter is None else f"({node.parameter.value!r})"
                name = SPELT.get(node.function, node.function) + parameter
                if value is not None:
                    here = self.around if isinstance(node, ast.Aggregate) else {}
                    whole.answers.setdefault((name, value, sum(n for _, n in values)), []).append(here)
                return value

        with patch.object(oracle, "_Evaluator", Recording):
            self.relations = evaluate(self.program, self.facts)

    def check(self, reason: Reason, view: str, row: Row) -> None:
        """What is told of why a row is in a view is true, and enough."""
        about = f"why {view}{row}:\n{reason}"
        alone = facts_of(self.program, reason)
        for name, rows in alone.items():
            for fact, copies in rows.items():
                assert copies <= self.facts[name][fact], f"{copies} copies of {name}{fact}\n{about}"
        derives(self.program, reason, view, row)
        for name, pattern in reason.absent:
            found = [r for r in self.relations[name] if all(p in (None, v) for p, v in zip(pattern, r, strict=True))]
            assert not found, f"{name}{found} is not absent\n{about}"
        for group in reason.groups:
            assert group.aggregate == "rows" or self.knows(group), f"{group}\n{about}"

    def knows(self, group: Group) -> bool:
        """Whether the oracle came to the same answer, for variables of the same values."""
        found = self.answers.get((group.aggregate, group.value, group.rows), [])
        if group.rows is None:
            found = [here for known, all_ in self.answers.items() if known[:2] == (group.aggregate, group.value)
                     for here in all_]  # fmt: skip
        return any(all(here.get(name, value) == value for name, value in group.key.items()) for here in found)


def facts_of(program: ast.Program, reason: Reason) -> dict[str, Counter[Row]]:
    """The facts that are told, for the oracle. What the program states of a view is there in any case."""
    alone: dict[str, Counter[Row]] = {name: Counter() for name in program.base}
    for name, fact in reason:
        if name in program.base:
            alone[name][tuple(fact)] += 1
    return alone


def derives(program: ast.Program, reason: Reason, view: str, row: Row) -> None:
    """The facts alone derive the row."""
    try:
        relations = evaluate(program, facts_of(program, reason))
    except OracleError as error:
        raise AssertionError(f"the facts alone do not evaluate: {error}\nwhy {view}{row}:\n{reason}") from error
    assert row in relations[view], f"the facts alone do not derive the row\nwhy {view}{row}:\n{reason}"
