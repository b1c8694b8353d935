"""Problems as SARIF 2.1.0 (OASIS), the exchange format of static analysis tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from loopkit import __version__
from loopkit.checks.codes import MEANINGS
from loopkit.document.problems import Problem, Span
from loopkit.views.problems.examined import Examined

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


def as_sarif(examined: Examined) -> str:
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
    page = f"docs/checks.md#{code}"
    link = f"See [{code}]({page}) of loopkit."
    return {
        "id": code,
        "shortDescription": {"text": MEANINGS.get(code, code)},
        # `helpUri` would have to be absolute, and this page comes with loopkit.
        "help": {"text": f"See {page} of loopkit.", "markdown": link},
    }


def _result(problem: Problem, rule_index: int) -> dict[str, Any]:
    text = problem.message + (f"\nhelp: {problem.help}" if problem.help else "")
    result: dict[str, Any] = {
        "ruleId": problem.code,
        "ruleIndex": rule_index,
        "level": problem.severity,
        "message": {"text": text},
    }
    if problem.span is not None:
        result["locations"] = [{**_location(problem.span), **_logical(problem.path)}]
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


def _logical(path: str) -> dict[str, Any]:
    return {"logicalLocations": [{"fullyQualifiedName": path}]} if path else {}


def _uri(file: str) -> str:
    """A reference relative to where loopkit was called, or `file:` for an absolute path."""
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
