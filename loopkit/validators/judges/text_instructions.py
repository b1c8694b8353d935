"""Instructions for a judge: how to write its verdict and its findings as text."""

from __future__ import annotations

from loopkit.language.template import parse
from loopkit.validators.judges.report_form import words_for
from loopkit.validators.judges.text_form import VerdictForm

_FORM = """\
Answer in plain text, without a code fence around it.

{% if listed is none %}
Name each finding on a line of its own that starts with a dash and a word in square brackets, \
then the file and line if there are any, and what is wrong and what is expected instead:

- [{{ example }}] src/example.txt:12: what is wrong there
{% else %}
Name each finding so that this regular expression finds it: {{ listed }}
{% endif %}

{% if grades and severe %}
- {{ severe }} as the word of a finding: it has to be corrected.
{% endif %}
{% if grades and mild %}
- {{ mild }} as the word of a finding: it should be.
{% endif %}

{% if counts %}
Say how many criteria you checked and how many are met, so that these regular expressions find \
the numbers: {{ counts.checked }} and {{ counts.met }}

{% endif %}
{% if pattern is none %}
The last line gives your verdict: "Verdict:" and one of the words {{ words }}.
{% else %}
Give your verdict so that this regular expression finds it, with one of the words {{ words }}: \
{{ pattern }}
{% endif %}

{% if fails %}
- {{ fails }}: something has to be corrected; at least one finding says what.
{% endif %}
{% if warns %}
- {{ warns }}: nothing has to be, but something should; at least one finding says what.
{% endif %}
{% if passes %}
- {{ passes }}: nothing is wrong.
{% endif %}"""


def in_words(form: VerdictForm) -> str:
    """How to answer, as a prompt says it."""
    reading, levels = form.reading, form.levels
    # Where every finding rejects, nothing is left to warn of.
    given = {w: meant for w, meant in form.words.items() if meant != "warn" or levels.mild}
    words = {**given, **{level: level for level in levels.levels}}
    findings, pattern, counts = reading.findings, reading.pattern, reading.counts
    return parse(_FORM).render(
        {
            "listed": None if findings is None else form.pattern(findings),
            "grades": findings is None or "(?P<severity>" in form.pattern(findings),
            "example": next(
                (word for word, meant in words.items() if meant == "fail"), levels.worst
            ),
            "severe": words_for(words, "fail", *levels.severe),
            "mild": words_for(words, "warn", *levels.mild),
            "counts": counts
            and {"met": form.pattern(counts.met), "checked": form.pattern(counts.checked)},
            "pattern": None if pattern is None else form.pattern(pattern),
            "words": ", ".join(f'"{word}"' for word in given),
            "fails": words_for(given, "fail"),
            "warns": words_for(given, "warn"),
            "passes": words_for(given, "pass"),
        }
    )
