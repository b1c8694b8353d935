"""Leftovers: replies, command results and answers of a case that its run never used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from loopkit.document.document import DocPath
from loopkit.engine.events import Event, Suspended, Worked
from loopkit.engine.state import RunState
from loopkit.engine.tasks import Task, is_of_program
from loopkit.scenario import Attempts, Case, ChildParts, InChild, Parts, call_at
from loopkit.testing.family import FamilyRun
from loopkit.testing.playbill import Playbill
from loopkit.text.run_ids import place_of

Leftover = tuple[DocPath, str]
"""Its place in the case, and what is left over."""


def leftovers(case: Case, bill: Playbill, run: FamilyRun) -> Iterator[Leftover]:
    """Everything of a case's own that was not used; what all cases share may be left over."""
    suspended = sum(isinstance(event, Suspended) for event in run.plain_events)
    yield from _unused(("resumes",), suspended, len(case.resumes), "resume")
    yield from _in_family(case, bill, run)


def _in_family(
    parts: Parts, bill: Playbill, run: FamilyRun, called: str = ""
) -> Iterator[Leftover]:
    for at, message in _in_run(parts, bill, run):
        yield at, f"`{called}`: {message}" if called else message
    parts_of_children = [
        (child, parts.child(child.state, child.key, child.visit)) for child in run.children
    ]
    for said in parts.in_children:
        place = place_of(said.state, said.key, called)
        runs = [
            child.run for child, its in parts_of_children if its is not None and its.at == said.at
        ]
        if not runs and said.said.model_fields_set:
            yield said.at, _not_begun(place, said)
        # A part for several children is used if any of them needs it.
        left = [dict(_in_family(said.said, bill.children[said.state], one, place)) for one in runs]
        for path, message in left[0].items() if left else ():
            if all(path in other for other in left):
                yield (*said.at, *path), message


def _not_begun(place: str, said: InChild[ChildParts]) -> str:
    if said.visit > 1:
        return f"`{place}` does not begin on visit {said.visit} of `{said.state}`"
    return f"`{place}` never begins"


def _in_run(case: Parts, bill: Playbill, run: FamilyRun) -> Iterator[Leftover]:
    state, events = run.state, run.plain_events
    asked = [task for key, task in state.tasks.items() if not is_of_program(key)]
    for agent, role in case.agents.items():
        own = [task for task in asked if task.agent == agent]
        if isinstance(role, Mapping):
            for place, attempts in role.items():
                here = {task.place_index: task for task in own if task.place == place}
                yield from _replies(("agents", agent, place), attempts, here)
        else:
            everywhere = {task.index: task for task in own}
            yield from _replies(("agents", agent), role, everywhere)
    for place, results in case.commands.items():
        used = _results(place, bill, state, events)
        yield from _unused(("commands", place), used, len(results), "result")
    for human, answers in case.answers.items():
        yield from _unused(
            ("answers", human), _answers(human, state, events), len(answers), "answer"
        )


def _replies(at: DocPath, attempts: Attempts, tasks: Mapping[int, Task]) -> Iterator[Leftover]:
    for index, calls in enumerate(attempts):
        task = tasks.get(index)
        if calls and calls[-1].is_refused:
            calls = calls[:-1]
        if task is None and calls:
            yield (*at, index), f"attempt {index + 1} is never asked for"
        elif task is not None:
            used = call_at(calls, task.settled, task.sent - task.settled)
            if used < len(calls):
                yield (*at, index, used), f"call {used + 1} of attempt {index + 1} is never made"


def _results(place: str, bill: Playbill, state: RunState, events: Sequence[Event]) -> int:
    """How many results of a command were used."""
    visits = [
        event.visit + ((event.state, place) in state.baselines)
        for event in events
        if isinstance(event, Worked) and event.report is not None and event.state in bill.judges
        and place in (answer.validator for answer in event.report.answers)
    ]  # fmt: skip
    stopped = state.suspended.commands if state.suspended else ()
    if place in (ran.validator for ran in stopped):
        visits.append(state.visit + ((state.state, place) in state.baselines))
    baselines = sum(validator == place for _, validator in state.baselines)
    return max([state.runs_of(place), *visits, min(baselines, 1)], default=0)


def _answers(human: str, state: RunState, events: Sequence[Event]) -> int:
    """How many answers to a state's questions were used."""
    visits = [
        event.visit
        for event in events
        if isinstance(event, Worked) and event.state == human and event.answer is not None
    ]
    asked = [state.visit] if state.status == "waiting" and state.state == human else []
    return max([*visits, *asked], default=0)


def _unused(at: DocPath, used: int, prepared: int, kind: str) -> Iterator[Leftover]:
    for index in range(used, prepared):
        yield (*at, index), f"{kind} {index + 1} is never used"
