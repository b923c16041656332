"""Random streams of time points: of the clock, of events, of facts, and of others."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.cases import RuleText
from tests.stream_bodies import Body, renamed

if TYPE_CHECKING:
    from tests.stream_programs import Draw


def tick_conditions(rng: random.Random, t: str = "t") -> list[str]:
    """What a view may ask of a tick of the clock."""
    period, other = rng.randint(2, 5), rng.randint(2, 4)
    first = [f"{t} % {period} = {rng.randrange(period)}"]
    if rng.random() < 0.35:
        first = rng.choice([
            [f"({t} + {other}) % {period} = {rng.randrange(period)}"], [f"{t} % {period} < {other}"],
            [f"{t} % {period} != {rng.randrange(period)}"], [f"{t} % {period} + {t} % {other} = 2"],
            [f"{t} / {period} % 2 = {rng.randrange(2)}"], [f"{t} ^ 2 % {period} = 1"], [f"{t} = {other} * {period}"],
            [f"({t} - {other}) % {period} = 0"], [f"{t} * {t} < 50"], [f"abs({t} - 9) > {other}"],
        ])  # fmt: skip
    if rng.random() < 0.35:
        first.append(rng.choice([
            f"{t} > 3", f"{t} < 9", f"{t} != 6", f"{t} >= 2", f"{t} - 2 >= {other}", f"{other} + {t} <= 14",
            f"{t} % {other} = 1", f"9 != {t}", f"{t} * 3 < 40",
        ]))  # fmt: skip
    return first


def draw_points(draw: Draw) -> None:
    """Add a stream of time points to a program, and perhaps a view of the last of them."""
    rng, name = draw.rng, f"y{next(draw.serial)}"
    roll = rng.random()
    bodies = None
    if roll < 0.28:
        bodies = _periodic(rng)
    elif roll < 0.56:
        bodies = _events(draw)
    elif roll < 0.64:
        bodies = _states(draw)
    elif roll < 0.7:
        bodies = _facts(draw)
    elif len(draw.points) > 1:
        bodies = _made_of(draw, *rng.sample(draw.points, 2))
    bodies = bodies or _events(draw) or _periodic(rng)
    draw.rules.extend(RuleText(f"{name}(t)", tuple(body)) for body in bodies)
    if rng.random() < 0.04:
        draw.rules.append(RuleText(f"{name}({rng.randint(2, 12)})"))
    draw.syncs.append(name)
    draw.points.append(name)
    if rng.random() < 0.35:
        slide = f"z{next(draw.serial)}"
        points = [f"{name}(t)"] if rng.random() < 0.7 else ["clock(t)", *tick_conditions(rng)]
        if rng.random() < 0.2:
            points.append(rng.choice(["t != 6", "t % 2 = 0", "t < 12"]))
        body = (f"t = max u : {{ {', '.join(renamed(p, 't', 'u') for p in points)} }}",)
        whole = rng.random() < 0.2
        draw.rules.append(RuleText(f"{slide}(t)", body) if whole else RuleText(f"{slide}(max<t>)", tuple(points)))
        draw.slides.append(slide)


def _periodic(rng: random.Random) -> list[list[str]]:
    if rng.random() < 0.12:  # as much later
        return [["clock(u)", *tick_conditions(rng, "u"), f"t = u + {rng.randint(1, 3)}"]]
    return [["clock(t)", *tick_conditions(rng)]]


def _events(draw: Draw) -> list[list[str]] | None:
    """The times of tuples, or some later ones, which are known ahead."""
    rng, body = draw.rng, Body(draw)
    stamped = [r for r in draw.low if not r.bag]
    if not stamped:
        return None
    time = body.atom(rng.choice(stamped), time=True, sync=rng.random() < 0.25)
    if body.of("xv") and rng.random() < 0.6:
        body.filter()
    if rng.random() < 0.15:
        body.negation()
    if rng.random() < 0.12:
        body.atom(rng.choice(draw.low))
    if rng.random() < 0.1:
        body.aggregate()
    if rng.random() < 0.25:
        return [[*body.literals, f"t = {time} + {draw.number(1, 4)}"]]
    return [[renamed(literal, str(time), "t") for literal in body.literals]]


def _states(draw: Draw) -> list[list[str]]:
    """The times at which something is so."""
    rng = draw.rng
    relation = rng.choice(draw.low)
    arguments = ["_"] * len(relation.kinds)
    negated = rng.choice(["", "!"])
    if relation.kinds.endswith("v") and not negated:
        arguments[-1] = str(rng.randint(1, 4))
    clock = "now" if draw.whole and rng.random() < 0.5 else "clock"
    more = tick_conditions(rng) if rng.random() < 0.2 else []
    return [[f"{clock}(t)", f"{negated}{relation.name}({', '.join(arguments)}){draw.at(relation, None)}", *more]]


def _facts(draw: Draw) -> list[list[str]] | None:
    timed = [r for r in draw.low if "t" in r.kinds]
    if not timed:
        return None
    relation = draw.rng.choice(timed)
    arguments = ["t" if i == relation.kinds.index("t") else "_" for i in range(len(relation.kinds))]
    return [[f"{relation.name}({', '.join(arguments)}){draw.at(relation, draw.rng.random() < 0.2)}"]]


def _made_of(draw: Draw, one: str, other: str) -> list[list[str]]:
    rng = draw.rng
    union, both = [[f"{one}(t)"], [f"{other}(t)"]], [[f"{one}(t)", f"{other}(t)"]]
    return rng.choice([
        union, union, both, [[f"{one}(t)", f"!{other}(t)"]], [[f"{one}(t)", f"!{other}(t)"]],
        [[f"{one}(t)", f"t % {rng.randint(2, 3)} = 0"]], [[f"{one}(t)", "t > 4"]],
        [[f"{one}(t)"], ["clock(t)", *tick_conditions(rng)]], [["clock(t)", f"!{one}(t)"]],
        [["clock(t)", *tick_conditions(rng), f"!{one}(t)", f"!{other}(t)"]], [[f"{one}(u)", "t = u + 1"]],
        [[f"{one}(t)", *tick_conditions(rng)], [f"{other}(t)", *tick_conditions(rng)]],
    ])  # fmt: skip
