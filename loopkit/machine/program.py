"""A machine prepared to run: its graph, its compiled guards and its templates.

For each state there is a plan: all that its work and the step after it look up, whom it asks and
how, as far as the definition alone decides it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from math import inf
from typing import Any, Literal, NamedTuple, TypeAlias

from loopkit.language.agents import Agent
from loopkit.language.agents.agent import Workspace
from loopkit.language.agents.model import ModelAgent
from loopkit.language.agents.tools import Tool, ValidatorTool
from loopkit.language.datatypes.datatype import DataType, facts_of
from loopkit.language.datatypes.notation import parse_fields, parse_record
from loopkit.language.facts import CAME_FROM, Severities, rows_named
from loopkit.language.guard.evaluate import compile_guard
from loopkit.language.guard.grammar import expand
from loopkit.language.guard.grammar import parse as parse_guard
from loopkit.language.inclusion import digest_of
from loopkit.language.json_schema import as_only_field
from loopkit.language.load import definition_of_child
from loopkit.language.machine import Machine
from loopkit.language.section import Emission, Place, Retry
from loopkit.language.states import FinalState, State
from loopkit.language.states.each import ChildrenState
from loopkit.language.states.kinds import AgentState, HumanState, ValidateState
from loopkit.language.states.state import Output
from loopkit.language.template.rendering import Template
from loopkit.language.template.rendering import parse as parse_template
from loopkit.language.validators import Rule, rules_of
from loopkit.language.validators.judge import JudgeRule
from loopkit.language.validators.rule import FixedRule
from loopkit.machine.edges import Edge, EdgeEvent
from loopkit.machine.graph import Graph, names_behind
from loopkit.machine.scope import ReportItems, report_items
from loopkit.values import Value

AMOUNTS = ("agent_calls", "tool_calls", "tokens", "cost_usd", "time")


class ResolvedMachine(NamedTuple):
    machine: Machine
    resolved: str
    digest: str

    @property
    def first_author(self) -> str | None:
        return Graph(self.machine).first_author

    @property
    def first_agent(self) -> str | None:
        graph = Graph(self.machine)
        names = (name for name in reversed(graph.last_first) if graph.states[name].asks)
        return next(names, None)


class Program:
    """What the engine and the runner read; made once for each definition."""

    def __init__(self, machine: Machine, digest: str) -> None:
        self.machine = machine
        self.digest = digest
        self.graph = Graph(machine)
        declared = ((name, getattr(machine.limits, name)) for name in AMOUNTS)
        self.limits: dict[str, Any] = {n: most for n, most in declared if most is not None}
        self.plans = {name: plan_of(self.graph, name) for name in machine.states}

    @cached_property
    def is_counted(self) -> bool:
        """Whether the machine may read figures of a run while it goes on."""
        return self.machine.alert is not None or "telemetry" in self.machine.model_dump_json()

    @cached_property
    def input_type(self) -> DataType:
        return parse_record(self.machine.input)

    def type_from(self, state: str) -> DataType | None:
        """The type of the data of a state: an answer's or a form's; None for texts."""
        return self._types.get(state)

    @cached_property
    def _types(self) -> dict[str, DataType | None]:
        return {name: self.machine.data_type(name) for name in self.machine.states}

    @cached_property
    def children(self) -> dict[str, ResolvedMachine]:
        return {
            name: ResolvedMachine(state.child, text, digest_of(text))
            for name, state in self.machine.states_of(ChildrenState).items()
            for text in (definition_of_child(state.machine),)
        }

    @cached_property
    def guard_names(self) -> dict[str, frozenset[str]]:
        return {edge: guard.names for edge, guard in self.graph.guards.items()}

    @cached_property
    def report_items(self) -> ReportItems | None:
        return report_items(self.graph)

    @cached_property
    def has_baselines(self) -> bool:
        """Whether a rule compares its command's findings with those from before any work."""
        asked = (fixed for plan in self.plans.values() if plan.rules for fixed in plan.rules.fixed)
        rules = (rule for _, rules in asked for _, rule in rules)
        return any(rule.has_baseline for rule in rules)

    @cached_property
    def whole_authors(self) -> frozenset[str]:
        """The states whose artifact is all of their work; a program may also change files."""

        def is_whole(name: str) -> bool:
            if agents := self.machine.agents_at(name):
                return not any(agent.works_on_files for agent in agents)
            return self.machine.states[name].call != "run"

        return frozenset(filter(is_whole, self.machine.states))

    @cached_property
    def names_behind(self) -> dict[str, frozenset[str]]:
        """For each author, the names of all that its work is made from."""
        return {name: names_behind(self.graph, name) for name in self.graph.written}

    def predicate(self, text: str) -> Predicate:
        """The compiled guard of a text that is not on an edge."""
        return compile_guard(expand(parse_guard(text), self.graph.named_guards))

    def rule_facts(self, inputs: Mapping[str, Any], attempt: int) -> dict[str, object]:
        """What the guards of rules read: the input, the attempt, and named guards over these."""
        facts = {**facts_of(inputs, self.input_type, "input."), "attempt": attempt}
        for name, guard in self.graph.named_guards.items():
            known = expand(guard, self.graph.named_guards)
            if known.names <= facts.keys():
                facts[name] = compile_guard(known)(facts)
        return facts

    def feedback_of(self, edge: Edge) -> str:
        """The template of the feedback that an edge carries; empty where it words none."""
        if edge.feedback is None:
            return ""
        return self.machine.feedback.get(edge.feedback, edge.feedback)

    def hides_previous(
        self, edge: Edge | None, to: str, asked: str, is_own: bool, is_repeat: bool = False
    ) -> bool | None:
        """Whether an agent asked again is not shown its version; None if that depends on it.

        `is_own` if the feedback is in words of the machine's author. A kept session knows the
        version, a prompt may insert it, and what is in files is there anyway.
        """
        state = self.machine.states[to]
        wanted = edge.previous if edge is not None else "auto"
        if not isinstance(state, AgentState) or self.machine.agents[asked].session != "fresh":
            return False
        named = self.template(state.prompt).names
        if wanted == "hide":
            return "previous" not in named
        is_judged = edge is None or self.machine.states[edge.source].judges is not None
        is_placed = "previous" in named or "feedback" in named
        if not is_judged or is_placed or self.works_in_files(to, asked):
            return False
        is_needed = wanted == "show" or is_own or (edge is not None and edge.from_best)
        return True if is_repeat else False if is_needed else None

    def works_in_files(self, name: str, asked: str) -> bool:
        """Whether what an agent has to mend in a state is in files."""
        agent = self.machine.agents[asked]
        output = self.machine.states[name].output_at(name)
        assert output is not None
        folder = agent.works_on_files and self.machine.workspace_at(name, agent)
        return output.is_left or bool(folder)

    template = staticmethod(parse_template)

    def validators_at(self, name: str) -> dict[str, tuple[Rule, ...]]:
        """Empty if it is not a validate state."""
        state = self.graph.judges.get(name)
        return {} if state is None else self.validators_of(state)

    def validators_of(self, state: ValidateState) -> dict[str, tuple[Rule, ...]]:
        return validators_of(self.machine, state)


def flat_facts(facts: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    """Scalars under dotted names, as guards read them."""
    flat: dict[str, object] = {}
    for key, value in facts.items():
        if isinstance(value, dict):
            flat |= flat_facts(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


Predicate: TypeAlias = Callable[[Mapping[str, object]], bool]


class Ways(Value, frozen=True):
    """The edges that one event can take out of a state, in their order."""

    edges: tuple[tuple[Edge, Predicate | None, bool], ...] = ()
    """Each with its compiled guard, and whether it leads forward."""
    names: frozenset[str] = frozenset()
    always: tuple[bool, ...] = ()
    """One bit for each edge if all of them are always enabled; else empty."""


Placed: TypeAlias = tuple[tuple[str, FixedRule], ...]
"""Rules of a validator, each with the name of its place."""


class FixedRules(Value, frozen=True):
    fixed: tuple[tuple[str, Placed], ...]
    """The rules of each validator that need no model, of those that have such rules."""
    levels: Severities
    """The severities of findings, and the lowest one that blocks there."""
    are_guarded: bool
    starting: frozenset[str]
    """The validators with rules that start programs."""


class RulesAsked(FixedRules, frozen=True):
    state: ValidateState
    judges: tuple[tuple[str, int, JudgeRule], ...]
    """Each judge: its validator, its index among the rules of the validator, and its rule."""
    workspace: Workspace | None
    """The folder in which its rules work; None is the project folder."""


class ToolAsked(Value, frozen=True):
    tool: Tool
    rules: FixedRules | None
    """The rules for a draft, where the tool validates one."""
    schema: Mapping[str, Any]
    templates: Mapping[Place, Template]
    """By place, the templates that its arguments fill."""


class Callee(Value, frozen=True):
    """One who can be asked: an agent or a command itself, or a fallback of an agent."""

    retry: Retry
    timeout_s: float
    model: str = ""
    """Empty for a program."""
    system: str = ""
    provider: str = ""
    """The provider with which its failures are counted; empty for a program."""


class AgentAsked(Value, frozen=True):
    agent: Agent
    output: Output
    workspace: Workspace | None
    """The folder in which it works there; None is the project folder."""
    datatype: DataType | None
    """The type of the state's data, as guards know it; None for texts."""
    schema: Mapping[str, Any] | None
    """The JSON Schema of its own answer, which the agent receives."""
    templates: tuple[Template, ...]
    """The templates that each call fills with names of the run, without those under `resume`."""
    tools: Mapping[str, ToolAsked]
    is_model: bool
    role: Literal["author", "outside"]
    """`author` for an agent that loopkit calls, `outside` for somebody outside."""
    callees: tuple[Callee, ...] | None
    """The callees in turn; None where they change from call to call."""


class StatePlan(Value, frozen=True):
    state: State
    emission: Emission | None
    """The event that is stored when its work begins."""
    agents: Mapping[str, AgentAsked]
    rules: RulesAsked | None
    rows: frozenset[str]
    """Which of `incomplete` and `infeasible` its transitions name."""
    revises: tuple[Edge, ...]
    elsewhere: frozenset[str]
    """The first parts of dotted names in its guards: other states, `reports`, `input`."""
    asks_before: bool
    """Whether its guards read from which state a run came to it."""
    restores: bool
    """Whether the best versions of artifacts become the current ones after it."""
    final: FinalState | None
    """The state itself, if the run ends in it."""
    human: HumanState | None
    """The state itself, if it asks a person."""
    ways: Mapping[EdgeEvent, Ways]

    def on(self, event: EdgeEvent) -> Ways:
        return self.ways.get(event, NO_WAYS)


NO_WAYS = Ways()


def plan_of(graph: Graph, name: str) -> StatePlan:
    edges, guards = graph.outgoing[name], graph.guards
    judging = graph.judges.get(name)

    def names(some: tuple[Edge, ...]) -> Iterator[str]:
        guarding = (guards[edge.id] for edge in some if edge.id in guards)
        return (read for guard in guarding for read in guard.names)

    ways: dict[EdgeEvent, Ways] = {}
    for event in dict.fromkeys(edge.event for edge in edges):
        led = graph.on(name, event)
        guarded = tuple(
            (e, compile_guard(guards[e.id]) if e.id in guards else None, e.forward) for e in led
        )
        are_free = all(is_always and guard is None for _, guard, is_always in guarded)
        always = (True,) * len(guarded) if are_free else ()
        ways[event] = Ways(guarded, frozenset(names(led)), always)
    state, machine = graph.states[name], graph.machine
    agents: dict[str, AgentAsked] = {}
    if isinstance(state, AgentState):
        agents = {asked: agent_asked(machine, name, state, asked) for asked in state.asks}
    return StatePlan(
        state=state,
        emission=state.emits,
        agents=agents,
        rules=None if judging is None else rules_asked(machine, judging),
        rows=rows_named(frozenset(names(graph.on(name, "done")))),
        revises=graph.revise_edges[name],
        elsewhere=frozenset(read.partition(".")[0] for read in names(edges) if "." in read),
        asks_before=CAME_FROM in names(edges),
        restores=state.waits and state.picks_best,
        final=state if isinstance(state, FinalState) else None,
        human=state if isinstance(state, HumanState) else None,
        ways=ways,
    )


ANYTHING: Mapping[str, Any] = {"type": "object"}
DRAFT = "draft"
"""The argument of a tool that validates."""


def agent_asked(machine: Machine, name: str, state: AgentState, asked: str) -> AgentAsked:
    agent = machine.agents[asked]
    datatype = machine.data_type(name)
    output = state.output_at(name)
    written = [parse_template(text) for path, text in agent.templates if path[0] != "resume"]
    return AgentAsked(
        agent=agent,
        output=output,
        workspace=machine.workspace_at(name, agent),
        datatype=datatype,
        schema=parse_fields(agent.schema_).schema if agent.schema_ else None,
        templates=tuple(template for template in written if template.names),
        tools={
            name: _tool_asked(machine, tool, agent) for name, tool in agent.callable_tools.items()
        },
        is_model=isinstance(agent, ModelAgent),
        role="author" if agent.is_called else "outside",
        callees=lasting_callees(agent),
    )


def _tool_asked(machine: Machine, tool: Tool, agent: Agent) -> ToolAsked:
    rules = None
    schema = ANYTHING if tool.accepts is None else tool.accepts.schema
    if isinstance(tool, ValidatorTool):
        validators = {name: rules_of(machine.validators.get(name, ())) for name in tool.by}
        rules = FixedRules(*_fixed_rule_fields(validators, machine.levels))
        draft = parse_fields(agent.schema_).schema if agent.schema_ else {"type": "string"}
        schema = as_only_field(DRAFT, draft)
    return ToolAsked(
        tool=tool,
        rules=rules,
        schema=schema,
        templates={path: parse_template(text) for path, text in tool.templates},
    )


def rules_asked(machine: Machine, state: ValidateState) -> RulesAsked:
    asked = validators_of(machine, state)
    return RulesAsked(
        *_fixed_rule_fields(asked, machine.levels.blocking_from(state.block)),
        state=state,
        judges=tuple(
            (name, index, rule)
            for name, rules in asked.items()
            for index, rule in enumerate(rules)
            if isinstance(rule, JudgeRule)
        ),
        workspace=state.workspace or machine.workspace,
    )


def with_places(rules: Iterable[Rule]) -> Placed:
    """The rules of a validator that need no model, each with its place, such as `pattern[2]`."""
    numbered = enumerate(rules)
    return tuple((f"{r.kind}[{i}]", r) for i, r in numbered if isinstance(r, FixedRule))


def _fixed_rule_fields(
    asked: Mapping[str, tuple[Rule, ...]], levels: Severities
) -> tuple[tuple[tuple[str, Placed], ...], Severities, bool, frozenset[str]]:
    placed = {name: with_places(rules) for name, rules in asked.items()}
    return (
        tuple((name, rules) for name, rules in placed.items() if rules),
        levels,
        any(rule.guard for rules in asked.values() for rule in rules),
        frozenset(n for n, rules in placed.items() if any(r.may_be_lost for _, r in rules)),
    )


def validators_of(machine: Machine, state: State) -> dict[str, tuple[Rule, ...]]:
    """The validators that a state asks, in order, by name; inline rules by their position.

    A validator that is not declared has no rules.
    """
    return {
        item if isinstance(item, str) else f"by[{index}]": rules_of(
            machine.validators.get(item, ()) if isinstance(item, str) else item
        )
        for index, item in enumerate(state.judged_by)
    }


def agents_called(
    machine: Machine, before: str = "", seen: set[str] | None = None
) -> dict[str, Agent]:
    """The agents that runs of a machine call, and as `STATE · AGENT` those of their children.

    Of states that run equal machines the first stands for all.
    """
    found = dict[str, Agent]()
    seen = set[str]() if seen is None else seen
    for name, state in machine.states.items():
        rules = (rule for rules in validators_of(machine, state).values() for rule in rules)
        for agent in (*state.asks, *(rule.asks for rule in rules if rule.asks is not None)):
            if agent in machine.agents and machine.agents[agent].is_called:
                found[before + agent] = machine.agents[agent]
        if state.child is not None and state.child.identity not in seen:
            seen.add(state.child.identity)
            found |= agents_called(state.child, f"{before}{name} · ", seen)
    return found


def may_call_tools(machine: Machine) -> bool:
    """Whether some author in the runs of a machine, or of their children, has tools to call."""
    authors = (agent for name in machine.states for agent in machine.agents_at(name))
    if any(agent.most_tool_calls for agent in authors):
        return True
    running = machine.states_of(ChildrenState).values()
    children = {state.child.identity: state.child for state in running}
    return any(map(may_call_tools, children.values()))


ONCE = Retry(attempts=1)


def callees_of(agent: Agent, model_of: Callable[[ModelAgent], str]) -> tuple[Callee, ...]:
    """The callees of an agent, in turn; `model_of` chooses the model from a ladder."""
    found: list[Callee] = []
    for asked in agent.in_turn:
        model = provider = system = ""
        if isinstance(asked, ModelAgent):
            model, system = model_of(asked), asked.system
            provider = asked.base_url or model.partition("/")[0]
            if any(before.provider == provider for before in found):
                # Another model failed there: its failures must not keep this one from being called.
                provider = f"{provider} ({model})"
        found.append(Callee(asked.retry, asked.timeout, model, system, provider))
    # A scenario or a function that plays somebody outside is asked once.
    return tuple(found) or (Callee(ONCE, inf),)


def lasting_callees(agent: Agent) -> tuple[Callee, ...] | None:
    """The callees of an agent if they never change; None if a ladder has several models."""
    models = [asked.model for asked in agent.in_turn if isinstance(asked, ModelAgent)]
    if any(len(ladder) > 1 for ladder in models):
        return None
    return callees_of(agent, lambda asked: asked.model[0])
