"""The rows of facts with which a state's work can complete, and what its transitions make of each.

`Anatomy` is a machine as the rows are read from it; `table_of` gives the rows of one state with
whatever may surround it, `own_table` those that its work alone decides. The checks and the bounds
both go over them.
"""

from loopkit.rows.anatomy import Anatomy, PlacedRule
from loopkit.rows.apart import Row
from loopkit.rows.domains import OTHER_TEXT
from loopkit.rows.facts import own_table, table_of
from loopkit.rows.faults import faults_of
from loopkit.rows.guard_texts import GuardTexts, parsed_guard
from loopkit.rows.panel import Panel
from loopkit.rows.table import ROOM, Exit, Table

__all__ = [
    "OTHER_TEXT",
    "ROOM",
    "Anatomy",
    "Exit",
    "GuardTexts",
    "Panel",
    "PlacedRule",
    "Row",
    "Table",
    "faults_of",
    "own_table",
    "parsed_guard",
    "table_of",
]
