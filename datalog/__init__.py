"""The language: text to a checked `Program`.

>>> import datalog
>>> program = datalog.check(datalog.parse('''
...     .decl link(src: symbol, dst: symbol)
...     reach(x, y) :- link(x, y).
...     reach(x, y) :- link(x, z), reach(z, y).
... '''))
>>> [column.type for column in program.relations["reach"].columns]
['symbol', 'symbol']

Mistakes are exceptions below `datalog.errors.LivelogError`, and say where they are:

>>> datalog.check(datalog.parse("reach(x, y) :- link(x, z).", "reach.dl"))
Traceback (most recent call last):
    ...
datalog.errors.CheckProblem: reach.dl:1:10: error: unsafe variable `y` in the head: nothing gives it a value
...
"""

from datalog import errors
from datalog.aggregates import AGGREGATES
from datalog.ast import Atom, Directive, Program, Relation, Rule, Source, Span
from datalog.check import check, functions_of
from datalog.errors import LivelogError
from datalog.format import format_program, format_rule, format_value
from datalog.functions import FUNCTIONS, Function
from datalog.parser import parse
from datalog.reading import decode
from datalog.warnings import warnings_of

__all__ = [
    "AGGREGATES", "FUNCTIONS", "Atom", "Directive", "Function", "LivelogError", "Program", "Relation", "Rule", "Source",
    "Span", "check", "decode", "errors", "format_program", "format_rule", "format_value", "functions_of", "parse",
    "warnings_of",
]
