"""From expressions over variables (`datalog.ast`) to expressions over columns (`operators.expr`)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from datalog.ast import Call, Comparison, Constant, Expression, Program, Rule, Variable
from datalog.errors import RuntimeProblem
from datalog.functions import built_in
from datalog.values import typed_value
from operators.expr import Apply, Col, Const, Expr

__all__ = ["Translator", "as_float"]

COMPARISONS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "=": ("==", operator.eq),
    "!=": ("!=", operator.ne),
    "<": ("<", operator.lt),
    "<=": ("<=", operator.le),
    ">": (">", operator.gt),
    ">=": (">=", operator.ge),
}

INLINE = frozenset("+-*")
"""Arithmetic that the generated code writes out, with a check of the range of `number` around it.

So is a division of floats: one of its arguments is a float for certain.
"""


def as_float(value: Any) -> Any:
    """An int that goes into a float column becomes a float.

    >>> as_float(1), as_float(0.5)
    (1.0, 0.5)
    """
    return float(value) if isinstance(value, int) else value


class _Typed:
    """A function that passes on what a function of the user gave, if it is of a type.

    >>> _Typed("number", "f", "it goes into a column of number")(3)
    3
    """

    __slots__ = ("_what",)

    def __init__(self, type_: str, name: str, wanted: str) -> None:
        self._what = (type_, name, wanted)

    def __call__(self, value: Any) -> Any:
        return typed_value(value, *self._what)


def evaluate(expr: Expr, row: tuple[Any, ...] = ()) -> Any:
    """The value of an expression over a row.

    >>> evaluate(Apply("+", operator.add, (Col(0), Const(1))), (2,))
    3
    """
    if isinstance(expr, Apply):
        return expr.function(*(evaluate(a, row) for a in expr.arguments))
    return row[expr.index] if isinstance(expr, Col) else expr.value


class Translator:
    """Translates the expressions of one body: `definitions` are written out where their variables are used.

    `functions` are those that are not built in, by name; `untold` are variables bound by aggregates of the user that do
    not say what they return.

    >>> x, y = Variable("x"), Variable("y")
    >>> translator = Translator(Program((), {}), {"y": Call("+", (x, Constant(1)), type="number")})
    >>> translator.expression(Call("*", (x, y), type="number"), {"x": Col(0)})
    Apply(name='*', ..., arguments=(Col(index=0), Apply(name='+', ..., inline='+')), inline='*')
    """

    def __init__(
        self,
        program: Program,
        definitions: Mapping[str, Expression],
        functions: Mapping[str, Callable[..., Any]] | None = None,
        untold: Mapping[str, str] | None = None,
    ) -> None:
        self.program = program
        self.definitions = definitions
        self.functions = functions or {}
        self.untold = untold or {}

    def expression(self, node: Expression, row: Mapping[str, Expr]) -> Expr:
        """The value of an expression, given where its variables are in the row."""
        if isinstance(node, Variable):
            known = row.get(node.name)
            return self.expression(self.definitions[node.name], row) if known is None else known
        if isinstance(node, Constant):
            return Const(node.value)
        assert isinstance(node, Call), "aggregates have names of their own by now"
        arguments = tuple(self.expression(a, row) for a in node.arguments)
        return self.call(node, arguments)

    def call(self, node: Call, arguments: tuple[Expr, ...]) -> Expr:
        if node.function in self.functions:
            return Apply(node.function, self.functions[node.function], arguments)
        function = built_in(self.program.longest)[node.function].for_type(node.type)
        inline = node.function if node.function in INLINE and node.type != "unsigned" else None
        if node.function == "/" and node.type == "float":
            inline = "/"
        if inline:  # Python's own operators know more than numbers
            arguments = tuple(self._numeric(a, node) for a in arguments)
        if all(isinstance(a, Const) for a in arguments):
            try:
                return Const(function(*(a.value for a in arguments if isinstance(a, Const))))
            except Exception:  # an error belongs to the rows that reach it: the rule may never have one
                pass
        return Apply(node.function, function, arguments, inline)

    def _numeric(self, argument: Expr, node: Call) -> Expr:
        """What a function of the user gives, where the program computes with it."""
        if not isinstance(argument, Apply) or argument.name not in self.program.functions:
            return argument
        wanted = f"the rule computes with it (`{node.function}`)"
        return Apply("numeric", _Typed("numeric", argument.name, wanted), (argument,))

    def comparison(self, node: Comparison, row: Mapping[str, Expr], sure: bool = False) -> Apply:
        """A comparison as a condition on the row, which is `sure` if it cannot fail."""
        inline, function = COMPARISONS[node.op]
        sides = (self.expression(node.left, row), self.expression(node.right, row))
        return Apply(inline, function, sides, inline, sure)

    def constant(self, node: Expression, rule: Rule) -> Any:
        """The value of an expression without variables; an error names the rule.

        >>> from datalog.ast import Atom
        >>> rule = Rule(Atom("r", ()), ())
        >>> Translator(Program((), {}), {}).constant(Call("+", (Constant(1), Constant(2))), rule)
        3
        """
        with self._naming(rule):
            return evaluate(self.expression(node, {}))

    def holds(self, node: Comparison, rule: Rule) -> bool:
        """Whether a comparison of expressions without variables is true; an error names the rule."""
        with self._naming(rule):
            return bool(evaluate(self.comparison(node, {})))

    @contextmanager
    def _naming(self, rule: Rule) -> Iterator[None]:
        try:
            yield
        except (ArithmeticError, ValueError, TypeError) as error:
            raise RuntimeProblem(str(error), rule.span, self.program.source, rule=rule.text) from error

    def type(self, node: Any, types: Mapping[str, str]) -> str:
        """The static type of an expression, `any` if unknown; `types` are those of the variables in the row."""
        if isinstance(node, Variable):
            if node.name in types:
                return types[node.name]
            return self.type(self.definitions[node.name], types) if node.name in self.definitions else "any"
        if isinstance(node, Constant):
            names = {int: "number", float: "float", str: "symbol", tuple: "list"}
            return names.get(type(node.value), "any")
        return getattr(node, "type", None) or "any"

    def stored(self, node: Expression, row: Mapping[str, Expr], types: Mapping[str, str], column: str) -> Expr:
        """The value of an expression as a column of type `column` keeps it.

        What a function of the user gives has to be of that type.
        """
        value = self.expression(node, row)
        whose = value.name if isinstance(value, Apply) and value.name in self.program.functions else None
        if isinstance(node, Variable) and node.name in self.untold:
            whose = self.untold[node.name]
        if whose is not None and column != "any":
            if column != "number" and self.type(node, types) == column:
                return value  # that is what it says, and it is held to it
            name = "float" if column == "float" else f"as {column}"
            kind = "numbers" if column == "numeric" else column
            return Apply(name, _Typed(column, whose, f"it goes into a column of {kind}"), (value,))
        if column != "float" or self.type(node, types) == "float":
            return value
        if isinstance(value, Const):
            return Const(as_float(value.value))
        return Apply("float", as_float, (value,))
