"""Every program of `tests/errors/run` is fine by itself and fails on its facts, with exactly the text beside it.

After a deliberate change of a message: `LIVELOG_UPDATE_GOLDEN=1 pytest tests/test_run_errors.py`, and read it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import livelog

FOLDERS = sorted(path.parent for path in (Path(__file__).parent / "errors" / "run").glob("*/program.dl"))


@pytest.mark.everywhere(spark=10, cluster=2)
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_golden(folder: Path, partitions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(livelog.LivelogError) as caught:
        livelog.open("program.dl", facts="facts", limit=1000, partitions=partitions)
    rendered = str(caught.value) + "\n"
    golden = Path("error.err")
    if os.environ.get("LIVELOG_UPDATE_GOLDEN") and partitions == 1:
        golden.write_text(rendered, encoding="utf-8")
    if partitions > 1 and "no end" in rendered:  # how far a recursion came depends on how it is spread
        rendered, expected = rendered.split("\n", 1)[1][:60], golden.read_text(encoding="utf-8").split("\n", 1)[1][:60]
        assert rendered == expected
    else:
        assert rendered == golden.read_text(encoding="utf-8")
