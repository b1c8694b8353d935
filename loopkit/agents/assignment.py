"""The agents of a machine, by name: a scenario, a function, a program or a model plays each."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from loopkit.agents.command import CommandAgentPort
from loopkit.agents.function import AgentFunction, FunctionAgentPort
from loopkit.agents.model.agent import ModelAgentPort
from loopkit.agents.model.answer_caps import longest_answer
from loopkit.agents.model.pricing import unpriced
from loopkit.agents.port import AgentPort
from loopkit.agents.scripted import ScriptedAgent, Sleep
from loopkit.document.problems import did_you_mean
from loopkit.language import (
    Agent,
    CommandAgent,
    CommandState,
    Fallback,
    HumanState,
    Machine,
    ModelAgent,
)
from loopkit.language.agents.agent import AgentBase
from loopkit.scenario import Scenario

OWN_SERVERS = frozenset({"hosted_vllm", "lm_studio", "llamafile", "openai_like", "custom_openai"})
"""Providers that LiteLLM takes for OpenAI itself where no address is given."""


PORTS: Mapping[str, Callable[[Any], AgentPort]] = {
    ModelAgent.kind: ModelAgentPort,
    CommandAgent.kind: CommandAgentPort,
}
"""What asks an agent of each kind that nobody else plays."""


class NotRunnable(Exception):
    """A machine that can't be started as it is asked to; the message says what to do."""


_A = TypeVar("_A", bound=AgentBase)
Functions = Mapping[str, AgentFunction]
"""By the name of the agent that each plays."""


def assign_agents(
    machine: Machine,
    scenario: Scenario | None,
    functions: Functions,
    sleep: Sleep = asyncio.sleep,
) -> dict[str, AgentPort]:
    """Who plays each agent: a scenario, a function, the program or the model itself.

    What the scenario delays is waited for with `sleep`.
    """
    ports: dict[str, AgentPort] = {}
    for name, agent in machine.agents.items():
        if scenario is not None and name in scenario.agents:
            is_model, part = isinstance(agent, ModelAgent), scenario.agents[name]
            ports[name] = ScriptedAgent(name, part, sleep, is_model=is_model)
        elif name in functions:
            ports[name] = FunctionAgentPort(name, agent, functions[name])
        else:
            ports[name] = PORTS[agent.kind](agent)
    return ports


def models_called(ports: Mapping[str, AgentPort]) -> bool:
    """Whether a run can ask a real model."""
    return any(isinstance(port, ModelAgentPort) for port in ports.values())


def with_models(
    machine: Machine, models: Mapping[str, str], prices: Mapping[str, float]
) -> Machine:
    """The machine with other models for some agents, without fallbacks; raises NotRunnable."""
    agents, known = dict(machine.agents), _models(machine.agents)
    _refuse_no_models(machine, {"--model": models, "--price": prices})
    for name, model in models.items():
        agents[name] = known[name].replaced(Fallback(model=(machine.models.get(model, model),)))
    for name, price in prices.items():
        agents[name] = agents[name].model_copy(update={"price": price})
    return machine.model_copy(update={"agents": agents})


def with_params(machine: Machine, params: Mapping[str, Mapping[str, Any]]) -> Machine:
    """The machine with other options for some agents; None takes one away. Raises NotRunnable."""
    agents, known = dict(machine.agents), _models(machine.agents)
    _refuse_no_models(machine, {"--param": params})
    for name, options in params.items():
        changed = dict(known[name].params)
        for dotted, value in options.items():
            changed = _with_option(changed, dotted.split("."), value)
        agents[name] = known[name].model_copy(update={"params": changed})
    return machine.model_copy(update={"agents": agents})


def _with_option(options: Mapping[str, Any], path: Sequence[str], value: object) -> dict[str, Any]:
    first, *rest = path
    if rest:
        inner = options.get(first)
        value = _with_option(inner if isinstance(inner, Mapping) else {}, rest, value)
    kept = {name: known for name, known in options.items() if name != first}
    return kept if value is None else {**kept, first: value}


def _refuse_no_models(machine: Machine, named: Mapping[str, Iterable[str]]) -> None:
    known = _models(machine.agents)
    for option, names in named.items():
        for name in names:
            if name not in known:
                raise NotRunnable(_no_model(option, name, machine, known))


def _models(agents: Mapping[str, Agent]) -> dict[str, ModelAgent]:
    return {name: agent for name, agent in agents.items() if isinstance(agent, ModelAgent)}


def _no_model(option: str, name: str, machine: Machine, known: Iterable[str]) -> str:
    if name in machine.agents:
        return f"`{option} {name}=…`: `{name}` is a program (`command:`), not a model"
    hint = did_you_mean(name, known) or "none of the machine's agents is a model"
    return f"`{option} {name}=…`: the machine has no agent `{name}`; {hint}"


def refuse_misnamed(machine: Machine, scenario: Scenario) -> None:
    """Raise NotRunnable where a scenario speaks for somebody whom the machine does not have."""
    commands = [*machine.states_of(CommandState), *machine.validators]
    asking = machine.states_of(HumanState)
    for section, played, known in (
        ("agents", scenario.agents, list(machine.agents)),
        ("commands", scenario.commands, commands),
        ("answers", scenario.answers, asking),
    ):
        for name in played:
            if name not in known:
                hint = did_you_mean(name, known) or "the machine has none"
                raise NotRunnable(
                    f"the scenario's `{section}` name `{name}`, which the machine lacks; {hint}"
                )


def refuse_unplayable(
    machine: Machine, scenario: Scenario | None, functions: Functions, limits: Mapping[str, Any]
) -> None:
    """Raise NotRunnable where a call would come as a surprise, or a limit could not be kept."""
    _refuse_strange(machine, functions)
    played = scenario.agents if scenario is not None else {}
    unplayed = {name: agent for name, agent in machine.agents.items() if name not in played}
    real = {name: agent for name, agent in unplayed.items() if name not in functions}
    models = _models(real)
    if played:
        _refuse_unplayed(models)
    if real:
        _refuse_keyless(real)
        _refuse_astray(models)
    if machine.limits.cost_usd is not None or limits.get("cost_usd") is not None:
        _refuse_unpriced(real)
        _refuse_uncounted("cost_usd", unplayed, functions)
    if machine.limits.tokens is not None or limits.get("tokens") is not None:
        _refuse_endless(models)
        _refuse_uncounted("tokens", unplayed, functions)


def _refuse_strange(machine: Machine, functions: Functions) -> None:
    for name in functions:
        if name not in machine.agents:
            hint = did_you_mean(name, machine.agents) or "the machine has none"
            raise NotRunnable(f"the machine has no agent `{name}`; {hint}")


def _refuse_uncounted(limit: str, agents: Mapping[str, Agent], functions: Functions) -> None:
    """What a function spends is known to nobody, but for the price of a program in its place."""
    for name in functions.keys() & agents.keys():
        if limit != "cost_usd" or agents[name].call_usd is None:
            raise NotRunnable(
                f"`limits.{limit}` can't be kept: a function plays agent `{name}`, and what it "
                "spends is not known; limit `agent_calls` instead"
            )


def _refuse_unplayed(models: Mapping[str, ModelAgent]) -> None:
    if models:
        listed = ", ".join(f"`{name}`" for name in models)
        raise NotRunnable(
            f"the scenario plays some agents, but not {listed}, so that a real model "
            "would be called; let it play them too, or none"
        )


def _refuse_keyless(real: Mapping[str, Agent]) -> None:
    for who, one in _each_asked(real):
        variable = one.key_env
        if variable is not None and not os.environ.get(variable):
            raise NotRunnable(
                f"{who} takes its key from the environment variable `{variable}`, which is not set"
            )


def _refuse_astray(models: Mapping[str, ModelAgent]) -> None:
    """No prompt meant for a server of one's own goes to a stranger's."""
    for who, one in _each_asked(models):
        rungs = one.model if one.base_url is None else ()
        for provider in {model.partition("/")[0] for model in rungs} & OWN_SERVERS:
            if not os.environ.get(f"{provider.upper()}_API_BASE"):
                raise NotRunnable(
                    f"{who} asks a server of your own (`{provider}`): add its `base_url:`"
                )


def _each_asked(agents: Mapping[str, _A]) -> Iterator[tuple[str, _A]]:
    """Everybody who may be asked, each with what messages call it."""
    return (asked for name, agent in agents.items() for asked in agent.named_in_turn(name))


def _refuse_unpriced(real: Mapping[str, Agent]) -> None:
    for name, agent in real.items():
        for who, what, remedy in unpriced(name, agent, is_limited=True):
            raise NotRunnable(f"`limits.cost_usd` can't be kept: {who} {what}; {remedy}")


def _refuse_endless(models: Mapping[str, ModelAgent]) -> None:
    for who, one in _each_asked(models):
        lengths = [longest_answer(one, model, is_limited=True) for model in one.model]
        if None in lengths:
            raise NotRunnable(
                f"`limits.tokens` can't be kept: {who} may answer at any length; "
                "add `max_tokens` to its `params:`"
            )
