"""The whole machine, as its author declared it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from loopkit.definition.agents import Agent, Workspace
from loopkit.definition.noun import Bound, Duration, Fields, Id, Noun, Text
from loopkit.definition.states import FinalState, State
from loopkit.definition.validators import Validator

Amount = Annotated[float, Field(ge=0, strict=False, allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=0)]


class Limits(Noun):
    """What a run may spend. Revision limits close edges; the others stop the work."""

    revisions: Bound = 2
    """For each revise edge without a `max` or a `budget`; the first attempt is no revision."""
    total_revisions: Bound | None = None
    """For all revise edges of a run together; nothing resets it."""
    budgets: dict[Id, Bound] = {}
    """Counters that several revise edges share by `budget: NAME`."""
    agent_calls: Whole | None = None
    """Calls to agents and judges, failed tries and re-asks included."""
    tool_calls: Whole | None = None
    """Accepted, and never reached by this version."""
    tokens: Whole | None = None
    """Tokens in and out."""
    cost_usd: Amount | None = None
    """US dollars."""
    time: Duration | None = None
    """Work, not waiting."""
    feedback_items: int = Field(20, ge=1)
    """How many findings a feedback names at most."""
    stall: int = Field(3, ge=2)
    """After how many rounds without change revising counts as stalled."""
    then: Id | None = None
    """Where the run goes when a limit is reached, once."""


class Machine(Noun):
    """A validate-and-revise loop: states, transitions, guards and feedback."""

    loopkit: Literal[1]
    """The version of the language."""
    name: Id | None = None
    """Default: the file's stem."""
    description: str = ""
    """For readers."""
    input: Fields = {}
    """What a run is given: the type of each input."""
    limits: Limits = Limits()
    """What a run may spend."""
    guards: dict[Id, str] = {}
    """Named guards."""
    patterns: dict[Id, str] = {}
    """Named regular expressions, for rules and fields."""
    agents: dict[Id, Agent] = {}
    """Who writes and who judges: models and programs."""
    validators: dict[Id, Validator] = {}
    """Named rules and lists of rules."""
    feedback: dict[Id, Text] = {}
    """Named templates of feedback."""
    workspace: Workspace | None = None
    """The folder in which agents and commands work."""
    initial: Id | None = None
    """Default: the first state."""
    states: Annotated[dict[Id, State], Field(min_length=1)]
    """The states, each known by the key that carries its work."""

    @property
    def start(self) -> str:
        return self.initial or next(iter(self.states))

    @property
    def finals(self) -> dict[str, FinalState]:
        return {name: s for name, s in self.states.items() if isinstance(s, FinalState)}
