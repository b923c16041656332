"""The kinds of tokens by what they can do in a rule, and the names that are those of aggregates."""

from __future__ import annotations

import re

from datalog.tokens import NAME

__all__ = [
    "AGGREGATED", "AGGREGATE_WORDS", "BEFORE_TARGET", "BEHIND_VALUE", "COMPARATORS", "ENDS_LITERAL", "FIRST",
    "FREE_AGGREGATE", "LITERAL", "NO_ATOMS", "OPERATORS", "SPECIAL", "STRENGTH", "SUFFIX", "VALUE",
]  # fmt: skip

STRENGTH = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}
"""Operators between operands, by how strongly they bind."""
OPERATORS = frozenset({*STRENGTH, "^"})
COMPARATORS = frozenset({"=", "!=", "<", "<=", ">", ">="})

VALUE = frozenset({"integer", "float", "string", "name", "[", "-", "("})
"""What a value can begin with."""
LITERAL = VALUE | {"!"}
"""What a literal can begin with."""
FIRST = {")": VALUE | {")"}, "]": VALUE | {"]"}}
"""What can follow the bracket that is closed so."""
AGGREGATED = frozenset({"{", "name"})
"""What the body of an aggregate can begin with."""

SUFFIX = frozenset({"@", "name"})
"""What can go on with an atom behind its bracket: `@t`, and `at`."""
ENDS_LITERAL = frozenset({",", ";", ".", ")", "}"})
BEHIND_VALUE = ENDS_LITERAL | OPERATORS | COMPARATORS | {"]", ":", ":-"}
"""What can stand behind a value in one place or another."""

AGGREGATE_WORDS = frozenset({"min", "max", "sum", "count", "avg", "mean"})
"""The aggregates whose names are reserved words."""

# Other aggregates and those of the user are no reserved words: their name stands directly before the target,
# `median x : {...}`. Nothing else puts a name before another name, a number, a string or a list on the same line.
# Those of the language may also stand before a bracket, `variance (x - y) * z : {...}`, if a colon follows.
_FREE = ("variance", "stddev", "count_distinct", "median", "quantile", "top", "bottom", "collect", "all", "any")
_BRACKET = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
FREE_AGGREGATE = re.compile(
    rf"""{NAME}(?=[ \t]+[\w?"\[])|(?:{"|".join(_FREE)})(?=\s*{_BRACKET}"""
    rf"""(?:[^{{}}(),;:<>=!]|{_BRACKET}){{0,99}}(?:,\s*(?!count\s*:)[\w.-]+\s*)?:(?!-))"""
)
BEFORE_TARGET = frozenset({"name", "integer", "float", "string", "[", "unreadable"})
"""What follows the name of a free aggregate that is not one of the language's own."""

SPECIAL = AGGREGATE_WORDS.union(_FREE, ("_", "nil"))
"""Names that may be more than the name of a variable or function."""
NO_ATOMS = SPECIAL.union(("neg", "list")) - {"nil"}
"""Names that are, or may be, not that of a relation where arguments follow."""
