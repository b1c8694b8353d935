"""`input-unhandled`: items and inputs that a run makes, and that children may not take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from loopkit.checks.child_inputs import template_of
from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem
from loopkit.language import EachState
from loopkit.language.datatypes import DataType, parse_record
from loopkit.language.states.children import ChildrenState
from loopkit.language.template import Template
from loopkit.machine.item_types import types_at

PLAIN = frozenset({"type", "description"})
"""What a schema may say of a text that takes every text."""


def check_child_content(subject: Subject) -> Iterator[Problem]:
    """A state whose items or inputs a run makes says where bad ones lead."""
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
    """The first input that a child may refuse and that is unknown before the run."""
    wanted = parse_record(state.child.input)
    made = partial(_is_made_unfit, subject, state)
    for field, value in state.input.items():
        known = wanted.field(field)
        if known is not None and made(value, known, is_needed=_is_needed(state)):
            return field
    return None


def _is_needed(state: ChildrenState) -> bool:
    """Whether more than its type decides if an input of a child is valid."""
    child = state.child
    of_input = any(choice.is_of_input for choice in child.choices.values())
    return of_input or bool(child.states_of(ChildrenState))


def _is_made_unfit(
    subject: Subject,
    state: ChildrenState,
    value: object,
    known: DataType,
    *,
    is_needed: bool,
) -> bool:
    again = partial(_is_made_unfit, subject, state, is_needed=is_needed)
    if isinstance(value, str):
        read = template_of(value)
        if read is None or read.names <= state.names_given:
            return False
        return is_needed or not _fits(subject, state, read, known)
    if isinstance(value, Mapping):
        return any(again(v, known.field(k) or DataType({})) for k, v in value.items())
    if isinstance(value, list):
        return any(again(inner, known.items or DataType({})) for inner in value)
    return False


def _fits(subject: Subject, state: ChildrenState, read: Template, known: DataType) -> bool:
    """Whether the value of a template always has a type."""
    if not known.schema:
        return True
    is_text = known.scalar == "str" and known.schema.keys() <= PLAIN
    if read.whole is None:
        return is_text and not read.is_expression
    types = types_at(subject.graph, state, read.whole)
    if not types:
        return False
    return all(is_text if one is None else one.schema == known.schema for one in types)
