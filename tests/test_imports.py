"""Imports only go down, and what is not needed is not imported."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
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


@cache
def nodes(path: Path) -> list[ast.AST]:
    """All nodes of a file's syntax tree."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """The modules that a file imports, anywhere in it, with the line."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: say the whole name"
            yield node.lineno, node.module or ""


@pytest.mark.parametrize("package", BELOW)
def test_imports_only_go_down(package: str) -> None:
    for path in (ROOT / package).rglob("*.py"):
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
        for node in nodes(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "eval", f"{path}:{node.lineno}"
                if node.func.id in ("exec", "compile"):
                    found.append((path.relative_to(ROOT).as_posix(), node.func.id))
    assert sorted(found) == [("operators/source.py", "compile"), ("operators/source.py", "exec")]


HEAVY = ("pyspark", "pandas", "pyarrow", "numpy", "py4j", "matplotlib")

STEPS = """
import sys
def report(what):
    print(what, *[m for m in HEAVY if m in sys.modules])
import operators.kernels, operators.provenance
report("operators")
import datalog, planner, topologies
report("planner")
import livelog
report("livelog")
program = datalog.parse("r(x, y) :- e(x, y). r(x, y) :- e(x, z), r(z, y).")
sessions = []
for strategy in livelog.methods.STRATEGIES:
    s = livelog.open(program, facts={"e": [(1, 2), (2, 1)]}, partitions=2, strategy=strategy)
    s.load("e", [(2, 3)])
    s.stats()
    sessions.append(s)
sessions.append(livelog.open(program, facts={"e": [(1, 2), (2, 1)]}, partitions=2, ship="lazy"))
report("session")
import livelog.cli
report("cli")
"""


def test_importing_does_not_import_what_few_need() -> None:
    """Nor does running a program; and a session that is open when Python ends does not complain."""
    code = f"HEAVY = {HEAVY!r}\n{STEPS}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split("\n")[:-1] == ["operators", "planner", "livelog", "session", "cli"]
    assert done.stderr == ""
