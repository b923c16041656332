"""Why a tuple is in a view: facts from which alone it follows, and what it rests on besides.

`trace` walks from a tuple down to facts, `proof` sees to it that these alone suffice, and `reason` is what is told.
`instant` sees to what depends on the clock.
"""

from livelog.why.instant import Instant, tuples_of
from livelog.why.proof import explain
from livelog.why.reason import Group, Reason

__all__ = ["Group", "Instant", "Reason", "explain", "tuples_of"]
