"""What driver and workers say to each other besides frames, as msgpack.

The driver sends a `Command`: a step's number, its name and its arguments. A worker answers with a `Reply`, or with
several if the step makes it send frames: one each time it has nothing left to do. Rows are tuples on both sides.
"""

from __future__ import annotations

import builtins
import traceback
from collections.abc import Sequence
from typing import Any

import msgspec

from datalog.errors import LivelogError, RuntimeProblem
from livelog.packing import ROW, tupled
from livelog.runtime.spark.wire import WireError
from livelog.store.formats import BatchFile
from livelog.store.parts import Part
from operators.errors import Divergence, Excess, Exhausted, OperatorError, Outgrown, RuleFailure

__all__ = [
    "Address", "Broken", "Failure", "Gauge", "Held", "Hello", "Notice", "Reply", "Share", "arguments_of", "encode",
    "encode_command", "failure_of", "message_of", "raised", "result_of", "step_of",
]  # fmt: skip

Address = tuple[str, int]
LONGEST = 100_000
"""Characters of a text, and bytes of a tuple, in the report of an error."""


class Share(msgspec.Struct, array_like=True):
    """What one partition applies in a transaction: operations, and then files of rows that were pushed to it."""

    operations: list[tuple[str, str | None, ROW | int | float]] = []
    files: list[BatchFile] = []


class Held(msgspec.Struct, frozen=True):
    """A list that stays with the worker, to be fetched page by page."""

    held: int
    count: int


class Hello(msgspec.Struct, tag=True, array_like=True):
    """What a task tells the driver first: where its own door is."""

    address: Address
    host: str
    pid: int


class Notice(msgspec.Struct, tag=True, array_like=True):
    """Something for the driver's log."""

    text: str


class Broken(msgspec.Struct, tag=True, array_like=True):
    """A worker cannot go on, and neither can the others."""

    text: str


class Failure(msgspec.Struct, array_like=True):
    """An error on its way from a worker to the driver."""

    kind: str
    message: str
    rule: str = ""
    row: Any = None
    cause: str = ""
    family: str = ""
    sample: list[Any] = []
    trace: str = ""
    where: str = ""


class Gauge(msgspec.Struct, array_like=True):
    """What a worker can tell about itself at once."""

    queue: int
    outbox: int
    bytes_shipped: int
    frames_shipped: int
    busy_seconds: float


class Reply(msgspec.Struct, tag=True, array_like=True):
    """The answer to a command. `sent` and `received` count the frames of its step, by partition."""

    step: int
    failure: Failure | None
    result: msgspec.Raw
    sent: list[int]
    received: list[int]
    gauge: Gauge


_Facts = list.__class_getitem__(tuple[str, ROW, int])
_Rows: Any = list.__class_getitem__(ROW) | Held
_Sides = tuple.__class_getitem__((_Rows, _Rows))
_Named = list.__class_getitem__(tuple.__class_getitem__((str, ROW)))
_Fixed = list.__class_getitem__(tuple.__class_getitem__((int, ROW | int | float | str)))

# By command, the types of its arguments and of its result. What is not here has plain ones.
_ARGUMENTS: dict[str, Any] = {
    "apply": tuple[Share],
    "absorb": tuple[Share],
    "stash": tuple[list[tuple[str, str | None, ROW | int | float]]],
    "has": tuple.__class_getitem__((str, ROW)),
    "exact": tuple.__class_getitem__((str, ROW)),
    "derivation": tuple.__class_getitem__((str, ROW)),
    "check": tuple[list[set[int]]],
    "matching": tuple.__class_getitem__((str, _Fixed)),
}
_RESULTS: dict[str, Any] = {
    "rows": _Rows,
    "matching": _Rows,
    "exact": ROW | None,
    "page": list.__class_getitem__(ROW),
    "facts": _Facts | Held,
    "fact_page": _Facts,
    "named": _Named,
    "changes": dict.__class_getitem__((str, _Sides)),
    "differences": dict.__class_getitem__((str, _Sides)),
    "variables": list[set[int]],
    "checkpoint": list[tuple[str, int, Part]],
}

_encoder = msgspec.msgpack.Encoder()
encode = _encoder.encode
_command = msgspec.msgpack.Decoder(tuple[int, str, msgspec.Raw])
_plain = msgspec.msgpack.Decoder()
_message = msgspec.msgpack.Decoder(Hello | Notice | Broken | Reply)
_arguments = {name: msgspec.msgpack.Decoder(form) for name, form in _ARGUMENTS.items()}
_results = {name: msgspec.msgpack.Decoder(form) for name, form in _RESULTS.items()}


def encode_command(step: int, name: str, arguments: Sequence[Any]) -> bytes:
    return encode((step, name, arguments))


def step_of(command: bytes) -> tuple[int, str, msgspec.Raw]:
    """The number, the name and the arguments (still encoded) of a command."""
    return _command.decode(command)


def arguments_of(name: str, raw: msgspec.Raw) -> Sequence[Any]:
    return _typed(_arguments, name, raw)  # type: ignore[no-any-return]


def message_of(data: bytes) -> Hello | Notice | Broken | Reply:
    """What a worker says."""
    return _message.decode(data)  # type: ignore[no-any-return]


def result_of(name: str, raw: msgspec.Raw) -> Any:
    return _typed(_results, name, raw)


def _typed(decoders: dict[str, msgspec.msgpack.Decoder[Any]], name: str, raw: msgspec.Raw) -> Any:
    decoder = decoders.get(name)
    if decoder is None:
        return _plain.decode(raw)
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError:  # lists nested deeper than the decoders foresee
        value = tupled(_plain.decode(raw))
        if name == "stash":
            return [list(value[0])]
        if name in ("apply", "absorb"):
            operations, files = value[0]
            return [Share(list(operations), [BatchFile(*f) for f in files])]
        return value


# --- errors --------------------------------------------------------------------------------------------------


def failure_of(error: BaseException) -> Failure:
    """An error, made ready to travel, whatever it is."""
    if isinstance(error, RuleFailure):
        cause = error.cause
        family = next((f.__name__ for f in (ArithmeticError, ValueError) if isinstance(cause, f)), "Exception")
        row = None if error.row is None else _short(tuple(error.row))
        beside = [] if error.beside is None else [_short(error.beside)]
        return Failure("rule", _text(cause), error.rule, row, type(cause).__name__, family, beside, where=error.where)
    if isinstance(error, Divergence):
        return Failure("divergence", _text(error.message), error.rule, sample=[_short(t) for t in error.sample])
    if isinstance(error, Excess):
        return Failure("excess", _text(error.message), error.rule, sample=[_short(t) for t in error.sample])
    if isinstance(error, Outgrown):
        return Failure("outgrown", _text(error.message), error.rule, cause=error.relation)
    if isinstance(error, Exhausted):
        return Failure("exhausted", _text(error.message), error.rule)
    if isinstance(error, OperatorError):
        return Failure("operator", _text(error.message), error.rule)
    if isinstance(error, LivelogError | WireError):
        return Failure("problem", _text(error))
    trace = _text("".join(traceback.format_exception(error)))
    if isinstance(error, AssertionError):
        return Failure("assertion", _text(error), trace=trace)
    return Failure("other", f"{type(error).__name__}: {_text(error)}", trace=trace)


def _text(value: Any) -> str:
    """Something as text that can be encoded, and is not endless."""
    try:
        text = str(value)
    except Exception:
        return "(an error that cannot be shown)"
    return text[:LONGEST].encode("utf-8", "backslashreplace").decode()


def _short(row: Any) -> Any:
    """A tuple as it is, or as text if it cannot travel."""
    try:
        if len(encode(row)) <= LONGEST:
            return row
    except (TypeError, ValueError, OverflowError, RecursionError):
        pass
    return (_text(row),)


def raised(failure: Failure) -> Exception:
    """The error again, with what it was caused by."""
    if failure.kind == "rule":
        beside = tupled(failure.sample[0]) if failure.sample else None
        return RuleFailure(failure.rule, tupled(failure.row), _cause(failure), failure.where, beside)
    if failure.kind == "divergence":
        return Divergence(failure.message, failure.rule, [tupled(t) for t in failure.sample])
    if failure.kind == "excess":
        return Excess(failure.message, failure.rule, [tupled(t) for t in failure.sample])
    if failure.kind == "outgrown":
        return Outgrown.told(failure.message, failure.rule, failure.cause)
    if failure.kind == "exhausted":
        return Exhausted(failure.message, failure.rule)
    if failure.kind == "operator":
        return OperatorError(failure.message, failure.rule)
    if failure.kind == "assertion":
        return AssertionError(f"{failure.message}\n{failure.trace}")
    if failure.kind == "problem":
        return RuntimeProblem(failure.message.removeprefix("error: "))
    return RuntimeProblem(f"a worker failed: {failure.message}\n{failure.trace}")


def _cause(failure: Failure) -> Exception:
    """An exception of the same name and text, and of the same family: the class itself may only exist over there."""
    known = getattr(builtins, failure.cause, None)
    if isinstance(known, type) and issubclass(known, Exception):
        try:
            made = known(failure.message)
            if str(made) == failure.message:
                return made
        except TypeError:  # one that takes more than a text
            pass
    family = {"ArithmeticError": ArithmeticError, "ValueError": ValueError}.get(failure.family, Exception)
    return type(failure.cause, (family,), {})(failure.message)  # type: ignore[no-any-return]
