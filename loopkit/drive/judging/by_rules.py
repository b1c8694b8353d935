"""Judging by rules: what they may look at, and the finding for a faulty artifact."""

from __future__ import annotations

from pathlib import Path

from loopkit.drive.active import ActiveRun
from loopkit.engine.artifact_faults import fault_finding
from loopkit.engine.events import Artifact
from loopkit.engine.findings import Answer
from loopkit.engine.identity import OF_ARTIFACT
from loopkit.engine.template_values import AllNames, attempt_of
from loopkit.language.severities import Severities
from loopkit.machine.asked import FixedRules
from loopkit.validators.setting import Setting


def answer_without_rules(artifact: Artifact, levels: Severities) -> Answer:
    """The answer if no rule is asked: the artifact is faulty, or says that it can't be done."""
    if artifact.infeasible:
        reason = f"`{artifact.author}` declared that it can't be done"
        return Answer(validator=artifact.author, verdict="infeasible", reason=reason)
    return content_fault(artifact, levels.worst)


def content_fault(artifact: Artifact, severity: str) -> Answer:
    """The author's content fault as a blocking finding; no rule is run on a faulty artifact."""
    finding = fault_finding(artifact, severity)
    return Answer(validator=OF_ARTIFACT, verdict="fail", findings=(finding,))


def setting_for(active: ActiveRun, folder: Path, rules: FixedRules) -> Setting:
    program, run = active.program, active.state
    is_guarded = rules.are_guarded
    return Setting(
        names=AllNames(program, run),
        facts=program.rule_facts(run.input, attempt_of(program, run)) if is_guarded else {},
        patterns=program.machine.patterns,
        severities=rules.levels,
        origins=program.machine.origins,
        input=run.input,
        folder=folder,
        redact=active.redact,
    )
