"""What docs/cookbook.md shows works. Its ```python blocks with prompts run as doctests; here is the rest of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import datalog

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")
RECIPES = {title: body for title, body in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)}
WANTED = (
    "Single points of failure", "The k nearest", "Routes with constraints", "Soft state", "A live feed",
    "A service that may be killed", "pandas and Arrow", "Spark",
)  # fmt: skip


def blocks(kind: str, text: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_every_recipe_is_there_and_runs() -> None:
    assert tuple(RECIPES) == WANTED
    for title, body in RECIPES.items():
        assert re.findall(r"^>>> ", body, re.MULTILINE) or title == "Spark"


@pytest.mark.parametrize("title", [title for title, body in RECIPES.items() if blocks("sh", body)])
def test_shell(title: str, tmp_path: Path) -> None:
    """The commands print what the block after them shows, in a folder with the files that the recipe names."""
    body = RECIPES[title]
    for name, program in re.findall(r"`(\w+\.dl)`:\n\n```dl\n(.*?)```", body, re.DOTALL):
        assert datalog.check(datalog.parse(program)).checked
        (tmp_path / name).write_text(program)
    found = re.findall(r"^```sh\n(.*?)^```\n\n```\n(.*?)^```", body, re.MULTILINE | re.DOTALL)
    assert len(found) == len(blocks("sh", body)) > 0
    for command, printed in found:
        script = f'livelog() {{ {sys.executable} -m livelog "$@"; }}\n{command}'
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        run = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
        )
        assert (run.returncode, run.stdout, run.stderr) == (0, printed, "")


def test_spark(spark: Any) -> None:
    (block,) = blocks("python", RECIPES["Spark"])
    names: dict[str, Any] = {}
    exec(block, names)
    assert names["lost"] == [("a", "c"), ("a", "d"), ("b", "c"), ("b", "d")]
    assert str(names["lost"]).replace("'", '"') in block
    assert [tuple(row) for row in names["left"]] == [("a", "b"), ("c", "d")]


def test_links_lead_somewhere() -> None:
    titles = re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)
    headings = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
    assert set(re.findall(r"\]\(#([^)]*)\)", TEXT)) <= headings
    for page, place in re.findall(r"\]\((\w+\.md)(?:#([^)]*))?\)", TEXT):
        other = (ROOT / "docs" / page).read_text(encoding="utf-8")
        there = {re.sub(r"[^\w -]", "", t.lower()).replace(" ", "-") for t in re.findall(r"^#+ (.*)$", other, re.M)}
        assert not place or place in there, f"{page}#{place}"
