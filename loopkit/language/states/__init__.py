"""States: exactly one kind of work each, known by the key that carries it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopkit.language.kinds import one_of
from loopkit.language.states.agent import AgentState
from loopkit.language.states.choice import ChoiceState
from loopkit.language.states.command import CommandState
from loopkit.language.states.each import EachState
from loopkit.language.states.final import FinalState
from loopkit.language.states.human import HumanState
from loopkit.language.states.machine import MachineState
from loopkit.language.states.render import RenderState
from loopkit.language.states.state import StateBase, WorkingState
from loopkit.language.states.validate import ValidateState

STATE_NOUNS: tuple[type[StateBase], ...] = (
    AgentState,
    CommandState,
    RenderState,
    EachState,
    MachineState,
    ValidateState,
    HumanState,
    FinalState,
    ChoiceState,
)
"""Every kind of state: the one table of them, from which all else that knows them is made."""
STATE_KINDS = {noun.kind: noun for noun in STATE_NOUNS}


if TYPE_CHECKING:
    State = WorkingState | FinalState
else:
    State = one_of(STATE_NOUNS, ChoiceState.kind)
