"""Change streams over networks: seeded, re-iterable, as steps in Python and as update scripts."""

from topologies.streams.arrivals import Arrivals, exponential, heavy_tailed
from topologies.streams.churn import churn, flapping
from topologies.streams.costs import cost_changes
from topologies.streams.failures import isolated, sequence
from topologies.streams.fire import fire_front
from topologies.streams.insertion import FRACTIONS, insertion
from topologies.streams.outages import bursts, outages
from topologies.streams.script import write_script
from topologies.streams.soft_state import refreshes
from topologies.streams.step import Operation, Step, Steps, Workload
from topologies.streams.triggers import triggers

__all__ = [
    "FRACTIONS",
    "Arrivals",
    "Operation",
    "Step",
    "Steps",
    "Workload",
    "bursts",
    "churn",
    "cost_changes",
    "exponential",
    "fire_front",
    "flapping",
    "heavy_tailed",
    "insertion",
    "isolated",
    "outages",
    "refreshes",
    "sequence",
    "triggers",
    "write_script",
]
