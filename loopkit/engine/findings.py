"""Findings, a validator's answer, and the report that a validate state leaves behind.

A finding has an id by which it is the same defect over rounds and rewordings. As diagnostics,
findings are data for a model or a program that corrects what was judged.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from loopkit.engine.records import Failure, Record, VersionId
from loopkit.language.facts import (
    ACCEPTED,
    CODES,
    ERRORS,
    REGRESSED,
    SEVERITY,
    STALLED,
    VERDICT,
    WARNINGS,
)
from loopkit.language.section import ErrorClass
from loopkit.text import as_nfc, shorten
from loopkit.values import NOTHING, Value

Verdict = Literal["pass", "warn", "fail", "incomplete", "infeasible", "not_applicable"]
AnswerVerdict = Literal["pass", "warn", "fail", "unparsed", "error", "infeasible", "not_applicable"]
Status = Literal["new", "recurring", "regressed", "resolved", "not named again", "withdrawn"]
NOT_NAMED_AGAIN: Status = "not named again"


class Finding(Record, frozen=True, kw_only=True):
    """One defect that a validator reported."""

    id: str
    """An id that is stable across rounds, made from validator, rule and key, or else from location
    and normalized message."""
    message: str
    severity: str = "error"
    """One of the machine's severities."""
    blocking: bool = True
    """Whether the author must fix it. This depends on the severity and on the state that judged."""
    validator: str = ""
    rule: str = ""
    """The code of the rule, or else its key and position."""
    code: str = ""
    key: str = ""
    """The reviewer's name for it, which stays the same however the message is worded."""
    reviewers: tuple[str, ...] = ()
    """The validators that reported it, if there are several."""
    origins: tuple[str, ...] = ()
    """The states that must fix it, in their order, if the machine has `origins`."""
    defaulted: bool = False
    """Whether nobody said who injected it, so that it falls to the author of the judged
    artifact."""
    graded: str = ""
    """The severity that the reviewer gave, if the finding counts with a milder one."""
    location: str = ""
    """The place in the data, such as `nodes[2].id`."""
    line: int | None = None
    """The line number in the text, from 1."""
    item: dict[str, Any] = NOTHING
    """All fields that the report gives for this finding besides its message."""
    status: Status = "new"
    identified: bool = True
    """Whether its id tells one defect from another. One id stands for every failure if nothing
    names the defect: only an exit code, or only the words of a reviewer who rejected."""

    @property
    def named_by(self) -> tuple[str, ...]:
        return self.reviewers or (self.validator,)

    def is_for(self, state: str) -> bool:
        """Whether a state has to mend it; any that is told of it where nothing says whose it is."""
        return not self.origins or state in self.origins

    @property
    def is_repetition(self) -> bool:
        """Whether it says of a refused version that it equals the one before.

        It is no defect that the version has besides, so guards and stalls do not count it.
        """
        return self.rule == REPEATED and self.validator == OF_ARTIFACT

    def with_level(self, level: str, *, blocking: bool) -> Finding:
        """The finding as it counts, with the level that its reviewer gave kept beside that."""
        given = self.graded or self.severity
        graded = "" if level == given else given
        return self.replace(severity=level, graded=graded, blocking=blocking)

    @property
    def sameness(self) -> object:
        """A value that is equal for findings that say the same of the same place to the same state.

        A key tells findings apart, and so do the codes of rules that need no model.
        """
        if self.key:
            return self.id
        kind = self.rule if self.rule in OF_JUDGES else ("", self.code)
        message = " ".join(as_nfc(self.message).casefold().split()).rstrip(".! ")
        return message, self.location, self.line, self.origins, kind


class Answer(Record, frozen=True, kw_only=True):
    """The answer of one validator about one artifact."""

    validator: str
    verdict: AnswerVerdict
    findings: tuple[Finding, ...] = ()
    error_class: ErrorClass | None = None
    """With the verdict `error`, and if only some of its rules gave a verdict: the class of the
    error. Otherwise null."""
    not_started: bool = False
    """Whether a program of it does not exist, or cannot be executed."""
    partial: tuple[str, ...] = ()
    """The rules, as findings name them, that have not looked at everything: their guard is false,
    the artifact could not be read, or they found more than they list."""
    reason: str = ""
    """With `error`, `unparsed` and `not_applicable`, and if only some of its rules gave a verdict:
    what happened, in a sentence. For a judge with several opinions: how they voted."""
    score: float | None = None
    """The score, if the judge gave one."""
    resume_at: float | None = None
    """With `error`: the Unix time from which the provider says that it can be asked again."""

    @property
    def is_missing(self) -> bool:
        """Whether the validator, or a rule of it, gave no verdict."""
        return self.error_class is not None or self.verdict in ("error", "unparsed")

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
    blocking = [finding.blocking for finding in findings]
    return "fail" if any(blocking) else "warn" if blocking else "pass"


def latest_resume(answers: Iterable[Answer]) -> float | None:
    return max((a.resume_at for a in answers if a.resume_at is not None), default=None)


def with_findings(answer: Answer, findings: Iterable[Finding]) -> Answer:
    """The answer with other findings, and with the verdict of these where it had one."""
    found = tuple(findings)
    judged = answer.verdict in ("pass", "warn", "fail")
    verdict = verdict_of(found) if judged else answer.verdict
    return answer.replace(findings=found, verdict=verdict)


class Report(VersionId, frozen=True, kw_only=True):
    """The result of one round of validation of an artifact."""

    state: str
    artifact: str
    fallback: str = ""
    """The reason for the fallback, if the artifact is one."""
    verdict: Verdict
    severity: str = ""
    """How severe it is as a whole: the worst severity of a finding, or by the machine's table."""
    made_from: dict[str, int] = NOTHING
    """For each state whose artifact this one was made from: how many times that state had
    worked."""
    answers: tuple[Answer, ...] = ()
    findings: tuple[Finding, ...] = ()
    """All findings, blocking ones first, in the order of the validators."""
    resolved: tuple[Finding, ...] = ()
    """The findings that were open, and that a rule, or a judge that can tell, did not find again
    in this round."""
    unnamed: tuple[Finding, ...] = ()
    """The findings without a key that were open, and that a judge which rejects did not name again.
    It may have worded them otherwise, so that nobody knows whether they are resolved."""
    unseen: tuple[Finding, ...] = ()
    """The open findings that nobody looked for, because their rule or judge was not asked or gave
    no verdict."""
    stalled: bool = False
    work: str = ""
    """A digest of everything that was judged, ignoring white space: the artifact, its author's
    files, and the agents' artifacts that it was made from. Empty if unknown."""
    origin: str | None = None
    """The earliest origin of the blocking findings, if the machine has `origins`."""
    score: float | None = None
    """The lowest of the scores that judges gave."""
    error_class: ErrorClass | None = None
    """With `incomplete`: the worst class of error among the missing answers."""
    reason: str = ""
    """With `infeasible`: the reason. Otherwise: why validators gave no verdict, if some did not."""

    @property
    def facts(self) -> dict[str, object]:
        found = [finding for finding in self.findings if not finding.is_repetition]
        blocking = sum(finding.blocking for finding in found)
        has_regressed = any(finding.status == "regressed" for finding in found)
        return {
            "valid": self.valid,
            VERDICT: self.verdict,
            SEVERITY: self.severity,
            ERRORS: blocking,
            WARNINGS: len(found) - blocking,
            CODES: sorted({finding.code for finding in found if finding.code}),
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


MOST_CHARS = 20_000
"""The most characters of all diagnostics together, as JSON."""
MOST_TEXT_CHARS = 1_000
"""The most characters of a message."""


def report_diagnostics(report: Report, most: int) -> dict[str, Any]:
    data = {"verdict": report.verdict, **diagnostics(report.findings, most)}
    return {**data, "reason": shorten(report.reason, MOST_TEXT_CHARS)} if report.reason else data


def diagnostics(findings: Sequence[Finding], most: int) -> dict[str, Any]:
    """Whether nothing blocks, and at most `most` findings, those that block first.

    `left_out` counts the findings beyond that, or beyond MOST_CHARS.
    """
    ordered = sorted(findings, key=lambda finding: not finding.blocking)
    listed: list[dict[str, Any]] = []
    room = MOST_CHARS
    for one in map(diagnostic, ordered[:most]):
        room -= len(json.dumps(one, ensure_ascii=False))
        if room < 0:
            break
        listed.append(one)
    data: dict[str, Any] = {
        "ok": not any(finding.blocking for finding in findings),
        "diagnostics": listed,
    }
    left_out = len(findings) - len(listed)
    return {**data, "left_out": left_out} if left_out else data


def diagnostic(finding: Finding) -> dict[str, Any]:
    """A finding as data; the further fields of its reviewer come first."""
    own = {
        "code": shorten(finding.code, MOST_TEXT_CHARS),
        "message": shorten(finding.message, MOST_TEXT_CHARS),
        "severity": finding.severity,
        "location": shorten(finding.location, MOST_TEXT_CHARS),
        "line": finding.line,
    }
    return {**finding.item, **{name: value for name, value in own.items() if value}}


_LINE = re.compile(
    r"\b(?:(?:at|on|in|near)\s+)?(?:lines?|columns?|col\.?)\s*\d+(?:\s*(?:[-–,]|to|and)\s*\d+)*"
)
PLACES = frozenset({"column", "file", "offset", "path", "quote", "range"})
"""The fields of a reviewer, beside line and location, that say where in a text it is."""
_QUOTATION = re.compile(r"[\"'`“„«‘]([^\"'`“”„«»‘’\n]{20,})[\"'`”“»’]")


def points_into(finding: Finding, text: str) -> bool:
    """Whether a finding names a place in a text, or quotes a passage of it."""
    # A line is no place in a text that has only one.
    is_at_line = finding.line is not None and "\n" in text.strip()
    if is_at_line or finding.location or not PLACES.isdisjoint(map(str.lower, finding.item)):
        return True
    return any(quoted in text for quoted in _QUOTATION.findall(finding.message))


_LINE_AFTER_FILE = re.compile(r"(?<=\w)(\.\w{1,8}):\d+(?:[:-]\d+)*")

OF_ARTIFACT = "artifact"
"""The validator of content faults, whoever looks at the artifact."""

REPEATED = "repeated"
"""The code of an answer that equals the one before."""

OF_JUDGE = "judge"
"""The rule of all findings of judges. The codes that these give vary too much to identify any."""

SAYS_NOTHING = "The reviewer rejects it without a reason."
"""The finding of a judge that rejects and names nothing."""

OF_CHECK = "judge.check"
"""The rule of findings from false checks in a judge's report."""

OF_SCORE = "judge.score"
"""The rule of the finding from a judge's score that does not pass."""

OF_JUDGES = (OF_JUDGE, OF_CHECK, OF_SCORE)


class Defect(Value, frozen=True):
    """What tells one defect of a validator from another."""

    rule: str
    location: str = ""
    message: str = ""
    key: str = ""
    """Its reviewer's name for it, however the rest is worded; if there is one, it alone counts."""


def finding_id(validator: str, rule: str, location: str, message: str) -> str:
    """Twelve hex digits that stay the same while the defect does; see "Findings" of the language.

    Lines and columns do not count, so that a defect which only moved down the text keeps its id.
    All other numbers do: "Task 2" is not "Task 3", and `nodes[2]` not `nodes[3]`.
    """
    return _digest([validator, rule, _normalise(location), _normalise(message)])


def note(code: str, message: str) -> Finding:
    """A finding on how an artifact was made, which blocks nothing."""
    by = OF_ARTIFACT
    identity = finding_id(by, code, "", message)
    return Finding(id=identity, message=message, blocking=False, validator=by, rule=code, code=code)


def finding_ids(
    validator: str, defects: Iterable[Defect], *, shares_keys: bool = False
) -> list[str]:
    """An id of its own for each defect, in order.

    Equal defects are counted, so that mending one of three is seen as progress: the third loses
    its id, the first two keep theirs. With `shares_keys` one key is one defect whichever validator
    names it.
    """
    seen: dict[str, int] = {}
    ids = []
    for defect in defects:
        scope = "" if defect.key and shares_keys else validator
        first = _id(scope, defect)
        seen[first] = seen.get(first, 0) + 1
        ids.append(first if seen[first] == 1 else _id(scope, defect, f"#{seen[first]}"))
    return ids


def _id(scope: str, defect: Defect, number: str = "") -> str:
    if not defect.key:
        return finding_id(scope, defect.rule, f"{defect.location}{number}", defect.message)
    key = " ".join(as_nfc(defect.key).casefold().split())
    return _digest([scope, defect.rule, "key", key, number])


def _digest(parts: list[str]) -> str:
    # JSON, because it keeps the parts apart and can spell any text.
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def _normalise(text: str) -> str:
    folded = as_nfc(text).casefold()
    placeless = _LINE_AFTER_FILE.sub(r"\1", _LINE.sub(" ", folded))
    return " ".join(placeless.split()).rstrip(".! ")
