"""Our own form of a report: the instructions for a judge, and its JSON Schema."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from typing import Any

from loopkit.language import ReportMap
from loopkit.language.template import parse
from loopkit.validators.judges.form import words_for
from loopkit.validators.judges.known_findings import KNOWN, OF_KNOWN, STANDINGS
from loopkit.validators.judges.report_form import ReportForm
from loopkit.validators.judges.report_parts import Report
from loopkit.values import field

NONCE = "nonce"
"""The field of a report that repeats the code of the question."""
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

    keeps_others: bool = False
    """Whether a finding keeps fields that are not in our form."""

    items = "objects"
    is_mapped = False
    key = "key"
    takes_texts = False

    @property
    def origin(self) -> str | None:
        return "origin" if self.origins else None

    @property
    def asked_origins(self) -> Sequence[str]:
        """The origins that a judge can choose from; empty unless there are several."""
        asked = self.of_author or self.origins
        return asked if len(asked) > 1 else ()

    @property
    def own_names(self) -> Collection[str] | None:
        parts = self.parts
        names = (parts.message, self.severity, parts.code, parts.location, parts.line, self.key)
        return (*names, "origin") if self.keeps_others else None

    def text_of(self, value: object) -> str | None:
        return value if isinstance(value, str) else None

    def missing_error(self, names_any: bool) -> str:
        return super().missing_error(names_any=True)

    def rejection_texts(self, report: Report) -> Iterator[str]:
        yield from _texts(
            report, {self.verdict, self.severity, self.parts.code, KNOWN, self.key, NONCE, "origin"}
        )

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


def _texts(value: object, skipped_keys: Set[str]) -> Iterator[str]:
    """Every text in a report that is not blank."""
    if isinstance(value, str) and value.strip():
        yield value.strip()
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key not in skipped_keys:
                yield from _texts(inner, skipped_keys)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, skipped_keys)
