"""A relation that is the union of its layers: nothing is kept twice.

The planner gives each index value of an iteration a relation of its own (`planner.passes.unroll`). The relation of the
program is all of them, each with its index put back in. It has no state: its tuples are read from the layers, and its
changes are theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from livelog.runtime.counting import Counting
from operators.delta import Delta
from operators.expr import Col, Const
from planner.plan import MapRule, Plan, Stratum

__all__ = ["Layered", "layers_of"]

Tuple = tuple[Any, ...]
Rows = Callable[[str], Any]


def layers_of(stratum: Stratum, plan: Plan) -> dict[int, str] | None:
    """The layers of a stratum's relation by their index, if it is just these, and each has its tuples where it has."""
    head = plan.relations[stratum.relations[0]]
    found: dict[int, str] = {}
    for rule in stratum.rules:
        source = plan.relations[rule.input.relation] if isinstance(rule, MapRule) else head
        layer = source.layer
        if not isinstance(rule, MapRule) or layer is None or layer.relation != head.name or rule.where:
            return None
        outputs = [Col(i) for i in range(source.arity)]
        if rule.outputs != (*outputs[: layer.column], Const(layer.value), *outputs[layer.column :]):
            return None
        if tuple(c + (c >= layer.column) for c in source.partition) != head.partition:
            return None
        found[layer.value] = source.name
    return found


class Layered(Counting):
    """The stratum of a relation that is the union of its layers. `of` gives the tuples of a layer on this partition."""

    def __init__(self, stratum: Stratum, plan: Plan, layers: dict[int, str], of: Rows) -> None:
        layer = plan.relations[next(iter(layers.values()))].layer
        assert layer is not None
        super().__init__(stratum, plan, 0, 1, _never)
        self._layers = layers
        self._view = _View(layers, layer.column, of)
        self._changed: list[tuple[int, Delta]] = []

    def begin(self, deltas: dict[str, Delta]) -> None:
        self._changed = [(value, deltas[name]) for value, name in self._layers.items() if name in deltas]

    def finish(self) -> dict[str, Delta]:
        changed, self._changed = self._changed, []
        return {self.name: _Union(changed, self._view.column)} if changed else {}

    @property
    def rows(self) -> Any:
        return self._view


class _Union(Delta):
    """The changes of all layers, with their index; lists of them are made for those who ask."""

    __slots__ = ("_column", "_gained", "_layers", "_lost")

    def __init__(self, layers: list[tuple[int, Delta]], column: int) -> None:
        self.weights = self.columns = None
        self._layers = layers
        self._column = column
        self._gained: list[Tuple] | None = None
        self._lost: list[Tuple] | None = None

    @property
    def gained(self) -> list[Tuple]:  # type: ignore[override]
        if self._gained is None:
            self._gained = self._listed([(value, delta.gained) for value, delta in self._layers])
        return self._gained

    @property
    def lost(self) -> list[Tuple]:  # type: ignore[override]
        if self._lost is None:
            self._lost = self._listed([(value, delta.lost) for value, delta in self._layers])
        return self._lost

    def _listed(self, parts: list[tuple[int, list[Tuple]]]) -> list[Tuple]:
        c = self._column
        found: list[Tuple] = []
        for value, tuples in parts:
            here = (value,)
            found += [t[:c] + here + t[c:] for t in tuples] if c else [here + t for t in tuples]
        return found

    def __len__(self) -> int:
        return sum(map(len, (delta for _, delta in self._layers)))

    def __bool__(self) -> bool:
        return any(delta for _, delta in self._layers)


class _View(Collection[Tuple]):
    """The tuples of all layers, with their index."""

    def __init__(self, layers: dict[int, str], column: int, of: Rows) -> None:
        self.column = column
        self._layers = layers
        self._of = of

    def __iter__(self) -> Iterator[Tuple]:
        c = self.column
        for value, name in self._layers.items():
            for t in self._of(name):
                yield (*t[:c], value, *t[c:])

    def __len__(self) -> int:
        return sum(len(self._of(name)) for name in self._layers.values())

    def __contains__(self, t: Any) -> bool:
        c = self.column
        name = self._layers.get(t[c])
        return name is not None and t[:c] + t[c + 1 :] in self._of(name)


def _never(destination: int, kind: str, target: int, rows: list[Any]) -> None:
    raise AssertionError("a union of layers has nothing to send")
