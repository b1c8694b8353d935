"""Checks of what looks things up: rules that read data, and tools of agents.

`no-known-values`, `unreadable-data`, `may-be-missing`, `fields-as-data`, `no-effect`.
"""

from __future__ import annotations

from collections.abc import Mapping

from loopkit.checks.subject import Found, Subject, of_machine, of_rules, on_path
from loopkit.checks.templates import unseen
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, ProblemsFound
from loopkit.document.reading import read
from loopkit.language.agents.model import ModelAgent
from loopkit.language.guard.evaluate import ITEMS, parse_path
from loopkit.language.guard.grammar import GuardError
from loopkit.language.guard.kleene import parse_requirement
from loopkit.language.states.kinds import FirstText, MadeData
from loopkit.language.template.grammar import Anything, Fields, Items, Scalar, Shape, member
from loopkit.language.validators import (
    AcyclicRule,
    DataFile,
    Lookup,
    LookupRule,
    RequireRule,
    rules_of,
)
from loopkit.language.validators.judge import JudgeRule
from loopkit.machine.item_list import same_as, step_into, values_at
from loopkit.proof.outcomes.analysis import PlacedRule
from loopkit.validators.data import NoData, data_in, place

MOST_SHOWN = 12
"""The most fields that are named of a place without values."""


@of_rules(AcyclicRule)
def check_given(subject: Subject, placed: PlacedRule[AcyclicRule]) -> Found:
    if (name := placed.rule.acyclic.given) is not None:
        for state in placed.used_at:
            yield from _unusable(subject, (*placed.path, "acyclic", "given"), name, state)


@of_rules(LookupRule)
def check_lookups(subject: Subject, placed: PlacedRule[LookupRule]) -> Found:
    lookup, path = placed.rule.lookup, (*placed.path, "lookup")
    try:
        for written in (*lookup.path, lookup.at or ITEMS):
            parse_path(written)
    except GuardError:
        # A path that can't be parsed is reported by another check.
        return
    if isinstance(lookup.in_, DataFile):
        yield from _of_file(subject, path, lookup, lookup.in_)
        return
    name = lookup.in_
    for state in placed.used_at:
        names = subject.judging[state]
        problems = [*_unusable(subject, (*path, "in"), name, state)]
        if problems:
            is_known = problems[0].code == "may-be-missing"
            remedy = "" if lookup.at or is_known else _split(name, names)
            yield from (p.replace(help=remedy or p.help) for p in problems)
        elif not _may_be_text(subject, name):
            yield from _check_types(subject, path, lookup, _shape_at(name, names))


def _of_file(subject: Subject, path: DocPath, lookup: Lookup, file: DataFile) -> Found:
    data = data_in(file)
    if isinstance(data, NoData):
        yield from _unreadable(subject, (*path, "in"), file, data)
    elif not any(same_as(value) for _, value in values_at(lookup.at, data)):
        heads = [str(key) for key in data] if isinstance(data, Mapping) else []
        yield _without_values(subject, (*path, "at" if lookup.at else "in"), place(lookup), heads)


def _unreadable(subject: Subject, path: DocPath, file: DataFile, data: NoData) -> Found:
    """The fault in a data file: at its place in YAML, with its reason in JSON."""
    included = subject.source.included.get(path)
    if included is not None and file.text.lstrip("\ufeff \r\n")[:1] not in ("{", "[", ""):
        try:
            read(included.text, included.file)
        except ProblemsFound as found:
            yield from found.problems
            return
    reason = data.reason.replace("the artifact", f"`{file}`", 1)
    yield subject.problem(path, "unreadable-data", reason, "correct the file")


def _without_values(
    subject: Subject, path: DocPath, where: str, fields: list[str], at: str = ""
) -> Problem:
    example = f'"{at}{fields[0]}"' if at and fields else '"items[].id"'
    remedy = f"write `at:` with the path to them, such as `at: {example}`"
    if fields:
        remedy += f"; it has {', '.join(f'`{name}`' for name in fields[:MOST_SHOWN])}"
    return subject.problem(path, "no-known-values", f"{where} has no values to look up", remedy)


def _unusable(subject: Subject, path: DocPath, name: str, state: str) -> Found:
    names = subject.judging[state]
    problems = [*unseen(subject, path, name, names)]
    yield from problems
    if not problems and _shape_at(name, names).optional:
        is_artifact = name in subject.graph.artifacts
        way = subject.way_without(("artifact", name), state) if is_artifact else None
        remedy = f"it is missing {on_path(way)}" if way is not None else "give it a default"
        message = f"`{name}` may be missing at `{state}`"
        yield subject.problem(path, "may-be-missing", message, remedy)


def _split(name: str, names: Mapping[str, Shape]) -> str:
    """The right form of a name with a path into a list; empty if it has none."""
    parts = name.split(".")
    for count, part in enumerate(parts, 1):
        inside = ".".join([*parts[: count - 1], part.removesuffix(ITEMS)])
        if isinstance(_shape_at(inside, names), Items):
            at = ".".join([ITEMS, *parts[count:]])
            return f'write `in: {inside}, at: "{at}"`' if at != ITEMS else f"write `in: {inside}`"
    return ""


def _shape_at(name: str, names: Mapping[str, Shape]) -> Shape:
    shape: Shape = Fields(names)
    optional = False
    for step in name.split("."):
        shape = member(shape, step) or Anything()
        optional = optional or shape.optional
    return Anything(optional=True) if optional else shape


def _may_be_text(subject: Subject, name: str) -> bool:
    """Whether a name may stand for a text, whose data is unknown before it exists."""
    if name == "artifact":
        return True
    for author in subject.graph.artifacts.get(name, ()):
        agents = subject.machine.agents_at(author)
        is_data = isinstance(subject.states[author], MadeData)
        if not (agents or is_data) or any(agent.schema_ is None for agent in agents):
            return True
    return isinstance(subject.machine.first_values.get(name), FirstText)


def _check_types(subject: Subject, path: DocPath, lookup: Lookup, shape: Shape) -> Found:
    """A problem if the types show that there can be no values at the place."""
    for step in parse_path(lookup.at) if lookup.at else ():
        inner = step_into(shape, step)
        if inner is None:
            heads = list(shape.fields) if isinstance(shape, Fields) else []
            yield _without_values(subject, (*path, "at"), place(lookup), heads)
            return
        shape = inner
    item = shape.item if isinstance(shape, Items) else None
    is_single = isinstance(shape, Scalar) and ITEMS not in parse_path(lookup.at or "none")
    if is_single or isinstance(item, Fields | Items):
        heads = list(item.fields) if isinstance(item, Fields) else []
        at = "" if lookup.at else "[]."
        yield _without_values(subject, (*path, "in" if at else "at"), place(lookup), heads, at)


@of_rules(RequireRule)
def check_fields_as_data(subject: Subject, placed: PlacedRule[RequireRule]) -> Found:
    """A warning for each `require` of whose artifact every author makes such a text.

    The text may hold data as well, under other names; what it has a pattern for is hardly that.
    """
    rule = placed.rule
    try:
        # Another check reports its syntax.
        parse_path(rule.each or "x")
        read = parse_requirement(rule.require).names if rule.each is None else ()
    except GuardError:
        return
    paths = read if rule.each is None else (rule.each.partition("[")[0],)
    heads = {path.partition(".")[0] for path in paths}
    for state in placed.used_at:
        artifact = subject.states[state].judges or ""
        for field in sorted(heads & _fields(subject, artifact))[:1]:
            message = f"`{field}` is a field of the text of `{artifact}`, and `require` reads only"
            message += " data, JSON or YAML"
            remedy = "judge the text itself, with `section`, `matches` or `count`"
            path = (*placed.path, "require")
            yield subject.problem(path, "fields-as-data", message, remedy)


def _fields(subject: Subject, artifact: str) -> frozenset[str]:
    """The fields that every author of an artifact extracts from its text."""
    machine = subject.machine
    each = []
    for author in subject.graph.artifacts.get(artifact, ()):
        output = machine.states[author].output_at(author)
        is_data = any(agent.schema_ is not None for agent in machine.agents_at(author))
        each.append(frozenset() if output is None or is_data else frozenset(output.fields))
    if (first := machine.first_values.get(artifact)) is not None:
        each.append(frozenset(first.fields if isinstance(first, FirstText) else ()))
    return frozenset.intersection(*each) if each else frozenset()


OF_TOOLS = ("max_tool_calls", "tool_use")


@of_machine()
def check_tools(subject: Subject) -> Found:
    authors = {agent for asked in subject.machine.authoring.values() for agent in asked}
    judges = {placed.rule.judge for placed in subject.rules_of(JudgeRule)}
    for name, agent in subject.machine.model_agents.items():
        path = ("agents", name)
        for key in OF_TOOLS if not agent.tools else ():
            if key in agent.model_fields_set:
                yield subject.no_effect((*path, key), "the agent has no `tools`")
        if "reask" in agent.model_fields_set:
            message = "with `tool_use: runner` it is asked again up to `max_tool_calls`"
            if agent.require_tool is None:
                message = "an agent without `require_tool` is never asked again for its answer"
            if agent.require_tool is None or agent.leaves_tools_alone:
                yield subject.no_effect((*path, "reask"), message)
        if agent.tools and name in judges - authors:
            message = f"`{name}` only judges, and judges call no tools"
            yield subject.no_effect((*path, "tools"), message)
            continue
        others = [tool for tool in agent.tools if tool != agent.require_tool]
        if others and (reason := _no_tools(agent)) is not None:
            message = f"nobody calls it: {reason[0]}, and loopkit only the one of `require_tool`"
            for tool in others:
                yield subject.no_effect((*path, "tools", tool), message, reason[1])
        yield from _finding_nothing(subject, name, agent)


def _no_tools(agent: ModelAgent) -> tuple[str, str] | None:
    """Why an agent's model calls no tools, and the remedy; None if it may call some."""
    if agent.leaves_tools_alone:
        return "with `tool_use: runner` the model calls no tools", "delete it"
    # Only an agent with tools needs the table of models, which is long.
    from loopkit.agents.model.pricing import provider_of  # noqa: PLC0415 - see above
    from loopkit.agents.model.reply import NO_TOOLS, has_tools  # noqa: PLC0415 - see above

    if any(has_tools(one, model) for one in agent.in_turn for model in one.model):
        return None
    told = f"LiteLLM says that `{agent.model[0]}` calls no tools"
    if provider_of(agent.model[0]) in NO_TOOLS:
        return told, "take another model; those of Ollama call tools as `ollama_chat/…`"
    return told, "take another model, or write `tool_use: native` if it does call tools"


def _finding_nothing(subject: Subject, name: str, agent: ModelAgent) -> Found:
    """Validators whose judges no tool asks, and tools for drafts of what is not a text."""
    for path, validator in subject.validators_of_tools(name):
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
        output = subject.states[state].output_at(state)
        if name in asked and output is not None and output.may_be_missing:
            where = output.file or output.folder
            message = f"a draft is a text, and `{state}` leaves `{where}`: each draft is rejected"
            for tool, one in agent.tools.items():
                if one.validators:
                    at: DocPath = ("agents", name, "tools", tool, "by")
                    yield subject.no_effect(at, message, "add `else: reply` to its `output`")
