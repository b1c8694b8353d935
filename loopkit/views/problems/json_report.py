"""Problems as one JSON object, for scripts. `docs/checks.md` describes it; keys are only added."""

from __future__ import annotations

import json
from typing import Any

from loopkit.document.problems import Problem, Span
from loopkit.views.problems.examined import Examined

FORMAT_VERSION = 1


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
