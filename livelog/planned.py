"""Planned: a program and its plan, and what becomes of both when views are defined and dropped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import planner
from datalog.ast import Program
from datalog.growth import defined, dropped, read_by
from livelog.edits import Edit
from planner.extend import extend, reduce
from planner.plan import Plan

__all__ = ["Planned"]


@dataclass(frozen=True, slots=True)
class Planned:
    """A checked program with its plan. It never changes: an edit leads to another one, everywhere to the same.

    >>> import datalog
    >>> first = Planned.of(datalog.check(datalog.parse("r(x) :- e(x).")), True)
    >>> second = first.after(Edit("q(x) :- r(x), x > 2."))
    >>> second.program.outputs, first.program.outputs, second.after(Edit(drop=("q", "r"))).plan.strata
    (('r', 'q'), ('r',), ())
    """

    program: Program
    plan: Plan
    select: bool

    @classmethod
    def of(cls, program: Program, select: bool) -> Planned:
        """A program that was never edited."""
        return cls(program, planner.plan(program, select=select), select)

    @property
    def sizes(self) -> dict[str, int]:
        """How many tuples a relation may have, for those of which the program says so."""
        return {d.relation: d.parameters["n"] for d in self.program.directives_of("limitsize")}

    def define(self, text: str) -> tuple[Edit, Planned]:
        """What a definition leads to, and how it is logged. Raises what is wrong with it."""
        program, names = defined(self.program, text)
        plan = extend(self.plan, self.program, program, select=self.select)
        reads = tuple(sorted(read_by(program, names)))
        return Edit(text, names=names, reads=reads), replace(self, program=program, plan=plan)

    def drop(self, names: Iterable[str]) -> tuple[Edit, Planned]:
        """The same for views that go. Raises where they cannot."""
        gone = tuple(names)
        program = dropped(self.program, gone)
        return Edit(drop=tuple(dict.fromkeys(gone))), replace(self, program=program, plan=reduce(self.plan, program))

    def after(self, edit: Edit) -> Planned:
        """What a logged edit leads to."""
        found = self
        if edit.drop:
            _, found = found.drop(edit.drop)
        if edit.define:
            _, found = found.define(edit.define)
        return found

    def after_all(self, edits: Iterable[Edit]) -> Planned:
        found = self
        for edit in edits:
            found = found.after(edit)
        return found
