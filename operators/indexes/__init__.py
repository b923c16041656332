"""Aggregate indexes: numbers by key, whose ranges are summed and whose keys are shifted.

`PAIMap` is hashed, `RPAITree` ordered; `PAIVectors` and `RPAIVectors` keep vectors of numbers. What they have in common
says `AggregateIndex`.
"""

from __future__ import annotations

from operators.indexes.index import AggregateIndex
from operators.indexes.pai import PAIMap, PAIVectors
from operators.indexes.rpai import RPAITree
from operators.indexes.vectors import RPAIVectors

__all__ = ["AggregateIndex", "PAIMap", "PAIVectors", "RPAITree", "RPAIVectors"]
