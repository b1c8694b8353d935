"""The input of a run and of its children: completed with defaults, or every fault of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from loopkit.document.problems import Problem
from loopkit.language.datatypes.datatype import conform
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.guard.evaluate import ITEMS, select
from loopkit.language.input_faults import (
    MISSING,
    InvalidInput,
    input_faults,
    with_files,
    without_agent,
)
from loopkit.language.machine import Machine
from loopkit.language.states.each import ChildrenState, EachState
from loopkit.language.states.kinds import FirstText, MadeData, MadeText
from loopkit.language.states.state import (
    Extract,
    ExtractAll,
    ExtractCount,
    ExtractMatch,
    ExtractSection,
)
from loopkit.language.template.errors import TemplateError
from loopkit.language.template.rendering import parse, parse_if_valid
from loopkit.machine.flow import readable
from loopkit.machine.graph import Graph
from loopkit.machine.item_list import Item, item_counts, items_of, list_at, refuse
from loopkit.machine.program import flat_facts
from loopkit.machine.scope import over
from loopkit.text.json_text import text_or_json
from loopkit.text.patterns import PatternTimeout, occurrences

if TYPE_CHECKING:
    from regex import Match


def complete_input(
    machine: Machine,
    given: Mapping[str, Any],
    inside: Path | None = None,
    *,
    read_anywhere: bool = False,
) -> dict[str, Any]:
    """The given input with its defaults and the data of its files; raises InvalidInput.

    Files have to be `inside` of a folder, where their paths start; by default they may be anywhere,
    and so may those that have been read before, if `read_anywhere`.
    """
    datatype = parse_record(machine.input)
    # Without a declared and a given input, no schema has to be read.
    filled, faults = conform(given, datatype) if given or machine.input else (given, ())
    if faults:
        told = list(input_faults(faults, given, datatype))
        raise InvalidInput(
            told or [Problem("wrong-kind", f"the input does not fit: {faults[0][1]}")]
        )
    assert isinstance(filled, dict)
    filled = with_files(filled, datatype, inside, None if read_anywhere else inside)
    if strange := list(faults_beyond_type(machine, filled)):
        raise InvalidInput(strange)
    return filled


def partial_input(
    machine: Machine, given: Mapping[str, Any], inside: Path | None = None
) -> dict[str, Any]:
    """As `complete_input`; raises InvalidInput, but not for missing ones."""
    datatype = parse_record(machine.input)
    filled, faults = conform(given, datatype)
    # A fault without a path says that inputs are missing, or that one is unknown.
    told = list(input_faults([fault for fault in faults if fault[0]], given, datatype))
    assert isinstance(filled, dict)
    filled = with_files(filled, datatype, inside)
    words = without_agent(machine, filled)
    lists = () if faults else child_faults(machine, filled)
    if wrong := [fault for fault in (*told, *words, *lists) if fault.code != MISSING]:
        raise InvalidInput(wrong)
    return filled


def faults_beyond_type(machine: Machine, filled: object) -> Iterator[Problem]:
    """The faults of an input that fits its type and with which no run could work."""
    yield from without_agent(machine, filled)
    yield from child_faults(machine, filled)
    try:
        first_artifacts(machine, filled if isinstance(filled, Mapping) else {})
    except InvalidInput as error:
        yield from error.faults


def child_faults(machine: Machine, filled: object) -> Iterator[Problem]:
    """The faults that would keep children from running, as far as the parent's input shows them."""
    if not isinstance(filled, Mapping):
        return
    names = {"input": readable(filled, parse_record(machine.input))}
    for name, state in machine.states_of(ChildrenState).items():
        try:
            if not isinstance(state, EachState):
                if not state.faults:
                    child_input(state, names)
            elif state.is_of_input:
                items = items_of(state, names)
                if not state.faults:
                    child_inputs(state, items, names)
        except InvalidInput as error:
            told = ((one, f"`{name}`: {one.message}") for one in error.faults)
            yield from (one.replace(message=message, path="") for one, message in told)


def child_inputs(
    state: EachState, items: Sequence[Item], names: Mapping[str, object]
) -> dict[str, dict[str, Any]]:
    """The complete input of the child of each item, by key; raises InvalidInput."""
    inputs: dict[str, dict[str, Any]] = {}
    faults: list[str] = []
    for item in items:
        try:
            inputs[item.key] = child_input(state, over({state.as_: item.value}, names))
        except InvalidInput as error:
            faults += (f"`{item.location}`: {fault.message}" for fault in error.faults)
    refuse(faults)
    return inputs


def child_input(state: ChildrenState, names: Mapping[str, object]) -> dict[str, Any]:
    """The complete input of a child; `names` fill its templates. Raises InvalidInput."""
    faults: list[Problem] = []
    given: dict[str, Any] = {}
    for name, written in state.input.items():
        try:
            given[name] = fill_in(written, names)
        except TemplateError as error:
            faults.append(Problem("wrong-kind", f"input `{name}`: {error}"))
    if faults:
        raise InvalidInput(faults)
    return complete_input(state.child, given)


class FirstArtifact(NamedTuple):
    text: str
    value: tuple[object, ...]
    """Its data, if it is no text."""
    fields: dict[str, object]


def first_artifacts(machine: Machine, given: Mapping[str, Any]) -> dict[str, FirstArtifact]:
    """The artifacts of a run that begins with this complete input; raises InvalidInput."""
    names = {"input": readable(given, parse_record(machine.input))}
    made: dict[str, FirstArtifact] = {}
    faults: list[str] = []
    for name, first in machine.first_values.items():
        try:
            text, value = made_of(first, names)
            wanted = first.fields if isinstance(first, FirstText) and not value else {}
            made[name] = FirstArtifact(text, value, extract(text, wanted, machine.patterns))
        except (InvalidInput, TemplateError, PatternTimeout) as error:
            faults.append(f"`artifacts.{name}`: {error}")
    refuse(faults)
    return made


def made_of(
    made: MadeText | MadeData, names: Mapping[str, object]
) -> tuple[str, tuple[object, ...]]:
    """The text that templates make, and the value itself where that is data.

    Raises TemplateError, and InvalidInput for lists that are none.
    """
    if isinstance(made, MadeData):
        value = _data_of(made, names)
        return text_or_json(value), (value,)
    template = parse(made.render)
    passed = fill_in(made.render, names) if template.whole else None
    return template.render(names), (passed,) if isinstance(passed, Mapping | list) else ()


def _data_of(made: MadeData, names: Mapping[str, object]) -> object:
    if not made.for_:
        return fill_in(made.data, names)
    faults: list[str] = []
    found = [
        (name, item)
        for name, lists in made.lists.items()
        for steps in lists
        for _, item in list_at(steps, names, faults)
    ]
    refuse(faults)
    return [
        fill_in(made.data, over({name: item, "index": index}, names))
        for index, (name, item) in enumerate(found)
    ]


def fill_in(written: object, names: Mapping[str, object]) -> Any:
    """A value with its templates filled in; a template of one name alone gives the value itself."""
    if isinstance(written, str):
        return parse(written).value(names)
    if isinstance(written, Mapping):
        return {key: fill_in(inner, names) for key, inner in written.items()}
    if isinstance(written, list):
        return [fill_in(inner, names) for inner in written]
    return written


def extract(
    text: str, fields: Mapping[str, Extract], patterns: Mapping[str, str]
) -> dict[str, object]:
    """The value of every field, in the order of `fields`.

    Patterns see LF line ends, and share one time limit. Raises PatternError and PatternTimeout.
    """
    from loopkit.text import markdown  # noqa: PLC0415 - a check extracts nothing

    body = markdown.with_line_feeds(text)
    found_by = partial(occurrences, named=patterns, since_s=time.monotonic())
    return {name: _value(how, body, found_by) for name, how in fields.items()}


def text_of_match(match: Match[str]) -> str:
    """The first group that took part in the match; without one the whole match."""
    return next((group for group in match.groups() if group is not None), match.group())


def _value(how: Extract, text: str, found_by: Callable[[str, str], Iterator[Match[str]]]) -> object:
    from loopkit.text import markdown  # noqa: PLC0415 - a check extracts nothing

    match how:
        case ExtractSection():
            found = markdown.section(
                text,
                how.section,
                or_title=how.or_title,
                strip=how.strip,
                placeholders=how.placeholders,
            )
            return how.default if found is None else found
        case ExtractMatch():
            first = next(found_by(how.match, text), None)
            return how.default if first is None else text_of_match(first)
        case ExtractAll():
            searched = markdown.without_code(text) if how.outside_code else text
            return list(dict.fromkeys(map(text_of_match, found_by(how.all, searched))))
        case ExtractCount():
            searched = markdown.without_code(text) if how.outside_code else text
            count = sum(1 for _ in found_by(how.count, searched))
            return how.default if count == 0 and how.default is not None else count


Given = Mapping[str, Any]
OPEN = object()
"""Stands for an unknown value."""


def item_count_in(state: EachState, given: Mapping[str, object]) -> int | None:
    """The number of items in the given values, by dotted name; None where it is unknown."""
    first, _, inner = state.each.removesuffix(ITEMS).partition(ITEMS)
    if first not in given:
        return None
    return len(select(f"[]{inner}[]" if inner else ITEMS, given[first]))


def child_counts(graph: Graph, state: ChildrenState, given: Given) -> tuple[int, int]:
    """The least and the most number of items of which a state runs another machine."""
    if not isinstance(state, EachState):
        return 1, 1
    known = item_count_in(state, flat_facts({"input": given}))
    if known is not None:
        return known, known
    least, most = item_counts(graph, state)
    return least, least if most is None else most


def definition_key(state: ChildrenState, given: Given) -> str:
    """A key that is equal for states that run equal machines with equal known inputs."""
    written = [state.child.identity, given]
    return json.dumps(written, sort_keys=True, default=str)


def partial_child_input(state: ChildrenState, given: Given) -> dict[str, Any]:
    """The known input of a child: fixed values, inputs passed on, and defaults."""
    known = {name: _value_or_open(value, given) for name, value in state.input.items()}
    for name, field in (parse_record(state.child.input).fields or {}).items():
        if name not in known and not field.required:
            known[name] = field.default
    return {name: value for name, value in known.items() if value is not OPEN}


def _value_or_open(value: object, given: Given) -> object:
    match value:
        case str():
            return _template_value(value, given)
        case Mapping():
            inner = {name: _value_or_open(one, given) for name, one in value.items()}
            return OPEN if any(one is OPEN for one in inner.values()) else inner
        case list() | tuple():
            items = [_value_or_open(one, given) for one in value]
            return OPEN if any(item is OPEN for item in items) else items
        case _:
            return value


def _template_value(text: str, given: Given) -> object:
    """The value of a template that is a plain text or the name of an input; else OPEN."""
    if (template := parse_if_valid(text)) is None:
        return OPEN
    if template.constant is not None:
        return template.constant
    first, *steps = template.whole or ("",)
    if first != "input" or not steps:
        return OPEN
    found: object = given
    for step in steps:
        found = found.get(step, OPEN) if isinstance(found, Mapping) else OPEN
    return found
