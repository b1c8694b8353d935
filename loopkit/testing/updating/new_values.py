"""New values for the expectations that did not come true."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from loopkit.engine.findings import Finding
from loopkit.language.load import DocPath
from loopkit.scenario import GAP, Expect, ExpectedFeedback, ExpectedFinding, ExpectedPrompt
from loopkit.testing.expectations import judged_children, own_misses
from loopkit.testing.expectations.matching import (
    as_text,
    is_expected,
    matching_feedback,
    matching_prompts,
    matching_reports,
)
from loopkit.testing.recording.expecting import upwards
from loopkit.testing.sequences import lined_up
from loopkit.testing.trace import Trace

GUARDED = frozenset({"outcome", "reason", "path"})
"""Expectations rewritten only in a case that is named."""
ALIKE = 0.6
"""From 0 to 1: how much a text has to be like what was expected to take its place."""

Change = tuple[DocPath, Any]
"""The place below `expect:`, and the value that would come true there."""


def changes(run: Trace, expect: Expect) -> Iterator[Change]:
    """What would make the expectations come true that did not, where something would.

    What several children are expected to do is changed where they all do the same instead.
    """
    for at in dict.fromkeys(_places(run, expect)):
        yield from CHANGES[str(at[0])](run, expect, at)
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
        # Lists of names are rewritten as a whole, wherever both part.
        whole = {"path": 1, "kept": 1, "events": 1, "verdicts": 2}.get(str(miss.at[0]))
        yield miss.at[:whole]


def _outcome(run: Trace, _: Expect, at: DocPath) -> Iterator[Change]:
    yield at, run.outcome


def _reason(run: Trace, _: Expect, at: DocPath) -> Iterator[Change]:
    suspended = run.state.suspended
    if suspended is not None and suspended.reason != "interrupted":
        yield at, suspended.reason


def _says(run: Trace, expect: Expect, at: DocPath) -> Iterator[Change]:
    yield from _piece(at, expect.says[int(at[1])], run.closing_words)


def _path(run: Trace, expect: Expect, at: DocPath) -> Iterator[Change]:
    yield at, _with_gaps(expect.path or (), run.path)


def _kept(run: Trace, expect: Expect, at: DocPath) -> Iterator[Change]:
    yield at, _with_gaps(expect.kept or (), run.kept)


def _events(run: Trace, expect: Expect, at: DocPath) -> Iterator[Change]:
    yield at, _with_gaps(expect.events or (), run.emitted)


def _verdicts(run: Trace, expect: Expect, at: DocPath) -> Iterator[Change]:
    state = str(at[1])
    given = [judged.report.verdict for judged in run.judged if judged.state == state]
    if given:
        yield at, _with_gaps((expect.verdicts or {})[state], given)


def _with_gaps(expected: Sequence[str], taken: Sequence[str]) -> list[str]:
    """What was taken, with the gaps that something was taken in; an end that is named stays one."""
    made: list[str] = []
    for row in lined_up(expected, taken):
        if row.sign == "…":
            made += [GAP] if made[-1:] != [GAP] else []
        elif row.sign != "-":
            made.append(row.name)
    if made[:1] == [GAP] != list(expected[:1]):
        made.insert(0, taken[0])
    if made[-1:] == [GAP] != list(expected[-1:]):
        made.append(taken[-1])
    return made


def _findings(run: Trace, expect: Expect, at: DocPath) -> Iterator[Change]:
    wanted = (expect.findings or ())[int(at[1])]
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
    """What has to be expected instead to mean this finding."""
    for key in ("severity", "status"):
        if getattr(wanted, key) not in (None, getattr(finding, key)):
            yield key, getattr(finding, key)
    if wanted.message is not None and wanted.message.rstrip("\n") not in finding.message:
        yield "message", _nearest(wanted.message, finding.message)


def _feedback(run: Trace, expect: Expect, at: DocPath) -> Iterator[Change]:
    wanted = (expect.feedback or ())[int(at[1])]
    yield from _contained(at, wanted, [told.text for told in matching_feedback(run, wanted)])


def _prompts(run: Trace, expect: Expect, at: DocPath) -> Iterator[Change]:
    wanted = (expect.prompts or ())[int(at[1])]
    yield from _contained(at, wanted, [asked.text for asked in matching_prompts(run, wanted)])


def _contained(
    at: DocPath, wanted: ExpectedFeedback | ExpectedPrompt, texts: Sequence[str]
) -> Iterator[Change]:
    if len(at) == 4 and at[2] == "contains":
        expected = wanted.contains[int(at[3])]
        lacking = [text for text in texts if expected.rstrip("\n") not in text]
        yield from _piece(at, expected, lacking[0])


def _artifacts(run: Trace, expect: Expect, at: DocPath) -> Iterator[Change]:
    value, is_there = run.version(str(at[1]))
    if not is_there or len(at) < 3:
        return
    text = as_text(value)
    wanted = (expect.artifacts or {})[str(at[1])]
    match at[2:]:
        case ("equals",):
            yield at, text
        case ("data",):
            yield at, value
        case ("contains", int() as index):
            yield from _piece(at, wanted.contains[index], text)


def _revisions(run: Trace, _: Expect, at: DocPath) -> Iterator[Change]:
    yield at, run.revisions[str(at[1])]


def _calls(run: Trace, _: Expect, at: DocPath) -> Iterator[Change]:
    yield at, run.calls[str(at[1])]


def _cost(run: Trace, _: Expect, at: DocPath) -> Iterator[Change]:
    if run.cost_usd is not None:
        yield at, upwards(run.cost_usd)


def _piece(at: DocPath, expected: str, text: str) -> Iterator[Change]:
    if (nearest := _nearest(expected, text)) is not None:
        yield at, nearest


def _nearest(expected: str, text: str) -> str | None:
    """The piece of the text that is most like what was expected, where one is like it enough."""
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


CHANGES: Mapping[str, Callable[[Trace, Expect, DocPath], Iterator[Change]]] = {
    "outcome": _outcome,
    "reason": _reason,
    "says": _says,
    "path": _path,
    "kept": _kept,
    "verdicts": _verdicts,
    "findings": _findings,
    "feedback": _feedback,
    "prompts": _prompts,
    "revisions": _revisions,
    "calls": _calls,
    "calls_at_most": _calls,
    "cost_usd_at_most": _cost,
    "events": _events,
    "artifacts": _artifacts,
}
