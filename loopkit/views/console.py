"""A run as lines on a console: the text of each event, live and afterwards."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from loopkit.drive.active import Stored
from loopkit.engine.events import (
    Alerted,
    Baselined,
    ChildEnded,
    Decided,
    Emitted,
    Failed,
    Finished,
    Held,
    InDoubt,
    Intended,
    Kept,
    Merged,
    Refused,
    Repaired,
    Replied,
    Resumed,
    Settled,
    Started,
    Suspended,
    Usage,
    Waiting,
    Worked,
)
from loopkit.engine.findings import Finding, Report
from loopkit.text import one_line, or_empty, plural
from loopkit.text.run_ids import KEY_WIDTH
from loopkit.validators.judges.prompt import reask_reason
from loopkit.views.amounts import took, until
from loopkit.views.history import found_by, origins_of, weight
from loopkit.views.progress import MODEL_WIDTH, WHOLE, Progress

NAME_WIDTH = 14
MAX_LISTED = 10
MAX_CHANGES = 30
MOST_ARGUMENTS = 60
"""Characters that are shown of what a tool is called with, and of what it gave."""
TRIES = r"(?! \(\d+ tries\))"
"""Not before a number of tries, which says nothing without what failed."""
MESSAGE_WIDTH = 200

Tone = Literal["plain", "good", "bad", "odd", "faint"]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of progress, with the one word in it that may stand out."""

    before: str
    word: str = ""
    after: str = ""
    tone: Tone = "plain"

    @property
    def text(self) -> str:
        return f"{self.before}{self.word}{self.after}".rstrip()


DOUBTED = {"retry": "it is made again", "ask": "a person decides", "fail": "it counts as failed"}
"""What becomes of a call in doubt."""

VERDICT_TONES: dict[str, Tone] = {"pass": "good", "warn": "odd", "fail": "bad"}


def lines(before: Progress, stored: Stored) -> Iterator[Line]:
    """What a person is told about an event, given the progress before it; nothing for some."""
    said = LINES.get(stored.event.type)
    return said(stored.event, before, stored.at) if said else iter(())


def _started(event: Started, *_: object) -> Iterator[Line]:
    yield Line(f"run {event.run}")


def _baselined(event: Baselined, *_: object) -> Iterator[Line]:
    known = f"{plural(len(event.findings), 'finding')} that will not block"
    told = known if event.findings else "nothing"
    yield _row(event.state, f"before the first work, `{event.validator}` finds {told}")


def _intended(event: Intended, before: Progress, _: float) -> Iterator[Line]:
    if event.role == "run":
        yield _row(event.state, f"runs: {one_line(event.prompt, 80)}")
        return
    if event.role == "tool":
        yield _row(event.state, f"calls `{event.agent}`: {one_line(event.prompt, MOST_ARGUMENTS)}")
        return
    model = f" ({one_line(event.model, MODEL_WIDTH)})" if event.model else ""
    task = f" to judge ({event.asked_at})" if event.role == "judge" else ""
    which = f", fallback {event.fallback}" if event.fallback else ""
    again = _again(event, before) if event.task in before.asked else ""
    yield _row(event.state, f"asks `{event.agent}`{which}{model}{task}{again}")


def _again(event: Intended, before: Progress) -> str:
    """Why somebody is asked once more who has answered: a judge, or an agent with tools."""
    if event.role == "judge":
        reason = reask_reason(event.prompt)
        return f" again: {one_line(reason, MESSAGE_WIDTH)}" if reason else ""
    if event.task in before.pending or before.answered is None:
        # The same is asked once more, after a failure or a resume.
        return ""
    return " again" if event.goes_on else f" again: {one_line(event.prompt, MOST_ARGUMENTS)}"


def _held(event: Held, before: Progress, at: float) -> Iterator[Line]:
    known = before.pending.get(event.task)
    if known is not None and known.provider == event.provider:
        # The same wait, prolonged: the status line goes on counting.
        return
    reason = f": {one_line(event.reason, MESSAGE_WIDTH)}" if event.reason else ""
    if event.instead:
        told = f" waiting for {one_line(event.provider, MODEL_WIDTH)}{reason}"
        yield _row(event.state, told, word="not", tone="odd")
        return
    told = f" for {one_line(event.provider, MODEL_WIDTH)}{reason} · again {until(event.until - at)}"
    yield _row(event.state, told, word="waits", tone="odd")


def _replied(event: Replied, before: Progress, _: float) -> Iterator[Line]:
    """A judge's answer; that of an author or a command is told with what it brought."""
    call, cost = before.call(event.key), took(event.usage)
    if call is not None and call.role == "judge" and cost:
        yield _row("", f"`{call.agent}` answered ({call.asked_at}){cost}")
    elif call is not None and call.role == "tool":
        word, tone = _given(event)
        yield _row("", cost, word=word, tone=tone)


def _given(event: Replied) -> tuple[str, Tone]:
    """What a tool gave, in a few words."""
    if event.found_clean is not None:
        found = _diagnostics(event.text)
        if not event.found_clean:
            return plural(found, "finding"), "odd"
        return "valid" + (f", {plural(found, 'warning')}" if found else ""), "good"
    if event.exit_code is not None:
        return f"exit {event.exit_code}", "plain"
    is_error = event.text.startswith("Error: ")
    return one_line(event.text, MOST_ARGUMENTS), "odd" if is_error else "plain"


def _diagnostics(text: str) -> int:
    """How many there are in what a tool said of a draft."""
    told: dict[str, Any] = {}
    # A text that is too long is stored without its middle.
    with suppress(ValueError):
        told = json.loads(text)
    return len(told.get("diagnostics", ())) + int(told.get("left_out", 0))


def _failed(event: Failed, before: Progress, at: float) -> Iterator[Line]:
    call = before.call(event.key)
    who = f"`{call.agent}` " if call is not None and call.role in ("judge", "tool") else ""
    who += f"({call.asked_at}) " if call is not None and call.role == "judge" else ""
    again = "" if event.retry_at is None else f" · again {until(event.retry_at - at)}"
    tone: Tone = "bad" if event.retry_at is None else "odd"
    told = f" ({event.error_class}): {one_line(event.message, MESSAGE_WIDTH)}"
    yield _row("", f"{told}{took(event.usage)}{again}", who=who, word="failed", tone=tone)


def _in_doubt(event: InDoubt, *_: object) -> Iterator[Line]:
    yield _row("", f"a call is in doubt, because its process died: {DOUBTED[event.policy]}")


def _settled(event: Settled, *_: object) -> Iterator[Line]:
    yield _row("", f"the call in doubt: {DOUBTED[event.choice]}")


def _alerted(event: Alerted, *_: object) -> Iterator[Line]:
    of = f"{event.corrections} of {plural(event.works, 'work')}"
    limit = f"{event.threshold:.0%} are the limit"
    told = f" {event.value:.0%} of the works are corrections ({of}); {limit}"
    yield _row("", told, word="alert:", tone="odd")


def _emitted(event: Emitted, *_: object) -> Iterator[Line]:
    number = f"version {event.artifact_version}, attempt {event.attempt}"
    about = [f"{event.artifact} {number}"] if event.artifact else []
    about += [f"phase {one_line(event.phase)}"] if event.phase else []
    about += [f"fallback: {one_line(event.fallback)}"] if event.fallback else []
    reason = [one_line(event.reason, MESSAGE_WIDTH)] if event.reason else []
    parts = [", ".join(about), *_counts(event.findings), *reason]
    yield _row("", " · ".join([f"event {event.name}", *filter(None, parts)]))


def _child_ended(event: ChildEnded, *_: object) -> Iterator[Line]:
    result = event.result
    tone: Tone = "good" if result["success"] else "bad"
    item = f"{one_line(event.key, KEY_WIDTH)}: " if event.key else ""
    calls = plural(event.usage.agent_calls, "call")
    told = f" ({'success' if result['success'] else 'failure'}) · {calls}{took(event.usage)}"
    yield _row(event.state, told, who=item, word=result["outcome"], tone=tone)


def _suspended(event: Suspended, before: Progress, at: float) -> Iterator[Line]:
    if event.reason == "waiting":
        yield _row(event.state, one_line(event.message, WHOLE))
        return
    why = _unsaid(before, event.message)
    told = f" ({event.reason})" + (f": {why}" if why else "")
    if event.resume_at is not None:
        told += f" · can be resumed {until(event.resume_at - at)}"
    yield _row(event.state, told, word="suspended", tone="odd")


def _repaired(event: Repaired, *_: object) -> Iterator[Line]:
    yield Line(f"continues with a changed machine ({plural(len(event.changes), 'change')}):")
    for change in event.changes[:MAX_CHANGES]:
        before, after = change.before or "nothing", change.after or "nothing"
        yield Line(f"  {change.place}: {before} → {after}")
    if (more := len(event.changes) - MAX_CHANGES) > 0:
        yield Line(f"  and {more} more; `loopkit runs logs --jsonl` has all of them")
    for name in event.limits:
        yield Line(f"  limits.{name}: the machine's own limit applies again")


def _resumed(event: Resumed, *_: object) -> Iterator[Line]:
    raised = ", ".join(f"{name} = {value}" for name, value in event.limits.items())
    yield Line("resumed" + (f" with {raised}" if raised else ""))


def _refused(event: Refused, *_: object) -> Iterator[Line]:
    yield Line("an answer was refused: " + one_line(event.reason))


def _waiting(event: Waiting, *_: object) -> Iterator[Line]:
    if (wanted := event.wanted) is not None:
        yield _row("", f"waits for `{wanted.artifact}` from outside, attempt {wanted.attempt}")
        return
    yield _row(event.state, f"waits for a person: {one_line(or_empty(event.text))}")


def _finished(event: Finished, *_: object) -> Iterator[Line]:
    tone: Tone = "good" if event.success else "bad"
    yield Line("", event.outcome, f" ({'success' if event.success else 'failure'})", tone)
    yield from (Line(f"its work is left in {one_line(place, WHOLE)}") for place in event.left)


def _merged(event: Merged, *_: object) -> Iterator[Line]:
    yield _row("", f" {plural(len(event.files), 'file')} into the workspace", word="merged")


def _cancelled(*_: object) -> Iterator[Line]:
    yield Line("cancelled")


def _worked(event: Worked, before: Progress, _: float) -> Iterator[Line]:
    if event.report is not None:
        yield from _report(before, event.report, took(Usage(time_s=event.time_s)))
    elif event.outcome not in ("done", "content"):
        # Why there is nothing, unless the failed calls have said it.
        if why := _unsaid(before, event.error):
            yield _row(event.state, f": {why}", word=event.outcome, tone="bad")
    elif event.answer is not None:
        said = f": {one_line(event.answer.comment)}" if event.answer.comment else ""
        yield _row(event.state, f"{event.answer.choice} (by {event.answer.by}){said}")
    elif event.artifact is not None:
        cost = took(before.answered) if before.answered else ""
        yield _row(event.state, f"{_artifact(before, event)}{cost}")


def _kept(event: Kept, *_: object) -> Iterator[Line]:
    yield _row(event.state, ": what it is made from is as it was", word="kept")


def _artifact(before: Progress, event: Worked) -> str:
    artifact = event.artifact
    if artifact is None:
        return ""
    size = plural(len(artifact.text), "character") if artifact.text.strip() else "empty"
    if artifact.tree:
        size = f"{plural(len(artifact.fields['files']), 'file')} changed"
    if artifact.fault:
        size = _unsaid(before, artifact.fault) or "nothing"
    if "exit_code" in event.facts:
        size = f"exit {event.facts['exit_code']}, {size}"
    return f"{artifact.name}, attempt {artifact.attempt}: {size}"


def _counts(findings: Sequence[Finding]) -> list[str]:
    """How many there are that block, and others."""
    blocking = sum(finding.blocking for finding in findings)
    counts = [plural(blocking, "finding")] if blocking else []
    return counts + (
        [plural(len(findings) - blocking, "warning")] if blocking < len(findings) else []
    )


def _report(before: Progress, report: Report, cost: str) -> Iterator[Line]:
    counts = _counts(report.findings)
    counts += ["no progress"] if report.stalled else []
    counts += [why] if (why := _unsaid(before, report.reason)) else []
    told = "".join(f" · {count}" for count in counts) + cost
    tone = VERDICT_TONES.get(report.verdict, "odd")
    yield _row(report.state, told, word=report.verdict, tone=tone)
    yield from (_row("", _finding(finding)) for finding in report.findings[:MAX_LISTED])
    if (more := len(report.findings) - MAX_LISTED) > 0:
        yield _row("", f"- and {more} more")


def _finding(finding: Finding) -> str:
    mark = "" if finding.status == "new" else f" ({finding.status})"
    whose = f"{found_by(finding)}{origins_of(finding)}"
    return f"- {weight(finding)}{one_line(finding.message)}{whose}{mark}"


def _decided(event: Decided, *_: object) -> Iterator[Line]:
    told = ""
    if (revision := event.revision) is not None:
        told = f"   revision {revision.revision} of {revision.max_revisions}"
    if event.best is not None:
        told += f", from attempt {event.best.attempt} of {event.best.author}, the best"
    yield _row("", "", word=f"→ {event.target}{told}", tone="faint")


def _unsaid(before: Progress, message: str) -> str:
    """What a message adds to the failures that were told in this state."""
    line = one_line(message, WHOLE)
    for fault in filter(None, before.faults):
        line = re.sub(rf"(fallback `[^`]*`: )?(?<!\w){re.escape(fault)}(?!\w){TRIES}", "", line)
    return one_line(re.sub(r";(?= *;)", "", line).strip(" :;"), MESSAGE_WIDTH)


def _row(name: str, text: str, *, who: str = "", word: str = "", tone: Tone = "plain") -> Line:
    return Line(f"  {name:<{NAME_WIDTH}} {who}", word, text, tone)


LINES: dict[str, Callable[[Any, Progress, float], Iterator[Line]]] = {
    "started": _started,
    "baselined": _baselined,
    "held": _held,
    "intended": _intended,
    "replied": _replied,
    "failed": _failed,
    "in_doubt": _in_doubt,
    "settled": _settled,
    "child_ended": _child_ended,
    "worked": _worked,
    "kept": _kept,
    "decided": _decided,
    "alerted": _alerted,
    "emitted": _emitted,
    "suspended": _suspended,
    "repaired": _repaired,
    "resumed": _resumed,
    "refused": _refused,
    "waiting": _waiting,
    "merged": _merged,
    "finished": _finished,
    "cancelled": _cancelled,
}
