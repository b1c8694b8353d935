"""`name-collision`, `reserved-name`, `shadowed-name`: one name stands for two things."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

from loopkit.checks.subject import Subject
from loopkit.checks.template_uses import OF_COMMANDS, OF_MESSAGES, OF_PROGRAMS
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem
from loopkit.language import AuthorState, EachState, Output
from loopkit.language.datatypes import field_place, parse_record
from loopkit.language.facts import CAME_FROM, OF_REPORTS, OF_REVISING
from loopkit.language.guard import KEYWORDS
from loopkit.language.states import STATE_NOUNS
from loopkit.machine.graph import artifact_of
from loopkit.machine.guard_names import own_names
from loopkit.machine.scope import EVERYWHERE_NAMES

OF_EVERY_STATE = frozenset({"attempt", *OF_REVISING, "input", "reports"})
"""Names known to guards in every state, or in every one with a revise edge."""
OF_WORK = frozenset({*EVERYWHERE_NAMES, "input", "report", "reports", "loop", "range"})
"""Names known to templates in every state that works."""
RESERVED = OF_WORK.union(OF_MESSAGES, OF_COMMANDS, OF_PROGRAMS, ("choice", "comment", "artifact"))
"""Names known to templates in at least one place."""
SAID = frozenset(name for noun in STATE_NOUNS for name in noun.said)
"""Names of results of a state's work, which follow the state's name and a dot."""
ANOTHER = "choose another name"


def check_ids(subject: Subject) -> Iterator[Problem]:
    """States and artifacts share one namespace with the names that templates already have."""
    of_agents = (agent.own_names for agent in subject.machine.agents.values())
    taken = RESERVED.union(KEYWORDS, *of_agents)
    for name in subject.machine.states:
        path: DocPath = ("states", name)
        if name in taken:
            yield _name_problem(subject, path, name)
        artifact = artifact_of(subject.machine, name)
        if artifact is not None and artifact != name:
            yield from _check_artifact(subject, name, artifact, taken)
    for name, each in subject.machine.states_of(EachState).items():
        yield from _check_item(subject, ("states", name, "as"), each.as_)
    if "artifact" in subject.machine.validators:
        yield _name_problem(subject, ("validators", "artifact"), "artifact")


def _name_problem(subject: Subject, path: DocPath, name: str, *, key: bool = True) -> Problem:
    if name in KEYWORDS:
        message = f"`{name}` is a word of the guard language"
    else:
        message = f"`{name}` means something else in templates already"
    return subject.source.problem(path, "reserved-name", message, help=ANOTHER, key=key)


def _check_artifact(
    subject: Subject, author: str, artifact: str, taken: Set[str]
) -> Iterator[Problem]:
    state = subject.machine.states[author]
    written_long = isinstance(state, AuthorState) and isinstance(state.output, Output)
    path: DocPath = ("states", author, "output", *(("name",) if written_long else ()))
    if artifact in taken:
        yield _name_problem(subject, path, artifact, key=False)
    namesake = artifact in subject.machine.states
    if namesake and artifact_of(subject.machine, artifact) != artifact:
        message = f"`{artifact}` is also a state, and it does not write this artifact"
        yield subject.source.problem(path, "name-collision", message, help=ANOTHER)


def _check_item(subject: Subject, path: DocPath, name: str) -> Iterator[Problem]:
    """The name of an item hides no other name that the input of a child may read."""
    if name in OF_WORK.union(KEYWORDS):
        yield _name_problem(subject, path, name, key=False)
    elif name in subject.machine.states or name in subject.graph.artifacts:
        kind = "a state" if name in subject.machine.states else "an artifact"
        message = f"`{name}` is also {kind}: templates could not tell them apart"
        yield subject.source.problem(path, "name-collision", message, help=ANOTHER)


def check_fields(subject: Subject) -> Iterator[Problem]:
    """Fields of forms and schemas do not hide names that their state's guards already have."""
    for name, state in subject.machine.states.items():
        if state.asked_form is not None:
            yield from _check_form(subject, name, state.asked_form, frozenset(state.said))
        for agent in state.asks:
            yield from _check_answer(subject, name, agent)
        output = state.output_at(name)
        if state.facts and output is not None and output.name == name:
            path: DocPath = ("states", name, "output", "fields")
            written = {field: (*path, field) for field in output.fields}
            yield from _shadowing(subject, written, frozenset(state.facts))


def _check_form(
    subject: Subject, name: str, form: Mapping[str, Any], said: frozenset[str]
) -> Iterator[Problem]:
    path: DocPath = ("states", name, "form")
    fields = parse_record(form).fields or {}
    written = {field: (*path, *field_place(form, field)) for field in fields}
    yield from _shadowing(subject, written, OF_EVERY_STATE | said | RESERVED | {CAME_FROM})
    for field, place in written.items():
        if field in subject.graph.artifacts or field in subject.machine.states:
            kind = "an artifact" if field in subject.graph.artifacts else "a state"
            message = f"`{field}` is also {kind}: feedback could not tell them apart"
            yield subject.source.problem(place, "name-collision", message, help=ANOTHER, key=True)


def _check_answer(subject: Subject, name: str, agent: str) -> Iterator[Problem]:
    """The names of an agent's answer in guards, each at the field of the schema."""
    schema = subject.machine.agents[agent].schema_ if agent in subject.machine.agents else None
    path: DocPath = ("agents", agent, "schema")
    named = own_names(subject.graph, name)
    heads = dict.fromkeys(fact.partition(".")[0] for fact in named)
    written = {head: (*path, *field_place(schema or {}, head)) for head in heads}
    yield from _shadowing(subject, written, OF_EVERY_STATE)
    for head, place in written.items():
        if head in subject.machine.states and head not in named:
            message = f"`{head}` is also a state: guards could not tell their fields apart"
            yield subject.source.problem(place, "name-collision", message, help=ANOTHER, key=True)


def _shadowing(
    subject: Subject, written: Mapping[str, DocPath], built_in: frozenset[str]
) -> Iterator[Problem]:
    for field, place in written.items():
        if field in KEYWORDS:
            yield _name_problem(subject, place, field)
        elif field in built_in:
            message = f"the field `{field}` would hide the built-in name `{field}`"
            yield subject.source.problem(place, "shadowed-name", message, help=ANOTHER, key=True)


def check_named_guards(subject: Subject) -> Iterator[Problem]:
    """A named guard does not have the name of a fact."""
    facts = {name for state in subject.machine.states for name in own_names(subject.graph, state)}
    taken = facts | OF_EVERY_STATE | {CAME_FROM} | SAID | OF_REPORTS.keys()
    for name in subject.machine.guards:
        path: DocPath = ("guards", name)
        if name in KEYWORDS:
            yield _name_problem(subject, path, name)
        elif name in taken:
            message = f"the named guard `{name}` would hide the fact `{name}`"
            yield subject.source.problem(path, "shadowed-name", message, help=ANOTHER, key=True)
