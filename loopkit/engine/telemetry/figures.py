"""Figures of a run: a fold over its events, one at a time, that never looks back.

It takes all events of a run, or only those of `Figures.TAKEN`, with the same result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from loopkit.engine.events import (
    Best,
    ChildEnded,
    Decided,
    Event,
    Failed,
    Finished,
    HumanAnswer,
    InDoubt,
    Intended,
    Replied,
    Usage,
    Worked,
)
from loopkit.engine.findings import Finding, Report
from loopkit.engine.telemetry.corrections import Corrections, Known
from loopkit.engine.telemetry.defect import Defect, DefectStatus, Override, Phase, Tally, origins_of
from loopkit.language.facts import COMPLETE

"""The verdicts of reports that have looked at everything."""
USD_DIGITS, SECONDS_DIGITS = 9, 6
"""The digits of a share: further ones are left over from dividing."""


class Verdict(NamedTuple):
    """The result of a report on the version that it judged."""

    state: str
    blocking: list[Known]


class Figures:
    """The figures of a run's defects, by the events so far."""

    def __init__(self) -> None:
        self.works = 0
        """How often states wrote their artifacts."""
        self.again = 0
        """How many of these works were corrections."""
        self._known: dict[tuple[str, str], Known] = {}
        """By artifact and id, in the order in which they were found."""
        self._named: dict[str, list[Known]] = {}
        """The defects by their ids alone."""
        self._corrections = Corrections()
        self._calls: dict[str, Intended] = {}
        self._spent = Usage()
        """The usage of the current work."""
        self._is_revision = False
        """Whether a revise edge led to the active state."""
        self._clock = 0
        """Counts works and reports."""
        self._worked: dict[str, int] = {}
        """When each state wrote last."""
        self._judged: dict[str, int] = {}
        """When each validate state reported last."""
        self._phases: dict[str, Tally] = {}
        self._last = Verdict("", [])
        """The result of the last report."""
        self._verdicts: dict[tuple[str, str, int], Verdict] = {}
        """The result of every version that was judged: by state, author and attempt."""
        self._answer: tuple[HumanAnswer, float] | None = None
        """A person's answer whose edge is not known yet, and its time."""
        self._overrides: list[Override] = []

    def take(self, event: Event, at: float = 0.0) -> None:
        """Count the next event, which was stored at the Unix time `at`."""
        if (taking := self.TAKEN.get(event.type)) is not None:
            taking(self, event, at)

    @property
    def correction_rate(self) -> float | None:
        """The share of the works that were corrections; None if nothing was written."""
        return self.again / self.works if self.works else None

    @property
    def defects(self) -> list[Defect]:
        """All defects, in the order in which they were found first."""
        return [self._defect(known) for known in self._known.values()]

    @property
    def phases(self) -> list[Phase]:
        """The states that wrote or judged, in the order in which they did so first."""
        tallies = {state: replace(tally) for state, tally in self._phases.items()}
        for known in self._known.values():
            if known.blocking:
                tallies[known.detected].found += 1
                for state in known.injected:
                    tallies.setdefault(state, Tally()).injected += 1
                for state in known.missed:
                    tallies[state].missed += 1
        return [tally.phase(state) for state, tally in tallies.items()]

    @property
    def overrides(self) -> list[Override]:
        return list(self._overrides)

    # -- events ----------------------------------------------------------------------------

    def _intend(self, event: Intended, _: float) -> None:
        self._calls[event.key] = event

    def _settle(self, event: Replied | Failed, _: float) -> None:
        if self._calls.pop(event.key).role != "judge":
            self._spent = self._spent.plus(event.usage)

    def _doubt(self, event: InDoubt, _: float) -> None:
        # What may have been paid for is held, and nobody knows that it was spent.
        del self._calls[event.key]

    def _end_child(self, event: ChildEnded, _: float) -> None:
        self._spent = self._spent.plus(event.usage.replace(time_s=event.time_s))

    def _work(self, event: Worked, at: float) -> None:
        if event.report is not None:
            self._report(event.report)
        elif event.answer is not None:
            self._answer = event.answer, at
        else:
            self._author(event)

    def _author(self, event: Worked) -> None:
        usd, seconds = usd_without_held(self._spent), self._spent.time_s + event.time_s
        self._spent = Usage()
        if event.artifact is None:
            self._corrections.spend(usd, seconds)
            return
        self._corrections.work(event.state, usd, seconds)
        is_again = self._is_revision or event.state in self._worked
        self._clock += 1
        self._worked[event.state] = self._clock
        self.works += 1
        self.again += is_again
        phase = self._phase(event.state)
        phase.works += 1
        phase.corrections += is_again
        phase.characters = len(event.artifact.text)

    def _report(self, report: Report) -> None:
        if report.verdict not in COMPLETE:
            return
        self._corrections.judge(report.state)
        self._phase(report.state)
        found = [self._find(report, finding) for finding in report.findings]
        for finding in report.resolved:
            if (known := self._known.get((report.artifact, finding.id))) is not None:
                known.end = "resolved"
        self._clock += 1
        self._judged[report.state] = self._clock
        self._last = Verdict(report.state, [known for known in found if known.finding.blocking])
        self._verdicts[report.state, report.author, report.attempt] = self._last

    def _find(self, report: Report, finding: Finding) -> Known:
        key = (report.artifact, finding.id)
        if (known := self._known.get(key)) is None:
            known = self._known[key] = self._first(report, finding)
            self._named.setdefault(finding.id, []).append(known)
        known.finding, known.end = finding, ""
        known.injected = origins_of(report, finding)
        known.reports += 1
        known.blocking = known.blocking or finding.blocking
        return known

    def _first(self, report: Report, finding: Finding) -> Known:
        injected = origins_of(report, finding)
        made = min(self._worked.get(state, 0) for state in injected)
        missed = (s for s, judged in self._judged.items() if judged > made and s != report.state)
        return Known(finding, report.artifact, injected, report.state, tuple(missed))

    def _decide(self, event: Decided, _: float) -> None:
        self._is_revision = bool(event.spends)
        answer, self._answer = self._answer, None
        if event.best is not None:
            self._go_back(event.best)
        last = self._last
        if event.spends:
            if event.source == last.state or answer is not None:
                addressees = (event.target, *(feedback.to for feedback in event.feedback))
                self._corrections.send_back(last.state, last.blocking, addressees)
        elif answer is not None and last.blocking:
            self._override(event, *answer, last.blocking)

    def _go_back(self, best: Best) -> None:
        """Make an earlier version the current one again, with the findings in it."""
        for finding in best.withdrawn:
            for known in self._named.get(finding.id, ()):
                known.end = "withdrawn"
        self._last = self._verdicts[best.state, best.author, best.attempt]
        for known in self._last.blocking:
            known.end = ""

    def _override(
        self, event: Decided, answer: HumanAnswer, at: float, blocking: Iterable[Known]
    ) -> None:
        self._overrides.append(
            Override(
                state=event.source,
                choice=answer.choice,
                by=answer.by,
                comment=answer.comment,
                at=at,
                target=event.target,
                open=dict(Counter(known.finding.severity for known in blocking)),
            )
        )

    def _finish(self, event: Finished, _: float) -> None:
        # An answer that gives up is not an override.
        if not event.success and self._overrides and self._overrides[-1].target == event.outcome:
            del self._overrides[-1]

    # -- figures ---------------------------------------------------------------------------

    def _phase(self, state: str) -> Tally:
        if (known := self._phases.get(state)) is None:
            known = self._phases[state] = Tally()
        return known

    def _defect(self, known: Known) -> Defect:
        attempts, sums = self._corrections.so_far(known)
        finding = known.finding
        still: DefectStatus = "recurring" if known.reports > 1 else "open"
        return Defect(
            id=finding.id,
            artifact=known.artifact,
            code=finding.code or finding.rule,
            key=finding.key,
            severity=finding.severity,
            blocking=known.blocking,
            message=finding.message,
            found_by=finding.named_by,
            injected=known.injected,
            defaulted=finding.defaulted or not finding.origins,
            detected=known.detected,
            missed=known.missed,
            reports=known.reports,
            attempts=dict(attempts),
            cost_usd=round_usd(None if sums.unknown else sums.usd),
            seconds=round(sums.seconds, SECONDS_DIGITS),
            status=known.end or still,
        )

    TAKEN: ClassVar[Mapping[str, Callable[[Figures, Any, float], None]]] = {
        "intended": _intend,
        "replied": _settle,
        "failed": _settle,
        "in_doubt": _doubt,
        "child_ended": _end_child,
        "worked": _work,
        "decided": _decide,
        "finished": _finish,
    }
    """The change for each type of event; the others don't affect defects."""


def round_usd(usd: float | None) -> float | None:
    """An amount without the rest left over from adding and dividing."""
    return None if usd is None else round(usd, USD_DIGITS)


def usd_without_held(usage: Usage) -> float | None:
    """The cost in USD without amounts that are only held; None if it is not known."""
    return None if usage.cost_usd is None else usage.cost_usd - usage.held_usd
