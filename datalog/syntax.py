"""Syntax errors in plain words.

The reader says which token it met and which it could have used. A person is better served by "expected `,` or `)`",
by the usual suspects (a missing dot, a quote that was never closed, `==`), and by a caret at the place where something
is missing rather than where that was noticed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from datalog.aggregates import AGGREGATES
from datalog.ast import Source
from datalog.errors import Note, SyntaxProblem
from datalog.kinds import AGGREGATE_WORDS, COMPARATORS, LITERAL
from datalog.kinds import OPERATORS as SIGNS
from datalog.report import listed, suggestion
from datalog.scan import CLOSED_STRING, PIECE, Piece, open_comment, scan, span_of, statement_around
from datalog.souffle import FUNCTIONS, OPERATORS, SECTION, end_of, recognise
from datalog.souffle import QUALIFIERS as SOUFFLE_QUALIFIERS
from datalog.tokens import Token, Unexpected

__all__ = ["DIRECTIVES", "QUALIFIERS", "Trouble", "explain"]

DIRECTIVES = ("decl", "input", "output", "printsize", "limitsize", "approx", "const", "type")
QUALIFIERS = ("key", "ttl", "bag", "stream", "partition")


@dataclass(frozen=True, slots=True)
class Trouble:
    """A syntax problem and the offsets of the stretch of text to leave out before reading again."""

    problem: SyntaxProblem
    start: int
    end: int


# --- what was expected ---------------------------------------------------------------------------------------

_WORDS = {
    ")": "`)`", "]": "`]`", "}": "`}`", "(": "`(`", "[": "`[`", "{": "`{`", ",": "`,`", ";": "`;`", ".": "`.`",
    ":-": "`:-`", ":": "`:`", "<:": "`<:`", "=": "`=`", "<": "`<`", ">": "`>`", "name": "a name", "string": "a string",
    "integer": "a number", "float": "a number", "-": "`-`", "*": "`*`", "!": "`!`", "qualifier": "a qualifier",
}  # fmt: skip


def expectation(expected: frozenset[str]) -> str:
    """The kinds of tokens that could stand somewhere, as a person calls them.

    >>> expectation(frozenset({",", ")", "+", "-", "*", "/", "%", "^"}))
    '`)`, `,` or an operator'
    """
    left = set(expected)
    words: list[str] = []
    extra: list[str] = []
    if expected >= {"integer", "string", "["}:
        extra.append("a condition" if "!" in expected else "a value")
        left -= LITERAL
    elif expected >= {"+", "-"}:
        extra.append("an operator")
        left -= SIGNS | (COMPARATORS if "!=" in expected else set())
    if expected & {")", ","}:
        left.discard("(")  # true of every name, and never what was meant
    if "directive" in expected:
        extra.append("the beginning of a rule or declaration")
        left.discard("name")
    words += [word for kind, word in _WORDS.items() if kind in left]
    return listed([*dict.fromkeys(words), *extra], "or")


def explain(error: Unexpected, text: str, source: Source) -> Trouble:
    """The error in plain words."""
    pieces = list(scan(text))
    before = [piece for piece in pieces if piece.end <= error.offset]
    here = next((piece for piece in pieces if piece.end > error.offset), None)
    return _Explainer(text, source, error, before, here).explain()


@dataclass(frozen=True, slots=True)
class _Explainer:
    """One syntax error: the pieces before it, and the piece `here` (None at the end)."""

    text: str
    source: Source
    error: Unexpected
    before: list[Piece]
    here: Piece | None

    @property
    def expected(self) -> frozenset[str]:
        return self.error.expected

    def trouble(self, message: str, start: int, end: int, *hints: str, resume: int | None = None) -> Trouble:
        problem = SyntaxProblem(message, span_of(self.text, start, end), self.source, [Note(hint) for hint in hints])
        first, last = statement_around(self.text, start)
        return Trouble(problem, first, last if resume is None else max(resume, first + 1))

    def explain(self) -> Trouble:
        here = self.here
        for special in (self.souffle, self.custom, self.unclosed, self.qualifier, self.directive, self.suspects,
                        self.aggregate):
            found = special()
            if found is not None:
                return found
        if here is None:
            return self.at_end()
        if here.first and "." in self.expected and self.before:
            return self.no_dot(here)
        return self.trouble(f"expected {expectation(self.expected)}, not `{here.text}`", here.start, here.end)

    def no_dot(self, here: Piece) -> Trouble:
        """What is here begins a statement, but the one before it has no dot."""
        end = self.before[-1].end
        wanted = "`.` or `:-`" if ":-" in self.expected else "`.`"
        return self.trouble(f"expected {wanted} after this", end - 1, end,
                            f"`{here.text}` on the next line begins another statement", resume=here.start)

    def at_end(self) -> Trouble:
        end = self.before[-1].end if self.before else 0
        if "." in self.expected:
            return self.trouble("expected `.` after this: the program ends in the middle of a rule", end - 1, end)
        return self.trouble(f"the program ends too early: expected {expectation(self.expected)}", max(end - 1, 0), end)

    # --- usual suspects ---

    def souffle(self) -> Trouble | None:
        """What Souffle would have understood."""
        found = recognise(self.text, self.before, self.here, self.expected) if self.here is not None else None
        if found is None:
            return None
        message, start, end = found
        first = statement_around(self.text, start)[0]
        resume = None
        if self.text[start] == "#":
            resume = self.text.find("\n", start) if "\n" in self.text[start:] else len(self.text)
        elif re.match(r"\.(?:comp|type)\b", self.text[first : first + 9]):
            resume = end_of(self.text, first)
        return self.trouble(message, start, end, SECTION, resume=resume)

    def custom(self) -> Trouble | None:
        """`r(x y)` was read as the beginning of an aggregate `x y : {...}`; the mistake is the missing comma."""
        names = [token for token in self.error.aggregates if token[1] not in AGGREGATE_WORDS]
        if not names:
            return None
        name, start, end = _place(names[-1])
        known = [*self.before, *([self.here] if self.here else [])]
        after = next((piece for piece in known if piece.start >= end), None)
        if after is None:
            return None
        if name == "not":
            return self.trouble("negation is written `!`, not `not`", start, end)
        if after.text in ("and", "or"):
            sign = "," if after.text == "and" else ";"
            return self.trouble(f"`{after.text}` is written `{sign}`", after.start, after.end)
        if name in OPERATORS or after.text in OPERATORS:
            place = (start, end) if name in OPERATORS else (after.start, after.end)
            return self.trouble(FUNCTIONS[OPERATORS[0]], *place, SECTION)
        if name in AGGREGATES and self.here is not None:
            return self.trouble(f"expected {expectation(self.expected)}, not `{self.here.text}`", self.here.start,
                                self.here.end, f"`{name}` is an aggregate, used as {AGGREGATES[name].uses[1]}")
        return self.trouble(f"expected `,`, an operator or a closing bracket after `{name}`, not `{after.text}`",
                            after.start, after.end)

    def unclosed(self) -> Trouble | None:
        here, text = self.here, self.text
        if here is not None and here.kind == "string" and not CLOSED_STRING.fullmatch(here.text):
            return self.trouble("this string has no closing quote", here.start, here.end, resume=here.end)
        comment = next((m.start() for m in PIECE.finditer(text) if open_comment(m[0])), None)
        if comment is not None and (here is None or here.start >= comment):
            span = span_of(text, comment, comment + 2)
            problem = SyntaxProblem("this comment is never closed by `*/`", span, self.source)
            return Trouble(problem, min(comment, statement_around(text, comment)[0]), len(text))
        return None

    def directive(self) -> Trouble | None:
        here = self.here
        if here is None or here.kind != "directive":
            return None
        name = here.text[1:]
        if name in (*DIRECTIVES, "pragma") and here.first and "." in self.expected:
            return self.no_dot(here)
        if name in (*DIRECTIVES, "pragma"):
            end = self.before[-1].end if self.before else here.start
            return self.trouble(f"expected {expectation(self.expected)} before `{here.text}`", max(end - 1, 0), end,
                                resume=here.start)
        known = listed([f".{word}" for word in DIRECTIVES])
        near = suggestion(name, DIRECTIVES).replace("`", "`.", 1)
        return self.trouble(f"unknown directive `{here.text}`{near}", here.start, here.end,
                            f"the directives are {known}")

    def suspects(self) -> Trouble | None:
        here = self.here
        if here is None:
            return None
        pair = self.text[max(here.start - 1, 0) : here.start + 1]
        if here.text == "==":
            return self.trouble("equality is written `=`", here.start, here.end)
        if here.text == "'":
            return self.trouble("strings stand in double quotes", here.start, here.end)
        if here.text == "#":
            line_end = self.text.find("\n", here.start)
            return self.trouble("a program cannot hold `#`", here.start, here.end, "comments begin with //",
                                resume=line_end if line_end >= 0 else len(self.text))
        if here.text in ("&&", "||", "&", "|", "and", "or"):
            sign = "," if here.text[0] in "&a" else ";"
            return self.trouble(f"`{here.text}` is written `{sign}`", here.start, here.end)
        if here.text in ("<-", ":=", "->", "-") and pair[:1] == "<" and ":-" in self.expected:
            return self.trouble("a rule is written `head :- body.`", here.start - 1, here.end)
        if here.text in ("<-", ":=", "->", ":", "=") and ":-" in self.expected:
            return self.trouble("a rule is written `head :- body.`", here.start, here.end)
        first, _ = statement_around(self.text, here.start)
        if self.expected <= {")", ","} and re.match(r"\.(input|output|printsize)", self.text[first:]):
            return self.trouble(f"expected {expectation(self.expected)}, not `{here.text}`", here.start, here.end,
                                'a value that is not a plain word stands in quotes: filename="a.csv"')
        if here.kind == "word" and here.text[0].isdigit() and self.error.kind == "unreadable":
            return self.trouble(f"`{here.text}` is neither a number nor a name", here.start, here.end)
        if ">" in self.expected and "!=" not in self.expected:
            return self.trouble(f"expected {expectation(self.expected)}, not `{here.text}`", here.start, here.end,
                                "`f<...>` in a head is an aggregate; comparisons belong in the body")
        if here.text in ("<", "<=", ">", ">=", "=", "!=") and self.expected >= {"+", ")"}:
            return self.trouble("a comparison is not a value and cannot be an argument", here.start, here.end)
        if here.text == "@":
            return self.trouble("`@` stands directly behind the bracket of what is read in a body", here.start,
                                here.end, "r(x)@t has the time of a tuple")
        if self.before and self.before[-1].text == ")" and here.text.lower() in ("at", "every") and not here.first:
            return self.trouble(f"expected {expectation(self.expected)}, not `{here.text}`", here.start, here.end,
                                "a relation is read at points of time by `r(x) at s` or `r(x) at every(2)`")
        if self.before and self.before[-1].text == "every" and here.kind == "word" and here.text[0].isdigit():
            return self.trouble(f"the period stands in brackets: at every({here.text})", here.start, here.end)
        if self.before and self.before[-1].text == "!" and here.text == "(":
            return self.trouble("only a single atom can be negated, not a group", here.start, here.end,
                                "give the group a relation of its own and negate that")
        if self.before and self.before[-1].text == ":-" and here.text == ".":
            return self.trouble("the body is empty", self.before[-1].start, here.end, "a fact is written without `:-`")
        return None

    def aggregate(self) -> Trouble | None:
        """An aggregate's name where it cannot stand: as a variable, or `min<x>` in a body."""
        if self.here is not None and self.here.text == ":" and self.before and self.before[-1].text in AGGREGATES:
            before = self.before[-1]
            return self.trouble(f"{before.text} needs something to aggregate: {AGGREGATES[before.text].uses[1]}",
                                before.start, self.here.end)
        names = [token for token in self.error.aggregates if token[1] in AGGREGATE_WORDS]
        if not names or self.here is None:
            return None
        name, start, end = _place(names[-1])
        last = self.error.previous is names[-1]
        if last and self.here.text == "<":
            return self.trouble(f"`{name}<...>` can only stand in a head", start, end,
                                f"in a body write v = {name} x : {{ ... }}")
        if last and (self.here.kind == "mark" and self.here.text not in ("(", "[", "{")):
            return self.trouble(f"`{name}` is the name of an aggregate and cannot be a variable", start, end)
        if ":" in self.expected and self.text[end:].lstrip().startswith("("):
            use = f"{name} x : {{ ... }}" if name not in ("min", "max") else f"{name}(a, b), or {name} x : {{ ... }}"
            return self.trouble(f"`{name}` is an aggregate: it is used as {use}", start, end)
        return None

    def qualifier(self) -> Trouble | None:
        """`.decl r(x: number) kye(x)`: what looks like a head behind a declaration was meant as a qualifier."""
        position = self.here.start if self.here else len(self.text)
        line = self.text.rfind("\n", 0, max(self.before[-1].start if self.before else 0, 0)) + 1
        match = re.match(r"[ \t]*\.decl[^()]*\([^()]*\)[^\n]*?\s([a-z]\w*)\s*(\([^()\n]*\))?\s*$",
                         self.text[line:position])
        if match is None or match[1] in QUALIFIERS:
            return None
        start = line + match.start(1)
        if match[1] in SOUFFLE_QUALIFIERS:
            return self.trouble(SOUFFLE_QUALIFIERS[match[1]], start, line + match.end(1), SECTION, resume=position)
        return self.trouble(f"unknown qualifier `{match[1]}`{suggestion(match[1], QUALIFIERS)}", start,
                            line + match.end(1), f"a declaration can have {listed(QUALIFIERS)}", resume=position)


def _place(token: Token) -> tuple[str, int, int]:
    """The text of a token, and where it begins and ends."""
    _, text, _, _, offset = token
    return text, offset, offset + len(text)
