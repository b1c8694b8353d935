"""Findings, a validator's answer, and the report that a validate state leaves behind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from loopkit.engine.failure import Failure
from loopkit.engine.records import Record
from loopkit.language.agents.calls import ErrorClass
from loopkit.language.facts import ACCEPTED, CODES, ERRORS, REGRESSED, STALLED, VERDICT, WARNINGS
from loopkit.values import field

Verdict = Literal["pass", "warn", "fail", "incomplete", "infeasible", "not_applicable"]
AnswerVerdict = Literal["pass", "warn", "fail", "unparsed", "error", "infeasible", "not_applicable"]
Status = Literal["new", "recurring", "regressed", "resolved", "withdrawn"]


class Finding(Record, frozen=True, kw_only=True):
    """One defect that a validator named."""

    id: str
    """Stable over the rounds: made from validator, rule and key, or else location and normalised
    message."""
    message: str
    severity: str = "error"
    """One of the machine's levels."""
    blocking: bool = True
    """Whether the author has to mend it, by its severity and by where it was judged."""
    validator: str = ""
    rule: str = ""
    """The rule's code where it has one, else its key and position."""
    code: str = ""
    key: str = ""
    """What its reviewer calls it, however the message is worded."""
    reviewers: tuple[str, ...] = ()
    """The validators that named it, where several did."""
    origins: tuple[str, ...] = ()
    """The states that have to mend it, in their order, where the machine has `origins`."""
    defaulted: bool = False
    """Nobody said who injected it: it falls to the author of what was judged."""
    graded: str = ""
    """The level that its reviewer gave, where it counts as a milder one."""
    location: str = ""
    """Where in the data, such as `nodes[2].id`."""
    line: int | None = None
    """Where in the text, 1-based."""
    item: dict[str, Any] = field(default_factory=dict)
    """What a report of another shape says of it besides the message."""
    status: Status = "new"
    identified: bool = True
    """Whether its id tells one defect from another. One id stands for every failure where nothing
    names the defect: an exit code alone, the own words of who rejected."""

    @property
    def named_by(self) -> tuple[str, ...]:
        """Every validator that named it."""
        return self.reviewers or (self.validator,)

    def is_for(self, state: str) -> bool:
        """Whether a state has to mend it; any that is told of it where nothing says whose it is."""
        return not self.origins or state in self.origins

    def with_level(self, level: str, *, blocking: bool) -> Finding:
        """The finding as it counts, with the level that its reviewer gave kept beside that."""
        given = self.graded or self.severity
        graded = "" if level == given else given
        return self.replace(severity=level, graded=graded, blocking=blocking)


class Answer(Record, frozen=True, kw_only=True):
    """What one validator answered about one artifact."""

    validator: str
    verdict: AnswerVerdict
    findings: tuple[Finding, ...] = ()
    error_class: ErrorClass | None = None
    """Set where the verdict is `error`: why it could not run."""
    reason: str = ""
    """For `error`, `unparsed` and `not_applicable`: what happened, in a sentence. Of a judge with
    several opinions: how they voted."""
    score: float | None = None
    """What a scoring judge gave."""
    resume_at: float | None = None
    """For `error`: Unix time at which the provider said that it is worth asking again."""

    @classmethod
    def with_failure(cls, validator: str, failure: Failure) -> Answer:
        """No verdict, because the validator could not run."""
        # A limit ends the round; it is nobody's answer.
        assert failure.error_class != "limit"
        return cls(
            validator=validator,
            verdict="error",
            error_class=failure.error_class,
            reason=failure.message,
            resume_at=failure.resume_at,
        )


def verdict_of(findings: Iterable[Finding]) -> Literal["pass", "warn", "fail"]:
    """`fail` with a blocking finding, `warn` with others only, `pass` with none."""
    verdict: Literal["pass", "warn"] = "pass"
    for finding in findings:
        if finding.blocking:
            return "fail"
        verdict = "warn"
    return verdict


def latest_resume(answers: Iterable[Answer]) -> float | None:
    """When it is worth asking again for all of them, where one says so."""
    latest: float | None = None
    for answer in answers:
        if answer.resume_at is not None:
            latest = answer.resume_at if latest is None else max(latest, answer.resume_at)
    return latest


def with_findings(answer: Answer, findings: Iterable[Finding]) -> Answer:
    """The answer with other findings, and with the verdict of these where it had one."""
    found = tuple(findings)
    judged = answer.verdict in ("pass", "warn", "fail")
    verdict = verdict_of(found) if judged else answer.verdict
    return answer.replace(findings=found, verdict=verdict)


class Report(Record, frozen=True, kw_only=True):
    """Everything that is known about an artifact after one round of validation."""

    state: str
    artifact: str
    author: str
    """The state that wrote the artifact."""
    attempt: int
    """How often the author had worked when this was judged."""
    version: int = 0
    """Which version of the artifact it is about."""
    previous: int = 0
    """The version that was current before it; 0 for none."""
    attempts: int = 0
    """How often authors had begun to work on the artifact by then."""
    phase: str = ""
    """The phase of the run in which it was written."""
    fallback: str = ""
    """Why the run came to a fallback, where it is one."""
    verdict: Verdict
    made_from: dict[str, int] = {}
    """By state, how often those had worked from whose artifacts this one was made."""
    answers: tuple[Answer, ...] = ()
    findings: tuple[Finding, ...] = ()
    """All of them, blocking ones first, in the order of the validators."""
    resolved: tuple[Finding, ...] = ()
    """What was open and this round, which looked for it, did not find."""
    unseen: tuple[Finding, ...] = ()
    """What was open and nobody looked for: its rule or judge was not asked, or gave no verdict."""
    stalled: bool = False
    work: str = ""
    """Digest of all that was judged, white space aside: the artifact, the files that its author
    left, and the artifacts of agents that it was made from. Empty where it can't be told."""
    origin: str | None = None
    """The earliest origin of what blocks, where the machine has `origins`."""
    score: float | None = None
    """The lowest that a scoring judge gave."""
    error_class: ErrorClass | None = None
    """For `incomplete`: the worst class among the missing answers."""
    reason: str = ""
    """For `incomplete` and `infeasible`: why."""

    @property
    def facts(self) -> dict[str, object]:
        """The value of each fact of reports, for guards and templates."""
        blocking, has_regressed, codes = 0, False, set()
        for finding in self.findings:
            blocking += finding.blocking
            has_regressed = has_regressed or finding.status == "regressed"
            if finding.code:
                codes.add(finding.code)
        return {
            "valid": self.verdict in ACCEPTED,
            VERDICT: self.verdict,
            ERRORS: blocking,
            WARNINGS: len(self.findings) - blocking,
            CODES: sorted(codes),
            REGRESSED: self.verdict == "fail" and has_regressed,
            STALLED: self.stalled,
            "infeasible": self.verdict == "infeasible",
            "incomplete": self.verdict == "incomplete",
        }

    @property
    def valid(self) -> bool:
        return self.verdict in ACCEPTED

    @property
    def blocking(self) -> tuple[Finding, ...]:
        return tuple([finding for finding in self.findings if finding.blocking])

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return tuple([finding for finding in self.findings if not finding.blocking])

    @property
    def regressed(self) -> tuple[Finding, ...]:
        return tuple([finding for finding in self.findings if finding.status == "regressed"])
