"""Which two parts of a body to join next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from datalog.ast import Comparison
from planner.build import Part
from planner.plan import RelationPlan

__all__ = ["KEYED", "LOOSE", "Link", "Order"]

ASKED, OUTSIDE, LOOSE, SHARED, EQUATION, COMPARED, SINGLE, KEYED, PRODUCT = range(1, 10)
"""What connects two parts, the best first; see `Order`."""

FEW = 8
"""Of so many parts with a variable, all pairs are compared."""

Score = tuple[int, int, int, int]
Pair = tuple[int, int]

Link = tuple[Comparison, frozenset[str], frozenset[str], bool]
"""A filter, the variables of its two sides, and whether it may fail."""


class Order:
    """Which two parts of a body to join next: greedy, and always the same for the same body.

    In this order of preference:

    1. a lookup's answer with the part that asked;
    2. parts outside the recursion that share variables, so that the recursion meets one relation made of them;
    3. parts outside the recursion that only a comparison connects (`distance(p, q) < k`), where one of them has
       nothing else to hold on to;
    4. any parts that share variables;
    5. any that an equation connects, then any that another comparison does;
    6. a product with a part of at most one tuple;
    7. parts that only an equation connects that may fail (`y = 1 / x`): what it computes is needed to find partners,
       but all else that is asked of a row comes before;
    8. a product.

    Among equals: where the declared key of one side finds at most one partner, then more shared columns, then
    more conditions, then the order of the text.

    Parts come and go by one or two between two choices. So the best pair of those that have a variable is remembered
    until one of them goes, or another comes. Where more than `FEW` have it, only the two that most went into are looked
    at: a choice among n parts costs O(n). Where no variable is shared, a variable belongs to one part, and filters tell
    what is connected.
    """

    def __init__(self, relations: Mapping[str, RelationPlan]) -> None:
        self._relations = relations
        self._parts: dict[int, Part] = {}  # by id; they are kept, so that an id stays its part's own
        self._at: dict[int, int] = {}  # the place of each part in the text
        self._names: dict[int, frozenset[str]] = {}
        self._keys: dict[int, frozenset[str]] = {}
        self._marked: dict[str | int, dict[int, None]] = {}  # the parts by their variables, and by their places
        self._best: dict[str | int, tuple[Score, int, int]] = {}  # the best pair of those
        self._stale: dict[str | int, None] = {}
        self._ranks: dict[int, tuple[bool, bool, int]] = {}  # which of many parts with a variable come first
        self._scores: dict[int, dict[int, Score | None]] = {}  # of the pairs of parts that were looked at, both ways

    def choose(self, parts: Sequence[Part], links: Callable[[], Iterable[Link]]) -> tuple[int, Pair]:
        """What connects the two parts to join next (the preference, from ASKED to PRODUCT), and their places."""
        self._follow(parts)
        best: tuple[Score, Pair] | None = None
        for score, one, other in self._best.values():
            if best is None or score <= best[0]:
                entry = (score, (self._at[one], self._at[other]))
                if best is None or entry < best:
                    best = entry
        if best is None or best[0][0] > LOOSE:
            connected = list(self._connected(parts, links))
            if best is not None:
                connected = [entry for entry in connected if entry[0][0] == LOOSE]
            best = min([*connected, *([best] if best else [])], default=None)
        if best is None or best[0][0] > SINGLE:
            best = min([*self._product(parts), *([best] if best else [])])
        return best[0][0], best[1]

    # --- parts that share variables ----------------------------------------------------------------------------

    def _follow(self, parts: Sequence[Part]) -> None:
        """Take in the parts that have come, and forget those that have gone."""
        self._at = dict(zip(map(id, parts), range(len(parts)), strict=True))
        for one in self._parts.keys() - self._at.keys():
            part = self._parts.pop(one)
            del self._names[one], self._keys[one], self._ranks[one]
            for other in self._scores.pop(one):
                del self._scores[other][one]
            for mark in _marks(part):
                self._marked[mark].pop(one, None)
                self._stale[mark] = None
        for one in self._at.keys() - self._parts.keys():
            part = self._parts[one] = parts[self._at[one]]
            self._names[one] = frozenset(part.variables)
            self._scores[one] = {}
            self._ranks[one] = (part.lookup, part.recursive, -part.size)
            relation = self._relations[part.relation]
            key = () if relation.kind == "view" else relation.key
            self._keys[one] = frozenset([part.variables[k] for k in key])
            for mark in _marks(part):
                self._marked.setdefault(mark, {})[one] = None
                self._stale[mark] = None
        for mark in self._stale:
            self._best.pop(mark, None)
            if len(self._marked[mark]) > 1:
                self._best_of(mark, list(self._marked[mark]))
        self._stale.clear()

    def _best_of(self, mark: str | int, members: list[int]) -> None:
        """Remember the best pair of the parts with a mark."""
        if len(members) > FEW:
            members.sort(key=self._at.__getitem__)
            members.sort(key=self._ranks.__getitem__)
            kinds = [self._ranks[one][:2] for one in (members[0], members[-1])]
            members = members[:2] if kinds[0] == kinds[1] else self._some_of(members)
        best: tuple[Score, int, int] | None = None
        for one, other in combinations(sorted(members, key=self._at.__getitem__), 2):  # among equals the first
            known = self._scores[one]
            if other not in known:
                known[other] = self._scores[other][one] = self._score(one, other)
            score = known[other]
            if score is not None and (best is None or score < best[0]):
                best = (score, one, other)
        if best is not None:
            self._best[mark] = best

    def _some_of(self, members: list[int]) -> list[int]:
        """Of parts of several kinds, the best first: two, and the first answers and the first of the recursion."""
        rank = self._ranks
        lookup, recursive, _ = rank[members[0]]
        some = [one for one in members if rank[one][1] != recursive]
        asked = [one for one in members if rank[one][0] != lookup]
        return list(dict.fromkeys([*members[:2], *some[:1], *asked[:1]]))

    def _score(self, one: int, other: int) -> Score | None:
        """How good it is to join two parts that share variables, or of which one asked for the other."""
        left, right = self._parts[one], self._parts[other]
        shared = self._names[one] & self._names[other]
        if left.lookup != right.lookup and left.position == right.position:
            rank = ASKED
        elif not shared:
            return None
        else:
            rank = SHARED if left.recursive or right.recursive else OUTSIDE
        a, b = self._keys[one], self._keys[other]
        functional = (a and a <= shared) or (b and b <= shared)
        return (rank, 0 if functional else 1, -len(shared), -(left.size + right.size))

    # --- parts that do not -------------------------------------------------------------------------------------

    def _connected(
        self, parts: Sequence[Part], links: Callable[[], Iterable[Link]]
    ) -> Iterator[tuple[Score, Pair]]:
        """The pairs that filters connect: of all parts, where none share variables, else of those outside."""
        counts = Counter(name for part in parts for name in part.variables)
        owners = {name: i for i, part in enumerate(parts) if not part.recursive for name in part.variables}
        if all(count == 1 for count in counts.values()):
            owners = {name: i for i, part in enumerate(parts) for name in part.variables}
        for condition, left, right, risky in links():
            roots = left | right
            both = sorted({owners.get(name, -1) for name in roots})
            if len(both) != 2 or both[0] < 0 or condition.op == "!=":
                continue
            i, j = both
            one, other = ({owners[name] for name in side} for side in (left, right))
            outside = not parts[i].recursive and not parts[j].recursive
            loose = outside and any(all(counts[v] == 1 for v in parts[k].variables) for k in both)
            if condition.op == "=" and len(one) == len(other) == 1:
                rank = KEYED if risky else LOOSE if loose else EQUATION
            else:
                rank = LOOSE if loose else COMPARED
            yield (rank, 1, 0, -(parts[i].size + parts[j].size)), (i, j)

    def _product(self, parts: Sequence[Part]) -> Iterator[tuple[Score, Pair]]:
        """The best products: the largest of a few rows with the largest other, and of all."""
        largest = sorted(range(len(parts)), key=lambda i: (-parts[i].size, i))
        for first in largest[:1], [i for i in largest if parts[i].single][:1]:
            for i in first:
                j = next(j for j in largest if j != i)
                rank = SINGLE if parts[i].single or parts[j].single else PRODUCT
                yield (rank, 1, 0, -(parts[i].size + parts[j].size)), (min(i, j), max(i, j))


def _marks(part: Part) -> tuple[str | int, ...]:
    """What parts are found by: a place, and variables."""
    return (part.position, *part.variables)
