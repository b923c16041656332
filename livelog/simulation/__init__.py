"""Networks that change, run through a program: what each strategy costs, with results asserted equal.

`compare` is the library behind `livelog compare`, `Apart` (one strategy in a process of its own, its reports as they
come) the one behind `livelog simulate`, `Over` the same over Spark, `Meter` the measuring of a session. `scenario`
makes the workload from the name of a network, `livelog.simulation.plots` has the pictures.
"""

from livelog.simulation.apart import Apart, RunFailed
from livelog.simulation.compare import Comparison, Run, compare, compare_each
from livelog.simulation.difference import Difference
from livelog.simulation.job import MEMORY_LIMIT, TIME_LIMIT, Job, make_job
from livelog.simulation.measure import Meter
from livelog.simulation.over import Over
from livelog.simulation.scenario import STEPS, Scenario, scenario
from livelog.simulation.strategies import NAMES, Strategy, parse_strategies, parse_strategy

__all__ = [
    "MEMORY_LIMIT",
    "NAMES",
    "STEPS",
    "TIME_LIMIT",
    "Apart",
    "Comparison",
    "Difference",
    "Job",
    "Meter",
    "Over",
    "Run",
    "RunFailed",
    "Scenario",
    "Strategy",
    "compare",
    "compare_each",
    "make_job",
    "parse_strategies",
    "parse_strategy",
    "scenario",
]
