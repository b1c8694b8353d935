"""A run on a console: the text of each event, and where it stands now."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from loopkit.drive.stored_runs import Stored
from loopkit.engine.events import (
    ENDS,
    Alerted,
    Baselined,
    ChildEnded,
    ChildStarted,
    Decided,
    Emitted,
    Failed,
    Finished,
    Held,
    Intended,
    Repaired,
    Replied,
    Resumed,
    Suspended,
    Waiting,
    Worked,
)
from loopkit.engine.findings import Finding, Report
from loopkit.engine.payloads import Artifact
from loopkit.engine.records import Usage
from loopkit.text import one_line, or_empty, plural
from loopkit.text.run_ids import KEY_WIDTH, place_of
from loopkit.validators.judges.prompt import reask_reason
from loopkit.views.amounts import duration, money, until, usage_suffix
from loopkit.views.review import conflicts_of, origins_of, reviewers_of, weight
from loopkit.views.steps import WHOLE, LineTone, Note, Pending, Step, Steps

SEPARATOR = " · "
MODEL_WIDTH = 40
COMMAND_WIDTH = 30
NAME_WIDTH = 14
MAX_LISTED = 10
MAX_CHANGES = 30
MOST_ARGUMENTS = 60
"""The characters that are shown of the arguments of a tool, and of its result."""
NOT_BEFORE_TRIES = r"(?! \(\d+ tries\))"
"""No number of tries may follow, which needs the failure before it."""
MESSAGE_WIDTH = 200
RULE = re.compile(r"([=_*~#-])\1{9,}")
"""A rule that a program draws in its output: on one line it leaves no room for what it says."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of progress, with the one word in it that may be highlighted."""

    before: str
    word: str = ""
    after: str = ""
    tone: LineTone = "plain"

    @property
    def text(self) -> str:
        return f"{self.before}{self.word}{self.after}".rstrip()


DOUBT_OUTCOMES = {
    "retry": "it is made again",
    "ask": "a person decides",
    "fail": "it counts as failed",
}
"""By policy or choice: what happens to a call in doubt."""
VERDICT_TONES: dict[str, LineTone] = {"pass": "good", "warn": "odd", "fail": "bad"}
OF_SUCCESS: dict[bool, tuple[str, LineTone]] = {
    True: ("success", "good"),
    False: ("failure", "bad"),
}


def lines(before: Steps, stored: Stored) -> Iterator[Line]:
    """The lines about an event, given the steps before it; some events have none."""
    if lines_for := LINES.get(stored.event.type):
        yield from lines_for(stored.event, before.step, stored.at)


NOTED = frozenset(
    ("baselined", "held", "in_doubt", "settled", "kept", "alerted", "emitted", "suspended",
     "repaired", "reread", "resumed", "refused", "merged", "cancelled")
)  # fmt: skip
NOTE_WIDTH = 400


def noted(before: Steps, stored: Stored) -> Iterator[Note]:
    """What a page shows of an event beside the calls and the work of its step."""
    if stored.event.type in NOTED:
        name = before.step.state
        for line in lines(before, stored):
            text = one_line(line.text, NOTE_WIDTH).removeprefix(f"{name} ").lstrip(": ")
            yield Note(stored.at, text, line.tone)


def _lines_for_baselined(event: Baselined, *_: object) -> Iterator[Line]:
    known = f"{plural(len(event.findings), 'finding')} that will not block"
    found = known if event.findings else "nothing"
    yield _row(event.state, f"before the first work, `{event.validator}` finds {found}")


def _lines_for_intended(event: Intended, before: Step, _: float) -> Iterator[Line]:
    if event.role == "run":
        yield _row(event.state, f"runs: {one_line(event.prompt, 80)}")
        return
    if event.role == "tool":
        yield _row(event.state, f"calls `{event.agent}`: {one_line(event.prompt, MOST_ARGUMENTS)}")
        return
    if event.instead_of:
        text = f" agent `{event.instead_of}`; `{event.agent}` is asked instead"
        yield _row(event.state, text, word="no", tone="odd")
    model = f" ({one_line(event.model, MODEL_WIDTH)})" if event.model else ""
    task = f" to judge ({event.asked_at})" if event.role == "judge" else ""
    which = f", fallback {event.fallback}" if event.fallback else ""
    again = _reask_suffix(event, before) if event.task in before.asked else ""
    yield _row(event.state, f"asks `{event.agent}`{which}{model}{task}{again}")


def _reask_suffix(event: Intended, before: Step) -> str:
    if event.role == "judge":
        reason = reask_reason(event.prompt)
        return f" again: {one_line(reason, MESSAGE_WIDTH)}" if reason else ""
    if event.task in before.pending or before.answered is None:
        # The same prompt is sent again, after a failure or a resume.
        return ""
    return " again" if event.goes_on else f" again: {one_line(event.prompt, MOST_ARGUMENTS)}"


def _lines_for_held(event: Held, before: Step, at: float) -> Iterator[Line]:
    known = before.pending.get(event.task)
    if known is not None and known.provider == event.provider:
        # The same wait is prolonged: the status line goes on counting.
        return
    reason = f": {one_line(event.reason, MESSAGE_WIDTH)}" if event.reason else ""
    whom = f"for {one_line(event.provider, MODEL_WIDTH)}{reason}"
    if event.instead:
        yield _row(event.state, f" waiting {whom}", word="not", tone="odd")
    else:
        text = f" {whom} · again {until(event.until - at)}"
        yield _row(event.state, text, word="waits", tone="odd")


def _lines_for_replied(event: Replied, before: Step, _: float) -> Iterator[Line]:
    """The answer of a judge or a tool; that of an author is printed with its artifact."""
    call = before.call(event.key)
    cost = usage_suffix(event.usage)
    role = call.intent.role if call is not None else ""
    if call is not None and role == "judge" and cost:
        yield _row("", f"`{call.intent.agent}` answered ({call.intent.asked_at}){cost}")
    if event.thoughts and event.raw:
        yield _row("", f"answered with {plural(len(event.thoughts), 'character', ',')} of thoughts")
    elif role == "tool":
        word, tone = _tool_result(event)
        yield _row("", cost, word=word, tone=tone)
    yield from _notes(event)


def _tool_result(event: Replied) -> tuple[str, LineTone]:
    if event.found_clean is not None:
        counts = _counts(event.findings)
        if not event.found_clean:
            return ", ".join(counts), "odd"
        return ", ".join(["valid", *counts]), "good"
    if event.exit_code is not None:
        return f"exit {event.exit_code}", "plain"
    tone: LineTone = "odd" if event.text.startswith("Error: ") else "plain"
    return one_line(event.text, MOST_ARGUMENTS), tone


def _lines_for_failed(event: Failed, before: Step, at: float) -> Iterator[Line]:
    call = before.call(event.key)
    role = call.intent.role if call is not None else ""
    who = f"`{call.intent.agent}` " if call is not None and role in ("judge", "tool") else ""
    who += f"({call.intent.asked_at}) " if call is not None and role == "judge" else ""
    again = "" if event.retry_at is None else f" · again {until(event.retry_at - at)}"
    again = " · the next call begins a fresh session" if event.begins_anew else again
    tone: LineTone = "odd" if again else "bad"
    text = f" ({event.error_class}): {one_line(event.message, MESSAGE_WIDTH)}"
    yield _row("", f"{text}{usage_suffix(event.usage)}{again}", who=who, word="failed", tone=tone)
    yield from _notes(event)


def _notes(event: Replied | Failed) -> Iterator[Line]:
    warnings = (event.prompt_cut, event.warning) if isinstance(event, Replied) else ()
    for warning in filter(None, warnings):
        yield _row("", f" {one_line(warning, WHOLE)}", word="warning:", tone="odd")
    if event.in_words:
        why = one_line(event.in_words, MESSAGE_WIDTH)
        yield _row("", f" {why}; from now on it is asked for in words", word="note:", tone="odd")


def _lines_for_alerted(event: Alerted, *_: object) -> Iterator[Line]:
    of = f"{event.corrections} of {plural(event.works, 'work')}"
    text = f" {event.value:.0%} of the works are corrections ({of}); {event.threshold:.0%} are"
    yield _row("", f"{text} the limit", word="alert:", tone="odd")


def _lines_for_emitted(event: Emitted, *_: object) -> Iterator[Line]:
    number = f"version {event.artifact_version}, attempt {event.attempt}"
    about = [f"{event.artifact} {number}"] if event.artifact else []
    about += [f"phase {one_line(event.phase)}"] if event.phase else []
    about += [f"fallback: {one_line(event.fallback)}"] if event.fallback else []
    reason = [one_line(event.reason, MESSAGE_WIDTH)] if event.reason else []
    parts = [", ".join(about), *_counts(event.findings), *reason]
    yield _row("", " · ".join([f"event {event.name}", *filter(None, parts)]))


def _lines_for_child_ended(event: ChildEnded, *_: object) -> Iterator[Line]:
    item = f"{one_line(event.key, KEY_WIDTH)}: " if event.key else ""
    kind, tone = OF_SUCCESS[event.result["success"]]
    calls = plural(event.usage.agent_calls, "call")
    text = f" ({kind}) · {calls}{usage_suffix(event.usage)}"
    yield _row(event.state, text, who=item, word=event.result["outcome"], tone=tone)
    yield from (_row("", f"- {one_line(told, WHOLE)}") for told in conflicts_of(event.result))


def _lines_for_suspended(event: Suspended, before: Step, at: float) -> Iterator[Line]:
    if event.reason == "waiting":
        yield _row(event.state, one_line(event.message, WHOLE))
        return
    why = _without_known_faults(before, event.message)
    text = f" ({event.reason})" + (f": {why}" if why else "")
    if event.resume_at is not None:
        text += f" · can be resumed {until(event.resume_at - at)}"
    yield _row(event.state, text, word="suspended", tone="odd")


def _lines_for_repaired(event: Repaired, *_: object) -> Iterator[Line]:
    yield Line(f"continues with a changed machine ({plural(len(event.changes), 'change')}):")
    for change in event.changes[:MAX_CHANGES]:
        before = change.before or "nothing"
        after = change.after or "nothing"
        yield Line(f"  {change.place}: {before} → {after}")
    if (more := len(event.changes) - MAX_CHANGES) > 0:
        yield Line(f"  and {more} more; `loopkit runs logs --jsonl` has all of them")
    for name in event.limits:
        yield Line(f"  limits.{name}: the machine's own limit applies again")


def _lines_for_resumed(event: Resumed, *_: object) -> Iterator[Line]:
    raised = ", ".join(f"{name} = {value}" for name, value in event.limits.items())
    yield Line("resumed" + (f" with {raised}" if raised else ""))


def _lines_for_waiting(event: Waiting, *_: object) -> Iterator[Line]:
    if (wanted := event.wanted) is not None:
        yield _row("", f"waits for `{wanted.artifact}` from outside, attempt {wanted.attempt}")
    else:
        yield _row(event.state, f"waits for a person: {one_line(or_empty(event.text))}")


def _lines_for_finished(event: Finished, *_: object) -> Iterator[Line]:
    kind, tone = OF_SUCCESS[event.success]
    although = f", although {event.although}" if event.although else ""
    yield Line("", event.outcome, f" ({kind}){although}", "odd" if although else tone)
    yield from (Line(f"its work is left in {one_line(place, WHOLE)}") for place in event.left)


def _lines_for_worked(event: Worked, before: Step, _: float) -> Iterator[Line]:
    if event.report is not None:
        yield from _report_lines(before, event.report, usage_suffix(Usage(time_s=event.time_s)))
    elif event.outcome != "done" and event.artifact is None:
        # The reason for the missing artifact, unless the failed calls have given it.
        if why := _without_known_faults(before, event.error):
            yield _row(event.state, f": {why}", word=event.outcome, tone="bad")
    elif event.answer is not None:
        comment = f": {one_line(event.answer.comment)}" if event.answer.comment else ""
        yield _row(event.state, f"{event.answer.choice} (by {event.answer.by}){comment}")
    elif event.artifact is not None:
        cost = usage_suffix(before.answered) if before.answered else ""
        yield _row(event.state, f"{_artifact_text(before, event.artifact, event.facts)}{cost}")


def _artifact_text(before: Step, artifact: Artifact, facts: Mapping[str, Any]) -> str:
    if artifact.fault:
        size = _without_known_faults(before, artifact.fault) or "nothing"
    elif artifact.tree:
        size = f"{plural(len(artifact.fields['files']), 'file')} changed"
    else:
        size = plural(artifact.size, "character", ",") if artifact.size else "empty"
    if artifact.mended:
        size += f" · mended: {', '.join(artifact.mended)}"
    if "exit_code" in facts:
        size = f"exit {facts['exit_code']}, {size}"
    return f"{artifact.name}, attempt {artifact.attempt}: {size}"


def _counts(findings: Sequence[Finding]) -> list[str]:
    blocking = sum(finding.blocking for finding in findings)
    counts = {"finding": blocking, "warning": len(findings) - blocking}
    return [plural(count, noun) for noun, count in counts.items() if count]


def _report_lines(before: Step, report: Report, cost: str) -> Iterator[Line]:
    stalled = "no progress" if report.stalled else ""
    counts = [*_counts(report.findings), stalled, _without_known_faults(before, report.reason)]
    text = "".join(f" · {count}" for count in filter(None, counts)) + cost
    tone = VERDICT_TONES.get(report.verdict, "odd")
    yield _row(report.state, text, word=report.verdict, tone=tone)
    for finding in report.findings[:MAX_LISTED]:
        mark = "" if finding.status == "new" else f" ({finding.status})"
        whose = f"{reviewers_of(finding)}{origins_of(finding)}"
        message = one_line(RULE.sub(" ", finding.message))
        yield _row("", f"- {weight(finding)}{message}{whose}{mark}")
    if (more := len(report.findings) - MAX_LISTED) > 0:
        yield _row("", f"- and {more} more")


def _lines_for_decided(event: Decided, *_: object) -> Iterator[Line]:
    back = event.revision
    reason = f"   revision {back.revision} of {back.max_revisions}" if back is not None else ""
    reason += f", from {event.best.version}, the best" if event.best is not None else ""
    yield _row("", "", word=f"→ {event.target}{reason}", tone="faint")


def _without_known_faults(before: Step, message: str) -> str:
    """A message without the failures that were already printed for this state."""
    line = one_line(message, WHOLE)
    for fault in filter(None, before.faults):
        line = re.sub(
            rf"(fallback `[^`]*`: )?(?<!\w){re.escape(fault)}(?!\w){NOT_BEFORE_TRIES}", "", line
        )
    return one_line(re.sub(r";(?= *;)", "", line).strip(" :;"), MESSAGE_WIDTH)


def _row(name: str, text: str, *, who: str = "", word: str = "", tone: LineTone = "plain") -> Line:
    return Line(f"  {name:<{NAME_WIDTH}} {who}", word, text, tone)


LINES: dict[str, Callable[[Any, Step, float], Iterable[Line]]] = {
    "started": lambda event, *_: [Line(f"run {event.run}")],
    "baselined": _lines_for_baselined,
    "held": _lines_for_held,
    "intended": _lines_for_intended,
    "acted": lambda event, *_: [
        _row("", one_line(f"- {event.name} {event.about}", MESSAGE_WIDTH), tone="faint")
    ],
    "replied": _lines_for_replied,
    "failed": _lines_for_failed,
    "in_doubt": lambda event, *_: [
        _row("", f"a call is in doubt, because {event.why}: {DOUBT_OUTCOMES[event.policy]}")
    ],
    "settled": lambda event, *_: [_row("", f"the call in doubt: {DOUBT_OUTCOMES[event.choice]}")],
    "child_ended": _lines_for_child_ended,
    "worked": _lines_for_worked,
    "kept": lambda event, *_: [
        _row(event.state, ": what it is made from is as it was", word="kept")
    ],
    "decided": _lines_for_decided,
    "alerted": _lines_for_alerted,
    "emitted": _lines_for_emitted,
    "suspended": _lines_for_suspended,
    "repaired": _lines_for_repaired,
    "reread": lambda event, *_: [
        _row("", f"reads `{event.artifact.name}` again, which has changed on the disk")
    ],
    "resumed": _lines_for_resumed,
    "refused": lambda event, *_: [Line("an answer was refused: " + one_line(event.reason))],
    "waiting": _lines_for_waiting,
    "merged": lambda event, *_: [
        _row("", f" {plural(len(event.files), 'file')} into the workspace", word="merged"),
        *(
            _row("", f" {path}: git ignores it in the workspace", word="not merged")
            for path in event.ignored
        ),
    ],
    "finished": _lines_for_finished,
    "cancelled": lambda *_: [Line("cancelled")],
}


def event_line(run: str, stored: Stored) -> str:
    """An event as one line of JSON: its place in the journal, then its fields."""
    place = {"run": run, "seq": stored.seq, "epoch": stored.epoch, "time": stored.at}
    head = {**place, "type": stored.event.type}
    return json.dumps({**head, **stored.event.plain()}, ensure_ascii=False)


def status(steps: Steps, now: float) -> str:
    """Where a run stands, the most important first: the end of a long line may be cut off."""
    return _status(steps, steps.step.state or "starts", [steps], now)


def _status(steps: Steps, name: str, runs: Iterable[Steps], now: float) -> str:
    step, back = steps.step, steps.step.revision
    models = {p.call.model for p in step.pending.values() if p.call}
    calls, cost = _spent(runs)
    parts = (
        name,
        _waits(steps, now),
        cost,
        f"revision {back.revision} of {back.max_revisions}" if back else "",
        f"attempt {step.attempt}" if step.attempt else "",
        calls,
        one_line(models.pop(), MODEL_WIDTH) if len(models) == 1 else "",
    )
    return SEPARATOR.join(filter(None, parts))


def _spent(runs: Iterable[Steps]) -> tuple[str, str]:
    """The calls and the cost of these runs together."""
    calls, usage = 0, Usage()
    for one in runs:
        calls, usage = calls + one.calls, usage.plus(one.usage)
    return plural(calls, "call") if calls else "", ", ".join(money(usage))


def _waits(steps: Steps, now: float) -> str:
    waits = list(steps.step.pending.values())
    if len(waits) == 1:
        [one] = waits
        lasting = _lasting(one.since, now)
        if one.until is not None:
            lasting = f"{',' if one.provider else ''} again {until(one.until - now)}"
        return f"{_wait_text(one)}{lasting}"
    if waits:
        oldest = _lasting(min(pending.since for pending in waits), now)
        places = ", ".join(_judge_place(pending, now) for pending in waits)
        return f"asks {len(waits)} judges{oldest}: {places}"
    if steps.step.waiting is not None:
        return "waits for a person"
    lasting = _lasting(steps.since, now)
    return f"works{lasting}" if lasting and steps.step.state else ""


def _wait_text(pending: Pending) -> str:
    call = pending.call
    if pending.provider or call is None:
        return f"waits for {one_line(pending.provider, MODEL_WIDTH)}"
    if call.role == "run":
        return f"runs {one_line(call.prompt, COMMAND_WIDTH)}"
    if call.role == "tool":
        return f"calls {call.agent}"
    if call.role == "outside":
        return f"waits for {call.agent}, from outside"
    which = f", fallback {call.fallback}" if call.fallback else ""
    task = f" to judge {call.asked_at}" if call.role == "judge" else ""
    return f"asks {call.agent}{which}{task}"


def _judge_place(pending: Pending, now: float) -> str:
    name = pending.call.asked_at if pending.call else one_line(pending.provider, MODEL_WIDTH)
    return name if pending.until is None else f"{name} (again {until(pending.until - now)})"


def _lasting(since: float, now: float) -> str:
    """` 12 s`; empty in the first second."""
    return f" {duration(now - since)}" if now - since >= 1 else ""


IDLE = ("suspended", *ENDS)
"""After one of these events a child neither works nor waits until its next event."""


@dataclass(slots=True)
class _Member:
    """A run of a family that has not ended."""

    parent: str = ""
    key: str = ""
    """Empty if the state that began it has no other."""
    place: str = ""
    """In the family; empty for its root."""
    steps: Steps = field(default_factory=lambda: Steps(is_kept=False))
    works: bool | None = None
    """None if it neither works nor waits for somebody."""


class FamilyProgress:
    """Where a run and those that it has begun stand."""

    def __init__(self) -> None:
        self._root = _Member()
        self._children: dict[str, _Member] = {}

    def take(self, run: str, stored: Stored) -> None:
        event, member = stored.event, self._children.get(run, self._root)
        member.steps.take(stored)
        member.works = None if event.type in IDLE else event.type != "waiting"
        if isinstance(event, ChildStarted):
            place = place_of(event.state, event.key, member.place)
            self._children[event.child] = _Member(run, event.key, place)
        elif isinstance(event, ChildEnded):
            every = self._children.items()
            for ended in [of for of, one in every if (one.parent, one.key) == (run, event.key)]:
                del self._children[ended]

    def begin(self, run: str, events: Iterable[Stored]) -> None:
        for stored in events:
            self.take(run, stored)
        if (child := self._children.get(run)) is not None and child.works:
            child.works = None

    def lines(self, run: str, stored: Stored) -> Iterator[Line]:
        """The lines about the next event; those about a child begin with its place."""
        child = self._children.get(run)
        if child is None:
            yield from lines(self._root.steps, stored)
        elif stored.event.type not in ENDS:
            # The parent reports the end of a child, with its cost.
            for line in lines(child.steps, stored):
                yield replace(line, before=f"{child.place} {line.before.removeprefix('  ')}")

    def few_lines(self, run: str, stored: Stored) -> Iterator[Line]:
        """The lines about the next event; for one of several children only if a person must act."""
        event = stored.event
        # The person who interrupted the family knows already.
        is_stopped = isinstance(event, Suspended) and not event.is_pause
        if self._is_alone(run) or is_stopped or event.type == "waiting":
            yield from self.lines(run, stored)

    def status(self, now: float) -> str:
        own, children = self._root.steps, self._children.values()
        runs = [own, *(child.steps for child in children)]
        for only in children:
            if only.parent == own.run and not only.key and only.works:
                name = f"{own.step.state}/{only.steps.step.state or 'starts'}"
                return _status(only.steps, name, runs, now)
        if not own.step.items:
            return status(own, now)
        working = sum(child.works is True for child in children)
        asking = sum(child.works is False for child in children)
        calls, cost = _spent(runs)
        parts = (
            f"{own.step.state} {len(own.step.ended_children):,}/{own.step.items:,}",
            f"{working} running" if working else "",
            f"{asking} waiting" if asking else "",
            cost,
            calls,
        )
        return SEPARATOR.join(filter(None, parts))

    def _is_alone(self, run: str) -> bool:
        """Whether no other run of the family can work at the same time as a run."""
        child = self._children.get(run)
        return child is None or (not child.key and self._is_alone(child.parent))
