"""Names without a declaration: agents, validators, budgets, feedback.

`unknown-agent`, `unknown-validator`, `unknown-budget`, `unknown-feedback`; `unknown-target` of the
`of:` of a final state; `no-effect` for a name that adds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, did_you_mean
from loopkit.language import AgentState, ErrorEdge, JudgeRule, Transition
from loopkit.language.noun import ID_PATTERN


def check_agents(subject: Subject) -> Iterator[Problem]:
    """The agents of states and of judges."""
    for name, state in subject.machine.states_of(AgentState).items():
        path: DocPath = ("states", name, "agent")
        if isinstance(state.agent, str):
            yield from _agent(subject, state.agent, path)
            continue
        for word, agent in state.agent.of.items():
            yield from _agent(subject, agent, (*path, "of", word))
    for placed in subject.rules_of(JudgeRule):
        yield from _agent(subject, placed.rule.judge, (*placed.path, "judge"))


def check_validators(subject: Subject) -> Iterator[Problem]:
    """The validators in `by:` of states and of tools, each once."""
    for state, judging in subject.judges.items():
        names = [item for item in judging.by if isinstance(item, str)]
        for index, name in enumerate(judging.by):
            path = ("states", state, "by", index)
            if isinstance(name, str) and name not in subject.machine.validators:
                yield _unknown(subject, path, "validator", name, subject.machine.validators)
            elif name in names and judging.by.index(name) < index:
                message = f"`{name}` is already listed"
                yield subject.no_effect(path, message)
    for agent in subject.machine.agents:
        known: set[tuple[DocPath, str]] = set()
        for at, name in validators_of_tools(subject, agent):
            if name not in subject.machine.validators:
                yield _unknown(subject, at, "validator", name, subject.machine.validators)
            elif (at[:-1], name) in known:
                yield subject.no_effect(at, f"`{name}` is already listed")
            known.add((at[:-1], name))


def check_budgets(subject: Subject) -> Iterator[Problem]:
    """The shared budgets of revise edges."""
    budgets = subject.machine.limits.budgets
    for path, edge in revise_edges(subject):
        for at, name in edge.budgets:
            if name not in budgets:
                remedy = did_you_mean(name, budgets)
                remedy = remedy or f"declare it: `limits: {{budgets: {{{name}: 3}}}}`"
                message = f"there is no budget `{name}`"
                yield subject.source.problem((*path, *at), "unknown-budget", message, help=remedy)


def check_feedback_names(subject: Subject) -> Iterator[Problem]:
    """A plain id as `feedback:` is a key of the section of that name."""
    for path, edge in revise_edges(subject):
        written = edge.feedback
        if written is None or not is_plain_id(written) or written in subject.machine.feedback:
            continue
        near = did_you_mean(written, subject.machine.feedback)
        remedy = near or f"add `{written}:` to a section `feedback:`, or write a template here"
        message = f"there is no feedback `{written}`"
        yield subject.source.problem((*path, "feedback"), "unknown-feedback", message, help=remedy)


def check_best_of(subject: Subject) -> Iterator[Problem]:
    """`of:` names a validate state, and `pick: best` an artifact that is judged."""
    for name, final in subject.machine.finals.items():
        path: DocPath = ("states", name, "of")
        if final.of is not None and final.of not in subject.judges:
            message = f"`{final.of}` is not a validate state, so it has no reports to compare"
            remedy = did_you_mean(final.of, subject.judges)
            yield subject.source.problem(path, "unknown-target", message, help=remedy)
        elif final.of is not None and final.pick != "best":
            message = "`of` is only used with `pick: best`, but the last version is picked"
            yield subject.no_effect(path, message, "add `pick: best`")


def revise_edges(subject: Subject) -> Iterator[tuple[DocPath, Transition | ErrorEdge]]:
    """Every back edge as it is written, with its place, each once."""
    edges = {edge.path: edge for edge in subject.graph.edges if edge.back}
    for path, edge in edges.items():
        state = subject.machine.states[edge.source]
        written = getattr(state, str(path[2]))
        if edge.event == "done":
            found = written[path[3]]
        else:
            found = getattr(written, str(path[-1]), written)
        if isinstance(found, Transition | ErrorEdge):
            yield path, found


def validators_of_tools(subject: Subject, agent: str) -> Iterator[tuple[DocPath, str]]:
    """The validators that the tools of an agent name, each with its place."""
    declared = subject.machine.agents.get(agent)
    for name, tool in declared.callable_tools.items() if declared is not None else ():
        for index, validator in enumerate(tool.validators):
            yield ("agents", agent, "tools", name, "by", index), validator


def is_plain_id(text: str) -> bool:
    return re.fullmatch(ID_PATTERN, text) is not None


def _agent(subject: Subject, name: str, path: DocPath) -> Iterator[Problem]:
    if name not in subject.machine.agents:
        yield _unknown(subject, path, "agent", name, subject.machine.agents)


def _unknown(
    subject: Subject, path: DocPath, kind: str, name: str, choices: Iterable[str]
) -> Problem:
    remedy = did_you_mean(name, choices) or f"add it to a section `{kind}s:`"
    message = f"there is no {kind} `{name}`"
    return subject.source.problem(path, f"unknown-{kind}", message, help=remedy)
