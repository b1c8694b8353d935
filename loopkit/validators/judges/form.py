"""A judge's answer in our own words, whatever its form, and when its verdict and findings agree."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Literal, TypeAlias

from loopkit.engine.findings import OF_JUDGE, SAYS_NOTHING, Answer, Defect, Finding, finding_ids
from loopkit.language.agents import Agent
from loopkit.language.agents.model import ModelAgent
from loopkit.language.datatypes.datatype import DataType, conform
from loopkit.language.datatypes.notation import parse_fields
from loopkit.language.facts import Severities
from loopkit.language.machine import NO_FINDING
from loopkit.language.template.rendering import parse
from loopkit.language.validators.judge import JudgeRule, Score
from loopkit.language.validators.report_map import ReportMap
from loopkit.text import fold, shorten
from loopkit.text.patterns import PatternTimeout
from loopkit.values import Value, field

VerdictWord = Literal["pass", "warn", "fail"]
LITERALS = ("true", "false", "null")
"""Words that stand in a report without quotes."""


class Doubt(Exception):
    """An answer, or a part of it, can't be read; the message says why, in sentences for the
    judge."""


@contextmanager
def noting(doubts: list[str]) -> Iterator[None]:
    """Note why what is read inside can't be read, and go on without it."""
    try:
        yield
    except (Doubt, PatternTimeout) as doubt:
        doubts.append(str(doubt))


class Misread(Value, frozen=True):
    """No verdict could be read; the reason is in sentences that the judge can act on."""

    reason: str
    last_resort: Answer | None = None
    """For a rejection, or a warning in text that names nothing: what could be read of it, which
    counts if asking again brings nothing better."""
    stands: bool = False
    """Whether it rejects for a reason that can be read: an approval that follows does not count."""
    contradicts: bool = False
    """Whether it can be read, and approves against its own findings or numbers."""

    @property
    def rejects(self) -> bool:
        rest = self.last_resort
        return self.stands or (rest is not None and rest.verdict == "fail")


class Opinion(Value, frozen=True, kw_only=True):
    """What a judge says, before it is known whether that can count."""

    verdict: VerdictWord | None
    """None where it is left to the findings."""
    word: str = ""
    """The verdict as the judge writes it."""
    findings: Sequence[Finding] = ()
    """Those that it names, and the earlier ones that it leaves open."""
    facts: Sequence[Finding] = ()
    """Checks that failed, and fewer criteria met than checked: they contradict no verdict, and
    count by themselves."""
    score: float | None = None
    doubts: Sequence[str] = ()
    """What of it can't be read."""
    conflicts: Sequence[str] = ()
    """Numbers that do not match what is listed, and open findings that its verdict leaves out."""
    words: str = ""
    """Its own words, for a verdict that names nothing."""
    remark: str = ""
    """What a person should know of these words."""

    @property
    def stands(self) -> bool:
        """Whether it is a fail that names a reason, and no more than its form is in doubt."""
        words = self.words not in ("", SAYS_NOTHING)
        is_named = words or self.findings or self.facts
        is_in_doubt = words or self.doubts or self.conflicts
        return self.verdict == "fail" and bool(is_named and is_in_doubt)


class AnswerForm(Value, frozen=True, kw_only=True):
    """How a judge answers: with a report in JSON, or in text."""

    levels: Severities = Severities()
    """How bad findings can be."""
    cap: str | None = None
    """The highest severity of its findings, whatever the answer says."""
    shares_keys: bool = False
    """Whether one key is one finding, whichever judge of a panel names it."""
    nonce: str = ""
    """The code that the answer has to repeat; empty for none."""

    is_mapped: ClassVar[bool] = True
    """Whether an answer has another shape than ours."""

    @property
    @abstractmethod
    def instructions(self) -> str:
        """How to answer, in the words of a prompt."""

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON Schema of the answer; None for text, and where it is not declared."""
        return None

    @abstractmethod
    def missing_error(self, names_any: bool) -> str:
        """The reason against a `fail` without an error; `names_any`: it has milder findings."""

    @abstractmethod
    def unwanted_error(self, named: str) -> str:
        """The reason against the errors `named` beside another verdict than `fail`."""

    def default_level(self, verdict: VerdictWord | None) -> str:
        """The severity of a finding that does not have to name one."""
        return self.levels.advisory if verdict in ("pass", "warn") else self.levels.ungraded

    def contradictions(self, said: Opinion) -> Iterator[str]:
        severities = [one.severity for one in said.findings]
        if said.verdict == "fail":
            severities += [one.severity for one in said.facts]
        if said.verdict is None or (said.facts and not severities):
            return
        has_error = any(map(self.levels.is_severe, severities))
        # Where nothing can reject, any finding explains a verdict, whatever its severity.
        only_advises = self.cap is not None and not self.levels.is_severe(self.cap)
        start = f"The verdict is {said.word}, but"
        if said.verdict == "fail" and not (severities if only_advises else has_error):
            other = "" if said.stands else ", or give another verdict"
            yield f"{start} {self.missing_error(bool(severities))}{other}."
        elif said.verdict != "fail" and any(self.levels.rejects(s, self.cap) for s in severities):
            wrong = [one for one in said.findings if self.levels.rejects(one.severity, self.cap)]
            named = "; ".join(quote(shorten(one.message, 200)) for one in wrong[:MAX_FAULTS])
            yield f"{start} {self.unwanted_error(named)}"
        elif said.verdict == "warn" and not severities:
            remedy = "Name what should be better, or give another verdict."
            yield f"{start} there are no findings. {remedy}"


def quote(word: str) -> str:
    """A word of a table in the form that a report has to use."""
    return word if fold(word) in LITERALS else json.dumps(word, ensure_ascii=False)


def words_for(words: Mapping[str, str], *meanings: str) -> str:
    """The words with one of these meanings, as a choice for the judge; "" if there is none."""
    return " or ".join(quote(word) for word, meant in words.items() if meant in meanings)


Report: TypeAlias = dict[str, object]
MAX_LINE = 2**31
MAX_FAULTS = 5
"""The most faults of an answer that a judge is told at once."""
OWN_WORDS_CHARS = 8_000
"""The most characters of a judge's own words in one finding."""


def unmet_criteria(validator: str, met: int, checked: int, form: AnswerForm) -> tuple[Finding, ...]:
    """A warning where fewer criteria are met than were checked; raises Doubt where more are."""
    if met > checked:
        raise Doubt(f"It says that {met} criteria are met, and that {checked} were checked.")
    if met == checked:
        return ()
    message = f"{met} of {checked} criteria are met."
    # The numbers change from round to round, and it stays the same finding.
    own = Finding(id="", message=message, severity=form.levels.advisory, key="unmet criteria")
    return tuple(identify(validator, [own], form))


def identify(
    validator: str, findings: Sequence[Finding], form: AnswerForm, rule: str = OF_JUDGE
) -> list[Finding]:
    """The findings with their ids, and with whether they block."""
    defects = [Defect(rule, one.location, one.message, one.key) for one in findings]
    ids = finding_ids(validator, defects, shares_keys=form.shares_keys)
    return [
        one.replace(
            id=identity,
            blocking=form.levels.is_severe(one.severity),
            validator=validator,
            rule=rule,
        )
        for identity, one in zip(ids, findings, strict=True)
    ]


VERDICTS: Mapping[str, VerdictWord] = {"pass": "pass", "warn": "warn", "fail": "fail"}
FORM_BY_SCHEMA = "Answer with one JSON object and nothing else. It fits this JSON Schema:\n\n"
FORM_AS_ASKED = "Answer with one JSON object and nothing else, in the form that was asked for."
KNOWN = "known"
"""The key in a report of our form for the findings that were open, by their ids."""
Standing = Literal["open", "resolved"]
STANDINGS: Mapping[str, Standing] = {"open": "open", "resolved": "resolved"}
OF_KNOWN = """\
"known" says of each finding that was open, by its id, whether it is still "open" in this version \
or "resolved". "findings" holds only what is not among them."""
NONCE = "nonce"
"""The field of a report that repeats the code of the question."""


class ReportForm(AnswerForm, frozen=True, kw_only=True):
    """The form of a report that a `map` reads; our own form is a strict one of these."""

    parts: ReportMap = field(default_factory=ReportMap)
    datatype: DataType | None = None
    """The type of a report of another form, if its agent declares one."""
    is_sent: bool = False
    """Whether the agent is sent the schema of that type apart from the prompt."""
    score: Score | None = None
    origins: Sequence[str] = ()
    """The states that the machine declares as origins of defects."""
    of_author: Sequence[str] = ()
    """The origins that can have injected a defect in the artifact, the earliest first."""
    known: Sequence[Finding] = ()
    """The earlier findings; a report in our form says of each whether it is still open."""

    @property
    def verdict(self) -> str:
        return self.parts.verdict or "verdict"

    @property
    def severity(self) -> str:
        return self.parts.severity or "severity"

    @property
    def verdicts(self) -> Mapping[str, VerdictWord]:
        return self.parts.verdicts or VERDICTS

    @property
    def severities(self) -> Mapping[str, str]:
        return self.parts.severities or {level: level for level in self.levels.levels}

    @property
    def has_verdict(self) -> bool:
        return self.parts.verdict is not None or bool(self.parts.verdicts)

    @property
    def has_severity(self) -> bool:
        return self.parts.severity is not None or bool(self.parts.severities)

    @property
    def marks(self) -> Sequence[str]:
        """The paths of which a report has at least one."""
        scores = () if self.least is None else (self.parts.score,)
        return (self.verdict, self.parts.findings, *scores)

    @property
    def least(self) -> float | None:
        """The lowest score that passes, if the score decides."""
        return None if self.score is None else self.score.pass_

    @property
    def example(self) -> Report:
        """The report that the instructions show; empty where they show none."""
        return {}

    def conform_report(self, report: Report) -> tuple[Report, Sequence[tuple[str, str]]]:
        """The report with the defaults of its schema, and its violations of the schema."""
        filled, faults = conform(report, self.datatype) if self.datatype else (report, ())
        return (filled if isinstance(filled, dict) else report), faults

    @property
    def key(self) -> str | None:
        """The path of the name that a finding has in every round, if it can have one."""
        return self.parts.key

    @property
    def origin(self) -> str | None:
        """The path of the state that injected a defect, if a report can name it."""
        if not self.origins:
            return None
        return self.parts.origin or ("origin" if self.parts.origins else None)

    @property
    def own_names(self) -> Collection[str]:
        """The fields of an item that are not kept as further fields."""
        return (self.parts.message,)

    @property
    def origin_words(self) -> Mapping[str, Sequence[str]]:
        return self.parts.origins or {name: (name,) for name in self.origins}

    @property
    def takes_texts(self) -> bool:
        """Whether a finding may be a text instead of an object."""
        return self.is_mapped and self.parts.key is None

    @property
    def item(self) -> str:
        """What an item in the list of findings has to be."""
        severity = self.severity if self.has_severity else None
        keys = [key for key in (self.parts.message, severity, self.parts.key) if key is not None]
        record = f"an object with {' and '.join(map(quote, keys))}"
        return f"a text, or {record}" if self.takes_texts else record

    @property
    def schema(self) -> Mapping[str, Any] | None:
        return self.datatype.schema if self.datatype else None

    @property
    def instructions(self) -> str:
        if self.datatype is None:
            return FORM_AS_ASKED
        schema = json.dumps(self.datatype.schema, indent=2, ensure_ascii=False)
        form = FORM_AS_ASKED if self.is_sent else FORM_BY_SCHEMA + schema
        return f"{form}\n\n{self._agreement}".rstrip()

    @property
    def _agreement(self) -> str:
        """Which verdict goes with which findings, if a report has to have both."""
        fails = words_for(self.verdicts, "fail")
        errors = self._errors
        if not (self.has_verdict and self.has_severity and fails and errors):
            return ""
        verdict, severity, findings = map(quote, (self.verdict, self.severity, self.parts.findings))
        has_one = f"some item of {findings} has {severity} {errors}"
        return f"{verdict} is {fails} if, and only if, {has_one}."

    @property
    def _errors(self) -> str:
        return words_for(self.severities, *self.levels.severe)

    def missing_error(self, names_any: bool) -> str:
        none = f"no finding has the severity {self._errors}"
        if self.is_mapped and not names_any:
            none = f"{quote(self.parts.findings)} names none"
        return f"{none}. Name what has to be corrected"

    def unwanted_error(self, named: str) -> str:
        fails = words_for(self.verdicts, "fail")
        milder = words_for(self.severities, *self.levels.mild, NO_FINDING)
        ways = [f"the verdict {fails}"] if fails else []
        ways += [f"the finding a {milder}"] if milder else []
        made = ", or ".join(ways) or "them agree"
        return f"a finding has the severity {self._errors}: {named}. Make {made}."


_FORM = """\
Answer with one JSON object and nothing else. For a version with one mistake it would be:

{{ example }}

{% if by_score %}
- "score": a number from {{ score.min }} to {{ score.max }}; the higher, the better. What has less \
than {{ least }} is rejected.
- "findings" may be []; one with the severity {{ severe }} rejects whatever the score is.
{% else %}
- "verdict": "fail" where something has to be corrected; at least one finding\
{{ ", new or still open," if known }} has the severity {{ severe }}.
{% if mild %}
- "verdict": "warn" where nothing has to be, but something should; at least one finding\
{{ ", new or still open" if known }}, all with {{ mild }}.
{% endif %}
- "verdict": "pass" where nothing is wrong; "findings" is [].
{% if score %}
- "score": a number from {{ score.min }} to {{ score.max }}; the higher, the better.
{% endif %}
{% endif %}
{% if known %}
- {{ known }}
{% endif %}
- "message": a sentence or two on what is wrong and what is expected instead.
- "severity": {{ levels }}.
{% if keyed %}
- "key": a short name for the defect that every reviewer would give it, whatever the words of the \
message.
{% endif %}
{% if origins %}
- "origin": the state that has made the defect, the earliest one whose work has to change: \
{{ origins }}. It may be left out where you cannot tell.
{% endif %}
- A finding may also have "code" (a short name for the kind of defect), "location" (the heading or \
field) and "line" (a line number)."""


class OwnForm(ReportForm, frozen=True, kw_only=True):
    """Our form, in which a report has a verdict and each finding a severity."""

    is_mapped = False
    has_severity = True
    key = "key"
    own_names = ("message", "severity", "code", "location", "line", "key", "origin")

    @property
    def has_verdict(self) -> bool:
        return self.least is None

    @property
    def origin(self) -> str | None:
        return "origin" if self.origins else None

    @property
    def asked_origins(self) -> Sequence[str]:
        """The origins that a judge can choose from; empty unless there are several."""
        asked = self.of_author or self.origins
        return asked if len(asked) > 1 else ()

    @property
    def schema(self) -> Mapping[str, Any]:
        """Every key is required, because only then do providers keep a schema strictly; an optional
        one may be null."""
        text = {"type": ["string", "null"]}
        origin = {**text, "enum": [*self.asked_origins, None]}
        finding = _strict_object(
            {
                "message": {"type": "string"},
                "severity": {"type": "string", "enum": list(self.levels.levels)},
                **({"key": text} if self.shares_keys else {}),
                **({"origin": origin} if self.asked_origins else {}),
                "code": text,
                "location": text,
                "line": {"type": ["integer", "null"]},
            }
        )
        # Where every finding rejects, there is nothing to warn of.
        verdicts = [word for word in VERDICTS if word != "warn" or self.levels.mild]
        standing = {"type": "string", "enum": list(STANDINGS)}
        parts = {
            "verdict": self.least is None and {"type": "string", "enum": verdicts},
            # The reader checks the bounds: not every provider takes them.
            "score": self.score is not None and {"type": "number"},
            NONCE: bool(self.nonce) and {"type": "string"},
            KNOWN: bool(self.known) and _strict_object({one.id: standing for one in self.known}),
            "findings": {"type": "array", "items": finding},
        }
        return _strict_object({name: schema for name, schema in parts.items() if schema})

    @property
    def example(self) -> Report:
        message = "What is wrong, and what is expected instead."
        finding = {"message": message, "severity": self.levels.worst}
        finding |= {"key": "short name"} if self.shares_keys else {}
        finding |= {"origin": self.asked_origins[0]} if self.asked_origins else {}
        parts: Report = {"verdict": "fail"} if self.least is None else {}
        low = self.score.min if self.score else 0
        parts |= {"score": low if low % 1 else int(low)} if self.score else {}
        parts |= {KNOWN: {one.id: "open" for one in self.known}} if self.known else {}
        return {**parts, "findings": [finding]}

    @property
    def instructions(self) -> str:
        levels, score = self.levels, self.score
        return parse(_FORM).render(
            {
                "example": json.dumps(self.example, ensure_ascii=False),
                "levels": " or ".join(map(quote, levels.levels)),
                "severe": words_for(self.severities, *levels.severe),
                "mild": words_for(self.severities, *levels.mild),
                "by_score": self.least is not None,
                "score": score and {"min": f"{score.min:g}", "max": f"{score.max:g}"},
                "least": f"{self.least or 0:g}",
                "known": OF_KNOWN if self.known else "",
                "keyed": self.shares_keys,
                "origins": " or ".join(map(quote, self.asked_origins)),
            }
        )


def _strict_object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def report_form_of(
    rule: JudgeRule, agent: Agent, levels: Severities, origins: Sequence[str] = ()
) -> ReportForm:
    """The form of a judge's report; the `schema:` of its agent counts beside a `map` only."""
    if rule.map is None:
        return OwnForm(levels=levels, cap=rule.severity, score=rule.score, origins=origins)
    return ReportForm(
        levels=levels,
        cap=rule.severity,
        score=rule.score,
        parts=rule.map,
        datatype=parse_fields(agent.schema_) if agent.schema_ else None,
        is_sent=isinstance(agent, ModelAgent),
        origins=origins,
    )
