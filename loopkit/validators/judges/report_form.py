"""The form of a report: ours, or one that a `map` reads; its parts, its words, how it rejects."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from loopkit.language.agents import Agent
from loopkit.language.datatypes.datatype import DataType, conform
from loopkit.language.datatypes.notation import parse_fields
from loopkit.language.facts import Severities
from loopkit.language.machine import NO_FINDING
from loopkit.language.template.rendering import parse
from loopkit.language.validators.judge import JudgeRule, Score
from loopkit.language.validators.report_map import ReportMap
from loopkit.validators.judges.form import AnswerForm, VerdictWord, quote, words_for
from loopkit.validators.judges.report_parts import Report
from loopkit.values import field

if TYPE_CHECKING:
    from loopkit.engine.findings import Finding

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
    score: Score | None = None
    """The bounds of the score, if a report has to give one."""
    origins: Sequence[str] = ()
    """The states that the machine declares as origins of defects."""
    of_author: Sequence[str] = ()
    """The origins that can have injected a defect in the artifact, the earliest first."""
    known: Sequence[Finding] = ()
    """The earlier findings; a report in our form says of each whether it is still open."""

    is_mapped: ClassVar[bool] = True
    """Whether a report has another shape than ours."""

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
        """Whether a report has to have a verdict."""
        return self.parts.verdict is not None or bool(self.parts.verdicts)

    @property
    def has_severity(self) -> bool:
        """Whether each finding that is an object has a severity."""
        return self.parts.severity is not None or bool(self.parts.severities)

    def conform_report(self, report: Report) -> tuple[Report, Sequence[tuple[str, str]]]:
        """The report with the defaults of its schema, and its violations of the schema."""
        if self.datatype is None:
            return report, ()
        filled, faults = conform(report, self.datatype)
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
        return f"{FORM_BY_SCHEMA}{schema}\n\n{self._agreement}".rstrip()

    @property
    def _agreement(self) -> str:
        """Which verdict goes with which findings, if a report has to have both."""
        fails, errors = words_for(self.verdicts, "fail"), self._errors
        if not (self.has_verdict and self.has_severity and fails and errors):
            return ""
        verdict, severity, findings = map(quote, (self.verdict, self.severity, self.parts.findings))
        return (
            f"{verdict} is {fails} if, and only if, "
            f"some item of {findings} has {severity} {errors}."
        )

    @property
    def _errors(self) -> str:
        """The words for what has to be corrected."""
        return words_for(self.severities, *self.levels.severe)

    def missing_error(self, names_any: bool) -> str:
        is_empty = self.is_mapped and not names_any
        none = f"no finding has the severity {self._errors}"
        none = f"{quote(self.parts.findings)} names none" if is_empty else none
        return f"{none}. Name what has to be corrected, or give another verdict."

    def unwanted_error(self) -> str:
        fails = words_for(self.verdicts, "fail")
        milder = words_for(self.severities, *self.levels.mild, NO_FINDING)
        ways = [f"the verdict {fails}"] if fails else []
        ways += [f"the finding a {milder}"] if milder else []
        made = ", or ".join(ways) or "them agree"
        return f"a finding has the severity {self._errors}. Make {made}."


_FORM = """\
Answer with one JSON object and nothing else, in exactly this form:

{"verdict": "{{ verdicts | join('|') }}"{% if score %}, "score": {{ score.max }}{% endif %}, \
{% if known %}"known": {"ID": "open|resolved"}, {% endif %}\
"findings": [{"message": "…", "severity": "{{ levels | join('|') }}", \
{% if keyed %}"key": "…", {% endif %}\
{% if origins %}"origin": "{{ origins | join('|') }}", {% endif %}\
"code": "…", "location": "…", "line": 1}]}

- "fail": something has to be corrected; at least one finding{{ ", new or still open," if known }} \
has the severity {{ severe }}.
{% if mild %}
- "warn": nothing has to be, but something should; at least one finding\
{{ ", new or still open" if known }}, all with {{ mild }}.
{% endif %}
- "pass": nothing is wrong; "findings" is [].
{% if score %}
- "score": a number from {{ score.min }} to {{ score.max }}; the higher, the better.
{% endif %}
{% if known %}
- {{ known }}
{% endif %}
{% if keyed %}
- "key": a short name for the defect that every reviewer would give it, whatever the words of the \
message.
{% endif %}
{% if origins %}
- "origin": the state that has made the defect, the earliest one whose work has to change.
{% endif %}
- "message" says in a sentence or two what is wrong and what is expected instead.
- "code" (a short name for the kind of defect), "location" (the heading or field) and "line" (a \
line number) may be left out{{ ', and so may "origin" where you cannot tell' if origins }}."""


class OwnForm(ReportForm, frozen=True, kw_only=True):
    """Our form, in which a report has a verdict and each finding a severity."""

    parts: ReportMap = field(
        default_factory=lambda: ReportMap(verdict="verdict", severity="severity")
    )

    is_mapped = False
    key = "key"
    own_names = ("message", "severity", "code", "location", "line", "key", "origin")

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
        origin = {"type": ["string", "null"], "enum": [*self.asked_origins, None]}
        finding = _strict_object(
            {
                "message": {"type": "string"},
                "severity": {"type": "string", "enum": list(self.levels.levels)},
                **({"key": {"type": ["string", "null"]}} if self.shares_keys else {}),
                **({"origin": origin} if self.asked_origins else {}),
                "code": {"type": ["string", "null"]},
                "location": {"type": ["string", "null"]},
                "line": {"type": ["integer", "null"]},
            }
        )
        parts: dict[str, Any] = {
            "verdict": {"type": "string", "enum": list(self._offered_verdicts)}
        }
        if self.score is not None:
            # The reader checks the bounds: not every provider takes them.
            parts["score"] = {"type": "number"}
        if self.nonce:
            parts[NONCE] = {"type": "string"}
        if self.known:
            standing = {"type": "string", "enum": list(STANDINGS)}
            parts[KNOWN] = _strict_object({finding.id: standing for finding in self.known})
        return _strict_object({**parts, "findings": {"type": "array", "items": finding}})

    @property
    def instructions(self) -> str:
        levels, score = self.levels, self.score
        return parse(_FORM).render(
            {
                "verdicts": self._offered_verdicts,
                "levels": levels.levels,
                "severe": words_for(self.severities, *levels.severe),
                "mild": words_for(self.severities, *levels.mild),
                "score": score and {"min": f"{score.min:g}", "max": f"{score.max:g}"},
                "known": OF_KNOWN if self.known else "",
                "keyed": self.shares_keys,
                "origins": self.asked_origins,
            }
        )

    @property
    def _offered_verdicts(self) -> tuple[str, ...]:
        """The verdicts to choose from; where every finding rejects, there is no `warn`."""
        return ("pass", "warn", "fail") if self.levels.mild else ("pass", "fail")


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
        origins=origins,
    )
