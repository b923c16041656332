"""The aggregates of the language: what they take, what they give, and the parameter that some of them have."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from datalog.ast import Aggregate, Constant, HeadAggregate
from datalog.errors import Note
from datalog.format import RESERVED
from datalog.functions import giving, result_type
from datalog.report import Report, listed, suggestion
from datalog.values import typed_value

__all__ = ["AGGREGATES", "RESERVED", "AggregateFunction", "check_aggregate", "signature", "user_aggregates"]


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """An aggregate of the language.

    `takes` is `number` or `any`. `gives` is a type, `numeric` (the kind of number of what it takes), or `same` (as what
    it takes). `parameter` is what a second, constant argument means: a `fraction` from 0 to 1 or a `size`, at least 1.
    """

    name: str
    takes: str
    gives: str
    parameter: str = ""

    @property
    def uses(self) -> tuple[str, str]:
        """How it is written, in a head and in a body.

        >>> AGGREGATES["top"].uses
        ('top<x, 3>', 'top x, 3 : { ... }')
        """
        example = {"fraction": ", 0.9", "size": ", 3"}.get(self.parameter, "")
        return f"{self.name}<x{example}>", f"{self.name} x{example} : {{ ... }}"


AGGREGATES: Mapping[str, AggregateFunction] = {
    aggregate.name: aggregate
    for aggregate in (
        AggregateFunction("min", "any", "same"),
        AggregateFunction("max", "any", "same"),
        AggregateFunction("sum", "number", "numeric"),
        AggregateFunction("count", "any", "number"),
        AggregateFunction("avg", "number", "float"),
        AggregateFunction("mean", "number", "float"),
        AggregateFunction("variance", "number", "float"),
        AggregateFunction("stddev", "number", "float"),
        AggregateFunction("count_distinct", "any", "number"),
        AggregateFunction("median", "number", "float"),
        AggregateFunction("quantile", "number", "float", "fraction"),
        AggregateFunction("top", "any", "list", "size"),
        AggregateFunction("bottom", "any", "list", "size"),
        AggregateFunction("collect", "any", "list"),
        AggregateFunction("all", "number", "number"),
        AggregateFunction("any", "number", "number"),
    )
}


def signature(function: str, registered: Mapping[str, Any]) -> AggregateFunction | None:
    """What is known of an aggregate, built in or registered by the user; None if there is none with that name.

    >>> signature("stddev", {}).gives, signature("longest", {"longest": max}).gives
    ('float', 'any')
    """
    if function in registered:
        return AggregateFunction(function, "any", result_type(registered[function]))
    return AGGREGATES.get(function)


def check_aggregate(node: Aggregate | HeadAggregate, registered: Mapping[str, Any], report: Report) -> None:
    """Whether an aggregate exists and has the parameter that it needs."""
    known = signature(node.function, registered)
    if known is None:
        names = AGGREGATES.keys() | registered.keys()
        report.add(f"unknown aggregate `{node.function}`{suggestion(node.function, names)}", node.span,
                   Note(f"the aggregates are {listed(sorted(names))}"))
        return
    usage = Note(f"it is used as {known.uses[isinstance(node, Aggregate)]}")
    if node.parameter is None:
        if known.parameter:
            wanted = "a fraction between 0 and 1" if known.parameter == "fraction" else "a size"
            report.add(f"`{node.function}` needs {wanted} as its second argument", node.span, usage)
        return
    span = node.parameter.span
    if not known.parameter:
        report.add(f"`{node.function}` takes one argument", span, usage)
    elif not isinstance(node.parameter, Constant):
        report.add(f"the second argument of `{node.function}` must be a number or the name of a .const", span, usage)
    elif problem := _misfit(known.parameter, node.parameter.value):
        report.add(f"the second argument of `{node.function}` must be {problem}", span, usage)


def _misfit(parameter: str, value: Any) -> str | None:
    """What a constant should have been, if it cannot be such a parameter."""
    if parameter == "fraction":
        return None if isinstance(value, (int, float)) and 0 <= value <= 1 else "a number from 0 to 1"
    return None if isinstance(value, int) and value >= 1 else "a whole number, at least 1"


def user_aggregates(aggregates: Mapping[str, Callable[..., Any]], longest: int | None = None) -> dict[str, Any]:
    """Aggregates that a user registered, made to give values of the language, and of the type that they say.

    A function of a list is wrapped; what has a `finishing` method (`livelog.aggregate`) is asked for its like. Both
    have a method `typed` that gives the same for a column of a type.

    >>> user_aggregates({"ends": lambda values: [values[0], values[-1]]})["ends"]([1, 2, 3])
    (1, 3)
    """
    return {name: _user_aggregate(name, function, longest) for name, function in aggregates.items()}


def _user_aggregate(name: str, function: Any, longest: int | None) -> Any:
    said = result_type(function)
    if hasattr(function, "finishing"):
        made = function.finishing(giving(name, lambda answer: answer, said, longest))
    else:
        made = functools.wraps(function, updated=())(giving(name, function, said, longest))
    made.typed = lambda column: _typed(name, made, column)
    return made


def _typed(name: str, made: Any, column: str) -> Any:
    """An aggregate whose answers go into a column of a type."""
    if column == "any":
        return made

    def convert(answer: Any) -> Any:
        return None if answer is None else typed_value(answer, column, name, f"it goes into a column of {column}")

    return made.finishing(convert) if hasattr(made, "finishing") else lambda values: convert(made(values))
