"""Every kind of agent is what it says: its docs, its schema, its example played in three ways."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from loopkit import run
from loopkit.agents.players import PORTS, assign_agents
from loopkit.app import App
from loopkit.engine.events import Intended
from loopkit.language.agents import AGENT_KINDS, AGENT_NOUNS, CommandAgent
from loopkit.language.agents.agent import AgentBase, CalledAgent
from loopkit.language.inclusion import INCLUDING
from loopkit.language.load import load
from loopkit.language.machine import Machine
from loopkit.language.section import INCLUDED_SCHEMA
from loopkit.views.plan.planned import plan_of
from tests.support import KIND_EXAMPLES, Desk, published_faults, scenario

EXAMPLES = KIND_EXAMPLES["agents"]
KINDS = pytest.mark.parametrize("noun", AGENT_NOUNS, ids=lambda noun: noun.kind)


def machine(noun: type[AgentBase], **changes: Any) -> str:
    """A machine in which the example of a kind of agent writes."""
    states = {
        "draft": {"agent": "writer", "prompt": "Tea.", "on_error": "failed", "next": "done"},
        "done": {"final": "success", "result": "draft"},
        "failed": {"final": "failure"},
    }
    agents = {"writer": {**EXAMPLES[noun.kind], **changes}}
    return json.dumps({"loopkit": 1, "agents": agents, "states": states})


def definition(noun: type[AgentBase], desk: Desk) -> Machine:
    return load(desk.write("machine.yaml", machine(noun))).machine


@KINDS
def test_a_scenario_plays_an_agent_of_any_kind(noun: type[AgentBase], desk: Desk) -> None:
    played = desk.play(machine(noun), scenario(agents={"writer": [{"reply": "Green tea."}]}))
    assert (played.outcome, played.result["draft"]) == ("done", "Green tea.")
    assert [event.role for event in played.of(Intended)] == [
        "author" if noun.is_called else "outside"
    ]


def test_each_run_of_an_app_has_the_players_of_its_own_scenario(desk: Desk) -> None:
    path = desk.write("machine.yaml", machine(CommandAgent, command=["echo", "Black tea."]))

    async def drafts() -> list[object]:
        said: list[object] = []
        async with App.open(None) as app:
            for reply in ("Green tea.", "", "White tea."):
                script = desk.script(scenario(agents={"writer": [reply]})) if reply else None
                state = await app.drive(await app.start(load(path), {}, script))
                said.append(state.finished and state.finished.result["draft"])
        return said

    assert asyncio.run(drafts()) == ["Green tea.", "Black tea.\n", "White tea."]


@KINDS
def test_a_function_plays_an_agent_of_any_kind(noun: type[AgentBase], desk: Desk) -> None:
    path = desk.write("machine.yaml", machine(noun))
    played = run(path, agents={"writer": lambda prompt, _: f"{prompt} And cake."}, state=None)
    assert played.result["draft"] == "Tea. And cake."


@KINDS
def test_whoever_nobody_plays_is_asked_by_the_port_of_its_kind(
    noun: type[AgentBase], desk: Desk
) -> None:
    assert PORTS.keys() == AGENT_KINDS.keys()
    [port] = assign_agents(definition(noun, desk), None, {}).values()
    assert isinstance(port, PORTS[noun.kind])


@KINDS
def test_a_plan_names_what_is_behind_an_agent(noun: type[AgentBase], desk: Desk) -> None:
    [asked] = plan_of(definition(noun, desk), {}).asked
    told = EXAMPLES[noun.kind][noun.kind]
    named = told if isinstance(told, list) else [told]
    assert list(asked.who) == (named if noun.is_called else [])


@KINDS
def test_every_text_of_an_agent_is_checked(noun: type[AgentBase], desk: Desk) -> None:
    """As a template, or as a text in which nothing is filled in."""
    schemas = noun.model_json_schema(by_alias=True)["properties"].items()
    texts = {name for name, schema in schemas if INCLUDED_SCHEMA in schema.get("anyOf", ())}
    assert texts <= INCLUDING
    for name in texts:
        problems = desk.problems(machine(noun, **{name: "{{ nobody }}"}))
        codes = {problem.code for problem in problems if problem.path == f"agents.writer.{name}"}
        assert codes & {"unknown-name", "not-a-template"}


@KINDS
def test_an_agent_is_known_by_a_key_of_its_own(noun: type[AgentBase], desk: Desk) -> None:
    assert noun.kind in {field.alias or name for name, field in noun.model_fields.items()}
    assert type(definition(noun, desk).agents["writer"]) is noun


@KINDS
def test_the_published_schema_knows_every_agent(noun: type[AgentBase]) -> None:
    assert published_faults(json.loads(machine(noun))) == []
    assert published_faults(json.loads(machine(noun, nobody=1))) != []


def test_every_agent_that_is_defined_is_in_the_table() -> None:
    called = set(CalledAgent.__subclasses__())
    assert called | set(AgentBase.__subclasses__()) - {CalledAgent} == {*AGENT_NOUNS}
