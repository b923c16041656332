"""Makes a failing case small: drops transactions, operations, facts, rules and literals while it still fails.

    python -m tests.shrink SEED [STRATEGY SHIP PARTITIONS INTERLEAVING]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.cases import Case, RuleText
from tests.generate import generate
from tests.harness import Configuration, Mismatch, configurations, run


def failure(case: Case, configuration: Configuration) -> Mismatch | None:
    """How a case fails, or None when it passes or is no case at all (its program is not valid any more)."""
    try:
        run(case, configuration)
    except Mismatch as mismatch:
        return mismatch
    except Exception:  # the checker or the oracle refuses the program: not what we look for
        return None
    return None


def smaller(case: Case) -> Iterator[Case]:
    """The cases that have one part less, big parts first."""
    history, facts, rules, lines = case.history, case.facts, case.rules, case.lines
    for size in (8, 4, 2, 1):
        for i in range(0, len(history), size):
            yield replace(case, history=history[:i] + history[i + size :])
    for i, rule in enumerate(rules):
        yield replace(case, rules=rules[:i] + rules[i + 1 :])
        for j in range(len(rule.body)):
            less = RuleText(rule.head, rule.body[:j] + rule.body[j + 1 :], rule.bound)
            if less.body:
                yield replace(case, rules=(*rules[:i], less, *rules[i + 1 :]))
    for i in range(len(lines)):
        yield replace(case, lines=lines[:i] + lines[i + 1 :])
        if " partition" in lines[i]:
            yield replace(case, lines=(*lines[:i], lines[i].split(" partition")[0], *lines[i + 1 :]))
    for size in (8, 4, 2, 1):
        for i in range(0, len(facts), size):
            yield replace(case, facts=facts[:i] + facts[i + size :])
    for i, operations in enumerate(history):
        for j in range(len(operations)):
            yield replace(case, history=(*history[:i], operations[:j] + operations[j + 1 :], *history[i + 1 :]))


def shrink(case: Case, fails: Callable[[Case], bool]) -> Case:
    """A case from which no single part can be dropped without losing the failure."""
    changed = True
    while changed:
        changed = False
        for candidate in smaller(case):
            if fails(candidate):
                case, changed = candidate, True
                break
    return case


def main(arguments: list[str]) -> None:
    case = generate(int(arguments[0]))
    if len(arguments) > 1:
        chosen = [Configuration(arguments[1], arguments[2], int(arguments[3]),
                                int(arguments[4]) if len(arguments) > 4 and arguments[4] != "None" else None)]
    else:
        chosen = configurations(case.seed)
    for configuration in chosen:
        found = failure(case, configuration)
        if found is None:
            continue
        simple = Configuration(configuration.strategy, configuration.ship, 1)
        again = failure(case, simple)
        if again is not None and again.kind == found.kind:
            configuration = simple

        def fails(candidate: Case, kind: str = found.kind, how: Configuration = configuration) -> bool:
            mismatch = failure(candidate, how)
            return mismatch is not None and mismatch.kind == kind

        print(failure(shrink(case, fails), configuration))
        return
    print("passes")


if __name__ == "__main__":
    main(sys.argv[1:])
