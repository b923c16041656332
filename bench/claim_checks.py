"""The checks behind `claims.py`: each looks at results, tells what was measured, and if the paper agrees."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from bench.claim_reading import (
    ANNOTATION,
    DEMAND,
    DRED,
    EACH,
    EAGER,
    LAZY,
    ORDER,
    PROVENANCE,
    RELATIVE,
    RELATIVE_EAGER,
    SECONDS,
    SHIPPED,
    STATE,
    Check,
    Results,
    Verdict,
    cheaper,
    cost,
    last,
    listing,
    reached,
    show,
    times,
)
from bench.figures import Entry, find

NOISE = 0.1
"""Times that are nearer to each other than this are no order."""


# --- figures 7 to 10 -------------------------------------------------------------------------------------------


def dred_is_cheapest(name: str) -> Check:
    def check(results: Results) -> Verdict:
        rows = results[name]
        end = last(rows, "insert")
        agrees = all(cheaper(rows, (SECONDS, SHIPPED, ANNOTATION), DRED, other, **end) for other in PROVENANCE)
        measured = listing(rows, (SECONDS, SHIPPED), (DRED, *PROVENANCE), **end)
        next_best = min(cost(rows, SECONDS, other, **end) for other in PROVENANCE)
        if abs(next_best / cost(rows, SECONDS, DRED, **end) - 1) < NOISE:
            measured += f"; by time a tie: within {NOISE:.0%}, which the next run may turn round"
        return Verdict(measured, agrees)

    return check


def relative_is_larger(phase: str) -> Check:
    def check(results: Results) -> Verdict:
        rows, columns = results["figure_07"], (ANNOTATION, SHIPPED, STATE)
        end = last(rows, phase)
        measured = listing(rows, columns, (RELATIVE, LAZY, DEMAND), **end)
        return Verdict(measured, cheaper(rows, columns, LAZY, RELATIVE, **end))

    return check


def relative_eager_fails(results: Results) -> Verdict:
    rows = results["figure_07"]
    shares = sorted({entry["x"] for entry in rows if entry["phase"] == "insert"})
    found = {share: cost(rows, SECONDS, RELATIVE_EAGER, phase="insert", x=share) for share in shares}
    measured = "; ".join(f"{share:.0%} of the links: {show(value, SECONDS)}" for share, value in found.items())
    return Verdict(measured, all(math.isinf(value) for share, value in found.items() if share >= 0.75))


def eager_is_costly(results: Results) -> Verdict:
    rows = results["figure_07"]
    end = last(rows, "insert")
    measured = listing(rows, (SECONDS, SHIPPED), (EAGER, LAZY), **end)
    return Verdict(measured, cheaper(rows, (SECONDS, SHIPPED), LAZY, EAGER, **end))


def eager_finishes(results: Results) -> Verdict:
    rows = results["figure_07"]
    end = last(rows, "insert")
    measured = listing(rows, (SECONDS, SHIPPED), (EAGER,), **end)
    return Verdict(measured, not math.isinf(cost(rows, SECONDS, EAGER, **end)))


def lazy_is_best(results: Results) -> Verdict:
    rows = results["figure_07"]
    end = last(rows, "insert")
    others = [name for name in PROVENANCE if name != LAZY]
    agrees = all(cheaper(rows, (SECONDS, SHIPPED), LAZY, other, **end) for other in others)
    return Verdict(listing(rows, (SECONDS, SHIPPED), (LAZY, *others), **end), agrees)


def dred_costs_an_order_more(strategy: str) -> Check:
    def check(results: Results) -> Verdict:
        rows = results["figure_07"]
        end = last(rows, "delete", (DRED, strategy))
        pairs = {c: (cost(rows, c, DRED, **end), cost(rows, c, strategy, **end)) for c in (SHIPPED, SECONDS)}
        agrees = all(dred >= ORDER * ours for dred, ours in pairs.values())
        return Verdict(
            f"{end['x']} deletions: DRed ships {times(*pairs[SHIPPED])} the bytes of {strategy} and takes "
            f"{times(*pairs[SECONDS])} the time",
            agrees,
        )

    return check


def relative_beats_dred(results: Results) -> Verdict:
    rows = results["figure_07"]
    end = last(rows, "delete")
    measured = listing(rows, (SECONDS, SHIPPED), (RELATIVE, DRED), **end)
    return Verdict(measured, cheaper(rows, (SECONDS, SHIPPED), RELATIVE, DRED, **end))


def absorption_beats_relative(results: Results) -> Verdict:
    rows = results["figure_07"]
    end = last(rows, "delete")
    measured = listing(rows, (SECONDS, SHIPPED), (RELATIVE, LAZY, DEMAND), **end)
    return Verdict(measured, cheaper(rows, (SECONDS, SHIPPED), LAZY, RELATIVE, **end))


def lazy_has_the_best_mix(results: Results) -> Verdict:
    rows = results["figure_07"]
    total = {
        name: sum(cost(rows, SECONDS, name, **last(rows, phase)) for phase in ("insert", "delete"))
        for name in (DRED, *PROVENANCE)
    }
    best = min(total, key=total.__getitem__)
    order = sorted(total, key=total.__getitem__)
    return Verdict("; ".join(f"{name} {show(total[name], SECONDS)}" for name in order), best == LAZY)


def regions_cost_less(results: Results) -> Verdict:
    regions, reachable = results["figure_09"], results["figure_07"]
    here, there = last(regions, "insert"), last(reachable, "insert")
    pairs = {
        (name, column): (cost(regions, column, name, **here), cost(reachable, column, name, **there))
        for name in (DRED, *PROVENANCE)
        for column in (SECONDS, SHIPPED, STATE, ANNOTATION)
    }
    known = {key: pair for key, pair in pairs.items() if not any(map(math.isinf, pair)) and any(pair)}
    more = [f"{name}, {column}" for (name, column), (one, other) in known.items() if one >= other]
    measured = f"lower in {len(known) - len(more)} of {len(known)} pairs of strategy and metric"
    return Verdict(measured + (f"; not in {'; '.join(more)}" if more else ""), not more)


def regions_mirror_reachable(results: Results) -> Verdict:
    rows = results["figure_09"]
    end = last(rows, "delete")
    agrees = all(cheaper(rows, (SECONDS, SHIPPED), name, DRED, **end) for name in (DEMAND, LAZY))
    return Verdict(listing(rows, (SECONDS, SHIPPED), (DRED, LAZY, DEMAND), **end), agrees)


# --- figures 11 to 13 ------------------------------------------------------------------------------------------


def dense_costs_more(phase: str) -> Check:
    def check(results: Results) -> Verdict:
        rows = results["figure_11"]
        at = sorted({entry["nodes"] for entry in rows if entry["phase"] == phase and entry["density"] == "sparse"})
        total = agreeing = 0
        said = []
        for name in (DEMAND, LAZY):
            for nodes in at:
                where = {"phase": phase, "nodes": nodes}
                dense, sparse = (cost(rows, SECONDS, name, density=d, **where) for d in ("dense", "sparse"))
                if not math.isinf(sparse) and not math.isinf(dense):
                    total += 1
                    agreeing += dense > sparse
                    if nodes == 100:
                        said.append(f"{name} at 100 nodes {show(dense, SECONDS)} dense, {show(sparse, SECONDS)} sparse")
        said.append(f"dense takes longer in {agreeing} of {total} pairs")
        return Verdict("; ".join(said), total > 0 and agreeing == total)

    return check


THE_POINT = {"phase": "load", "density": "dense", "x": 800}
"""The dense network with 800 links, of which the paper has figures."""


FIVE_MINUTES = 300.0


def eager_fails_at_800(results: Results) -> Verdict:
    entry = find(results["figure_11"], strategy=EAGER, **THE_POINT)
    assert entry is not None, "eager was not measured at 800 links dense"
    long = entry["seconds"] >= FIVE_MINUTES or entry["stopped by"] == "memory"
    return Verdict(f"eager {reached(entry)}", not entry["finished"] and long)


def lazy_takes_seconds_at_800(results: Results) -> Verdict:
    rows = results["figure_11"]
    return Verdict(listing(rows, (SECONDS,), (LAZY, DEMAND), **THE_POINT), cost(rows, SECONDS, LAZY, **THE_POINT) < 5)


def series(rows: Sequence[Entry], column: str, strategy: str, phase: str) -> dict[int, float]:
    """Partitions -> a metric, from several partitions on."""
    at = sorted({entry["x"] for entry in rows if entry["x"] > 1})
    return {x: cost(rows, column, strategy, phase=phase, x=x) for x in at}


def ends(rows: Sequence[Entry], column: str, strategies: Iterable[str], phase: str) -> str:
    """A metric at the fewest and at the most partitions, for a person."""
    parts = []
    for name in strategies:
        values = series(rows, column, name, phase)
        few, many = min(values), max(values)
        parts.append(f"{name} {show(values[few], column)} at {few}, {show(values[many], column)} at {many}")
    return "; ".join(parts)


def falls(values: Mapping[int, float]) -> bool:
    """Whether the last is less than the first."""
    return values[max(values)] < values[min(values)]


def annotations_level_off(results: Results) -> Verdict:
    rows = results["figure_13"]
    values = series(rows, ANNOTATION, LAZY, "delete")
    few, half, many = min(values), sorted(values)[len(values) // 2], max(values)
    slower = values[many] - values[half] < values[half] - values[few]
    return Verdict(ends(rows, ANNOTATION, (LAZY, DEMAND), "delete"), values[many] > values[few] and slower)


def state_falls(results: Results) -> Verdict:
    rows, names = results["figure_13"], (DEMAND, LAZY, DRED)
    agrees = all(falls(series(rows, STATE, name, "delete")) for name in names)
    return Verdict(ends(rows, STATE, names, "delete"), agrees)


def deletions_ship_more_each(results: Results) -> Verdict:
    rows, names = results["figure_13"], (LAZY, DEMAND, DRED)
    agrees = not falls(series(rows, EACH, LAZY, "delete")) and falls(series(rows, EACH, DRED, "delete"))
    return Verdict(ends(rows, EACH, names, "delete"), agrees)


def loads_ship_less_each(results: Results) -> Verdict:
    rows, names = results["figure_13"], (DEMAND, LAZY, DRED)
    agrees = all(falls(series(rows, EACH, name, "load")) for name in names)
    return Verdict(ends(rows, EACH, names, "load"), agrees)


def time_falls(results: Results) -> Verdict:
    rows, names = results["figure_13"], (DEMAND, LAZY, DRED)
    agrees = all(falls(series(rows, SECONDS, name, "delete")) for name in names)
    return Verdict(ends(rows, SECONDS, names, "delete"), agrees)


def dred_always_costs_more(results: Results) -> Verdict:
    rows = results["figure_13"]
    agreeing = total = 0
    said = []
    for name in (DEMAND, LAZY):
        least = math.inf
        for column in (EACH, SECONDS):
            dred, ours = (series(rows, column, who, "delete") for who in (DRED, name))
            total += len(ours)
            agreeing += sum(dred[x] > ours[x] for x in ours)
            least = min([least, *(dred[x] / ours[x] for x in ours if ours[x] and not math.isinf(ours[x]))])
        said.append(f"{name} passed its limit" if math.isinf(least) else f"at least {least:.2g}x {name}")
    return Verdict(f"DRed costs more in {agreeing} of {total} pairs; {'; '.join(said)}", agreeing == total)


# --- figure 14 -------------------------------------------------------------------------------------------------


def selection(rows: Sequence[Entry], name: str, density: str) -> Entry:
    entry = find(rows, phase="load", density=density, selection=name)
    assert entry is not None, f"{name} was not measured on the {density} network"
    return entry


def none_fails(results: Results) -> Verdict:
    none = {d: selection(results["figure_14"], "none", d) for d in ("dense", "sparse")}
    measured = "; ".join(f"{density}: {reached(entry)}" for density, entry in none.items())
    return Verdict(measured, not none["dense"]["finished"])


def selection_saves_an_order(results: Results) -> Verdict:
    rows = results["figure_14"]
    none, multi = (selection(rows, name, "dense") for name in ("none", "multi"))
    measured = f"dense: none {reached(none)}; multi {reached(multi)}"
    return Verdict(measured, multi["finished"] and none["seconds"] >= ORDER * multi["seconds"])


def dense_gains_most(results: Results) -> Verdict:
    none = {d: selection(results["figure_14"], "none", d) for d in ("dense", "sparse")}
    measured = "; ".join(f"{density}, none: {reached(entry)}" for density, entry in none.items())
    return Verdict(measured, not none["dense"]["finished"] and none["sparse"]["finished"])


def multi_costs_half(results: Results) -> Verdict:
    rows = results["figure_14"]
    said: list[str] = []
    shares: list[float] = []
    for density in ("dense", "sparse"):
        multi, single = (selection(rows, name, density) for name in ("multi", "single"))
        if not (multi["finished"] and single["finished"]):
            shares.append(math.inf)
            said.append(f"{density}: multi {reached(multi)}, single {reached(single)}")
            continue
        share = {column: multi[column] / single[column] for column in (SHIPPED, SECONDS)}
        shares += share.values()
        said.append(f"{density}: {share[SHIPPED]:.0%} of the bytes, {share[SECONDS]:.0%} of the time")
    return Verdict("; ".join(said), all(share <= 0.6 for share in shares))
