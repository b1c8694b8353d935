"""What the program of a validator prints, in the form in which its findings are read."""

from __future__ import annotations

import json
from typing import Any

from loopkit.language import CommandRule, Machine, ReportMap
from loopkit.testing.suggesting.reports import Found, report, words
from loopkit.testing.suggesting.said import Call
from loopkit.validators.report_form import ReportForm

FILE = "suggested.txt"


def ended(rule: CommandRule, verdict: str, label: str, machine: Machine, file: str | None) -> Call:
    """How a program ends with a verdict; `file` is the one in which its report lies, if any does.

    `label` is what its finding is called.
    """
    said = _said(rule, verdict, label, machine)
    printed: Call = {}
    if said:
        printed = {"stdout": said} if file is None else {"files": {file: said}}
    is_rejected = verdict == "fail" or (verdict == "warn" and rule.parse in ("exit_code", "junit"))
    code = rule.fail_codes[0] if is_rejected and rule.fail_codes else 0
    return {**({"exit_code": code} if code else {}), **printed}


def _said(rule: CommandRule, verdict: str, label: str, machine: Machine) -> str:
    is_clean, levels = verdict == "pass", machine.levels
    if rule.verdict is not None:
        return words(rule.verdict, verdict, label, machine.patterns)
    match rule.parse:
        case "lines":
            kind = "warning" if verdict == "warn" else "error"
            return "" if is_clean else f"{FILE}:1: {kind}: Suggested finding {label}."
        case "junit":
            failure = "" if is_clean else f'<failure message="Suggested failure {label}."/>'
            return f'<testsuite><testcase name="suggested {label}">{failure}</testcase></testsuite>'
        case "sarif":
            return json.dumps(_sarif(rule, verdict, label))
        case "report":
            form = ReportForm(rule.map or ReportMap(), is_own=rule.map is None, levels=levels)
            level = levels.worst if verdict == "fail" else levels.advisory
            found = () if is_clean else (Found(level, rule.code),)
            return json.dumps(report(form, verdict, found, label))
        case _:
            return "" if is_clean else f"Suggested output {label}."


def _sarif(rule: CommandRule, verdict: str, label: str) -> dict[str, Any]:
    level = "warning" if verdict == "warn" else "error"
    found = {
        "ruleId": rule.code or "suggested",
        "level": level,
        "message": {"text": f"Suggested finding {label}."},
    }
    run = {
        "tool": {"driver": {"name": "suggested"}},
        "results": [] if verdict == "pass" else [found],
    }
    return {"version": "2.1.0", "runs": [run]}
