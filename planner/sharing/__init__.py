"""Views that are computed from one another: view matching, after section 5 of the SyncSQL paper.

A view is *skinned* into its data and the points of time at which it is read (`planner.sharing.skin`). If the data of
one is contained in that of another one (`planner.sharing.derive`), and so are its points (`planner.sharing.points`),
it reads the other one. `Catalogue` finds what a view can read, also when it is defined long after the others.
`Sharing` is a program that has been changed accordingly, before it is planned.
"""

from __future__ import annotations

from planner.sharing.catalogue import Catalogue, Shared
from planner.sharing.program import Sharing

__all__ = ["Catalogue", "Shared", "Sharing"]
