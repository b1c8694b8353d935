"""A run → the case that plays it, with everything that it expects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopkit.engine.state import RunState
from loopkit.language.datatypes import DataType, conform, parse_record
from loopkit.machine.program import Program
from loopkit.outside.redaction import Redact, redact_data
from loopkit.testing.expecting import expectations_of
from loopkit.testing.family import FamilyRun
from loopkit.testing.recording.family_parts import NotRecordable, family_parts
from loopkit.testing.recording.tape import read_tape
from loopkit.testing.trace import trace

ROUTE = ("outcome", "reason", "path", "verdicts", "revisions", "events")
"""The expectations of a repaired run: its route, not what an earlier definition said."""


def make_case(
    program: Program, run: FamilyRun, redact: Redact, *, stops_again: bool = True
) -> tuple[dict[str, Any], list[str]]:
    """The case of a run, and notes on what it can't play; raises NotRecordable.

    It has no secret that `redact` knows. The case of a repaired run expects its route, and
    `stops_again` says whether it is suspended where it was repaired.
    """
    state = run.state
    refuse_unrecordable(state)
    tape, (parts, notes) = read_tape(program, run.events), family_parts(program, run)
    resumes = [r for n, r in enumerate(tape.resumes) if stops_again or n not in tape.mended]
    expectations = expectations_of(trace(program.machine, run), program.machine)
    if state.repairs:
        expectations = {key: expectations[key] for key in ROUTE if key in expectations}
    case = {
        "input": _input(state.input, parse_record(program.machine.input)),
        "limits": _limits(tape.limits),
        "resumes": [{"limits": _limits(r["limits"])} if r else {} for r in resumes],
        **parts,
        "expect": expectations,
    }
    kept = {key: value for key, value in case.items() if value}
    return redact_data(kept, redact), list(dict.fromkeys(notes))


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
    """The input without the defaults that the machine fills in."""
    kept = dict(given)
    for name in given:
        filled, faults = conform({k: v for k, v in kept.items() if k != name}, datatype)
        if not faults and filled == dict(given):
            del kept[name]
    return kept


def _limits(limits: Mapping[str, Any]) -> dict[str, Any]:
    return {n: f"{limit:g}s" if n == "time" else limit for n, limit in limits.items()}


__all__ = ["NotRecordable", "make_case", "refuse_unrecordable"]
