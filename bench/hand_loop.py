"""What would a Python programmer write by hand for this one program, and how fast is it?

    reachable(x, y) :- link(x, y).
    reachable(x, y) :- link(x, z), reachable(z, y).

The loop keeps what the engine's `demand` mode keeps: for every tuple of the view the annotation of the first derivation
found, a BDD over one variable per link, and beside it the variables of that derivation as the bits of an int. It loads
in breadth-first batches with one conjunction per tuple. To delete a link it looks at every tuple for the link's bit,
removes those that have it, and derives again what still can be derived. It has no index, no plan, no transactions and
no second program: the yardstick for an engine that has them. `python -m bench.reach` compares the two.

Measured and left out: asking the diagrams instead of the bits which annotations die (deletions more than ten times
slower, for a load that is about a fifth faster); annotation and bits as one pair in one dict (no difference).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dd.cudd import BDD, Function

__all__ = ["HandLoop", "Link"]

Link = tuple[Any, Any]


class HandLoop:
    """The view as two dicts: tuple -> annotation, tuple -> the variables of the annotation as the bits of an int."""

    def __init__(self) -> None:
        self.bdd = BDD()
        self.bdd.configure(reordering=False)  # dd switches it on; it costs far more than it gains here
        self.variable: dict[Link, tuple[Function, int]] = {}
        self.view: dict[Link, Function] = {}
        self.mask: dict[Link, int] = {}
        self.successors: dict[Any, list[Any]] = {}
        self.predecessors: dict[Any, list[tuple[Any, Function, int]]] = {}

    def load(self, links: Iterable[Link]) -> None:
        """Fill the empty view from links, breadth first."""
        links = list(links)
        names = [f"v{number}" for number in range(len(links))]
        self.bdd.declare(*names)
        recent = []
        for number, (link, name) in enumerate(zip(links, names, strict=True)):
            source, target = link
            variable, bit = self.bdd.var(name), 1 << number
            self.variable[link] = variable, bit
            self.successors.setdefault(source, []).append(target)
            self.predecessors.setdefault(target, []).append((source, variable, bit))
            self.view[link], self.mask[link] = variable, bit
            recent.append((link, variable, bit))
        self._derive(recent)

    def _derive(self, recent: list[tuple[Link, Function, int]]) -> None:
        """The recursive rule, from recent tuples to the end: a tuple that is known is not derived again."""
        view, masks, predecessors = self.view, self.mask, self.predecessors
        while recent:
            fresh = []
            for (z, y), annotation, mask in recent:
                for x, variable, bit in predecessors.get(z, ()):
                    t = (x, y)
                    if t not in view:
                        view[t] = conjunction = variable & annotation
                        masks[t] = used = bit | mask
                        fresh.append((t, conjunction, used))
            recent = fresh

    def delete(self, link: Link) -> list[Link]:
        """Delete a link; the tuples that left the view."""
        dead = self._kill(link)
        view, masks, variables, successors = self.view, self.mask, self.variable, self.successors
        found = []
        for t in dead:
            x, y = t
            if t in variables:
                view[t], masks[t] = variables[t]
                found.append((t, *variables[t]))
                continue
            for z in successors[x]:
                below = view.get((z, y))
                if below is not None:
                    variable, bit = variables[x, z]
                    annotation = view[t] = variable & below
                    mask = masks[t] = bit | masks[z, y]
                    found.append((t, annotation, mask))
                    break
        self._derive(found)
        return [t for t in dead if t not in view]

    def _kill(self, link: Link) -> list[Link]:
        """Take a link away, and every tuple whose annotation is false without it."""
        source, target = link
        variable, bit = self.variable.pop(link)
        self.successors[source].remove(target)
        self.predecessors[target].remove((source, variable, bit))
        view, masks = self.view, self.mask
        # an annotation is one derivation, a conjunction: it is false without any of its variables
        dead = [t for t, mask in masks.items() if mask & bit]
        for t in dead:
            del view[t], masks[t]
        return dead

    def affected(self, link: Link) -> int:
        """How many tuples would die with a link before other derivations of them are found."""
        bit = self.variable[link][1]
        return sum(1 for mask in self.mask.values() if mask & bit)


if __name__ == "__main__":
    from bench.reach import main

    raise SystemExit(main())
