"""Frames: every kind of message survives the way there, with every value, and garbage is refused as garbage."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from livelog.runtime import local
from livelog.runtime.frames import decode, encode
from tests.runs import PROGRAMS, WAYS, Run

Row = tuple[Any, ...]

BARE = (
    "put", "drop", "offer", "want", "wish", "none",
    "edges", "cut", "shift", "need", "proven", "vouch", "release", "keep",
)  # fmt: skip
"""Kinds whose body is a list of tuples."""
WEIGHTED = ("inner", "side", "count", "node", "vector")
ROWS: list[Row] = [
    (),
    ("a", 1, 2.5),
    (1, 1.0, -(2**63), 2**64 - 1, 0.0, -0.0),
    ((), ("x", ("y", (1,))), "ü𝄞", "", "\0"),
    (1e300, 5e-324, float("inf"), float("-inf")),
    tuple(range(20)),
    ("a", None),  # the argument of count<*>
]


def nested(depth: int) -> Any:
    """A value with lists nested so deep: 0 is none."""
    value: Any = "x"
    for level in range(depth):
        value = (level, value, 0.5) if level % 2 else (value,)
    return value


def bodies(kind: str, rows: list[Row]) -> list[Any]:
    """A body of a kind, as components hand it to `encode`, over these tuples."""
    if kind in BARE:
        return list(rows)
    if kind == "answer":
        return [(t, [1, 5, 2**40]) for t in rows]
    if kind == "told":
        return [[i, 5, 2**40] for i in range(len(rows))]
    if kind == "pick":
        return list(range(len(rows)))
    if kind == "insert":
        return [[t, a] for t in rows for a in ([1, 2], [[1, 0, 1, 2, 2, 1]])]
    return [[t, w] for t in rows for w in (1, -3)]


def arrived(kind: str, body: list[Any]) -> list[Any]:
    """How a body looks on arrival: tuples are tuples, annotations are lists, the variables of an answer a tuple."""
    if kind in (*BARE, "pick"):
        return body
    if kind == "told":
        return [tuple(a) for a in body]
    return [(t, tuple(a) if kind == "answer" else a) for t, a in body]


@pytest.mark.parametrize("kind", [*BARE, "answer", "told", "pick", "insert", *WEIGHTED])
def test_every_kind_survives(kind: str) -> None:
    for rows in ([], ROWS, [(nested(d), d) for d in range(3)]):
        body = bodies(kind, rows)
        message = decode(encode(3, kind, 7, body))
        assert message[:3] == (3, kind, 7)
        assert repr(message[3]) == repr(arrived(kind, body)), "the same values of the same types"


@pytest.mark.parametrize("depth", range(13))
@pytest.mark.parametrize("kind", ["put", "answer", "insert", "count"])
def test_lists_nested_however_deep(kind: str, depth: int) -> None:
    """The decoders foresee some depth; deeper ones take another way, which must not be told from the first."""
    body = bodies(kind, [(nested(depth),), (1, nested(depth), "y"), ("flat",)])
    assert repr(decode(encode(0, kind, 1, body))[3]) == repr(arrived(kind, body))
    assert all(hash(t if kind == "put" else t[0]) is not None for t in decode(encode(0, kind, 1, body))[3])


def test_deaths_are_numbers() -> None:
    assert decode(encode(1, "death", 0, [3, 2**40, 0])) == (1, "death", 0, [3, 2**40, 0])
    assert decode(encode(1, "death", 0, [])) == (1, "death", 0, [])


def test_no_kind_is_forgotten_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """What really is sent, by all methods, is what these tests are about."""
    kinds: set[str] = set()

    def spy(stratum: int, kind: str, target: int, rows: list[Any]) -> bytes:
        kinds.add(kind)
        frame = encode(stratum, kind, target, rows)
        assert encode(*decode(frame)) == frame
        return frame

    monkeypatch.setattr(local, "encode", spy)
    for way in WAYS.values():
        for name in PROGRAMS:
            run = Run(name, 1, links=12, partitions=4, **way)
            for _ in range(4):
                run.step()
    assert kinds >= {"death", "insert", "offer", "pick", "told", "want", "answer", "put", "drop"}
    assert kinds <= {"death", "answer", "insert", "pick", "told", *BARE, *WEIGHTED}


WRONG: dict[str, tuple[str, Any]] = {
    "a number for a tuple": ("put", [5]),
    "a string for a tuple": ("want", ["ab"]),
    "a map for a value": ("drop", [[{}]]),
    "bytes for a value": ("put", [[b"x"]]),
    "a map deep down": ("put", [[[[[[[[[[[[{}]]]]]]]]]]]]),
    "a tuple without a weight": ("count", [[["a"]]]),
    "a number for a pair": ("insert", [1]),
    "a string for a pair": ("insert", ["ab"]),
    "three for a pair": ("insert", [[["a"], 1, 2]]),
    "a number for the tuple of a pair": ("insert", [[5, 1]]),
    "variables that are none": ("answer", [[["a"], ["b"]]]),
    "one variable for several": ("answer", [[["a"], 5]]),
    "told what is none": ("told", [["b"]]),
    "told a number": ("told", [5]),
    "places that are none": ("pick", ["x"]),
    "deaths of strings": ("death", ["x"]),
    "deaths of tuples": ("death", [[1]]),
    "a map for a body": ("put", {}),
    "a string for a body": ("put", "abc"),
    "no body": ("put", None),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_does_not_look_like_a_message_is_refused(what: str) -> None:
    kind, body = WRONG[what]
    with pytest.raises(msgspec.MsgspecError):
        decode(encode(0, kind, 0, body))


PREFIX = encode(0, "put", 0, [])[:-1]


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\xc1",
        b"\x90",
        msgspec.msgpack.encode([1, 2]),
        msgspec.msgpack.encode(["0", 0, 0, []]),
        msgspec.msgpack.encode([0, 99, 0, []]),  # no kind has that number
        msgspec.msgpack.encode([0, -1, 0, []]),
        b"\x94\x00\xa2\xff\xfe\x00\x90",
        PREFIX + b"\x91\x91\xa2\xff\xfe",  # a value is not text
        PREFIX + b"\x91" * 100_000 + b"\x01",  # nested without end
        encode(0, "put", 0, [("a",)]) + b"\x00",
        encode(0, "put", 0, [("a",)])[:-1],
    ],
    ids=range(12),
)
def test_what_is_no_frame_is_refused(frame: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode(frame)


def test_garbage_is_refused_or_harmless() -> None:
    """Frames with bytes changed, cut off or put in, and noise: an error of one kind, or a message of the right form."""
    rng = random.Random(1)
    frames = [encode(1, kind, 2, bodies(kind, ROWS)) for kind in (*BARE, "answer", "told", "pick", "insert", "count")]
    frames.append(encode(0, "death", 0, list(range(200))))
    refused = 0
    for _ in range(6000):
        data = bytearray(rng.choice(frames))
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data))
            roll = rng.random()
            if roll < 0.6:
                data[at] = rng.randrange(256)
            elif roll < 0.8:
                del data[at : at + rng.randint(1, 4)]
            else:
                data[at:at] = rng.randbytes(rng.randint(1, 4))
        if rng.random() < 0.1:
            data = bytearray(rng.randbytes(rng.randint(0, 60)))
        try:
            stratum, kind, target, body = decode(bytes(data))
        except msgspec.MsgspecError:
            refused += 1
            continue
        assert type(stratum) is int and type(kind) is str and type(target) is int and type(body) is list
        for entry in body:
            assert type(entry) is int if kind in ("death", "pick") else type(entry) is tuple
            if kind == "told":
                assert all(type(v) is int for v in entry)
            elif kind not in (*BARE, "death", "pick"):
                assert len(entry) == 2 and type(entry[0]) is tuple
    assert 1000 < refused < 6000
