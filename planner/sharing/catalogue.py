"""Views by what they derive: which of them a rule can read in place of the relations that it names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from msgspec.structs import replace

from datalog import dependencies
from datalog.ast import Program, Read, Relation, Rule
from datalog.format import format_rule
from datalog.walking import change_atoms
from datalog.written import written_atom
from planner.draft import reads
from planner.sharing.derive import Derivation, derive
from planner.sharing.entail import Uncontained, entails
from planner.sharing.points import ALWAYS, Syncs
from planner.sharing.shelf import Shelf
from planner.sharing.skin import Skin
from planner.sharing.skinning import skin

__all__ = ["Catalogue", "Shared"]

TRIED = 16
"""Views that are held against a query one by one, beyond those that the index has found."""

TOLD = 3
"""Views of which is said why a query is not read from them."""


@dataclass(frozen=True)
class Shared:
    """What became of a view. `rule` is the one that reads another view, if there is one, and `read` how it does.

    `data` and `sync` are the skinned form in words, if it has one. `why` says why it may read what it reads, or why
    not. `key`: the columns that tell its tuples apart, where it had groups and `rule` has none.
    """

    view: str
    data: str = ""
    sync: str = ""
    reads: str = ""
    why: tuple[str, ...] = ()
    rule: Rule | None = None
    read: Read | None = None
    relation: Relation | None = None
    key: tuple[int, ...] = ()

    def lines(self) -> tuple[str, ...]:
        """In words: the skinned form, what it reads, and why it may or may not."""
        if not self.data:
            return (f"{self.view}: {', '.join(self.why)}",)
        lines = [self.data, f"  at {self.sync}"]
        if self.rule is None:
            lines += [f"  {reason}" for reason in self.why] or ["  nothing else has its data"]
        else:
            lines += [f"  reads {self.reads}: {', '.join(self.why)}", f"  {format_rule(self.rule)}"]
        return tuple(lines)


class Catalogue:
    """The views of a program that can be shared, on shelves by their atoms and joins (`planner.sharing.shelf`).

    `add` takes a checked program, or a part of one that is defined later: its rules, with the relations, reads and
    clocks that occur in them. It costs what it is given, whatever is there. `match` finds what a view can read.
    """

    def __init__(self, program: Program | None = None) -> None:
        self.syncs = Syncs(self._entails)
        self.skins: dict[str, Skin] = {}
        self.orders: dict[str, int] = {}
        self.depths: dict[str, int] = {}
        self.reasons: dict[str, str] = {}
        self._shelves: dict[tuple[str, ...], dict[Any, Shelf]] = {}
        self._rules: dict[int, tuple[Rule, Skin | None]] = {}
        self._count = 0
        self._plain: dict[str, bool] = {}
        self._points: set[str] = set()
        if program is not None:
            self.add(program)

    # --- views ---------------------------------------------------------------------------------------------------

    def add(self, program: Program) -> list[str]:
        """More views; returns their names, in order of text."""
        self.syncs.add(program)
        names = list(dict.fromkeys(rule.head.relation for rule in program.rules if rule.body))
        for read in program.reads.values():
            if read.sync != ALWAYS:
                self._note_points(read.sync)
        recursive = self._look_below(names)
        near = {directive.relation for directive in program.directives_of("approx")}
        for name in names:
            self.orders[name] = self._count = self._count + 1
            reason = self._unfit(name, recursive, near)
            found = self._skin(self.syncs.rules[name][0]) if not reason else None
            if found is None:
                self.reasons[name] = reason or self._problem(name)
            else:
                self._put(found)
        return names

    def remove(self, name: str) -> None:
        """A view is gone, which nothing reads."""
        found = self.skins.pop(name, None)
        if found is not None:
            self._shelves[found.atoms][found.joins].remove(found, self.orders[name])
            self._rules.pop(id(found.rule), None)
        self.reasons.pop(name, None)
        del self.depths[name], self.orders[name]
        self._plain.pop(name, None)
        self._points.discard(name)
        self.syncs.remove(name)

    def _put(self, found: Skin) -> None:
        self.skins[found.name] = found
        alike = self._shelves.setdefault(found.atoms, {})
        if found.joins not in alike:
            alike[found.joins] = Shelf(self.syncs)
        alike[found.joins].add(found, self.orders[found.name])

    def _look_below(self, names: Iterable[str]) -> set[str]:
        """Note how many views are below each view, one on the other; returns those that are recursive."""
        rules = self.syncs.rules
        edges = {name: sorted({below for rule in rules[name] for below in self._below(rule)}) for name in names}
        members: dict[int, list[str]] = {}
        for name, number in dependencies.components(edges).items():
            members.setdefault(number, []).append(name)
        recursive: set[str] = set()
        for number in sorted(members):
            group = members[number]
            inside = {below for name in group for below in edges.get(name, ())}
            if len(group) > 1 or group[0] in inside:
                recursive.update(group)
            depth = 1 + max((self.depths.get(below, 0) for below in inside.difference(group)), default=0)
            self.depths.update((name, depth) for name in group if name in edges)
        return recursive

    def _note_points(self, sync: str) -> None:
        """Note that a stream of points, and all views below it, read nothing but each other from now on.

        That holds for streams that rest on facts and the clock without recursion. They are below all other views then.
        """
        waiting = [sync] if self._is_plain(sync) else []
        while waiting:
            name = waiting.pop()
            if name not in self._points:
                self._points.add(name)
                waiting += self._inputs(name)

    def _is_plain(self, name: str) -> bool:
        """Whether nothing below a relation is recursive."""
        if name not in self._plain:
            self._plain[name] = False  # as long as it is looked at: if it is met again, it is recursive
            self._plain[name] = all([self._is_plain(below) for below in self._inputs(name)])
        return self._plain[name]

    def _inputs(self, name: str) -> set[str]:
        """What the rules of a relation read, and at which points."""
        if self.syncs.of_time(name):
            return set()
        rules = self.syncs.rules.get(name, ())
        return {found for rule in rules for read in reads(rule) for found in self._parts(read)}

    def _below(self, rule: Rule) -> Iterator[str]:
        """What a rule reads, also to know when. What only the clock changes is below nothing."""
        for name in reads(rule):
            relation, *syncs = self._parts(name)
            if not self.syncs.of_time(relation):
                yield relation
            yield from (sync for sync in syncs if not self.syncs.of_time(sync) and sync not in self._points)

    def _parts(self, name: str) -> list[str]:
        """What is read in the end by a relation of a rule, and at which points."""
        syncs = []
        while name in self.syncs.reads:
            read = self.syncs.reads[name]
            name = read.relation
            if read.sync != ALWAYS:
                syncs.append(read.sync)
        return [name, *syncs]

    def _unfit(self, name: str, recursive: set[str], near: set[str]) -> str:
        """Why a view has no skinned form, apart from what its rule says."""
        if self.syncs.of_time(name):
            return "it is made of the clock alone"
        if name in recursive:
            return "it is recursive"
        if len(self.syncs.rules[name]) > 1:
            return f"it has {len(self.syncs.rules[name])} rules"
        if name in self.syncs.filled:
            return "it has facts beside its rule"
        return "it is approximated" if name in near else ""

    def _skin(self, rule: Rule) -> Skin | None:
        known = self._rules.get(id(rule))
        if known is None:
            found = skin(rule, self.syncs)
            known = self._rules[id(rule)] = (rule, found if isinstance(found, Skin) else None)
        return known[1]

    def _problem(self, name: str) -> str:
        found = skin(self.syncs.rules[name][0], self.syncs)
        return found if isinstance(found, str) else ""

    def _entails(self, query: Rule, view: Rule) -> bool:
        """Whether a rule for points of time gives no other points than another one."""
        one, other = self._skin(query), self._skin(view)
        return one is not None and other is not None and one.sync == other.sync == ALWAYS and entails(one, other)

    # --- matching ------------------------------------------------------------------------------------------------

    def match(self, name: str, there: Collection[str] = ()) -> Shared:
        """What a view can read of the views before it, in place of what its rule reads.

        `there` are reads that are kept anyhow. If all of the view's are, no new one is made for it: it would cost more,
        and have nothing before its next point.
        """
        order = self.orders[name]
        query = self.skins.get(name)
        own = [read for read in reads(query.rule) if read in self.syncs.reads] if query is not None else []
        enough = bool(own) and all(read in there for read in own)
        return self._match(
            name, lambda view: self.orders[view] < order,
            lambda found: not enough or found.read is None or found.read.name in there,
        )  # fmt: skip

    def unshared(self, name: str) -> Shared:
        """A view as it is."""
        query = self.skins.get(name)
        if query is None:
            return Shared(name, why=(self.reasons[name],))
        return Shared(name, self._data(query), _sync_words(query.sync))

    def match_all(self) -> dict[str, Shared]:
        """The same for all views at once, whatever comes first in the text. No view comes to read itself."""
        roots: dict[str, str] = {}

        def root(name: str) -> str:
            while (above := roots.get(name, name)) != name:
                roots[name] = roots.get(above, above)
                name = above
            return name

        def match(name: str) -> Shared:
            return self._match(name, lambda view: root(view) != name, lambda shared: True)

        found = {}
        for name in self.orders:
            found[name] = shared = match(name)
            if shared.rule is not None:
                roots[name] = root(shared.reads)
        return found

    def _match(self, name: str, may_read: Callable[[str], bool], is_worth: Callable[[Shared], bool]) -> Shared:
        query = self.skins.get(name)
        if query is None:
            return Shared(name, why=(self.reasons[name],))
        near = [c.name for c in self._shelves[query.atoms][query.joins].candidates(query)]
        # the index has one order of the atoms, and views of the same joins
        twice = len(set(query.atoms)) < len(query.atoms)
        others = [*islice(self._others(query, True), TOLD), *islice(self._others(query, twice), TRIED)]
        for view in dict.fromkeys([*near, *others]):
            if self.depths[view] > self.depths[name] or not may_read(view):
                continue
            if name in self._points and view not in self._points:
                continue
            found = self.read_from(query, self.skins[view])
            if found is None or not is_worth(found):
                continue
            if self.orders[view] > self.orders[name] and self.read_from(self.skins[view], query) is not None:
                continue  # they are equal, and the later one reads the earlier
            return found
        return Shared(name, self._data(query), _sync_words(query.sync), why=self._told(query))

    def _others(self, query: Skin, alike: bool) -> Iterator[str]:
        """The views with the same atoms, first those with the same joins (`alike`)."""
        shelves = self._shelves[query.atoms]
        found = [shelves[query.joins]] if alike else []
        found += [shelf for joins, shelf in shelves.items() if joins != query.joins]
        return (name for shelf in found for name in shelf.names if name != query.name)

    def read_from(self, query: Skin, view: Skin) -> Shared | None:
        """How a query reads a view; None if it cannot."""
        try:
            return self._shared(query, view, self.derived(query, view))
        except Uncontained:
            return None

    def derived(self, query: Skin, view: Skin) -> Derivation:
        """How a query is computed from a view, as far as data and points of time go; or `Uncontained`."""
        syncs = self.syncs
        derivation = derive(query, view, syncs.relations[view.name], syncs.relations[query.name])
        if not syncs.same(query.sync, view.sync):
            if not syncs.within(query.sync, view.sync):
                raise Uncontained(f"{_sync_words(query.sync)} is not within {_sync_words(view.sync)}")
            if view.timed or view.clock is not None:
                raise Uncontained(f"{view.name} moves with the clock between the points of {query.sync}")
        return derivation

    def _shared(self, query: Skin, view: Skin, derivation: Derivation) -> Shared:
        same = self.syncs.same(query.sync, view.sync)
        why = list(derivation.why) or [f"{view.name} has all of it" if derivation.rest else "the same data"]
        read = relation = None
        atom = derivation.atom
        if not same:
            why.append(f"{query.sync} within {_sync_words(view.sync)}")
            read = Read(f"{view.name} at {query.sync}", view.name, "at", query.sync)
            atom = replace(atom, relation=read.name)
            columns = self.syncs.relations[view.name].columns
            relation = Relation(read.name, columns, declared=False, span=atom.span)
        elif query.sync != view.sync:
            why.append(f"{query.sync} is {view.sync}")
        rule = replace(query.rule, head=derivation.head, body=(atom, *derivation.rest))
        data, sync = self._data(query), _sync_words(query.sync)
        return Shared(query.name, data, sync, view.name, tuple(why), rule, read, relation, derivation.key)

    # --- words ---------------------------------------------------------------------------------------------------

    def _data(self, query: Skin) -> str:
        """The data of a view: its rule over relations as they are at every moment."""
        rule = change_atoms(query.rule, lambda atom: replace(atom, relation=self.syncs.taken_apart(atom.relation)[0]))
        return self.words(rule)

    def words(self, rule: Rule) -> str:
        """A rule as one would write it."""
        syncs = self.syncs
        streams = {name for read in reads(rule) if syncs.relations[name := syncs.taken_apart(read)[0]].stream}
        return format_rule(change_atoms(rule, lambda atom: written_atom(atom, syncs.reads, syncs.clocks, streams)))

    def _told(self, query: Skin) -> tuple[str, ...]:
        """Why a query is not read from the first views that have its atoms."""
        reasons = []
        near = sorted(islice(self._others(query, True), TRIED), key=lambda n: self.skins[n].groups != query.groups)
        for view in near[:TOLD]:
            try:
                self.derived(query, self.skins[view])
                reason = f"{view} reads it"
            except Uncontained as problem:
                reason = f"not from {view}: {problem}"
            reasons.append(reason)
        return tuple(reasons)


def _sync_words(sync: str) -> str:
    return sync or "every commit"
