"""The agents of a machine, by name: a scenario, a function, a program or a model plays each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Any

from loopkit.agents.command import CommandAgentPort
from loopkit.agents.function import AgentFunction, FunctionAgentPort
from loopkit.agents.model.agent import ModelAgentPort
from loopkit.agents.not_runnable import NotRunnable
from loopkit.agents.outside import OutsideAgentPort
from loopkit.agents.port import AgentPort
from loopkit.agents.scripted import ScriptedAgent, Sleep
from loopkit.document.problems import closest, did_you_mean
from loopkit.language import (
    CommandAgent,
    Fallback,
    Machine,
    ModelAgent,
    OutsideAgent,
)
from loopkit.language.agents.providers import has_no_provider, meant_model
from loopkit.scenario import Scenario

PORTS: Mapping[str, Callable[[Any], AgentPort]] = {
    ModelAgent.kind: ModelAgentPort,
    CommandAgent.kind: CommandAgentPort,
    OutsideAgent.kind: OutsideAgentPort,
}
"""The port for each kind of agent that neither a scenario nor a function plays."""


Functions = Mapping[str, AgentFunction]
"""Functions, by the name of the agent that each plays."""


def assign_agents(
    machine: Machine,
    scenario: Scenario | None,
    functions: Functions,
    sleep: Sleep = asyncio.sleep,
) -> dict[str, AgentPort]:
    """The port of each agent: a scenario, a function, its program or its model plays it.

    `sleep` waits for the delays of the scenario.
    """
    ports: dict[str, AgentPort] = {}
    for name, agent in machine.agents.items():
        if scenario is not None and name in scenario.agents:
            is_model, part = bool(agent.models), scenario.agents[name]
            ports[name] = ScriptedAgent(
                name, part, sleep, is_model=is_model, without_tools=agent.without_tools
            )
        elif name in functions:
            ports[name] = FunctionAgentPort(name, agent, functions[name])
        else:
            ports[name] = PORTS[agent.kind](agent)
    return ports


def can_call_models(ports: Mapping[str, AgentPort]) -> bool:
    """Whether a run can ask a real model."""
    return any(isinstance(port, ModelAgentPort) for port in ports.values())


def with_models(
    machine: Machine, models: Mapping[str, str], prices: Mapping[str, float]
) -> Machine:
    """The machine with other models for some agents, without fallbacks; raises NotRunnable."""
    agents, known = dict(machine.agents), machine.model_agents
    _refuse_no_models(machine, {"--model": models, "--price": prices})
    for name, given in models.items():
        model = machine.models.get(given, given)
        if meant := meant_model(model):
            message = f"LiteLLM knows no provider `{model.partition('/')[0]}`"
            raise NotRunnable(f"`--model {name}={model}`: {message}; did you mean `{meant}`?")
        agents[name] = changed = known[name].with_model_of(Fallback(model=(model,)))
        # At some addresses LiteLLM knows who answers.
        if changed.base_url is None and has_no_provider(model):
            raise NotRunnable(_no_provider(name, model, machine.models))
    for name, price in prices.items():
        if not 0 <= price < inf:
            raise NotRunnable(f"`--price {name}={price:g}` is not a price")
        agents[name] = agents[name].model_copy(update={"price": price})
    return machine.model_copy(update={"agents": agents})


def with_params(machine: Machine, params: Mapping[str, Mapping[str, Any]]) -> Machine:
    """The machine with other options for some agents; None takes one away. Raises NotRunnable."""
    agents, known = dict(machine.agents), machine.model_agents
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
    known = machine.model_agents
    for option, names in named.items():
        for name in names:
            if name not in known:
                raise NotRunnable(_no_model(option, name, machine, known))


def _no_provider(name: str, model: str, aliases: Iterable[str]) -> str:
    near = closest(model, aliases)
    remedy = (
        f"did you mean `{near}`?" if near else "write PROVIDER/MODEL, such as openai/gpt-5-mini"
    )
    return f"`--model {name}={model}`: LiteLLM knows no provider for the model `{model}`; {remedy}"


def _no_model(option: str, name: str, machine: Machine, known: Iterable[str]) -> str:
    if name in machine.agents:
        kind = "a program (`command:`)" if machine.agents[name].is_called else "played from outside"
        return f"`{option} {name}=…`: `{name}` is {kind}, not a model"
    hint = did_you_mean(name, known) or "none of the machine's agents is a model"
    return f"`{option} {name}=…`: the machine has no agent `{name}`; {hint}"
