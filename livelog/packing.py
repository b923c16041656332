"""Packing: rows and values as msgpack. Lists of the language are tuples here, as everywhere, and arrays there.

Integers and floats never turn into each other, and nothing is ever unpickled.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["ROW", "pack", "tupled", "unpack"]


def _value(depth: int) -> Any:
    """The type of a value with lists nested so deep. None stands for the argument of an aggregate that has none."""
    scalar = int | float | str | None
    return scalar if depth == 0 else scalar | tuple.__class_getitem__((_value(depth - 1), ...))


ROW: Any = tuple.__class_getitem__((_value(8), ...))
"""The type of a tuple of a relation, for decoders: they fail on lists that are nested deeper."""

_encode = msgspec.msgpack.Encoder().encode
_decoder: Any = msgspec.msgpack.Decoder(ROW | int | float | str | None)
_any = msgspec.msgpack.Decoder()


def pack(value: Any) -> bytes:
    """A value as bytes.

    >>> unpack(pack((1, 1.0, ("x", ()))))
    (1, 1.0, ('x', ()))
    """
    return _encode(value)


def unpack(data: bytes) -> Any:
    """The value in bytes from `pack`. Raises `msgspec.MsgspecError` if there is none."""
    try:
        return _decoder.decode(data)
    except msgspec.ValidationError:  # lists nested deeper than the decoder foresees
        return tupled(_any.decode(data))


def tupled(value: Any) -> Any:
    """A decoded value with tuples for all its lists, however deep: what decoders of `ROW` cannot do.

    >>> tupled([[1, [2, [3]]], {"r": [[4]]}])
    ((1, (2, (3,))), {'r': ((4,),)})
    """
    if type(value) is list:
        return tuple([tupled(v) for v in value])
    if type(value) is dict:
        return {key: tupled(v) for key, v in value.items()}
    return value
