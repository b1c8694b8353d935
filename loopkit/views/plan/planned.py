"""The plan as data: bounds, the agents with their first prompts, the commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Any

from loopkit.agents.model.answer_caps import answer_caps, longest_answer, needs_caps
from loopkit.agents.model.pricing import assumed_window, cached_share, dearest_call
from loopkit.engine.state import RunState
from loopkit.engine.template_values import render
from loopkit.language import (
    AgentState,
    ChildrenState,
    CommandState,
    CommandTool,
    Machine,
    ModelAgent,
)
from loopkit.language.agents.agent import AgentBase
from loopkit.language.template import TemplateError
from loopkit.machine.asked import ToolAsked
from loopkit.machine.known_inputs import Given, child_counts, definition_key, partial_child_input
from loopkit.machine.program import Program
from loopkit.proof.bounds import Analysis, Bounds, Price, explore
from loopkit.views.plan.sizes import Sizes
from loopkit.views.plan.typical import ANSWER_TOKENS, Typical, Typically

MOST_FOLLOWED = 50_000
"""Configurations that are explored to find the shortest paths."""


@dataclass(frozen=True, slots=True)
class Asking:
    """A place at which an agent is asked."""

    agent: str
    place: str
    """The state's name for an author, `STATE · VALIDATOR` for a judge."""
    who: tuple[str, ...]
    """The models of the ladder, or the program with its arguments."""
    call_usd: float | None
    """The maximum cost of one call; None if unknown."""
    times: int = 1
    """The most calls for one artifact or report, without retries and a judge's re-asks."""
    prompt: str | None = None
    """The first prompt, filled in; None if it uses something that the run has to make first."""
    fallback: int = 0
    """Which of the agent's fallbacks this is; 0 is the agent itself."""


@dataclass(frozen=True, slots=True)
class Running:
    """A command that a run can start, at a state or for a validator of it."""

    place: str
    argv: tuple[str, ...]
    is_filled: bool
    """Whether the arguments are filled in, because they use only the input."""


@dataclass(frozen=True, slots=True)
class ChildPlan:
    """The runs that a state starts."""

    plan: Plan
    """The plan of each of them."""
    fewest: int
    most: int
    """The number of runs."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is known about a run before it starts."""

    machine: Machine
    bounds: Bounds
    asked: tuple[Asking, ...]
    commands: tuple[Running, ...]
    assumed_windows: Mapping[str, int]
    """The input tokens that are assumed at most, for each model whose window is unknown."""
    answer_caps: Mapping[str, int]
    """The output tokens that are requested at most because of a limit, for each model that could
    produce more."""
    answer_tokens: int
    """The length of an answer that is assumed for the typical cost."""
    shorter_answers: Mapping[str, int]
    """The longest answer of each agent whose answers must be shorter."""
    from_cache: Mapping[str, float]
    """For each author whose session is sent again: the price of a cached token as a share of the
    price of an input token."""
    is_limited: bool
    """Whether money or tokens are limited, by the machine or one that runs it."""
    typical: tuple[Typical, ...]
    """The typical cost of a run, by the number of revisions before its success. If there are very
    many numbers: the first few, one of the others, and the largest."""
    children: Mapping[str, ChildPlan]
    """The runs that its states start, by the names of these."""


def plan_of(
    machine: Machine,
    inputs: Mapping[str, Any],
    assume: Mapping[str, Fraction] | None = None,
    answer_tokens: int = ANSWER_TOKENS,
) -> Plan:
    """The plan of a sound machine with as much of the input as is known.

    The typical cost assumes answers of `answer_tokens`.

    Raises Endless and NotDetermined as `bounds.explore` does.
    """
    return _Planning(answer_tokens, needs_caps(dict(machine.limits))).plan(machine, inputs, assume)


class _Planning:
    """The plans of a family of machines; equal plans are made once."""

    def __init__(self, answer_tokens: int, is_limited: bool) -> None:
        """`is_limited` says whether the root run, and with it every other, has a limit."""
        self._answer_tokens = answer_tokens
        self._is_limited = is_limited
        self._known: dict[str, Plan] = {}

    def plan(
        self, machine: Machine, inputs: Given, assume: Mapping[str, Fraction] | None = None
    ) -> Plan:
        program = Program(machine, "plan")
        is_limited = self._limits(machine)
        analysis = Analysis.of_machine(machine)
        children = dict(self._children(analysis, inputs))
        typically = Typically(
            program,
            Sizes(program, inputs, self._answer_tokens, is_limited=is_limited),
            {name: next(iter(child.plan.typical), None) for name, child in children.items()},
        )
        bounds = explore(
            analysis,
            price=self._price_in(machine),
            inputs=inputs,
            assume=assume,
            ways=MOST_FOLLOWED,
            usual=typically.call,
            price_in=self._price_in,
        )
        return Plan(
            machine=machine,
            bounds=bounds,
            asked=tuple(_askings(program, inputs, is_limited)),
            commands=tuple(_commands(program, inputs)),
            assumed_windows=dict(_window_assumptions(machine)),
            answer_caps=dict(_caps_on_answers(machine)) if is_limited else {},
            answer_tokens=self._answer_tokens,
            shorter_answers=dict(_shorter_answers(machine, self._answer_tokens, is_limited)),
            from_cache=dict(_cache_shares(machine)),
            typical=tuple(typically.of(revisions, way) for revisions, way in bounds.ways.items()),
            is_limited=is_limited,
            children=children,
        )

    def _limits(self, machine: Machine) -> bool:
        return self._is_limited or needs_caps(dict(machine.limits))

    def _price_in(self, machine: Machine) -> Price:
        is_limited = self._limits(machine)

        def price(agent: str, _place: str, fallback: int) -> float | None:
            return _call_usd(machine.agents[agent].in_turn[fallback], is_limited)

        return price

    def _children(self, analysis: Analysis, inputs: Given) -> Iterator[tuple[str, ChildPlan]]:
        for name, state in analysis.machine.states_of(ChildrenState).items():
            child_inputs = partial_child_input(state, inputs)
            key = definition_key(state, child_inputs)
            if key not in self._known:
                self._known[key] = self.plan(state.child, child_inputs)
            yield name, ChildPlan(self._known[key], *child_counts(analysis.graph, state, inputs))


def _window_assumptions(machine: Machine) -> Iterator[tuple[str, int]]:
    for agent, model in _models(machine):
        if (window := assumed_window(agent, model)) is not None:
            yield model, window


def _caps_on_answers(machine: Machine) -> Iterator[tuple[str, int]]:
    for agent, model in _models(machine):
        caps = answer_caps(agent, model)
        if caps is not None and (caps.most is None or caps.usual < caps.most):
            yield model, caps.usual


def _shorter_answers(machine: Machine, answer: int, is_limited: bool) -> Iterator[tuple[str, int]]:
    for name, agent in machine.model_agents.items():
        lengths = [longest_answer(agent, m, is_limited=is_limited) for m in agent.model]
        if (least := min((n for n in lengths if n is not None), default=answer)) < answer:
            yield name, least


def _cache_shares(machine: Machine) -> Iterator[tuple[str, float]]:
    authors, models = chain.from_iterable(machine.authoring.values()), machine.model_agents
    for name in dict.fromkeys(authors):
        agent = models.get(name)
        if agent is None or agent.session == "fresh":
            continue
        shares = [cached_share(agent, model) for model in agent.model]
        if any(share < 1 for share in shares):
            yield name, min(shares)


def _models(machine: Machine) -> Iterator[tuple[ModelAgent, str]]:
    for agent in machine.model_agents.values():
        for one in agent.in_turn:
            yield from ((one, model) for model in one.model)


def _call_usd(agent: AgentBase, is_limited: bool) -> float | None:
    """The maximum cost of one call of an agent, for any prompt."""
    if isinstance(agent, ModelAgent):
        return dearest_call(agent, is_limited=is_limited)
    return agent.call_usd


def _askings(program: Program, inputs: Given, is_limited: bool) -> Iterator[Asking]:
    authors = program.machine.states_of(AgentState)
    for name in program.machine.states:
        if (author := authors.get(name)) is not None:
            prompt = _fill_in(program, inputs, name, author.prompt)
            for agent in author.asks:
                times = 1 + program.machine.agents[agent].most_rounds
                yield from _askings_at(
                    program.machine, agent, name, is_limited, times=times, prompt=prompt
                )
        for validator, rules in program.validators_at(name).items():
            for rule in rules:
                if rule.asks is not None:
                    place, times = f"{name} · {validator}", rule.most_samples
                    yield from _askings_at(
                        program.machine, rule.asks, place, is_limited, times=times
                    )


def _askings_at(
    machine: Machine,
    agent: str,
    place: str,
    is_limited: bool,
    *,
    times: int = 1,
    prompt: str | None = None,
) -> Iterator[Asking]:
    """The agent, then its fallbacks."""
    in_turn = machine.agents[agent].in_turn
    for number, one in enumerate(in_turn):
        shown = None if number else prompt
        yield Asking(agent, place, one.called, _call_usd(one, is_limited), times, shown, number)
    if not in_turn:
        # An outside agent writes it.
        yield Asking(agent, place, (), 0.0, times, prompt)


def _commands(program: Program, inputs: Mapping[str, Any]) -> Iterator[Running]:
    running = program.machine.states_of(CommandState)
    for name in program.machine.states:
        if (state := running.get(name)) is not None:
            yield _command(program, inputs, name, name, state.run)
        for agent, written_by in program.plans[name].agents.items():
            for tool, asked in written_by.tools.items():
                yield from _tool_commands(f"{name} · {agent}.{tool}", asked)
        for validator, rules in program.validators_at(name).items():
            for rule in rules:
                if rule.program:
                    place = f"{name} · {validator}"
                    yield _command(program, inputs, name, place, rule.program)


def _tool_commands(place: str, asked: ToolAsked) -> Iterator[Running]:
    if isinstance(asked.tool, CommandTool):
        yield Running(place, asked.tool.command, is_filled=False)
    for _, rules in asked.rules.fixed if asked.rules else ():
        for _, rule in rules:
            if rule.program:
                yield Running(place, rule.program, is_filled=False)


def _command(
    program: Program, inputs: Mapping[str, Any], state: str, place: str, argv: tuple[str, ...]
) -> Running:
    filled = [_fill_in(program, inputs, state, element) for element in argv]
    known = tuple(element for element in filled if element is not None)
    is_filled = len(known) == len(argv)
    return Running(place, known if is_filled else argv, is_filled)


def _fill_in(program: Program, inputs: Mapping[str, Any], state: str, text: str) -> str | None:
    """A template filled in for the first visit to a state; None if it uses more than the input."""
    run = RunState(input=dict(inputs), state=state)
    later = program.graph.states.keys() | program.graph.artifacts.keys()
    if program.template(text).names & later:
        return None
    try:
        return render(program, run, text)
    except TemplateError:
        # It uses an input that is not known yet.
        return None
