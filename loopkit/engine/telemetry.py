"""The figures of a run's defects: where each was made, found and corrected, and what that cost.

They are a fold over the run's events that never looks back, and takes all of them or only those of
`Figures.TAKEN` with the same result. A run keeps these events, unless its machine never asks for
figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

from loopkit.engine.events import (
    ChildEnded,
    Decided,
    Event,
    Failed,
    Finished,
    InDoubt,
    Intended,
    Replied,
    Worked,
)
from loopkit.engine.findings import Finding, Report, Status
from loopkit.engine.payloads import Best, HumanAnswer
from loopkit.engine.records import Record, Usage
from loopkit.language.facts import COMPLETE

USD_DIGITS, SECONDS_DIGITS = 9, 6
"""The digits of a share: further ones are left over from dividing."""


class Sums(NamedTuple):
    """The shares of a defect that had been in correction from the start."""

    usd: float = 0.0
    seconds: float = 0.0
    unknown: int = 0
    """Works whose cost is not known."""


@dataclass(slots=True)
class Known:
    finding: Finding
    artifact: str
    injected: tuple[str, ...]
    detected: str
    missed: tuple[str, ...]
    reports: int = 0
    blocking: bool = False
    end: Status | Literal[""] = ""
    """How it ended; empty while it is open."""
    waits: bool = False
    """Whether it was sent back, and the state that it was sent to has not worked yet."""
    beginning: tuple[Sums, Counter[str]] | None = None
    """The shares and works so far when its correction began, while it is being corrected."""
    attempts: Counter[str] = field(default_factory=Counter)
    sums: Sums = Sums()


class Verdict(NamedTuple):
    state: str
    found: list[Known]
    blocking: list[Known]


class Figures:
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
        self._phases: dict[str, Counter[str]] = {}
        self._last = Verdict("", [], [])
        self._verdicts: dict[tuple[str, str, int], Verdict] = {}
        """The result of every version that was judged: by state, author and attempt."""
        self._answer: tuple[HumanAnswer, float] | None = None
        """A person's answer whose edge is not known yet, and its time."""
        self.overrides: list[Override] = []

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
        return [self._defect(known) for known in self._known.values()]

    @property
    def phases(self) -> list[Phase]:
        """The states that wrote or judged, in the order in which they did so first."""
        tallies = {state: Counter(of) for state, of in self._phases.items()}
        for known in self._known.values():
            if known.blocking:
                tallies[known.detected]["found"] += 1
                for state in known.injected:
                    tallies.setdefault(state, Counter())["injected"] += 1
                for state in known.missed:
                    tallies[state]["missed"] += 1
        return [Phase(state=state, **tally) for state, tally in tallies.items()]

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
        usd = usd_without_held(self._spent)
        seconds = self._spent.time_s + event.time_s
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
        phase = self._phases.setdefault(event.state, Counter())
        phase["works"] += 1
        phase["corrections"] += is_again
        phase["characters"] = event.artifact.size

    def _report(self, report: Report) -> None:
        if report.verdict not in COMPLETE:
            return
        self._corrections.judge(report.state)
        self._phases.setdefault(report.state, Counter())
        found = [self._find(report, finding) for finding in report.findings]
        for finding in (*report.resolved, *report.unnamed):
            if (known := self._known.get((report.artifact, finding.id))) is not None:
                known.end = finding.status
        self._clock += 1
        self._judged[report.state] = self._clock
        blocking = [known for known in found if known.finding.blocking]
        self._last = Verdict(report.state, found, blocking)
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
            given, at = answer
            self.overrides.append(
                Override(
                    state=event.source,
                    choice=given.choice,
                    by=given.by,
                    comment=given.comment,
                    at=at,
                    target=event.target,
                    open=dict(Counter(known.finding.severity for known in last.blocking)),
                )
            )

    def _go_back(self, best: Best) -> None:
        for finding in best.withdrawn:
            for known in self._named.get(finding.id, ()):
                known.end = "withdrawn"
        self._last = self._verdicts[best.state, best.author, best.attempt]
        for known in self._last.found:
            known.end = ""

    def _finish(self, event: Finished, _: float) -> None:
        # An answer that gives up is not an override.
        if not event.success and self.overrides and self.overrides[-1].target == event.outcome:
            del self.overrides[-1]

    def _defect(self, known: Known) -> Defect:
        attempts, sums = self._corrections.so_far(known)
        finding = known.finding
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
            status=known.end or finding.status,
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
    return None if usd is None else round(usd, USD_DIGITS)


def usd_without_held(usage: Usage) -> float | None:
    """The cost in USD without amounts that are only held; None if it is not known."""
    return None if usage.cost_usd is None else usage.cost_usd - usage.held_usd


class Corrections:
    """The defects of a run that were sent back, and what has been spent on them."""

    def __init__(self) -> None:
        self.works = Counter[str]()
        """How often each state wrote."""
        self._sums = Sums()
        self._count = 0
        """How many defects are being corrected."""
        self._sent: dict[str, list[Known]] = {}
        """By the validate state that has to judge them again."""
        self._waiting: dict[str, list[Known]] = {}
        """By the state whose next work begins their correction."""

    def send_back(self, state: str, found: Iterable[Known], addressees: Iterable[str]) -> None:
        """Record that a revise edge leads back because of a validate state's findings.

        If the edge leads to states that injected some of them, the correction of each defect begins
        with the next work of the states that injected it, else at once.
        """
        fresh = [known for known in found if not known.waits and known.beginning is None]
        self._sent.setdefault(state, []).extend(fresh)
        if not {origin for known in fresh for origin in known.injected} & set(addressees):
            self._begin(fresh)
            return
        for known in fresh:
            known.waits = True
            for origin in known.injected:
                self._waiting.setdefault(origin, []).append(known)

    def work(self, state: str, usd: float | None, seconds: float) -> None:
        self._begin([known for known in self._waiting.pop(state, ()) if known.waits])
        self.works[state] += 1
        self.spend(usd, seconds)

    def spend(self, usd: float | None, seconds: float) -> None:
        """Divide what something cost among the defects that are being corrected."""
        if self._count:
            self._sums = Sums(
                self._sums.usd + (usd or 0.0) / self._count,
                self._sums.seconds + seconds / self._count,
                self._sums.unknown + (usd is None),
            )

    def judge(self, state: str) -> None:
        """End the corrections of a validate state's findings, because it reports again."""
        for known in self._sent.pop(state, ()):
            known.waits = False
            if known.beginning is not None:
                known.attempts, known.sums = self.so_far(known)
                known.beginning = None
                self._count -= 1

    def so_far(self, known: Known) -> tuple[Counter[str], Sums]:
        """The works and the shares of a defect, those of a correction in hand included."""
        if known.beginning is None:
            return known.attempts, known.sums
        had = known.sums
        now = self._sums
        (then, works) = known.beginning
        sums = Sums(
            had.usd + now.usd - then.usd,
            had.seconds + now.seconds - then.seconds,
            had.unknown + now.unknown - then.unknown,
        )
        return known.attempts + (self.works - works), sums

    def _begin(self, found: list[Known]) -> None:
        beginning = self._sums, self.works.copy()
        for known in found:
            known.waits, known.beginning = False, beginning
        self._count += len(found)


class Defect(Record, frozen=True, kw_only=True):
    """One defect of a run: all findings of one artifact with the same id, however worded."""

    id: str
    artifact: str
    """The artifact that has the defect. The same id in another artifact is another defect."""
    code: str
    """Its type: the finding's code, or else the key and position of the rule."""
    key: str
    """The reviewer's name for it."""
    severity: str
    """The severity in the last report that has it."""
    blocking: bool
    """Whether it ever blocked. Only such defects count in the figures."""
    message: str
    """The message in the last report that has it."""
    found_by: tuple[str, ...]
    """The validators that reported it last."""
    injected: tuple[str, ...]
    """The states that injected it, according to the last report that has it."""
    defaulted: bool
    """Whether nobody named these states, so that it falls to the author of the judged artifact."""
    detected: str
    """The validate state that found it first."""
    missed: tuple[str, ...]
    """The validate states that had judged since it was injected and did not find it."""
    reports: int
    """The number of complete reports that have it."""
    attempts: dict[str, int]
    """How many times each state worked while it was being corrected."""
    cost_usd: float | None
    """Its share of the cost of these works, in USD; null if unknown."""
    seconds: float
    """Its share of the time of these works, in seconds."""
    status: Status
    """`withdrawn` if the run went back to a version without it; `resolved` or `not named again` if
    the last report that looked for it says so; otherwise its status in the last report that has
    it."""


class Phase(Record, frozen=True, kw_only=True):
    """What one state of a run has written, injected, found and missed."""

    state: str
    works: int = 0
    """How many times it wrote its artifact."""
    corrections: int = 0
    """The number of these works that followed a revise edge, or repeated an earlier work."""
    characters: int = 0
    """The length of its last version, in characters."""
    injected: int = 0
    """The number of defects attributed to it."""
    found: int = 0
    """The number of defects that it was the first to find."""
    missed: int = 0
    """The number of defects that it could have found, and that another state found later."""


COUNTS = ("works", "corrections", "characters", "injected", "found", "missed")
"""The fields of a phase that are added up over runs."""


class Override(Record, frozen=True, kw_only=True):
    """A person's decision to continue although findings block."""

    state: str
    """The gate: the state that asked."""
    choice: str
    by: str
    """`person`, `script`, or `timeout`."""
    comment: str
    """The justification."""
    at: float
    """The Unix time of the decision."""
    target: str
    """The next state of the run."""
    open: dict[str, int]
    """The number of open blocking findings, by severity."""


def origins_of(report: Report, finding: Finding) -> tuple[str, ...]:
    """The states to which a finding is attributed: without origins who wrote what was judged."""
    return finding.origins or (report.author,)
