"""Players: who plays the agents, the commands and the person of a run, prepared once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loopkit.agents.assignment import Functions, assign_agents, can_call_models
from loopkit.agents.port import AgentPort, Person, PlayedCommands
from loopkit.agents.scripted import PlayedResults, ScriptedPerson, Timekeeper
from loopkit.language import Machine
from loopkit.language.states.children import ChildrenState
from loopkit.outside.redaction import Redact, redactor
from loopkit.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Players:
    """The players in all runs of a definition, or in the one run of a scenario."""

    agents: Mapping[str, AgentPort]
    commands: PlayedCommands
    person: Person
    scenario: Scenario | None
    """The scenario that plays, if there is one."""
    calls_models: bool
    """Whether real models can be asked, by the run or by its children."""
    redact: Redact
    """Removes the secrets of the environment, as it is now, from the texts of the players."""
    notify: Sequence[str]
    """The program that is started when a run stops; empty for none."""


def players_of(
    machine: Machine,
    scenario: Scenario | None,
    functions: Functions,
    person: Person,
    clock: Timekeeper,
) -> Players:
    """The players of a run: a scenario, or else functions, programs, models and a person."""
    sleep = clock.sleep if scenario else asyncio.sleep
    agents = assign_agents(machine, scenario, functions, sleep)
    return Players(
        agents=agents,
        commands=PlayedResults(scenario.commands if scenario else {}),
        person=ScriptedPerson(scenario.answers if scenario else {}, person, clock),
        scenario=scenario,
        calls_models=can_call_models(agents) or (not scenario and _asks_below(machine, functions)),
        redact=redactor(os.environ, tuple(machine.key_names)),
        notify=() if scenario else tuple(machine.notify or ()),
    )


def _asks_below(machine: Machine, functions: Functions) -> bool:
    """Whether a machine that this one runs, or one further below, asks a model."""
    below = [state.child for state in machine.states_of(ChildrenState).values()]
    return any(
        not child.model_agents.keys() <= functions.keys() or _asks_below(child, functions)
        for child in below
    )
