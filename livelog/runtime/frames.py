"""Frames: what partitions send each other, as bytes.

A frame is msgpack: (stratum, kind, target, body). The body's form depends on the kind: `death` is a list of
variables, `pick` of numbers, `told` of lists of variables, some kinds are lists of tuples, everything else is a list of
(tuple, annotation, weight or vector of packed ints). Nothing is ever unpickled.
"""

from __future__ import annotations

from typing import Any

import msgspec

from livelog.packing import ROW

__all__ = ["decode", "encode"]

_encode = msgspec.msgpack.Encoder().encode
_header = msgspec.msgpack.Decoder(tuple[int, int, int, msgspec.Raw])


def _list(item: Any) -> Any:
    return list.__class_getitem__(item)


def _pair(one: Any, other: Any) -> Any:
    return tuple.__class_getitem__((one, other))


_tuple = ROW
_WEIGHTED = _list(_pair(_tuple, Any))
_FORMS: dict[str, Any] = {
    **dict.fromkeys(("inner", "side", "count", "node", "vector", "insert"), _WEIGHTED),
    "death": list[int],
    **dict.fromkeys(("put", "drop", "offer", "want", "wish", "none"), _list(_tuple)),
    "answer": _list(_pair(_tuple, tuple[int, ...])),
    "pick": list[int],
    "told": list[tuple[int, ...]],
    **dict.fromkeys(("edges", "cut", "shift", "need", "proven", "vouch", "release", "keep"), _list(_tuple)),
}
"""By kind, what a body looks like. On the way a kind is its position here."""
_codes = {kind: code for code, kind in enumerate(_FORMS)}
_decoders = [(kind, msgspec.msgpack.Decoder(form)) for kind, form in _FORMS.items()]
_any = msgspec.msgpack.Decoder(list[Any])


def encode(stratum: int, kind: str, target: int, rows: list[Any]) -> bytes:
    """A message as bytes.

    >>> decode(encode(1, "count", 0, [[("a", (1, 2)), -1]]))
    (1, 'count', 0, [(('a', (1, 2)), -1)])
    """
    return _encode((stratum, _codes[kind], target, rows))


def decode(frame: bytes) -> tuple[int, str, int, list[Any]]:
    """The message in a frame. Raises `msgspec.MsgspecError` if it is none."""
    try:
        stratum, code, target, body = _header.decode(frame)
        if not 0 <= code < len(_decoders):
            raise msgspec.ValidationError(f"there is no kind {code} of message")
        kind, decoder = _decoders[code]
        try:
            return stratum, kind, target, decoder.decode(body)
        except msgspec.ValidationError:
            return stratum, kind, target, _deep(kind, _any.decode(body))
    except (UnicodeDecodeError, RecursionError) as e:  # the decoder lets these through
        raise msgspec.DecodeError(f"a frame does not look like one: {e}") from e


def _deep(kind: str, body: list[Any]) -> list[Any]:
    """A body with lists that are nested deeper than the decoders foresee, or one that is wrong."""
    form = _FORMS[kind]
    if form == _list(_tuple):
        return [_row(t) for t in body]
    if kind == "answer":
        return [(_row(t), msgspec.convert(variables, tuple[int, ...])) for t, variables in map(_pair_of, body)]
    if form == _WEIGHTED:
        return [(_row(t), annotation) for t, annotation in map(_pair_of, body)]
    raise _wrong(body)


def _pair_of(value: Any) -> list[Any]:
    if type(value) is not list or len(value) != 2:
        raise _wrong(value)
    return value


def _row(value: Any) -> tuple[Any, ...]:
    """A list as a tuple, and the lists in it too."""
    if type(value) is not list:
        raise _wrong(value)
    return tuple([_row(v) if type(v) is list else _scalar(v) for v in value])


def _scalar(value: Any) -> Any:
    if not isinstance(value, int | float | str | None):
        raise _wrong(value)
    return value


def _wrong(value: Any) -> msgspec.ValidationError:
    return msgspec.ValidationError(f"a message has an unexpected {type(value).__name__} in it")
