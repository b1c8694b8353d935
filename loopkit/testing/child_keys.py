"""Children in a scenario: whether they are named as their state has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loopkit.agents.refusals import shape_fault
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, did_you_mean
from loopkit.language import EachState, Machine
from loopkit.language.datatypes import parse_record
from loopkit.language.states.children import ChildrenState
from loopkit.machine.item_list import items_of
from loopkit.machine.readable import readable
from loopkit.scenario import ANY, LoadedScenario, Scenario
from loopkit.scenario.in_children import CHILDREN, Children, every_child
from loopkit.testing.playbill import Playbill

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
                    yield written.source.problem(
                        path,
                        "unknown-item",
                        f"`{name}` has no item `{key}` in this case",
                        help=did_you_mean(key, known),
                        key=True,
                    )
