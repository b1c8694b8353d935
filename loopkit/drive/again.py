"""Re-entry of an `each` state: which items keep their results, and the feedback for the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loopkit.drive.active import ActiveRun
from loopkit.engine.default_feedback import default_feedback
from loopkit.engine.events import Feedback
from loopkit.engine.findings import Finding, Report
from loopkit.engine.findings_for import blocking_for
from loopkit.engine.tasks import Child
from loopkit.machine.item_list import Item


@dataclass(frozen=True)
class Reentry:
    """What this visit takes over from an earlier one."""

    kept: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By key, the results of the items that are not run again."""
    feedback: Mapping[str, Feedback] = field(default_factory=dict)
    """By key, the feedback for the children of the other items."""


def plan_reentry(
    active: ActiveRun, name: str, items: Sequence[Item], inputs: Mapping[str, dict[str, Any]]
) -> Reentry:
    """Keep what succeeded with the same input, unless a finding names it or its key.

    If all would be kept although there is feedback, none is.
    """
    waiting = active.state.pending.get(name, ())
    report = _report(active, name) if waiting else None
    keyed, others = _split_by_item(_findings_to_mend(active, name, report), items)
    kept = _results_to_keep(active, name, items, inputs, keyed)
    if waiting and not keyed and len(kept) == len(items):
        kept = {}
    feedback: dict[str, Feedback] = {}
    for item in items:
        if waiting and item.key not in kept:
            found = (*keyed.get(item.key, ()), *others)
            feedback[item.key] = _feedback_for_item(active, name, waiting, report, found)
    return Reentry(kept, feedback)


def _report(active: ActiveRun, name: str) -> Report | None:
    """The report that led back, if the state's own artifact was judged."""
    report = active.state.last_report
    return report if report is not None and report.artifact == name else None


def _findings_to_mend(active: ActiveRun, name: str, report: Report | None) -> Sequence[Finding]:
    """The findings that the state has to fix; with `origins`, also those in later work."""
    if active.program.graph.origins:
        return blocking_for(active.program, active.state, name)
    return report.blocking if report else ()


def _split_by_item(
    findings: Iterable[Finding], items: Sequence[Item]
) -> tuple[dict[str, list[Finding]], list[Finding]]:
    """The findings whose location starts with the key of an item, and all others."""
    keys = {item.key for item in items}
    keyed: dict[str, list[Finding]] = {}
    others: list[Finding] = []
    for finding in findings:
        key = _key_in(finding.location, keys)
        (others if key is None else keyed.setdefault(key, [])).append(finding)
    return keyed, others


def _key_in(location: str, keys: set[str]) -> str | None:
    """The longest key that a location starts with: `1.1` of `1.1.result`, and not `1`."""
    ends = [at for at, char in enumerate(location) if char in ".["]
    starts = (location[:end] for end in (len(location), *reversed(ends)))
    return next((start for start in starts if start in keys), None)


def _results_to_keep(
    active: ActiveRun,
    name: str,
    items: Sequence[Item],
    inputs: Mapping[str, dict[str, Any]],
    keyed: Mapping[str, object],
) -> dict[str, Mapping[str, Any]]:
    before, visit = active.state.children.get(name, {}), active.state.visit
    known = {item.key: item for item in items}
    version = active.state.artifacts.get(name)
    now: Mapping[str, Any] | None = version.data if version and version.is_data else None
    lost = {
        key
        for key in known
        if (child := before.get(key)) is None
        or child.started.visit == visit
        or child.ended is None
        or not child.ended.result["success"]
        or child.started.input != inputs[key]
        or not _is_current(child, now, visit)
        or key in keyed
    }
    dependents: dict[str, list[str]] = {}
    for item in items:
        for other in item.after:
            dependents.setdefault(other, []).append(item.key)
    front = list(lost)
    while front:
        fresh = [key for key in dependents.get(front.pop(), ()) if key not in lost]
        lost.update(fresh)
        front += fresh
    ended = ((key, before[key].ended) for key in known if key not in lost)
    return {key: end.result for key, end in ended if end is not None}


def _is_current(child: Child, now: Mapping[str, Any] | None, visit: int) -> bool:
    """Whether a child's result is the one that the last visit has for its item.

    The item may not have begun then, or not have been in the list; and an error may have ended the
    visit before there was a version of it.
    """
    assert child.ended is not None
    if now is None or (child.started.key not in now and child.started.visit == visit - 1):
        return True
    return now.get(child.started.key) == child.ended.result


def _feedback_for_item(
    active: ActiveRun,
    name: str,
    waiting: Sequence[Feedback],
    report: Report | None,
    findings: Sequence[Finding],
) -> Feedback:
    """The feedback for one item: the texts of edges, and its findings if an edge has no text."""
    # What a child has to mend are findings of its own.
    last = waiting[-1].replace(tells=None)
    texts = [each.text for each in waiting if report is None or _is_worded(active, each)]
    if report is not None and len(texts) < len(waiting):
        own = report.replace(findings=tuple(findings))
        revision = (last.revision, last.max_revisions)
        texts.append(default_feedback(active.program, own, name, revision, None))
    return last.replace(text="\n\n".join(filter(None, texts)))


def _is_worded(active: ActiveRun, feedback: Feedback) -> bool:
    """Whether the edge that sent the feedback has a `feedback` of its own."""
    told_by = feedback.tells.edge if feedback.tells else active.state.entered_by
    edge = active.program.graph.by_id.get(told_by or "")
    return edge is not None and edge.feedback is not None
