"""Judging by rules: what they may look at, and the finding for what is no artifact."""

from __future__ import annotations

from pathlib import Path

from loopkit.drive.active import ActiveRun
from loopkit.engine.events import Artifact
from loopkit.engine.findings import Answer, Finding
from loopkit.engine.identity import OF_ARTIFACT, finding_id
from loopkit.engine.template_values import AllNames, attempt_of
from loopkit.machine.asked import FixedRules
from loopkit.validators.setting import Setting


def content_fault(artifact: Artifact, severity: str) -> Answer:
    """The author's content fault as a blocking finding; no rule is run on what is no artifact."""
    finding = Finding(
        id=finding_id(OF_ARTIFACT, artifact.fault_code, "", artifact.fault_code),
        message=f"{artifact.name}: {artifact.fault}",
        severity=severity,
        validator=OF_ARTIFACT,
        rule=artifact.fault_code,
        code=artifact.fault_code,
        # A schema is broken in many ways; all other faults are one each.
        identified=artifact.fault_code != "schema",
    )
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
