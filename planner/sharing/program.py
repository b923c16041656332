"""A program in which rules read other views, where these have all that is needed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile

import msgspec

from datalog.ast import Program, Read, Rule
from planner.draft import reads
from planner.sharing.catalogue import Catalogue, Shared
from planner.sharing.common import Common, common_views
from planner.sharing.points import ALWAYS

__all__ = ["Sharing"]


@dataclass(frozen=True)
class Sharing:
    """A checked program, and what becomes of it when its views read one another.

    `program` has the relations and answers of the one that was given, and common views that nobody sees (their names
    begin with `planner.draft.COMMON`). `views` says what became of each view. `kept` are views that were dropped while
    others read them that do not say so in their text: they stay until these go.

    It never changes: `defined` and `dropped` lead to other ones. They hand on the catalogue, so that a definition costs
    what it brings, and a walk over the program's tables.

    >>> import datalog
    >>> from datalog.format import format_rule
    >>> def rules(sharing):
    ...     return [format_rule(rule) for rule in sharing.program.rules]
    >>> hot = "hot(r, v) :- temp(r, v) at every(2), v > 80."
    >>> first = Sharing.of(datalog.check(datalog.parse(hot)))
    >>> both = datalog.check(datalog.parse(hot + " hotter(r, v) :- temp(r, v) at every(4), v > 100."))
    >>> second = first.defined(both, ["hotter"]); rules(second)
    ['hot(r, v) :- temp(r, v) at every(2), v > 80.', 'hotter(r, v) :- hot(r, v) at every(4), v > 100.']
    >>> second.readers("hot"), rules(Sharing.of(both)) == rules(second), rules(first) == rules(second)
    (('hotter',), True, False)
    """

    program: Program
    views: Mapping[str, Shared]
    common: tuple[Common, ...]
    kept: frozenset[str]
    catalogue: Catalogue

    @classmethod
    def of(cls, program: Program) -> Sharing:
        """A program that nobody has changed. Without streams, times and points it stays as it is."""
        if not _is_concerned(program):
            return cls(program, {}, (), frozenset(), Catalogue())
        catalogue = Catalogue(program)
        views = catalogue.match_all()
        common = tuple(common_views(catalogue, views))
        views.update((shared.view, shared) for made in common for shared in made.readers)
        rules = [_rule(rule, views) for rule in program.rules]
        rules += [rule for made in common for rule in made.program.rules]
        return cls(_program(program, program, rules, views, common), views, common, frozenset(), catalogue)

    def defined(self, program: Program, names: Collection[str]) -> Sharing:
        """The same for a checked program that has more views, with these names, whose rules come last.

        What was there stays as it is.
        """
        if not self.views and not _is_concerned(program):
            return replace(self, program=program)
        before = self if self.views else self._started()
        catalogue = before._catalogue()
        new = list(takewhile(lambda rule: rule.head.relation in names, reversed(program.rules)))[::-1]
        added = catalogue.add(msgspec.structs.replace(program, rules=tuple(new)))
        views = {**before.views, **{name: catalogue.match(name, self.program.reads) for name in added}}
        shared = _grown(self.program, program, [_rule(rule, views) for rule in new], views, added)
        return replace(before, program=self._seen(shared, program, self.kept), views=views)

    def dropped(self, program: Program, names: Collection[str]) -> Sharing:
        """The same for a checked program that does not have these views any more. O(program)"""
        if not self.views:
            return replace(self, program=program)
        needed = _needed(self.program, program.derived)
        views = {name: shared for name, shared in self.views.items() if name in needed}
        kept = (self.kept | frozenset(names)) & needed
        common = tuple(made for made in self.common if made.name in needed)
        rules = [rule for rule in self.program.rules if rule.head.relation in needed or not rule.body]
        shared = _program(self.program, program, rules, views, common)
        return replace(self, program=self._seen(shared, program, kept), views=views, kept=kept, common=common)

    def readers(self, name: str) -> tuple[str, ...]:
        """The views that read another one without saying so in their text."""
        return tuple(shared.view for shared in self.views.values() if shared.reads == name)

    def lines(self) -> tuple[str, ...]:
        """What there is to say of all views."""
        told = [*(shared.lines() for shared in self.views.values()), *(made.lines() for made in self.common)]
        return tuple(line for lines in told for line in lines)

    def _started(self) -> Sharing:
        """The same with a catalogue, where there was no need of one: views that read one another change nothing."""
        catalogue = Catalogue(self.program)
        return replace(self, views={name: catalogue.unshared(name) for name in catalogue.orders}, catalogue=catalogue)

    def _catalogue(self) -> Catalogue:
        """The catalogue without views that are gone, or that were defined in vain."""
        known = {*self.views, *(made.name for made in self.common)}
        for name in [name for name in self.catalogue.orders if name not in known]:
            self.catalogue.remove(name)
        return self.catalogue

    @staticmethod
    def _seen(shared: Program, program: Program, kept: frozenset[str]) -> Program:
        """The program with the outputs of the one that was given, which does not have the views that are kept."""
        return msgspec.structs.replace(shared, shown=program.outputs) if kept else shared


def _is_concerned(program: Program) -> bool:
    return bool(program.reads or program.clocks) or any(relation.stream for relation in program.relations.values())


def _rule(rule: Rule, views: Mapping[str, Shared]) -> Rule:
    shared = views.get(rule.head.relation) if rule.body else None
    return rule if shared is None or shared.rule is None else shared.rule


def _program(
    former: Program, program: Program, rules: Iterable[Rule], views: Mapping[str, Shared], common: Iterable[Common]
) -> Program:
    """A program with other rules: with the relations that they read, and without reads that nothing reads.

    `former` has what is left of views that the program does not have.
    """
    rules = tuple(rules)
    known, relations = {**former.reads, **program.reads}, {**former.relations, **program.relations}
    clocks = {**former.clocks, **program.clocks}
    for made in common:
        known.update(made.program.reads)
        relations.update(made.program.relations)
        clocks.update(made.program.clocks)
    for shared in views.values():
        if shared.read is not None and shared.relation is not None:
            known[shared.read.name] = shared.read
            relations.setdefault(shared.relation.name, shared.relation)
        if shared.key and not relations[shared.view].key:
            relations[shared.view] = msgspec.structs.replace(relations[shared.view], key=shared.key)
    used = _used(rules, known)
    there = {*program.relations, *used, *(rule.head.relation for rule in rules)}
    left = {name: r for name, r in relations.items() if name in there and (name in used or name not in known)}
    for rule in rules:  # also those of views that are kept
        for name in reads(rule):
            left.setdefault(name, relations[name])
    return msgspec.structs.replace(program, rules=rules, relations=left, reads=used, clocks=clocks)


def _grown(
    former: Program, program: Program, rules: list[Rule], views: Mapping[str, Shared], names: Iterable[str]
) -> Program:
    """The former program with some more rules, and what they read. Looks at these rules alone."""
    relations = {**former.relations, **program.relations}
    for name in program.reads.keys() - former.reads.keys():
        del relations[name]
    known = {**program.reads, **former.reads}
    for name in names:
        shared = views[name]
        if shared.read is not None and shared.relation is not None:
            known[shared.read.name] = shared.read
            relations[shared.relation.name] = shared.relation
    relations.update((name, former.relations[name]) for name in former.reads)
    used = _used(rules, known)
    relations.update((name, program.relations[name]) for name in used if name not in relations)
    for shared in views.values():
        if shared.key and not relations[shared.view].key:
            relations[shared.view] = msgspec.structs.replace(relations[shared.view], key=shared.key)
    return msgspec.structs.replace(
        program,
        rules=(*former.rules, *rules),
        relations=relations,
        reads={**former.reads, **used},
        clocks={**former.clocks, **program.clocks},
    )


def _used(rules: Iterable[Rule], known: Mapping[str, Read]) -> dict[str, Read]:
    """The reads that rules read, each after what it reads."""
    used: dict[str, Read] = {}
    for rule in rules:
        for name in reads(rule):
            chain = []
            while name in known and name not in used:
                chain.append(known[name])
                name = known[name].relation
            used.update((read.name, read) for read in reversed(chain))
    return used


def _needed(program: Program, views: Iterable[str]) -> frozenset[str]:
    """These views, and all that they rest on."""
    rules: dict[str, list[Rule]] = {}
    for rule in program.rules:
        if rule.body:
            rules.setdefault(rule.head.relation, []).append(rule)
    needed: set[str] = set()
    waiting = list(views)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += [below for rule in rules.get(name, ()) for below in _below(rule, program)]
    return frozenset(needed)


def _below(rule: Rule, program: Program) -> Iterator[str]:
    """What a rule reads, and what tells it when."""
    for name in reads(rule):
        yield name
        while name in program.reads:
            read = program.reads[name]
            name = read.relation
            yield name
            if read.sync != ALWAYS:
                yield read.sync
