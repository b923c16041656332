"""Clients: what readers of views and `livelog top` ask a session over Spark, and what they hear."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from datalog.errors import RuntimeProblem, UsageProblem
from livelog.runtime.skew import join_rules
from livelog.runtime.spark.staff import Staff

__all__ = ["Clients"]

HOLDS = 16
"""How many snapshots of views are kept for readers; older ones are let go."""


class Clients(Staff):
    """Answers what clients ask at the driver's door."""

    def __init__(self, *arguments: Any) -> None:
        self._counts: list[Any] = []  # what `top` knew last of each partition
        self._started = time.monotonic()
        self._holds: deque[tuple[int, list[tuple[int, Any]]]] = deque()  # generation, and what each worker holds
        super().__init__(*arguments)

    def _answer(self, question: list[Any]) -> Any:
        """Answer a client at the door."""
        kind, *arguments = question
        try:
            if kind == "describe":
                return {"relations": self._described(), "transaction": self.journal.number}
            if kind == "hold":
                return self.hold(str(arguments[0]))
            if kind == "latest":
                return {"transaction": self._latest}
            if kind == "follow":
                return {"transaction": self.follow(str(arguments[0]), bool(arguments[1]))}
            if kind == "top":
                return self.top()
        except (UsageProblem, RuntimeProblem) as error:
            return {"error": str(error)}
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return {"error": f"there is no question {kind!r}"}

    @property
    def _latest(self) -> int:
        return self.journal.published

    def _described(self) -> dict[str, Any]:
        relations = self.plan.relations.items()
        return {name: {"columns": r.columns, "types": r.types} for name, r in relations if r.kind != "auxiliary"}

    def hold(self, relation: str) -> dict[str, Any]:
        """A snapshot of a relation between two transactions, kept by the workers for readers that come soon."""
        if relation not in self._described():
            raise UsageProblem(f"the program has no relation `{relation}`")
        if relation in self.plan.pruned:
            raise UsageProblem(
                f"of `{relation}` only the best tuples are kept (aggregate selection); `.output {relation}` in the "
                "program keeps it whole"
            )
        with self.lock:
            self._check_slots(beside=True)
            self.restore()
            held = self._all("hold", relation)
            self._holds.append((self.generation, list(enumerate(held))))
            while len(self._holds) > HOLDS:
                generation, oldest = self._holds.popleft()
                self._released.extend((generation, i, h["held"]) for i, h in oldest)
            parts = [[*address, h["held"], h["count"]] for address, h in zip(self.addresses, held, strict=True)]
            return {"transaction": self._latest, "parts": parts}

    def top(self) -> dict[str, Any]:
        """What `livelog top` shows. While a transaction runs, what was known last."""
        busy = not self.lock.acquire(timeout=0.05)
        if not busy:
            try:
                self._counts = self._all("gauge")
            finally:
                self.lock.release()
        crew = self._crew
        partitions = []
        for i in range(self.partitions if crew else 0):
            hello, gauge = crew.hellos[i], crew.gauges[i]  # type: ignore[union-attr]
            known: dict[str, Any] = {
                "partition": i,
                "host": hello.host,
                "pid": hello.pid,
                "bytes_shipped": self.bytes_shipped[i],
                "frames_shipped": self.frames_shipped[i],
                "queue": gauge.queue,
                "outbox": gauge.outbox,
                "busy_seconds": gauge.busy_seconds,
                **(self._counts[i] if self._counts else {"tuples": 0, "relations": {}}),
            }
            partitions.append(known)
        return {
            "transaction": self._latest,
            "generation": self.generation,
            "seconds": time.monotonic() - self._started,
            "busy": busy,
            "program": self.journal.description.name,
            "partitions": partitions,
            "joins": join_rules(self.plan),
        }
