"""What Souffle has and Livelog has not: how it is recognised, and what to write instead.

Some of it changes nothing about the answers (how a relation is stored, options of Souffle's own command line): that
is accepted with a remark. The rest is an error that calls it by its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from datalog.ast import Directive, Source
from datalog.errors import Remark
from datalog.pieces import Declaration, Pragma
from datalog.scan import Piece, scan

__all__ = [
    "COMPONENTS", "CONDITIONS", "FUNCTIONS", "IGNORED", "MISSING", "OLD_DIRECTIVES", "OPERATORS", "QUALIFIERS",
    "SECTION", "component", "end_of", "old_directives", "recognise", "remarks_on",
]

SECTION = 'see "What Souffle has and Livelog has not" in docs/language.md'

_INSTEAD = {
    "components (`.comp`, `.init`, `.override`)": "write their relations and rules out, once for each use",
    "records (`.type R = [...]`)": "give the relation a column for each field, or one of type `list`",
    "algebraic data types": 'use a list with a tag in front, `["leaf", x]`, or a relation for each branch',
    "union types": "use the type that all of them are made of, `.type A = symbol`",
    "subsumption (`<=` between heads)": "keep the best with an aggregate, `best(x, min<c>) :- r(x, c).`",
    "functors in C++ (`.functor`, `@f`)": "write `f(x)`, and register the Python function `f`",
    "aggregates in C++ (`@@f`)": "write `f<x>` or `f x : { ... }`, and register the Python aggregate `f`",
    "counters (`$`, `autoinc()`)": "count what comes before, `n = count : { r(y), y < x }`, or bring numbers as facts",
    "`choice-domain`": "choose with an aggregate, `r(x, min<y>) :- s(x, y).`, or by `key(x)` where facts fill it",
    "`.plan`": "leave it out, the planner orders the atoms itself",
    "equivalence relations (`eqrel`)": "write the rules, `e(y, x) :- e(x, y).` and `e(x, z) :- e(x, y), e(y, z).`",
    "lattices (`.lattice`)": "aggregate in the head, `r(x, max<v>) :- s(x, v).`",
    "`.include`": "put the programs into one file",
    "types made by `.number_type` and `.symbol_type`": "write `.type A = number` or `.type A = symbol`",
    "types with nothing but a name (`.type A`)": "write `.type A = symbol`",
    "the C preprocessor (`#include`, `#define`)": "write `.const` for a constant, or run the program through `cpp -P`",
    "`match`": "register a Python function, and compare what it gives: `matches(p, x) = 1`",
    "`contains`": "register a Python function, and compare what it gives: `holds(x, y) = 1`",
    "`range`": "write rules, `n(1).` and `n(i + 1) :- n(i), i < 10.`",
    "casts (`as`)": "leave it out; `to_number` and `to_string` convert",
    "conversions (`to_float`, `to_unsigned`, `itof`, ...)": "a number times 1.0 is a float; for texts register a "
                                                          "Python function",
    "bitwise and logical operators (`band`, `lor`, ...)": "register a Python function, and call it: `band(x, y)`",
}  # fmt: skip

MISSING = {what: f"Souffle has {what}, Livelog has not: {instead}" for what, instead in _INSTEAD.items()}
"""The message for each construct."""


def _named(start: str) -> str:
    """The message for the construct whose name starts like this."""
    return next(message for what, message in MISSING.items() if what.startswith(start))


COMPONENTS, _COUNTERS, _FUNCTORS = _named("components"), _named("counters"), _named("functors")
_BITWISE = _named("bitwise")
_DIRECTIVES = {
    "comp": COMPONENTS, "init": COMPONENTS, "override": COMPONENTS, "functor": _FUNCTORS, "plan": _named("`.plan"),
    "lattice": _named("lattices"), "include": _named("`.include"), "number_type": _named("types made"),
    "symbol_type": _named("types made"),
}  # fmt: skip
OPERATORS = ("band", "bor", "bxor", "bnot", "bshl", "bshr", "bshru", "land", "lor", "lxor", "lnot")
_CONVERSIONS = ("to_float", "to_unsigned", "itof", "itou", "utof", "utoi", "ftoi", "ftou")
_PREPROCESSOR = re.compile(r"#\s*(?:include|define|undef|ifdef|ifndef|if|elif|else|endif|pragma|error|line)\b")

QUALIFIERS = {"eqrel": _named("equivalence"), "choice": _named("`choice")}
FUNCTIONS = {
    "range": _named("`range"), "as": _named("casts"), "autoinc": _COUNTERS,
    **dict.fromkeys(_CONVERSIONS, _named("conversions")), **dict.fromkeys(OPERATORS, _BITWISE),
}  # fmt: skip
CONDITIONS = {"match": _named("`match"), "contains": _named("`contains")}
"""What a rule of Souffle can have among its atoms; both take two arguments."""

OLD_DIRECTIVES = ("input", "output", "printsize")
"""Directives that may also stand behind a declaration."""

_STORED, _EVALUATED = "how Souffle stores a relation", "how Souffle evaluates a relation"
IGNORED = {
    "btree": _STORED, "btree_delete": _STORED, "brie": _STORED, "magic": _EVALUATED, "no_magic": _EVALUATED,
    "inline": _EVALUATED, "no_inline": _EVALUATED, "overridable": "what Souffle's components may replace",
}  # fmt: skip
"""Qualifiers that are accepted and do nothing, with what they say."""


def old_directives(declaration: Declaration) -> Iterator[Directive]:
    """`.decl r(...) output`, which Souffle has from its first years, means `.output r`."""
    for qualifier in declaration.qualifiers:
        if qualifier.kind in OLD_DIRECTIVES:
            for name in declaration.names:
                yield Directive(qualifier.kind, name.text, {}, qualifier.span)


def remarks_on(statement: Declaration | Pragma, source: Source) -> Iterator[Remark]:
    """What is to be said of a statement that is accepted for Souffle's sake."""
    if isinstance(statement, Pragma):
        yield Remark("`.pragma` sets an option of Souffle: it is accepted and does nothing", statement.span, source)
        return
    for qualifier in statement.qualifiers:
        kind = qualifier.kind
        if kind in OLD_DIRECTIVES:
            meant = f".{kind} {', '.join(name.text for name in statement.names)}"
            yield Remark(f"`{kind}` behind a declaration is an old way to write `{meant}`", qualifier.span, source)
        elif kind in IGNORED:
            yield Remark(f"`{kind}` says {IGNORED[kind]}: it is accepted and does nothing", qualifier.span, source)


def component(text: str, offset: int) -> bool:
    """Whether the name that ends here is that of a component, whose relation follows behind a dot.

    >>> component("r(x) :- graph.edge(x).", 13), component("r(x) :- graph. edge(x).", 13)
    (True, False)
    """
    return re.match(r"\.[A-Za-z_]\w*\s*\(", text[offset : offset + 200]) is not None


def recognise(
    text: str, before: Sequence[Piece], here: Piece, expected: frozenset[str]
) -> tuple[str, int, int] | None:
    """The message about the construct of Souffle that a syntax error is about, and where it stands; None for others."""
    last = [piece.text for piece in before[-4:]]
    if here.kind == "directive" and here.text[1:] in _DIRECTIVES:
        return _DIRECTIVES[here.text[1:]], here.start, here.end
    if here.text == "#" and (line := _PREPROCESSOR.match(text, here.start)):
        return _named("the C pre"), here.start, line.end()
    if here.text == "@" and "string" in expected:
        twice = text.startswith("@@", here.start)
        return _named("aggregates in C++") if twice else _FUNCTORS, here.start, here.end
    if here.text == "$":
        branch = re.match(r"\$[A-Za-z_]\w*", text[here.start : here.start + 200])
        return _named("algebraic") if branch else _COUNTERS, here.start, here.start + (branch.end() if branch else 1)
    if here.text == "<=" and ":-" in expected:
        return _named("subsumption"), here.start, here.end
    if here.text == "-" and last[-1:] == ["choice"] and text.startswith("-domain", here.start):
        return QUALIFIERS["choice"], before[-1].start, here.start + len("-domain")
    if here.text == ":" and text.startswith("::", here.start):
        return COMPONENTS, here.start, here.start + 2
    if here.text == "." and before and before[-1].end == here.start and component(text, here.start):
        return COMPONENTS, before[-1].start, here.end
    if here.text in OPERATORS:
        return _BITWISE, here.start, here.end
    return _of_type(before, here, last, expected)


def _of_type(
    before: Sequence[Piece], here: Piece, last: list[str], expected: frozenset[str]
) -> tuple[str, int, int] | None:
    """Types that are more than a second name."""
    if last[-3:-2] == [".type"] and last[-1] in ("=", "<:") and here.text == "[":
        return _named("records"), here.start, here.end
    if last[:1] == [".type"] and len(last) == 4 and here.text in ("{", "|"):
        return _named("algebraic" if here.text == "{" else "union"), before[-1].start, here.end
    if last[-2:-1] == [".type"] and "<:" in expected:
        return _named("types with nothing"), before[-2].start, before[-1].end
    return None


def end_of(text: str, start: int) -> int:
    """The offset at which a component, or a type of several lines, is over that begins at `start`.

    >>> text = ".comp A { .decl r(x: number)\\n r(1). } b(2)."
    >>> text[end_of(text, 0):]
    ' b(2).'
    """
    depth, previous, end = 0, "", len(text)
    for piece in scan(text[start:]):
        if previous and piece.first and depth <= 0 and piece.text not in ("{", "|") and previous not in ("|", "="):
            return start + piece.start
        depth += (piece.text in ("(", "{", "[")) - (piece.text in (")", "}", "]"))
        if piece.text == "}" and depth <= 0 and text.startswith(".comp", start):
            return start + piece.end
        previous = piece.text
    return end
