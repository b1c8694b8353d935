"""Suites: a scenario file's cases, the machine that they test, their problems and their results."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from loopkit.agents.players import shape_fault
from loopkit.checks import refuse_errors
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, ProblemsFound, did_you_mean, render
from loopkit.engine.macrostep import Engine
from loopkit.language.agents.tools import Tool
from loopkit.language.datatypes.datatype import DataType, conform
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.inclusion import Files, include, include_data
from loopkit.language.input_faults import InvalidInput, with_files
from loopkit.language.json_schema.equality import NotJudged
from loopkit.language.load import Loaded, Source, load
from loopkit.language.machine import Machine
from loopkit.language.states.each import CANCELLED, ChildrenState, EachState
from loopkit.language.states.kinds import CommandState, HumanState
from loopkit.language.validators import Rule, rules_of
from loopkit.machine.edges import Edge
from loopkit.machine.flow import readable
from loopkit.machine.graph import Graph
from loopkit.machine.inputs import faults_beyond_type
from loopkit.machine.item_list import items_of
from loopkit.machine.program import validators_of
from loopkit.scenario.cases import (
    GAP,
    SUSPENDED,
    WAITING,
    Case,
    Expect,
    LoadedScenario,
    Scenario,
    load_file,
    todo_problem,
    unwritten,
)
from loopkit.scenario.script import ANY, CHILDREN, PARTS, Children, Parts, every_child
from loopkit.text import one_line, printable


@dataclass(frozen=True)
class Playbill:
    graph: Graph

    @property
    def machine(self) -> Machine:
        return self.graph.machine

    @cached_property
    def askers(self) -> dict[str, HumanState]:
        return self.machine.states_of(HumanState)

    @cached_property
    def commands(self) -> tuple[str, ...]:
        running = self.machine.states_of(CommandState)
        judging = [name for name, rule in self._rules() if rule.program]
        return tuple(dict.fromkeys([*running, *judging, *filter(self._is_played, self.tools)]))

    @cached_property
    def tools(self) -> dict[str, Tool]:
        """The tools of the agents, as `AGENT.TOOL`."""
        return {
            f"{agent}.{name}": tool
            for agent, declared in self.machine.agents.items()
            for name, tool in declared.callable_tools.items()
        }

    def _is_played(self, name: str) -> bool:
        """Whether a tool may start a program, which a case can play; validators look at drafts."""
        named = self.tools[name].validators
        rules = (rule for one in named for rule in rules_of(self.machine.validators.get(one, ())))
        return not named or any(rule.program for rule in rules)

    @cached_property
    def children(self) -> dict[str, Playbill]:
        running = self.machine.states_of(ChildrenState)
        return {name: Playbill(Graph(state.child)) for name, state in running.items()}

    @cached_property
    def family_agents(self) -> tuple[str, ...]:
        of_children = (name for bill in self.children.values() for name in bill.family_agents)
        return tuple(dict.fromkeys([*self.machine.agents, *of_children]))

    @cached_property
    def called(self) -> tuple[str, ...]:
        """The names whose calls are counted: these agents, and the tools of each."""
        of_children = (name for bill in self.children.values() for name in bill.called)
        return tuple(dict.fromkeys([*self.family_agents, *self.tools, *of_children]))

    def outcomes(self, state: str) -> tuple[str, ...]:
        running = self.machine.states_of(ChildrenState)[state]
        return tuple(dict.fromkeys([*running.outcomes, CANCELLED]))

    @cached_property
    def validators(self) -> tuple[str, ...]:
        """Validators by name; those written inline are called `by[0]` and so on."""
        return tuple(dict.fromkeys(name for name, _ in self._rules()))

    def places(self, agent: str) -> tuple[str, ...]:
        """Where an agent is asked: in its states, and for the validators that it judges for."""
        authored = [name for name, asked in self.machine.authoring.items() if agent in asked]
        judged = [name for name, rule in self._rules() if rule.asks == agent]
        return tuple(dict.fromkeys([*authored, *judged]))

    @cached_property
    def revised(self) -> tuple[str, ...]:
        """The names by which revisions are counted: the states that are revised, and the edges."""
        return tuple(dict.fromkeys([*(e.target for e in self._back), *(e.id for e in self._back)]))

    @cached_property
    def feedback_receivers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.graph.written, *(e.target for e in self._back)]))

    @cached_property
    def emitted(self) -> tuple[str, ...]:
        emissions = (
            *(state.emits for state in self.machine.states.values()),
            *(edge.emit for edge in self.graph.edges),
            *(e for s in self.machine.states.values() for e in s.emits_of_verdicts.values()),
            *(tool.emits for tool in self.tools.values()),
        )
        return tuple(dict.fromkeys(each.name for each in emissions if each is not None))

    @cached_property
    def _back(self) -> tuple[Edge, ...]:
        return tuple(edge for edge in self.graph.edges if edge.back)

    def _rules(self) -> Iterator[tuple[str, Rule]]:
        for state in self.graph.judges.values():
            for name, rules in validators_of(self.machine, state).items():
                yield from ((name, rule) for rule in rules)


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


ShapeFault = tuple[DocPath, str, str]
"""Its place, what is wrong there, and the remedy."""


def misnamed_children(scenario: Scenario, bill: Playbill) -> Iterator[ShapeFault]:
    """Children that are named by key where there are no keys, or the other way round."""
    yield from _shape_faults((), scenario.children, bill)
    for name, case in (scenario.cases or {}).items():
        at: DocPath = ("cases", name)
        yield from _shape_faults(at, case.children, bill)
        expected = (case.expect and case.expect.children) or {}
        yield from _shape_faults((*at, "expect"), expected, bill)


def _shape_faults(at: DocPath, children: Children[Any], bill: Playbill) -> Iterator[ShapeFault]:
    child_states = bill.machine.states_of(ChildrenState)
    for name, said in children.items():
        if name in child_states and (fault := shape_fault(name, child_states[name], said)):
            yield (*at, CHILDREN, name), *fault
    for one in every_child(children):
        if one.state in child_states and one.said.children:
            yield from _shape_faults((*at, *one.at), one.said.children, bill.children[one.state])


def unknown_keys(
    written: LoadedScenario, case: str, machine: Machine, inputs: Mapping[str, Any]
) -> Iterator[Problem]:
    """A problem for each key that no item has, where the items are in the input of a case."""
    one = (written.scenario.cases or {})[case]
    names = {"input": readable(inputs, parse_record(machine.input))}
    for at, children in (
        ((), one.children),
        (("expect",), (one.expect and one.expect.children) or {}),
    ):
        for name, state in machine.states_of(EachState).items():
            said = children.get(name, {})
            if not state.is_of_input or not isinstance(said, Mapping):
                continue
            known = [item.key for item in items_of(state, names)]
            for key in said:
                if key != ANY and key not in known:
                    path = ("cases", case, *at, CHILDREN, name, key)
                    told = f"`{name}` has no item `{key}` in this case"
                    hint = did_you_mean(key, known)
                    yield written.source.problem(path, "unknown-item", told, help=hint, key=True)


def inputs_of(
    written: LoadedScenario, case: str, machine: Machine
) -> tuple[Mapping[str, Any], list[Problem]]:
    """The complete input of a case, and its problems.

    `{file: PATH}` for an input is replaced by the text of that file, or by its data.
    """
    datatype = parse_record(machine.input)
    own = (written.scenario.cases or {})[case].input
    shared = {name: value for name, value in written.scenario.input.items() if name not in own}
    given, problems = _include_files(written, _place(case, False), shared, datatype)
    given_here, found = _include_files(written, _place(case, True), own, datatype)
    given = {**given, **given_here}
    problems = [*problems, *found]
    try:
        filled, faults = conform(given, datatype)
    except NotJudged as error:
        message = f"the input could not be checked against its type: {error}"
        at = ("cases", case)
        return {}, [written.source.problem(at, "wrong-input", message, key=True)]
    if faults and not problems:
        problems = list(_problems(written, case, given, datatype, faults))
    elif not problems and isinstance(filled, dict):
        try:
            filled = with_files(filled, datatype, written.folder)
            # No run would start: a word chooses no agent, or a list has no valid items.
            strange = tuple(faults_beyond_type(machine, filled))
        except InvalidInput as error:
            strange = error.faults
        problems = [
            written.source.problem(_place(case, bool(own)), "wrong-input", fault.message, key=True)
            for fault in strange
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
    problem = written.source.problem
    at: DocPath = ("cases", case)
    for name in (name for name, one in fields.items() if one.required and name not in given):
        remedy = f"add `input: {{{name}: …}}` to the case, or for all cases at the top"
        yield problem(at, "missing-input", f"input `{name}` is missing", help=remedy, key=True)
    for name in (name for name in given if datatype.field(name) is None):
        remedy = did_you_mean(name, fields) or "the machine takes no input"
        at = (*_place(case, name in own), name)
        yield problem(at, "unknown-input", f"unknown input `{name}`", help=remedy, key=True)
    for where, what in faults:
        name = where.partition(".")[0].partition("[")[0]
        if name in given:
            at = (*_place(case, name in own), name)
            yield problem(at, "wrong-input", f"input `{where}`: {what}")


SUFFIX = ".scenario.yaml"


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
    def playbill(self) -> Playbill:
        return Playbill(Graph(self.machine.machine))

    @property
    def playable(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if not self.unwritten[name])

    @cached_property
    def unwritten(self) -> dict[str, tuple[Problem, ...]]:
        return {
            name: (
                *unwritten_inputs(self.written, name, self.machine.machine),
                *unwritten(self.written.scenario, self.source, name),
            )
            for name in self.names
        }

    def case(self, name: str) -> Case:
        return (self.written.scenario.cases or {})[name]

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
    machine = _machine(written, machines)
    inputs: dict[str, Mapping[str, Any]] = {}
    suite = Suite(path, written, machine, inputs, machines)
    problems = list(unknown_names(written.scenario, suite.playbill, written.source))
    for name in written.names:
        if not suite.unwritten[name]:
            inputs[name], faults = inputs_of(written, name, machine.machine)
            problems += faults
            if not faults:
                problems += unknown_keys(written, name, machine.machine, inputs[name])
    if problems:
        # A problem of what all cases share is found in each case.
        raise ProblemsFound(dict.fromkeys(problems))
    return suite


def _machine(written: LoadedScenario, machines: Machines) -> Loaded:
    name = written.scenario.machine or ""
    path = written.folder / name
    if not path.is_file():
        message = f"there is no machine file `{name}`"
        remedy = "the path starts at the folder of this file"
        at = ("machine",)
        raise ProblemsFound([written.source.problem(at, "no-machine", message, help=remedy)])
    return machines.machine(path)


def scenario_files(paths: Iterable[Path]) -> list[Path]:
    """Each file once, in order; for a folder, all below it except in hidden folders."""
    return list(dict.fromkeys(file for path in paths for file in _files(path)))


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for file in sorted(path.rglob(f"*{SUFFIX}")):
        hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
        # A broken link is reported as unreadable; otherwise its cases would be missed.
        if not hidden and (file.is_file() or (file.is_symlink() and not file.exists())):
            yield file


OF_CHILDREN = "state with children"

Unknown = tuple[DocPath, bool, str, str, Iterable[str]]
"""Its place, whether it is a key, what it should name, the name itself, and the known names."""


def unknown_names(scenario: Scenario, bill: Playbill, source: Source) -> Iterator[Problem]:
    for path, is_key, kind, name, known in _unknown(scenario, bill):
        remedy = did_you_mean(name, known) or "the machine has none"
        message = f"the machine has no {kind} `{name}`"
        code = f"unknown-{kind.replace(' ', '-')}"
        yield source.problem(path, code, message, help=remedy, key=is_key)
    for path, message, remedy in misnamed_children(scenario, bill):
        yield source.problem(path, "wrong-children", message, help=remedy, key=True)


def _unknown(scenario: Scenario, bill: Playbill) -> Iterator[Unknown]:
    yield from _in_parts((), scenario, bill)
    for name, case in (scenario.cases or {}).items():
        at: DocPath = ("cases", name)
        yield from _in_parts(at, case, bill)
        if case.expect is not None:
            yield from _in_expectations((*at, "expect"), case.expect, bill, bill.machine.finals)


def _in_parts(at: DocPath, parts: Parts, bill: Playbill) -> Iterator[Unknown]:
    yield from _keys((*at, "agents"), "agent", parts.agents, bill.machine.agents)
    yield from _keys((*at, "commands"), "command", parts.commands, bill.commands)
    yield from _keys((*at, "answers"), "question", parts.answers, bill.askers)
    yield from _keys((*at, CHILDREN), OF_CHILDREN, parts.children, bill.children)
    for agent, role in parts.agents.items():
        if isinstance(role, Mapping) and agent in bill.machine.agents:
            places = bill.places(agent)
            yield from _keys((*at, "agents", agent), "place", role, places)
    for state, answers in parts.answers.items():
        for index, answer in enumerate(answers if state in bill.askers else ()):
            path = (*at, "answers", state, index, "choice")
            yield from _one(path, "choice", answer.choice, bill.askers[state].choices)
    for said in parts.in_children:
        if said.state in bill.children:
            yield from _in_parts((*at, *said.at), said.said, bill.children[said.state])


def _in_expectations(
    at: DocPath, expect: Expect, bill: Playbill, outcomes: Iterable[str]
) -> Iterator[Unknown]:
    states = tuple(bill.machine.states)
    ends = (*outcomes, WAITING, SUSPENDED)
    yield from _one((*at, "outcome"), "outcome", expect.outcome, ends)
    yield from _steps((*at, "path"), "state", expect.path or (), states)
    yield from _steps((*at, "kept"), "state", expect.kept or (), states)
    yield from _steps((*at, "events"), "event", expect.events or (), bill.emitted)
    agents = tuple(bill.machine.agents)
    judges = tuple(bill.graph.judges)
    for key, kind, known in (
        ("verdicts", "validate state", judges),
        ("revisions", "revised state or edge", bill.revised),
        ("calls", "agent", bill.called),
        ("calls_at_most", "agent", bill.called),
        ("artifacts", "artifact", tuple(bill.graph.artifacts)),
        (CHILDREN, OF_CHILDREN, bill.children),
    ):
        yield from _keys((*at, key), kind, getattr(expect, key) or {}, known)
    for key, part, kind, known in (
        ("findings", "state", "validate state", judges),
        ("findings", "validator", "validator", (*bill.validators, "artifact")),
        ("feedback", "to", "addressee", bill.feedback_receivers),
        ("prompts", "agent", "agent", agents),
        ("prompts", "state", "state", states),
        ("prompts", "validator", "validator", bill.validators),
    ):
        for index, item in enumerate(getattr(expect, key) or ()):
            yield from _one((*at, key, index, part), kind, getattr(item, part), known)
    for one in expect.in_children:
        if one.state in bill.children:
            here, ends = (*at, *one.at), bill.outcomes(one.state)
            yield from _in_expectations(here, one.said, bill.children[one.state], ends)


def _keys(at: DocPath, kind: str, names: Iterable[str], known: Iterable[str]) -> Iterator[Unknown]:
    for name in names:
        if name not in known:
            yield (*at, name), True, kind, name, known


def _steps(at: DocPath, kind: str, names: Iterable[str], known: Iterable[str]) -> Iterator[Unknown]:
    for index, name in enumerate(names):
        if name != GAP:
            yield from _one((*at, index), kind, name, known)


def _one(at: DocPath, kind: str, name: Any, known: Iterable[str]) -> Iterator[Unknown]:
    if name is not None and name not in known:
        yield at, False, kind, name, known


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


Selection = Callable[[str], bool]


class NotAnExpression(ValueError):
    """An expression that can't be read; the message says how to write one."""


def selection(text: str) -> Selection:
    """A test for names; a word is true for a name that contains it, ignoring case.

    Raises NotAnExpression.
    """
    words: dict[str, str] = {}

    def named(found: re.Match[str]) -> str:
        if (word := found[0]) in ("and", "or", "not"):
            return word
        name = f"word_{len(words)}"
        words[name] = word.lower()
        return name

    # With a name for each word it is an expression of Python.
    written = re.sub(r"[^\s()]+", named, " ".join(text.split()))
    try:
        return _test_of(ast.parse(written, mode="eval").body, words) if written else bool
    except (SyntaxError, MemoryError, RecursionError) as error:
        remedy = "write words, `and`, `or`, `not` and parentheses"
        raise NotAnExpression(f"`{one_line(text)}` can't be read: {remedy}") from error


def _test_of(node: ast.expr, words: Mapping[str, str]) -> Selection:
    match node:
        case ast.Name(id=name):
            return lambda text: words[name] in text.lower()
        case ast.UnaryOp(operand=inner):
            test = _test_of(inner, words)
            return lambda text: not test(text)
        case ast.BoolOp(op=operator, values=values):
            tests = [_test_of(value, words) for value in values]
            every = all if isinstance(operator, ast.And) else any
            return lambda text: every(test(text) for test in tests)
    raise SyntaxError("two words beside each other, or nothing in parentheses")


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
