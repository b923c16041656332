"""Joining a body down to its last step.

Negations and body aggregates are *lookups*: relations of answers, one for each key that some part of the body asks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from datalog.ast import Variable, variables
from operators.expr import Col, Const, Expr
from planner.build import Part
from planner.chain import Chain, Step
from planner.collect import ROWS, collected
from planner.draft import Body, Lookup
from planner.nested import nest_parts
from planner.order import KEYED, LOOSE
from planner.plan import Input, LookupRule, MapRule
from planner.risk import Risk, Risks
from planner.translate import Translator

__all__ = ["inner_rows", "last_step"]


def last_step(chain: Chain) -> Step:
    """Filter the parts, answer the lookups and join until one step is left."""
    nest_parts(chain, inner_rows)
    while True:
        if attach(chain):
            continue
        if not chain.parts:
            chain.parts.append(chain.builder.unit())
        if len(chain.parts) <= 2 and not chain.lookups:
            parts, chain.parts = chain.parts, []
            return chain.step(*parts, last=True)
        assert len(chain.parts) > 1, f"{chain.clause.id}: a lookup needs variables that nothing binds"
        _, (i, j) = chain.order.choose(chain.parts, chain.links)
        left, right = chain.parts[i], chain.parts[j]
        del chain.parts[j], chain.parts[i]
        chain.parts.insert(i, chain.materialise(chain.step(left, right)))


def attach(chain: Chain) -> bool:
    """Answer the first lookup of a chain whose variables one part binds; whether there was one.

    The answers are a part of their own, keyed by the variables that the lookup needs. They replace the part
    that asked where nothing else of it is needed. A lookup without variables is asked once, by the unit relation.
    What may fail is asked by what all the others have left, those first that need least.
    """
    if not chain.lookups:
        return False
    for i, risk in _in_turn(chain):
        lookup = chain.lookups[i]
        if risk and not _alone(chain):
            return False
        asking = _asking(chain, lookup, bool(risk))
        if asking is None:
            continue
        del chain.lookups[i]
        if not lookup.needs and not risk:
            chain.parts.append(_answers(chain, lookup, asking))
            return True
        if asking in chain.parts:
            chain.parts.remove(asking)
        chain.lookups.insert(0, lookup)  # until its key is settled its variables are needed
        if risk:
            asking = chain.guarded(asking, chain.parts)
        asking = _settled(chain, lookup, asking, risk)
        del chain.lookups[0]
        answers = _answers(chain, lookup, asking)
        if _replaces(chain, asking, answers):
            chain.parts.append(replace(answers, lookup=False))
        else:
            chain.parts += [asking, answers]
        chain.parts.sort(key=lambda p: (p.position, p.lookup))
        return True
    return False


def _in_turn(chain: Chain) -> Iterator[tuple[int, Risk]]:
    """The lookups to try, by place: all that cannot fail; or if all may, those first that need least.

    Usually the first will do, and there may be many.
    """
    risky = []
    for i, lookup in enumerate(chain.lookups):
        if risk := chain.risks.lookup(lookup):
            risky.append((i, risk))
        else:
            yield i, risk
    if len(risky) == len(chain.lookups):
        yield from sorted(risky, key=lambda entry: len(entry[1]))


def _alone(chain: Chain) -> bool:
    """Whether one part is left, or only what may fail finds partners for the others."""
    return len(chain.parts) < 2 or chain.order.choose(chain.parts, chain.links)[0] == KEYED


def _asking(chain: Chain, lookup: Lookup, risky: bool) -> Part | None:
    """The part that binds all that a lookup needs: best one outside the recursion, so that the answers are too."""
    if not lookup.needs and (not risky or not chain.parts):
        return chain.builder.unit(len(chain.body.atoms))
    candidates = []
    for part in chain.parts:
        known = set(part.variables)
        if not part.lookup and all(chain.comes_down_to(n, known) <= known for n in lookup.needs):
            candidates.append(part)
    if any(p.recursive for p in chain.parts) and not risky and _more_outside(chain):
        candidates = [p for p in candidates if not p.recursive]
    return min(candidates, key=lambda p: (p.recursive, len(p.variables), p.position), default=None)


def _more_outside(chain: Chain) -> bool:
    """Whether the next join is one of parts outside the recursion."""
    if len(chain.parts) < 2:
        return False
    rank, pair = chain.order.choose(chain.parts, chain.links)
    return rank <= LOOSE and not any(chain.parts[i].recursive for i in pair)


def _settled(chain: Chain, lookup: Lookup, asking: Part, risk: Risk) -> Part:
    """The asking part as one relation with a column for each variable of the key, its own filters applied."""
    computed = [n for n in lookup.needs if n not in asking.variables]
    if computed or chain.usable(set(asking.variables), risk):
        return chain.materialise(chain.step(asking, below=risk), dict.fromkeys(computed, "any"))
    return asking


def _replaces(chain: Chain, asking: Part, answers: Part) -> bool:
    """Whether the answers tell all that is still needed of the part that asked.

    Not inside the recursion, where the asking tuple is a reason for the head that must be seen; and where
    bindings are counted, only if no two of the part's tuples have the same key.
    """
    if asking.recursive:
        return False
    relation = chain.builder.relations[asking.relation]
    keys = set(answers.variables)
    if chain.weighted:
        return not relation.weighted and not relation.bag and set(asking.variables) <= keys
    return set(chain.needed(asking.variables)) <= keys


def _answers(chain: Chain, lookup: Lookup, asking: Part) -> Part:
    """The answers to a lookup, as a part."""
    inner, body = inner_rows(chain, lookup, asking)
    if lookup.function != ROWS:
        return _rule(chain, lookup, asking, inner, body)
    # where there is no row to list, the list is empty
    parts = [_rule(chain, lookup, asking, inner, body)]
    parts.append(_rule(chain, replace(lookup, function="absent", target=None, result=None), asking, inner, body))
    types = dict(zip(parts[0].variables, parts[0].types, strict=True))
    head = chain.builder.auxiliary(chain.clause, parts[0].variables, types, False)
    for number, part in enumerate(parts, 1):
        outputs: list[Expr] = [Col(i) for i in range(len(part.variables))]
        outputs += [Const(())] * (len(types) - len(outputs))
        source = Input(part.relation, ())
        chain.builder.add(MapRule(f"{head}:{number}", head, source, (), tuple(outputs), chain.clause.rule.text))
    chain.builder.sizes[head] = asking.size + 1
    return replace(parts[0], relation=head)


def _rule(chain: Chain, lookup: Lookup, asking: Part, inner: Part, body: Body) -> Part:
    """A lookup's rule, and its head as a part."""
    matched = [n for n in lookup.needs if n in inner.variables]
    key = (*matched, *(n for n in lookup.needs if n not in inner.variables))
    row: dict[str, Expr] = {n: Col(len(key) + i) for i, n in enumerate(inner.variables)}
    row.update({n: Col(i) for i, n in enumerate(key)})
    types = dict(zip(inner.variables, inner.types, strict=True))
    types.update({n: t for n, t in zip(asking.variables, asking.types, strict=True) if n in key})

    translator = Translator(chain.builder.program, body.definitions, chain.builder.functions)
    columns = key if lookup.result is None else (*key, lookup.result)
    if lookup.result is not None:
        types[lookup.result] = lookup.type
    head = chain.builder.auxiliary(chain.clause, columns, types, False)
    value = None
    if lookup.function != "count" and lookup.target is not None:
        value = translator.expression(lookup.target, row)
    risks = chain.risks.inside(replace(lookup, body=body))
    filters = sorted(body.filters, key=lambda f: len(risks.of(f)))
    chain.builder.add(
        LookupRule(
            head,
            head,
            Input(asking.relation, (), tuple(asking.variables.index(n) for n in key)),
            Input(inner.relation, (), tuple(inner.variables.index(n) for n in matched)),
            tuple(translator.comparison(f, row) for f in filters),
            lookup.function,
            value,
            chain.clause.rule.text,
        )
    )
    chain.builder.sizes[head] = asking.size + 1
    kinds = tuple(types[c] for c in columns)
    return Part(
        head, columns, kinds, asking.position, asking.recursive, asking.size + 1, not key, lookup=bool(lookup.needs)
    )


def inner_rows(chain: Chain, lookup: Lookup, asking: Part | None) -> tuple[Part, Body]:
    """The relation of the inner rows, and the body whose filters the lookup itself still has to apply.

    A single atom is read as it stands. Several atoms, or lookups inside, make an auxiliary of their bindings.
    Filters with variables that only the outer body binds stay with the lookup. An inner lookup with such variables
    asks for each key of the outer one: the keys become an atom of the inner body. Keys that the recursion makes, or
    that are not known here (`asking` is None), cannot; see `planner.collect`.
    """
    body = lookup.body
    if not body.atoms and not body.lookups:
        return chain.builder.unit(), body
    if len(body.atoms) == 1 and not body.lookups:
        atom = body.atoms[0]
        relation = chain.builder.relations[atom.relation]
        return Part(relation.name, tuple(a.name for a in atom.arguments), relation.types, 0), body

    extra: tuple[Part, ...] = ()
    outer = {name: chain.risks.type(Variable(name)) for name in lookup.needs}
    program = chain.builder.program
    risks = Risks(body, program.relations, chain.builder.functions, outer, longest=program.longest)
    beyond = _asks_for_outer(body, lookup.needs)
    if beyond or any(map(risks.lookup, body.lookups)):
        if asking is not None and not asking.recursive:
            extra = (_keys(chain, lookup.needs, asking),)
        else:
            body = collected(chain.builder, body, risks, lambda nested: inner_rows(chain, nested, None))
            risks = Risks(body, program.relations, chain.builder.functions, outer, longest=program.longest)
    inside = {name for atom in body.atoms for name in variables(atom)}.union(*(part.variables for part in extra))
    inside |= {n.result for n in body.lookups if n.result is not None}
    # what may fail is decided for rows that are asked for, and for no others
    own = tuple(f for f in body.filters if body.roots(f) <= inside and not risks.of(f))
    late = replace(body, filters=tuple(f for f in body.filters if f not in own))
    wanted = {n for f in late.filters for n in body.roots(f)} | set(lookup.needs)
    if lookup.target is not None and lookup.function != "count":
        wanted |= body.roots(lookup.target)
    sub = Chain(
        chain.builder,
        chain.clause,
        replace(body, filters=own),
        sorted(wanted & inside),
        frozenset(),
        True,
        extra,
        outer,
    )
    step = last_step(sub)
    if len(step.parts) == 1 and not step.where:
        return step.parts[0], late
    return sub.materialise(step), late


def _asks_for_outer(body: Body, needs: Sequence[str]) -> bool:
    """Whether lookups inside a body need outer variables that its atoms do not bind."""
    wanted = {root for inner in body.lookups for n in inner.needs for root in body.roots(Variable(n))}
    return not wanted.isdisjoint(set(needs).difference(*(variables(atom) for atom in body.atoms)))


def _keys(chain: Chain, names: tuple[str, ...], asking: Part) -> Part:
    """The distinct keys that are asked for, as a part for the inner body."""
    keys = Chain(chain.builder, chain.clause, Body((), {}, (), ()), names, frozenset(), False)
    return replace(keys.materialise(keys.step(asking)), position=-1)
