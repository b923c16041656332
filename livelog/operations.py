"""Operations: what a transaction does to the facts."""

from __future__ import annotations

from typing import Any

__all__ = ["Operation"]

Operation = tuple[str, Any, Any]
"""`("+", relation, row)`, `("-", relation, row)` or `("@", None, time)`. Where the runtime takes many rows at once,
also `("++", relation, rows)` and `("--", relation, rows)`."""
