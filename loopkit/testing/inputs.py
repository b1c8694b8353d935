"""Inputs of cases: the shared one, the case's own before it, texts of files, defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, did_you_mean
from loopkit.language import Machine
from loopkit.language.datatypes import DataType, conform, parse_record
from loopkit.language.inclusion import include, include_data
from loopkit.language.json_schema import NotJudged
from loopkit.machine.inputs import faults_beyond_type
from loopkit.scenario import LoadedScenario, todo_problem


def inputs_of(
    written: LoadedScenario, case: str, machine: Machine
) -> tuple[Mapping[str, Any], list[Problem]]:
    """The complete input of a case, and its problems.

    `{file: PATH}` for an input is replaced by the text of that file, or by its data.
    """
    datatype = parse_record(machine.input)
    given, problems = _case_input(written, case, datatype)
    try:
        filled, faults = conform(given, datatype)
    except NotJudged as error:
        message = f"the input could not be checked against its type: {error}"
        at = ("cases", case)
        return {}, [written.source.problem(at, "wrong-input", message, key=True)]
    if faults and not problems:
        problems = list(_problems(written, case, given, datatype, faults))
    elif not problems:
        own = (written.scenario.cases or {})[case].input
        problems = [
            # No run would start: a word chooses no agent, or a list has no valid items.
            written.source.problem(_place(case, bool(own)), "wrong-input", fault.message, key=True)
            for fault in faults_beyond_type(machine, filled)
        ]
    return (filled if isinstance(filled, dict) else {}), problems


def unwritten_inputs(written: LoadedScenario, case: str, machine: Machine) -> Iterator[Problem]:
    """The inputs of a case that are still to be written: `{todo: TEXT}`, unless it is a value."""
    datatype = parse_record(machine.input)
    own = (written.scenario.cases or {})[case].input
    for name, value in {**written.scenario.input, **own}.items():
        field = datatype.field(name)
        is_value = field is not None and "todo" in (field.fields or {})
        if isinstance(value, dict) and value.keys() == {"todo"} and not is_value:
            at = (*_place(case, name in own), name)
            yield todo_problem(written.source, at, f"input `{name}`", str(value["todo"]))


def _case_input(
    written: LoadedScenario, case: str, datatype: DataType
) -> tuple[dict[str, Any], list[Problem]]:
    own = (written.scenario.cases or {})[case].input
    shared = {name: value for name, value in written.scenario.input.items() if name not in own}
    given, problems = _include_files(written, _place(case, False), shared, datatype)
    own_input, own_problems = _include_files(written, _place(case, True), own, datatype)
    return {**given, **own_input}, [*problems, *own_problems]


def _include_files(
    written: LoadedScenario, at: DocPath, inputs: Mapping[str, Any], datatype: DataType
) -> tuple[dict[str, Any], list[Problem]]:
    """The inputs with the contents of the files that they name, and the problems with these."""
    given, problems = dict(inputs), list[Problem]()
    for name in inputs:
        field, folder, document = datatype.field(name), written.folder, written.source.document
        if field is not None and field.scalar == "str":
            holder = {name: given[name]}
            problems += include(holder, folder, document, frozenset({name}), at)[1]
            given |= holder
        elif field is not None and "file" not in (field.fields or {}):
            problems += include_data(given, name, folder, document, at)[1]
    return given, problems


def _place(case: str, is_own: bool) -> DocPath:
    return ("cases", case, "input") if is_own else ("input",)


def _problems(
    written: LoadedScenario,
    case: str,
    given: Mapping[str, Any],
    datatype: DataType,
    faults: list[tuple[str, str]],
) -> Iterator[Problem]:
    own = (written.scenario.cases or {})[case].input
    fields = datatype.fields or {}
    at: DocPath = ("cases", case)
    for name in (name for name, field in fields.items() if field.required and name not in given):
        remedy = f"add `input: {{{name}: …}}` to the case, or for all cases at the top"
        message = f"input `{name}` is missing"
        yield written.source.problem(at, "missing-input", message, help=remedy, key=True)
    for name in (name for name in given if datatype.field(name) is None):
        remedy = did_you_mean(name, fields) or "the machine takes no input"
        message = f"unknown input `{name}`"
        at = (*_place(case, name in own), name)
        yield written.source.problem(at, "unknown-input", message, help=remedy, key=True)
    for where, what in faults:
        name = where.partition(".")[0].partition("[")[0]
        if name in given:
            at = (*_place(case, name in own), name)
            yield written.source.problem(at, "wrong-input", f"input `{where}`: {what}")
