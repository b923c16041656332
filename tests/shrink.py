"""Makes a failing case small: drops transactions, operations, facts, rules and literals while it still fails.

    python -m tests.shrink SEED [STRATEGY SHIP PARTITIONS INTERLEAVING]       with None for a SHIP that there is not
"""

from __future__ import annotations

import sys
from collections.abc import Callable
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


def _without(case: Case, part: str, fails: Callable[[Case], bool]) -> Case:
    """Drop from one of the tuples of a case all that can go, in chunks of halving size."""
    size = max(1, len(getattr(case, part)) // 2)
    while True:
        at = 0
        while at < len(getattr(case, part)):
            items = getattr(case, part)
            candidate = replace(case, **{part: items[:at] + items[at + size :]})
            if fails(candidate):
                case = candidate
            else:
                at += size
        if size == 1:
            return case
        size //= 2


def _operations(case: Case, fails: Callable[[Case], bool]) -> Case:
    """Drop single operations of transactions."""
    for i in range(len(case.history)):
        at = 0
        while at < len(case.history[i]):
            operations, history = case.history[i], case.history
            less = operations[:at] + operations[at + 1 :]
            candidate = replace(case, history=(*history[:i], less, *history[i + 1 :]))
            if fails(candidate):
                case = candidate
            else:
                at += 1
    return case


def _literals(case: Case, fails: Callable[[Case], bool]) -> Case:
    """Drop single literals of rules, and qualifiers of declarations."""
    for i in range(len(case.rules)):
        at = 0
        while at < len(case.rules[i].body) and len(case.rules[i].body) > 1:
            rule, rules = case.rules[i], case.rules
            less = RuleText(rule.head, rule.body[:at] + rule.body[at + 1 :], rule.bound)
            candidate = replace(case, rules=(*rules[:i], less, *rules[i + 1 :]))
            if fails(candidate):
                case = candidate
            else:
                at += 1
    for i, line in enumerate(case.lines):
        plain = line.partition(")")[0] + ")"
        candidate = replace(case, lines=(*case.lines[:i], plain, *case.lines[i + 1 :]))
        if line.startswith(".decl") and plain != line and fails(candidate):
            case = candidate
    return case


def shrink(case: Case, fails: Callable[[Case], bool]) -> Case:
    """A case from which no single part can be dropped without losing the failure."""
    before = None
    while case != before:
        before = case
        for part in ("history", "rules", "lines", "facts"):
            case = _without(case, part, fails)
        case = _literals(_operations(case, fails), fails)
    return case


def main(arguments: list[str]) -> None:
    case = generate(int(arguments[0]))
    if len(arguments) > 1:
        strategy, ship, partitions, interleaving = (None if a == "None" else a for a in [*arguments[1:], "None"][:4])
        chosen = [Configuration(strategy, ship, int(partitions), interleaving and int(interleaving))]
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

        short = replace(case, history=case.history[: (found.upto or 0) + 1])
        print(failure(shrink(short if fails(short) else case, fails), configuration))
        return
    print("passes")


if __name__ == "__main__":
    main(sys.argv[1:])
