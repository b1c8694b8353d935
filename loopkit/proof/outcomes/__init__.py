"""Outcomes: the rows of facts with which a state can complete, and the edge each row takes.

`Analysis` is a machine as the rows are read from it; `table_of` gives the rows of one state with
whatever may surround it, `own_table` those that its work alone decides. The checks and the bounds
both go over them.
"""

from loopkit.proof.outcomes.analysis import Analysis, PlacedRule
from loopkit.proof.outcomes.domains import OTHER_TEXT
from loopkit.proof.outcomes.facts import own_table, table_of
from loopkit.proof.outcomes.faults import faults_of
from loopkit.proof.outcomes.guard_texts import parse_or_problem
from loopkit.proof.outcomes.panel import AUTHOR, Panel
from loopkit.proof.outcomes.row_regions import Row
from loopkit.proof.outcomes.table import FOUND_BY, ROOM, Exit, Table

__all__ = [
    "AUTHOR",
    "FOUND_BY",
    "OTHER_TEXT",
    "ROOM",
    "Analysis",
    "Exit",
    "Panel",
    "PlacedRule",
    "Row",
    "Table",
    "faults_of",
    "own_table",
    "parse_or_problem",
    "table_of",
]
