"""k-means: the rules of 12_kmeans.dl with the function that tells the nearest centroid."""

from __future__ import annotations

from pathlib import Path

import livelog

HERE = Path(__file__).parent


def nearest(x: float, y: float, centroids: tuple[tuple[str, float, float], ...]) -> str:
    """The name of the centroid that is nearest to a point; the first in the list if several are."""
    return min(centroids, key=lambda centroid: (centroid[1] - x) ** 2 + (centroid[2] - y) ** 2)[0]


def open_session() -> livelog.Session:
    return livelog.open(HERE / "12_kmeans.dl", facts=HERE / "12_kmeans", functions={"nearest": nearest})


def main() -> None:
    with open_session() as session:
        sizes = dict(session["size"])
        for name, x, y in session["cluster"]:
            print(f"{name}: {sizes[name]} points around ({x:.2f}, {y:.2f})")

        print("ten points come, far out in the north-east:")
        with session.transaction() as tx:
            for k in range(10):
                tx.insert("point", (100 + k, 11.0, 10.0 + k / 10))
        for name, x, y in tx.changes["cluster"].inserted:
            print(f"  {name} is now around ({x:.2f}, {y:.2f})")


if __name__ == "__main__":
    main()
