"""Suites: a scenario file's cases, the machine that they test, their problems and their results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, groupby
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from loopkit.checks import refuse_errors
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, ProblemsFound, render
from loopkit.engine.macrostep import Engine
from loopkit.language.datatypes.datatype import DataType
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.inclusion import Files, include, include_data
from loopkit.language.input_faults import MISSING, InvalidInput
from loopkit.language.json_schema.equality import NotJudged
from loopkit.language.load import Loaded, Source, load
from loopkit.language.machine import Machine
from loopkit.language.states.each import ChildrenState
from loopkit.machine.graph import Graph
from loopkit.machine.inputs import complete_input
from loopkit.project import files_below
from loopkit.scenario.cases import (
    GAP,
    SUFFIX,
    SUSPENDED,
    WAITING,
    Case,
    Expect,
    LoadedScenario,
    Scenario,
    load_file,
)
from loopkit.scenario.playable import (
    Miss,
    Playable,
    misnamed_children,
    misnamed_parts,
    unknown,
    unknown_keys,
)
from loopkit.scenario.script import ANY, CHILDREN, PARTS
from loopkit.text import printable

ChildName = tuple[str, str, int]
"""The name of a child: the state, the key of the item, the visit of the state."""


def by_state(machine: Machine, of_each: Mapping[ChildName, dict[str, Any]]) -> dict[str, Any]:
    """The values of all children, by state and, for children with keys, by key.

    If a state is entered several times, the value is a list with one for each visit.
    """
    by_name: dict[str, dict[str, dict[int, Any]]] = {}
    for (state, key, visit), known in of_each.items():
        by_name.setdefault(state, {}).setdefault(key, {})[visit] = known
    child_states = machine.states_of(ChildrenState)
    parts: dict[str, Any] = {}
    for state, by_key in by_name.items():
        visits = {key: _visits(by_visit) for key, by_visit in by_key.items()}
        if not visits.keys().isdisjoint({*PARTS, CHILDREN}):
            # An item with the name of a part would be read as that part.
            visits[ANY] = {}
        parts[state] = visits if child_states[state].has_keys else visits[""]
    return parts


def _visits(by_visit: Mapping[int, Any]) -> Any:
    listed = [by_visit.get(visit, {}) for visit in range(1, max(by_visit) + 1)]
    return listed[0] if len(listed) == 1 else listed


def inputs_of(
    written: LoadedScenario, case: str, machine: Machine
) -> tuple[dict[str, Any], list[Problem]]:
    """The complete input of a case, and its problems.

    `{file: PATH}` for an input is replaced by the text of that file, or by its data.
    """
    datatype = parse_record(machine.input)
    own = (written.scenario.cases or {})[case].input
    shared = {name: value for name, value in written.scenario.input.items() if name not in own}
    at: DocPath = ("cases", case)
    given, problems = _include_files(written, ("input",), shared, datatype)
    given_here, found = _include_files(written, (*at, "input"), own, datatype)
    given |= given_here
    if problems := [*problems, *found]:
        return {}, problems
    try:
        return complete_input(machine, given, written.folder, read_anywhere=True), []
    except NotJudged as error:
        faults: Sequence[Problem] = [Problem("wrong-kind", f"its type can't be judged: {error}")]
    except InvalidInput as error:
        faults = error.faults
    for fault in faults:
        name = re.split(r"[.[]", fault.path)[0]
        place = (*at, "input", name) if name in own else ("input", name) if name in given else at
        remedy = f"add `input: {{{name}: …}}`, here or for all cases at the top"
        help_ = remedy if fault.code == MISSING else ""
        told = written.source.problem(place, fault.code, fault.message, help=help_, key=True)
        problems.append(told)
    return {}, problems


def _include_files(
    written: LoadedScenario, at: DocPath, inputs: Mapping[str, Any], datatype: DataType
) -> tuple[dict[str, Any], list[Problem]]:
    """The inputs with the contents of the files that they name, and the problems with these."""
    given, files = dict(inputs), Files(written.source.document, written.folder)
    for name in inputs:
        field = datatype.field(name)
        if field is not None and field.scalar == "str":
            holder = {name: given[name]}
            include(holder, files, frozenset({name}), at)
            given |= holder
        elif field is not None and not field.is_file and "file" not in (field.fields or {}):
            include_data(given, name, files, at)
    return given, files.faults


@dataclass
class Machines:
    """Machines that are read and checked once for all suites that test them."""

    loaded: dict[Path, Loaded] = field(default_factory=dict)
    engines: dict[str, Engine] = field(default_factory=dict)
    """The engines by digest, because compiled classes are never freed."""

    def machine(self, path: Path) -> Loaded:
        """A machine without errors; raises ProblemsFound."""
        if path not in self.loaded:
            loaded = load(path)
            refuse_errors(loaded)
            self.loaded[path] = loaded
        return self.loaded[path]


@dataclass(frozen=True)
class Suite:
    path: Path
    written: LoadedScenario
    machine: Loaded
    inputs: Mapping[str, Mapping[str, Any]]
    machines: Machines

    @property
    def names(self) -> tuple[str, ...]:
        return self.written.names

    @property
    def source(self) -> Source:
        return self.written.source

    @cached_property
    def playable(self) -> Playable:
        return Playable(Graph(self.machine.machine))

    def case(self, name: str) -> Case:
        return (self.written.scenario.cases or {})[name]

    def problem(self, miss: Miss) -> Problem:
        """What is missed, at its place in the file."""
        source, key = self.source, miss.is_key
        return source.problem(miss.at, miss.code, miss.message, help=miss.help, key=key)

    def line(self, *path: str | int) -> int:
        """The line of the key, or the item, at a path of the file; from 1."""
        return self.source.document.span(path, key=True).line


def load_suite(path: Path, machines: Machines | None = None) -> Suite:
    """The suite of a scenario file.

    Raises ProblemsFound with all problems of the file, of the names in it, or of its machine.
    """
    machines = machines or Machines()
    written = load_file(path)
    if not written.names:
        message = "the scenario has no cases to test"
        at = ("scenario",)
        remedy = f"add `machine:` and `cases:`; a script for `--script` does not end in `{SUFFIX}`"
        raise ProblemsFound([written.source.problem(at, "no-cases", message, help=remedy)])
    name = written.scenario.machine or ""
    if not (file := written.folder / name).is_file():
        message = f"there is no machine file `{name}`"
        remedy = "the path starts at the folder of this file"
        at = ("machine",)
        raise ProblemsFound([written.source.problem(at, "no-machine", message, help=remedy)])
    machine = machines.machine(file)
    inputs: dict[str, Mapping[str, Any]] = {}
    suite = Suite(path, written, machine, inputs, machines)
    problems = list(map(suite.problem, misnamed(written.scenario, suite.playable)))
    for name in written.names:
        inputs[name], faults = inputs_of(written, name, machine.machine)
        problems += faults
    if problems:
        # A problem of what all cases share is found in each case.
        raise ProblemsFound(dict.fromkeys(problems))
    return suite


def scenario_files(paths: Iterable[Path]) -> list[Path]:
    """Each file once, in order; for a folder, all below it."""
    found = (files_below(path, SUFFIX) if path.is_dir() else [path] for path in paths)
    return list(dict.fromkeys(chain.from_iterable(found)))


def misnamed(scenario: Scenario, bill: Playable) -> Iterator[Miss]:
    yield from misnamed_parts((), scenario, bill)
    for name, case in (scenario.cases or {}).items():
        at: DocPath = ("cases", name)
        yield from misnamed_parts(at, case, bill)
        if case.expect is not None:
            yield from _in_expectations((*at, "expect"), case.expect, bill, bill.machine.finals)


def _in_expectations(
    at: DocPath, expect: Expect, bill: Playable, outcomes: Iterable[str]
) -> Iterator[Miss]:
    states = tuple(bill.machine.states)
    agents = tuple(bill.machine.agents)
    judges = tuple(bill.graph.judges)
    ends = (*outcomes, WAITING, SUSPENDED)
    yield from unknown((*at, "outcome"), "outcome", expect.outcome, ends)
    for key, kind, known in (
        ("path", "state", states),
        ("kept", "state", states),
        ("events", "event", bill.emitted),
    ):
        for index, name in enumerate(getattr(expect, key) or ()):
            if name != GAP:
                yield from unknown((*at, key, index), kind, name, known)
    for key, kind, known in (
        ("verdicts", "validate state", judges),
        ("revisions", "revised state or edge", bill.revised),
        ("calls", "agent", bill.called),
        ("calls_at_most", "agent", bill.called),
        ("artifacts", "artifact", tuple(bill.graph.artifacts)),
    ):
        yield from unknown_keys((*at, key), kind, getattr(expect, key) or {}, known)
    for key, part, kind, known in (
        ("findings", "state", "validate state", judges),
        ("findings", "validator", "validator", (*bill.validators, "artifact")),
        ("feedback", "to", "addressee", bill.feedback_receivers),
        ("prompts", "agent", "agent", agents),
        ("prompts", "state", "state", states),
        ("prompts", "validator", "validator", bill.validators),
    ):
        for index, item in enumerate(getattr(expect, key) or ()):
            yield from unknown((*at, key, index, part), kind, getattr(item, part), known)
    yield from misnamed_children(at, expect.children or {}, bill)
    for one in expect.in_children:
        if one.state in bill.children:
            here, ends = (*at, *one.at), bill.outcomes(one.state)
            yield from _in_expectations(here, one.said, bill.children[one.state], ends)


@dataclass(frozen=True, slots=True)
class Failure:
    problem: Problem
    """The place in the file, and what happened instead."""
    shown: tuple[str, ...] = ()

    def text(self, sources: Mapping[str, str]) -> str:
        lines = (f"    {printable(line)}".rstrip() for line in self.shown)
        return "\n".join([render([self.problem], sources), *lines])


@dataclass(frozen=True)
class CaseResult:
    suite: str
    case: str
    failures: tuple[Failure, ...]
    seconds: float
    """Real time that it took to play and to judge."""
    sources: Mapping[str, str]
    block: str = ""
    """`expect:` with what the run did, as YAML; empty where nothing else can be expected."""

    @property
    def passed(self) -> bool:
        return not self.failures

    @property
    def text(self) -> str:
        return "\n\n".join([self.failures_text, *([self.block_text] if self.block else [])])

    @property
    def failures_text(self) -> str:
        return "\n\n".join(failure.text(self.sources) for failure in self.failures)

    @property
    def block_text(self) -> str:
        """The block for a terminal, below a line that says what it is."""
        lines = map(printable, self.block.rstrip("\n").split("\n"))
        return "\n".join(["if the run is right, expect what it did:", "", *lines])

    @property
    def summary(self) -> str:
        """The first failure in a line: `plan.scenario.yaml:12: another path was taken`."""
        if not self.failures:
            return ""
        problem = self.failures[0].problem
        place = f"{problem.span.file}:{problem.span.line}: " if problem.span else ""
        return place + printable(problem.message)


_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(results: Sequence[CaseResult], broken: Mapping[str, str]) -> bytes:
    """A document with one suite a file; `broken` has the files that can't be used, and why."""
    root = ET.Element("testsuites", name="loopkit")
    for file, cases in groupby(results, key=lambda result: result.suite):
        _add_suite(root, file, list(cases))
    for file, why in broken.items():
        suite = ET.SubElement(root, "testsuite", name=file, tests="1", errors="1", failures="0")
        case = ET.SubElement(suite, "testcase", classname=file, name=file, time="0")
        ET.SubElement(case, "error", message="the file can't be used").text = _xml(why)
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def _add_suite(root: ET.Element, file: str, results: Sequence[CaseResult]) -> None:
    failed = sum(not result.passed for result in results)
    seconds = sum(result.seconds for result in results)
    suite = ET.SubElement(
        root, "testsuite", name=file, tests=str(len(results)), failures=str(failed), errors="0",
        time=f"{seconds:.3f}",
    )  # fmt: skip
    for result in results:
        head = {"classname": file, "name": _xml(result.case), "time": f"{result.seconds:.3f}"}
        case = ET.SubElement(suite, "testcase", head)
        if not result.passed:
            failure = ET.SubElement(case, "failure", message=_xml(result.summary))
            failure.text = _xml(result.text)


def _xml(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)
