"""Frames: what partitions send each other, as bytes.

A frame is msgpack: (stratum, kind, target, body). The body's form depends on the kind: `death` is a list of
variables, everything else a list of (tuple, annotation or weight). Nothing is ever unpickled.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["decode", "encode"]

_encode = msgspec.msgpack.Encoder().encode
_header = msgspec.msgpack.Decoder(tuple[int, str, int, msgspec.Raw])
_rows = msgspec.msgpack.Decoder(list[tuple[tuple[Any, ...], Any]])
_variables = msgspec.msgpack.Decoder(list[int])


def encode(stratum: int, kind: str, target: int, rows: list[Any]) -> bytes:
    """A message as bytes.

    >>> decode(encode(1, "count", 0, [[("a", (1, 2)), -1]]))
    (1, 'count', 0, [(('a', (1, 2)), -1)])
    """
    return _encode((stratum, kind, target, rows))


def decode(frame: bytes) -> tuple[int, str, int, list[Any]]:
    """The message in a frame. Raises `msgspec.MsgspecError` if it is none."""
    stratum, kind, target, body = _header.decode(frame)
    if kind == "death":
        return stratum, kind, target, _variables.decode(body)
    rows = _rows.decode(body)
    for i, (t, a) in enumerate(rows):
        for value in t:
            if type(value) is list:  # msgpack has arrays only; lists of the language are tuples here
                rows[i] = (tuple([_tuples(v) for v in t]), a)
                break
    return stratum, kind, target, rows


def _tuples(value: Any) -> Any:
    return tuple([_tuples(v) for v in value]) if type(value) is list else value
