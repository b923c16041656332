"""What docs/streams.md shows works. Its ```python blocks run as doctests; here is the rest of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import datalog

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "streams.md").read_text(encoding="utf-8")
SECTIONS = {title: body for title, body in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)}
PATTERNS = (
    "A sliding window", "A tumbling window", "A landmark window", "Range and slide", "A window in a join", "Sessions",
    "Late data", "Refresh on events", "Deduplication", "Complete output",
)  # fmt: skip


def blocks(kind: str, text: str = TEXT) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", blocks("dl"), ids=range(len(blocks("dl"))))
def test_programs(block: str) -> None:
    assert datalog.check(datalog.parse(block, "streams.md")).checked


@pytest.mark.parametrize("title", PATTERNS)
def test_every_pattern_is_played(title: str) -> None:
    """A snippet that says what comes of it, not only what to write."""
    (block,) = blocks("python", SECTIONS[title])
    shown = [line for line in block.splitlines() if line and not line.startswith((">>> ", "... "))]
    assert shown


def test_shell(tmp_path: Path) -> None:
    """The commands print what the block after them shows, in a folder with the files that the page names."""
    body = SECTIONS["On the command line"]
    for name, program in re.findall(r"`(\w+\.dl)`:\n\n```dl\n(.*?)```", body, re.DOTALL):
        (tmp_path / name).write_text(program)
    found = re.findall(r"^```sh\n(.*?)^```\n\n```\n(.*?)^```", body, re.MULTILINE | re.DOTALL)
    assert len(found) == len(blocks("sh", body)) > 0
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for command, printed in found:
        script = f'livelog() {{ {sys.executable} -m livelog "$@"; }}\n{command}'
        run = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
        )
        assert (run.returncode, run.stdout, run.stderr) == (0, printed, "")


def test_links_lead_somewhere() -> None:
    def anchors(text: str) -> set[str]:
        titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}

    assert set(re.findall(r"\]\(#([^)]*)\)", TEXT)) <= anchors(TEXT)
    for page in sorted((ROOT / "docs").glob("*.md")):
        for place in re.findall(r"\]\(streams\.md#([^)]*)\)", page.read_text(encoding="utf-8")):
            assert place in anchors(TEXT), f"{page.name}: {place}"
