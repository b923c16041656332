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
- `select`: the same as `first` with aggregate selection in place: what is dominated by the best of its group
  (`sent` is then the selection's table of best values) is dropped where it is derived;
- `each`: every derivation counts (lazy and eager shipping);
- `heads`: just the heads, to follow a death forward;
- `weights`: counting: the head's weight changes by the product of the weights.

`finder` is the loop backwards: from a lost head to a derivation that is still alive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

from operators.expr import Col, Const, Expr, columns

__all__ = ["Shape", "finder", "forward", "key_of", "mapper", "overflow"]

LOWEST, HIGHEST = -(2**63), 2**63 - 1


def overflow(value: Any) -> Any:
    """Called by generated code when a result is not between LOWEST and HIGHEST: a large float is fine."""
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, (int, float)):
        raise OverflowError(f"overflow: {value} is outside the range of a number")
    return value


@dataclass(frozen=True, slots=True)
class Shape:
    """What the kernels need to know of a rule with one or two inputs. `right` is None for one input.

    `group` and `values` are the aggregate selection of the head, if it has one.
    """

    left: int
    left_key: tuple[int, ...]
    right: int | None
    right_key: tuple[int, ...]
    where: tuple[Expr, ...]
    outputs: tuple[Expr, ...]
    group: tuple[int, ...] = ()
    values: tuple[tuple[int, str], ...] = ()

    def carried(self, side: str) -> tuple[int, ...] | None:
        """The head columns that a batch on `side` brings itself, if partners bring all others unchanged."""
        if self.right is None or not all(isinstance(e, Col) for e in self.outputs):
            return None
        mine = tuple(
            i
            for i, e in enumerate(self.outputs)
            if isinstance(e, Col) and (e.index < self.left) == (side == "left")
        )
        return mine if 0 < len(mine) < len(self.outputs) else None

    def slots(self, left: str, right: str, product: str) -> dict[str, str]:
        """What the placeholders of a kernel's last lines stand for."""
        worse = [f"h[{c}] {'>' if kind == 'min' else '<'} best[{i}]" for i, (c, kind) in enumerate(self.values)]
        return {
            "pair": f"({left}, {right})",
            "left": left,
            "right": right,
            "product": product,
            "group": _key_text([f"h[{c}]" for c in self.group]),
            "dominated": " and ".join(worse),
        }


def key_of(columns: Sequence[int]) -> Callable[[tuple[Any, ...]], Any]:
    """How indexes spell the key of a tuple: the bare value for one column, a tuple for several, None for none.

    >>> key_of((1,))(("a", "b")), key_of((1, 0))(("a", "b")), key_of(())(("a", "b"))
    ('b', ('b', 'a'), None)
    """
    source = _Source()
    source.line(0, "def key(t):")
    source.line(1, f"return {_key_text([f't[{c}]' for c in columns])}")
    return source.compile("key")  # type: ignore[no-any-return]


class _Source:
    """Lines of generated code and the values that they refer to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.values: dict[str, Any] = {"overflow": overflow, "LOWEST": LOWEST, "HIGHEST": HIGHEST}
        self._names: dict[int, str] = {}

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self, value: Any, prefix: str) -> str:
        known = self._names.get(id(value))
        if known is None:
            known = self._names[id(value)] = f"{prefix}{len(self._names)}"
            self.values[known] = value
        return known

    def expression(self, expr: Expr, column: Callable[[int], str]) -> str:
        """Source text of an expression; `column` says how a column of the row is spelt."""
        if isinstance(expr, Col):
            return column(expr.index)
        if isinstance(expr, Const):
            return repr(expr.value) if type(expr.value) is int else self.name(expr.value, "k")
        arguments = [self.expression(a, column) for a in expr.arguments]
        if expr.inline in ("+", "-", "*"):
            value = f"({arguments[0]} {expr.inline} {arguments[1]})"
            return f"(q if LOWEST <= (q := {value}) <= HIGHEST else overflow(q))"
        if expr.inline is not None:
            return f"({arguments[0]} {expr.inline} {arguments[1]})"
        return f"{self.name(expr.function, 'f')}({', '.join(arguments)})"

    def compile(self, name: str) -> Any:
        scope = dict(self.values)
        exec(_code("\n".join(self.lines) + "\n", f"<kernel {name}>"), scope)
        return scope[name]


@lru_cache(maxsize=4096)
def _code(source: str, name: str) -> CodeType:
    """Every partition has the same kernels, and so has every evaluation from scratch: compile them once."""
    return compile(source, name, "exec")


def _tuple_text(parts: Sequence[str]) -> str:
    return "(" + ", ".join(parts) + ("," if len(parts) == 1 else "") + ")"


def _key_text(parts: Sequence[str]) -> str:
    return "None" if not parts else parts[0] if len(parts) == 1 else _tuple_text(parts)


# what a kernel does with head `h`, by purpose; see `Shape.slots` for what stands in the braces
_BODIES = {
    "first": ["if h in known or h in sent: continue", "out.append((h, {pair}))"],
    "direct": ["if h in known: continue", "known[h] = p = {pair}", "out.append((h, p))"],
    "seen": ["known[h] = p = {pair}", "out.append((h, p))"],
    "select": [
        "best = sent.get({group})",
        "if best is not None and {dominated}: continue",
        "if h in known: continue",
        "out.append((h, {pair}))",
    ],
    "each": ["out.append((h, {left}, {right}))"],
    "heads": ["out.append(h)"],
    "weights": ["out[h] = out.get(h, 0) + {product}"],
}


def forward(shape: Shape, side: str, purpose: str) -> Callable[..., None]:
    """The kernel for a batch that arrives on `side` (`left` or `right`) of a join.

    Its parameters: `(batch, find, rows, known, sent, out)`; `find` is the `get` of the other side's index
    buckets and `rows` the other side's table. A batch holds pairs (tuple, annotation or weight), except for
    `heads`, where it holds tuples.

    >>> shape = Shape(2, (1,), 2, (0,), (), (Col(0), Col(3)))       # h(x, y) :- l(x, z), r(z, y).
    >>> kernel, out = forward(shape, "right", "heads"), []
    >>> kernel([("b", "c")], {"b": {("a", "b"): None}}.get, {}, {}, {}, out)
    >>> out
    [('a', 'c')]
    """
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

    source = _Source()
    used = {i - first for e in (*shape.where, *shape.outputs) for i in columns(e) if mine(i)} | set(own_key)
    early = [w for w in shape.where if all(mine(i) for i in columns(w))]
    late = [w for w in shape.where if w not in early]
    source.line(0, "def kernel(batch, find, rows, known, sent, out):")
    source.line(1, "for t in batch:" if purpose == "heads" else "for t, a in batch:")
    for c in sorted(used):
        source.line(2, f"d{c} = t[{c}]")
    for w in early:
        source.line(2, f"if not {source.expression(w, column)}: continue")
    source.line(2, f"bucket = find({_key_text([f'd{c}' for c in own_key])})")
    source.line(2, "if bucket is None: continue")
    if purpose == "seen":
        carried = shape.carried(side)
        assert carried is not None
        rest = [shape.outputs[i] for i in range(len(shape.outputs)) if i not in carried]
        key = _key_text([source.expression(shape.outputs[i], column) for i in carried])
        source.line(2, f"seen = sent.get({key})")
        source.line(2, f"if seen is None: seen = sent[{key}] = set()")
    source.line(2, "for u, b in bucket.items():" if purpose == "weights" else "for u in bucket:")
    for w in late:
        source.line(3, f"if not {source.expression(w, column)}: continue")
    if purpose == "seen":
        source.line(3, f"k = {_key_text([source.expression(e, column) for e in rest])}")
        source.line(3, "if k in seen: continue")
        source.line(3, "seen.add(k)")
    source.line(3, f"h = {_tuple_text([source.expression(e, column) for e in shape.outputs])}")
    left, right = ("a", "rows[u]") if here_left else ("rows[u]", "a")
    slots = shape.slots(left, right, "a * b")
    for text in _BODIES[purpose]:
        source.line(3, text.format(**slots))
    return source.compile("kernel")  # type: ignore[no-any-return]


def mapper(shape: Shape, purpose: str) -> Callable[..., None]:
    """The kernel of a rule with one input: `(batch, known, sent, out)`.

    >>> swap, out = mapper(Shape(2, (), None, (), (), (Col(1), Col(0))), "weights"), {}
    >>> swap([((1, 2), 3)], {}, {}, out)
    >>> out
    {(2, 1): 3}
    """
    source = _Source()

    def column(i: int) -> str:
        return f"t[{i}]"

    source.line(0, "def kernel(batch, known, sent, out):")
    source.line(1, "for t in batch:" if purpose == "heads" else "for t, a in batch:")
    for w in shape.where:
        source.line(2, f"if not {source.expression(w, column)}: continue")
    source.line(2, f"h = {_tuple_text([source.expression(e, column) for e in shape.outputs])}")
    slots = shape.slots("a", "a", "a")  # one parent stands twice, so that every pair has the same form
    for text in _BODIES[purpose]:
        source.line(2, text.format(**slots))
    return source.compile("kernel")  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Finder:
    """How a lost head is looked up again.

    `first` and `second` name the sides in the order they are searched, each with the columns of the index
    that the search needs; an index over all columns is the table itself and need not be built.
    `call(h, find1, rows1, find2, rows2)` returns a pair of annotations or None, or, if the finder was made to
    find every derivation, a list of (head, pair).
    """

    first: str
    first_index: tuple[int, ...]
    second_index: tuple[int, ...] | None
    call: Callable[..., Any]


def finder(shape: Shape, probe: str, given: tuple[int, ...], every: bool = False) -> Finder:
    """The backward kernel: `given` are the head columns that are known (all, or those of a group).

    With `every` it returns the list of all derivations (head, pair) that agree with `given`,
    otherwise the pair of the first one that it finds, or None.
    """
    sides = _Sides(shape, probe)
    bound: dict[int, str] = {}  # column of the row -> text of its value
    for i in given:
        output = shape.outputs[i]
        if isinstance(output, Col):
            bound.setdefault(output.index, f"h[{i}]")
    sides.spread(bound)
    source = _Source()
    source.line(0, "def find(h, find1, rows1, find2, rows2):")
    if every:
        source.line(1, "found = []")
    first_index = sides.bound_columns(0, bound)
    depth = _search(source, 1, "1", first_index, sides.arity(0), [bound[sides.offset(0) + c] for c in first_index])
    for c in range(sides.arity(0)):
        bound.setdefault(sides.offset(0) + c, f"t1[{c}]")
    second_index: tuple[int, ...] | None = None
    if shape.right is not None:
        sides.spread(bound)
        second_index = sides.bound_columns(1, bound)
        texts = [bound[sides.offset(1) + c] for c in second_index]
        depth = _search(source, depth, "2", second_index, sides.arity(1), texts)
        for c in range(sides.arity(1)):
            bound.setdefault(sides.offset(1) + c, f"t2[{c}]")
    fail = "continue" if depth > 1 else ("return found" if every else "return None")

    def column(i: int) -> str:
        # read the tuple itself: what the head fixes may equal it without being identical (1 and 1.0)
        side = 0 if sides.offset(0) <= i < sides.offset(0) + sides.arity(0) else 1
        return f"t{side + 1}[{i - sides.offset(side)}]"

    for left, right in zip(shape.left_key, shape.right_key, strict=True):
        if bound[left] != bound[shape.left + right]:  # the head fixes both sides, and they may not agree
            source.line(depth, f"if {column(left)} != {column(shape.left + right)}: {fail}")
    for w in shape.where:
        source.line(depth, f"if not {source.expression(w, column)}: {fail}")
    for i in given:
        output = shape.outputs[i]
        if not isinstance(output, Col) or bound.get(output.index) != f"h[{i}]":
            source.line(depth, f"if {source.expression(output, column)} != h[{i}]: {fail}")
    one, two = ("a1", "a2") if shape.right is not None else ("a1", "a1")
    pair = f"({one}, {two})" if sides.order[0] == "left" else f"({two}, {one})"
    if every:
        head = _tuple_text([source.expression(e, column) for e in shape.outputs])
        source.line(depth, f"found.append(({head}, {pair}))")
        source.line(1, "return found")
    else:
        source.line(depth, f"return {pair}")
        source.line(1, "return None")
    return Finder(sides.order[0], first_index, second_index, source.compile("find"))


class _Sides:
    """The two sides of a join in the order in which a finder searches them."""

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


def _search(source: _Source, depth: int, n: str, index: tuple[int, ...], arity: int, texts: list[str]) -> int:
    """Write the loop over the tuples of one side that agree with what is known; returns the new depth."""
    fail = "continue" if depth > 1 else None
    if len(index) == arity:
        source.line(depth, f"t{n} = {_tuple_text(texts)}")
        source.line(depth, f"a{n} = rows{n}.get(t{n})")
        if fail:
            source.line(depth, f"if a{n} is None: continue")
            return depth
        source.line(depth, f"for a{n} in (a{n},) if a{n} is not None else ():")
        return depth + 1
    source.line(depth, f"bucket{n} = find{n}({_key_text(texts)})")
    source.line(depth, f"for t{n} in bucket{n} or ():")
    # an index may still hold tuples that were lost a moment ago; the table does not
    source.line(depth + 1, f"a{n} = rows{n}.get(t{n})")
    source.line(depth + 1, f"if a{n} is None: continue")
    return depth + 1


def row_function(expr: Sequence[Expr]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """A function from a row (one tuple) to the tuple of the values of some expressions."""
    source = _Source()
    source.line(0, "def compute(t):")
    source.line(1, "return " + _tuple_text([source.expression(e, lambda i: f"t[{i}]") for e in expr]))
    return source.compile("compute")  # type: ignore[no-any-return]


def condition(where: Sequence[Expr], first: int) -> Callable[[tuple[Any, ...], tuple[Any, ...]], bool] | None:
    """A function of two tuples, the first with `first` columns, that tells whether all conditions hold."""
    if not where:
        return None
    source = _Source()

    def column(i: int) -> str:
        return f"t[{i}]" if i < first else f"u[{i - first}]"

    source.line(0, "def holds(t, u):")
    source.line(1, "return " + " and ".join(source.expression(w, column) for w in where))
    return source.compile("holds")  # type: ignore[no-any-return]
