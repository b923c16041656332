"""Loops in which most of the time of large batches went, compiled with Cython.

Each does what some Python here does as well, a little slower: where they were not built (there was no compiler), or are
not wanted (the environment has LIVELOG_COMPILED=0), that is used instead. They are:

- `facts`: the table of `operators.facts`;
- `cells`: loops of `operators.tally` and `operators.anchored_loops`;
- `columns`: the walk over rows of `livelog.exchange`;
- `rows`: the check of `livelog.values`.

`shared.pxd` has what they have in common.
"""

import os

if os.environ.get("LIVELOG_COMPILED") == "0":
    raise ImportError("LIVELOG_COMPILED=0: what is compiled is not wanted")
