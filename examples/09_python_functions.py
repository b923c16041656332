"""Rules that call Python: a session with registered functions and a registered aggregate."""

from __future__ import annotations

import statistics
from math import asin, cos, radians, sin, sqrt
from pathlib import Path

import livelog

HERE = Path(__file__).parent


def km(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    """The distance of two places on the globe, in kilometres, to a tenth."""
    a, b, c, d = map(radians, (lat1, lon1, lat2, lon2))
    h = sin((c - a) / 2) ** 2 + cos(a) * cos(c) * sin((d - b) / 2) ** 2
    return round(12742 * asin(sqrt(h)), 1)


def initials(name: str) -> str:
    """The first letters of the words of a name."""
    return "".join(word[0] for word in name.split())


def median(values: list[float]) -> float:
    """The value in the middle."""
    return statistics.median(values)


def open_session() -> livelog.Session:
    return livelog.open(
        HERE / "09_python_functions.dl",
        facts=HERE / "09_python_functions",
        functions={"km": km, "initials": initials},
        aggregates={"median": median},
    )


def main() -> None:
    with open_session() as session:
        print("typical leg:")
        for place, length in session["typicalLeg"]:
            print(f"  {place:12} {length:6.1f} km")

        print("the road from Lyon to Geneva is closed:")
        with session.transaction() as tx:
            tx.delete("road", ("Lyon", "Geneva"))
        before = dict((row[:2], row[2]) for row in tx.changes["journey"].deleted)
        for x, y, length in tx.changes["journey"].inserted:
            print(f"  {x} to {y}: {length:.1f} km, was {before[x, y]:.1f} km")


if __name__ == "__main__":
    main()
