"""What went wrong while rules were evaluated, as a message for people."""

from __future__ import annotations

from datalog.ast import Program
from datalog.errors import Note, RuntimeProblem
from livelog.io.values import brief_row
from operators.errors import Divergence, OperatorError, Outgrown, RuleFailure

__all__ = ["explained"]


def explained(program: Program, error: OperatorError, outcome: str) -> RuntimeProblem:
    """An operator's error as a message that names the rule and points at it, and ends with what came of it."""
    span = next((r.span for r in program.rules if r.text == error.rule), None)
    notes = []
    message = error.message
    if isinstance(error, RuleFailure):
        if error.row:
            notes.append(Note(f"at the tuple {brief_row('', error.row)}"))
        if not isinstance(error.cause, (ArithmeticError, ValueError)):
            message = f"{type(error.cause).__name__}: {message}"
    elif isinstance(error, Outgrown):
        span = next(d.span for d in program.directives_of("limitsize") if d.relation == error.relation)
    elif isinstance(error, Divergence):
        notes += [Note(f"derived last: {brief_row('', t)}") for t in error.sample]
        notes.append(Note("bound the recursion, or set a higher limit (`limit=` or `--limit`)"))
    notes.append(Note(outcome))
    return RuntimeProblem(message, span, program.source if span else None, notes, error.rule)
