"""Makes a failing case with times small: as `tests.shrink` does, and what is left is read at once and without times.

    python -m tests.stream_shrink SEED [STRATEGY SHIP PARTITIONS INTERLEAVING]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.cases import RuleText
from tests.harness import Configuration, Mismatch
from tests.shrink import shrink
from tests.stream_cases import StreamCase
from tests.stream_generate import generate
from tests.stream_harness import configurations, run

SIMPLE = Configuration("absorption", "lazy", 1)


def failure(case: StreamCase, configuration: Configuration) -> Mismatch | None:
    """How a case fails, or None when it passes or is no case at all (its program is not valid any more)."""
    try:
        run(case, configuration)
    except Mismatch as mismatch:
        return mismatch
    except Exception:  # the checker or the oracle refuses the program: not what we look for
        return None
    return None


def _plainer(literal: str) -> Iterator[str]:
    """A literal read without points, without a time, and with every constant and name where any would do."""
    yield re.sub(r" at (every\([^)]*\)|\w+)$", "", literal)
    yield re.sub(r"@\w+", "", literal)
    yield re.sub(r"@\w+", "@_", literal)
    for found in re.finditer(r"(?<=[(, ])(\w+)(?=[,)])", literal):
        yield f"{literal[: found.start()]}_{literal[found.end() :]}"


def _simplify(case: StreamCase, fails: Callable[[StreamCase], bool]) -> StreamCase:
    for i in range(len(case.rules)):
        for j in range(len(case.rules[i].body)):
            for literal in list(_plainer(case.rules[i].body[j])):
                rule, rules = case.rules[i], case.rules
                if literal != rule.body[j]:
                    less = RuleText(rule.head, (*rule.body[:j], literal, *rule.body[j + 1 :]))
                    candidate = replace(case, rules=(*rules[:i], less, *rules[i + 1 :]))
                    case = candidate if fails(candidate) else case
    return case


def smallest(case: StreamCase, configuration: Configuration, found: Mismatch) -> tuple[StreamCase, Configuration]:
    """A case from which no part can be dropped without losing the failure, and the plainest way to run it."""
    again = failure(case, SIMPLE)
    if again is not None and again.kind == found.kind:
        configuration = SIMPLE

    def fails(candidate: StreamCase) -> bool:
        mismatch = failure(candidate, configuration)
        return mismatch is not None and mismatch.kind == found.kind

    short = replace(case, history=case.history[: (found.upto or 0) + 1])
    case, before = short if fails(short) else case, None
    while case != before:
        before = case
        case = _simplify(shrink(case, fails), fails)  # type: ignore[arg-type]
    return case, configuration


def main(arguments: list[str]) -> None:
    case = generate(int(arguments[0]))
    chosen = configurations(case.seed)
    if len(arguments) > 1:
        strategy, ship, partitions, interleaving = (None if a == "None" else a for a in [*arguments[1:], "None"][:4])
        chosen = [Configuration(str(strategy), ship, int(partitions or 1), int(interleaving) if interleaving else None)]
    for configuration in chosen:
        found = failure(case, configuration)
        if found is not None:
            print(failure(*smallest(case, configuration, found)))
            return
    print("passes")


if __name__ == "__main__":
    main(sys.argv[1:])
