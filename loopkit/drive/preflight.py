"""Preflight: what a run needs of the computer that drives it, looked up before any call."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from loopkit.agents.model.keys import is_only_way, needed_variables
from loopkit.agents.model.pricing import provider_of
from loopkit.agents.players import Cast, Functions, casts_of
from loopkit.agents.port import NotRunnable
from loopkit.language.agents import Agent, CommandAgent
from loopkit.language.agents.agent import Workspace
from loopkit.language.agents.model import ModelAgent
from loopkit.language.agents.program import ProgramAgent
from loopkit.language.agents.tools import CommandTool
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
from loopkit.outside.workspace import MAKE_IT, PATHS_START, from_above
from loopkit.scenario.script import Parts
from loopkit.text import plural


@dataclass(frozen=True)
class Need:
    """A key, a program or a folder, and who needs it."""

    name: str
    """With its kind: `key OPENAI_API_KEY`."""
    lack: str
    """What is wrong; empty where it is there."""
    who: str
    remedy: str
    is_sure: bool
    """Whether the run surely needs it; otherwise it is only noted."""

    @property
    def is_missing(self) -> bool:
        return bool(self.lack) and self.is_sure

    @property
    def line(self) -> str:
        if not self.lack:
            return f"{self.name}: {self.who}"
        return f"{self.name} {self.lack}: {self.who}; {self.remedy}"


def refuse_unprepared(needs: Iterable[Need]) -> None:
    """Raise NotRunnable with all that a run surely needs and that is missing here."""
    if missing := [need.line for need in needs if need.is_missing]:
        told = f"{plural(len(missing), 'thing')} missing here, and nothing was called"
        raise NotRunnable("\n- ".join((told, *missing)))


def needs_of(
    machine: Machine,
    scenario: Parts | None = None,
    functions: Functions | None = None,
    inputs: Mapping[str, Any] | None = None,
    *,
    ahead: Iterable[str] | None = None,
    folder: Path | None = None,
) -> list[Need]:
    """The needs of a run with these inputs that nothing plays, each once: what is sure first.

    `ahead` are the states of the machine that the run may still come to; by default all. `folder`
    is where the paths of its workspaces start; without it they are not looked up.
    """
    found: dict[str, list[Need]] = {}
    for cast in casts_of(machine, scenario):
        is_root = cast.machine is machine
        states = ahead if is_root and ahead is not None else cast.machine.states
        wanted = _Wanted(cast, functions or {}, inputs if is_root else None)
        folders = () if folder is None else wanted.folders(folder, states)
        git = wanted.git(states) if scenario is None else ()
        for need in (*wanted.needs(states), *git, *folders):
            found.setdefault(need.name, []).append(need)
    return sorted(map(_merged, found.values()), key=lambda need: (not need.is_sure, not need.lack))


def _merged(needs: Sequence[Need]) -> Need:
    is_sure = any(need.is_sure for need in needs)
    who = dict.fromkeys(need.who for need in needs if need.is_sure or not is_sure)
    return replace(needs[0], who=", ".join(who), is_sure=is_sure)


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
                is_sure = self.agents[name]
                yield from self._of_agent(name, machine.agents[name], within, is_sure=is_sure)
            done.update(left)

    def git(self, states: Iterable[str]) -> Iterator[Need]:
        machine = self.cast.machine
        for name in states:
            state, used = machine.states[name], machine.workspaces_at(name)
            output = state.output_at(name)
            is_kept = state.isolates or (output is not None and output.folder is not None)
            is_kept = is_kept or any(agent.protected for agent in machine.agents_at(name))
            if is_kept or any(own is not None and own.isolate != "none" for own in used):
                yield _program("git", "folders are kept with it", (), is_sure=True)

    def folders(self, start: Path, states: Iterable[str]) -> Iterator[Need]:
        machine = self.cast.machine
        owns = [own for name in states for own in machine.workspaces_at(name) if own is not None]
        for own in dict.fromkeys(owns):
            place = place_of(own, start, self.inputs)
            if place is not None and not own.create:
                lack = "" if place.is_dir() else "does not exist"
                yield Need(f"workspace {place}", lack, PATHS_START, MAKE_IT, is_sure=True)

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
            elif isinstance(one, ProgramAgent):
                yield from _coding_program(one, who, is_sure=first)
            elif isinstance(one, ModelAgent):
                yield from _keys_of(one, who, is_sure=first)
        yield from self._of_tools(name, agent, within, is_sure=is_sure)

    def _of_tools(self, name: str, agent: Agent, within: str, *, is_sure: bool) -> Iterator[Need]:
        for called, tool in agent.callable_tools.items():
            for validator in tool.validators:
                rules = rules_of(self.cast.machine.validators.get(validator, ()))
                yield from self._of_rules(validator, rules, f"validator `{validator}`{within}")
            if not self._plays(f"{name}.{called}"):
                who = f"tool `{called}` of agent `{name}`{within}"
                if isinstance(tool, CommandTool):
                    yield from self._program_of(tool.command, who, tool.env, is_sure=is_sure)
                server = self.cast.machine.mcp.get(getattr(tool, "server", ""))
                if server is not None and server.command is not None:
                    yield _program(server.command[0], who, server.env, is_sure=is_sure)
                for variable in server.variables if server is not None else ():
                    yield _key((variable,), who, "set it", is_sure=is_sure)

    def _program_of(
        self, argv: Sequence[str], who: str, env: Iterable[str], *, is_sure: bool
    ) -> Iterator[Need]:
        if program := _filled(argv[0], self.inputs):
            yield _program(program, who, env, is_sure=is_sure)


def _filled(text: str, inputs: Mapping[str, Any] | None) -> str | None:
    """A template with inputs filled in; None where that takes more than these."""
    template = parse(text)
    if template.constant is None and (inputs is None or template.names != {"input"}):
        return None
    with suppress(TemplateError):
        return template.render({"input": inputs})
    return None


def place_of(
    own: Workspace | None, start: Path, inputs: Mapping[str, Any] | None = None
) -> Path | None:
    """The folder of a workspace; None where more than the inputs tells that."""
    start = Path(os.path.realpath(start))
    path = "." if own is None else _filled(own.path, inputs)
    if own is None or path is None:
        return None if path is None else start
    root, rest = from_above(start, path.strip(), own.path)
    return root / rest


def _program(program: str, who: str, env: Iterable[str], *, is_sure: bool) -> Need:
    lack, remedy = "is not on PATH", "install it, or correct the name"
    is_there = may_start(program, command_environment(env))
    if os.sep in program:
        # The run may make it, and may start it in a tree of its own.
        is_there, is_sure = os.path.exists(program) or not os.path.isabs(program), False
        lack, remedy = "does not exist", "make it, or correct the path"
    return Need(f"program {program}", "" if is_there else lack, who, remedy, is_sure)


def _coding_program(agent: ProgramAgent, who: str, *, is_sure: bool) -> Iterator[Need]:
    known = agent.known
    need = _program(known.executable, f"{who}, {agent.payment}", (), is_sure=is_sure)
    yield replace(need, remedy=f"install it: `npm install --global {known.package}`")
    if agent.auth == "key":
        yield _key(agent.keys, who, "set it, or write `auth: login`", is_sure=is_sure)


def _keys_of(agent: ModelAgent, who: str, *, is_sure: bool) -> Iterator[Need]:
    if agent.api_key_env is not None:
        yield _key((agent.api_key_env,), who, "set it", is_sure=is_sure)
        return
    for index, model in enumerate(agent.model):
        if variables := needed_variables(provider_of(model)):
            is_first = is_sure and index == 0 and is_only_way(provider_of(model), agent.base_url)
            remedy = "set it, or name another variable under `api_key_env:`"
            yield _key(variables, f"{who} ({model})", remedy, is_sure=is_first)


def _key(variables: Sequence[str], who: str, remedy: str, *, is_sure: bool) -> Need:
    lack = "" if any(map(os.environ.get, variables)) else "is not set"
    return Need(f"key {' or '.join(variables)}", lack, who, remedy, is_sure)
