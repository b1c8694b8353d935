"""Requests of states: whom each state asks and how, as far as the definition alone decides it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from loopkit.language import (
    Agent,
    AgentState,
    ChildrenState,
    FixedRule,
    JudgeRule,
    Machine,
    ModelAgent,
    Output,
    Rule,
    State,
    Tool,
    ValidateState,
    ValidatorTool,
    Workspace,
    rules_of,
)
from loopkit.language.datatypes import DataType, parse_fields
from loopkit.language.json_schema.local import as_only_field
from loopkit.language.noun import Place
from loopkit.language.severities import Severities
from loopkit.language.template import Template, parse
from loopkit.machine.callees import Callee, lasting_callees
from loopkit.values import Value

ANYTHING: Mapping[str, Any] = {"type": "object"}
DRAFT = "draft"
"""The argument of a tool that validates."""


Placed: TypeAlias = tuple[tuple[str, FixedRule], ...]
"""Rules of a validator, each with the name of its place."""


class FixedRules(Value, frozen=True):
    """The rules by which something is judged without a model."""

    fixed: tuple[tuple[str, Placed], ...]
    """The rules of each validator that need no model, of those that have such rules."""
    levels: Severities
    """The severities of findings, and the lowest one that blocks there."""
    are_guarded: bool
    """Whether some rule has a guard."""
    starting: frozenset[str]
    """The validators with rules that start programs."""


class RulesAsked(FixedRules, frozen=True):
    """The rules by which a validate state judges."""

    state: ValidateState
    judges: tuple[tuple[str, int, JudgeRule], ...]
    """Each judge: its validator, its index among the rules of the validator, and its rule."""
    workspace: Workspace | None
    """The folder in which its rules work; None is the project folder."""
    stop_early: bool
    """Whether judging stops at the first finding that blocks."""
    may_settle: bool
    """Whether new findings stop blocking after some rounds."""
    is_by_majority: bool
    """Whether judges can be outvoted."""
    quorum: int | None
    """How many judges have to answer; None for all of them."""
    stall: int
    """After how many reports with the same findings revising has stalled."""


class ToolAsked(Value, frozen=True):
    """A tool of an agent, in a state."""

    tool: Tool
    rules: FixedRules | None
    """The rules for a draft, where the tool validates one."""
    schema: Mapping[str, Any]
    """JSON Schema of its arguments."""
    templates: Mapping[Place, Template]
    """By place, the templates that its arguments fill."""


class AgentAsked(Value, frozen=True):
    """The agent of a state, and the artifact that it writes there."""

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
    """The tools that it may call there, by name."""
    works_on_files: bool
    """Whether it changes files, so that its answer is only a part of its work."""
    is_model: bool
    is_left: bool
    """Whether its artifact is a file or a folder that it leaves behind."""
    is_fresh: bool
    """Whether each visit of the state begins a new conversation."""
    role: Literal["author", "outside"]
    """`author` for an agent that loopkit calls, `outside` for somebody outside."""
    callees: tuple[Callee, ...] | None
    """The callees in turn; None where they change from call to call."""


def agent_asked(machine: Machine, name: str, state: AgentState, asked: str) -> AgentAsked:
    """The fixed parts of a request to one of a state's agents."""
    agent = machine.agents[asked]
    datatype, output = machine.data_type(name), state.output_at(name)
    written = [parse(text) for path, text in agent.templates if path[0] != "resume"]
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
        works_on_files=agent.works_on_files,
        is_model=isinstance(agent, ModelAgent),
        is_left=output.is_left,
        is_fresh=agent.session == "fresh",
        role="author" if agent.is_called else "outside",
        callees=lasting_callees(agent),
    )


def _tool_asked(machine: Machine, tool: Tool, agent: Agent) -> ToolAsked:
    """The fixed parts of an agent's tool."""
    rules, schema = None, ANYTHING if tool.accepts is None else tool.accepts.schema
    if isinstance(tool, ValidatorTool):
        validators = {name: rules_of(machine.validators.get(name, ())) for name in tool.by}
        rules = FixedRules(*_fixed_rule_fields(validators, machine.levels))
        draft = parse_fields(agent.schema_).schema if agent.schema_ else {"type": "string"}
        schema = as_only_field(DRAFT, draft)
    return ToolAsked(
        tool=tool,
        rules=rules,
        schema=schema,
        templates={path: parse(text) for path, text in tool.templates},
    )


def rules_asked(machine: Machine, state: ValidateState) -> RulesAsked:
    """The fixed parts of how a state judges."""
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
        stop_early=state.stop == "first",
        may_settle=state.settle_after is not None,
        is_by_majority=state.combine == "majority",
        quorum=state.quorum,
        stall=machine.limits.stall,
    )


def with_places(rules: Iterable[Rule]) -> Placed:
    """The rules of a validator that need no model, each with its place, such as `pattern[2]`."""
    numbered = enumerate(rules)
    return tuple((f"{r.kind}[{i}]", r) for i, r in numbered if isinstance(r, FixedRule))


def _fixed_rule_fields(
    asked: Mapping[str, tuple[Rule, ...]], levels: Severities
) -> tuple[tuple[tuple[str, Placed], ...], Severities, bool, frozenset[str]]:
    """The fields of `FixedRules`, in their order."""
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


def agents_called(machine: Machine) -> dict[str, Agent]:
    """The agents that runs of a machine call, and as `STATE · AGENT` those of their children.

    Of states that run equal machines the first stands for all.
    """
    return dict(_agents_called(machine, "", set()))


def may_call_tools(machine: Machine) -> bool:
    """Whether some author in the runs of a machine, or of their children, has tools to call."""
    authors = (agent for name in machine.states for agent in machine.agents_at(name))
    if any(agent.most_tool_calls for agent in authors):
        return True
    running = machine.states_of(ChildrenState).values()
    children = {state.child.identity: state.child for state in running}
    return any(map(may_call_tools, children.values()))


def _agents_called(machine: Machine, before: str, seen: set[str]) -> Iterator[tuple[str, Agent]]:
    for name, state in machine.states.items():
        rules = (rule for rules in validators_of(machine, state).values() for rule in rules)
        for agent in (*state.asks, *(rule.asks for rule in rules if rule.asks is not None)):
            if agent in machine.agents and machine.agents[agent].is_called:
                yield before + agent, machine.agents[agent]
        if state.child is not None:
            written = state.child.identity
            if written not in seen:
                seen.add(written)
                yield from _agents_called(state.child, f"{before}{name} · ", seen)
