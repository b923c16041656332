"""What README.md and the docs show and name is there: programs, commands, files, and what the first example prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import datalog
from livelog.cli import COMMANDS, main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCED = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
PROGRAMS = [block for kind, block in FENCED if not kind and ":-" in block and "$ " not in block]


@pytest.mark.parametrize("block", PROGRAMS, ids=range(len(PROGRAMS)))
def test_programs(block: str) -> None:
    assert datalog.check(datalog.parse(block, "README.md")).checked


def test_there_are_programs() -> None:
    assert len(PROGRAMS) == 2


def test_the_first_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = re.search(r"^\$ cat (\S+)\n(.*?)^\$ printf '(.*?)' \| livelog (.*?)\n(.*?)^```", README, re.M | re.S)
    assert found is not None
    name, program, updates, command, printed = found.groups()
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(program)
    Path("updates.txt").write_text(updates.replace("\\n", "\n"))
    assert main([word if word != "-" else "updates.txt" for word in command.split()]) == 0
    shown = capsys.readouterr().out.replace("updates.txt", "<stdin>")
    assert shown.rstrip() == printed.rstrip()


def test_commands() -> None:
    """Every command is in the table of docs/cli.md, and every command that a page names is one."""
    known = {*COMMANDS, "help"}
    table = set(re.findall(r"^\| `livelog (\w+)", (ROOT / "docs" / "cli.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert table == known
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        named = set(re.findall(r"(?:^|`|\| )livelog ([a-z]+)\b", text, re.MULTILINE))
        assert named <= known, f"{page.name}: {named - known}"


def test_links() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
