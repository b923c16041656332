"""Cases that once failed on the engine, made small; each runs in the whole matrix for good."""

from __future__ import annotations

from tests.cases import Case, RuleText
from tests.oracle import Operation


def _changes(text: str) -> tuple[tuple[Operation, ...], ...]:
    """Transactions over `e`, separated by `;`: `+31 +03 ; -03`."""
    kinds = {"+": "insert", "-": "delete"}
    return tuple(
        tuple((kinds[word[0]], "e", tuple(int(digit) for digit in word[1:])) for word in part.split())
        for part in text.split(";")
    )


KEPT_CASES: dict[str, Case] = {
    # Lazy, five partitions: after the last deletion two rows were missing that the loop at 0 still derives.
    "a loop is the only way left": Case(
        -1,
        (),
        (
            RuleText("p(x, y, c)", ("e(x, y)", "c = x + 1")),
            RuleText("p(x, y, c)", ("e(x, z)", "p(z, y, b)", "c = b + 1", "c <= 7")),
        ),
        (),
        _changes("+31 +03 +10 ; +01 +04 +40 +00 ; -03 ; -10 ; -04"),
    ),
}
