"""`child-input`: inputs of children that these never accept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, closest, did_you_mean
from loopkit.language.datatypes import DataType, first_misfit, parse_record, what_it_takes
from loopkit.language.datatypes.datatype import WORDS
from loopkit.language.json_schema import NotJudged
from loopkit.language.states.children import ChildrenState
from loopkit.language.template import Template, TemplateError, parse
from loopkit.machine.item_types import types_at

HAND_ON = "hand on a value itself: write `{{ NAME }}` and nothing beside it"
TEXT = DataType({}, scalar="str")


def check_child_inputs(subject: Subject) -> Iterator[Problem]:
    """The input of every child machine, compared with what that machine declares."""
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
                yield from _wrong(subject, state, path, value, known)


def _missing(
    subject: Subject, name: str, state: ChildrenState, wanted: DataType
) -> Iterator[Problem]:
    path: DocPath = ("states", name, "input" if "input" in state.model_fields_set else "machine")
    for field, known in (wanted.fields or {}).items():
        if known.required and field not in state.input:
            message = f"`{state.machine.file}` is not given the input `{field}`"
            # The problem of a similar name already has the remedy.
            is_near = closest(field, state.input.keys() - (wanted.fields or {}).keys())
            remedy = "" if is_near else f"add it: `input: {{{field}: …}}`"
            yield subject.source.problem(path, "child-input", message, help=remedy, key=True)


def _wrong(
    subject: Subject, state: ChildrenState, path: DocPath, value: object, known: DataType
) -> Iterator[Problem]:
    """Values that are the same in every run and never fit."""
    read = template_of(value)
    if read is not None and read.names:
        made = _never_fitting(subject, state, read, known)
        message = f"`{path[-1]}` {_what_it_takes(known)}, and {made}"
        remedy = HAND_ON if not read.is_expression else ""
        if read.whole is not None and known.scalar == "str":
            remedy = f"for its text write `{{{{ {'.'.join(read.whole)} | string }}}}`"
        if made:
            yield subject.source.problem(path, "child-input", message, help=remedy)
    elif _is_fixed(value):
        # A value that can't be judged here is reported by the run.
        with suppress(NotJudged):
            if why := first_misfit(value, known):
                yield subject.source.problem(path, "child-input", f"`{path[-1]}` {why}")
    else:
        for step, inner, wanted in _parts(value, known):
            yield from _wrong(subject, state, (*path, step), inner, wanted)


def _parts(value: object, known: DataType) -> Iterator[tuple[str | int, object, DataType]]:
    """The parts of a value, each with the type that it should have."""
    if isinstance(value, Mapping):
        yield from ((k, inner, t) for k, inner in value.items() if (t := known.field(k)))
    elif isinstance(value, list) and known.items is not None:
        yield from ((index, inner, known.items) for index, inner in enumerate(value))


def _never_fitting(subject: Subject, state: ChildrenState, read: Template, known: DataType) -> str:
    """What a template makes, for a message, if that never fits a type; else empty."""
    if not read.is_expression:
        return "" if _may_be_a(known, TEXT) else "this makes a text"
    if read.whole is None:
        return ""
    types = types_at(subject.graph, state, read.whole)
    if not types or any(_may_be_a(known, one or TEXT) for one in types):
        return ""
    one = types[0] or TEXT
    what = WORDS[one.scalar] if one.scalar else "a list" if one.items is not None else "fields"
    return f"`{'.'.join(read.whole)}` is {what}"


def _may_be_a(known: DataType, value: DataType) -> bool:
    """Whether a value of one type may have another type, as far as their kinds show it."""
    kinds = {_kind(known), _kind(value)}
    return "" in kinds or len(kinds) == 1 or kinds <= {"int", "num"}


def _kind(known: DataType) -> str:
    inner = "items" if known.items is not None else "fields" if known.fields is not None else ""
    return known.scalar or inner


def template_of(value: object) -> Template | None:
    """The template of a text; None for any other value."""
    try:
        return parse(value) if isinstance(value, str) else None
    except TemplateError:
        return None  # which is told by itself


def _is_fixed(value: object) -> bool:
    """Whether no template in a value has to be filled."""
    if isinstance(value, str):
        return "{{" not in value and "{%" not in value and "{#" not in value
    if isinstance(value, Mapping):
        return all(map(_is_fixed, value.values()))
    return all(map(_is_fixed, value)) if isinstance(value, list) else True


def _what_it_takes(known: DataType) -> str:
    if known.scalar is not None:
        return what_it_takes(known)
    return "takes a list" if known.items is not None else "takes fields"
