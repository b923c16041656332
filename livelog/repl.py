"""A session to talk to: updates, queries and a few commands, one per line.

`Repl` knows what each line means and where it prints; `talk` brings the lines: from a terminal with history
and completion, from a pipe without any prompt.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

from datalog.ast import Relation
from datalog.errors import LivelogError, Note, UsageProblem
from livelog import Session, Transaction
from livelog.io.updates import Operation, parse_operation, read_script
from livelog.io.values import TextProblem, format_row, format_value
from livelog.prompt import Prompt
from livelog.queries import parse_atom, parse_pattern
from livelog.render import ChangeSet, Paint, change_lines, paint_error, paint_for, plural

__all__ = ["Repl", "talk"]

HELP = """\
updates
  +link("a", "b", 3)       insert a tuple; what it changes is printed
  -link("a", "b", 3)       delete it
  @12.5                    advance the clock
  begin                    start a transaction: the updates up to commit are applied as one
  commit, rollback         apply it, or forget it
  load FILE                apply an update script
queries
  ?reachable("a", x)       what x can be; _ matches anything
  ?reachable               all of a relation
  why reachable("a", "c")  the facts of one derivation of a tuple
more
  views                    the relations, their columns and sizes
  stats                    counters of the engine
  explain                  the plan of the program
  help, quit"""


class Repl:
    """The meaning of each line that a person types. Errors are printed; none ends the session."""

    def __init__(self, session: Session, out: TextIO, paint: Paint | None = None) -> None:
        self.session = session
        self.out = out
        self.paint = paint or Paint(False)
        self.pending: Transaction | None = None
        self.failed = False
        self.commands: dict[str, Callable[[str], None]] = {
            "begin": self.begin, "commit": self.commit, "rollback": self.rollback, "load": self.load, "why": self.why,
            "views": self.views, "stats": self.stats, "explain": self.explain, "help": self.help,
        }  # fmt: skip

    @property
    def words(self) -> list[str]:
        """What can be completed: commands and relations."""
        return sorted([*self.commands, "quit", *self.session.program.relations])

    def say(self, text: str = "") -> None:
        self.out.write(text + "\n")
        self.out.flush()

    def execute(self, line: str) -> bool:
        """Do what a line says; False when it says to stop."""
        text = line.strip()
        word, _, rest = text.partition(" ")
        try:
            if word in ("quit", "exit") and not rest:
                return False
            if not text or text.startswith("//"):
                return True
            if text[0] in "+-@{":
                self.update(text)
            elif text[0] == "?":
                self.query(text)
            elif word in self.commands:
                self.commands[word](rest.strip())
            else:
                raise TextProblem("not a command, an update (+ - @) or a query (?); type help", 0, len(text))
        except TextProblem as problem:
            self.failed = True
            carets = "^" * max(1, problem.end - problem.start)
            self.say(f"{self.paint.error('error:')} {problem.message}")
            self.say(f"  {text}\n  {' ' * problem.start}{self.paint.error(carets)}")
        except LivelogError as error:
            self.failed = True
            self.say(paint_error(error.render(), self.paint))
        return True

    # --- updates ---------------------------------------------------------------------------------------------

    def update(self, text: str) -> None:
        operation = parse_operation(text)
        if not isinstance(operation, Operation):
            self.commit("")
        elif self.pending is not None:
            # What is wrong with the operation itself is said at once, and leaves the others alone.
            operation.apply(self.pending)
        else:
            with self.session.transaction() as tx:
                operation.apply(tx)
            self.show(tx.changes)

    def show(self, changes: Mapping[str, ChangeSet]) -> None:
        lines = list(change_lines(changes, self.session.plan.outputs, self.paint))
        self.say("\n".join(lines) if lines else self.paint.faint("no changes"))

    def begin(self, rest: str) -> None:
        if self.pending is not None:
            raise UsageProblem("a transaction is open already; commit or rollback ends it")
        self.pending = self.session.transaction()

    def end(self) -> Transaction:
        if self.pending is None:
            raise UsageProblem("no transaction is open; begin starts one")
        pending, self.pending = self.pending, None
        return pending

    def commit(self, rest: str) -> None:
        self.show(self.end().commit())

    def rollback(self, rest: str) -> None:
        pending = self.end()
        pending.rollback()
        self.say(self.paint.faint(f"{plural(len(pending), 'update')} forgotten"))

    def load(self, rest: str) -> None:
        if not rest:
            raise UsageProblem("load needs the name of an update script")
        if self.pending is not None:
            raise UsageProblem("a transaction is open; commit or rollback first")
        applied = 0
        try:
            with Path(rest).expanduser().open(encoding="utf-8-sig") as file:
                for transaction in read_script(file, rest):
                    with self.session.transaction() as tx:
                        transaction.apply(tx)
                    applied += 1
                    self.show(tx.changes)
        except OSError as error:
            raise UsageProblem(f"cannot read {rest!r}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise UsageProblem(f"{rest!r} is not UTF-8 text") from None
        except LivelogError as error:
            error.notes = (*error.notes, Note(f"{plural(applied, 'transaction')} applied, nothing after that"))
            raise
        self.say(self.paint.faint(f"{plural(applied, 'transaction')} applied"))

    # --- questions -------------------------------------------------------------------------------------------

    def query(self, text: str) -> None:
        pattern = parse_pattern(text, 1)
        relation = self._relation(pattern.relation)
        arguments = pattern.arguments
        if arguments is not None and len(arguments) != relation.arity:
            raise UsageProblem(f"{relation.name} has {plural(relation.arity, 'column')}, not {len(arguments)}")
        variables = pattern.variables
        count = 0
        for found in pattern.bindings(self.session[relation.name]):
            count += 1
            if arguments is None:
                self.say(format_row(relation.name, found))
            elif variables:
                self.say(", ".join(f"{n} = {format_value(v)}" for n, v in zip(variables, found, strict=True)))
        if arguments is not None and not variables:
            self.say("yes" if count else "no")
        else:
            self.say(self.paint.faint(plural(count, "answer" if variables else "tuple")))

    def why(self, rest: str) -> None:
        if not rest:
            raise UsageProblem('why needs a tuple: why reachable("a", "c")')
        name, row = parse_atom("why " + rest, 4)
        relation = self._relation(name)
        if row not in self.session[relation.name]:
            self.say(f"{format_row(name, row)} does not hold")
            return
        for base, fact in self.session.why(name, row):
            self.say("  " + format_row(base, fact))

    def _relation(self, name: str) -> Relation:
        relations = self.session.program.relations
        if name not in relations:
            known = ", ".join(sorted(relations))
            raise UsageProblem(f"there is no relation {name}; there are {known}")
        return relations[name]

    def views(self, rest: str) -> None:
        program = self.session.program
        for name in sorted(program.relations, key=lambda n: (n in program.derived, n)):
            columns = ", ".join(f"{c.name}: {c.type}" for c in program.relations[name].columns)
            kind = "view" if name in program.derived else "base"
            pruned = name in self.session.plan.pruned
            size = "the best tuples only" if pruned else plural(len(self.session[name]), "tuple")
            self.say(f"{kind}  {self.paint.name(name)}({columns})  {self.paint.faint(size)}")

    def stats(self, rest: str) -> None:
        self.say(str(self.session.stats()))

    def explain(self, rest: str) -> None:
        from planner.explain import explain

        self.say(explain(self.session.plan).rstrip("\n"))

    def help(self, rest: str) -> None:
        self.say(HELP)


def talk(session: Session) -> int:
    """Read lines until the end, a `quit` or Ctrl-D. Returns the exit code.

    On a terminal a mistake is only a mistake; in a pipe it makes the exit code 1, for scripts to notice.
    """
    repl = Repl(session, sys.stdout, paint_for(sys.stdout))
    prompt = Prompt(lambda: repl.words)
    if prompt.interactive:
        program = session.program
        sizes = plural(len(program.derived), "view")
        repl.say(f"{program.source.name}: {plural(len(program.relations), 'relation')}, {sizes}. Type help for help.")
    with prompt:
        while True:
            try:
                line = prompt.read("livelog*> " if repl.pending is not None else "livelog> ")
                if line is None or not repl.execute(line):
                    break
            except KeyboardInterrupt:
                if not prompt.interactive:
                    raise
                repl.say("^C")
    if repl.pending is not None and len(repl.pending):
        repl.say(repl.paint.faint(f"{plural(len(repl.pending), 'update')} not committed, and forgotten"))
    return 1 if repl.failed and not prompt.interactive else 0
