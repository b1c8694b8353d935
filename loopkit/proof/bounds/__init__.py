"""Bounds of a machine's runs, most and least, found by exploring all configurations.

A configuration is a state with everything that decides how a run goes on from there: counters,
attempts, facts that a later guard reads, inputs. `explore` goes through all that can be reached,
over exactly the rows of facts that the states can produce.
"""

from loopkit.proof.bounds.agent_calls import AgentCalls, Price
from loopkit.proof.bounds.assumptions import NotDetermined
from loopkit.proof.bounds.exploring import explore
from loopkit.proof.bounds.extremes import Endless
from loopkit.proof.bounds.present import present_of
from loopkit.proof.bounds.result import Bounds, Extreme, Range, Stuck, Taken, Visit, Way
from loopkit.proof.outcomes import Analysis

__all__ = [
    "AgentCalls",
    "Analysis",
    "Bounds",
    "Endless",
    "Extreme",
    "NotDetermined",
    "Price",
    "Range",
    "Stuck",
    "Taken",
    "Visit",
    "Way",
    "explore",
    "present_of",
]
