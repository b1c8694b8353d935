"""A family of runs → the parts of each run, as a scenario has them."""

from __future__ import annotations

from typing import Any

from loopkit.machine.program import Program
from loopkit.scenario import CHILDREN
from loopkit.testing.by_state import by_state
from loopkit.testing.family import ChildRun, FamilyRun
from loopkit.testing.recording.tape import Tape, limit_names, read_tape


class NotRecordable(Exception):
    """A run that no case can play; the message says why and what to do."""


def family_parts(
    program: Program, run: FamilyRun, limited: frozenset[str] = frozenset()
) -> tuple[dict[str, Any], list[str]]:
    """The parts of a run and of its children, and notes on what no scenario plays.

    `limited` are the limits of the runs around it. Raises NotRecordable.
    """
    limited |= limit_names(program, run.events)
    tape = read_tape(program, run.events, limited)
    parts = {
        # A list where an agent is asked at one place, else by place.
        "agents": {
            agent: places if len(places) > 1 else next(iter(places.values()))
            for agent, places in _replies_by_agent(tape).items()
        },
        "commands": {
            name: [result or {"exit_code": 0} for result in results]
            for name, results in tape.commands.items()
            if results
        },
        "answers": dict(tape.answers),
    }
    children, notes = _children(program, run, limited)
    said = {part: value for part, value in {**parts, CHILDREN: children}.items() if value}
    return said, [*tape.notes, *notes]


def _replies_by_agent(tape: Tape) -> dict[str, dict[str, list[Any]]]:
    """The replies of each agent at each place, in order; a reply with only a text is that text."""
    agents: dict[str, dict[str, list[Any]]] = {}
    for attempt in tape.attempts.values():
        calls = [call["reply"] if set(call) == {"reply"} else call for call in attempt.calls]
        places = agents.setdefault(attempt.agent, {})
        places.setdefault(attempt.place, []).append(calls[0] if len(calls) == 1 else calls)
    return agents


def _children(
    program: Program, run: FamilyRun, limited: frozenset[str]
) -> tuple[dict[str, Any], list[str]]:
    notes: list[str] = []

    def parts_of_child(child: ChildRun) -> dict[str, Any]:
        if child.run.state.repairs:
            raise NotRecordable(
                f"run `{child.run.state.run}` was repaired, and no case plays a child by a "
                "definition of its own"
            )
        definition = program.children[child.state]
        of_child = Program(definition.machine, definition.digest)
        said, missing = family_parts(of_child, child.run, limited)
        raised = limit_names(of_child, child.run.events) - frozenset(of_child.limits)
        if raised:
            missing.append("its limits were raised, which no scenario plays")
        notes.extend(f"`{child.called}`: {note}" for note in missing)
        return said

    said = {child[:3]: parts_of_child(child) for child in run.children}
    return by_state(program.machine, said), notes
