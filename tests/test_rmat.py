"""R-MAT graphs: the model's properties, and degenerate sizes."""

from __future__ import annotations

from collections import Counter

import pytest

from topologies import rmat


def test_edges_are_different_and_no_loops() -> None:
    edges = rmat(100, 600, seed=3)
    assert len(set(edges)) == 600
    assert all(0 <= x < 100 and 0 <= y < 100 and x != y for x, y in edges)
    assert edges == rmat(100, 600, seed=3) != rmat(100, 600, seed=4)
    assert edges[:50] == rmat(100, 50, seed=3)


def test_the_quarters_are_chosen_with_their_odds() -> None:
    edges = rmat(1024, 20_000, a=0.5, b=0.2, c=0.2, d=0.1, seed=1)
    quarters = Counter((x >= 512, y >= 512) for x, y in edges)
    odds = {(False, False): 0.5, (False, True): 0.2, (True, False): 0.2, (True, True): 0.1}
    assert all(abs(quarters[q] / len(edges) - p) < 0.05 for q, p in odds.items())
    degrees = Counter(x for x, _ in edges)
    assert degrees.most_common(1)[0][1] > 5 * len(edges) / 1024


def test_degenerate_sizes() -> None:
    assert rmat(0, 0) == rmat(1, 0) == []
    assert sorted(rmat(2, 2)) == [(0, 1), (1, 0)]
    with pytest.raises(ValueError, match="at most 2 edges"):
        rmat(2, 3)
    with pytest.raises(ValueError, match="add up to 1"):
        rmat(2, 1, a=0.9)
