"""Does the cost of a deletion follow what is affected, and not the size of the view?

Each case deletes links from two networks. The view over the large one is ten times the view over the small one; the
deletions affect the same number of tuples (those whose derivation used the deleted link, found again or not).

- `apart`: one network of 100 nodes, and ten of them side by side with no link between; the same links of the first.
- `joined`: the same, but a hub has a link into each, so that all is one connected network. Tuples of the hub are
  affected as well, as many in both.
- `matched`: one network of 100 nodes and one of 325, every node reaching every other. Links are deleted from each in
  pairs that affect the same number of tuples at that moment, as the hand-written loop counts them.

Bar: a deletion takes at most 1.5x, in each case.
"""

from __future__ import annotations

import random
import statistics
from typing import Any, NamedTuple

import topologies
from bench.hand_loop import HandLoop, Link
from bench.harness import Bar, Result, Stopwatch, finish, progress, settle, typical
from bench.programs import REACHABLE, delete, engine, insert_all

SEED = 1
COPIES = 10
REPETITIONS = 5
BAR = 1.5


class Side(NamedTuple):
    """The links of one network and those that will be deleted."""

    links: list[Link]
    victims: list[Link]


def copy(links: list[Link], number: int) -> list[Link]:
    """The same network with nodes of its own."""
    return [(number * 1000 + a, number * 1000 + b) for a, b in links]


def apart() -> tuple[Side, Side]:
    one = topologies.pairs(topologies.dense(100, links=394, seed=SEED))
    victims = random.Random(SEED).sample(one, len(one) // 5)
    return Side(one, victims), Side([link for number in range(COPIES) for link in copy(one, number)], victims)


def joined() -> tuple[Side, Side]:
    small, large = apart()
    hub = -1
    return (
        Side([*small.links, (hub, 0)], small.victims),
        Side([*large.links, *((hub, number * 1000) for number in range(COPIES))], large.victims),
    )


def matched(pairs: int = 30, candidates: int = 25) -> tuple[Side, Side]:
    rng = random.Random(SEED)
    sides = (
        Side(topologies.pairs(topologies.dense(100, links=394, seed=SEED)), []),
        Side(topologies.pairs(topologies.dense(325, links=1284, seed=SEED)), []),
    )
    loops = HandLoop(), HandLoop()
    for side, loop in zip(sides, loops, strict=True):
        loop.load(side.links)
    for _ in range(pairs):
        small, large = (
            [(loop.affected(link), link) for link in rng.sample(sorted(loop.variable), candidates)] for loop in loops
        )
        # the nearest pair among those that are worth timing
        chosen = min(
            ((a, b) for a in small for b in large if min(a[0], b[0]) >= 20),
            key=lambda pair: abs(pair[0][0] - pair[1][0]) / pair[0][0],
        )
        for side, loop, (_, link) in zip(sides, loops, chosen, strict=True):
            side.victims.append(link)
            loop.delete(link)
    return sides


def check(side: Side) -> tuple[int, int]:
    """Assert that engine and loop agree on the view and on every change; tuples of the view, tuples affected."""
    loop, affected = HandLoop(), 0
    loop.load(side.links)
    with engine(REACHABLE) as session:
        insert_all(session, side.links)
        size = len(loop.view)
        assert set(session["reachable"]) == loop.view.keys()
        for link in side.victims:
            affected += loop.affected(link)
            assert delete(session, "reachable", link).deleted == sorted(loop.delete(link))
        assert set(session["reachable"]) == loop.view.keys()
    return size, affected


def time_deletions(side: Side) -> list[float]:
    """Seconds of each deletion."""
    watch = Stopwatch()
    with settle(), engine(REACHABLE) as session:
        insert_all(session, side.links)
        for link in side.victims:
            with watch:
                delete(session, "reachable", link)
    return watch.laps


def run() -> Result:
    bars: list[Bar] = []
    rows: list[dict[str, Any]] = []
    for name, case in (("apart", apart), ("joined", joined), ("matched", matched)):
        sides = case()
        progress(f"{name}: asserting equal results")
        sizes = [check(side) for side in sides]
        assert sizes[1][0] >= COPIES * sizes[0][0], "the large view is not ten times the small one"
        assert abs(sizes[1][1] / sizes[0][1] - 1) < 0.03, "the deletions do not affect the same number of tuples"
        times: tuple[list[list[float]], list[list[float]]] = ([], [])
        for repetition in range(REPETITIONS):
            progress(f"{name}: run {repetition + 1} of {REPETITIONS}")
            for side, runs in zip(sides, times, strict=True):
                runs.append(time_deletions(side))
        small, large = (statistics.mean(typical(runs)) for runs in times)
        bars.append(Bar(f"mean deletion, {name}, large view / small view", large / small, BAR))
        rows += [
            {
                "case": name,
                "view tuples": size,
                "affected per deletion": affected / len(sides[0].victims),
                "deletion ms, mean": seconds * 1e3,
            }
            for (size, affected), seconds in zip(sizes, (small, large), strict=True)
        ]
    return Result("affected", "Does the cost of a deletion follow what is affected, not the view?", bars, rows)


def main() -> int:
    return finish(run)


if __name__ == "__main__":
    raise SystemExit(main())
