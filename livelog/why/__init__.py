"""Why a tuple is in a view: facts from which alone it follows, and what it rests on besides.

`trace` walks from a tuple down to facts, `proof` sees to it that these alone suffice, and `reason` is what is told.
"""

from livelog.why.proof import explain
from livelog.why.reason import Group, Reason

__all__ = ["Group", "Reason", "explain"]
