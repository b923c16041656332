"""Edits: what somebody changes of the program of a session, as it is logged."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

__all__ = ["Edit", "lasting"]


class Edit(msgspec.Struct, frozen=True, array_like=True):
    """A text that defines relations, or the names of views that are dropped.

    `names` are the relations that the text defines, and `follow` those of them whose changes are kept from here on.
    """

    define: str = ""
    drop: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    follow: tuple[str, ...] = ()


def lasting(edits: Iterable[Edit]) -> list[Edit]:
    """The edits without definitions of which nothing is left, and without the drops that took them away.

    The others lead to the same program, and to the same plan of it: what is gone is read by nothing that is there.

    >>> a, b = Edit("a", names=("a",)), Edit("b, c", names=("b", "c"))
    >>> lasting([a, b, Edit(drop=("a", "c", "given")), a])
    [Edit(define='b, c', ...), Edit(define='', drop=('c', 'given'), ...), Edit(define='a', ...)]
    """
    known = list(edits)
    owner: dict[str, int] = {}
    left = [set(edit.names) for edit in known]
    by = [dict.fromkeys(edit.drop, -1) for edit in known]  # the definition that each drop is about
    for i, edit in enumerate(known):
        for name in edit.drop:
            by[i][name] = owner.pop(name, -1)
            if by[i][name] >= 0:
                left[by[i][name]].discard(name)
        owner.update(dict.fromkeys(edit.names, i))
    found = []
    for i, edit in enumerate(known):
        gone = {name for name, of in by[i].items() if of >= 0 and not left[of]}
        if edit.define and not left[i]:
            continue
        if gone:
            edit = msgspec.structs.replace(edit, drop=tuple(name for name in edit.drop if name not in gone))
        if edit.define or edit.drop:
            found.append(edit)
    return found
