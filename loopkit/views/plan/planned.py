"""The plan as data: bounds, typical cost, the agents with their first prompts, the commands.

The typical cost is that of the shortest path to a success with each number of revisions, where
prompts have the size of their known parts, and all answers one length.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from itertools import chain, count, islice, starmap
from math import ceil
from typing import Any, NamedTuple

from loopkit.agents.model.pricing import (
    answer_caps,
    dearest_call,
    highest_rates,
    longest_answer,
    missing_bounds,
    usual_cost,
)
from loopkit.engine.feedback import SHORT_BYTES
from loopkit.engine.findings import Finding
from loopkit.engine.state import RunState
from loopkit.engine.template_values import plain_finding, render
from loopkit.language.agents import Agent
from loopkit.language.agents.agent import AgentBase
from loopkit.language.agents.model import ModelAgent
from loopkit.language.agents.program import ProgramAgent
from loopkit.language.agents.tools import CommandTool
from loopkit.language.machine import Machine
from loopkit.language.states.each import ChildrenState
from loopkit.language.states.kinds import AgentState, CommandState
from loopkit.language.template.errors import TemplateError
from loopkit.machine.edges import Edge
from loopkit.machine.flow import readable
from loopkit.machine.graph import artifact_of
from loopkit.machine.inputs import Given, child_counts, definition_key, partial_child_input
from loopkit.machine.program import AgentAsked, Program, ToolAsked
from loopkit.machine.scope import FOUND
from loopkit.proof.bounds.agent_calls import AgentCalls, Asked, Price
from loopkit.proof.bounds.exploring import explore
from loopkit.proof.bounds.result import Bounds, Way
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.validators.data import JudgedArtifact
from loopkit.validators.judges.prompt import form_of, judge_prompt

MOST_FOLLOWED = 50_000


@dataclass(frozen=True, slots=True)
class Asking:
    agent: str
    place: str
    """The state's name for an author, `STATE · VALIDATOR` for a judge."""
    who: tuple[str, ...]
    """The models of the ladder, or the program with its arguments."""
    call_usd: float | None
    """The maximum cost of one call; None if nothing bounds it."""
    missing: tuple[str, ...] = ()
    """The keys that would bound it."""
    times: int = 1
    """The most calls for one artifact or report, without retries and a judge's re-asks."""
    prompt: str | None = None
    """Filled in; None if it uses something that the run has to make first."""
    fallback: int = 0
    """Which of the agent's fallbacks this is; 0 is the agent itself."""


@dataclass(frozen=True, slots=True)
class Running:
    place: str
    argv: tuple[str, ...]
    is_filled: bool
    """Whether the arguments are filled in, because they use only the input."""


@dataclass(frozen=True, slots=True)
class Typical:
    revisions: int
    calls: int
    by_state: Mapping[str, float | None]
    """USD; None if a price is unknown."""
    children: Mapping[str, int]
    """How many runs of other machines each state starts."""

    @property
    def usd(self) -> float | None:
        known = [usd for usd in self.by_state.values() if usd is not None]
        return sum(known) if len(known) == len(self.by_state) else None


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is known about a run before it starts."""

    machine: Machine
    bounds: Bounds
    asked: tuple[Asking, ...]
    commands: tuple[Running, ...]
    answer_caps: Mapping[str, int]
    """The output tokens that a limit allows at most, for each model that could produce more."""
    answer_tokens: int
    shorter_answers: Mapping[str, int]
    """The longest answer of each agent whose answers must be shorter."""
    held: Held
    tokens_usd: float | None
    """What the limit of tokens costs at most; None without one, or if more than tokens costs."""
    typical: tuple[Typical, ...]
    """By the number of revisions before a success. If there are very many numbers: the first few,
    one of the others, and the largest."""
    children: Mapping[str, ChildPlan]
    """By the names of the states that start them."""

    @property
    def missing(self) -> tuple[str, ...]:
        """The keys that would bound the cost of a run."""
        plans = [child.plan for child in self.children.values()]
        keys = [*(asking.missing for asking in self.asked), *(plan.missing for plan in plans)]
        return tuple(dict.fromkeys(chain.from_iterable(keys)))


class Held(NamedTuple):
    """What limits a run, or the one that started it, as far as it bounds calls."""

    cost_usd: float | None
    tokens: int | None

    @classmethod
    def of(cls, *machines: Machine) -> Held:
        limits = [machine.limits for machine in machines]
        costs = (one.cost_usd for one in limits if one.cost_usd is not None)
        tokens = (one.tokens for one in limits if one.tokens is not None)
        return cls(min(costs, default=None), min(tokens, default=None))

    @property
    def is_limited(self) -> bool:
        return self != (None, None)


@dataclass(frozen=True, slots=True)
class ChildPlan:
    """The runs that a state starts, and how many."""

    plan: Plan
    fewest: int
    most: int


ANSWER_TOKENS = 1_000


def plan_of(
    machine: Machine,
    inputs: Mapping[str, Any],
    assume: Mapping[str, Fraction] | None = None,
    answer_tokens: int = ANSWER_TOKENS,
) -> Plan:
    """The plan of a sound machine with as much of the input as is known.

    Raises Endless and NotDetermined as `bounds.explore` does.
    """
    return _Planning(answer_tokens, machine).plan(machine, inputs, assume)


class _Planning:
    """The plans of a family of machines; equal plans are made once."""

    def __init__(self, answer_tokens: int, root: Machine) -> None:
        self._answer_tokens = answer_tokens
        self._root = root
        self._known: dict[str, Plan] = {}

    def plan(
        self, machine: Machine, inputs: Given, assume: Mapping[str, Fraction] | None = None
    ) -> Plan:
        program = Program(machine, "plan")
        held = Held.of(self._root, machine)
        analysis = Analysis.of_machine(machine)
        children = dict(self._children(analysis, inputs))
        typically = Typically(
            program,
            Sizes(program, inputs, self._answer_tokens, is_limited=held.is_limited),
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
            asked=tuple(_askings(program, inputs, held)),
            commands=(*_program_commands(program), *_commands(program, inputs)),
            answer_caps=dict(_caps_on_answers(machine)) if held.is_limited else {},
            answer_tokens=self._answer_tokens,
            shorter_answers=dict(_shorter_answers(machine, self._answer_tokens, held.is_limited)),
            typical=tuple(typically.of(revisions, way) for revisions, way in bounds.ways.items()),
            held=held,
            tokens_usd=_tokens_usd(machine),
            children=children,
        )

    def _price_in(self, machine: Machine) -> Price:
        held = Held.of(self._root, machine)

        def price(agent: str, _place: str, fallback: int) -> float | None:
            return _call_usd(machine.agents[agent].in_turn[fallback], held)

        return price

    def _children(self, analysis: Analysis, inputs: Given) -> Iterator[tuple[str, ChildPlan]]:
        for name, state in analysis.machine.states_of(ChildrenState).items():
            child_inputs = partial_child_input(state, inputs)
            key = definition_key(state, child_inputs)
            if key not in self._known:
                self._known[key] = self.plan(state.child, child_inputs)
            fewest, most = child_counts(analysis.graph, state, inputs)
            yield name, ChildPlan(self._known[key], fewest, most * state.most_runs)


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


def _models(machine: Machine) -> Iterator[tuple[ModelAgent, str]]:
    for agent in machine.model_agents.values():
        for one in agent.in_turn:
            yield from ((one, model) for model in one.model)


def _tokens_usd(machine: Machine) -> float | None:
    """What the tokens of the limit cost, each at the highest rate of all models."""
    tokens = machine.limits.tokens
    rates = [highest_rates(agent, model) for agent, model in _models(machine)]
    are_models = len(machine.model_agents) == len(machine.agents)
    if tokens is None or not are_models or any(machine.states_of(ChildrenState)):
        return None
    known = [rate for rate in rates if rate is not None and not rate.call]
    dearest = max((max(rate.input, rate.output) for rate in known), default=0.0)
    return tokens * dearest if len(known) == len(rates) else None


def _call_usd(agent: AgentBase, held: Held) -> float | None:
    if isinstance(agent, ModelAgent):
        return dearest_call(agent, is_limited=held.is_limited, tokens=held.tokens)
    return agent.call_usd


def _missing(agent: AgentBase, held: Held) -> tuple[str, ...]:
    if isinstance(agent, ModelAgent):
        return tuple(dict.fromkeys(missing_bounds(agent, is_limited=held.is_limited)))
    return ("price_per_run",) if agent.call_usd is None else ()


def _askings(program: Program, inputs: Given, held: Held) -> Iterator[Asking]:
    """At each place the agent, then its fallbacks."""
    agents = program.machine.agents
    for agent, place, times, prompt in _places(program, inputs):
        for number, one in enumerate(agents[agent].in_turn):
            missing, most = _missing(one, held), _call_usd(one, held)
            if most is None and not missing:
                most = held.cost_usd
            shown = None if number else prompt
            yield Asking(agent, place, one.called, most, missing, times, shown, number)
        if not agents[agent].in_turn:
            # An outside agent writes it.
            yield Asking(agent, place, (), 0.0, (), times, prompt)


def _places(program: Program, inputs: Given) -> Iterator[tuple[str, str, int, str | None]]:
    """(agent, place, calls, prompt) of each author and judge."""
    machine, authors = program.machine, program.machine.states_of(AgentState)
    for name in machine.states:
        if (author := authors.get(name)) is not None:
            prompt = _fill_in(program, inputs, name, author.prompt)
            for agent in author.asks:
                yield agent, name, 1 + machine.agents[agent].most_rounds, prompt
        for validator, rules in program.validators_at(name).items():
            for rule in rules:
                if rule.asks is not None:
                    yield rule.asks, f"{name} · {validator}", rule.most_samples, None


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


def _program_commands(program: Program) -> Iterator[Running]:
    """How each coding program would be started, and who pays for it."""
    for name, agent in program.machine.agents.items():
        if isinstance(agent, ProgramAgent):
            yield Running(f"{name} ({agent.payment})", agent.start().argv, is_filled=True)


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


class Typically:
    """Costs of calls with prompts and answers of the assumed sizes."""

    def __init__(
        self, program: Program, sizes: Sizes, children: Mapping[str, Typical | None]
    ) -> None:
        """`children` are the typical runs that states start; None if no such run succeeds."""
        self._program = program
        self._sizes = sizes
        self._children = children
        self._each: dict[object, tuple[Iterator[float | None], list[float | None]]] = {}

    def of(self, revisions: int, way: Way) -> Typical:
        by_state: dict[str, float | None] = {}
        calls = 0
        for state, number, usd in self.calls(way):
            before = by_state.get(state, 0.0)
            by_state[state] = None if usd is None or before is None else before + usd
            calls += number
        started = {v.state: v.children for v in way if v.state in self._children}
        return Typical(revisions, calls, by_state, started)

    def call(self, state: str, work: AgentCalls, revised: int) -> float | None:
        """The cost of one answer after a number of revisions of its artifact.

        For a state that starts runs, the mean cost of one of their calls.
        """
        if state in self._children:
            typical = self._children[state]
            if typical is None or typical.usd is None or not typical.calls:
                return None
            return work.usual_calls * typical.usd / typical.calls
        key = (state, work.agent, work.place, work.rule)
        if key not in self._each:
            self._each[key] = _Walk(self._program, self._sizes).again(state, work), []
        coming, known = self._each[key]
        known.extend(islice(coming, max(0, revised + 1 - len(known))))
        return known[min(revised, len(known) - 1)]

    def calls(self, way: Way) -> Iterator[tuple[str, int, float | None]]:
        """(state, number, USD) of the calls on a path, in order."""
        walk = _Walk(self._program, self._sizes)
        entered: Edge | None = None
        for step in way:
            if step.state not in self._children:
                costs = walk.costs(step.state, entered, step.asked)
                yield from ((step.state, 1, usd) for usd in costs)
            elif step.children:
                typical = self._children[step.state]
                usd = None if typical is None else typical.usd
                calls = 0 if typical is None else typical.calls * step.children
                yield step.state, calls, None if usd is None else usd * step.children
            entered = self._program.graph.by_id.get(step.edge or "")


class Sizes:
    """Sizes in tokens of everything that runs of a machine send, as far as the input is known."""

    def __init__(
        self, program: Program, inputs: Mapping[str, Any], answer: int, *, is_limited: bool
    ) -> None:
        self.findings = ceil(answer / FINDINGS_SHARE)
        self._answer = answer
        self._is_limited = is_limited
        self._program = program
        self._input = inputs
        self.prompt = cache(self._prompt)
        self.judge = cache(self._judge)
        artifacts = program.graph.artifacts
        states = program.graph.states
        writers = {**{name: (name,) for name in states}, **artifacts}
        sizes = {n: max(map(self.artifact_size, by), default=answer) for n, by in writers.items()}
        self._written = {**dict.fromkeys(("report", "reports"), answer), **sizes}

    def answer(self, agent: ModelAgent, model: str) -> int:
        longest = longest_answer(agent, model, is_limited=self._is_limited)
        return self._answer if longest is None else min(self._answer, longest)

    def artifact_size(self, state: str) -> int:
        agents = self._program.machine.agents_at(state)
        models = ((one, m) for one in agents if isinstance(one, ModelAgent) for m in one.model)
        return max(starmap(self.answer, models), default=self._answer)

    def _prompt(self, state: str, text: str) -> int:
        """The size of a template, filled in with the input, and with answers for artifacts."""
        template = self._program.template(text)
        written = {**self._written, "previous": self.artifact_size(state)}
        names: dict[str, object] = {
            **{name: self._words(written.get(name, self.findings)) for name in template.names},
            **dict.fromkeys(_NUMBERS, 1),
            **{name: [self._finding()] for name in FOUND},
            "input": self._inputs(),
        }
        try:
            return tokens_of(template.render(names))
        except TemplateError:
            # It uses fields that only a run knows, or an input that is not known.
            paths = {path[:2] for path in template.paths if path[0] in {*written, "input"}}
            return tokens_of(text) + sum(written.get(path[0], self._answer) for path in paths)

    def feedback(self, edge: Edge) -> int:
        return self.findings if edge.feedback is None else self.prompt(edge.target, edge.feedback)

    def _judge(self, state: str, validator: str, number: int, *, again: bool) -> int:
        """The size of a judge's prompt, with the schema of its answer and, if `again`, its earlier
        findings."""
        rules = self._program.plans[state].rules
        assert rules is not None
        rule = {(name, index): rule for name, index, rule in rules.judges}[validator, number]
        machine, levels = self._program.machine, rules.levels
        found = Finding(id="0" * 8, message=self._words(self.findings), severity=levels.worst)
        known = (found,) if again else ()
        form = form_of(
            rule, machine.agents[rule.judge], levels, machine.patterns, known, machine.origins
        )
        schema = tokens_of(json.dumps(form.schema)) if form.schema else 0
        judged = rules.state.validate_
        artifact = JudgedArtifact(judged, self._words(self._written.get(judged, self._answer)))
        try:
            asked = judge_prompt(rule, artifact, {"input": self._inputs()}, form)
            return schema + tokens_of(asked)
        except TemplateError:
            return schema + self.prompt(state, rule.prompt or "")

    def _finding(self) -> dict[str, object]:
        found = Finding(id="", message=self._words(self.findings), severity="")
        return plain_finding(found, self._program.report_items)

    def _inputs(self) -> object:
        return readable(dict(self._input), self._program.input_type)

    def _words(self, tokens: int) -> str:
        length = tokens * BYTES_A_TOKEN
        return (_WORD * (length // len(_WORD) + 1))[:length]


@dataclass(slots=True)
class _Walk:
    program: Program
    sizes: Sizes
    revised: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """By author."""
    authors: dict[str, str] = field(default_factory=dict)
    """The last author of each artifact."""
    turns: dict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    """The tokens of each prompt to an agent in a state, oldest first."""

    def costs(self, name: str, entered: Edge | None, called: Asked) -> Iterator[float | None]:
        """The cost in USD of each call of a state at work; a run starts there if no edge enters."""
        if entered is not None and entered.back:
            self.revised[name] += 1
        if (artifact := artifact_of(self.program.machine, name)) is not None:
            self.authors[artifact] = name
        for work in called:
            agent = self.program.machine.agents[work.agent]
            if not isinstance(agent, ModelAgent):
                yield agent.call_usd
            elif name in self.program.graph.judges:
                yield self._judge(name, work, agent)
            else:
                yield from self._author(name, entered, work.agent, agent)

    def again(self, name: str, work: AgentCalls) -> Iterator[float | None]:
        """The cost in USD of all calls for one work: at first, and after each revision."""
        graph = self.program.graph
        judged = self.program.machine.states[name].judges
        authors = graph.artifacts.get(judged or "") or (name,)
        back = next((edge for edge in graph.edges if edge.back and edge.target in authors), None)
        for number in count() if back is not None else (0,):
            entered = back if number and judged is None else None
            if judged is not None:
                self.authors[judged] = authors[0]
                self.revised[authors[0]] = number
            costs = list(self.costs(name, entered, (work,)))
            known = [usd for usd in costs if usd is not None]
            yield sum(known) if len(known) == len(costs) else None

    def _author(
        self, name: str, entered: Edge | None, asks: str, agent: ModelAgent
    ) -> Iterator[float | None]:
        turns = self.turns[name, asks]
        asked = self.program.plans[name].agents[asks]
        sent = self._turn(name, entered, asks, agent)
        resent = [] if agent.session == "fresh" else _resent_turns(turns, agent)
        turns.append(sent)
        model = self._model(agent, name)
        answer = self.sizes.answer(agent, model)
        again = sum(turn + agent.usual_calls * answer for turn in resent)
        schema = tokens_of(json.dumps(asked.schema)) if asked.schema else 0
        for number in range(agent.usual_calls):
            # The arguments of a tool are sent again with its result, which is short.
            whole = again + sent + schema + _tool_tokens(agent, asked) + number * answer
            yield self._usd(agent, model, whole)

    def _turn(self, name: str, entered: Edge | None, asks: str, agent: ModelAgent) -> int:
        state = self.program.machine.states_of(AgentState)[name]
        prompt = self.sizes.prompt(name, state.prompt)
        if entered is None or not entered.back:
            return prompt
        feedback = self.sizes.feedback(entered)
        if agent.session != "fresh":
            return feedback
        named = self.program.template(state.prompt).names
        size = self.sizes.artifact_size(name)
        hides = self.program.hides_previous(entered, name, asks, entered.feedback is not None)
        if hides is None:
            hides = size * BYTES_A_TOKEN <= SHORT_BYTES
        previous = 0 if hides or "previous" in named else size
        return prompt + previous + (0 if "feedback" in named else feedback)

    def _judge(self, name: str, work: AgentCalls, agent: ModelAgent) -> float | None:
        author = self.authors.get(self.program.graph.judges[name].validate_, name)
        again = self.revised[author] > 0
        sent = self.sizes.judge(name, work.place, work.rule, again=again)
        return self._usd(agent, self._model(agent, author), sent)

    def _usd(self, agent: ModelAgent, model: str, sent: int) -> float | None:
        whole = sent + tokens_of(agent.system)
        return usual_cost(agent, model, whole, self.sizes.answer(agent, model))

    def _model(self, agent: ModelAgent, author: str) -> str:
        """The model of the rung that is asked; the first, if the ladder climbs when work stalls."""
        return agent.model_after(self.revised[author] if agent.climb == "revision" else 0)


def _tool_tokens(agent: ModelAgent, asked: AgentAsked) -> int:
    tools = asked.tools.items() if agent.tool_use != "runner" else ()
    return sum(tokens_of(json.dumps([name, t.tool.description, t.schema])) for name, t in tools)


def _resent_turns(turns: list[int], agent: Agent) -> list[int]:
    """The turns of a kept session that are sent again; the first says what the task is."""
    kept = agent.turns_kept
    return [turns[0], *turns[-kept:]] if kept is not None and len(turns) > kept else turns[:]


BYTES_A_TOKEN = 4
FINDINGS_SHARE = 4
"""The findings of a judge are assumed to be shorter than an answer by this factor."""
_WORD = "word "


def tokens_of(text: str) -> int:
    return ceil(len(text.encode()) / BYTES_A_TOKEN)


_NUMBERS = ("revision", "max_revisions", "attempt")
