"""Aggregates that a person wrote in Python: functions of a list, and monoids."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from operators.exact import pack

__all__ = ["Folded", "Merged", "UserAggregate", "UserMonoid"]


class UserMonoid:
    """A zero and a way to merge two states, and perhaps one to take a state out of another again.

    Called with a list of values it aggregates them, as a function of a list would: this is what it means. States that
    grow and shrink are made by `empty`. `result_type` is the type of the answers, `any` if it is not known.

    >>> product = UserMonoid(1, lambda a, b: a * b, lambda a, b: a // b)
    >>> product([2, 3, 7])
    42
    >>> state = product.empty(); state.add_all([2, 3, 7]); state.add(3, -1); state.result()
    14
    """

    def __init__(
        self,
        zero: Any,
        merge: Callable[[Any, Any], Any],
        inverse: Callable[[Any, Any], Any] | None = None,
        answer: Callable[[Any], Any] | None = None,
        unit: Callable[[Any], Any] | None = None,
        result_type: str = "any",
    ) -> None:
        self.zero = zero
        self.merge = merge
        self.inverse = inverse
        self.answer = answer
        self.unit = unit
        self.result_type = result_type

    def __call__(self, values: Iterable[Any]) -> Any:
        """The aggregate of values, from the beginning."""
        state = self.zero
        for value in values:
            state = self.merge(state, self.lift(value, 1))
        return self.finish(state)

    def finishing(self, convert: Callable[[Any], Any]) -> UserMonoid:
        """The same, with every answer converted."""
        finish = self.finish
        return UserMonoid(
            self.zero, self.merge, self.inverse, lambda state: convert(finish(state)), self.unit, self.result_type
        )

    def empty(self) -> Merged | Folded:
        """A state that nothing is in."""
        return Folded(self) if self.inverse is None else Merged(self)

    def lift(self, value: Any, times: int) -> Any:
        """The state of a value that is in so many times, at least once. O(log times) merges."""
        state = value if self.unit is None else self.unit(value)
        result = None
        while True:
            if times & 1:
                result = state if result is None else self.merge(result, state)
            times >>= 1
            if not times:
                return result
            state = self.merge(state, state)

    def finish(self, state: Any) -> Any:
        """The answer of a state."""
        return state if self.answer is None else self.answer(state)


class _Waiting:
    """What the states of a person's aggregates share: the person's code is called only when somebody asks.

    Then a failure is that of an answer, with its rule and group, and nothing is ever taken out before it came in. The
    answer is kept until something changes.
    """

    __slots__ = ("_answer", "_known", "_weights", "count")

    def __init__(self) -> None:
        self.count = 0
        self._weights: dict[Any, int] = {}
        self._known = False
        self._answer: Any = None

    def add(self, value: Any, weight: int) -> None:
        self.count += weight
        self._known = False
        left = self._weights.get(value, 0) + weight
        if left:
            self._weights[value] = left
        else:
            self._weights.pop(value, None)

    def add_all(self, values: Collection[Any]) -> None:
        for value in values:
            self.add(value, 1)

    def result(self) -> Any:
        if not self._known:
            self._answer, self._known = self._ask(), True
        return self._answer

    def kept(self) -> Iterable[Any]:
        # a state of the person's own may be anything, and is not measured
        return ((value, pack(weight)) for value, weight in self._weights.items())

    def _ask(self) -> Any:
        raise NotImplementedError


class UserAggregate(_Waiting):
    """Any function of the list of values. O(values) a result after a change.

    >>> spread = UserAggregate(lambda values: values[-1] - values[0])
    >>> spread.add_all([5, 2, 9]); spread.result()
    7
    """

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[list[Any]], Any]) -> None:
        super().__init__()
        self._function = function

    def _ask(self) -> Any:
        if not self.count:
            return None
        # sorted, so that the answer does not depend on the order of arrival
        return self._function([v for v in sorted(self._weights) for _ in range(self._weights[v])])


class Folded(_Waiting):
    """A monoid without an inverse: the values are kept, and merged again after a change, in order. O(values).

    >>> longest = Folded(UserMonoid("", lambda a, b: max(a, b, key=len)))
    >>> longest.add_all(["ab", "a"]); longest.result(), longest.add("ab", -1), longest.result()
    ('ab', None, 'a')
    """

    __slots__ = ("_monoid",)

    def __init__(self, monoid: UserMonoid) -> None:
        super().__init__()
        self._monoid = monoid

    def _ask(self) -> Any:
        monoid, state = self._monoid, self._monoid.zero
        for value in sorted(self._weights):
            state = monoid.merge(state, monoid.lift(value, self._weights[value]))
        return monoid.finish(state) if self.count else None


class Merged(_Waiting):
    """A monoid with an inverse: one state, to which changes are merged or from which they are taken out. O(changes).

    `_weights` holds the changes since the last answer. An empty group begins again with zero, so that rounding errors
    of the person's arithmetic do not outlive it.

    >>> total = Merged(UserMonoid(0, lambda a, b: a + b, lambda a, b: a - b))
    >>> total.add(5, 3); total.add(5, -1); total.result()
    10
    """

    __slots__ = ("_monoid", "_state")

    def __init__(self, monoid: UserMonoid) -> None:
        super().__init__()
        self._monoid = monoid
        self._state = monoid.zero

    def _ask(self) -> Any:
        monoid, changes = self._monoid, sorted(self._weights.items())
        state, inverse = self._state, monoid.inverse
        assert inverse is not None
        for value, weight in changes:
            if weight > 0:
                state = monoid.merge(state, monoid.lift(value, weight))
        for value, weight in changes:
            if weight < 0:
                state = inverse(state, monoid.lift(value, -weight))
        self._weights.clear()
        self._state = state if self.count else monoid.zero
        return monoid.finish(state) if self.count else None
