"""`child-input`, `input-unhandled`: what children are given, which may not be what they take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from loopkit.checks.subject import Subject
from loopkit.document.problems import Problem, did_you_mean
from loopkit.language import EachState
from loopkit.language.datatypes import DataType, conform, misfit, parse_record
from loopkit.language.states.children import ChildrenState
from loopkit.language.template import Template, TemplateError, parse
from loopkit.machine.graph import DocPath

MEANINGS = {
    "child-input": "A machine is not given the input that it takes.",
    "input-unhandled": "Nothing handles items or inputs that another machine does not take.",
}
PLAIN = frozenset({"type", "description"})
"""What a schema may say of a text that takes every text."""


def check_child_inputs(subject: Subject) -> Iterator[Problem]:
    """The input of every machine that a state runs, against what that machine declares."""
    for name, state in subject.machine.states_of(ChildrenState).items():
        wanted = parse_record(state.child.input)
        yield from _missing(subject, name, state, wanted)
        for field, value in state.input.items():
            path: DocPath = ("states", name, "input", field)
            known = wanted.field(field)
            if known is None:
                hint = did_you_mean(field, wanted.fields or {}) or "delete it"
                message = f"`{state.machine.file}` takes no input `{field}`"
                yield subject.source.problem(path, "child-input", message, help=hint, key=True)
            else:
                yield from _wrong(subject, path, value, known)


def _missing(
    subject: Subject, name: str, state: ChildrenState, wanted: DataType
) -> Iterator[Problem]:
    path: DocPath = ("states", name, "input" if "input" in state.model_fields_set else "machine")
    for field, known in (wanted.fields or {}).items():
        if known.required and field not in state.input:
            message = f"`{state.machine.file}` is not given the input `{field}`"
            near = did_you_mean(field, state.input.keys() - (wanted.fields or {}).keys())
            is_near = near.startswith("did you mean")
            remedy = "" if is_near else f"add it: `input: {{{field}: …}}`"
            yield subject.source.problem(path, "child-input", message, help=remedy, key=True)


def _wrong(subject: Subject, path: DocPath, value: object, known: DataType) -> Iterator[Problem]:
    """Whatever is the same in every run, and never fits."""
    read = _template(value)
    if read is not None and read.names:
        if read.whole is None and not _takes_texts(known):
            message = f"`{path[-1]}` {_what_it_takes(known)}, and this makes a text"
            remedy = "hand on a value itself: write `{{ NAME }}` and nothing beside it"
            yield subject.source.problem(path, "child-input", message, help=remedy)
        return
    if _is_fixed(value):
        _, faults = conform(value, known)
        for where, what in faults[:1]:
            plain = misfit(value, known) if known.scalar else ""
            told = plain or f"{where}: {what}".removeprefix(": ")
            message = f"`{path[-1]}` {told}" if plain else f"`{path[-1]}` does not fit: {told}"
            yield subject.source.problem(path, "child-input", message)


def _template(value: object) -> Template | None:
    try:
        return parse(value) if isinstance(value, str) else None
    except TemplateError:
        return None  # which is told by itself


def _is_fixed(value: object) -> bool:
    """Whether nothing in a value is filled in."""
    if isinstance(value, str):
        return "{{" not in value and "{%" not in value and "{#" not in value
    if isinstance(value, Mapping):
        return all(map(_is_fixed, value.values()))
    return all(map(_is_fixed, value)) if isinstance(value, list) else True


def _takes_texts(known: DataType) -> bool:
    is_open = known.scalar is None and known.items is None and known.fields is None
    return known.scalar == "str" or is_open


def _what_it_takes(known: DataType) -> str:
    if known.scalar is not None:
        return misfit({}, known).partition(";")[0]
    return "takes a list" if known.items is not None else "takes fields"


def check_child_content(subject: Subject) -> Iterator[Problem]:
    """Where a run makes the items or inputs of children, it says what becomes of bad ones."""
    for name, state in subject.machine.states_of(ChildrenState).items():
        if subject.graph.on(name, "content"):
            continue
        if isinstance(state, EachState) and not state.is_of_input:
            message = f"the list `{state.each}` is made by the run, and may not be valid"
        elif (field := _may_misfit(subject, state)) is not None:
            message = f"the input `{field}` is made by the run, and `{state.machine.file}` may not"
            message += " take it"
        else:
            continue
        remedy = "add `on_error: {content: STATE}`"
        path: DocPath = ("states", name)
        yield subject.source.problem(path, "input-unhandled", message, help=remedy, key=True)


def _may_misfit(subject: Subject, state: ChildrenState) -> str | None:
    """The first input that a child may not take, and that is not known before the run."""
    given = {"input", *([state.as_] if isinstance(state, EachState) else ())}
    wanted = parse_record(state.child.input)
    made = partial(_is_made_unfit, subject, given)
    for field, value in state.input.items():
        known = wanted.field(field)
        if known is not None and made(value, known, is_needed=_is_needed(state)):
            return field
    return None


def _is_needed(state: ChildrenState) -> bool:
    """Whether more than its type says what the input of a child has to be."""
    child = state.child
    of_input = any(choice.is_of_input for choice in child.choices.values())
    return of_input or bool(child.states_of(ChildrenState))


def _is_made_unfit(
    subject: Subject, given: set[str], value: object, known: DataType, *, is_needed: bool
) -> bool:
    again = partial(_is_made_unfit, subject, given, is_needed=is_needed)
    if isinstance(value, str):
        read = _template(value)
        if read is None or read.names <= given:
            return False
        return is_needed or not _fits(subject, read, known)
    if isinstance(value, Mapping):
        return any(again(v, known.field(k) or DataType({})) for k, v in value.items())
    if isinstance(value, list):
        return any(again(inner, known.items or DataType({})) for inner in value)
    return False


def _fits(subject: Subject, read: Template, known: DataType) -> bool:
    """Whether what a template makes is always of a type."""
    if not known.schema:
        return True
    is_text = known.scalar == "str" and known.schema.keys() <= PLAIN
    if read.whole is None:
        return is_text
    types = _types(subject, read.whole)
    if not types:
        return False
    return all(is_text if one is None else one.schema == known.schema for one in types)


def _types(subject: Subject, path: tuple[str, ...]) -> list[DataType | None]:
    """The types of what a path leads to in an artifact, by author; none is a text."""
    first, *steps = path
    found: list[DataType | None] = []
    for author in subject.graph.artifacts.get(first, ()):
        state = subject.graph.states[author]
        root = subject.machine.data_type(author) or state.leaves
        if root is None and steps:
            return []
        inner = root.at(steps) if root is not None else None
        if root is not None and inner is None:
            return []
        found.append(inner)
    return found
