"""Does the region query over sensors show the same as reachability over links? (Figures 9 and 10)

`examples/05_regions.dl` over 100 sensors, one every 10 m of a field of 100 m x 100 m, with five regions; 12 partitions.
The seeds of the regions are triggered from the beginning.

- insert: half of the other sensors are triggered, half of those in one transaction, three quarters, then all;
- delete: from there they are released one at a time, in random order.

The paper does not say how many sensors it has. The limit is 30 s for each.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

import topologies
from bench.figures import EXAMPLES, LIMIT, PARTITIONS, SEED, SHORT, STRATEGIES, Prefix, prefixes
from bench.harness import Result

NAME = "figure_09"
PROGRAM = EXAMPLES / "05_regions.dl"
RELATIONS = {"sensor": 2, "mainSensorInRegion": 2, "isTriggered": 1}
TRIGGERED = "isTriggered"


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it: sensors, regions, the shares of the sensors to trigger and to release."""

    strategies: tuple[str, ...]
    sensors: int
    seeds: int
    triggered: tuple[float, ...]
    released: tuple[float, ...]
    limit: float
    repeat: int


FULL = Size(STRATEGIES, 100, 5, (0.5, 0.75, 1.0), (0.25, 0.5, 1.0), LIMIT, 5)
QUICK = Size(("absorption/demand", "dred"), 36, 2, (1.0,), (1.0,), 5.0, 1)


def streams(size: Size) -> tuple[dict[str, list[tuple[object, ...]]], list[topologies.Step], list[topologies.Step]]:
    """The facts with only the seeds triggered, the steps that trigger the others, and those that release them again."""
    graph = topologies.sensor_grid(size.sensors, seeds=size.seeds, seed=SEED)
    facts = topologies.facts(graph, RELATIONS)
    seeds = set(graph.graph["regions"].values())
    others = [sensor for sensor in facts[TRIGGERED] if sensor[0] not in seeds]
    facts[TRIGGERED] = [(sensor,) for sensor in sorted(seeds)]
    rng = random.Random(SEED)
    order = rng.sample(others, len(others))
    ends = [0, *(round(share * len(order)) for share in size.triggered)]
    inserts = [
        topologies.Step(0.0, tuple(("+", TRIGGERED, s) for s in order[a:b]), f"{b} of {len(order)} sensors triggered")
        for a, b in itertools.pairwise(ends)
    ]
    releases = [
        topologies.Step(0.0, (("-", TRIGGERED, sensor),), f"sensor {sensor[0]} is released")
        for sensor in rng.sample(order, len(order))
    ]
    return facts, inserts, releases


def run(quick: bool = False) -> Result:
    size = QUICK if quick else FULL
    facts, inserts, releases = streams(size)
    wanted = [Prefix(number, {"phase": "insert", "x": share}) for number, share in enumerate(size.triggered, 1)]
    limits = dict.fromkeys(size.strategies, size.limit)
    inserted, _, left = prefixes(PROGRAM, facts, inserts, wanted, limits, repeat=size.repeat)

    full = facts | {TRIGGERED: facts[TRIGGERED] + [row for step in inserts for _, _, row in step.operations]}
    counts = [max(1, round(share * len(releases))) for share in size.released]
    wanted = [Prefix(count, {"phase": "delete", "x": count}) for count in counts]
    limits = dict.fromkeys(left, size.limit)
    deleted, _, _ = prefixes(PROGRAM, full, releases, wanted, limits, repeat=size.repeat)
    return Result(
        NAME,
        "Does the region query over sensors show the same as reachability over links?",
        (),
        inserted + deleted,
        {
            "setting": f"{size.sensors} sensors, {size.seeds} regions, {PARTITIONS} partitions",
            "triggered and released": f"{len(releases)} sensors, besides the seeds",
            "runs": f"the median of {size.repeat} where a run takes less than {SHORT:g} s",
            "limit": f"{size.limit:g} s for each phase",
        },
    )


if __name__ == "__main__":
    from bench.__main__ import main

    raise SystemExit(main([NAME]))
