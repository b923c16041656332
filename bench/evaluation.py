"""Write `docs/evaluation.md` from `bench/results/*.json`: our figures beside the paper's claims, point by point.

No figure and no verdict on the page is typed by hand. What has not been measured is said to be so.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.claim_reading import DEMAND, SECONDS, SHIPPED, annotation, cost, last, times
from bench.claims import CLAIMS, Claim, Verdict, judge
from bench.figures import Entry
from bench.harness import RESULTS
from bench.harness import show as show_value
from livelog.simulation.text import duration, size

__all__ = ["PAGE", "page"]

PAGE = Path(__file__).parents[1] / "docs" / "evaluation.md"

INTRODUCTION = """\
# The absorption paper's evaluation, on this engine

The paper that Livelog's core comes from (`recursive_views_absorption_provenance`, section 7) compares its method with
DRed and with relative provenance on networks and on sensors. This page repeats that evaluation, figure by figure, and
sets what we measured beside what the paper says: where both agree, and where they do not, and why. The last part
compares Livelog with other tools.

`make bench` measures everything anew and writes this page: `python -m bench figure_07` does it for one figure,
`python -m bench.report` writes the page from the results that are there. Figures and verdicts are computed from
`bench/results/*.json`.

## How it was measured

- The strategies share plans, operators and transport; `docs/design.md` says what each does. Each runs in a process of
  its own, over the same stream of changes, and after every transaction the changes of every view are asserted equal.
- Networks are the transit-stub networks of `topologies`, seeded; `dense` has four links a node, `sparse` two. A link
  is one `link` tuple, one direction of an edge.
- There are 12 partitions unless a figure says otherwise, as in the paper. They live in one process. What crosses from
  one to another is encoded and decoded, so bytes shipped are those of a network; they are totals, or divided by the
  number of partitions.
- State and provenance are the sizes of all tuples and annotations that operators keep, in the form in which they
  would be shipped.
- Seconds are processor time, of all partitions together. The paper's are those of a clock, with twelve machines at
  work.
- `demand` is ours: the paper has `eager` and `lazy`.
- Verdicts are computed. The reason beside one that differs is our reading of it, and was not measured by itself.
- A run that passes its limit of time is stopped. In the tables it stands with what it had reached; in the pictures
  with an arrow. Whoever was stopped is not tried on more of the same.
"""

NOT_REPRODUCED = """\
## What was not reproduced

- **A cluster.** The paper runs on 12 to 24 machines. Here the partitions take turns in one process, so nothing waits
  for a network and nothing runs at the same time. How fast twelve machines would converge, this cannot say; what they
  would have to send and to keep, it can. In Figure 13 more partitions do not make anything faster, since seconds are
  the work of all.
- **Batches by the clock.** The paper's `eager` sends what it has once a second. Ours sends when a batch has been
  worked off.
- **The paper's own program.** It is written in Java with JavaBDD. Seconds cannot be compared with its seconds, only
  ratios.
- **Averages over ten runs.** Networks and streams are drawn from one seed. Bytes and state are the same in every run.
  In Figures 7 to 10 what takes less than a second is repeated and the median taken; other times are of one run.
- **The number of sensors**, which the paper does not tell: ours are 100.
- **One winner of each group.** The paper's aggregate selection keeps one of several best tuples. Ours keeps all of
  them, as the rules say; latencies are moved by less than 1%, so that few tie.
"""

NOT_CHEAPEST = """\
## Where demand is not the cheapest

Demand keeps one derivation of a tuple. When that is lost it has to search for another, and where several partitions
could have one, to ask them. Who keeps all derivations has the next one at hand: relative provenance as edges, lazy and
eager absorption as diagrams, which is cheap as long as there are few, as in a sparse network. Deletions that cost
another strategy less, by time or by bytes:
"""

SECTIONS: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("Figures 7 and 8: `reachable`, inserting and deleting links", "figure_07", ("7", "8"), ("figure_07", "figure_08")),
    ("Figures 9 and 10: regions of sensors", "figure_09", ("9", "10"), ("figure_09", "figure_10")),
    ("Figures 11 and 12: growing networks", "figure_11", ("11", "12"), ("figure_11", "figure_12")),
    ("Figure 13: more partitions", "figure_13", ("13",), ("figure_13",)),
    ("Figure 14: aggregate selection", "figure_14", ("14",), ("figure_14",)),
)
"""Heading, result, numbers of its figures, pictures."""

REASONS = {
    "networkx": "It computes the whole answer anew, which in a small network takes less than keeping track of changes.",
    "rustworkx": "It computes the whole answer anew, in compiled code. The engine's loops are Python, and look for "
    "another derivation of all that fell.",
    "rustworkx, no rows": "Its answer stays in the form of the library, a matrix or a mapping: no row of it is made.",
    "duckdb": "It computes the whole answer anew, in compiled code that works on columns.",
    "pathway": "It is compiled code that keeps the view fresh, as we do.",
}


def markdown(rows: Sequence[Mapping[str, str]]) -> str:
    """Rows of text as a Markdown table.

    >>> print(markdown([{"who": "a | b", "s": "1"}]))
    | who | s |
    |---|---|
    | a \\| b | 1 |
    """
    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    text = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join([text[0], "|" + "---|" * len(lines[0]), *text[1:]])


def metrics(entry: Entry) -> dict[str, str]:
    """A row of a figure as the page shows it: its coordinates, then the four metrics with their units."""
    shown = {"x": "at", "phase": "", "density": "", "selection": ""}
    hidden = ("shipped MB", "provenance B/tuple", "state MB/partition", "seconds", "finished", "stopped by", "scaled")
    cells = {
        shown.get(name) or name: show_value(value)
        for name, value in entry.items()
        if name not in hidden and name != "shipped MB/partition"
    }
    carried, state = entry["provenance B/tuple"], entry["state MB/partition"]
    more = "" if entry["finished"] else "> "
    return cells | {
        "provenance a tuple": "-" if carried is None else annotation(carried),
        "shipped": more + size(entry["shipped MB"] * 1e6),
        "a partition": more + size(entry["shipped MB/partition"] * 1e6),
        "state a partition": "-" if state is None else more + size(state * 1e6),
        "time": more + duration(entry["seconds"]),
        "": _remark(entry),
    }


def _remark(entry: Entry) -> str:
    """What has to be known about a row: that it was stopped, or that a part was done and multiplied."""
    if not entry["finished"]:
        return f"limit of {entry['stopped by']}"
    scale = entry.get("scaled", 1.0)
    return "" if scale == 1 else f"extrapolated {scale:.3g}x"


def verdicts(results: Mapping[str, Sequence[Entry]], figures: Iterable[str]) -> str:
    """The claims about some figures, each with what we measured."""
    rows = []
    for claim in CLAIMS:
        if claim.figure in figures:
            verdict = judge(claim, results)
            rows.append({
                "figure": claim.figure,
                "the paper": claim.paper,
                "here": "not measured" if verdict is None else verdict.measured,
                "": "" if verdict is None else _opinion(claim, verdict),
            })
    return markdown(rows)


def _opinion(claim: Claim, verdict: Verdict) -> str:
    said = ["agree"] if verdict.agrees else ["**differ**", claim.differs.removesuffix(".")]
    return ". ".join([*said, claim.note.removesuffix(".")] if claim.note else said) + ("." if len(said) > 1 else "")


def bars(result: Mapping[str, Any]) -> str:
    """What we ask of ourselves."""
    return markdown([
        {
            "asked of ourselves": bar["name"],
            "measured": f"{bar['figure']:.2f}{bar['unit']}",
            "at most": f"{bar['limit']:.3g}{bar['unit']}",
            "": "met" if bar["met"] else "**missed**",
        }
        for bar in result["bars"]
    ])


def section(heading: str, result: Mapping[str, Any] | None, body: Sequence[str], pictures: Iterable[str]) -> str:
    """A part of the page about one result."""
    parts = [f"## {heading}"]
    if result is None:
        return "\n\n".join([*parts, "Not measured yet.", *body])
    base = os.path.relpath(RESULTS, PAGE.parent)
    notes = "; ".join(f"{name}: {show_value(value)}" for name, value in result["notes"].items())
    parts += [f"![{heading}: {picture}]({base}/{picture}.png)" for picture in pictures]
    parts += [notes[:1].upper() + notes[1:] + "."] if notes else []
    parts += [bars(result)] if result["bars"] else []
    return "\n\n".join([*parts, *body])


def folded(summary: str, text: str) -> str:
    """Something long that a reader can open."""
    return f"<details>\n<summary>{summary}</summary>\n\n{text}\n\n</details>"


def peers(result: Mapping[str, Any] | None) -> str:
    """The part about other tools."""
    heading = "Other tools"
    about = (
        "The same networks for all, the same links deleted one at a time and inserted again one at a time, each until "
        "the whole all-pairs answer is right again; answers are asserted equal. Here seconds are those of a clock, as "
        "some tools use several threads. `bench/peers.py` says how each was used. Where our own time goes is told by "
        "`hot_spots` in [bench/README.md](../bench/README.md)."
    )
    if result is None:
        return section(heading, None, [about], [])
    rows = result["rows"]
    table = markdown([{name: show_value(value) for name, value in row.items()} for row in rows])
    return section(heading, result, [about, table, "\n".join(faster(rows))], ["peers"])


def faster(rows: Sequence[Entry]) -> list[str]:
    """A line for every peer that beats us somewhere, with the figures and the reason.

    >>> mine = {"view": "reachable", "nodes": 100, "who": "livelog", "deletion ms": 2.0, "re-insertion ms": 1.0}
    >>> print(faster([mine, mine | {"who": "duckdb", "deletion ms": 1.0}])[1].partition(". ")[0])
    - **duckdb** is faster: reachable, 100 nodes, deletion 1.00 ms against our 2.00
    >>> faster([mine, mine | {"who": "networkx"}])
    ['No other tool is faster than Livelog on any of these.']
    """
    ours = {(row["view"], row["nodes"]): row for row in rows if row["who"] == "livelog"}
    found: dict[str, list[str]] = {}
    for row in rows:
        mine = ours[row["view"], row["nodes"]]
        for column in ("deletion ms", "re-insertion ms"):
            if row[column] < mine[column]:
                what = f"{row['view']}, {row['nodes']} nodes, {column.removesuffix(' ms')}"
                found.setdefault(row["who"], []).append(f"{what} {row[column]:.2f} ms against our {mine[column]:.2f}")
    if not found:
        return ["No other tool is faster than Livelog on any of these."]
    lines = [f"- **{who}** is faster: {'; '.join(at)}. {REASONS.get(who, '')}".rstrip() for who, at in found.items()]
    return ["Where another tool is faster:\n", *lines]


def summary(results: Mapping[str, Sequence[Entry]]) -> str:
    """How many of the claims agree."""
    judged = [verdict for claim in CLAIMS if (verdict := judge(claim, results)) is not None]
    agree = sum(verdict.agrees for verdict in judged)
    text = f"Of {len(judged)} claims of the paper that were checked, {agree} agree with what we measured and "
    text += f"{len(judged) - agree} differ. One is checked twice, with the paper's lazy shipping and with our demand."
    missing = len(CLAIMS) - len(judged)
    return text + (f" {missing} could not be checked, since their figures have not been measured." if missing else "")


def beaten(results: Mapping[str, Sequence[Entry]]) -> str:
    """Where another strategy deletes for less than demand does."""
    lines = []
    for name, figure in (("figure_07", "Figure 8"), ("figure_09", "Figure 10"), ("figure_11", "Figure 12")):
        rows = results.get(name, [])
        for density in dict.fromkeys(entry.get("density") for entry in rows):
            mine = [entry for entry in rows if entry.get("density") == density and entry["phase"] == "delete"]
            if not mine:
                continue
            at = last(mine, "delete")
            if density:  # the largest network on which somebody else was left
                at["x"] = max((e["x"] for e in mine if e["strategy"] != DEMAND and e["finished"]), default=at["x"])
            where = f"{figure}, {density}, {at['x']:,} links" if density else f"{figure}, {at['x']} deletions"
            for other in dict.fromkeys(entry["strategy"] for entry in mine):
                pairs = {c: (cost(mine, c, other, **at), cost(mine, c, DEMAND, **at)) for c in (SECONDS, SHIPPED)}
                if any(theirs < ours for theirs, ours in pairs.values()):
                    share = {c: times(*pair) for c, pair in pairs.items()}
                    lines.append(f"- {where}: {other} takes {share[SECONDS]} the time, {share[SHIPPED]} the bytes.")
    return "\n".join(lines) or "Of the deletions above, none."


def page(folder: Path = RESULTS) -> str:
    """The page, from the results in a folder."""
    found: dict[str, Any] = {}
    for name in (*(result for _, result, _, _ in SECTIONS), "peers"):
        if (file := folder / f"{name}.json").exists():
            found[name] = json.loads(file.read_text(encoding="utf-8"))
    results = {name: result["rows"] for name, result in found.items()}
    parts = [INTRODUCTION, "## In short", summary(results)]
    for heading, name, figures, pictures in SECTIONS:
        body = [verdicts(results, figures)]
        if name in found:
            body.append(folded("All figures", markdown([metrics(entry) for entry in results[name]])))
        parts.append(section(heading, found.get(name), body, pictures))
    parts += [NOT_CHEAPEST, beaten(results), NOT_REPRODUCED, peers(found.get("peers"))]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
