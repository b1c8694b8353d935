"""Problems that `check` found, for people and for programs: one writer for each format.

The JSON object for scripts is described in `docs/reference/checks.md`; keys are only added.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from loopkit import __version__
from loopkit.checks.codes import CODES
from loopkit.document.problems import Problem, Severity, Span, render
from loopkit.values import Value, field


def as_text(examined: Examined) -> str:
    """Each problem with its place, its line and a caret, for a reader."""
    return render(examined.problems, examined.texts, examined.columns).rstrip("\n")


def as_json(examined: Examined) -> str:
    report = {
        "version": FORMAT_VERSION,
        "files": examined.files,
        "skipped": examined.skipped,
        "errors": examined.count("error"),
        "warnings": examined.count("warning"),
        "notes": examined.count("note"),
        "problems": [_problem(problem) for problem in examined.problems],
    }
    return json.dumps(report, indent=2)


class Examined(Value, frozen=True):
    """The files that were read as machines, with all their problems."""

    files: tuple[str, ...]
    """The names that problems use; `<stdin>` for standard input."""
    problems: tuple[Problem, ...]
    texts: Mapping[str, str] = field(default_factory=dict)
    columns: int | None = None
    """The columns at which lines of a file are cut; None for programs, which get whole lines."""
    skipped: int = 0

    def count(self, severity: Severity) -> int:
        return sum(problem.severity == severity for problem in self.problems)


SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


def sarif_report(examined: Examined) -> str:
    rules = sorted({problem.code for problem in examined.problems})
    known = [_rule(code) for code in rules]
    run = {
        "tool": {"driver": {"name": "loopkit", "version": __version__, "rules": known}},
        # Spans count characters, and not the 16-bit units that are the default.
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True}],
        "artifacts": [{"location": {"uri": _uri(file)}} for file in examined.files],
        "results": [_result(problem, rules.index(problem.code)) for problem in examined.problems],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule(code: str) -> dict[str, Any]:
    page = f"docs/reference/checks.md#{code}"
    link = f"See [{code}]({page}) of loopkit."
    return {
        "id": code,
        "shortDescription": {"text": CODES[code].meaning if code in CODES else code},
        # `helpUri` would have to be absolute, and this page comes with loopkit.
        "help": {"text": f"See {page} of loopkit.", "markdown": link},
    }


def _result(problem: Problem, rule_index: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": problem.code,
        "ruleIndex": rule_index,
        "level": problem.severity,
        "message": {"text": _with_help(problem)},
    }
    if problem.span is not None:
        names = {"logicalLocations": [{"fullyQualifiedName": problem.path}]}
        result["locations"] = [{**_location(problem.span), **(names if problem.path else {})}]
    if problem.also:
        result["relatedLocations"] = [
            {"id": number, "message": {"text": label}, **_location(span)}
            for number, (label, span) in enumerate(problem.also)
        ]
    return result


def _location(span: Span) -> dict[str, Any]:
    region = {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(span.file)}, "region": region}}


def _uri(file: str) -> str:
    """A reference relative to where loopkit was called, or `file:` for an absolute path."""
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


FORMAT_VERSION = 1


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "code": problem.code,
        "severity": problem.severity,
        "message": problem.message,
        **_place(problem.span),
        "path": problem.path,
        "help": problem.help,
        "also": [{"message": label, **_place(span)} for label, span in problem.also],
    }


def _place(span: Span | None) -> dict[str, Any]:
    """Lines and columns count from 1, in characters; the end is exclusive."""
    if span is None:
        return {"file": None, "line": None, "column": None, "end": None}
    end = {"line": span.end_line, "column": span.end_column}
    return {"file": span.file, "line": span.line, "column": span.column, "end": end}


COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}
IN_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
IN_PROPERTIES = IN_DATA | str.maketrans({":": "%3A", ",": "%2C"})


def _command(problem: Problem) -> str:
    properties = {"title": problem.code}
    if (span := problem.span) is not None:
        place = {"file": span.file, "line": str(span.line), "col": str(span.column)}
        properties = {**place, **properties}
    joined = ",".join(f"{key}={text.translate(IN_PROPERTIES)}" for key, text in properties.items())
    text = _with_help(problem).translate(IN_DATA)
    return f"::{COMMANDS[problem.severity]} {joined}::{text}"


def _with_help(problem: Problem) -> str:
    return problem.message + (f"\nhelp: {problem.help}" if problem.help else "")


FORMATS: Mapping[str, Callable[[Examined], str]] = {
    "text": as_text,
    "json": as_json,
    "sarif": sarif_report,
    "github": lambda examined: "\n".join(map(_command, examined.problems)),
}
"""Each returns the whole output without a line end; an empty output is not printed at all."""
