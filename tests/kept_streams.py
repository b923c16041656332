"""Cases with times that once failed on the engine, made small; each runs with every method for good."""

from __future__ import annotations

from tests.cases import RuleText
from tests.oracle import Operation, Row
from tests.stream_cases import StreamCase


def _case(
    lines: tuple[str, ...], rules: dict[str, str], *history: tuple[Operation, ...],
    facts: tuple[tuple[str, Row], ...] = (), grid: float = 1,
) -> StreamCase:
    """A case of a few rules: bodies by heads."""
    texts = tuple(RuleText(head, (body,) if body else ()) for head, body in rules.items())
    return StreamCase(-1, lines, texts, facts, history, grid=grid)


def _insert(name: str, *row: object) -> Operation:
    return ("insert", name, row)


SHOWN = (".decl s(x: symbol) stream ttl(4)", ".decl k(x: number)", ".output s", ".output w")

KEPT_STREAMS: dict[str, StreamCase] = {
    # Of the copies of one arrival that came at once, the net of several steps told one, and so did recomputation.
    "copies that arrive together": _case(
        SHOWN, {"w(x)": "k(x) at every(3)"},
        (_insert("s", "a"), _insert("s", "a"), ("advance", 2), _insert("s", "a"), ("advance", 12)),
        (_insert("s", "b"), _insert("s", "b"), _insert("s", "b")),
        (("advance", 15), _insert("s", "b"), ("advance", 30)),
    ),
    "a copy arrives when another one expires": _case(
        SHOWN, {"w(x)": "k(x) at every(3)"},
        (("advance", 4), _insert("s", "a")), (_insert("k", 1), ("advance", 8), _insert("s", "b")),
        facts=(("s", ("a",)),),
    ),
    # The condition was tried on 7.0, and 7.0 / 3 is a fraction.
    "a point is a whole number": _case(
        (), {"y(t)": "clock(t), t / 3 % 2 = 0", "w(x)": "k(x) at y"}, (("advance", 7), _insert("k", 1), ("advance", 9)),
    ),
    # Nothing looked at the clock, so nobody closed the second step.
    "steps of a stream that nobody reads": _case(
        (".decl s(x: symbol) stream",), {}, (_insert("s", "a"), ("advance", 16)), (_insert("s", "a"),),
    ),
    # A view with the same atoms was read in place of them, and that they are of this very moment was forgotten.
    "the clock is equal to a time": _case(
        (".decl k(x: symbol)",), {"y(t)": "k(_)@t", "w(t)": "k(_)@u, now(t), t = u"},
        (("advance", 3), _insert("k", "b"), ("advance", 5)), facts=(("k", ("a",)),),
    ),
    "the clock is equal to a constant": _case(
        (".decl k(x: number)",), {"y(x)": "k(x)", "w(x)": "k(x), now(t), t = 2", "v(t)": "k(t), now(t)"},
        (("advance", 5),), facts=(("k", (2,)), ("k", (4,))),
    ),
}  # fmt: skip
