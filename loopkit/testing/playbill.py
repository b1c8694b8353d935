"""The playbill: every agent, command and person that the cases of a machine can name.

Also what a scenario file needs from it: children by state, key and visit, and inputs of cases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from loopkit.agents.players import shape_fault
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, did_you_mean
from loopkit.language.agents.tools import Tool
from loopkit.language.datatypes.datatype import DataType, conform
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.inclusion import include, include_data
from loopkit.language.input_faults import InvalidInput, with_files
from loopkit.language.json_schema.equality import NotJudged
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
from loopkit.scenario.cases import LoadedScenario, Scenario, todo_problem
from loopkit.scenario.script import ANY, CHILDREN, PARTS, Children, every_child


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
    given, problems = dict(inputs), list[Problem]()
    for name in inputs:
        field = datatype.field(name)
        folder = written.folder
        document = written.source.document
        if field is not None and field.scalar == "str":
            holder = {name: given[name]}
            problems += include(holder, folder, document, frozenset({name}), at)[1]
            given |= holder
        elif field is not None and not field.is_file and "file" not in (field.fields or {}):
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
    problem = written.source.problem
    at: DocPath = ("cases", case)
    for name in (name for name, field in fields.items() if field.required and name not in given):
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
