"""A validate state: deterministic rules, then judges where nothing blocks, then one report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from loopkit import ledger
from loopkit.agents.port import AgentError
from loopkit.definition import JudgeRule, Rule, ValidateState
from loopkit.events import Artifact, Outcome, Worked
from loopkit.findings import Answer, Finding, Report
from loopkit.names import all_names, attempt_of
from loopkit.processes import CommandNotStarted, CommandResult, run_command
from loopkit.runner.active import ActiveRun
from loopkit.runner.work.judge import Judge, ask_all
from loopkit.runner.work.place import workspace
from loopkit.validators import Setting, Subject, judge_deterministic
from loopkit.validators.identity import finding_id


async def perform(active: ActiveRun, name: str, state: ValidateState) -> Worked:
    """Judge the artifact; a report that no transition names goes to the error edge."""
    artifact = active.state.artifacts[state.validate_]
    started = active.clock.monotonic()
    judged_before = active.state.usage.time_s
    answers = await _answers(active, name, state, artifact)
    spent = active.clock.monotonic() - started
    asked = active.state.usage.time_s - judged_before
    stall = active.program.machine.limits.stall
    report = ledger.complete(active.state, name, artifact, answers, stall=stall)
    return _worked(active, name, report, time_s=max(0.0, spent - asked))


def _worked(active: ActiveRun, name: str, report: Report, time_s: float) -> Worked:
    facts = dict(ledger.facts_of(report))
    routed = active.program.rows_named[name]
    outcome: Outcome = "done"
    if report.verdict == "incomplete" and "incomplete" not in routed:
        outcome = report.error_class or "fatal"
    if report.verdict == "infeasible" and "infeasible" not in routed:
        outcome = "content"
    return Worked(
        state=name,
        visit=active.state.visit,
        outcome=outcome,
        facts=facts,
        report=report,
        time_s=time_s,
        error="" if outcome == "done" else f"{report.verdict}: {report.reason}",
        resume_at=max((a.resume_at for a in report.answers if a.resume_at), default=None),
    )


async def _answers(
    active: ActiveRun, name: str, state: ValidateState, artifact: Artifact
) -> list[Answer]:
    if artifact.infeasible:
        reason = f"`{artifact.author}` declared that it can't be done"
        return [Answer(validator=artifact.author, verdict="infeasible", reason=reason)]
    if artifact.fault:
        return [_content_fault(artifact)]
    subject = Subject(artifact.name, artifact.text, artifact.data, artifact.is_data)
    setting = _setting(active, state)
    answers: dict[str, Answer] = {}
    validators = active.program.validators_of(state)
    for validator, rules in validators.items():
        fixed = [rule for rule in rules if not isinstance(rule, JudgeRule)]
        if fixed:
            own = _played(active, validator, setting)
            answers[validator] = await judge_deterministic(validator, fixed, subject, own)
        if state.stop == "first" and _blocks(answers):
            break
    blocked = _blocks(answers)
    judges = _judges(active, name, validators, artifact.author)
    asked = [judge for judge in judges if judge.rule.always or not blocked]
    given = await ask_all(asked, subject, setting)
    return [*answers.values(), *given]


def _blocks(answers: Mapping[str, Answer]) -> bool:
    return any(finding.blocking for answer in answers.values() for finding in answer.findings)


def _content_fault(artifact: Artifact) -> Answer:
    """The author's content fault as a blocking finding; no rule is run on what is no artifact."""
    finding = Finding(
        id=finding_id("artifact", artifact.fault_code, "", artifact.fault_code),
        message=f"{artifact.name}: {artifact.fault}",
        validator="artifact",
        rule=artifact.fault_code,
        code=artifact.fault_code,
    )
    return Answer(validator="artifact", verdict="fail", findings=(finding,))


def _setting(active: ActiveRun, state: ValidateState) -> Setting:
    return Setting(
        names=all_names(active.program, active.state),
        facts=active.program.rule_facts(
            active.state.input, attempt_of(active.program, active.state)
        ),
        patterns=active.program.machine.patterns,
        folder=workspace(active, state.workspace),
    )


def _played(active: ActiveRun, validator: str, setting: Setting) -> Setting:
    """The setting with the command results that a scenario prepares for this validator."""
    index = active.state.visit - 1

    async def run(
        argv: Sequence[str],
        *,
        cwd: Path | None,
        env: Mapping[str, str],
        stdin: str | None,
        timeout_s: float,
    ) -> CommandResult:
        try:
            played = active.commands.result(validator, index, cwd)
        except AgentError as error:
            raise CommandNotStarted(error.message) from error
        result = played or await run_command(
            argv, cwd=cwd, env=env, stdin=stdin, timeout_s=timeout_s
        )
        stdout, stderr = active.redact(result.stdout), active.redact(result.stderr)
        return replace(result, stdout=stdout, stderr=stderr)

    return Setting(setting.names, setting.facts, setting.patterns, setting.folder, run)


def _judges(
    active: ActiveRun, name: str, validators: Mapping[str, Sequence[Rule]], author: str
) -> list[Judge]:
    return [
        Judge(active, name, validator, index, rule, author)
        for validator, rules in validators.items()
        for index, rule in enumerate(rules)
        if isinstance(rule, JudgeRule)
    ]
