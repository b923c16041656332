"""Imports only go down, and what is not needed is not imported."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BELOW: dict[str, set[str]] = {
    "datalog": set(),
    "operators": set(),
    "topologies": set(),
    "planner": {"datalog", "operators"},
    "livelog": {"datalog", "operators", "planner", "topologies"},
}
PACKAGES = set(BELOW) | {"bench", "tests"}
MODULES = sorted(path for package in BELOW for path in (ROOT / package).rglob("*.py"))


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """The modules that a file imports, anywhere in it, with the line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: say the whole name"
            yield node.lineno, node.module or ""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_only_go_down(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    for line, module in imported(path):
        top = module.split(".")[0]
        if top in PACKAGES and top != package:
            assert top in BELOW[package], f"{path}:{line}: {package} imports {module}"


def test_operators_and_datalog_know_no_runtime_libraries() -> None:
    for package in ("operators", "datalog", "planner"):
        for path in (ROOT / package).rglob("*.py"):
            for line, module in imported(path):
                assert module.split(".")[0] not in ("pyspark", "pandas", "pyarrow", "rich"), f"{path}:{line}: {module}"


def test_nothing_is_pickled_and_no_program_text_is_evaluated() -> None:
    """`exec` stands in one place, where generated code is compiled; `eval` and pickle nowhere."""
    found = []
    for path in MODULES:
        for line, module in imported(path):
            assert module.split(".")[0] not in ("pickle", "cloudpickle", "marshal", "shelve"), f"{path}:{line}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "eval", f"{path}:{node.lineno}"
                if node.func.id in ("exec", "compile"):
                    found.append((path.relative_to(ROOT).as_posix(), node.func.id))
    assert sorted(found) == [("operators/kernels.py", "compile"), ("operators/kernels.py", "exec")]


HEAVY = ("pyspark", "pandas", "pyarrow", "numpy", "py4j")


@pytest.mark.parametrize("module", ["livelog", "livelog.cli", "planner", "datalog", "operators.kernels", "topologies"])
def test_importing_does_not_import_what_few_need(module: str) -> None:
    code = f"import sys, {module}; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_running_a_program_does_not_either() -> None:
    code = f"""
import sys, datalog, livelog
s = livelog.open(datalog.parse("r(x, y) :- e(x, y). r(x, y) :- e(x, z), r(z, y)."), facts={{"e": [(1, 2)]}}, partitions=2)
s.load("e", [(2, 3)]); s.stats(); print([m for m in {HEAVY!r} if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"
