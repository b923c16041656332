"""A session to talk to: updates, queries and a few commands, one per line.

`Repl` knows what each line means and where it prints; `talk` brings the lines: from a terminal with history
and completion, from a pipe without any prompt.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

import datalog
from datalog.ast import Relation
from datalog.errors import LivelogError, Note, UsageProblem, underlined
from datalog.growth import defines
from datalog.shown import brief
from livelog import Session, Transaction
from livelog.changes import ChangeLog
from livelog.commands.steplog import StepLog, is_stepped
from livelog.conjunctions import answer, is_conjunction
from livelog.io.updates import Operation, parse_operation, read_script
from livelog.io.values import TextProblem, format_row, format_value
from livelog.opening import with_rules
from livelog.prompt import Prompt
from livelog.queries import parse_atom, parse_pattern
from livelog.render import Paint, change_lines, paint_error, paint_for, plural
from livelog.shown import is_kept, named, not_kept

__all__ = ["Repl", "talk"]

Row = tuple[Any, ...]

_INERT = re.compile(r'"(?:\\.|[^"\\])*"?|//[^\n]*')

HELP = """\
updates
  +link("a", "b", 3)       insert a tuple; what it changes is printed
  -link("a", "b", 3)       delete it
  u link("a", "b", 4)      insert it in place of the one with its key
  @12.5                    advance the clock
  @13 +link("a", "b", 3)   advance the clock, and then insert
  begin                    start a transaction: the updates up to commit are applied as one
  commit, rollback         apply it, or forget it
  load FILE                apply an update script
queries
  ?reachable("a", x)       what x can be; _ matches anything
  ?reachable               all of a relation
  ?reachable("a", x), !link("a", x), x < "m"
                           all that the body of a rule can say
  ?reading(x)@t, now(n)    with times, as far as the program has them
  valid reachable          through when a view stays as it is
  why reachable("a", "c")  facts that a tuple follows from, and what else it rests on
rules
  near(x) :- link("a", x). one more view, over what is there. A rule ends with a dot, perhaps lines later
  drop near                the view goes, with its rules; several are told with blanks between them
more
  views                    the relations, their columns and sizes
  stats                    counters of the engine
  explain                  the plan of the program
  help, quit"""

KEPT = """\
this session is kept in {folder}
  what a commit has told is there the next time, and so are the views that were defined"""


class Repl:
    """The meaning of each line that a person types. Errors go to `err`; none ends the session.

    `more` is asked before each further page of a long answer; it says whether to go on. `height` is that of a page.
    `store` is the folder in which the session is kept, if it is.
    """

    def __init__(
        self,
        session: Session,
        out: TextIO,
        paint: Paint | None = None,
        err: TextIO | None = None,
        more: Callable[[], bool] | None = None,
        height: Callable[[], int] = lambda: 24,
        store: Path | None = None,
    ) -> None:
        self.session = session
        self.out = out
        self.err = err or sys.stderr
        self.paint = paint or Paint(False)
        self.more = more
        self.height = height
        self.store = store
        self.pending: Transaction | None = None
        self.failed = False
        self.commands: dict[str, Callable[[str], None]] = {
            "begin": self.begin, "commit": self.commit, "rollback": self.rollback, "load": self.load, "why": self.why,
            "drop": self.drop, "views": self.views, "valid": self.valid, "stats": self.stats, "explain": self.explain,
            "help": self.help,
        }  # fmt: skip

    @property
    def words(self) -> list[str]:
        """What can be completed: commands and relations."""
        return sorted([*self.commands, "quit", *named(self.session.program)])

    def say(self, text: str = "") -> None:
        self.out.write(text + "\n")
        self.out.flush()

    def complain(self, text: str) -> None:
        """Tell of an error."""
        self.failed = True
        self.out.flush()
        self.err.write(text + "\n")
        self.err.flush()

    def list(self, lines: Iterable[str]) -> int:
        """Say lines, page by page where somebody can ask for the next one; returns how many there were in all."""
        count, shown, going = 0, 0, True
        for line in lines:
            if self.more is not None and going and shown == self.height() - 2:
                shown, going = 0, self.more()
            if going:
                self.out.write(line + "\n")
            count, shown = count + 1, shown + 1
        self.out.flush()
        return count

    def execute(self, line: str) -> bool:
        """Do what a line says; False when it says to stop."""
        text = line.strip()
        word, _, rest = text.partition(" ")
        try:
            if word in ("quit", "exit") and not rest:
                return False
            if not text or text.startswith("//"):
                return True
            if word == ".drop":
                self.drop(rest)
            elif text[0] == "." or is_rule(text):
                self.rule(text)
            elif text[0] in "+-@{" or word == "u":
                self.update(text)
            elif text[0] == "?":
                self.query(text)
            elif word in self.commands:
                self.commands[word](rest.strip())
            else:
                raise TextProblem("not a command, an update (+ - @) or a query (?); type help", 0, len(text))
        except TextProblem as problem:
            line, padding, carets = underlined(text, problem.start, problem.end)
            quoted = f"  {line}\n  {padding}{self.paint.error(carets)}"
            self.complain(f"{self.paint.error('error:')} {brief(problem.message)}\n{quoted}")
        except LivelogError as error:
            self.complain(paint_error(error.render(), self.paint))
        return True

    # --- updates ---------------------------------------------------------------------------------------------

    def update(self, text: str) -> None:
        operation = parse_operation(text)
        if not isinstance(operation, Operation):
            self.commit("")
        elif self.pending is not None:
            # What is wrong with the operation itself is said at once, and leaves the others alone.
            self.met(operation.apply(self.pending))
        else:
            with self.session.transaction() as tx:
                count = operation.apply(tx)
            self.met(count)
            self.show(tx.changes)

    def met(self, count: int | None) -> None:
        """Say how many facts a deletion with `_` meets."""
        if count is not None:
            self.say(self.paint.faint(f"{plural(count, 'fact')} deleted"))

    def show(self, changes: ChangeLog) -> None:
        if is_stepped(self.session):
            log = StepLog(self.session)
            lines = list(log.lines(log.operations(changes), self.paint))
        else:
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
                        met = transaction.apply(tx)
                    applied += 1
                    for text, count in met:
                        self.say(self.paint.faint(f"{text}: {plural(count, 'fact')} deleted"))
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

    def dated(self) -> None:
        """Say which state an answer shows, where that is not the one after what was typed last."""
        if self.pending is not None and len(self.pending):
            open_ = plural(len(self.pending), "open update")
            self.say(self.paint.faint(f"as of the last commit, without the {open_}:"))

    def query(self, text: str) -> None:
        self.dated()
        if is_conjunction(text[1:]):
            answers = answer(self.session, text[1:])
            self.tell(answers.variables, answers.rows)
            return
        pattern = parse_pattern(text, 1)
        relation = self._relation(pattern.relation)
        arguments = pattern.arguments
        if arguments is not None and len(arguments) != len(relation.shown):
            raise UsageProblem(f"{relation.name} has {plural(len(relation.shown), 'column')}, not {len(arguments)}")
        found = pattern.bindings(self.session[relation.name])
        if arguments is None:
            count = self.list(format_row(relation.name, row) for row in found)
            self.say(self.paint.faint(plural(count, "tuple")))
        else:
            self.tell(pattern.variables, found)

    def tell(self, variables: Sequence[str], rows: Iterable[Row]) -> None:
        """The answers to a query: what its variables can be, or yes or no."""
        if not variables:
            self.say("yes" if any(True for _ in rows) else "no")
            return
        texts = (", ".join(f"{n} = {format_value(v)}" for n, v in zip(variables, row, strict=True)) for row in rows)
        self.say(self.paint.faint(plural(self.list(texts), "answer")))

    def rule(self, text: str) -> None:
        """More rules or declarations: new views are defined, and for others a session takes the place of this one."""
        if self.pending is not None:
            raise UsageProblem("a transaction is open; commit or rollback first")
        before = self.session
        if self.store is not None or defines(before.program, text):
            before.define(text)
        else:  # more of something that is there: everything is evaluated anew
            self.session = with_rules(before, text)
            before.close()
        heads = dict.fromkeys(rule.head.relation for rule in datalog.parse(text).rules)
        sizes = (f"{self.paint.name(name)}: {self.size(name)}" for name in heads)
        self.say(", ".join(sizes) or self.paint.faint("declared"))

    def drop(self, rest: str) -> None:
        """Views go."""
        names = rest.rstrip(".").replace(",", " ").split()
        if not names:
            raise UsageProblem("drop needs the name of a view: drop near")
        if self.pending is not None:
            raise UsageProblem("a transaction is open; commit or rollback first")
        self.session.drop(*names)
        self.say(self.paint.faint("dropped"))

    def size(self, name: str) -> str:
        """How many tuples a relation has, or why that is not told."""
        if not is_kept(self.session.plan, name):
            return "points of the clock"
        if name in self.session.plan.pruned:
            return "the best tuples only"
        return plural(len(self.session[name]), "tuple")

    def why(self, rest: str) -> None:
        if not rest:
            raise UsageProblem('why needs a tuple: why reachable("a", "c")')
        name, row = parse_atom("why " + rest, 4)
        relation = self._relation(name)
        self.dated()
        if row not in self.session[relation.name]:
            self.say(f"{format_row(name, row)} does not hold")
            return
        for line in self.session.why(name, row).lines():
            self.say("  " + line)

    def _relation(self, name: str) -> Relation:
        relations = named(self.session.program)
        if name not in relations:
            known = ", ".join(sorted(relations))
            raise UsageProblem(f"there is no relation {name}; there are {known}")
        if not is_kept(self.session.plan, name):
            raise UsageProblem(not_kept(name))
        return relations[name]

    def views(self, rest: str) -> None:
        program = self.session.program
        self.dated()
        for name, relation in sorted(named(program).items(), key=lambda item: (item[0] in program.derived, item[0])):
            columns = ", ".join(f"{c.name}: {c.type}" for c in relation.shown)
            kind = "view" if name in program.derived else "base"
            self.say(f"{kind}  {self.paint.name(name)}({columns})  {self.paint.faint(self.size(name))}")

    def valid(self, rest: str) -> None:
        if not rest:
            raise UsageProblem("valid needs the name of a view: valid reachable")
        validity = self.session[self._relation(rest).name].valid
        following = "unknown" if validity.next is None else f"at {validity.next}"
        self.say(f"through {validity.through}, next refresh {following}")

    def stats(self, rest: str) -> None:
        self.say(str(self.session.stats()))
        if self.store is not None:
            journal = self.session._with_journal.journal
            newest = journal.newest()
            before = 0 if newest is None else newest.number
            self.say(f"kept in {self.store}: transaction {journal.published}, checkpoint of {before}")

    def explain(self, rest: str) -> None:
        from planner.explain import explain

        self.say(explain(self.session.plan).rstrip("\n"))

    def help(self, rest: str) -> None:
        self.say(HELP if self.store is None else f"{HELP}\n{KEPT.format(folder=self.store)}")


def _bare(text: str) -> str:
    """What a person has typed, without texts in quotes and without comments: signs in these mean nothing."""
    return _INERT.sub("", text)


def is_rule(text: str) -> bool:
    """Whether a line has the sign of a rule in it, outside of quotes.

    >>> is_rule('r(x) :- e(x).'), is_rule('+e(":-")')
    (True, False)
    """
    return ":-" in _bare(text)


def is_unfinished(text: str) -> bool:
    """Whether a rule or a query goes on in the next line.

    >>> [is_unfinished(t) for t in ("r(x) :-", "r(x) :- e(x).", "?r(x), ", "?r(x, ", "?r(x)", "+e(1,")]
    [True, False, True, True, False, False]
    >>> is_unfinished("r(x) :- e(x).  // all"), is_unfinished("r(x) :- e(x),  // and.")
    (False, True)
    """
    bare = _bare(text).rstrip()
    if is_rule(text):
        return not bare.endswith(".")
    if not bare.startswith("?"):
        return False
    return bare.endswith(",") or any(bare.count(a) > bare.count(b) for a, b in ("()", "[]", "{}"))


def talk(session: Session, store: Path | None = None) -> int:
    """Read lines until the end, a `quit` or Ctrl-D. Returns the exit code. The session is closed then.

    `store` is the folder in which it is kept, if it is.
    On a terminal a mistake is only a mistake; in a pipe it makes the exit code 1, for scripts to notice.
    """
    prompt = Prompt(lambda: repl.words)
    paging = prompt.interactive and sys.stdout.isatty()
    repl = Repl(
        session, sys.stdout, paint_for(sys.stdout), sys.stderr, prompt.more if paging else None,
        lambda: shutil.get_terminal_size().lines, store,
    )  # fmt: skip
    if prompt.interactive:
        program = session.program
        sizes = plural(len(program.derived), "view")
        kept = "" if store is None else f", kept in {store}"
        relations = plural(len(named(program)), "relation")
        repl.say(f"{program.source.name}: {relations}, {sizes}{kept}. Type help for help.")
    with prompt:
        while True:
            try:
                line = prompt.read("livelog*> " if repl.pending is not None else "livelog> ")
                while line is not None and is_unfinished(line):
                    further = prompt.read("     ...> ")
                    if not further or not further.strip():  # an empty line: what there is, is all there is
                        break
                    line = f"{line}{' ' if line.startswith('?') else chr(10)}{further}"
                if line is None or not repl.execute(line):
                    break
            except KeyboardInterrupt:
                if not prompt.interactive:
                    raise
                repl.say("^C")
    if repl.pending is not None and len(repl.pending):
        repl.say(repl.paint.faint(f"{plural(len(repl.pending), 'update')} not committed, and forgotten"))
    repl.session.close()
    return 1 if repl.failed and not prompt.interactive else 0
