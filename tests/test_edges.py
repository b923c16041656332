"""Derivation edges: what the kernels make of them, and how they are kept."""

from __future__ import annotations

import random
from typing import Any

import pytest

from operators.edges import EdgeLedger, promote
from operators.expr import Apply, Col, Const
from operators.kernels import Shape, forward, parents
from operators.provenance import Provenance


@pytest.mark.parametrize(
    "shape",
    [
        Shape(2, (1,), 2, (0,), (), (Col(0), Col(3)), number=3),
        Shape(3, (1,), 3, (0,), (), (Col(0), Col(4), Apply("+", int.__add__, (Col(2), Col(5)), "+"))),
        Shape(2, (0, 1), 3, (2, 0), (), (Col(3),)),
        Shape(2, (0, 0), 2, (0, 1), (), (Const("a"), Col(1))),
        Shape(1, (), 2, (), (), (Col(0), Col(0), Col(1))),
        Shape(2, (), 1, (), (), ()),
    ],
)
def test_an_edge_tells_the_parents(shape: Shape) -> None:
    rng = random.Random(7)
    assert shape.right is not None
    lefts = sorted({tuple(rng.randrange(3) for _ in range(shape.left)) for _ in range(12)})
    rights = sorted({tuple(rng.randrange(3) for _ in range(shape.right)) for _ in range(12)})
    for side, batch, others, key in (
        ("left", lefts, rights, shape.right_key), ("right", rights, lefts, shape.left_key)
    ):
        own_key = shape.left_key if side == "left" else shape.right_key
        buckets: dict[Any, dict[Any, None]] = {}
        for u in others:
            k = tuple(u[c] for c in key)
            buckets.setdefault(None if not k else k[0] if len(k) == 1 else k, {})[u] = None
        out: list[Any] = []
        forward(shape, side, "edges")([(t, None) for t in batch], buckets.get, {}, {}, {}, out)
        found = sorted((parents(shape)(head, edge), head) for head, edge in out)
        expected = []
        for t in batch:
            for u in others:
                if [t[c] for c in own_key] == [u[c] for c in key]:
                    pair = (t, u) if side == "left" else (u, t)
                    row = (*pair[0], *pair[1])
                    head = tuple(
                        row[e.index] if isinstance(e, Col) else e.value if isinstance(e, Const) else row[2] + row[5]
                        for e in shape.outputs
                    )
                    expected.append((pair, head))
        assert found == sorted(expected)
        assert len({(head, edge) for head, edge in out}) == len(out), "two derivations have the same edge"


def test_the_ledger_passes_on_what_its_mode_says() -> None:
    t = ("a",)
    for every in (False, True):
        kept = EdgeLedger(Provenance())
        kept.every = every
        on, created = kept.offer([(t, {(0, 1): None}), (t, {(0, 2): None})])
        assert created == [(t, {(0, 1): None})] if every else len(created) == 1
        assert len(on) == (2 if every else 1)
        assert list(kept.first[t]) == [(0, 1), (0, 2)]
        promote(kept.first[t], (0, 2))
        assert list(kept.first[t]) == [(0, 2), (0, 1)]
        assert kept.pop(t) and not kept.pop(t)
