"""Where tests run: in this process, over Spark on this machine, and over Spark on a cluster.

A test (or a module) marked `everywhere` says what a program means, whatever runs it: it only uses the public interface.
It runs three times, with `livelog.open` opening its sessions on another runtime each time:

    local     all of its variants
    spark     over Spark local[4], with three partitions at most: so many variants as the mark says with `spark=`
    cluster   the same over a standalone cluster of two workers, as `cluster=` says

Unless told otherwise that is one variant and none. Variants take turns, so that over the tests of a module all
strategies have theirs, on several partitions wherever a test has such a variant. What looks into the workers of the
local runtime, or changes what a function does while the session is open, is not marked: it is for that runtime only.

    pytest --runtime all            all variants everywhere
    pytest --runtime local          nothing over Spark
    pytest -m "spark or cluster"    nothing else

Tests that use the fixtures `spark` or `cluster` themselves are of these kinds too. `make test` says `--dist loadgroup`:
those of a kind run in one process then, one after the other, as there is one SparkContext in a process, and it takes
long to start. They go first, and the other processes take what needs no Spark meanwhile.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import livelog
from tests.spark_session import Sparks

SPARKS = ("spark", "cluster")
SLOTS = 4
"""Of local[4]. All sessions of a test that are open at a time fit in."""
MOST = 3
"""Partitions of a session in a test that runs everywhere."""
USUAL = 2
"""And where the test does not say how many."""
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For every Java that a test starts: it lives for seconds, and does not earn back what better code costs to compile."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("livelog")
    group.addoption("--histories", type=int, default=320, help="how many random program-histories to run")
    group.addoption("--stream-histories", type=int, default=81, help="how many random histories of programs with times")
    group.addoption("--spark-histories", type=int, default=24, help="how many of them over Spark")
    group.addoption("--seed", type=int, default=None, help="run exactly the program-history of this seed")
    group.addoption("--faults", default=None, help="interrupt transactions at so many lines in each way, or at `all`")
    group.addoption(
        "--runtime", choices=("some", "local", "all"), default="some",
        help="what runs over Spark: a part of the tests (the default), nothing, or all that can",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "everywhere(spark=1, cluster=0): runs over Spark too, in so many variants")
    config.addinivalue_line("markers", "spark: runs over Spark on this machine")
    config.addinivalue_line("markers", "cluster: runs over Spark on a standalone cluster")
    os.environ.setdefault("JDK_JAVA_OPTIONS", JAVA)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if _mark(metafunc.definition) is not None:
        places = ("local", *SPARKS) if metafunc.config.getoption("--runtime") != "local" else ("local",)
        metafunc.parametrize("runtime", places, indirect=True)
        return
    for place in SPARKS:
        if place in metafunc.fixturenames:  # it sees to its sessions itself
            metafunc.parametrize("runtime", ["local"], indirect=True, ids=[place])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = config.getoption("--runtime")
    left_out = _left_out(items) if chosen == "some" else {id(i) for i in items if chosen == "local" and _place(i)}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if id(item) in left_out])
        items[:] = [item for item in items if id(item) not in left_out]
    items.sort(key=_place)  # one after the other: there is one SparkContext at a time
    for item in items:
        if where := _place(item):
            item.add_marker(SPARKS[where - 1])
            item.add_marker(pytest.mark.xdist_group(SPARKS[where - 1]))


def _mark(item: Any) -> pytest.Mark | None:
    mark: pytest.Mark | None = item.get_closest_marker("everywhere")
    return mark


def _parameters(item: pytest.Item) -> dict[str, Any]:
    spec = getattr(item, "callspec", None)
    return dict(spec.params) if spec is not None else {}


def _place(item: pytest.Item) -> int:
    """0 for tests without Spark, 1 for those on this machine, 2 for those on the cluster."""
    names = getattr(item, "fixturenames", ())
    where = _parameters(item).get("runtime")
    if where == "cluster" or "cluster" in names:
        return 2
    return int(where == "spark" or "spark" in names)


def _left_out(items: list[pytest.Item]) -> set[int]:
    """The variants over Spark that do not run by default."""
    variants: dict[tuple[str, str], list[Any]] = {}
    for item in items:
        where = _parameters(item).get("runtime")
        if where in SPARKS and _mark(item) is not None:
            variants.setdefault((item.nodeid.partition("[")[0], where), []).append(item)
    used: Counter[Any] = Counter()
    left_out: set[int] = set()
    for (name, where), several in variants.items():
        mark = _mark(several[0])
        assert mark is not None
        left = [item for item in several if _partitions(_parameters(item)) > 1] or several
        left_out |= {id(item) for item in several}
        for _ in range(min(len(left), mark.kwargs.get(where, 1 if where == "spark" else 0))):
            # whose parameters have had the fewest turns in this module
            places = [
                [(name.partition("::")[0], where, *index) for index in item.callspec.indices.items()] for item in left
            ]
            best = min(range(len(left)), key=lambda i: sum(used[place] for place in places[i]))
            used.update(places[best])
            left_out.discard(id(left[best]))
            del left[best]
    return left_out


def _partitions(parameters: dict[str, Any]) -> int:
    """On how many partitions a variant runs, as far as its parameters say so."""
    for name, value in parameters.items():
        if name == "partitions":
            return int(value)
        if name == "start":
            return int(value[-1])
        if isinstance(value, dict) and "partitions" in value:
            return int(value["partitions"])
        if hasattr(value, "partitions"):
            return int(value.partitions)
    return 1


# --- fixtures ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def sparks() -> Iterator[Sparks]:
    sparks = Sparks()
    yield sparks
    sparks.stop()


@pytest.fixture(scope="session")
def spark(sparks: Sparks) -> Any:
    """The SparkSession on this machine, with four task slots."""
    return sparks.session("spark")


@pytest.fixture(scope="session")
def cluster(sparks: Sparks) -> Any:
    """The SparkSession on a standalone cluster: two workers with an executor each, of three task slots."""
    return sparks.session("cluster")


@pytest.fixture(autouse=True)
def runtime(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where `livelog.open` opens sessions in this test: "local", "spark" or "cluster"."""
    where = getattr(request, "param", "local")
    if where == "local":
        yield where
        return
    spark = request.getfixturevalue(where)
    opened: list[livelog.Session] = []
    real = livelog.open

    def open_(program: Any, *, partitions: int = USUAL, seed: int | None = None, **options: Any) -> livelog.Session:
        partitions = max(1, min(partitions, MOST))
        opened[:] = [s for s in opened if not s._closed]
        while partitions + sum(s.partitions for s in opened) > SLOTS:
            opened.pop(0).close()  # one that the test has no more use for
        opened.append(real(program, runtime=livelog.Spark(spark, partitions=partitions), **options))
        return opened[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(livelog, "open", open_)
        yield where
    for session in opened:
        session.close()
