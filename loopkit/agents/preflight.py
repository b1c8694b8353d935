"""Preflight: what a run surely needs of the computer that drives it, looked up before any call."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from loopkit.agents.model.keys import is_only_way, needed_variables
from loopkit.agents.model.pricing import provider_of
from loopkit.agents.players import Cast, Functions, casts_of
from loopkit.agents.port import NotRunnable
from loopkit.language.agents import Agent, CommandAgent
from loopkit.language.agents.model import ModelAgent
from loopkit.language.agents.tools import CommandTool, McpTool, Tool
from loopkit.language.guard.evaluate import compile_guard
from loopkit.language.guard.grammar import parse as parse_guard
from loopkit.language.machine import Machine
from loopkit.language.states.kinds import CommandState
from loopkit.language.template.errors import TemplateError
from loopkit.language.template.rendering import parse
from loopkit.language.validators import Rule, rules_of
from loopkit.language.validators.command import CommandRule
from loopkit.machine.program import flat_facts, validators_of
from loopkit.outside.processes import command_environment, may_start
from loopkit.scenario.script import Parts
from loopkit.text import plural


class NotPrepared(NotRunnable):
    """Something that the run needs is missing here."""


@dataclass(frozen=True)
class Need:
    """A key or a program, and who needs it."""

    kind: str
    """`key` or `program`."""
    name: str
    who: str
    remedy: str
    is_met: bool
    is_sure: bool
    """Whether the run surely needs it; otherwise it is only noted."""

    @property
    def is_missing(self) -> bool:
        return self.is_sure and not self.is_met

    @property
    def standing(self) -> str:
        is_key = self.kind == "key"
        if self.is_met:
            return "is set" if is_key else "is found"
        return "is not set" if is_key else "is not on PATH"

    @property
    def line(self) -> str:
        told = f"{self.kind} {self.name} {self.standing}: {self.who}"
        return told if self.is_met else f"{told}; {self.remedy}"


def refuse_unprepared(
    machine: Machine,
    scenario: Parts | None = None,
    functions: Functions | None = None,
    inputs: Mapping[str, Any] | None = None,
    ahead: Iterable[str] | None = None,
) -> None:
    """Raise NotPrepared with all that a run surely needs and that is missing here."""
    needs = needs_of(machine, scenario, functions, inputs, ahead)
    if missing := [need for need in needs if need.is_missing]:
        told = f"{plural(len(missing), 'thing')} missing here, and nothing was called"
        raise NotPrepared("\n- ".join((told, *(need.line for need in missing))))


def needs_of(
    machine: Machine,
    scenario: Parts | None = None,
    functions: Functions | None = None,
    inputs: Mapping[str, Any] | None = None,
    ahead: Iterable[str] | None = None,
) -> list[Need]:
    """The needs of a run with these inputs that nothing plays, each once: what is sure first.

    `ahead` are the states of the machine that the run may still come to; by default all.
    """
    found: dict[tuple[str, str], list[Need]] = {}
    for cast in casts_of(machine, scenario):
        is_root = cast.machine is machine
        wanted = _Wanted(cast, functions or {}, inputs if is_root else None)
        for need in wanted.needs(ahead if is_root and ahead is not None else cast.machine.states):
            found.setdefault((need.kind, need.name), []).append(need)
    if scenario is None and _keeps_folders(machine):
        found.setdefault(("program", "git"), []).append(_program("git", "keeps folders", ()))
    return sorted(map(_merged, found.values()), key=lambda need: (not need.is_sure, need.is_met))


def _merged(needs: Sequence[Need]) -> Need:
    """One need of several, told of those that surely have it, if there are such."""
    is_sure = any(need.is_sure for need in needs)
    who = dict.fromkeys(need.who for need in needs if need.is_sure or not is_sure)
    return replace(needs[0], who=", ".join(who), is_sure=is_sure)


def _keeps_folders(machine: Machine) -> bool:
    for name, state in machine.states.items():
        is_isolated = any(one and one.isolate != "none" for one in machine.workspaces_at(name))
        output = state.output_at(name)
        if is_isolated or state.isolates or (output and output.folder is not None):
            return True
        if state.child is not None and _keeps_folders(state.child):
            return True
    return False


@dataclass
class _Wanted:
    cast: Cast
    functions: Functions
    inputs: Mapping[str, Any] | None
    """The inputs of the run, where they are known."""
    agents: dict[str, bool] = field(default_factory=dict)
    """The agents that are asked, and whether surely."""

    def needs(self, states: Iterable[str]) -> Iterator[Need]:
        machine, of = self.cast.machine, self.cast.called
        within = f" of `{of}`" if of else ""
        for name in states:
            state = machine.states[name]
            for agent in state.asks:
                self._ask(agent, is_sure=len(set(state.asks)) == 1)
            if isinstance(state, CommandState) and not self._plays(name):
                who = f"state `{name}`{within}"
                yield from self._program_of(state.run, who, state.env, is_sure=True)
            for validator, rules in validators_of(machine, state).items():
                who = f"validator `{validator}` of state `{name}`{within}"
                yield from self._of_rules(validator, rules, who)
        done = {*self.cast.said.agents, *self.functions}
        # Rules in the tools of an agent may ask other agents.
        while left := [name for name in self.agents if name not in done]:
            for name in left:
                agent, is_sure = machine.agents[name], self.agents[name]
                yield from self._of_agent(name, agent, within, is_sure=is_sure)
            done.update(left)

    def _ask(self, agent: str, *, is_sure: bool) -> None:
        if agent in self.cast.machine.agents:
            self.agents[agent] = self.agents.get(agent, False) or is_sure

    def _plays(self, place: str) -> bool:
        return place in self.cast.said.commands

    def _of_rules(self, validator: str, rules: Iterable[Rule], who: str) -> Iterator[Need]:
        for rule in rules:
            holds = True if rule.guard is None else self._holds(rule.guard)
            if holds is False:
                continue
            is_sure = holds is not None
            if rule.asks is not None:
                self._ask(rule.asks, is_sure=is_sure)
            if isinstance(rule, CommandRule) and not self._plays(validator):
                yield from self._program_of(rule.command, who, rule.env, is_sure=is_sure)

    def _holds(self, text: str) -> bool | None:
        """Whether a guard holds in this run; None where more than its inputs tells that."""
        guard, facts = parse_guard(text), flat_facts({"input": self.inputs or {}})
        return compile_guard(guard)(facts) if guard.names <= facts.keys() else None

    def _of_agent(self, name: str, agent: Agent, within: str, *, is_sure: bool) -> Iterator[Need]:
        for index, (label, one) in enumerate(agent.labelled_in_turn(name)):
            first, who = is_sure and index == 0, label + within
            if isinstance(one, CommandAgent):
                yield from self._program_of(one.command, who, one.env, is_sure=first)
            elif isinstance(one, ModelAgent):
                yield from _keys_of(one, who, is_sure=first)
        for called, tool in agent.callable_tools.items():
            for validator in tool.validators:
                rules = rules_of(self.cast.machine.validators.get(validator, ()))
                yield from self._of_rules(validator, rules, f"validator `{validator}`{within}")
            if not self._plays(f"{name}.{called}"):
                who = f"tool `{called}` of agent `{name}`{within}"
                yield from self._of_tool(tool, who, is_sure=is_sure)

    def _of_tool(self, tool: Tool, who: str, *, is_sure: bool) -> Iterator[Need]:
        if isinstance(tool, CommandTool):
            yield from self._program_of(tool.command, who, tool.env, is_sure=is_sure)
        if isinstance(tool, McpTool) and (server := self.cast.machine.mcp.get(tool.server)):
            if server.command is not None:
                yield _program(server.command[0], who, server.env, is_sure=is_sure)
            for variable in server.variables:
                yield _key((variable,), who, "set it", is_sure=is_sure)

    def _program_of(
        self, argv: Sequence[str], who: str, env: Iterable[str], *, is_sure: bool
    ) -> Iterator[Need]:
        template = parse(argv[0])
        program = template.constant
        if program is None and self.inputs is not None and template.names == {"input"}:
            try:
                program = template.render({"input": self.inputs})
            except TemplateError:
                program = None
        if program:
            yield _program(program, who, env, is_sure=is_sure)


def _program(program: str, who: str, env: Iterable[str], *, is_sure: bool = True) -> Need:
    if os.sep in program:
        # The run may make it, and may start it in a tree of its own.
        is_met = os.path.exists(program) or not os.path.isabs(program)
        return Need("program", program, who, "make it, or correct the path", is_met, False)
    is_met = may_start(program, command_environment(env))
    return Need("program", program, who, "install it, or correct the name", is_met, is_sure)


def _keys_of(agent: ModelAgent, who: str, *, is_sure: bool) -> Iterator[Need]:
    """The key of a model, and as notes those of the other rungs of its ladder."""
    if agent.api_key_env is not None:
        yield _key((agent.api_key_env,), who, "set it", is_sure=is_sure)
        return
    for index, model in enumerate(agent.model):
        if variables := needed_variables(provider_of(model)):
            is_first = is_sure and index == 0 and is_only_way(provider_of(model), agent.base_url)
            remedy = "set it, or name another variable under `api_key_env:`"
            yield _key(variables, f"{who} ({model})", remedy, is_sure=is_first)


def _key(variables: Sequence[str], who: str, remedy: str, *, is_sure: bool) -> Need:
    is_met = any(os.environ.get(name) for name in variables)
    return Need("key", " or ".join(variables), who, remedy, is_met, is_sure)
