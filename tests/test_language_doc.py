"""Every ```dl block of the language reference is a program that parses and checks.

The ```python blocks of it run as doctests.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import datalog
from datalog.aggregates import AGGREGATES
from datalog.functions import FUNCTIONS
from datalog.names import TYPES
from datalog.souffle import IGNORED, MISSING, OLD_DIRECTIVES, SECTION
from datalog.syntax import DIRECTIVES, QUALIFIERS

TEXT = (Path(__file__).parent.parent / "docs" / "language.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```dl\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_block(block: str) -> None:
    assert datalog.check(datalog.parse(block, "language.md")).checked


def test_there_are_blocks() -> None:
    assert len(BLOCKS) >= 8


WORDS = sorted({*FUNCTIONS, *AGGREGATES, *TYPES, *QUALIFIERS} - {"neg", "list"})


@pytest.mark.parametrize("name", WORDS)
def test_every_word_of_the_language_is_explained(name: str) -> None:
    assert re.search(rf"`[^`\n]*(?<!\w){re.escape(name)}(?!\w)", TEXT)


@pytest.mark.parametrize("name", DIRECTIVES)
def test_every_directive_is_explained(name: str) -> None:
    assert f".{name} " in TEXT


def test_what_souffle_has_is_in_the_section_that_messages_name() -> None:
    title = re.search(r'"(.*)" in docs/language.md', SECTION)
    assert title is not None
    section = TEXT.split(f"### {title[1]}\n", 1)[1]
    rows = re.findall(r"^\| (.*) \| (.*) \|$", section, re.MULTILINE)
    assert [f"Souffle has {what}, Livelog has not: {instead}" for what, instead in rows[1:]] == list(MISSING.values())
    assert all(f"`{word}`" in TEXT for word in (*IGNORED, *OLD_DIRECTIVES))


def test_links_lead_somewhere() -> None:
    titles = re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)
    headings = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
    assert set(re.findall(r"\]\(#([^)]*)\)", TEXT)) <= headings
