"""Scenario files: prepared replies, faults, command results and human answers.

They play a machine without a model, a key, a network or a cent; with cases, they say as well
what has to come of it.
"""

from loopkit.scenario.cases import Case, Resume, RunLimits, Scenario
from loopkit.scenario.expecting import (
    GAP,
    SUSPENDED,
    WAITING,
    Expect,
    ExpectedArtifact,
    ExpectedFeedback,
    ExpectedFinding,
    ExpectedPrompt,
)
from loopkit.scenario.in_children import ANY, CHILDREN, InChild, one_child
from loopkit.scenario.loading import (
    LoadedScenario,
    load_file,
    load_scenario,
    read_resolved,
)
from loopkit.scenario.parts import PARTS, ChildParts, Parts
from loopkit.scenario.script import (
    CRASH,
    Attempts,
    Played,
    PlayedAnswer,
    PlayedCommand,
    PlayedFolder,
    PlayedTry,
    Reserved,
    SpentTokens,
    call_at,
)
from loopkit.scenario.unwritten import todo_problem, unwritten

__all__ = [
    "ANY",
    "CHILDREN",
    "CRASH",
    "GAP",
    "PARTS",
    "SUSPENDED",
    "WAITING",
    "Attempts",
    "Case",
    "ChildParts",
    "Expect",
    "ExpectedArtifact",
    "ExpectedFeedback",
    "ExpectedFinding",
    "ExpectedPrompt",
    "InChild",
    "LoadedScenario",
    "Parts",
    "Played",
    "PlayedAnswer",
    "PlayedCommand",
    "PlayedFolder",
    "PlayedTry",
    "Reserved",
    "Resume",
    "RunLimits",
    "Scenario",
    "SpentTokens",
    "call_at",
    "load_file",
    "load_scenario",
    "one_child",
    "read_resolved",
    "todo_problem",
    "unwritten",
]
