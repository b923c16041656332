"""The functions and aggregates in a Python file, for the rules of a program: `--functions geo.py`."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from datalog.ast import Aggregate, Call, HeadAggregate, Program, expressions
from datalog.errors import UsageProblem
from datalog.functions import FUNCTIONS

__all__ = ["registered"]


def registered(path: str | Path, program: Program) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a program uses of a Python file: (functions, aggregates), by name, for `datalog.check`.

    A name is looked up in the file where the program calls it, or aggregates with it. So the file may hold whatever
    else it likes.
    """
    module = _loaded(Path(path))
    called = {e.function for rule in program.rules for e in expressions(rule) if isinstance(e, Call)} - set(FUNCTIONS)
    grouped = {e.function for rule in program.rules for e in expressions(rule) if isinstance(e, Aggregate)}
    grouped |= {a.function for rule in program.rules for a in rule.head.arguments if isinstance(a, HeadAggregate)}
    return _callables(module, called), _callables(module, grouped)


def _callables(module: ModuleType, names: set[str]) -> dict[str, Any]:
    return {name: getattr(module, name) for name in sorted(names) if callable(getattr(module, name, None))}


def _loaded(path: Path) -> ModuleType:
    """The file as a module, under a name of its own; what it raises is told with its line."""
    name = f"livelog_functions_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageProblem(f"the functions {str(path)!r} are not a Python file: its name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look there for the module of a class
    try:
        spec.loader.exec_module(module)
    except OSError as error:
        raise UsageProblem(f"cannot read the functions {str(path)!r}: {error.strerror or error}") from None
    except Exception as error:
        line = error.lineno if isinstance(error, SyntaxError) else _line(error, path)
        told = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
        raise UsageProblem(f"the functions cannot be loaded: {path}:{line}: {told}") from None
    finally:
        del sys.modules[name]  # workers of Spark do not have the file: what is in no module is sent to them whole
    return module


def _line(error: Exception, path: Path) -> int | None:
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path.absolute()
             or f.filename == str(path)]  # fmt: skip
    return lines[-1] if lines else None
