"""GroupBy: head aggregates, group by group, under insertions and deletions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from operators.cells import Cells, adding, cell_key, finding, sum_names, touching
from operators.errors import RuleFailure
from operators.exact import pack
from operators.expr import Expr
from operators.monoids import Linear, Monoid
from operators.source import Source, condition, key_of, tuple_text

__all__ = ["GroupBy", "Sums"]

Tuple = tuple[Any, ...]

Sums = tuple[tuple[tuple[int, int], ...], ...]
"""How the vector of a linear state is made of a contribution's: per entry, a sum of (coefficient, entry) pairs."""


class _Form(NamedTuple):
    """How heads are made of cells: so many columns of the group, the aggregates, the layout, the sums, and which."""

    group: int
    aggregates: tuple[Callable[[], Monoid], ...]
    layout: tuple[int, ...]
    sums: tuple[Sums | None, ...]
    width: int
    having: tuple[Expr, ...] = ()


class GroupBy(Collection[Tuple]):
    """The groups of one rule on one partition. As a collection, it is that of the heads that were told.

    A contribution is a tuple (group columns..., arguments...) with a vector of so many partial sums as `width` says
    (`operators.sums`), or with a plain weight where there is nothing to sum. `sums` says how linear aggregates read the
    vector; the others take one argument each, with the weight. `layout` puts the head together from (group columns...,
    results...).

    The state of a group is a cell (`operators.cells`). Where all aggregates are linear, those who know what to add may
    do so in `cells` themselves.

    >>> from operators.monoids import Count, Sum
    >>> g = GroupBy("", 1, (Count, Sum), (0, 1, 2))
    >>> g.update([(("a", None, 5), 1), (("a", None, 2), 1)]); g.flush()
    ([], [('a', 2, 7)])
    >>> g.update([(("a", None, 5), -1)]); g.flush()
    ([('a', 2, 7)], [('a', 1, 2)])

    The same with the sums made beforehand, as `Sum.lift` would lift them:

    >>> g = GroupBy("", 1, (Count, Sum), (0, 1, 2), ((((1, 0),),), (((1, 0),), ((1, 1),), (), (), ())), 2)
    >>> g.update([(("a",), [2, 7])]); g.update([(("a",), [-1, -5])]); g.flush()
    ([], [('a', 1, 2)])
    >>> list(g), ("a", 1, 2) in g, ("b", 1, 2) in g
    ([('a', 1, 2)], True, False)

    Only groups whose heads meet the conditions `having` have one. These are over the columns of the head, and cannot
    fail:

    >>> from operator import gt
    >>> from operators.expr import Apply, Col, Const
    >>> g = GroupBy("", 1, (Sum,), (0, 1), having=[Apply(">", gt, (Col(1), Const(6)), ">")])
    >>> g.update([(("a", 5), 1), (("b", 9), 1)]); g.flush(), g.stats()
    (([], [('b', 9)]), {'groups': 2})
    >>> g.update([(("a", 2), 1), (("b", -4), 1)]); g.flush()
    ([('b', 9)], [('a', 7)])
    """

    def __init__(
        self,
        text: str,
        group: int,
        aggregates: tuple[Callable[[], Monoid], ...],
        layout: tuple[int, ...],
        sums: Sequence[Sums | None] = (),
        width: int = 1,
        having: Sequence[Expr] = (),
    ) -> None:
        self.text = text
        sums = sums or [None] * len(aggregates)
        states = [make for make, entries in zip(aggregates, sums, strict=True) if entries is None]
        self.cells = Cells(group, width, len(states))
        self._states = len(states)
        self._told = 0
        self._form = _Form(group, tuple(aggregates), tuple(layout), tuple(sums), width, tuple(having))
        self.key = tuple(layout.index(k) for k in range(group))  # the columns of a head by which its cell is found
        self.group_of = key_of(self.key)
        self._update = _updating(group, states, width)
        self._flush = _flushing(self._form)
        self.since: list[tuple[list[Tuple], list[Tuple]]] | None = None

    def update(self, contributions: Iterable[tuple[Tuple, Any]]) -> None:
        """Let contributions in or take them out. O(1) each, O(log n) for min and max of large groups."""
        cells = self.cells
        self._update(contributions, cells.rows, cells.make, cells.touched.append)

    def flush(self) -> tuple[list[Tuple], list[Tuple]]:
        """The heads that are no longer true and those that are now, since the last call."""
        gone: list[Tuple] = []
        new: list[Tuple] = []
        touched, rows = self.cells.touched, self.cells.rows
        if self.since is not None:
            self.since.append((gone, new))
        try:
            self._flush(touched, rows, gone, new)
        except Exception as e:
            raise self._failure(touched, gone, new, e) from e
        touched.clear()
        self._told += len(new) - len(gone)
        return gone, new

    def _failure(
        self, touched: Iterable[Any], gone: list[Tuple], new: list[Tuple], error: Exception
    ) -> RuleFailure:
        """The error with the group that raises it. Those before it are as they should be."""
        for cell in touched:
            try:
                self._flush([cell], self.cells.rows, gone, new)
            except Exception as again:
                return RuleFailure(self.text, cell.row, again)
        return RuleFailure(self.text, None, error)

    # --- heads that are told only when they have moved far enough ---

    @property
    def results(self) -> frozenset[int]:
        """The columns of a head that are results, not columns of the group."""
        return frozenset(c for c, k in enumerate(self._form.layout) if k >= self._form.group)

    def approximate(self, columns: Sequence[int], threshold: float) -> None:
        """From now on a head stands while its numbers in these columns are off by no more than the threshold.

        The columns are among the `results`. `since` has what was told since it was last cleared, also by a `flush`
        that failed.

        >>> from operators.monoids import Sum
        >>> g = GroupBy("", 1, (Sum,), (0, 1)); g.approximate([1], 2)
        >>> g.update([(("a", 5), 1), (("b", 1), 1)]); g.flush()
        ([], [('a', 5), ('b', 1)])
        >>> g.update([(("a", 2), 1), (("b", 3), 1)]); g.flush(), g.exact("a")
        (([('b', 1)], [('b', 4)]), ('a', 7))
        """
        assert not self._form.having, "a head that stands may be one that does not pass"
        self.since = []
        self._flush = _flushing(self._form, columns, threshold)
        self._heading = _heading(self._form)

    def exact(self, g: Any) -> Tuple | None:
        """The head that an approximated group should have, whatever is told; None if there is no such group.

        The group is named as `group_of` does.
        """
        cell = self.cells.rows.get(g)
        return self._heading(cell) if cell is not None and cell.s0 else None

    def tell(self, head: Tuple) -> None:
        """Let this be the head that a group has told."""
        self.cells.rows[self.group_of(head)].head = head

    # --- looking in ---

    def __iter__(self) -> Iterator[Tuple]:
        return iter([cell.head for cell in self.cells.rows.values() if cell.head is not None])

    def __len__(self) -> int:
        return self._told

    def __contains__(self, head: Any) -> bool:
        cell = self.cells.rows.get(self.group_of(head))
        return cell is not None and cell.head == head

    def kept(self) -> Iterator[Any]:
        """The groups and their states, as plain values."""
        sums = sum_names(self.cells.width)
        for cell in self.cells.rows.values():
            yield cell.row
            yield from [pack(getattr(cell, name)) for name in sums]
            for i in range(self._states):
                yield from getattr(cell, f"m{i}").kept()

    def stats(self) -> dict[str, int]:
        # (where groups have conditions, nobody keeps the cell of an empty one)
        return {"groups": len(self.cells.rows) if self._form.having else self._told}

    def check(self) -> None:
        """Assert that no empty group is kept and nothing is unpublished."""
        cells = self.cells.rows.values()
        assert not self.cells.touched and all(cell.calm for cell in cells), "a group has unpublished changes"
        assert all(cell.s0 > 0 or (cell.s0 == 0 < cell.uses) for cell in cells), "an empty or negative group is kept"
        passes = self._passing()
        assert all((cell.head is not None) == passes(cell) for cell in cells), "a head is missing, or should be"
        assert self._told == sum(cell.head is not None for cell in cells), "the heads are miscounted"

    def _passing(self) -> Callable[[Any], bool]:
        """A function of a cell: whether it should have a head."""
        holds, heading = condition(self._form.having, len(self._form.layout)), _heading(self._form)
        return lambda cell: cell.s0 > 0 and (holds is None or holds(heading(cell), ()))


def _updating(group: int, states: Sequence[Callable[[], Monoid]], width: int) -> Callable[..., None]:
    """The loop of `update`, written out: `(contributions, rows, make, touch)`."""
    source = Source()
    amounts = ["p"] if width == 1 else [f"p{i}" for i in range(width)]
    source.line(0, "def update(contributions, rows, make, touch):")
    source.line(1, "find = rows.get")
    source.line(1, "for row, p in contributions:")
    if width == 1:
        source.line(2, "if not p: continue")  # a batch that gave and took the same
    else:
        source.line(2, f"{', '.join(amounts)} = p")
    made = [f"{source.name(make, 'f')}()" for make in states]
    finding(source, 2, [f"row[{i}]" for i in range(group)], "" if states else "row", made)
    touching(source, 2)
    adding(source, 2, amounts)
    for i in range(len(states)):
        # rows that come and go may leave sums and no weight
        guard = "" if width == 1 else f"if {amounts[0]}: "
        source.line(2, f"{guard}cell.m{i}.add(row[{group + i}], {amounts[0]})")
    return source.compile("update")  # type: ignore[no-any-return]


def _flushing(form: _Form, near: Sequence[int] = (), threshold: float = 0) -> Callable[..., None]:
    """The loop of `flush`, written out: `(touched, rows, gone, new)`. See `approximate` for the columns `near`.

    What is told is noted before it stands, so that it is known after an interruption at any point.
    """
    source = Source()
    source.line(0, "def flush(touched, rows, gone, new):")
    source.line(1, "lose, win = gone.append, new.append")
    source.line(1, "for cell in touched:")
    source.line(2, "cell.calm = True")
    source.line(2, "old = cell.head")
    source.line(2, "s0 = cell.s0")
    source.line(2, "if s0:")
    head = _head(source, 3, form)
    if form.having:
        _leaving(source, 3, form)
    if near:
        low, high = source.name(-threshold, "low"), source.name(threshold, "high")
        close = [f"{low} <= r{form.layout[c] - form.group} - old[{c}] <= {high}" for c in near]
        same = [(c, k - form.group) for c, k in enumerate(form.layout) if k >= form.group and c not in near]
        close += [f"r{i} == old[{c}]" for c, i in same]
        source.line(3, f"if old is not None and {' and '.join(close)}: continue")
    changed = [f"r{k - form.group} != old[{c}]" for c, k in enumerate(form.layout) if k >= form.group]
    source.line(3, "if old is None:")
    source.line(4, "g = cell.row")
    source.line(4, f"head = {head}")
    source.line(3, f"elif {' or '.join(changed) or 'False'}:")
    source.line(4, "lose(old)")
    # the group is told by the head that stands: it is at hand, and the row of the cell may be far away
    source.line(4, f"head = {tuple_text(_told(form))}")
    source.line(3, "else: continue")
    source.line(3, "win(head)")
    source.line(3, "cell.head = head")
    source.line(2, "else:")
    source.line(3, "if old is not None:")
    source.line(4, "lose(old)")
    source.line(4, "cell.head = None")
    source.line(3, f"if not cell.uses: rows.pop({cell_key(form.group, 'cell.row')}, None)")
    return source.compile("flush")  # type: ignore[no-any-return]


def _leaving(source: Source, depth: int, form: _Form) -> None:
    """The lines that are done with a `cell` whose results do not pass. Mostly it has not passed before."""

    def column(c: int) -> str:
        k = form.layout[c]
        return f"cell.row[{k}]" if k < form.group else f"r{k - form.group}"

    passes = " and ".join(source.expression(w, column) for w in form.having)
    source.line(depth, f"if not ({passes}):")
    source.line(depth + 1, "if old is not None:")
    source.line(depth + 2, "lose(old)")
    source.line(depth + 2, "cell.head = None")
    source.line(depth + 1, "continue")


def _told(form: _Form) -> list[str]:
    """The columns of a new head whose group is that of the head `old`."""
    return [f"old[{c}]" if k < form.group else f"r{k - form.group}" for c, k in enumerate(form.layout)]


def _heading(form: _Form) -> Callable[[Any], Tuple]:
    """A function of a cell: its head."""
    source = Source()
    source.line(0, "def heading(cell):")
    source.line(1, "s0 = cell.s0")
    head = _head(source, 1, form)
    source.line(1, "g = cell.row")
    source.line(1, f"return {head}")
    return source.compile("heading")  # type: ignore[no-any-return]


def _head(source: Source, depth: int, form: _Form) -> str:
    """The lines that make the results of a `cell` whose `s0` is known, and the text of its head; `g` is its row."""
    for name in sum_names(form.width)[1:]:
        source.line(depth, f"{name} = cell.{name}")
    _results(source, depth, form.aggregates, form.sums)
    return tuple_text([f"g[{k}]" if k < form.group else f"r{k - form.group}" for k in form.layout])


def _results(
    source: Source, depth: int, aggregates: Sequence[Callable[[], Monoid]], sums: Sequence[Sums | None]
) -> None:
    """The lines that answer: `r0`, `r1` and so on, of the sums in `s0`, `s1`, ... and the states of `cell`."""
    states = 0
    for i, (make, entries) in enumerate(zip(aggregates, sums, strict=True)):
        if entries is None:
            source.line(depth, f"r{i} = cell.m{states}.result()")
            states += 1
            continue
        state = make()
        assert isinstance(state, Linear)
        spelt: list[str] = []
        for k, entry in enumerate(entries):
            text = " + ".join(f"s{j}" if c == 1 else f"{c} * s{j}" for c, j in entry) or "0"
            if len(entry) > 1 or "*" in text:
                source.line(depth, f"e{k} = {text}")
                text = f"e{k}"
            spelt.append(text)
        source.line(depth, f"r{i} = {state.spelt(source, spelt)}")
