"""The inner loops, generated: one Python function per rule, side and purpose.

A rule's loop is a handful of bytecodes per derivation only if it is written out for that rule: columns
by position, conditions in place, no call per tuple. So the loops are generated from the `expr` trees of the
plan. No text of a program enters the generated source: columns are positions, and constants and
functions are passed in under names such as `k0`.

Every join kernel has the same shape. A *batch* of tuples arrives on one side; for each, the partners
with the same key are found through the other side's index; each pair that meets the conditions derives a head:

    for t, a in batch:
        for u in find(key of t) or ():
            head = ...

The purposes differ in what happens to the head:

- `first`: only heads that are not known yet matter; the annotation is the pair of the parents' annotations;
- `direct`: the same, and the head is entered into the table at once (one partition, no aggregate selection);
- `seen`: the same as `direct`, with a look into `operators.seen` (passed as `sent`) before the head is made;
- `routed`: the same on one of several partitions: what another one owns is lined up for it (`sent` is what `seen` has,
  and `operators.offers.Desk`);
- `select`: the same as `first` with aggregate selection in place: what is dominated by the best of its group
  (`sent` is then the selection's table of best values) is dropped where it is derived;
- `sole`: `select` for a relation of one winner a group (`operators.sole`): `sent` has the best tuples themselves, and
  only what is better goes on;
- `each`: every derivation counts (lazy and eager shipping);
- `edges`: every derivation counts, and what is wanted of it is which tuples it was made from: an *edge* is the
  rule's number and the values that, with the head, tell the parents (`parents` is the way back);
- `heads`: just the heads, to follow a death forward;
- `there`: just the heads that are known;
- `weighted`: counting: the head's weight changes by the product of the weights;
- `gained`, `lost`: the same where all tuples of the batch have the weight 1, or -1. Heads of that weight, which most
  are, are told to `sent`.

`operators.finders` has the loops backwards.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import force_setattr, replace

from operators.expr import Apply, Col, Expr, columns
from operators.source import (
    HIGHEST,
    LOWEST,
    Source,
    Template,
    condition,
    key_of,
    key_text,
    overflow,
    pattern,
    row_function,
    slotted,
    tuple_text,
)

__all__ = [
    "HIGHEST", "LOWEST", "Shape", "Sides", "condition", "forward", "key_of", "mapper", "overflow", "parents",
    "row_function", "shared",
]

class Shape(msgspec.Struct, frozen=True):
    """What the kernels need to know of a rule with one or two inputs. `right` is None for one input.

    `group` and `values` are the aggregate selection of the head, if it has one. `number` tells the rules of one head
    apart. `plain` has the column of the row that each column of the head is, if it is one.
    """

    left: int
    left_key: tuple[int, ...]
    right: int | None
    right_key: tuple[int, ...]
    where: tuple[Expr, ...]
    outputs: tuple[Expr, ...]
    group: tuple[int, ...] = ()
    values: tuple[tuple[int, str], ...] = ()
    number: int = 0
    plain: tuple[int | None, ...] = ()  # whatever is given

    def __post_init__(self) -> None:
        force_setattr(self, "plain", tuple([e.index if isinstance(e, Col) else None for e in self.outputs]))

    @property
    def pattern(self) -> tuple[tuple[Any, ...] | None, list[Any]]:
        """What it has in common with shapes that differ in constants and functions alone, and these (see `pattern`)."""
        values: list[Any] = []
        where, outputs = pattern(self.where, values), pattern(self.outputs, values)
        if where is None or outputs is None:
            return None, values
        return (
            self.left, self.left_key, self.right, self.right_key, where, outputs, self.group, self.values
        ), values  # fmt: skip

    def bindings(self) -> tuple[dict[int, str], tuple[int, ...]]:
        """How to spell each column of the row given a head `h` and an edge `e`, and the columns that an edge holds.

        >>> Shape(2, (1,), 2, (0,), (), (Col(0), Col(3))).bindings()    # h(x, y) :- l(x, z), r(z, y).
        ({0: 'h[0]', 3: 'h[1]', 1: 'e[1]', 2: 'e[1]'}, (1,))
        """
        bound: dict[int, str] = {}
        for i, output in enumerate(self.outputs):
            if isinstance(output, Col):
                bound.setdefault(output.index, f"h[{i}]")
        sides = Sides(self, "left")
        sides.spread(bound)
        free: list[int] = []
        for column in range(self.left + (self.right or 0)):
            if column not in bound:
                free.append(column)
                bound[column] = f"e[{len(free)}]"
                sides.spread(bound)
        return bound, tuple(free)

    def carried(self, side: str) -> tuple[int, ...] | None:
        """The head columns that a batch on `side` brings itself, if partners bring all others unchanged."""
        return None if self.right is None else _carried(self.plain, self.left)[side]

    def slots(
        self, left: str, right: str, product: str, column: Callable[[int], str], annotated: bool
    ) -> dict[str, str]:
        """What the placeholders of a kernel's last lines stand for."""
        worse = [f"h[{c}] {'>' if kind == 'min' else '<'} best[{i}]" for i, (c, kind) in enumerate(self.values)]
        no_better = [f"h[{c}] {'>' if kind == 'min' else '<'}= best[{c}]" for c, kind in self.values]
        return {
            "pair": f"({left}, {right})" if annotated else "0",
            "edge": tuple_text([str(self.number), *(column(c) for c in self.bindings()[1])]),
            "left": left,
            "right": right,
            "product": product,
            "group": key_text([f"h[{c}]" for c in self.group]),
            "dominated": " and ".join(worse),
            "no_better": " and ".join(no_better),
        }


@lru_cache(maxsize=1024)
def _carried(plain: tuple[int | None, ...], left: int) -> dict[str, tuple[int, ...] | None]:
    """What `Shape.carried` says of each side of a join whose left tuples have so many columns."""
    here: dict[str, list[int]] = {"left": [], "right": []}
    for i, column in enumerate(plain):
        if column is None:
            return {"left": None, "right": None}
        here["left" if column < left else "right"].append(i)
    return {side: tuple(mine) if 0 < len(mine) < len(plain) else None for side, mine in here.items()}


# what a kernel does with head `h`, by purpose; see `Shape.slots` for what stands in the braces
_BODIES = {
    "first": ["if h in known or h in sent: continue", "out.append((h, {pair}))"],
    "direct": ["if h in known: continue", "known[h] = p = {pair}", "out.append((h, p))"],
    "seen": ["known[h] = p = {pair}", "out.append((h, p))"],
    "routed": [
        "w = owners[{route}]",
        "if w != here: heads[w].append(h); pairs[w].append({pair}); continue",
        "known[h] = p = {pair}",
        "out.append((h, p))",
    ],
    "select": [
        "best = sent.get({group})",
        "if best is not None and {dominated}: continue",
        "if h in known: continue",
        "out.append((h, {pair}))",
    ],
    "sole": [
        "best = sent.get({group})",
        "if best is not None and {no_better}: continue",
        "out.append((h, {pair}))",
    ],
    "each": ["out.append((h, {left}, {right}))"],
    "edges": ["out.append((h, {edge}))"],
    "heads": ["out.append(h)"],
    "there": ["if h in known or h in sent: out.append(h)"],
    "weighted": ["out[h] = out.get(h, 0) + {product}"],
    "gained": ["if b == 1: sent(h)", "else: out[h] = out.get(h, 0) + b"],
    "lost": ["if b == 1: sent(h)", "else: out[h] = out.get(h, 0) - b"],
}


_ONCE = ["sent(h)"]  # for `gained` and `lost`, where nobody else has another weight


_BARE = ("heads", "there", "gained", "lost")  # purposes for batches of bare tuples


_COUNTED = ("weighted", "gained", "lost")  # purposes that add up weights


_SEEN = ("seen", "routed")  # purposes that look before they make a head


def forward(
    shape: Shape,
    side: str,
    purpose: str,
    annotated: bool = True,
    route: tuple[int, ...] = (),
    cells: bool = False,
) -> Callable[..., None]:
    """The kernel for a batch that arrives on `side` (`left` or `right`) of a join.

    Its parameters: `(batch, find, rows, known, sent, out)`; `find` is the `get` of the other side's index
    buckets and `rows` the other side's table. A batch holds pairs (tuple, annotation or weight), except for
    `heads`, `there`, `gained` and `lost`, where it holds tuples. Where nothing is `annotated`, a new head gets 0.
    `route` are the columns of the head that tell its owner, for `routed`. When counting, the other side may be `cells`
    of groups (`operators.shared`): `find` gives the cell with the one partner, unless `known` has the partner itself.

    >>> shape = Shape(2, (1,), 2, (0,), (), (Col(0), Col(3)))       # h(x, y) :- l(x, z), r(z, y).
    >>> kernel, out = forward(shape, "right", "heads"), []
    >>> kernel([("b", "c")], {"b": {("a", "b"): None}}.get, {}, {}, {}, out)
    >>> out
    [('a', 'c')]
    """
    number = shape.number if purpose == "edges" else 0  # only edges tell the number of their rule
    how = ("forward", side, purpose, annotated, route, cells, number)
    return shared(how, shape, "kernel", lambda s: (_forward(s, side, purpose, annotated, route, cells), None))[0]


_TEMPLATES: dict[Any, tuple[Template, Any]] = {}
"""The loops by what they are made from. Rules that differ in constants and functions alone have the same."""


def shared(
    how: tuple[Any, ...], shape: Shape, name: str, make: Callable[[Shape], tuple[Source, Any]]
) -> tuple[Callable[..., Any], Any]:
    """The function that `make` generates for a shape, and what else it tells. `how` says what is generated."""
    told, values = shape.pattern
    if told is None:
        source, more = make(shape)
        return source.compile(name), more
    known = _TEMPLATES.get((how, told))
    if known is None:
        where, first = slotted(shape.where)
        source, more = make(replace(shape, where=where, outputs=slotted(shape.outputs, first)[0]))
        while len(_TEMPLATES) >= 4096:
            del _TEMPLATES[next(iter(_TEMPLATES))]
        known = _TEMPLATES[how, told] = (Template(source, name), more)
    return known[0].filled(values), known[1]


def _forward(
    shape: Shape, side: str, purpose: str, annotated: bool, route: tuple[int, ...], cells: bool
) -> Source:
    assert shape.right is not None
    here_left = side == "left"
    first, count = (0, shape.left) if here_left else (shape.left, shape.right)
    own_key = shape.left_key if here_left else shape.right_key

    def mine(i: int) -> bool:
        return first <= i < first + count

    def column(i: int) -> str:
        if mine(i):
            return f"d{i - first}"
        return f"u[{i - shape.left if i >= shape.left else i}]"

    source = Source()
    used = {i - first for e in (*shape.where, *shape.outputs) for i in columns(e) if mine(i)} | set(own_key)
    if purpose == "edges":
        used |= {i - first for i in shape.bindings()[1] if mine(i)}
    # what may fail waits for the partner: without one there is nothing that fails
    early: list[Expr] = [
        w for w in shape.where if isinstance(w, Apply) and w.sure and all(mine(i) for i in columns(w))
    ]
    late = [w for w in shape.where if w not in early]
    source.line(0, "def kernel(batch, find, rows, known, sent, out):")
    if purpose == "routed":
        source.line(1, "sent, owners, here, heads, pairs = sent")
    if purpose in ("gained", "lost") and len(used) == count > 1:
        source.line(1, f"for {', '.join(f'd{c}' for c in range(count))} in batch:")
    else:
        source.line(1, "for t in batch:" if purpose in _BARE else "for t, a in batch:")
        for c in sorted(used):
            source.line(2, f"d{c} = t[{c}]")
    for w in early:
        source.line(2, f"if not {source.expression(w, column)}: continue")
    key = key_text([f"d{c}" for c in own_key])
    if cells:
        source.line(2, f"k = {key}")
        source.line(2, "if k in known: u = known[k]")
        source.line(2, "else:")
        source.line(3, "u = find(k)")
        source.line(3, "if u is not None: u = u.head")
        source.line(2, "if u is None: continue")
    else:
        source.line(2, f"bucket = find({key})")
        source.line(2, "if bucket is None: continue")
    if purpose in _SEEN:
        carried = shape.carried(side)
        assert carried is not None
        rest = [shape.outputs[i] for i in range(len(shape.outputs)) if i not in carried]
        key = key_text([source.expression(shape.outputs[i], column) for i in carried])
        source.line(2, f"seen = sent.get({key})")
        source.line(2, f"if seen is None: seen = sent[{key}] = set()")
    depth = 2
    if not cells:
        source.line(2, "for u, b in bucket.items():" if purpose in _COUNTED else "for u in bucket:")
        depth = 3
    for w in late:
        source.line(depth, f"if not {source.expression(w, column)}: continue")
    if purpose in _SEEN:
        source.line(3, f"k = {key_text([source.expression(e, column) for e in rest])}")
        source.line(3, "if k in seen: continue")
        source.line(3, "seen.add(k)")
    source.line(depth, f"h = {tuple_text([source.expression(e, column) for e in shape.outputs])}")
    left, right = ("a", "rows[u]") if here_left else ("rows[u]", "a")
    slots = shape.slots(left, right, "a" if cells else "a * b", column, annotated)
    slots["route"] = key_text([f"h[{c}]" for c in route])
    for text in _ONCE if cells and purpose in ("gained", "lost") else _BODIES[purpose]:
        source.line(depth, text.format(**slots))
    return source


def mapper(shape: Shape, purpose: str, annotated: bool = True) -> Callable[..., None]:
    """The kernel of a rule with one input: `(batch, known, sent, out)`.

    >>> swap, out = mapper(Shape(2, (), None, (), (), (Col(1), Col(0))), "weighted"), {}
    >>> swap([((1, 2), 3)], {}, {}, out)
    >>> out
    {(2, 1): 3}
    """
    number = shape.number if purpose == "edges" else 0
    how = ("mapper", purpose, annotated, number)
    return shared(how, shape, "kernel", lambda s: (_mapper(s, purpose, annotated), None))[0]


def _mapper(shape: Shape, purpose: str, annotated: bool) -> Source:
    source = Source()

    def column(i: int) -> str:
        return f"t[{i}]"

    source.line(0, "def kernel(batch, known, sent, out):")
    source.line(1, "for t in batch:" if purpose in _BARE else "for t, a in batch:")
    for w in shape.where:
        source.line(2, f"if not {source.expression(w, column)}: continue")
    source.line(2, f"h = {tuple_text([source.expression(e, column) for e in shape.outputs])}")
    # one parent stands twice, so that every pair has the same form
    slots = shape.slots("a", "a", "a", column, annotated)
    for text in _ONCE if purpose in ("gained", "lost") else _BODIES[purpose]:
        source.line(2, text.format(**slots))
    return source


def parents(shape: Shape) -> Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, Any]]:
    """The tuples behind an edge: a function of the head and the edge. The second is None for a rule with one input.

    >>> parents(Shape(2, (1,), 2, (0,), (), (Col(0), Col(3))))(("a", "c"), (0, "b"))
    (('a', 'b'), ('b', 'c'))
    """
    bound, _ = shape.bindings()
    left = tuple_text([bound[i] for i in range(shape.left)])
    right = "None"
    if shape.right is not None:
        right = tuple_text([bound[shape.left + i] for i in range(shape.right)])
    source = Source()
    source.line(0, "def parents(h, e):")
    source.line(1, f"return {left}, {right}")
    return source.compile("parents")  # type: ignore[no-any-return]


class Sides:
    """The two sides of a join in the order in which they are searched."""

    def __init__(self, shape: Shape, probe: str) -> None:
        self.shape = shape
        self.order = ("left", "right") if probe == "left" or shape.right is None else ("right", "left")

    def offset(self, n: int) -> int:
        return 0 if self.order[n] == "left" else self.shape.left

    def arity(self, n: int) -> int:
        return self.shape.left if self.order[n] == "left" else self.shape.right or 0

    def bound_columns(self, n: int, bound: dict[int, str]) -> tuple[int, ...]:
        return tuple(c for c in range(self.arity(n)) if self.offset(n) + c in bound)

    def spread(self, bound: dict[int, str]) -> None:
        """A join key column is known on one side if it is known on the other."""
        for left, other in zip(self.shape.left_key, self.shape.right_key, strict=True):
            right = self.shape.left + other
            if left in bound:
                bound.setdefault(right, bound[left])
            elif right in bound:
                bound[left] = bound[right]
