"""Options of the history tests: how many, and which one."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("livelog")
    group.addoption("--histories", type=int, default=320, help="how many random program-histories to run")
    group.addoption("--seed", type=int, default=None, help="run exactly the program-history of this seed")
