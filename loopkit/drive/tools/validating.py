"""The tool `by`: validators look at a draft, as they look at an answer in a validate state."""

from __future__ import annotations

import hashlib
import json

from loopkit.agents.port import AgentError
from loopkit.drive.artifacts import make_artifact
from loopkit.drive.judging.by_rules import content_fault, setting_for
from loopkit.drive.judging.commands import give_commands
from loopkit.drive.state_files import workspace
from loopkit.drive.tools.call import ToolCalled, ToolResult
from loopkit.engine.diagnostics import diagnostics
from loopkit.engine.events import Artifact, Ran, Replied, Usage
from loopkit.engine.findings import Answer
from loopkit.machine.asked import DRAFT, FixedRules
from loopkit.validators.fixed_rules import judge_placed
from loopkit.validators.judged_artifact import JudgedArtifact


async def run(called: ToolCalled) -> ToolResult:
    """The findings of the validators in a draft, as JSON; raises AgentError if one can't judge."""
    draft = called.arguments[DRAFT]
    text = draft if isinstance(draft, str) else json.dumps(draft, ensure_ascii=False)
    artifact, rules = _artifact(called, text), called.tool.rules
    ran: list[Ran] = []
    assert rules is not None
    if artifact.infeasible:
        return ToolResult(json.dumps(diagnostics((), 0)), found_clean=digest(artifact))
    if artifact.fault:
        answers = [content_fault(artifact, rules.levels.worst)]
    else:
        answers = await _judge(called, artifact, rules, ran)
    findings = tuple(finding for answer in answers for finding in answer.findings)
    result = diagnostics(findings, called.active.program.machine.limits.feedback_items)
    return ToolResult(
        json.dumps(result, ensure_ascii=False),
        found_clean=digest(artifact) if result["ok"] else "",
        findings=findings,
        commands=tuple(ran),
    )


def digest(artifact: Artifact) -> str:
    """The digest of a draft: of its data, or of its text without the blanks around it."""
    content = (
        json.dumps(artifact.data, sort_keys=True) if artifact.is_data else artifact.text.strip()
    )
    return hashlib.sha256(content.encode()).hexdigest()


def _artifact(called: ToolCalled, text: str) -> Artifact:
    active, asked = called.active, called.asked
    attempt = active.state.attempts.get(called.state, 0) + 1
    reply = Replied(key="", text=text, usage=Usage())
    patterns = active.program.machine.patterns
    return make_artifact(reply, asked.agent, asked.output, called.state, attempt, patterns)


async def _judge(
    called: ToolCalled, artifact: Artifact, rules: FixedRules, ran: list[Ran]
) -> list[Answer]:
    """The answers of the rules; the runs of their programs are added to `ran`."""
    active = called.active
    subject = JudgedArtifact(artifact.name, artifact.text, artifact.data, artifact.is_data)
    folder = await workspace(active, called.asked.workspace)
    answers: list[Answer] = []
    for validator, fixed in rules.fixed:
        setting = setting_for(active, folder, rules)
        if validator in rules.starting:
            give_commands(active, called.name, called.index, setting, ran)
        answer = await judge_placed(validator, fixed, subject, setting)
        if answer.verdict == "error":
            raise AgentError(answer.error_class or "fatal", answer.reason)
        answers.append(answer)
    return answers
