"""What went wrong while rules were evaluated, as a message for people."""

from __future__ import annotations

from datalog.ast import Program
from datalog.errors import Note, RuntimeProblem
from livelog.io.values import brief_row
from operators.errors import Divergence, Excess, Exhausted, OperatorError, Outgrown, RuleFailure, is_own

__all__ = ["explained", "raised_by_user"]


def explained(program: Program, error: OperatorError, outcome: str) -> RuntimeProblem:
    """An operator's error as a message that names the rule and points at it, and ends with what came of it."""
    span = next((r.span for r in program.rules if r.text == error.rule), None)
    notes = []
    message = error.message
    if isinstance(error, RuleFailure):
        if error.row and error.beside:
            notes.append(Note(f"at the tuples {brief_row('', error.row)} and {brief_row('', error.beside)}"))
        elif error.row:
            notes.append(Note(f"at the tuple {brief_row('', error.row)}"))
        if not isinstance(error.cause, (ArithmeticError, ValueError)):
            message = f"{type(error.cause).__name__}: {message}"
        if error.where:
            notes.append(Note(f"raised at {error.where}"))
    elif isinstance(error, Outgrown):
        span = next(d.span for d in program.directives_of("limitsize") if d.relation == error.relation)
    elif isinstance(error, Exhausted):
        option = "`timeout=` or `--time-limit`" if "longer" in message else "`memory=` or `--memory`"
        notes.append(Note(f"bound what the rule makes, or allow more ({option})"))
    elif isinstance(error, Excess):
        notes += [Note(f"derived last: {brief_row('', t)}") for t in error.sample]
        notes.append(Note("join on something, or set a higher limit (`limit=` or `--limit`)"))
    elif isinstance(error, Divergence):
        notes += [Note(f"derived last: {brief_row('', t)}") for t in error.sample]
        notes.append(Note("bound the recursion, or set a higher limit (`limit=` or `--limit`)"))
    notes.append(Note(outcome))
    return RuntimeProblem(message, span, program.source if span else None, notes, error.rule)


def raised_by_user(error: OperatorError) -> BaseException | None:
    """What a user's function raised, with the user's lines only: the one exception that is worth a traceback."""
    if not isinstance(error, RuleFailure) or not error.where:
        return None
    cause = error.cause
    trace = cause.__traceback__
    while trace is not None and is_own(trace):
        trace = trace.tb_next
    cause.__traceback__ = trace
    inner = cause
    while (outer := inner.__context__) is not None and (at := outer.__traceback__) is not None and not is_own(at):
        inner = outer
    inner.__context__ = None  # the same failure, met before by a whole batch
    return cause
