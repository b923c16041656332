"""What the paper says about its figures, in our words, each beside a check of our own results.

Verdicts are computed when a page is written, so none can outlive the figures it is about. `differs` is the explanation
that stands beside a verdict that does not agree; it has to be true whenever the check fails.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench import claim_checks as checks
from bench.claim_reading import DEMAND, LAZY, Check, Results, Verdict

__all__ = ["CLAIMS", "Claim", "Verdict", "judge"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim about a figure. `results` are those that its check reads; `note` is said whatever the verdict is."""

    figure: str
    paper: str
    results: tuple[str, ...]
    check: Check
    differs: str
    note: str = ""


def judge(claim: Claim, results: Results) -> Verdict | None:
    """The verdict, or None if something that it needs has not been measured."""
    return claim.check(results) if all(results.get(name) for name in claim.results) else None


EDGES = (
    "The paper does not tell how it encodes the derivation graph, only that it is large. Ours has short edges (a rule "
    "and the values that tell the parents), ships each once, and walks only from tuples that lost their first edge."
)
LAZY_GROWS = (
    "Our lazy follows the paper's algorithm: every further derivation is merged into a diagram that waits. In a dense "
    "network these diagrams are what costs. Demand keeps none: it looks for a derivation when one is needed."
)

CLAIMS = (
    Claim(
        "7", "While links are only inserted, DRed does best: it computes no provenance.",
        ("figure_07",), checks.dred_is_cheapest("figure_07"),
        "Provenance that is one derivation for each tuple, or a few numbers, costs little more than none.",
    ),
    Claim(
        "7", "Relative provenance has larger annotations than absorption provenance, ships more, and keeps more state.",
        ("figure_07",), checks.relative_is_larger("insert"), EDGES,
    ),
    Claim(
        "7", "Relative provenance, eager, does not converge within five minutes from three quarters of the links on.",
        ("figure_07",), checks.relative_eager_fails, EDGES,
    ),
    Claim(
        "7", "Absorption provenance, eager, is costly, since every new derivation of a tuple is sent.",
        ("figure_07",), checks.eager_is_costly,
        "Here the derivations that eager sends were absorbed early enough to cost less than those that lazy keeps.",
    ),
    Claim(
        "7", "It does finish, though: of all strategies only relative provenance, eager, is left out of the graphs.",
        ("figure_07",), checks.eager_finishes,
        "Our limit is shorter than the paper's five minutes. Also, the paper's eager sends once a second what has "
        "gathered, and ours whenever a batch has been worked off, so that less is absorbed before it is sent.",
    ),
    Claim(
        "7", "Absorption provenance, lazy, is clearly the cheapest of the ways to keep provenance.",
        ("figure_07",), checks.lazy_is_best,
        f"{LAZY_GROWS} The paper has no such mode. And our relative provenance is not the paper's: it ships edges "
        "only.",
    ),
    Claim(
        "8", "Deletions: DRed ships and takes an order of magnitude more than absorption provenance (here: demand).",
        ("figure_07",), checks.dred_costs_an_order_more(DEMAND),
        "Our DRed is indexed and batched, and deletes and derives again without waiting for a real network.",
    ),
    Claim(
        "8", "The same for absorption provenance with the paper's own lazy shipping.",
        ("figure_07",), checks.dred_costs_an_order_more(LAZY),
        f"{LAZY_GROWS} And the diagrams that take over are large to ship.",
    ),
    Claim(
        "8", "Deletions: relative provenance ships less than DRed and is faster.",
        ("figure_07",), checks.relative_beats_dred,
        "Walking the derivation graph took more here than deleting too much and deriving it again.",
    ),
    Claim(
        "8", "Deletions: relative provenance is far worse than absorption provenance, in bytes and in time.",
        ("figure_07",), checks.absorption_beats_relative,
        f"{EDGES} A walk of it is cheap where all partitions share a process: no message waits for a network.",
    ),
    Claim(
        "8", "After deletions, too, relative provenance has larger annotations and more state than absorption.",
        ("figure_07",), checks.relative_is_larger("delete"), EDGES,
    ),
    Claim(
        "8", "Insertions and deletions together, absorption provenance with lazy shipping has the best mix.",
        ("figure_07",), checks.lazy_has_the_best_mix,
        f"{LAZY_GROWS} The sum depends on how many deletions there are; here it is all insertions and the most "
        "deletions.",
    ),
    Claim(
        "9", "The region query behaves like `reachable` while sensors are triggered: DRed does best.",
        ("figure_09",), checks.dred_is_cheapest("figure_09"),
        "The view is so small that strategies are hardly apart, and the one that is ahead may be so by chance.",
    ),
    Claim(
        "9", "It costs less than `reachable` by each of the four metrics: the network is smaller, neighbours are near.",
        ("figure_07", "figure_09"), checks.regions_cost_less,
        "Annotations need not be smaller because a network is: a derivation goes across the field from neighbour to "
        "neighbour, and sensors have names where the nodes of the other network have small numbers.",
    ),
    Claim(
        "10", "Deletions from the region query mirror those from `reachable`: absorption is cheaper than DRed.",
        ("figure_09",), checks.regions_mirror_reachable,
        "A region holds few sensors, so DRed has little to derive again, and what absorption does for a deletion "
        "weighs as much: telling every partition, and restricting merged diagrams (lazy) or searching the joins "
        "(demand).",
    ),
    Claim(
        "11", "A dense network costs more than a sparse one of as many nodes: there are more derivations.",
        ("figure_11",), checks.dense_costs_more("load"),
        "A sparse network is nearly a tree: it has half the links, but its paths are longer, and so is the way of a "
        "tuple through the recursion and what its annotation names.",
    ),
    Claim(
        "11", "On the dense network of 800 links, eager shipping does not finish within five minutes.",
        ("figure_11",), checks.eager_fails_at_800,
        "Here it did, or it was not given five minutes.",
    ),
    Claim(
        "11", "There, lazy shipping takes less than five seconds.",
        ("figure_11",), checks.lazy_takes_seconds_at_800,
        "The paper has twelve machines, which merge their diagrams at the same time; here one core does the work of "
        "all twelve partitions. Demand, which merges none, stays below that time.",
    ),
    Claim(
        "12", "Deleting a further fifth of the links shows the same as loading: dense costs more than sparse.",
        ("figure_11",), checks.dense_costs_more("delete"),
        "In a network that is nearly a tree a deleted link cuts it in two, and most of what was reachable is gone: "
        "there is much to remove. In a dense one most of it stays, with another derivation.",
    ),
    Claim(
        "13", "With more partitions the annotations grow, and then level off.",
        ("figure_13",), checks.annotations_level_off,
        "In lazy mode each partition that derives a tuple keeps a diagram of its own derivations. More partitions "
        "mean more but smaller diagrams, and here the second effect is not outweighed by the first.",
    ),
    Claim(
        "13", "State for each partition falls.",
        ("figure_13",), checks.state_falls,
        "A tuple that several partitions derive is kept by each of them.",
    ),
    Claim(
        "13", "Bytes shipped by each partition fall.",
        ("figure_13",), checks.loads_ship_less_each,
        "On few partitions most of what a partition derives is its own, and is not shipped at all.",
    ),
    Claim(
        "13", "Under deletions they rise slightly with absorption (more partitions to tell), and fall with DRed.",
        ("figure_13",), checks.deletions_ship_more_each,
        "The message that tells of a dead variable is a few bytes; what it makes the partitions ship again is more, "
        "and that is divided among more of them.",
    ),
    Claim(
        "13", "Time falls with more partitions (up to 16, where the paper's second and slower cluster begins).",
        ("figure_13",), checks.time_falls,
        "Not comparable: our partitions share one process, and seconds are the processor time of all of them "
        "together. They show what distribution costs in work, not what it gains in time.",
    ),
    Claim(
        "13", "On any number of partitions DRed ships more and takes longer.",
        ("figure_13",), checks.dred_always_costs_more,
        f"{LAZY_GROWS}",
    ),
    Claim(
        "14", "Without aggregate selection the dense query does not finish.",
        ("figure_14",), checks.none_fails,
        "Here it did.",
        "As the rules stand it cannot finish on any network with a cycle, so this holds for every limit.",
    ),
    Claim(
        "14", "Aggregate selection gains at least an order of magnitude of time.",
        ("figure_14",), checks.selection_saves_an_order,
        "Without selection the run was stopped too early to say.",
        "What stands here for no selection is our limit, so the gain is a lower bound that the limit decides. The "
        "number of walks above, against the tuples that selection keeps, says more.",
    ),
    Claim(
        "14", "It gains most in dense networks.",
        ("figure_14",), checks.dense_gains_most,
        "The rules do not forbid to walk in circles. Even our sparse network has links in both directions, so that "
        "without selection there is no end on either, and no figure to compare.",
    ),
    Claim(
        "14", "Selection by both aggregates at once costs half of selection by one.",
        ("figure_14",), checks.multi_costs_half,
        "Exact answers need two recursions where each is pruned by one aggregate. In a sparse network the cheapest "
        "path mostly has the fewest hops, too, and one recursion does the work of both. In a dense one they differ "
        "more often, and our selection keeps all paths that tie on hops, so less than half can be saved.",
    ),
)  # fmt: skip
"""In the order of the figures."""
