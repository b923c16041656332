"""Livelog: recursive Datalog views that stay fresh while the facts under them change.

>>> import datalog, livelog
>>> program = datalog.parse('''
...     reachable(x, y) :- link(x, y).
...     reachable(x, y) :- link(x, z), reachable(z, y).
... ''')
>>> session = livelog.open(program, facts={"link": [("a", "b"), ("b", "c"), ("a", "c")]})
>>> with session.transaction() as tx:
...     tx.delete("link", ("b", "c"))
>>> tx.changes["reachable"].deleted     # a still reaches c over its own link
[('b', 'c')]
"""

from datalog.errors import (
    CheckProblem,
    FactProblem,
    LivelogError,
    ProgramErrors,
    RuntimeProblem,
    StratificationProblem,
    SyntaxProblem,
    UsageProblem,
)
from livelog.aggregates import aggregate
from livelog.changes import ChangeLog, Changes, Step
from livelog.io.problems import DataWarning
from livelog.opening import open, resume
from livelog.runtime.spark.config import Spark
from livelog.runtime.spark.tls import TLS
from livelog.session import Session
from livelog.shapes import ANY
from livelog.stats import PartitionStats, Stats
from livelog.subscribers import SubscriberProblem
from livelog.transaction import Transaction
from livelog.validity import Validity
from livelog.version import __version__
from livelog.view import View
from livelog.why import Reason

__all__ = [
    "ANY",
    "TLS",
    "ChangeLog",
    "Changes",
    "CheckProblem",
    "DataWarning",
    "FactProblem",
    "LivelogError",
    "PartitionStats",
    "ProgramErrors",
    "Reason",
    "RuntimeProblem",
    "Session",
    "Spark",
    "Stats",
    "Step",
    "StratificationProblem",
    "SubscriberProblem",
    "SyntaxProblem",
    "Transaction",
    "UsageProblem",
    "Validity",
    "View",
    "__version__",
    "aggregate",
    "open",
    "resume",
]
