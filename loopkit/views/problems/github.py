"""Problems as workflow commands, which GitHub shows beside the lines of a change."""

from __future__ import annotations

from collections.abc import Mapping

from loopkit.document.problems import Problem
from loopkit.views.problems.examined import Examined

COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}
IN_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
IN_PROPERTIES = {**IN_DATA, ":": "%3A", ",": "%2C"}


def as_github(examined: Examined) -> str:
    return "\n".join(_command(problem) for problem in examined.problems)


def _command(problem: Problem) -> str:
    properties = {"title": problem.code}
    if (span := problem.span) is not None:
        place = {"file": span.file, "line": str(span.line), "col": str(span.column)}
        properties = {**place, **properties}
    joined = ",".join(f"{key}={_escape(value, IN_PROPERTIES)}" for key, value in properties.items())
    text = problem.message + (f"\nhelp: {problem.help}" if problem.help else "")
    return f"::{COMMANDS[problem.severity]} {joined}::{_escape(text, IN_DATA)}"


def _escape(text: str, codes: Mapping[str, str]) -> str:
    return "".join(codes.get(char, char) for char in text)
