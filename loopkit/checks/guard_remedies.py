"""Remedies for a name that a guard does not know: where it is known, or what to write instead."""

from __future__ import annotations

from collections.abc import Mapping

from loopkit.checks import state_paths
from loopkit.checks.artifacts import way_without
from loopkit.checks.subject import Subject
from loopkit.document.problems import did_you_mean
from loopkit.language.datatypes import DataType
from loopkit.language.facts import OF_REPORTS, OF_REVISING, VERDICT
from loopkit.language.guard import GuardType
from loopkit.machine.guard_names import own_names


def remedy_for(
    subject: Subject, state: str | None, types: Mapping[str, GuardType], name: str
) -> str:
    """The remedy for a guard's unknown name that is known elsewhere; else empty."""
    if state is None:
        return "the guards of rules know the input and `attempt`"
    if name in OF_REVISING:
        return _of_revising(subject, state)
    head, _, field = name.partition(".")
    if head == "input":
        return _of_input(subject.scope.input, name)
    if head == "reports":
        head, field = field.partition(".")[0], VERDICT
    if remedy := _of_this_state(subject, state, name):
        return remedy
    if field:
        return _of_state(subject, state, head, field)
    return _of_others(subject, types, name)


def _of_revising(subject: Subject, state: str) -> str:
    if subject.graph.revise_edges[state]:
        return "the state has several revise edges; `cap_reached` is true when none is open"
    return "it is known only where the state has a `revise:` edge"


def _of_input(datatype: DataType | None, name: str) -> str:
    if name == "input":
        return "name one of its fields: `input.…`"
    known = ["input"]
    for step in name.split(".")[1:]:
        fields = (datatype.fields or {}) if datatype else {}
        if step not in fields:
            return did_you_mean(name, [".".join([*known, field]) for field in fields])
        datatype = fields[step]
        known.append(step)
    return "it is a list or a mapping; guards compare single values, so judge it with `require:`"


def _of_state(subject: Subject, here: str, state: str, field: str) -> str:
    if state not in subject.machine.states:
        return ""
    own = own_names(subject.graph, state)
    if field not in own:
        return did_you_mean(field, own) or f"the state `{state}` leaves nothing that guards know"
    way = way_without(subject, ("facts", state), here)
    return f"`{state}` does not work {state_paths.on_path(way)}" if way else ""


def _of_this_state(subject: Subject, name: str, field: str) -> str:
    """The remedy for a name of a field in the answer of the state's own agent."""
    datatype = subject.machine.data_type(name) if subject.machine.agents_at(name) else None
    head, *steps = field.split(".")
    known = datatype and (datatype.fields or {}).get(head)
    if not known:
        return ""
    if near := did_you_mean(field, own_names(subject.graph, name)) if steps else "":
        return near
    return "guards know only single values; `require:` judges lists and mappings"


def _of_others(subject: Subject, types: Mapping[str, GuardType], name: str) -> str:
    dotted = [f"{state}.{name}" for state in subject.machine.states]
    known = next((one for one in dotted if one in types), None)
    if known is not None:
        return f"write `{known}`"
    if name in OF_REPORTS:
        return "only `validate` states have it"
    return "only `human` states have it" if name == "choice" else ""
