"""The baseline that keeps nothing: every transaction evaluates the program from scratch."""

from __future__ import annotations

from typing import Any

from livelog.runtime.local import LocalRuntime, Sides

__all__ = ["RecomputeRuntime"]

Tuple = tuple[Any, ...]


class RecomputeRuntime(LocalRuntime):
    """The same operators and plans, but no state survives: changes are the difference of two results."""

    def _evaluate(self) -> None:
        if any(worker.deltas for worker in self.workers):
            for worker in self.workers:
                worker.reset(self._limit)
                worker.reload()
            super()._evaluate()

    def _work(self) -> dict[str, Sides]:
        self._evaluate()  # from scratch: what fails here, fails on the facts as they are
        self._measure()
        return self._changes()

    def _changes(self) -> dict[str, Sides]:
        changes: dict[str, Sides] = {}
        for name in self.plan.published:
            before, now = self._results.get(name, set()), set(self.rows(name))
            changes[name] = (list(now - before), list(before - now))
            self._results[name] = now
        return changes

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._results: dict[str, set[Tuple]] = {}
        super().__init__(*arguments, **options)
