"""Where there is no memory at all, an error still finds its way out.

Python notes at which instruction a `with`, `finally` or `except` block was left, as a number. Those up to 256 are there
already; a larger one is allocated, and if that fails, CPython (3.11 to 3.13) tries the same again, for ever. So in what
runs inside a transaction no such block lies beyond the first 256 instructions of its function.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

ROOT = Path(__file__).parents[1]
FILES = [
    *(ROOT / "livelog" / f"{name}.py" for name in ("session", "transaction", "subscribers", "changes", "values")),
    *sorted((ROOT / "livelog" / "runtime").glob("*.py")),
    *sorted((ROOT / "operators").rglob("*.py")),
]
BEFORE = {"Session.__init__"}  # there is no session yet that could be left half done


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def beyond(code: CodeType) -> bool:
    """Whether a block that notes where it was left ends beyond the numbers that are always there."""
    return any(entry.lasti and entry.end // 2 > 257 for entry in dis._parse_exception_table(code))  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_block_notes_a_number_that_has_to_be_allocated(path: Path) -> None:
    found = [c.co_qualname for c in codes(compile(path.read_text(), str(path), "exec")) if beyond(c)]
    assert not set(found) - BEFORE, "divide these functions, or let their last blocks begin earlier"


def test_such_a_block_is_recognised() -> None:
    long = "def f(x):\n" + " x = x + 1\n" * 200 + " with x:\n  x = x + 1\n"
    (function,) = [c for c in codes(compile(long, "long", "exec")) if c.co_name == "f"]
    assert beyond(function)
