"""A validate state: deterministic rules, then judges where nothing blocks, then one report."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loopkit import ledger
from loopkit.agents.port import AgentError, Request
from loopkit.definition import CommandAgent, JudgeRule, ModelAgent, Rule, ValidateState
from loopkit.events import Artifact, Outcome, Replied, Worked
from loopkit.findings import Answer, Finding, Report
from loopkit.names import all_names, attempt_of
from loopkit.processes import CommandNotStarted, CommandResult, run_command
from loopkit.runner.active import ActiveRun
from loopkit.runner.calls import CallFailed, Work, call, conversation, exchanges_of
from loopkit.runner.work.place import workspace
from loopkit.runstate import Exchange
from loopkit.validators import Setting, Subject, judge_deterministic
from loopkit.validators.identity import finding_id
from loopkit.validators.judge import judge_prompt, reask_prompt
from loopkit.validators.judgement import Misread, read_judgement


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
    judges = list(_judges(validators))
    blocked = _blocks(answers)
    asked = [judge for judge in judges if judge.rule.always or not blocked]
    given = await _ask_all(active, name, asked, subject, setting)
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
        if played is not None:
            return played
        return await run_command(argv, cwd=cwd, env=env, stdin=stdin, timeout_s=timeout_s)

    return Setting(setting.names, setting.facts, setting.patterns, setting.folder, run)


@dataclass(frozen=True, slots=True)
class _Judge:
    validator: str
    index: int
    """Its place among the validator's rules."""
    rule: JudgeRule


def _judges(validators: Mapping[str, Sequence[Rule]]) -> list[_Judge]:
    return [
        _Judge(validator, index, rule)
        for validator, rules in validators.items()
        for index, rule in enumerate(rules)
        if isinstance(rule, JudgeRule)
    ]


async def _ask_all(
    active: ActiveRun, name: str, judges: Sequence[_Judge], subject: Subject, setting: Setting
) -> list[Answer]:
    """The answers of all judges, asked concurrently.

    Where one meets a limit or a defect, the others come back first: they are paid for.
    """
    asked = (_ask(active, name, judge, subject, setting) for judge in judges)
    answers: list[Answer] = []
    for given in await asyncio.gather(*asked, return_exceptions=True):
        if isinstance(given, BaseException):
            raise given
        answers.append(given)
    return answers


async def _ask(
    active: ActiveRun, name: str, judge: _Judge, subject: Subject, setting: Setting
) -> Answer:
    """One judge's answer, asked again with the reason while its answer can't be read."""
    if not _applies(active, judge.rule, setting):
        reason = f"guard `{judge.rule.guard}` is false"
        return Answer(validator=judge.validator, verdict="not_applicable", reason=reason)
    work = _work(active, name, judge)
    prompt = judge_prompt(judge.rule, subject, setting.names)
    task = active.state.tasks.get(work.task)
    allowed = 1 + judge.rule.reask + (task.renewed if task else 0)
    misread: Misread | None = None
    try:
        for index in range(allowed):
            told = exchanges_of(active, work)
            if index < len(told):
                reply = told[index].reply
            else:
                message = _message(active, judge, prompt, misread)
                reply = await _call(active, work, judge, told, message)
            read = _read(judge.validator, reply)
            if isinstance(read, Answer):
                return _weighed(judge.rule, read)
            misread = read
    except CallFailed as failed:
        return Answer(
            validator=judge.validator,
            verdict="error",
            error_class=failed.error_class,
            reason=failed.message,
        )
    return _weighed(judge.rule, _unread(judge.validator, misread))


def _weighed(rule: JudgeRule, answer: Answer) -> Answer:
    """The answer with the rule's severity and code; `severity: warning` makes a judge advise."""
    findings = tuple(
        finding.model_copy(
            update={
                "code": finding.code or rule.code,
                "severity": "warning" if rule.severity == "warning" else finding.severity,
            }
        )
        for finding in answer.findings
    )
    advises = rule.severity == "warning" and answer.verdict == "fail"
    verdict = "warn" if advises else answer.verdict
    return answer.model_copy(update={"findings": findings, "verdict": verdict})


def _message(active: ActiveRun, judge: _Judge, prompt: str, misread: Misread | None) -> str:
    """What is sent next: the question, or why the answer to it could not be used."""
    if misread is None:
        return prompt
    again = reask_prompt(misread.reason)
    agent = active.program.machine.agents[judge.rule.judge]
    # A program starts anew each time, and has not seen the question.
    return f"{prompt.rstrip()}\n\n{again}" if isinstance(agent, CommandAgent) else again


def _read(validator: str, reply: Replied) -> Answer | Misread:
    if reply.cut_off:
        return Misread("Your answer was cut off before its end. Answer shorter.")
    return read_judgement(validator, reply.text)


def _unread(validator: str, misread: Misread | None) -> Answer:
    if misread is not None and misread.last_resort is not None:
        return misread.last_resort
    reason = misread.reason if misread else "it was never asked"
    return Answer(
        validator=validator,
        verdict="unparsed",
        error_class="content",
        reason=f"no verdict could be read: {reason}",
    )


def _applies(active: ActiveRun, rule: JudgeRule, setting: Setting) -> bool:
    return rule.guard is None or active.program.predicate(rule.guard)(setting.facts)


def _work(active: ActiveRun, name: str, judge: _Judge) -> Work:
    agent = active.program.machine.agents[judge.rule.judge]
    port = active.agents[judge.rule.judge]
    return Work(
        task=f"{name}:{active.state.visit}:judge:{judge.validator}:{judge.index}",
        agent=judge.rule.judge,
        place=judge.validator,
        role="judge",
        retry=agent.retry,
        timeout_s=agent.timeout,
        quote=port.quote,
        ask=port.ask,
    )


async def _call(
    active: ActiveRun, work: Work, judge: _Judge, told: Sequence[Exchange], prompt: str
) -> Replied:
    agent = active.program.machine.agents[judge.rule.judge]
    system = agent.system if isinstance(agent, ModelAgent) else ""
    request = Request(
        judge.rule.judge,
        judge.validator,
        "judge",
        prompt,
        messages=conversation(system, told, prompt),
        folder=workspace(active, agent.workspace),
        timeout_s=agent.timeout,
    )
    return await call(active, work, request)
