"""Players: who plays the agents, the commands and the person of a run, made ready once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loopkit.agents.assignment import Functions, assign_agents, models_called
from loopkit.agents.port import AgentPort, Person, PlayedCommands
from loopkit.agents.scripted import PlayedResults, ScriptedPerson, Timekeeper
from loopkit.language import Machine
from loopkit.outside.redaction import Redact, redactor
from loopkit.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Players:
    """Who plays in all runs of a definition, or in the one run of a scenario."""

    agents: Mapping[str, AgentPort]
    commands: PlayedCommands
    person: Person
    scenario: Scenario | None
    """What plays, where one does."""
    calls_models: bool
    """Whether real models can be asked."""
    redact: Redact
    """Takes the secrets of the environment, as it is now, out of what they say."""
    notify: Sequence[str]
    """The program that is started when a run stops; empty for none."""


def players_of(
    machine: Machine,
    scenario: Scenario | None,
    functions: Functions,
    person: Person,
    clock: Timekeeper,
) -> Players:
    """A scenario plays, or else functions, programs, models and a person do."""
    sleep = clock.sleep if scenario else asyncio.sleep
    agents = assign_agents(machine, scenario, functions, sleep)
    return Players(
        agents=agents,
        commands=PlayedResults(scenario.commands if scenario else {}),
        person=ScriptedPerson(scenario.answers if scenario else {}, person, clock),
        scenario=scenario,
        calls_models=models_called(agents),
        redact=redactor(os.environ, tuple(machine.key_names)),
        notify=() if scenario else tuple(machine.notify or ()),
    )
