"""`--confine`: what a program reads and writes lies inside the folders that the command line names.

A program says the names of its files: `.input r(filename="../../etc/passwd")`. Whoever runs programs of others wants
them kept inside `-F` and `-D`, whatever way leads out: `..`, a path from the root, a link.
"""

from __future__ import annotations

from pathlib import Path

from datalog.ast import Directive, Program
from livelog.io.forms import form_of
from livelog.io.problems import directive_problem

__all__ = ["check_inside", "check_outputs"]


def check_inside(program: Program, directive: Directive, folder: Path, path: Path) -> None:
    """Refuse a path that leads out of its folder; nothing is said of whether there is anything."""
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # links in a circle
        inside = False
    if not inside:
        option = "-F" if directive.kind == "input" else "-D"
        raise directive_problem(
            f".{directive.kind} {directive.relation}: '{path}' is outside of the folder of {option}, and --confine "
            "keeps programs inside", program, directive,
        )  # fmt: skip


def check_outputs(program: Program, folder: Path) -> None:
    """Refuse a program that writes outside of the folder."""
    for directive in program.directives_of("output"):
        form = form_of(program, directive)
        if form.io == "file":
            check_inside(program, directive, folder, folder / form.file_of(directive.relation))
