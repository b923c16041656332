"""Rows of one relation that pass a comparison with a nested aggregate, kept under changes of all that it reads.

Every row has a key, and passes if its key lies in a range that is the same for all rows, or for all rows with the same
values in the columns of an equality. See `by_answer` (the key is the aggregate of the row's own kind) and `by_order`
(the key is a value of the row; the range ends where a running sum passes a threshold, or at the threshold itself).
Where there is no such range, every distinct row is tried: `each`.
"""

from __future__ import annotations

from operators.nested.by_answer import ByAnswer
from operators.nested.by_order import ByOrder
from operators.nested.each import Each
from operators.nested.heads import Copies, Heads, Results
from operators.nested.measures import Measures

__all__ = ["ByAnswer", "ByOrder", "Copies", "Each", "Heads", "Measures", "Results"]
