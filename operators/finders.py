"""The inner loops backwards, generated: from lost heads to derivations that are still alive.

A finder starts from what a head fixes. It searches one side by the columns that are known then, the other by what both
know, and checks what is left:

    for h in heads:
        for t1 in find1(columns that h fixes) or ():
            for t2 in find2(columns that h and t1 fix) or ():
                ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from operators.expr import Col
from operators.kernels import Shape, Sides, shared
from operators.source import Source, key_text, tuple_text

__all__ = ["Finder", "finder"]

Single = Callable[[str, tuple[int, ...]], bool]


@dataclass(frozen=True, slots=True)
class Finder:
    """How lost heads are looked up again.

    `first` names the side that is searched first. Each side has the columns of the index that its search needs, or
    None: it is not there, or all of its columns are known and the table itself serves.
    `call(heads, find1, rows1, find2, rows2, known, sent, out, others)` appends derivations (head, pair of annotations)
    to `out`; which ones, it was made for:

    - `one` of each head, which enters `known` too: the next heads may rest on it. Heads without one go to `others`;
    - `every` one of each head's group;
    - the `best` of each head's group. If `sent` has nothing of the group, it enters `known` and `sent` too. If it is
      better than what is there, it goes to `others` instead.
    """

    first: str
    first_index: tuple[int, ...] | None
    second_index: tuple[int, ...] | None
    call: Callable[..., None]


def finder(
    shape: Shape, probe: str, given: tuple[int, ...], want: str = "one", single: Single = lambda side, columns: False
) -> Finder:
    """The backward kernel: `given` are the head columns that are known (all, or those of a group).

    `want` is a word of `Finder`. `single` tells where a search by some columns of a side gives just one tuple, which is
    in its table.
    """
    searches = _searches(shape.left, shape.left_key, shape.right, shape.right_key, shape.plain, probe, given)
    alone = tuple([single(side, columns) for side, columns in searches])

    def make(shape: Shape) -> tuple[Source, Any]:
        draft = _Draft(shape, Sides(shape, probe), given, want)
        draft.source.line(0, "def find(heads, find1, rows1, find2, rows2, known, sent, out, others):")
        draft.source.line(1, "for h in heads:")
        if want == "best":
            draft.begin_best()
        draft.search(searches, alone)
        draft.check()
        _END[want](draft)
        return draft.source, draft.indexes

    call, (first, second) = shared(("find", probe, given, want, alone), shape, "find", make)
    return Finder(searches[0][0], first, second, call)


@lru_cache(maxsize=1024)
def _searches(
    left: int,
    left_key: tuple[int, ...],
    right: int | None,
    right_key: tuple[int, ...],
    plain: tuple[int | None, ...],
    probe: str,
    given: tuple[int, ...],
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The sides in the order in which they are searched, each with its columns that are known by then."""
    sides = Sides(Shape(left, left_key, right, right_key, (), ()), probe)
    bound = {column: "" for i in given if (column := plain[i]) is not None}
    found = []
    for n in range(1 if right is None else 2):
        sides.spread(bound)
        found.append((sides.order[n], sides.bound_columns(n, bound)))
        bound.update({sides.offset(n) + c: "" for c in range(sides.arity(n))})
    return tuple(found)


@dataclass(slots=True)
class _Draft:
    """A finder in the making.

    `bound`: column of the row -> the text of its value. `loops` are the depths of the loops, `depth` that of the next
    line. `alive` are lines that ask whether what was found through an index is still there: an index may still hold
    tuples that were lost a moment ago; the table does not.
    """

    shape: Shape
    sides: Sides
    given: tuple[int, ...]
    want: str
    source: Source = field(default_factory=Source)
    depth: int = 2
    loops: list[int] = field(default_factory=list)
    bound: dict[int, str] = field(default_factory=dict)
    indexes: list[tuple[int, ...] | None] = field(default_factory=lambda: [None, None])
    annotations: list[str] = field(default_factory=list)
    alive: list[str] = field(default_factory=list)

    def line(self, text: str) -> None:
        self.source.line(self.depth, text)

    def column(self, i: int) -> str:
        # read the tuple itself: what the head fixes may equal it without being identical (1 and 1.0)
        sides = self.sides
        side = 0 if sides.offset(0) <= i < sides.offset(0) + sides.arity(0) else 1
        return f"t{side + 1}[{i - sides.offset(side)}]"

    @property
    def outputs(self) -> list[str]:
        return [self.source.expression(e, self.column) for e in self.shape.outputs]

    @property
    def pair(self) -> str:
        one, two = self.annotations[0], self.annotations[-1]
        return f"({one}, {two})" if self.sides.order[0] == "left" else f"({two}, {one})"

    def search(self, searches: Sequence[tuple[str, tuple[int, ...]]], alone: Sequence[bool]) -> None:
        """Write the loops over the tuples that agree with what is known."""
        for i in self.given:
            output = self.shape.outputs[i]
            if isinstance(output, Col):
                self.bound.setdefault(output.index, f"h[{i}]")
        for n, (_, index) in enumerate(searches):
            self.sides.spread(self.bound)
            offset, arity = self.sides.offset(n), self.sides.arity(n)
            texts = [self.bound[offset + c] for c in index]
            # the table tells that a tuple is there, and an index which one it is (1 may stand for 1.0)
            if len(index) == arity and self.want == "one":
                self._look(n + 1, f"t{n + 1} = {tuple_text(texts)}", f"a{n + 1}", f"rows{n + 1}.get(t{n + 1})")
            else:
                self.indexes[n] = index
                if alone[n]:
                    self._look(n + 1, None, f"t{n + 1}", f"find{n + 1}({key_text(texts)})")
                else:
                    self._loop(n + 1, f"find{n + 1}({key_text(texts)}) or ()")
            for c in range(arity):
                self.bound.setdefault(offset + c, f"t{n + 1}[{c}]")

    def _look(self, n: int, before: str | None, name: str, found: str) -> None:
        """At most one tuple can be found. On the first side this is a loop all the same, so that one can leave it."""
        if before is not None:
            self.line(before)
        self.line(f"{name} = {found}")
        if n == 1:
            self.line(f"for {name} in ({name},) if {name} is not None else ():")
            self.loops.append(self.depth)
            self.depth += 1
        else:
            self.line(f"if {name} is None: continue")
        self.annotations.append(f"a{n}" if name == f"a{n}" else f"rows{n}[t{n}]")

    def _loop(self, n: int, found: str) -> None:
        self.line(f"for t{n} in {found}:")
        self.loops.append(self.depth)
        self.depth += 1
        self.annotations.append(f"a{n}")
        self.alive += [f"a{n} = rows{n}.get(t{n})", f"if a{n} is None: continue"]
        if self.want != "best":  # which asks only about what would be the best
            self.ask_alive()

    def ask_alive(self) -> None:
        for text in self.alive:
            self.line(text)
        self.alive = []

    def check(self) -> None:
        """Write the conditions: those of the rule, and whatever the searches have not made sure of."""
        shape, expression = self.shape, self.source.expression
        for left, right in zip(shape.left_key, shape.right_key, strict=True):
            if self.bound[left] != self.bound[shape.left + right]:  # the head fixes both sides, and they may not agree
                self.line(f"if {self.column(left)} != {self.column(shape.left + right)}: continue")
        for w in shape.where:
            self.line(f"if not {expression(w, self.column)}: continue")
        for i in self.given:
            output = shape.outputs[i]
            if not isinstance(output, Col) or self.bound.get(output.index) != f"h[{i}]":
                self.line(f"if {expression(output, self.column)} != h[{i}]: continue")

    def end_one(self) -> None:
        self.line(f"known[h] = p = {self.pair}")
        self.line("out.append((h, p))")
        self.line("break")
        for loop in reversed(self.loops[1:]):  # out of all loops
            self.source.line(loop, "else: continue")
            self.source.line(loop, "break")
        self.source.line(self.loops[0], "else: others.append(h)")  # whoever gets to the end has found nothing

    def end_every(self) -> None:
        self.line(f"out.append(({tuple_text(self.outputs)}, {self.pair}))")

    def begin_best(self) -> None:
        ((column, _),) = self.shape.values
        self.line(f"k = {key_text([f'h[{c}]' for c in self.given])}")
        self.line("entry, old = None, sent.get(k)")
        self.line(f"best = None if old is None else old[{column}]")

    def end_best(self) -> None:
        ((column, kind),) = self.shape.values
        outputs = self.outputs
        self.line(f"v = {outputs[column]}")
        self.line(f"if best is not None and v {'>' if kind == 'min' else '<'}= best: continue")
        self.ask_alive()
        outputs[column] = "v"
        self.line(f"best, entry = v, ({tuple_text(outputs)}, {self.pair})")
        self.source.line(2, "if entry is None: continue")
        self.source.line(2, "if old is not None: others.append(entry); continue")
        self.source.line(2, "sent[k], known[entry[0]] = entry")
        self.source.line(2, "out.append(entry)")


_END: dict[str, Callable[[Any], None]] = {
    "one": _Draft.end_one, "every": _Draft.end_every, "best": _Draft.end_best,
}
