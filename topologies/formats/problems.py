"""What is wrong with a file, and where."""

from __future__ import annotations

__all__ = ["FormatProblem"]


class FormatProblem(ValueError):
    """A file that does not hold a network in its form: `map.gb:7: there is no arc 12`.

    >>> str(FormatProblem("map.gb", 7, "there is no arc 12"))
    'map.gb:7: there is no arc 12'
    """

    def __init__(self, name: str, line: int | None, message: str) -> None:
        super().__init__(f"{name}: {message}" if line is None else f"{name}:{line}: {message}")
        self.name = name
        self.line = line
        self.message = message
