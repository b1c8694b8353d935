"""New values for unmet expectations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from loopkit.document.document import DocPath
from loopkit.engine.findings import Finding
from loopkit.scenario import GAP, Expect, ExpectedArtifact, ExpectedFinding
from loopkit.testing.expectations import judged_children, own_misses
from loopkit.testing.expectations.matching import (
    as_text,
    is_expected,
    matching_feedback,
    matching_prompts,
    matching_reports,
)
from loopkit.testing.recording.expecting import upwards
from loopkit.testing.sequences import align
from loopkit.testing.trace import Asked, FeedbackGiven, Trace

GUARDED = frozenset({"outcome", "reason", "path"})
"""Expectations rewritten only in a case that is named."""
ALIKE = 0.6
"""The similarity, from 0 to 1, that a text needs to replace an expected one."""

Change = tuple[DocPath, Any]
"""The place below `expect:`, and the new value there."""


def changes(run: Trace, expect: Expect) -> Iterator[Change]:
    """The changes that would make unmet expectations come true, where there are any.

    An expectation of several children is changed only if they all do the same instead.
    """
    for at in dict.fromkeys(_places(run, expect)):
        yield from _changes_at(at, run, expect)
    by_place: dict[DocPath, list[list[Change]]] = {}
    for child, one in judged_children(run, expect):
        by_place.setdefault(one.at, []).append(list(changes(child.trace, one.said)))
    for place, (first, *others) in by_place.items():
        for at, value in first:
            if all((at, value) in other for other in others):
                yield (*place, *at), value


def is_guarded(at: DocPath, expect: Expect) -> bool:
    """Whether an expectation is rewritten only in a case that is named."""
    for child in expect.in_children:
        if at[: len(child.at)] == child.at:
            return is_guarded(at[len(child.at) :], child.said)
    return at[0] in GUARDED


def _places(run: Trace, expect: Expect) -> Iterator[DocPath]:
    for miss in own_misses(run, expect):
        # Lists of names are rewritten as a whole, wherever they differ.
        whole = {"path": 1, "kept": 1, "events": 1, "verdicts": 2}.get(str(miss.at[0]))
        yield miss.at[:whole]


def _changes_at(at: DocPath, run: Trace, expect: Expect) -> Iterator[Change]:
    """The changes that would make one expectation come true."""
    match at:
        case ("says", int() as index):
            yield from _piece(at, expect.says[index], run.closing_words)
        case ("findings", int() as index, *_):
            yield from _findings(run, (expect.findings or ())[index], at)
        case ("feedback", int() as index, "contains", int() as piece):
            feedback = (expect.feedback or ())[index]
            yield from _lacking(at, feedback.contains[piece], matching_feedback(run, feedback))
        case ("prompts", int() as index, "contains", int() as piece):
            prompt = (expect.prompts or ())[index]
            yield from _lacking(at, prompt.contains[piece], matching_prompts(run, prompt))
        case ("artifacts", str() as name, *part):
            yield from _artifact(run, (expect.artifacts or {})[name], at, part)
        case _ if (value := _whole(at, run, expect)) is not None:
            yield at, value


def _whole(at: DocPath, run: Trace, expect: Expect) -> object:
    """The new value of an expectation that is rewritten as a whole; None where there is none."""
    match at:
        case ("outcome",):
            return run.outcome
        case ("reason",) if run.state.suspended and run.state.suspended.reason != "interrupted":
            return run.state.suspended.reason
        case ("path" | "kept" | "events" as key,):
            taken = {"path": run.path, "kept": run.kept, "events": run.emitted}[key]
            return _with_gaps(getattr(expect, key) or (), taken)
        case ("verdicts", str() as state):
            given = [judged.report.verdict for judged in run.judged if judged.state == state]
            return _with_gaps((expect.verdicts or {})[state], given) if given else None
        case ("revisions", str() as name):
            return run.revisions[name]
        case ("calls" | "calls_at_most", str() as agent):
            return run.calls[agent]
        case ("cost_usd_at_most",) if run.cost_usd is not None:
            return upwards(run.cost_usd)
    return None


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


def _findings(run: Trace, wanted: ExpectedFinding, at: DocPath) -> Iterator[Change]:
    reports = matching_reports(run, wanted)
    found = [finding for judged in reports for finding in judged.report.findings]
    same = sum(_is_like(finding, wanted, exactly=True) for finding in found)
    alike = [finding for finding in found if _is_like(finding, wanted, exactly=False)]
    if alike and not same and wanted.count != 0:
        best = max(alike, key=lambda finding: _ratio(wanted.message, finding.message))
        changed = dict(_finding(wanted, best))
        yield from (((*at, key), value) for key, value in changed.items())
        wanted = wanted.model_copy(update=changed)
        same = sum(_is_like(finding, wanted, exactly=True) for finding in found)
    if reports and wanted.count not in (None, same):
        yield (*at, "count"), same


def _is_like(finding: Finding, wanted: ExpectedFinding, *, exactly: bool) -> bool:
    same = is_expected(finding, wanted) if exactly else is_expected(finding, wanted, ("code",))
    message = (wanted.message or "").rstrip("\n")
    is_there = message in finding.message
    return same and (is_there or (not exactly and _nearest(message, finding.message) is not None))


def _finding(wanted: ExpectedFinding, finding: Finding) -> Iterator[tuple[str, Any]]:
    """The keys and values with which the expectation would mean this finding."""
    for key in ("severity", "status"):
        if getattr(wanted, key) not in (None, getattr(finding, key)):
            yield key, getattr(finding, key)
    if wanted.message is not None and wanted.message.rstrip("\n") not in finding.message:
        yield "message", _nearest(wanted.message, finding.message)


def _lacking(
    at: DocPath, expected: str, found: Sequence[FeedbackGiven | Asked]
) -> Iterator[Change]:
    """The replacement from the first text that lacks the expected piece."""
    lacking = (one.text for one in found if expected.rstrip("\n") not in one.text)
    yield from _piece(at, expected, next(lacking))


def _artifact(
    run: Trace, wanted: ExpectedArtifact, at: DocPath, part: Sequence[str | int]
) -> Iterator[Change]:
    value, is_there = run.version(str(at[1]))
    if not is_there:
        return
    match part:
        case ["equals"]:
            yield at, as_text(value)
        case ["data"]:
            yield at, value
        case ["contains", int() as index]:
            yield from _piece(at, wanted.contains[index], as_text(value))


def _piece(at: DocPath, expected: str, text: str) -> Iterator[Change]:
    if (nearest := _nearest(expected, text)) is not None:
        yield at, nearest


def _nearest(expected: str, text: str) -> str | None:
    """The piece of the text most similar to the expected one; None if none is similar enough."""
    if "\n" in expected.strip("\n"):
        return None
    size = len(expected.split())
    windows = {
        line[words[first].start() : words[first + count - 1].end()]
        for line in text.splitlines()
        for words in [list(re.finditer(r"\S+", line))]
        for count in range(max(1, size - 1), size + 2)
        for first in range(len(words) - count + 1)
    }
    best = max(sorted(windows), key=lambda window: _ratio(expected, window), default="")
    return best if _ratio(expected, best) >= ALIKE else None


def _ratio(expected: str | None, text: str) -> float:
    if expected is None:
        return 1.0
    return SequenceMatcher(None, expected.strip(), text, autojunk=False).ratio()
