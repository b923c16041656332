"""Random cases whose views come and go: a case's program in groups of views, some of which are defined later."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from datalog.dependencies import components
from datalog.growth import readers
from datalog.walking import atoms
from tests.cases import Case, program_of

WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Group:
    """Views that are defined together: the text that defines them, and the views that this reads."""

    names: tuple[str, ...]
    text: str
    reads: frozenset[str]


class Pieces:
    """The program of a case in a part that is there from the beginning, `text`, and groups of views that come and go.

    Views that are recursive through each other are in one group, and so are those that may be pruned with all who read
    them: alone they might have no end. What has facts in the text stays.
    """

    def __init__(self, case: Case) -> None:
        self.program = program_of(case.text)
        self.lines = list(case.lines)
        self.rules = [(_head(rule.head), rule.text()) for rule in case.rules]
        derived = self.program.derived
        fixed = {rule.head.relation for rule in self.program.facts} & derived
        fixed |= {name for name, _ in self.rules if name not in derived}
        fixed |= {d.relation for d in self.program.directives if d.kind not in ("output",)}
        parts = self._components(case)
        below: dict[str, set[str]] = {}
        for part in parts:
            reads = {r for name in part for r in self._reads(name)} - part
            for name in part:
                below[name] = reads | part
        grown = True
        while grown:  # what they read stays, too
            more = {r for name in fixed & derived for r in below[name]} & derived
            grown = not more <= fixed
            fixed |= more
        self.groups = []
        for part in parts:
            if not part & fixed:
                reads = frozenset(r for name in part for r in self._reads(name) if r in derived) - part
                self.groups.append(Group(tuple(sorted(part)), self._text(part), reads))
        later = {name for group in self.groups for name in group.names}
        self.text = self._text(set(self.program.relations) - later, rest=True)

    def _components(self, case: Case) -> list[set[str]]:
        """The views that must be defined together, in an order in which they can be."""
        derived = self.program.derived
        edges = {name: [r for r in self._reads(name) if r in derived] for name in sorted(derived)}
        for name in case.pruned:
            for reader in sorted(readers(self.program, name)) if name in derived else ():
                edges[name].append(reader)
        number = components(edges)
        found: dict[int, set[str]] = {}
        for name, n in number.items():
            found.setdefault(n, set()).add(name)
        return [found[n] for n in sorted(found)]

    def _reads(self, name: str) -> list[str]:
        """What the rules of a relation read, and at the points of what."""
        waiting = [a.relation for rule in self.program.rules if rule.head.relation == name for a in atoms(rule)[1:]]
        found: dict[str, None] = {}
        while waiting:
            read = self.program.reads.get(waiting[-1])
            found[waiting.pop()] = None
            if read is not None:
                waiting += [read.relation, *filter(None, [read.sync])]
        return list(found)

    def _text(self, names: set[str], rest: bool = False) -> str:
        """The statements about some relations, and with the `rest` those about none."""
        parts = []
        for line in self.lines:
            words = WORD.findall(line)
            about = words[1] if words and words[0] in ("decl", "output", "printsize", "input", "limitsize") else None
            if about in names if about is not None else rest:
                parts.append(line)
        parts += [text for head, text in self.rules if head in names]
        if rest:
            parts += self._known(names, parts)
        return "\n".join(parts) + "\n"

    def _known(self, names: set[str], parts: list[str]) -> Iterator[str]:
        """What tells of base relations that only later rules mention."""
        text = "\n".join(parts)
        for name in sorted(self.program.base):
            if not re.search(rf"\b{name}\(", text):
                columns = ", ".join(f"x{i}" for i in range(self.program.relations[name].arity))
                yield f"known_{name}({columns}) :- {name}({columns})."

    def choice(self, rng: random.Random, there: list[Group]) -> tuple[Group | None, Group | None]:
        """A group to define, or one to drop, of which the others need nothing; or none."""
        views = {name for group in there for name in group.names}
        fixed = self.program.derived - {name for group in self.groups for name in group.names}
        new = [g for g in self.groups if g not in there and g.reads <= views | fixed]
        old = [g for g in there if not any(other.reads & set(g.names) for other in there)]
        if new and (not old or rng.random() < 0.65):
            return rng.choice(new), None
        return None, rng.choice(old) if old else None


def _head(head: str) -> str:
    found = WORD.match(head)
    assert found is not None
    return found[0]
