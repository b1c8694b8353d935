"""`unused`: a declared field or input that no text, guard or result names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from loopkit.checks import template_uses
from loopkit.checks.mentions import Mentions, in_code, in_template
from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem
from loopkit.language import EachState, JudgeRule
from loopkit.language.datatypes import is_json_schema, parse_fields
from loopkit.language.noun import INPUT_FILE
from loopkit.machine.graph import artifact_of


def check_unused_fields(subject: Subject) -> Iterator[Problem]:
    """A note for each input, and each field of a schema, a form or an output, that nothing names.

    Whatever uses a whole artifact, answer or input uses all of its fields; of a text, only a
    result does, whose fields others may read in the events.
    """
    said = _Said(subject)
    yield from said.find_unused(("input",), _fields_of(subject.machine.input), "input", "input")
    for name, state in subject.machine.states.items():
        form = _fields_of(state.asked_form)
        yield from said.find_unused(("states", name, "form"), form, "field", name)
        output = state.output_at(name)
        if output is not None and output.name not in said.results:
            path = ("states", name, "output", "fields")
            yield from said.find_unused(path, output.fields, "field", None)
    yield from _of_tools(subject)
    for agent in _authors(subject):
        yield from _of_schema(subject, said, agent)


def _of_tools(subject: Subject) -> Iterator[Problem]:
    """The arguments of a tool, which only the tool's templates know."""
    for agent, declared in subject.machine.agents.items():
        for name, tool in declared.callable_tools.items():
            fields = tool.accepts.fields if tool.accepts is not None else None
            named = [in_template(text).names for _, text in tool.templates]
            for field in fields or {}:
                if not any(field in names for names in named):
                    path: DocPath = ("agents", agent, "tools", name, "input", field)
                    yield _note(subject, path, "field")


def _of_schema(subject: Subject, said: _Said, agent: str) -> Iterator[Problem]:
    declared = subject.machine.agents[agent]
    written = {
        artifact_of(subject.machine, name)
        for name, asked in subject.machine.authoring.items()
        if agent in asked
    }
    if not written & said.used_whole:
        fields = [field for field in _fields_of(declared.schema_) if field != declared.infeasible]
        yield from said.find_unused(("agents", agent, "schema"), fields, "field", None)


def _fields_of(notation: Mapping[str, Any] | None) -> list[str]:
    """The fields that are declared here for this machine: a JSON Schema may be made for others."""
    if notation is None or is_json_schema(notation):
        return []
    return list(parse_fields(notation).fields or {})


def _authors(subject: Subject) -> list[str]:
    """The agents that write and do not judge, whose reports would be read whole."""
    judging = {placed.rule.judge for placed in subject.rules_of(JudgeRule)}
    authors = subject.machine.authoring.values()
    asked = dict.fromkeys(agent for agents in authors for agent in agents)
    return [name for name in asked if name in subject.machine.agents and name not in judging]


def _note(subject: Subject, path: DocPath, word: str) -> Problem:
    message = f"nothing uses the {word} `{path[-1]}`"
    return subject.source.problem(path, "unused", message, severity="note", key=True)


class _Said:
    """All names that the texts of a machine mention."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        mentions = list(_mentions(subject))
        self._names = frozenset[str]().union(*(each.names for each in mentions))
        finals = subject.machine.finals.values()
        self.results = {name for final in finals for name in final.result}
        shown = (name for state in subject.machine.states.values() for _, name in state.shown)
        whole = frozenset[str]().union(*(each.whole for each in mentions))
        file = {"input"} if INPUT_FILE in whole else ()
        self.used_whole = whole.union(shown, subject.graph.judged, file)

    def find_unused(
        self, path: DocPath, fields: Iterable[str], word: str, holder: str | None
    ) -> Iterator[Problem]:
        if holder in self.used_whole:
            return
        for name in fields:
            if name not in self._names:
                yield _note(self._subject, (*path, name), word)


def _mentions(subject: Subject) -> Iterator[Mentions]:
    for use in template_uses.uses(subject):
        yield in_template(use.text)
    for choice in subject.machine.choices.values():
        yield in_template(choice.template)
    for needing in subject.machine.states.values():
        yield from (in_template(f"{{{{ {path} }}}}") for path in needing.needed or ())
    for state in subject.machine.states_of(EachState).values():
        yield in_code(state.each.partition("[")[0])
    guards = (edge.guard for edge in subject.graph.edges)
    of_rules = (placed.rule.guard for placed in subject.rules)
    for guard in (*guards, *of_rules, *subject.machine.guards.values()):
        yield in_code(guard or "")
    for bound in subject.graph.caps.values():
        yield in_code(str(bound))
    for placed in subject.rules:
        yield in_code(" ; ".join(placed.rule.mentions))
