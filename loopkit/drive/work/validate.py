"""A validate state: deterministic rules, then judges where nothing blocks, then one report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from loopkit.drive.active import ActiveRun
from loopkit.drive.deadline import limit_time
from loopkit.drive.limits import LimitReached
from loopkit.drive.work.judge import Judge
from loopkit.drive.work.judging_commands import result_index, with_commands
from loopkit.drive.work.sampling import ask_all
from loopkit.drive.work.state_files import workspace
from loopkit.engine import ledger
from loopkit.engine.events import Artifact, Outcome, Ran, Worked
from loopkit.engine.findings import Answer, Finding, Report
from loopkit.engine.identity import OF_ARTIFACT, finding_id
from loopkit.engine.state import Round
from loopkit.engine.template_values import AllNames, attempt_of
from loopkit.language import JudgeRule, Rule, ValidateState
from loopkit.validators.judged_artifact import JudgedArtifact
from loopkit.validators.judging import judge_deterministic
from loopkit.validators.setting import Setting


async def perform(active: ActiveRun, name: str, state: ValidateState) -> Worked:
    """Judge the artifact; a report that no transition names goes to the error edge."""
    artifact = active.state.artifacts[state.validate_]
    started = active.clock.monotonic()
    judged_before = active.state.usage.time_s
    ran: list[Ran] = []

    def spent() -> float:
        """Seconds that no judge's call accounts for."""
        asked = active.state.usage.time_s - judged_before
        return max(0.0, active.clock.monotonic() - started - asked)

    try:
        panel = await _panel(active, name, state, artifact, ran)
    except LimitReached as reached:
        reached.commands, reached.time_s = tuple(ran), spent()
        raise
    report = ledger.complete(active.program, active.state, name, state, artifact, panel)
    work = _worked(active, name, report, time_s=spent())
    return work.replace(commands=tuple(ran))


def _worked(active: ActiveRun, name: str, report: Report, time_s: float) -> Worked:
    facts = dict(ledger.facts_of(report))
    if active.program.graph.scores(name):
        facts["score"] = report.score
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


async def _panel(
    active: ActiveRun, name: str, state: ValidateState, artifact: Artifact, ran: list[Ran]
) -> ledger.Panel:
    """The answers of the rules, and of the judges where nothing blocks and none is missing."""
    levels = active.program.machine.levels
    if artifact.infeasible:
        reason = f"`{artifact.author}` declared that it can't be done"
        infeasible = Answer(validator=artifact.author, verdict="infeasible", reason=reason)
        return ledger.Panel((infeasible,), ())
    if artifact.fault:
        return ledger.Panel((_content_fault(artifact, levels.worst),), ())
    earlier = ledger.earlier_rounds(active.state, name, artifact)

    def settled(answers: Iterable[Answer]) -> tuple[Answer, ...]:
        return tuple(ledger.settled(answers, earlier, state, levels))

    subject = JudgedArtifact(artifact.name, artifact.text, artifact.data, artifact.is_data)
    setting = _setting(active, state)
    answers: list[Answer] = []
    async with limit_time(active):
        for validator, fixed in _fixed(active, state):
            own = _own(active, name, validator, setting, ran)
            answers += settled([await judge_deterministic(validator, fixed, subject, own)])
            if state.stop == "first" and _blocks(answers):
                break
    # A report without the verdict of a rule is none, whatever a judge was paid to say.
    is_decided = _blocks(answers) or any(answer.verdict in ledger.MISSING for answer in answers)
    judges = _judges(active, name, state, artifact.author, earlier)
    asked = [judge for judge in judges if judge.rule.always or not is_decided]
    return ledger.Panel(tuple(answers), settled(await ask_all(asked, subject, setting)))


def _fixed(active: ActiveRun, state: ValidateState) -> Iterator[tuple[str, Sequence[Rule]]]:
    """The validators that have rules which need no model, with these."""
    for validator, rules in active.program.validators_of(state).items():
        if fixed := [rule for rule in rules if not isinstance(rule, JudgeRule)]:
            yield validator, fixed


def _own(active: ActiveRun, name: str, validator: str, setting: Setting, ran: list[Ran]) -> Setting:
    """The setting of one validator of the state."""
    index = result_index(active, name, validator)
    own = with_commands(active, validator, index, setting, ran)
    return replace(own, baselines=active.state.baselines.get((name, validator), {}))


def _blocks(answers: Iterable[Answer]) -> bool:
    return any(finding.blocking for answer in answers for finding in answer.findings)


def _content_fault(artifact: Artifact, severity: str) -> Answer:
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


def _setting(active: ActiveRun, state: ValidateState) -> Setting:
    return Setting(
        names=AllNames(active.program, active.state),
        facts=active.program.rule_facts(
            active.state.input, attempt_of(active.program, active.state)
        ),
        patterns=active.program.machine.patterns,
        severities=active.program.machine.levels.counted_from(state.block),
        folder=workspace(active, state.workspace),
        redact=active.redact,
    )


def _judges(
    active: ActiveRun,
    name: str,
    state: ValidateState,
    author: str,
    earlier: Sequence[Round],
) -> list[Judge]:
    return [
        Judge(
            active,
            name,
            validator,
            index,
            rule,
            author,
            levels=active.program.machine.levels.counted_from(state.block),
            known=ledger.open_of(validator, earlier),
            shares_keys=state.merge == "key",
        )
        for validator, rules in active.program.validators_of(state).items()
        for index, rule in enumerate(rules)
        if isinstance(rule, JudgeRule)
    ]
