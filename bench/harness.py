"""What every benchmark shares: clocks, bars, the table on the terminal and the JSON file."""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["RESULTS", "Bar", "Result", "Stopwatch", "apart", "finish", "progress", "settle", "typical"]

T = TypeVar("T")

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure that must stay at or under its limit; most are ratios."""

    name: str
    figure: float
    limit: float
    unit: str = "x"

    @property
    def met(self) -> bool:
        return self.figure <= self.limit

    def __str__(self) -> str:
        verdict = "met   " if self.met else "MISSED"
        return f"{verdict} {self.name}: {self.figure:.2f}{self.unit} (at most {self.limit:g}{self.unit})"


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to one question. `rows` are printed as a table: all have the same keys."""

    name: str
    question: str
    bars: Sequence[Bar] = ()
    rows: Sequence[dict[str, Any]] = ()
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def met(self) -> bool:
        return all(bar.met for bar in self.bars)


class Stopwatch:
    """Keeps laps: `with watch: ...` is one lap, in seconds of processor time.

    Engine and loops run in one thread and wait for nothing, so this is what the clock on the wall would show on an idle
    machine, and it does not count the neighbours on a busy one.
    """

    def __init__(self) -> None:
        self.laps: list[float] = []
        self._start = 0.0

    def __enter__(self) -> Stopwatch:
        self._start = time.process_time()
        return self

    def __exit__(self, *error: object) -> None:
        self.laps.append(time.process_time() - self._start)


def typical(runs: Sequence[Sequence[float]]) -> list[float]:
    """Of several runs of the same laps, each lap's median: what a lap costs when nothing disturbs it.

    >>> typical([[1.0, 5.0], [1.5, 4.0], [9.0, 4.5]])
    [1.5, 4.5]
    """
    return [statistics.median(laps) for laps in zip(*runs, strict=True)]


@contextmanager
def settle() -> Iterator[None]:
    """Start a run without the garbage of the run before. The collector stays on: users have it on."""
    gc.collect()
    yield
    gc.collect()


def apart(measure: Callable[..., T], *arguments: Any) -> T:
    """What a function measures in a fresh process.

    What others have opened and closed before in the same process leaves holes in its memory, and who has to allocate in
    them is slower.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, *arguments).result()


def progress(text: str) -> None:
    """A line that says what is going on."""
    print(f"  {text}", flush=True)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows as aligned columns.

    >>> print(table([{"nodes": 100, "ratio": 1.5}, {"nodes": 4, "ratio": 0.25}]))
    nodes  ratio
      100   1.50
        4   0.25
    """
    if not rows:
        return ""
    names = list(rows[0])
    cells = [names] + [[show(row[name]) for name in names] for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(names))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells)


def show(value: Any) -> str:
    """A value as a table shows it.

    >>> [show(value) for value in (1234, 0.01234, 2.5, True, None, "loop")]
    ['1,234', '0.0123', '2.50', 'yes', '-', 'loop']
    """
    if value is None or isinstance(value, bool):
        return "-" if value is None else "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if 0 < abs(value) < 0.1 else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def finish(run: Callable[[], Result], folder: Path | None = RESULTS) -> int:
    """Run a benchmark, print what it found and keep it, unless there is no folder; exit code 1 if a bar was missed."""
    result = run()
    print()
    print(table(result.rows))
    for bar in result.bars:
        print(bar)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        payload = asdict(result)
        payload["bars"] = [asdict(bar) | {"met": bar.met} for bar in result.bars]
        text = json.dumps(rounded(payload), indent=2)
        (folder / f"{result.name}.json").write_text(text + "\n", encoding="utf-8")
    return 0 if result.met else 1


def rounded(value: Any) -> Any:
    """Floats to four significant digits: more would be noise in every diff of the results."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    return [rounded(entry) for entry in value] if isinstance(value, list | tuple) else value
