"""`unused`: a declaration that nothing names.

That is a model, MCP server, agent, validator, guard, pattern, feedback or budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from loopkit.checks.guards import uses
from loopkit.checks.models import unknown_models
from loopkit.checks.patterns import pattern_places
from loopkit.checks.references import is_plain_id, revise_edges
from loopkit.checks.subject import Subject
from loopkit.document.problems import Problem, Severity
from loopkit.language import JudgeRule, McpTool
from loopkit.language.guard import Guard
from loopkit.proof.outcomes import parse_or_problem

WORDS = {"feedback": "feedback", "mcp": "MCP server"}
"""The word for a part of a section, if it is not the singular of the section."""


def check_unused(subject: Subject) -> Iterator[Problem]:
    """A warning for each declaration that nothing names; a note for models and validators.

    Those can be named on the command line, too.
    """
    machine = subject.machine
    budgets = {name for _, edge in revise_edges(subject) for _, name in edge.budgets}
    feedback = {edge.feedback for edge in subject.graph.edges if is_plain_id(edge.feedback or "")}
    patterns = {p for _, p in pattern_places(subject) if p in machine.patterns}
    items = (item for state in subject.judges.values() for item in state.by)
    tools = (tool for agent in machine.agents.values() for tool in agent.callable_tools.values())
    validators = {item for item in items if isinstance(item, str)}
    validators.update(name for tool in tools for name in tool.validators)
    yield from _check_section(subject, ("models",), machine.models, _models(subject), "note")
    servers = {tool.server for _, tool in subject.tools_of(McpTool)}
    yield from _check_section(subject, ("mcp",), machine.mcp, servers)
    yield from _check_section(subject, ("agents",), machine.agents, _agents(subject))
    yield from _check_section(subject, ("validators",), machine.validators, validators, "note")
    yield from _check_section(subject, ("guards",), machine.guards, _guards(subject))
    yield from _check_section(subject, ("patterns",), machine.patterns, patterns)
    yield from _check_section(subject, ("feedback",), machine.feedback, feedback)
    yield from _check_section(subject, ("limits", "budgets"), machine.limits.budgets, budgets)


def _check_section(
    subject: Subject,
    section: tuple[str, ...],
    declared: Mapping[str, object],
    used: Set[object],
    severity: Severity = "warning",
) -> Iterator[Problem]:
    word = WORDS.get(section[-1]) or section[-1].removesuffix("s")
    if used - {None, *declared}:
        # An unknown name may mean one of these; it is reported elsewhere.
        return
    for name in declared:
        if name not in used:
            yield subject.source.problem(
                (*section, name),
                "unused",
                f"nothing uses the {word} `{name}`",
                severity=severity,
                key=True,
            )


def _models(subject: Subject) -> set[object]:
    """The names of models that agents use, and unknown ones, which may be misspelt."""
    machine = subject.machine
    agents = machine.agents.values()
    asked = {model for agent in agents for one in agent.in_turn for model in one.called}
    unknown = {model for _, model in unknown_models(machine) if "/" not in model}
    return {name for name, model in machine.models.items() if model in asked} | unknown


def _agents(subject: Subject) -> set[object]:
    judges = {placed.rule.judge for placed in subject.rules_of(JudgeRule)}
    authors = (agent for asked in subject.machine.authoring.values() for agent in asked)
    return {*authors, *judges}


def _guards(subject: Subject) -> set[object]:
    parsed = (parse_or_problem(use.text) for use in uses(subject))
    guards = (guard for guard in parsed if isinstance(guard, Guard))
    named = subject.machine.guards.keys()
    direct = {name for guard in guards for name in guard.names & named}
    through = (subject.guards.reached.get(name, frozenset()) for name in direct)
    return direct.union(*through)
