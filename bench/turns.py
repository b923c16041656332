"""Objects in processes of their own, which take turns: what slows the machine down slows all of them alike."""

from __future__ import annotations

import importlib
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

__all__ = ["Apart"]


class Apart:
    """An object in a fresh process, made by a class of a module, `bench.some_module:Some`. It does what it is asked.

    Only that process imports the module, and what has been opened and closed elsewhere leaves no holes in its memory.

    >>> with Apart("collections:Counter", "abca") as letters:
    ...     letters.ask("most_common", 1)
    [('a', 2)]
    """

    def __init__(self, where: str, *arguments: Any) -> None:
        context = get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, where, arguments), daemon=True)
        self._process.start()
        other.close()
        self._answer()

    def ask(self, method: str, *arguments: Any) -> Any:
        """What a method of the object returns."""
        self._pipe.send((method, arguments))
        return self._answer()

    def _answer(self) -> Any:
        answer, error = self._pipe.recv()
        if error is not None:
            raise error
        return answer

    def close(self) -> None:
        """End the process, after the object's own `close` if it has one."""
        if self._process.is_alive():
            self._pipe.send(None)
        self._process.join()
        self._pipe.close()

    def __enter__(self) -> Apart:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _serve(pipe: Connection, where: str, arguments: tuple[Any, ...]) -> None:
    """The process: it makes the object, and answers until it is told that nothing more will come."""
    module, name = where.split(":")
    try:
        served = getattr(importlib.import_module(module), name)(*arguments)
    except Exception as error:
        pipe.send((None, error))
        return
    pipe.send((None, None))
    while (question := pipe.recv()) is not None:
        method, given = question
        try:
            pipe.send((getattr(served, method)(*given), None))
        except Exception as error:
            pipe.send((None, error))
    if hasattr(served, "close"):
        served.close()
