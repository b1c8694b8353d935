"""A run as lines for a person: a fold over its events, the same live and afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from loopkit.events import (
    Cancelled,
    Decided,
    Emitted,
    Event,
    Failed,
    Feedback,
    Finished,
    InDoubt,
    Intended,
    Refused,
    Resumed,
    Settled,
    Started,
    Suspended,
    Usage,
    Waiting,
    Worked,
)
from loopkit.findings import Finding, Report
from loopkit.text import one_line, plural

NAME_WIDTH = 14
MAX_LISTED = 10


def lines(event: Event) -> Iterator[str]:
    """What a person is told about an event; nothing for some."""
    said = LINES.get(event.type)
    return said(event) if said else iter(())


def _started(event: Started) -> Iterator[str]:
    yield f"run {event.run}"


def _intended(event: Intended) -> Iterator[str]:
    said = {
        "run": f"runs: {one_line(event.prompt, 80)}",
        "judge": f"asks `{event.agent}` to judge ({event.place})",
        "author": f"asks `{event.agent}`",
    }
    yield _row(event.state, said[event.role])


def _failed(event: Failed) -> Iterator[str]:
    again = " · to be tried again" if event.retry_at is not None else ""
    yield _row("", f"failed ({event.error_class}): {one_line(event.message)}{again}")


def _in_doubt(event: InDoubt) -> Iterator[str]:
    yield _row("", f"a call is in doubt, because its process died ({event.policy})")


def _settled(event: Settled) -> Iterator[str]:
    yield _row("", f"the call in doubt: {event.choice}")


def _emitted(event: Emitted) -> Iterator[str]:
    yield _row("", f"event {event.name}")


def _suspended(event: Suspended) -> Iterator[str]:
    yield _row(event.state, f"suspended ({event.reason}): {one_line(event.message, 200)}")


def _resumed(event: Resumed) -> Iterator[str]:
    raised = ", ".join(f"{name} = {value}" for name, value in event.limits.items())
    yield "resumed" + (f" with {raised}" if raised else "")


def _refused(event: Refused) -> Iterator[str]:
    yield f"an answer was refused: {one_line(event.reason)}"


def _waiting(event: Waiting) -> Iterator[str]:
    yield _row(event.state, f"waits for a person: {one_line(event.text)}")


def _finished(event: Finished) -> Iterator[str]:
    yield f"{event.outcome} ({'success' if event.success else 'failure'})"


def _cancelled(_: Cancelled) -> Iterator[str]:
    yield "cancelled"


def _worked(event: Worked) -> Iterator[str]:
    if event.outcome not in ("done", "content") and event.report is None:
        yield _row(event.state, f"{event.outcome}: {one_line(event.error, 200)}")
        return
    if event.report is not None:
        yield from _report(event.state, event.report)
    elif event.answer is not None:
        said = f": {one_line(event.answer.comment)}" if event.answer.comment else ""
        yield _row(event.state, f"{event.answer.choice} (by {event.answer.by}){said}")
    elif event.artifact is not None:
        artifact = event.artifact
        size = artifact.fault or plural(len(artifact.text), "character")
        if "exit_code" in event.facts:
            size = f"exit {event.facts['exit_code']}, {size}"
        yield _row(event.state, f"{artifact.name}, attempt {artifact.attempt}: {size}")


def _report(state: str, report: Report) -> Iterator[str]:
    counts = [plural(len(report.blocking), "finding")] if report.blocking else []
    counts += [plural(len(report.warnings), "warning")] if report.warnings else []
    counts += ["no progress"] if report.stalled else []
    counts += [one_line(report.reason)] if report.reason else []
    yield _row(state, " · ".join([report.verdict, *counts]))
    yield from (_row("", _finding(finding)) for finding in report.findings[:MAX_LISTED])
    if (more := len(report.findings) - MAX_LISTED) > 0:
        yield _row("", f"- and {more} more")


def _finding(finding: Finding) -> str:
    mark = "" if finding.status == "new" else f" ({finding.status})"
    kind = "" if finding.blocking else "warning: "
    return f"- {kind}{one_line(finding.message)}{mark}"


def _decided(event: Decided) -> Iterator[str]:
    told = "".join(_revision(feedback) for feedback in event.feedback)
    yield _row("", f"→ {event.target}{told}")


def _revision(feedback: Feedback) -> str:
    return f"   revision {feedback.revision} of {feedback.max_revisions}"


def spent(usage: Usage) -> str:
    """`4 calls · 1,204 tokens · $0.0210`."""
    parts = [plural(usage.agent_calls, "call")]
    if usage.tokens:
        parts.append(f"{usage.tokens:,} tokens")
    if usage.cost_usd is None:
        parts.append("cost unknown")
    elif usage.cost_usd:
        parts.append(f"${usage.cost_usd:.4f}")
    return " · ".join(parts)


def _row(name: str, text: str) -> str:
    return f"  {name:<{NAME_WIDTH}} {text}".rstrip()


LINES: dict[str, Callable[[Any], Iterator[str]]] = {
    "started": _started,
    "intended": _intended,
    "failed": _failed,
    "in_doubt": _in_doubt,
    "settled": _settled,
    "worked": _worked,
    "decided": _decided,
    "emitted": _emitted,
    "suspended": _suspended,
    "resumed": _resumed,
    "refused": _refused,
    "waiting": _waiting,
    "finished": _finished,
    "cancelled": _cancelled,
}
