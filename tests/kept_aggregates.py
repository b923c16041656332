"""Cases about aggregates that once failed on the engine, made small."""

from __future__ import annotations

from tests.cases import Case, RuleText
from tests.oracle import Operation


def _case(*rules: RuleText, lines: tuple[str, ...] = (), history: tuple[tuple[Operation, ...], ...]) -> Case:
    return Case(-1, lines, rules, (), history)


KEPT_AGGREGATES: dict[str, Case] = {
    # 1 and 1.0 are one row: what came in as an int went out as a float, and the sum lost the float that came next.
    "a row that goes by its other name": _case(
        RuleText("q(sum<x>, avg<x>, variance<x>, count<*>)", ("e(_, x)",)),
        history=(
            (("insert", "e", ("z", 10)), ("insert", "e", ("a", 1))),
            (("delete", "e", ("a", 1.0)),),
            (("insert", "e", ("b", 0.5)),),
        ),
    ),
    # The partial sums of that row stayed behind, with a count of nothing.
    "a row of a join that goes by its other name": _case(
        RuleText("q(k, variance<y>, all<y * 0.1>, count<*>)", ("e(k, x)", "e(k, y)")),
        history=((("insert", "e", ("a", 2)),), (("delete", "e", ("a", 2.0)),), (("insert", "e", ("a", 0.5)),)),
    ),
    # What is summed up of one side was computed before it was known that there is a partner.
    "an overflow without a partner": _case(
        RuleText("q(k, sum<x + x + 1>)", ("l(k, x)", "r(k)")),
        lines=(".decl l(k: symbol, x: float)", ".decl r(k: symbol)"),
        history=(
            (("insert", "l", ("a", 1.7e308)), ("insert", "l", ("b", 1.0))),
            (("insert", "r", ("b",)),),
            (("insert", "r", ("a",)), ("insert", "l", ("b", 2.0))),
            (("insert", "l", ("b", 3.0)),),
        ),
    ),
    "a division without a partner": _case(
        RuleText("q(any<100 / x>)", ("l(k, x)", "r(k)")),
        lines=(".decl l(k: symbol, x: float)", ".decl r(k: symbol)"),
        history=(
            (("insert", "l", ("a", 0.0)), ("insert", "l", ("b", 1.0))),
            (("insert", "r", ("b",)),),
            (("insert", "r", ("a",)),),
        ),
    ),
    # The argument reads the join key alone, and was computed before the filter on both sides.
    "a division behind a filter": _case(
        RuleText("q(avg<100 / k>)", ("e(k, x)", "e(k, y)", "x < y")),
        lines=(".decl e(k: number, x: symbol)",),
        history=(
            (("insert", "e", (0, "a")), ("insert", "e", (4, "a"))),
            (("insert", "e", (4, "b")),),
            (("insert", "e", (0, "b")),),
            (("insert", "e", (4, "c")),),
        ),
    ),
    # The same behind a comparison of nested aggregates.
    "a division of a row that does not qualify": _case(
        RuleText(
            "q(max<100 / k>)",
            ("e(k)", "a = avg x : { e(x), x <= k }", "0.5 * a >= count : { e(y), y >= k }"),
        ),
        lines=(".decl e(k: number)",),
        history=(
            (("insert", "e", (0,)),),
            (("insert", "e", (4,)),),
            (("insert", "e", (9,)),),
            (("delete", "e", (4,)),),
        ),
    ),
    "a function that fails for a row that does not qualify": _case(
        RuleText(
            "q(min<fragile(y)>)",
            ("e(x, y)", "all = sum a : { e(a, _) }", "below = sum b : { e(b, c), c < x }", "below >= 0.25 * all"),
        ),
        lines=(".decl e(x: number, y: number)",),
        history=(
            (("insert", "e", (0, 3)), ("insert", "e", (-7, -1))),
            (("insert", "e", (8, 2)),),
            (("insert", "e", (4, 3)),),
        ),
    ),
}
