"""A run → the expectations that it meets, as a careful person would write them.

A recording expects all of them; a case that fails prints them in place of what is not met.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import ceil
from typing import Any

from loopkit.document.document import DocPath
from loopkit.language.machine import Machine
from loopkit.language.states.each import ChildrenState
from loopkit.scenario.cases import GAP, Expect
from loopkit.scenario.script import CHILDREN
from loopkit.testing.expectations import as_text
from loopkit.testing.playbill import by_state
from loopkit.testing.trace import ChildTrace, Trace, align
from loopkit.text import printable

OF_FAMILY = frozenset({"calls", "cost_usd_at_most"})
"""The expectations that the root has for all its children."""

PIECE_CHARS = 80
"""The most characters of an expected message: distinctive, but short enough to read."""


def expectations_of(run: Trace, machine: Machine) -> dict[str, Any]:
    """The content of `expect:`."""
    suspended = run.state.suspended if run.state.status == "suspended" else None
    verdicts: dict[str, list[str]] = {}
    for judged in run.judged:
        verdicts.setdefault(judged.state, []).append(judged.report.verdict)
    parts = {
        "outcome": run.outcome,
        "reason": suspended and suspended.reason,
        "path": list(run.path),
        "kept": list(run.kept),
        "verdicts": verdicts,
        "findings": list(_findings(run)),
        "feedback": list(_feedback(run)),
        "revisions": {name: n for name, n in run.revisions.items() if name in machine.states},
        "calls": dict(run.calls),
        # In millionths of a dollar, never less than it is.
        "cost_usd_at_most": ceil(round((run.cost_usd or 0.0) * 1e6, 3)) / 1e6,
        "events": list(run.emitted),
        CHILDREN: by_state(machine, {one[:3]: _of_child(one, machine) for one in run.children}),
    }
    return {key: value for key, value in parts.items() if value}


def with_what_was_done(
    written: Mapping[str, Any],
    expect: Expect,
    unmet: Collection[DocPath],
    run: Trace,
    machine: Machine,
) -> dict[str, Any]:
    """The content of `expect:` as it is written, but met by the run wherever it is `unmet`.

    Quoted pieces of texts stay as they are, because a person chooses what to quote.
    """
    done, new = expectations_of(run, machine), dict(written)
    for key in dict.fromkeys(str(at[0]) for at in unmet):
        match key:
            case "says" | "prompts":
                continue
            case "path" | "kept" | "events":
                new[key] = _with_gaps(getattr(expect, key), done.get(key, []))
            case "verdicts":
                given = done.get(key, {})
                new[key] = {state: _with_gaps(expected, given[state])
                            for state, expected in (expect.verdicts or {}).items()
                            if state in given}  # fmt: skip
            case "revisions" | "calls" | "calls_at_most":
                counts = run.revisions if key == "revisions" else run.calls
                new[key] = {name: counts[name] for name in written[key]}
            case "artifacts":
                new[key] = dict(_artifacts(written[key], unmet, run))
            case "children":
                missed = {at[1] for at in unmet if at[0] == key}
                given = done.get(key, {})
                new[key] = {state: given[state] if state in missed else said
                            for state, said in written[key].items()
                            if state in given or state not in missed}  # fmt: skip
            case _:
                new[key] = done.get(key)
    return {key: value for key, value in new.items() if value is not None and value != {}}


def _of_child(child: ChildTrace, machine: Machine) -> dict[str, Any]:
    expected = expectations_of(child.trace, machine.states_of(ChildrenState)[child.state].child)
    return {key: value for key, value in expected.items() if key not in OF_FAMILY}


def _with_gaps(expected: Sequence[str], taken: Sequence[str]) -> list[str]:
    """The names taken, with gaps where some were taken in one; a named end stays named."""
    names: list[str] = []
    for row in align(expected, taken):
        if row.sign == "…":
            names += [GAP] if names[-1:] != [GAP] else []
        elif row.sign != "-":
            names.append(row.name)
    if names[:1] == [GAP] != list(expected[:1]):
        names.insert(0, taken[0])
    if names[-1:] == [GAP] != list(expected[-1:]):
        names.append(taken[-1])
    return names


def _artifacts(
    written: Mapping[str, Any], unmet: Collection[DocPath], run: Trace
) -> Iterator[tuple[str, Any]]:
    for name, expected in written.items():
        value, is_there = run.version(name)
        wrong = {key for key in ("equals", "data") if ("artifacts", name, key) in unmet}
        done = {"equals": as_text(value), "data": value}
        if is_there:
            yield name, {**expected, **{key: done[key] for key in wrong}}


def _findings(run: Trace) -> Iterator[dict[str, Any]]:
    is_told_apart = len({judged.state for judged in run.judged}) > 1
    for judged in run.judged:
        where = {"state": judged.state} if is_told_apart else {}
        # A first value is no attempt.
        at = {"attempt": judged.attempt} if judged.attempt else {}
        for finding in judged.report.findings:
            named = {"validator": finding.validator, "message": piece(finding.message)}
            status = {} if finding.status == "new" else {"status": finding.status}
            yield {**where, **at, **named, **status}


def _feedback(run: Trace) -> Iterator[dict[str, Any]]:
    """The feedback, by the messages that it repeats from the reports before it."""
    for feedback in run.feedback:
        before = [judged for judged in run.judged if judged.attempt < feedback.attempt][-2:]
        pieces = (piece(finding.message) for one in before for finding in one.report.findings)
        repeated = dict.fromkeys(short for short in pieces if short and short in feedback.text)
        contains = [*repeated] or [piece(feedback.text)]
        if any(contains):
            yield {"to": feedback.to, "attempt": feedback.attempt, "contains": contains}


def piece(text: str) -> str:
    """The beginning of a text, at most its first line that is not blank."""
    first = next((line.strip() for line in printable(text).splitlines() if line.strip()), "")
    return first if len(first) <= PIECE_CHARS else first[:PIECE_CHARS].rsplit(" ", 1)[0]
