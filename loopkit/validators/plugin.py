"""`python`: a plug-in judges, in a process of its own that can be ended."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from loopkit.language import PythonRule
from loopkit.outside.processes import (
    CommandNotStarted,
    CommandResult,
    CommandTimeout,
    run_command,
)
from loopkit.outside.python_workers import worker_command, worker_environment
from loopkit.outside.redaction import redact_data
from loopkit.outside.workspace import UnusableWorkspace, prepare
from loopkit.plugins import Finding
from loopkit.text import one_line
from loopkit.validators.command import tail
from loopkit.validators.fault import CannotJudge, Fault
from loopkit.validators.further_fields import further_fields
from loopkit.validators.judged_artifact import JudgedArtifact
from loopkit.validators.seen import sees_values
from loopkit.validators.setting import Setting

WORKER = worker_command("loopkit.outside.plugin_worker")
MAX_REASON = 1_000
MAX_PRINTED = 500
"""The most characters of a broken plug-in's output in the message."""


class _Answer(BaseModel):
    """The answer of the worker."""

    model_config = ConfigDict(extra="forbid", strict=True)

    findings: list[Finding] = []
    error: str = ""


async def check_python(rule: PythonRule, subject: JudgedArtifact, setting: Setting) -> list[Fault]:
    """A fault for each finding of the plug-in.

    Anything else is not a verdict: raises CannotJudge, transient after a timeout.
    """
    try:
        result = await run_command(
            WORKER,
            cwd=None if setting.folder is None else prepare(setting.folder),
            env=worker_environment(rule.env),
            stdin=json.dumps(_request(rule, subject, setting)),
            timeout_s=rule.timeout,
        )
    except (CommandNotStarted, UnusableWorkspace) as error:
        raise CannotJudge(_failure_text(rule, str(error), setting)) from error
    except CommandTimeout as error:
        reason = f"it took longer than {rule.timeout:g} s; give it more `timeout`, or less to do"
        raise CannotJudge(
            _failure_text(rule, reason, setting, error.stderr), "transient"
        ) from error
    found = _read_answer(rule, result, setting)
    return [_fault(rule, finding, setting) for finding in found.findings]


def _request(rule: PythonRule, subject: JudgedArtifact, setting: Setting) -> dict[str, Any]:
    return {
        "python": rule.python,
        "folder": rule.folder,
        "value": subject.data if subject.is_data else subject.content,
        "context": {
            "artifact": subject.artifact,
            "attempt": setting.names.get("attempt", 1),
            "input": setting.names.get("input", {}),
            "arguments": rule.with_,
            "seen": sees_values(rule, setting.names),
        },
    }


def _read_answer(rule: PythonRule, result: CommandResult, setting: Setting) -> _Answer:
    try:
        found = _Answer.model_validate_json(result.stdout)
    except ValidationError as error:
        code = result.exit_code
        ended = f"exit code {code}" if code >= 0 else f"signal {-code}"
        reason = f"its process ended with {ended} and gave no answer"
        raise CannotJudge(_failure_text(rule, reason, setting, result.stderr)) from error
    if found.error:
        raise CannotJudge(_failure_text(rule, found.error, setting, result.stderr))
    return found


def _failure_text(rule: PythonRule, reason: str, setting: Setting, stderr: str = "") -> str:
    printed = tail("", stderr, MAX_PRINTED)
    saying = f"; it printed:\n{printed}" if printed else ""
    failed = f"the plug-in `{rule.python}` failed: {one_line(reason, MAX_REASON)}"
    return setting.redact(f"{failed}{saying}")


def _fault(rule: PythonRule, finding: Finding, setting: Setting) -> Fault:
    levels = setting.severities.levels
    if finding.severity and finding.severity not in levels:
        reason = f"it returned the severity {finding.severity!r}; there are {', '.join(levels)}"
        raise CannotJudge(_failure_text(rule, reason, setting))
    message = setting.redact(finding.message)
    return Fault(
        message,
        message,
        setting.redact(one_line(finding.location)),
        line=finding.line,
        severity=finding.severity,
        code=setting.redact(one_line(finding.code)),
        key=setting.redact(one_line(finding.key)),
        fields=further_fields(redact_data(finding.fields, setting.redact), ()),
        value=message,
    )
