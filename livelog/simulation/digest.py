"""Hashes of changes, so that results can be compared without holding them."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import msgspec

from livelog.changes import ChangeLog

__all__ = ["digests"]

Row = tuple[Any, ...]

_encode = msgspec.msgpack.Encoder().encode
_PLAIN = {"number", "unsigned", "symbol"}


def digests(changes: ChangeLog, types: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """Per view that changed, a hash of its sorted net changes; `types` are those of the views' columns.

    >>> import datalog, livelog
    >>> def after(*rows):
    ...     session = livelog.open(datalog.parse("r(x) :- e(x)."), facts={"e": rows})
    ...     return digests(session.initial, {"r": session["r"].types})["r"]
    >>> after((1,), (2,)) == after((2.0,), (1,)), after((1,)) == after(("1",))
    (True, False)
    """
    return {name: _digest(change, types[name]) for name, change in changes.items() if change}


def _digest(change: Any, types: tuple[str, ...]) -> str:
    state = blake2b(digest_size=12)
    for side in (change.inserted, change.deleted):
        # A column that may hold 1 or 1.0 holds either: they are the same value.
        rows = side if _PLAIN.issuperset(types) else _canonical(side)
        state.update(_encode([len(side), rows]))
    return state.hexdigest()


def _canonical(value: Any) -> Any:
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_canonical(v) for v in value]
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**63
    return int(value) if whole else value
