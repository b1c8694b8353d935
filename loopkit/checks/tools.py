"""Tools of agents that nobody can call, or that can find nothing: `no-effect`."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks.references import validators_of_tools
from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem
from loopkit.language import JudgeRule, ModelAgent, rules_of

OF_TOOLS = ("max_tool_calls", "tool_use")


def check_tools(subject: Subject) -> Iterator[Problem]:
    """A warning for each tool, and each key about tools, that changes nothing."""
    authors = {agent for asked in subject.machine.authoring.values() for agent in asked}
    judges = {placed.rule.judge for placed in subject.rules_of(JudgeRule)}
    for name, agent in subject.machine.model_agents.items():
        for key, message in _idle(agent):
            yield subject.no_effect(("agents", name, key), message)
        if agent.tools and name in judges - authors:
            message = f"`{name}` only judges, and judges call no tools"
            yield subject.no_effect(("agents", name, "tools"), message)
            continue
        yield from _never_called(subject, name, agent)
        yield from _finding_nothing(subject, name, agent)


def _idle(agent: ModelAgent) -> Iterator[tuple[str, str]]:
    """The keys about tools that nothing reads."""
    if not agent.tools:
        for key in OF_TOOLS:
            if key in agent.model_fields_set:
                yield key, "the agent has no `tools`"
    if "reask" in agent.model_fields_set:
        if agent.require_tool is None:
            yield "reask", "an agent without `require_tool` is never asked again for its answer"
        elif agent.leaves_tools_alone:
            yield "reask", "with `tool_use: runner` it is asked again up to `max_tool_calls`"


def _never_called(subject: Subject, name: str, agent: ModelAgent) -> Iterator[Problem]:
    others = [tool for tool in agent.tools if tool != agent.require_tool]
    if not others or (reason := _no_tools(agent)) is None:
        return
    why, remedy = reason
    for tool in others:
        message = f"nobody calls it: {why}, and loopkit only the one of `require_tool`"
        yield subject.no_effect(("agents", name, "tools", tool), message, remedy)


def _no_tools(agent: ModelAgent) -> tuple[str, str] | None:
    """Why an agent's model calls no tools, and the remedy; None if it may call some."""
    if agent.leaves_tools_alone:
        return "with `tool_use: runner` the model calls no tools", "delete it"
    # Only an agent with tools needs the table of models, which is long.
    from loopkit.agents.model.catalogue import provider_of  # noqa: PLC0415 - see above
    from loopkit.agents.model.tool_support import NO_TOOLS, has_tools  # noqa: PLC0415 - see above

    if any(has_tools(one, model) for one in agent.in_turn for model in one.model):
        return None
    told = f"LiteLLM says that `{agent.model[0]}` calls no tools"
    if provider_of(agent.model[0]) in NO_TOOLS:
        return told, "take another model; those of Ollama call tools as `ollama_chat/…`"
    return told, "take another model, or write `tool_use: native` if it does call tools"


def _finding_nothing(subject: Subject, name: str, agent: ModelAgent) -> Iterator[Problem]:
    """Validators whose judges no tool asks, and tools for drafts of what is not a text."""
    for path, validator in validators_of_tools(subject, name):
        rules = rules_of(subject.machine.validators.get(validator, ()))
        judge = next((rule.asks for rule in rules if rule.asks is not None), None)
        if judge is None:
            continue
        has_others = any(rule.asks is None for rule in rules)
        left = "only its other rules are used" if has_others else "so it finds nothing"
        message = f"`{validator}` asks `{judge}`, but a tool asks no judges; {left}"
        remedy = "name a validator without judges, and let the validate state ask them"
        yield subject.no_effect(path, message, remedy)
    for state, asked in subject.machine.authoring.items():
        output = subject.machine.states[state].output_at(state)
        if name in asked and output is not None and output.may_be_missing:
            where = output.file or output.folder
            message = f"a draft is a text, and `{state}` leaves `{where}`: each draft is rejected"
            for tool, one in agent.tools.items():
                if one.validators:
                    at: DocPath = ("agents", name, "tools", tool, "by")
                    yield subject.no_effect(at, message, "add `else: reply` to its `output`")
