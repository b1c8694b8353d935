"""A validate state: deterministic rules, then judges if nothing blocks, then one report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from loopkit.drive.active import ActiveRun
from loopkit.drive.deadline import limit_time
from loopkit.drive.judging.by_rules import answer_without_rules, setting_for
from loopkit.drive.judging.commands import give_commands, result_index
from loopkit.drive.judging.judge import Judge
from loopkit.drive.judging.sampling import ask_all
from loopkit.drive.limits import LimitReached
from loopkit.drive.state_files import project_folder, workspace
from loopkit.engine import ledger
from loopkit.engine.events import Artifact, Outcome, Ran, Worked
from loopkit.engine.findings import Answer, Report, latest_resume
from loopkit.engine.rounds import Earlier
from loopkit.language import ValidateState
from loopkit.language.facts import ORIGIN, SCORE, UNANSWERED
from loopkit.machine.asked import RulesAsked
from loopkit.validators.fixed_rules import judge_placed
from loopkit.validators.judged_artifact import JudgedArtifact
from loopkit.values import Mutable


async def perform(active: ActiveRun, name: str, state: ValidateState) -> Worked:
    """Judge the artifact; a report that no transition names goes to the error edge."""
    program, run, rules = active.program, active.state, active.engine.plans[name].rules
    assert rules is not None
    artifact, rules_work = run.artifacts[state.validate_], _RulesWork()
    made_from = ledger.attempts_behind(program, run, artifact)
    earlier = run.rounds_before(name, artifact, made_from)
    of_judges: tuple[Answer, ...] = ()
    if artifact.infeasible or artifact.fault:
        answers = [answer_without_rules(artifact, rules.levels)]
    else:
        subject = JudgedArtifact(artifact.name, artifact.text, artifact.data, artifact.is_data)
        own, ran = rules.workspace, rules_work.ran
        folder = project_folder(active, own) or await workspace(active, own)
        judging = _judge_by_rules(active, name, state, rules, subject, folder, earlier, ran)
        started = active.clock.monotonic()
        try:
            try:
                answers = await limit_time(active, judging)
            finally:
                rules_work.time_s = active.clock.monotonic() - started
            if rules.judges and (
                judges := _judges(active, name, state, artifact, earlier, answers)
            ):
                judged = await ask_all(judges, subject, setting_for(active, folder, rules))
                of_judges = ledger.settle(judged, earlier, state, rules.levels)
        except LimitReached as reached:
            reached.commands, reached.time_s = tuple(ran), rules_work.time_s
            raise
    panel = ledger.Panel(tuple(answers), of_judges)
    report = ledger.complete(program, run, name, artifact, panel, earlier, made_from)
    return _work_event(active, name, report, rules_work)


class _RulesWork(Mutable):
    """The commands and time of a round's rules; the calls of judges are events of their own."""

    ran: list[Ran] = []
    time_s: float = 0.0


def _work_event(active: ActiveRun, name: str, report: Report, rules_work: _RulesWork) -> Worked:
    facts, plan = report.facts, active.engine.plans[name]
    if plan.is_scored:
        facts[SCORE] = report.score
    if active.program.graph.has_origins:
        facts[ORIGIN] = report.origin
    outcome: Outcome = "done"
    if report.verdict in UNANSWERED and report.verdict not in plan.rows:
        outcome = "content" if report.verdict == "infeasible" else report.error_class or "fatal"
    return Worked(
        state=name,
        visit=active.state.visit,
        outcome=outcome,
        facts=facts,
        report=report,
        time_s=rules_work.time_s,
        error="" if outcome == "done" else f"{report.verdict}: {report.reason}",
        resume_at=latest_resume(report.answers),
        commands=tuple(rules_work.ran),
    )


async def _judge_by_rules(
    active: ActiveRun,
    name: str,
    state: ValidateState,
    rules: RulesAsked,
    subject: JudgedArtifact,
    folder: Path,
    earlier: Earlier,
    ran: list[Ran],
) -> list[Answer]:
    """The answers of the validators without a model; with `stop_early`, until one blocks."""
    answers: list[Answer] = []
    for validator, fixed in rules.fixed:
        setting = setting_for(active, folder, rules)
        if validator in rules.starting:
            setting.baselines = active.state.baselines.get((name, validator), {})
            give_commands(active, validator, result_index(active, name, validator), setting, ran)
        answers.append(await judge_placed(validator, fixed, subject, setting))
        if rules.may_settle:
            answers[-1:] = ledger.settle(answers[-1:], earlier, state, rules.levels)
        if rules.stop_early and _blocks(answers):
            break
    return answers


def _blocks(answers: Iterable[Answer]) -> bool:
    return any(finding.blocking for answer in answers for finding in answer.findings)


def _judges(
    active: ActiveRun,
    name: str,
    state: ValidateState,
    artifact: Artifact,
    earlier: Earlier,
    answers: Sequence[Answer],
) -> list[Judge]:
    """The judges to ask after the rules: all of them if no rule blocks and none lacks a verdict."""
    rules = active.engine.plans[name].rules
    assert rules is not None
    # Without the verdict of a rule the report is incomplete, so a judge would be paid in vain.
    is_decided = _blocks(answers) or any(a.verdict in ledger.MISSING for a in answers)
    return [
        Judge(
            active,
            name,
            validator,
            index,
            rule,
            artifact.author,
            levels=rules.levels,
            known=ledger.open_findings_of(validator, earlier),
            shares_keys=state.merge == "key",
        )
        for validator, index, rule in rules.judges
        if rule.always or not is_decided
    ]
