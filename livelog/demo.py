"""The demo: a small network, a view over it, a cable that fails and returns, and what exactly changes."""

from __future__ import annotations

import time
from importlib import resources
from typing import Any

from rich.console import Console
from rich.text import Text

import datalog
import livelog
from livelog.io.values import format_row
from livelog.render import plural

__all__ = ["show"]

PAUSE = 1.2
"""Seconds to read a section on a terminal."""

Cable = tuple[str, str, int]

CABLES: dict[str, Cable] = {
    "LA": ("London", "Amsterdam", 6), "AB": ("Amsterdam", "Berlin", 9), "LP": ("London", "Paris", 7),
    "AF": ("Amsterdam", "Frankfurt", 6), "BV": ("Berlin", "Vienna", 9), "PF": ("Paris", "Frankfurt", 8),
    "FV": ("Frankfurt", "Vienna", 10), "PM": ("Paris", "Madrid", 18), "FZ": ("Frankfurt", "Zurich", 6),
    "VM": ("Vienna", "Milan", 11), "ZM": ("Zurich", "Milan", 4), "ML": ("Madrid", "Lisbon", 9),
}  # fmt: skip

# Pieces of the map: a cable by its name, or text that stands as it is.
MAP = (
    ("London ", "LA────", " Amsterdam ", "AB────", " Berlin"),
    ("  ", "LP│", "            ", "AF│", "              ", "BV│"),
    ("Paris ", "PF─────", " Frankfurt ", "FV────", " Vienna"),
    ("  ", "PM│", "            ", "FZ│", "              ", "VM│"),
    ("Madrid", "       ", "  Zurich ", "ZM───────", " Milan"),
    ("  ", "ML│"),
    ("Lisbon",),
)


class Demo:
    """The steps of the demo, in the order they are shown."""

    def __init__(self, console: Console, pauses: bool, partitions: int, runtime: livelog.Spark | None) -> None:
        self.console = console
        self.pauses = pauses and console.is_terminal
        text = resources.files("livelog").joinpath("examples/reach.dl").read_text(encoding="utf-8")
        self.text = text
        self.down: set[str] = set()
        program = datalog.parse(text, "reach.dl")
        self.session = livelog.open(program, facts={"cable": CABLES.values()}, partitions=partitions, runtime=runtime)
        self.tasks = 0 if runtime is None else partitions

    def run(self) -> None:
        self.program()
        self.network()
        before = self.routes()
        self.fail("PF", "A cable fails", before)
        before = self.routes()
        self.fail("PM", "Another one fails", before)
        self.repair("PM")
        self.console.print()
        self.say("That is all. Try it yourself:", style="bold")
        self.say("  livelog repl PROGRAM.dl        type in facts, ask the views")
        self.say("  livelog run PROGRAM.dl -F DIR  evaluate a program over files of facts")
        self.say("  docs/tutorial.md               seventeen programs, from a single rule to a parking lot")

    # --- the steps -------------------------------------------------------------------------------------------

    def program(self) -> None:
        self.title("A program: reach.dl")
        for line in self.text.splitlines():
            shown = Text(("    " + line).rstrip())
            shown.highlight_regex(r"\.(decl|output)\b", "magenta")
            shown.highlight_regex(r"\w+(?=\()", "cyan")
            shown.highlight_regex(r"\bmin\b", "yellow")
            shown.highlight_regex(r"//.*", "dim")
            self.console.print(shown)
        self.pause()

    def network(self) -> None:
        self.title("Its views over a network")
        self.draw()
        cities = len({city for a, b, _ in CABLES.values() for city in (a, b)})
        self.say(
            f"{plural(cities, 'city', 'cities')}, {plural(len(CABLES), 'cable')}. Every city reaches every other: "
            f"{plural(len(self.pairs()), 'pair')}, found in {self.took()}."
        )
        if self.tasks:
            hold = "task of Spark holds" if self.tasks == 1 else "tasks of Spark hold"
            self.say(f"{self.tasks} {hold} them; the time is that of their start, too.")
        self.pause()

    def fail(self, name: str, title: str, before: dict[tuple[str, str], list[Cable]]) -> None:
        """Cut a cable and tell what became of the pairs that had a route over it."""
        cable = CABLES[name]
        self.title(f"{title}: {cable[0]} - {cable[1]}")
        self.down.add(name)
        self.draw()
        users = {pair for pair, route in before.items() if cable in route}
        with self.session.transaction() as tx:
            tx.delete("cable", cable)
        lost = self.between(tx.changes["reachable"].deleted)
        kept = len(users - lost)
        self.say(f"{plural(len(users), 'pair')} had a route over it. Worked out in {self.took()}:")
        if lost:
            told = f"{plural(len(lost), 'pair')} lost their route; {len(before) - len(lost)} kept theirs."
        else:
            told = f"no pair lost its route: {kept} kept theirs by another way. The view is unchanged."
        self.say("  " + told, style="bold")
        self.changes("-", "reachable", tx.changes["reachable"].deleted)
        self.slower(tx.changes["latency"])
        if not lost:
            self.reroute(users, before)
        self.pause()

    def repair(self, name: str) -> None:
        cable = CABLES[name]
        self.title(f"It returns: {cable[0]} - {cable[1]}")
        self.down.discard(name)
        self.draw()
        with self.session.transaction() as tx:
            tx.insert("cable", cable)
        found = self.between(tx.changes["reachable"].inserted)
        self.say(f"{plural(len(found), 'pair')} found a route again, in {self.took()}:", style="bold")
        self.changes("+", "reachable", tx.changes["reachable"].inserted)
        self.pause()

    # --- what changed ----------------------------------------------------------------------------------------

    def changes(self, sign: str, relation: str, rows: list[Any], most: int = 4) -> None:
        """The first of the changes, as the change log has them."""
        for row in rows[:most]:
            self.say("    " + sign + format_row(relation, row), style="red" if sign == "-" else "green")
        if len(rows) > most:
            self.say(f"    ... and {len(rows) - most} more, each pair both ways", style="dim")

    def slower(self, change: Any) -> None:
        """Whose best latency rose, and by how much."""
        old = {row[:2]: row[2] for row in change.deleted}
        rose = sorted((ms - old[x, y], x, y, ms) for x, y, ms in change.inserted if (x, y) in old and x < y)
        if rose:
            by, x, y, ms = rose[-1]
            self.say(f"  {plural(len(rose), 'pair')} got slower, {x} - {y} the most: {ms - by} ms before, {ms} ms now.")

    def reroute(self, users: set[tuple[str, str]], before: dict[tuple[str, str], list[Cable]]) -> None:
        """One pair that changed its route, with the facts of its derivation before and after."""
        pair = min(users, key=lambda p: (len(before[p]) < 2, len(before[p]), p))
        self.say(f"  Why can {pair[0]} reach {pair[1]}?")
        for label, route in (("before", before[pair]), ("now", self.why(pair))):
            for index, fact in enumerate(route):
                self.say(f"    {'' if index else label:6}  {format_row('cable', fact)}", style="cyan")

    # --- questions to the session ----------------------------------------------------------------------------

    def between(self, rows: list[Any]) -> set[tuple[str, str]]:
        """The pairs of two cities in tuples of `reachable`, each once."""
        return {(x, y) for x, y in rows if x < y}

    def pairs(self) -> set[tuple[str, str]]:
        return self.between(list(self.session["reachable"]))

    def routes(self) -> dict[tuple[str, str], list[Cable]]:
        """The cables that the derivation of each pair uses at this moment."""
        return {pair: self.why(pair) for pair in sorted(self.pairs())}

    def why(self, pair: tuple[str, str]) -> list[Cable]:
        return [(a, b, ms) for _, (a, b, ms) in self.session.why("reachable", pair)]

    def took(self) -> str:
        return f"{self.session.stats().last_seconds * 1000:.1f} ms"

    # --- the terminal ----------------------------------------------------------------------------------------

    def title(self, text: str) -> None:
        self.console.print()
        self.console.rule(f"[bold]{text}", align="left", style="dim")
        self.console.print()

    def say(self, text: str, style: str = "") -> None:
        self.console.print(Text(text, style=style))

    def draw(self) -> None:
        for line in MAP:
            picture = Text("    ")
            for piece in line:
                drawn = piece[2:]
                if piece[:2] not in CABLES:
                    picture.append(piece, style="bold")
                elif piece[:2] in self.down:
                    picture.append("✗".center(len(drawn)), style="bold red")
                else:
                    picture.append(drawn, style="green")
            self.console.print(picture)
        self.console.print()

    def pause(self) -> None:
        if self.pauses:
            time.sleep(PAUSE)


def show(*, pauses: bool = True, partitions: int = 1, runtime: livelog.Spark | None = None) -> None:
    """Show the demo on standard output: in colour on a terminal, plainly in a pipe."""
    console = Console(highlight=False)
    if console.width > 100 or not console.is_terminal:
        console.width = 100
    demo = Demo(console, pauses, partitions, runtime)
    with demo.session:
        demo.run()
