"""A family of runs → what is said in each of them, as a scenario has it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from loopkit.engine.state import RunState
from loopkit.machine.program import Program
from loopkit.scenario import CHILDREN
from loopkit.testing.by_state import by_state
from loopkit.testing.family import ChildRun, FamilyRun
from loopkit.testing.recording.calls import plain_call
from loopkit.testing.recording.tape import Attempt, Tape, limited_by, read_tape


class NotRecordable(Exception):
    """A run that no case can play; the message says why and what to do."""


def said_in(
    program: Program, run: FamilyRun, limited: frozenset[str] = frozenset()
) -> tuple[dict[str, Any], list[str]]:
    """What is said in a run and in its children, and what of that no scenario plays.

    `limited` are the limits of those that it is a child of. Raises NotRecordable.
    """
    limited |= limited_by(program, run.events)
    tape = read_tape(program, run.events, limited)
    parts = {
        "agents": _agents(tape.attempts.values()),
        "commands": {name: [r or {"exit_code": 0} for r in runs] for name, runs in _used(tape)},
        "answers": dict(tape.answers),
    }
    children, notes = _children(program, run, limited)
    said = {part: value for part, value in {**parts, CHILDREN: children}.items() if value}
    return said, [*tape.notes, *notes]


def _children(
    program: Program, run: FamilyRun, limited: frozenset[str]
) -> tuple[dict[str, Any], list[str]]:
    notes: list[str] = []

    def said_by(child: ChildRun) -> dict[str, Any]:
        _refuse_repaired(child.run.state)
        of_child = program_of(program, child.state)
        said, missing = said_in(of_child, child.run, limited)
        raised = limited_by(of_child, child.run.events) - frozenset(of_child.limits)
        if raised:
            missing.append("its limits were raised, which no scenario plays")
        notes.extend(f"`{child.called}`: {note}" for note in missing)
        return said

    said = {child[:3]: said_by(child) for child in run.children}
    return by_state(program.machine, said), notes


def program_of(program: Program, state: str) -> Program:
    """The program of a state's children."""
    definition = program.children[state]
    return Program(definition.machine, definition.digest)


def _refuse_repaired(state: RunState) -> None:
    if state.repairs:
        raise NotRecordable(
            f"run `{state.run}` was repaired, and no case plays a child by a definition of its own"
        )


def _agents(attempts: Iterable[Attempt]) -> dict[str, Any]:
    """The attempts of each agent: a list where it is asked at one place, else by place."""
    parts: dict[str, dict[str, list[Any]]] = {}
    for attempt in attempts:
        played = [plain_call(call) for call in attempt.calls]
        places = parts.setdefault(attempt.agent, {})
        places.setdefault(attempt.place, []).append(played[0] if len(played) == 1 else played)
    return {
        agent: next(iter(places.values())) if len(places) == 1 else places
        for agent, places in parts.items()
    }


def _used(tape: Tape) -> Iterable[tuple[str, list[dict[str, Any]]]]:
    return ((name, runs) for name, runs in tape.commands.items() if runs)
