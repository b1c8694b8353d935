"""Uses of templates: every template of a machine, with the names that it may read in its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from loopkit.checks.references import is_plain_id, validators_of_tools
from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.language import (
    Emission,
    JudgeRule,
    Rule,
    Workspace,
)
from loopkit.language.noun import INPUT_FILE
from loopkit.language.template import Anything, Fields, Items, Scalar, Shape
from loopkit.machine.known import over
from loopkit.machine.scope import shape_of
from loopkit.proof.outcomes import PlacedRule
from loopkit.values import Value

Names = Mapping[str, Shape]
OF_MESSAGES: Names = {
    "item": Anything(),
    "index": Scalar(),
    "value": Anything(),
    "parent": Anything(),
}
OF_COMMANDS: Names = {"prompt": Scalar(), "session": Scalar()}
OF_PROGRAMS: Names = {INPUT_FILE: Scalar()}
OF_AGENTS: Names = {"system": Scalar(), "agent": Fields({"tools": Items(Scalar())})}
"""Names of the agent itself that its templates know, if it has them."""


class Use(Value, frozen=True):
    """One filling of a template."""

    path: DocPath
    text: str
    names: Names | None
    """None if nothing ever fills it, so that only its syntax can be checked."""
    state: str | None = None
    """The state whose work needs it."""
    used_at: DocPath | None = None
    """The place that fills it, if it is written elsewhere."""


def uses(subject: Subject) -> Iterator[Use]:
    yield from _of_states(subject)
    yield from _of_workspaces(subject)
    yield from _of_feedback(subject)
    yield from _of_events(subject)
    yield from _of_rules(subject)
    yield from _of_agents(subject)
    yield from _of_tools(subject)


def _of_states(subject: Subject) -> Iterator[Use]:
    for name, state in subject.machine.states.items():
        for path, text in state.templates:
            yield Use(("states", name, *path), text, subject.entering[name], name)
        emission = state.emits
        for path, text in emission.templates if emission is not None else ():
            yield Use(("states", name, "emit", *path), text, subject.entering[name], name)


def _of_workspaces(subject: Subject) -> Iterator[Use]:
    """The paths of workspaces, which are filled whenever a state or a judge works there."""
    for name, state in subject.machine.states.items():
        if state.works_outside:
            for path, text in workspace_of(subject, name):
                yield Use(path, text, subject.entering[name], name)
    for placed in subject.rules_of(JudgeRule):
        for path, text in _workspace(subject, placed.rule.judge):
            yield from (Use(path, text, subject.entering[name], name) for name in placed.judged_at)


def workspace_of(subject: Subject, name: str) -> Iterator[tuple[DocPath, str]]:
    """The path of the workspace in which a state works: its own, its agent's or the machine's."""
    state = subject.machine.states[name]
    own: DocPath = ("states", name)
    agents = state.asks or (None,)
    found = (_workspace(subject, asked, (own, state.own_workspace)) for asked in agents)
    yield from dict.fromkeys(chain.from_iterable(found))


def _workspace(
    subject: Subject, asked: str | None, *own: tuple[DocPath, Workspace | None]
) -> Iterator[tuple[DocPath, str]]:
    agent = subject.machine.agents.get(asked or "")
    of_agent = agent.workspace if agent is not None else None
    of_machine: tuple[DocPath, Workspace | None] = ((), subject.machine.workspace)
    for path, workspace in (*own, (("agents", asked or ""), of_agent), of_machine):
        if workspace is not None:
            yield (*path, "workspace", "path"), workspace.path
            return


def _of_feedback(subject: Subject) -> Iterator[Use]:
    unused = dict(subject.machine.feedback)
    for edge in subject.graph.edges:
        written = edge.feedback
        if written is None:
            continue
        at: DocPath = (*edge.path, "feedback")
        names = subject.scope.taking(edge)
        if written in subject.machine.feedback:
            unused.pop(written, None)
            text = subject.machine.feedback[written]
            yield Use(("feedback", written), text, names, edge.source, at)
        elif not is_plain_id(written):
            yield Use(at, written, names, edge.source)
    for name, text in unused.items():
        yield Use(("feedback", name), text, None)


def _of_events(subject: Subject) -> Iterator[Use]:
    """The texts of events that are stored when edges are taken and when tools find something."""
    for state, agents in subject.machine.authoring.items():
        for agent in agents:
            for tool, emission in _emitting_tools(subject, agent):
                for path, text in emission.templates:
                    at: DocPath = ("agents", agent, "tools", tool, "emit", *path)
                    yield Use(at, text, subject.entering[state], state, ("states", state, "agent"))
    for edge in subject.graph.edges:
        for path, text in edge.emit.templates if edge.emit is not None else ():
            yield Use((*edge.path, "emit", *path), text, subject.scope.taking(edge), edge.source)


def _emitting_tools(subject: Subject, agent: str) -> Iterator[tuple[str, Emission]]:
    asked = subject.machine.agents.get(agent)
    for name, tool in asked.callable_tools.items() if asked is not None else ():
        if tool.emits is not None:
            yield name, tool.emits


def _of_rules(subject: Subject) -> Iterator[Use]:
    for placed in subject.rules:
        for path, text, own in _texts_of_rule(placed):
            if not placed.used_at:
                yield Use(path, text, None)
            for state in placed.used_at:
                names = over(own, subject.judging[state])
                yield Use(path, text, names, state, _item_at(subject, placed, state))


def _item_at(subject: Subject, placed: PlacedRule[Rule], state: str) -> DocPath | None:
    """The place where a state, or a tool of its agent, names the validator of a rule; None for an
    inline rule."""
    if placed.path[0] == "states":
        return None
    if state not in subject.judges:
        return next(
            at
            for agent in subject.machine.states[state].asks
            for at, name in validators_of_tools(subject, agent)
            if name == placed.path[1]
        )
    return ("states", state, "by", subject.judges[state].by.index(placed.path[1]))


def _texts_of_rule(placed: PlacedRule[Rule]) -> Iterator[tuple[DocPath, str, Names]]:
    """The templates of a rule, each with the names that it alone sees."""
    rule, path = placed.rule, placed.path
    yield from (((*path, *at), text, OF_MESSAGES) for at, text in rule.finding_templates)
    own = OF_PROGRAMS if rule.program else {}
    yield from (((*path, *at), text, own) for at, text in rule.templates)


def _of_agents(subject: Subject) -> Iterator[Use]:
    """The arguments and the input of command agents, wherever these write or judge."""
    for name, agent in subject.machine.agents.items():
        known = {**OF_COMMANDS, **{own: OF_AGENTS[own] for own in agent.own_names}}
        for at, text in agent.templates:
            path: DocPath = ("agents", name, *at)
            if at[0] == "resume":
                yield Use(path, text, known)
            else:
                yield from _uses_by_states(subject, name, path, text, {**known, **OF_PROGRAMS})


def _of_tools(subject: Subject) -> Iterator[Use]:
    """The templates of tools, which see only the arguments of the tool."""
    for agent, declared in subject.machine.agents.items():
        for name, tool in declared.callable_tools.items():
            shape = Anything() if tool.accepts is None else shape_of(tool.accepts)
            fields = shape.fields if isinstance(shape, Fields) else {}
            for at, text in tool.templates:
                yield Use(("agents", agent, "tools", name, *at), text, fields)


def _uses_by_states(
    subject: Subject, agent: str, path: DocPath, text: str, own: Names
) -> Iterator[Use]:
    """One template of a command agent for each state that asks it."""
    for name in (name for name, asked in subject.machine.authoring.items() if agent in asked):
        names = over(own, subject.entering[name])
        yield Use(path, text, names, name, ("states", name, "agent"))
    for placed in subject.rules_of(JudgeRule):
        if placed.rule.judge == agent:
            # A judge's command is filled with its request and with what the run was given.
            given = {"input": subject.entering[subject.machine.start]["input"]}
            yield Use(path, text, {**own, **given}, None, (*placed.path, "judge"))
