"""Lines from a person: with editing, history and completion on a terminal, plainly from a pipe."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from datalog.errors import FactProblem

__all__ = ["Prompt"]

HISTORY_LENGTH = 2000


class Prompt:
    """Brings lines, one at a time. As a context manager it also reads and keeps the history."""

    def __init__(self, words: Callable[[], list[str]], history: Path | None = None) -> None:
        self.words = words
        self.interactive = sys.stdin.isatty()
        self.history = history
        self.readline: ModuleType | None = None
        self.pipe: Iterator[str] = iter(())

    def __enter__(self) -> Prompt:
        if not self.interactive:
            self.pipe = iter(io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8"))
            return self
        try:
            import readline
        except ImportError:  # Python can be built without it
            return self
        self.readline = readline
        if self.history is None:
            # Without a home folder there is simply no history.
            with suppress(RuntimeError):
                self.history = Path.home() / ".livelog_history"
        readline.set_history_length(HISTORY_LENGTH)
        readline.set_completer(self.complete)
        readline.set_completer_delims(" \t\n\"(),+-?!")
        binding = "bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete"
        readline.parse_and_bind(binding)
        if self.history is not None:
            with suppress(OSError):
                readline.read_history_file(self.history)
        return self

    def __exit__(self, *exception: object) -> None:
        if self.readline is not None and self.history is not None:
            with suppress(OSError):
                self.readline.write_history_file(self.history)

    def read(self, prompt: str) -> str | None:
        """The next line without its end; None when there are no more."""
        if self.interactive:
            try:
                return input(prompt)
            except EOFError:
                print()
                return None
        try:
            line = next(self.pipe, None)
        except UnicodeDecodeError:
            raise FactProblem("the input is not UTF-8 text", file="<stdin>") from None
        return None if line is None else line.rstrip("\r\n")

    def more(self) -> bool:
        """Whether somebody at the terminal wants to see the next page."""
        try:
            said = input("-- more: Enter, q stops -- ")
        except (EOFError, KeyboardInterrupt):
            print()
            return False
        if self.readline is not None and said:
            self.readline.remove_history_item(self.readline.get_current_history_length() - 1)
        return not said.strip().lower().startswith("q")

    def complete(self, text: str, state: int) -> str | None:
        """Completion as readline asks for it: the `state`-th word that starts with `text`."""
        matches = [word for word in self.words() if word.startswith(text)]
        return matches[state] if state < len(matches) else None
