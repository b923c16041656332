"""Arguments that cannot be meant: a sentence that helps, and never an error from somewhere inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars
import pytest

import datalog
import livelog
from livelog import UsageProblem

PROGRAM = ".decl link(x: symbol, y: symbol)\nr(x, y) :- link(x, y).\nr(x, y) :- link(x, z), r(z, y)."
ROWS = [("a", "b"), ("b", "c")]


def opened(**options: Any) -> livelog.Session:
    return livelog.open(datalog.parse(PROGRAM), **options)


def over(**options: Any) -> livelog.Spark:
    class Context:
        sparkContext = None

    return livelog.Spark(Context(), **options)  # type: ignore[arg-type]


OPENING: dict[str, tuple[Callable[[], Any], str]] = {
    "no program": (lambda: livelog.open(None), "a program is .*, not None"),  # type: ignore[arg-type]
    "a number": (lambda: livelog.open(3), "a program is .*, not 3"),  # type: ignore[arg-type]
    "bytes": (lambda: livelog.open(b"r(1)."), "not a bytes"),  # type: ignore[arg-type]
    "partitions as text": (lambda: opened(partitions="2"), "`partitions` is a whole number, not '2'"),
    "half a partition": (lambda: opened(partitions=1.5), "`partitions` is a whole number, not 1.5"),
    "partitions as a truth": (lambda: opened(partitions=True), "`partitions` is a whole number, not True"),
    "no partitions": (lambda: opened(partitions=None), "`partitions` is a whole number, not None"),
    "zero partitions": (lambda: opened(partitions=0), "at least one partition"),
    "too many partitions": (lambda: opened(partitions=10**30), "at most 10000 partitions"),
    "limit as text": (lambda: opened(limit="x"), "`limit` is a whole number, not 'x'"),
    "no limit": (lambda: opened(limit=None), "`limit` is a whole number, not None"),
    "limit of nothing": (lambda: opened(limit=0), "the limit must be positive"),
    "seed as text": (lambda: opened(seed="x"), "`seed` is a whole number, not 'x'"),
    "select as text": (lambda: opened(select="no"), "`select` is True or False, not 'no'"),
    "script as a number": (lambda: opened(script=3), "`script` is a text, not 3"),
    "strategy as a list": (lambda: opened(strategy=["dred"]), "`strategy` is a text, not a list"),
    "unknown strategy": (lambda: opened(strategy="fast"), "unknown strategy 'fast'"),
    "ship as a number": (lambda: opened(ship=3), "`ship` is a text, not 3"),
    "runtime as text": (lambda: opened(runtime="spark"), r"runtime= takes livelog\.Spark"),
    "facts as a number": (lambda: opened(facts=3), "`facts` is a folder or a mapping .*, not 3"),
    "facts as a list": (lambda: opened(facts=[("a", "b")]), "`facts` is a folder or a mapping .*, not a list"),
    "rows as a number": (lambda: opened(facts={"link": 3}), "the rows of `link` are .*, not 3"),
    "no rows": (lambda: opened(facts={"link": None}), "the rows of `link` are .*, not None"),
    "rows as text": (lambda: opened(facts={"link": "ab"}), "the rows of `link` are .*, not 'ab'"),
    "rows that are not made yet": (
        lambda: opened(facts={"link": polars.LazyFrame({"a": ["x"], "b": ["y"]})}),
        r"the rows of `link` are a LazyFrame, which has none yet: collect\(\) makes them",
    ),
    "a row as a number": (lambda: opened(facts={"link": [3]}), "a row of `link` is a tuple, not 3"),
    "a relation as a number": (lambda: opened(facts={3: []}), "`facts` is a mapping from names, and 3 is none"),
    "facts of a view": (lambda: opened(facts={"r": ROWS}), "`r` is a view"),
    "facts of nothing": (lambda: opened(facts={"lnk": ROWS}), "no relation `lnk`"),
    "constants as a list": (lambda: opened(constants=["k=3"]), "`constants` is a mapping from names, not a list"),
    "constants as text": (lambda: opened(constants="k=3"), "`constants` is a mapping from names, not 'k=3'"),
    "a constant's name": (lambda: opened(constants={3: 1}), "`constants` is a mapping from names, and 3 is none"),
    "a function as a number": (lambda: opened(functions={"f": 3}), "`f` in `functions` is 3, which cannot be called"),
    "a function alone": (lambda: opened(functions=len), "`functions` is a mapping from names, not a builtin"),
    "a function's name": (lambda: opened(functions={3: len}), "`functions` is a mapping .* 3 is none"),
    "an aggregate as a number": (lambda: opened(aggregates={"a": 3}), "`a` in `aggregates` is 3, which cannot be"),
    "aggregates as a list": (lambda: opened(aggregates=[sum]), "`aggregates` is a mapping from names, not a list"),
    "parse nothing": (lambda: datalog.parse(None), "a program is text, not None"),  # type: ignore[arg-type]
    "parse bytes": (lambda: datalog.parse(b"r(1)."), "a program is text, not b"),  # type: ignore[arg-type]
    "check a text": (lambda: datalog.check("r(1)."), "`datalog.parse` makes a program of"),  # type: ignore[arg-type]
    "Spark without Spark": (lambda: livelog.Spark(None), "takes a SparkSession"),  # type: ignore[arg-type]
    "a checkpoint every text": (lambda: over(checkpoint_every="x"), "checkpoint_every must be an integer, not 'x'"),
    "a checkpoint in a number": (lambda: over(checkpoint=3), "`checkpoint` is the path of a folder, not 3"),
    "patience as text": (lambda: over(patience="x"), "`patience` is a number of seconds, not 'x'"),
    "partitions of Spark as text": (lambda: over(partitions="2"), "must be an integer, not '2'"),
    "resume nothing": (lambda: livelog.resume(None, None), "path, not None"),  # type: ignore[arg-type]
    "resume where nothing is": (lambda: livelog.resume("/nowhere", None), "there is no session in"),
}


@pytest.mark.parametrize("name", OPENING)
def test_opening(name: str) -> None:
    act, message = OPENING[name]
    with pytest.raises(UsageProblem, match=message):
        act()


Use = Callable[[Any, Any], Any]

USING: dict[str, tuple[Use, str]] = {
    "subscribe nobody": (lambda s, tx: s.subscribe("r", None), "a subscriber is a function .*, not None"),
    "subscribe to a number": (lambda s, tx: s.subscribe(3, print), "a view is named by a text, not 3"),
    "subscribe to a list": (lambda s, tx: s.subscribe(["r"], print), "a view is named by a text, not a list"),
    "subscribe to a base relation": (lambda s, tx: s.subscribe("link", print), "`link` is not a view"),
    "subscribe to nothing": (lambda s, tx: s.subscribe("nope", print), "`nope` is not a view"),
    "load nothing": (lambda s, tx: s.load("link", None), "the rows of `link` are .*, not None"),
    "load a number": (lambda s, tx: s.load("link", 3), "the rows of `link` are .*, not 3"),
    "load numbers": (lambda s, tx: s.load("link", [3]), "a row of `link` is a tuple, not 3"),
    "load text": (lambda s, tx: s.load("link", "ab"), "the rows of `link` are .*, not 'ab'"),
    "load into a number": (lambda s, tx: s.load(3, ROWS), "no relation `3`"),
    "load into a list": (lambda s, tx: s.load([], ROWS), "no relation"),
    "load a view": (lambda s, tx: s.load("r", ROWS), "`r` is a view"),
    "insert nothing": (lambda s, tx: tx.insert("link", None), "a row of `link` is a tuple, not None"),
    "insert a number": (lambda s, tx: tx.insert("link", 3), "a row of `link` is a tuple, not 3"),
    "insert text": (lambda s, tx: tx.insert("link", "ab"), "a row of `link` is a tuple, not 'ab'"),
    "insert into nothing": (lambda s, tx: tx.insert(None, ("a", "b")), "no relation `None`"),
    "insert into a list": (lambda s, tx: tx.insert(["link"], ("a", "b")), "no relation"),
    "delete a number": (lambda s, tx: tx.delete("link", 3), "a row of `link` is a tuple, not 3"),
    "insert many of nothing": (lambda s, tx: tx.insert_all("link", None), "the rows of `link` are .*, not None"),
    "delete many of nothing": (lambda s, tx: tx.delete_all("link", 3), "the rows of `link` are .*, not 3"),
    "insert many numbers": (lambda s, tx: tx.insert_all("link", [("a", "b"), 3]), "a row of `link` is a tuple, not 3"),
    "a time as text": (lambda s, tx: tx.advance_to("x"), "the clock needs a number, not 'x'"),
    "why of nothing": (lambda s, tx: s.why("r", None), "a row of `r` is a tuple with 2 columns, not None"),
    "why of text": (lambda s, tx: s.why("r", "ab"), "a row of `r` is a tuple with 2 columns, not 'ab'"),
    "why, too narrow": (lambda s, tx: s.why("r", ("a",)), "`r` has 2 columns, and the row has 1"),
    "why, too wide": (lambda s, tx: s.why("r", ("a", "b", "c")), "`r` has 2 columns, and the row has 3"),
    "why of an unknown relation": (lambda s, tx: s.why("nope", ("a",)), r"no relation 'nope' \(it has link, r\)"),
    "why of a number": (lambda s, tx: s.why(3, ("a",)), "no relation 3"),
    "why of a list": (lambda s, tx: s.why([], ("a",)), "no relation a list"),
    "why what does not hold": (lambda s, tx: s.why("r", ("c", "a")), "does not hold"),
    "why what no row can be": (lambda s, tx: s.why("r", ([], {})), "does not hold"),
    "a position as text": (lambda s, tx: s.transaction("feed", "x"), "`position` is a whole number .*, not 'x'"),
    "a position as text alone": (lambda s, tx: s.transaction(position="x"), "`position` is a whole number .*, not 'x'"),
    "a position as a truth": (lambda s, tx: s.transaction("feed", True), "`position` is a whole number .*, not True"),
    "a position before the first": (lambda s, tx: s.transaction("feed", -1), "`position` is a whole number from 0"),
    "a position beyond all": (lambda s, tx: s.transaction("feed", 2**63), "`position` is a whole number from 0"),
    "a position of nothing": (lambda s, tx: s.transaction(position=3), "a `position` needs the `source`"),
    "a source as a number": (lambda s, tx: s.transaction(3, 3), "`source` is a text, not 3"),
    "a source that is no text": (lambda s, tx: s.transaction("\ud800", 3), "`source` is not valid Unicode text"),
    "position of nothing": (lambda s, tx: s.position(None), "`source` is a text, not None"),
    "position of a list": (lambda s, tx: s.position([]), "`source` is a text, not a list"),
    "changes too early": (lambda s, tx: tx.changes, "has not been committed"),
    "a checkpoint without a folder": (lambda s, tx: s.checkpoint(), "needs a session with a folder"),
    "a stream without Spark": (lambda s, tx: s.stream(None, "x"), "needs a session over Spark"),
    "changes without a folder": (lambda s, tx: s.changes("r"), "needs a session with a folder"),
    "commit twice": (lambda s, tx: (tx.commit(), tx.commit()), "the transaction is over"),
    "insert after the commit": (lambda s, tx: (tx.commit(), tx.insert("link", ("a", "b"))), "the transaction is over"),
    "advance after the commit": (lambda s, tx: (tx.commit(), tx.advance_to(3)), "the transaction is over"),
    "roll back after the commit": (lambda s, tx: (tx.commit(), tx.rollback()), "the transaction is over"),
    "commit after the rollback": (lambda s, tx: (tx.rollback(), tx.commit()), "the transaction is over"),
    "a block after the commit": (lambda s, tx: (tx.commit(), tx.__enter__()), "the transaction is over"),
    "changes after the rollback": (lambda s, tx: (tx.rollback(), tx.changes), "has not been committed"),
}


@pytest.fixture
def session() -> Iterator[livelog.Session]:
    with opened(facts={"link": ROWS}) as session:
        yield session


@pytest.mark.parametrize("name", USING)
def test_using(session: livelog.Session, name: str) -> None:
    act, message = USING[name]
    with pytest.raises(UsageProblem, match=message):
        act(session, session.transaction())
    assert list(session["link"]) == ROWS
    session.check()


@pytest.mark.parametrize("relation", [3, None, "nope", ["link"], "r#1"])
def test_relations_that_a_session_has_not(session: livelog.Session, relation: Any) -> None:
    """As of any mapping: a KeyError."""
    with pytest.raises(KeyError, match="the program has no relation"):
        session[relation]
    assert relation not in session
    with pytest.raises(KeyError):
        session.initial[relation if isinstance(relation, str) else str(relation)]


def test_a_block_inside_a_block(session: livelog.Session) -> None:
    with pytest.raises(UsageProblem, match="the transaction is in a `with` block already"), session.transaction() as tx:
        tx.insert("link", ("x", "y"))
        with tx:
            tx.insert("link", ("y", "z"))
    assert list(session["link"]) == ROWS, "an exception inside the block: nothing is applied"


def test_a_generator_may_fail_in_its_own_way(session: livelog.Session) -> None:
    def rows() -> Iterator[tuple[str, str]]:
        yield "x", "y"
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        session.load("link", rows())
    assert list(session["link"]) == ROWS


CLOSED: dict[str, Use] = {
    "length": lambda s, view: len(view),
    "iteration": lambda s, view: list(view),
    "membership": lambda s, view: ("a", "b") in view,
    "membership of what is no row": lambda s, view: 3 in view,
    "arrow": lambda s, view: view.to_arrow(),
    "pandas": lambda s, view: view.to_pandas(),
    "html": lambda s, view: view._repr_html_(),
    "a view": lambda s, view: s["r"],
    "a transaction": lambda s, view: s.transaction(),
    "load": lambda s, view: s.load("link", []),
    "subscribe": lambda s, view: s.subscribe("r", print),
    "why": lambda s, view: s.why("r", ("a", "b")),
    "clock": lambda s, view: s.clock,
    "stats": lambda s, view: s.stats(),
    "bytes": lambda s, view: s.bytes_shipped,
    "frames": lambda s, view: s.frames_shipped,
    "position": lambda s, view: s.position("feed"),
    "check": lambda s, view: s.check(),
    "checkpoint": lambda s, view: s.checkpoint(),
    "a block": lambda s, view: s.__enter__(),
}


@pytest.mark.parametrize("name", CLOSED)
def test_use_after_close(name: str) -> None:
    session = opened(facts={"link": ROWS})
    view = session["r"]
    session.close()
    session.close()
    with pytest.raises(UsageProblem, match="the session is closed"):
        CLOSED[name](session, view)


def test_what_is_left_after_close() -> None:
    session = opened(facts={"link": ROWS})
    view, tx = session["r"], session.transaction()
    stop = session.subscribe("r", print)
    changes = session.initial
    session.close()
    stop()
    for use in (tx.commit, tx.rollback, lambda: tx.insert("link", ("a", "b")), lambda: tx.advance_to(3)):
        with pytest.raises(UsageProblem, match="the session is closed"):
            use()
    assert (repr(session), repr(view)) == ("<Session, closed>", "<View r(x, y), closed>")
    assert changes["r"].inserted == [("a", "b"), ("a", "c"), ("b", "c")] and session.views == ("r",)


def test_paths_may_be_paths(tmp_path: Path) -> None:
    (tmp_path / "r.dl").write_text(PROGRAM)
    (tmp_path / "link.facts").write_text("a\tb\n")
    for program, facts in ((tmp_path / "r.dl", tmp_path), (str(tmp_path / "r.dl"), str(tmp_path))):
        with livelog.open(program, facts=facts) as session:
            assert list(session["r"]) == [("a", "b")]
