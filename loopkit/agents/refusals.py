"""Refusals: why a machine can't be started with its players, or with those of its children."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from loopkit.agents.assignment import Functions
from loopkit.agents.model.answer_caps import longest_answer
from loopkit.agents.model.pricing import missing_prices
from loopkit.agents.not_runnable import NotRunnable
from loopkit.document.problems import did_you_mean
from loopkit.language import (
    Agent,
    CommandState,
    HumanState,
    Machine,
    ModelAgent,
    ValidateState,
)
from loopkit.language.states.children import ChildrenState
from loopkit.machine.asked import validators_of
from loopkit.scenario import ANY, ChildParts, Parts
from loopkit.text.run_ids import place_of

OWN_SERVERS = frozenset({"hosted_vllm", "lm_studio", "llamafile", "openai_like", "custom_openai"})
"""Providers that LiteLLM takes for OpenAI itself if no address is given."""
NOBODY = ChildParts()


def refuse_misnamed(machine: Machine, scenario: Parts) -> None:
    """Raise NotRunnable where a scenario plays something that the machine does not have."""
    judges = machine.states_of(ValidateState).values()
    rules = dict.fromkeys(name for state in judges for name in validators_of(machine, state))
    agents = machine.agents.items()
    tools = [f"{name}.{tool}" for name, agent in agents for tool in agent.callable_tools]
    commands = [*machine.states_of(CommandState), *machine.validators, *rules, *tools]
    running = machine.states_of(ChildrenState)
    for section, played, known in (
        ("agents", scenario.agents, list(machine.agents)),
        ("commands", scenario.commands, commands),
        ("answers", scenario.answers, list(machine.states_of(HumanState))),
        ("children", scenario.children, list(running)),
    ):
        for name in played:
            if name not in known:
                hint = did_you_mean(name, known) or "the machine has none"
                raise NotRunnable(
                    f"the scenario's `{section}` name `{name}`, which the machine lacks; {hint}"
                )
    for name, part in scenario.children.items():
        if fault := shape_fault(name, running[name], part):
            raise NotRunnable(f"the scenario's `children`: {'; '.join(fault)}")
    for child in scenario.in_children:
        with _name_child(child.called):
            refuse_misnamed(running[child.state].child, child.said)


def shape_fault(name: str, state: ChildrenState, part: object) -> tuple[str, str] | None:
    """What is wrong with how the children of a state are named, and the remedy; else None."""
    if not part or state.has_keys == isinstance(part, Mapping):
        return None
    if state.has_keys:
        remedy = f'write `{name}: {{KEY: …}}`, with `"{ANY}"` for all other items'
        return f"`{name}` runs a child for each item, and no item is named", remedy
    remedy = f"write what belongs to it directly below `{name}:`"
    return f"`{name}` runs one child, which has no key", remedy


@contextmanager
def _name_child(called: str) -> Iterator[None]:
    """Prefix a NotRunnable from inside with the name of the child, if it has one."""
    try:
        yield
    except NotRunnable as error:
        raise NotRunnable(f"in `{called}`: {error}" if called else str(error)) from error


@dataclass(frozen=True)
class _Cast:
    """The players in one run of a family."""

    called: str
    """The child; empty for the root."""
    machine: Machine
    said: Parts
    limited: frozenset[str]
    """The limits on calls that hold for it, whichever machine of its family declares them."""

    @property
    def unplayed(self) -> dict[str, Agent]:
        agents = self.machine.agents.items()
        return {name: agent for name, agent in agents if name not in self.said.agents}


def refuse_unplayable(
    machine: Machine, scenario: Parts | None, functions: Functions, limits: Mapping[str, Any]
) -> None:
    """Raise NotRunnable where a call would be unexpected, or a limit could not be kept."""
    limited = frozenset(name for name, limit in limits.items() if limit is not None)
    casts = list(_casts("", machine, scenario or NOBODY, limited))
    _refuse_unknown_functions(casts, functions)
    is_played = any(cast.said.agents for cast in casts)
    for cast in casts:
        with _name_child(cast.called):
            _refuse(cast, functions, is_played=is_played)


def _casts(called: str, machine: Machine, said: Parts, limited: frozenset[str]) -> Iterator[_Cast]:
    """The casts of a run, and of each kind of child that the scenario tells apart."""
    own = {"cost_usd": machine.limits.cost_usd, "tokens": machine.limits.tokens}
    limited |= {name for name, limit in own.items() if limit is not None}
    yield _Cast(called, machine, said, limited)
    children = list(said.in_children)
    for name, state in machine.states_of(ChildrenState).items():
        others = ANY if state.has_keys else ""
        known = [(child.key, child.said) for child in children if child.state == name]
        if others not in (key for key, _ in known):
            known.append((others, NOBODY))
        for key, parts in known:
            yield from _casts(place_of(name, key, called), state.child, parts, limited)


def _refuse(cast: _Cast, functions: Functions, *, is_played: bool) -> None:
    unplayed = cast.unplayed
    real = {name: agent for name, agent in unplayed.items() if name not in functions}
    models = {name: one for name, one in cast.machine.model_agents.items() if name in real}
    if is_played:
        _refuse_unplayed(models)
    if real:
        _refuse_keyless(real)
        _refuse_astray(models)
    if "cost_usd" in cast.limited:
        _refuse_unpriced(real)
        _refuse_uncounted("cost_usd", unplayed, functions)
    if "tokens" in cast.limited:
        _refuse_endless(models)
        _refuse_uncounted("tokens", unplayed, functions)


def _refuse_unknown_functions(casts: list[_Cast], functions: Functions) -> None:
    known = dict.fromkeys(name for cast in casts for name in cast.machine.agents)
    for name, function in functions.items():
        if not callable(function):
            kind = type(function).__name__
            raise NotRunnable(f"a function has to play agent `{name}`, not {kind}")
        if name not in known:
            hint = did_you_mean(name, known) or "the machine has none"
            raise NotRunnable(f"the machine has no agent `{name}`; {hint}")


def _refuse_uncounted(limit: str, agents: Mapping[str, Agent], functions: Functions) -> None:
    """Refuse a limit on what a function spends; only the price of the program it plays is known."""
    for name in functions.keys() & agents.keys():
        if not agents[name].is_called:
            continue
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
    for who, one in (one for name, agent in real.items() for one in agent.labelled_in_turn(name)):
        variable = one.key_env
        if variable is not None and not os.environ.get(variable):
            raise NotRunnable(
                f"{who} takes its key from the environment variable `{variable}`, which is not set"
            )


def _refuse_astray(models: Mapping[str, ModelAgent]) -> None:
    """Refuse a model on the user's own server without an address: prompts would go elsewhere."""
    for who, one in _models_in_turn(models):
        rungs = one.model if one.base_url is None else ()
        for provider in {model.partition("/")[0] for model in rungs} & OWN_SERVERS:
            if not os.environ.get(f"{provider.upper()}_API_BASE"):
                raise NotRunnable(
                    f"{who} asks a server of your own (`{provider}`): add its `base_url:`"
                )


def _models_in_turn(models: Mapping[str, ModelAgent]) -> Iterator[tuple[str, ModelAgent]]:
    """Every model that may be asked, each with its name in messages."""
    return (asked for name, agent in models.items() for asked in agent.labelled_in_turn(name))


def _refuse_unpriced(real: Mapping[str, Agent]) -> None:
    for name, agent in real.items():
        for who, what, remedy in missing_prices(name, agent, is_limited=True):
            raise NotRunnable(f"`limits.cost_usd` can't be kept: {who} {what}; {remedy}")


def _refuse_endless(models: Mapping[str, ModelAgent]) -> None:
    for who, one in _models_in_turn(models):
        lengths = [longest_answer(one, model, is_limited=True) for model in one.model]
        if None in lengths:
            raise NotRunnable(
                f"`limits.tokens` can't be kept: {who} may answer at any length; "
                "add `max_tokens` to its `params:`"
            )
