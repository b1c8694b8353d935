"""Versions of an artifact: all of them, the findings in each, and how two differ."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from loopkit.engine.events import Artifact, Event, Worked
from loopkit.engine.findings import Finding, Report
from loopkit.text import item, one_line
from loopkit.views.history import artifact_lines, verdict_text
from loopkit.views.versions import phase_and_fallback


@dataclass(slots=True)
class KeptVersion:
    """One version of an artifact, and the last report on it."""

    number: int
    artifact: Artifact
    report: Report | None = None

    @property
    def title(self) -> str:
        """`plan 2, attempt 2 by draft: fail, 1 blocking finding`."""
        by = f"attempt {self.artifact.attempt} by {self.artifact.author}"
        edited = ", edited" if self.artifact.edited else ""
        verdict = verdict_text(self.report) if self.report is not None else "not judged"
        name = f"{self.artifact.name} {self.number}"
        return one_line(f"{name}, {by}{phase_and_fallback(self.artifact.made)}{edited}: {verdict}")

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.report.findings if self.report is not None else ()


def versions_of(events: Iterable[Event]) -> dict[str, list[KeptVersion]]:
    """Every version of each artifact of a run, oldest first."""
    found: dict[str, list[KeptVersion]] = {}
    for event in events:
        if not isinstance(event, Worked):
            continue
        if event.artifact is not None:
            versions = found.setdefault(event.artifact.name, [])
            versions.append(KeptVersion(len(versions) + 1, event.artifact))
        if event.report is not None:
            # A report may be about an earlier version than the last.
            known = found.get(event.report.artifact, ())
            about = [each for each in known if event.report.version in (0, each.number)]
            if about:
                about[-1].report = event.report
    return found


def diff_lines(before: KeptVersion, after: KeptVersion) -> Iterator[str]:
    """How two versions differ, in their texts and in their findings."""
    yield f"--- {before.title}"
    yield f"+++ {after.title}"
    old, new = artifact_lines(before.artifact), artifact_lines(after.artifact)
    yield from list(difflib.unified_diff(old, new, lineterm=""))[2:]
    yield from _findings("Found only in", before, after)
    yield from _findings("Found only in", after, before)


def _findings(title: str, here: KeptVersion, there: KeptVersion) -> Iterator[str]:
    known = {finding.id for finding in there.findings}
    if only := [finding for finding in here.findings if finding.id not in known]:
        yield f"{title} {here.artifact.name} {here.number}:"
        yield from (item(finding.message) for finding in only)
