"""Edits: what somebody changes of the program of a session, as it is logged."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

__all__ = ["Edit", "lasting"]


class Edit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A text that defines relations, or the names of views that are dropped.

    `names` are the relations that the text defines, and `reads` the others that it reads; `follow` are those of `names`
    whose changes are kept from here on.
    """

    define: str = ""
    drop: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    follow: tuple[str, ...] = ()


def lasting(edits: Iterable[Edit]) -> list[Edit]:
    """The edits without definitions of which nothing is left, and without the drops that took them away.

    The others lead to the same program, and to the same plan of it: no text that stays reads what is gone. O(edits)

    >>> a, b, c = Edit("a", names=("a",)), Edit("b, c", names=("b", "c")), Edit("d", names=("d",), reads=("a",))
    >>> drop = Edit(drop=("a", "c", "given"))
    >>> [edit.define or edit.drop for edit in lasting([a, b, drop, a])]
    ['b, c', ('c', 'given'), 'a']
    >>> [edit.define or edit.drop for edit in lasting([a, b, c, Edit(drop=("a", "c"))])]
    ['a', 'b, c', 'd', ('a', 'c')]
    """
    known = list(edits)
    owner: dict[str, int] = {}
    left = [set(edit.names) for edit in known]
    rests_on: list[set[int]] = [set() for _ in known]  # the definitions whose relations a text reads
    about: list[dict[str, int]] = []  # by name that is dropped, the definition that it is of
    for i, edit in enumerate(known):
        found = {name: owner.pop(name, -1) for name in edit.drop}
        about.append(found)
        for name, of in found.items():
            if of >= 0:
                left[of].discard(name)
        rests_on[i] = {owner[name] for name in edit.reads if name in owner}
        owner.update(dict.fromkeys(edit.names, i))
    stays = [bool(names) for names in left]
    for i in reversed(range(len(known))):
        if stays[i]:
            for of in rests_on[i]:
                stays[of] = True
    result = []
    for i, edit in enumerate(known):
        drop = tuple(name for name, of in about[i].items() if of < 0 or stays[of])
        if drop != edit.drop:
            edit = msgspec.structs.replace(edit, drop=drop)
        if (edit.define and stays[i]) or edit.drop:
            result.append(edit)
    return result
