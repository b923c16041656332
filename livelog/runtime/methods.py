"""The ways to maintain a recursive component, by name."""

from __future__ import annotations

from livelog.runtime.absorption import Absorption
from livelog.runtime.component import Component
from livelog.runtime.dred import DRed
from livelog.runtime.relative import Relative

__all__ = ["METHODS"]

METHODS: dict[tuple[str, str], type[Component]] = {
    ("absorption", "demand"): Absorption,
    ("absorption", "lazy"): Absorption,
    ("absorption", "eager"): Absorption,
    ("relative", "lazy"): Relative,
    ("relative", "eager"): Relative,
    ("dred", ""): DRed,
}
"""(strategy, ship mode) -> the class of its components; a strategy without ship modes has an empty one."""
