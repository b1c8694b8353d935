"""A run → the case that plays it, with everything that it expects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from loopkit.drive.active import Stored
from loopkit.engine.changes import fold
from loopkit.engine.state import RunState
from loopkit.language.datatypes import DataType, conform, parse_record
from loopkit.machine.program import Program
from loopkit.outside.redaction import Redact, redacted
from loopkit.testing.family import FamilyRun
from loopkit.testing.recording.calls import plain_call
from loopkit.testing.recording.expecting import expected
from loopkit.testing.recording.tape import Attempt, Tape, read_tape
from loopkit.testing.trace import trace

WAY = ("outcome", "reason", "path", "verdicts", "revisions", "events")
"""What is expected of a repaired run: where it went, and not what the definition before said."""


class NotRecordable(Exception):
    """A run that no case can play; the message says why and what to do."""


def make_case(
    program: Program, events: Sequence[Stored], redact: Redact, *, stops_again: bool = True
) -> tuple[dict[str, Any], list[str]]:
    """The case of a run, and what of the run it can't play; raises NotRecordable.

    No secret that `redact` knows is in it. The case of a repaired run expects where it went, and
    `stops_again` says whether it is suspended where it was repaired.
    """
    state = fold(stored.event for stored in events)
    refuse_unrecordable(state)
    tape = read_tape(program, events)
    resumes = [r for n, r in enumerate(tape.resumes) if stops_again or n not in tape.mended]
    expectations = expected(
        trace(program.machine, FamilyRun(state, tuple(events))), program.machine
    )
    if state.repairs:
        expectations = {key: expectations[key] for key in WAY if key in expectations}
    case = {
        "input": _input(state.input, parse_record(program.machine.input)),
        "limits": _limits(tape.limits),
        "resumes": [{"limits": _limits(r["limits"])} if r else {} for r in resumes],
        "agents": _agents(tape.attempts.values()),
        "commands": {name: [r or {"exit_code": 0} for r in runs] for name, runs in _used(tape)},
        "answers": dict(tape.answers),
        "expect": expectations,
    }
    kept = {key: value for key, value in case.items() if value}
    return redacted(kept, redact), list(dict.fromkeys(tape.notes))


def refuse_unrecordable(state: RunState) -> None:
    """Raise NotRecordable where a run is not at an end that a case can come to."""
    go_on = f"continue it with `loopkit resume {state.run}`, and then record it"
    if state.status == "cancelled":
        raise NotRecordable(f"run `{state.run}` was cancelled, which no case plays")
    if state.status == "suspended" and state.suspended is not None:
        if state.suspended.reason == "interrupted":
            raise NotRecordable(f"run `{state.run}` was interrupted; {go_on}")
    elif state.status not in ("finished", "waiting"):
        raise NotRecordable(f"run `{state.run}` is {state.status}; {go_on}")


def _input(given: Mapping[str, Any], datatype: DataType) -> dict[str, Any]:
    """The input without what the machine would fill in itself."""
    kept = dict(given)
    for name in given:
        filled, faults = conform({k: v for k, v in kept.items() if k != name}, datatype)
        if not faults and filled == dict(given):
            del kept[name]
    return kept


def _limits(limits: Mapping[str, Any]) -> dict[str, Any]:
    return {n: f"{limit:g}s" if n == "time" else limit for n, limit in limits.items()}


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
