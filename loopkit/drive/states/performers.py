"""The work of each kind of state. That of agents and of children stands in modules of its own."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from loopkit.agents.command import as_agent_errors
from loopkit.agents.port import Reply, Request
from loopkit.document.writing import NotWritable, add_to_file, replace_file, size_of
from loopkit.drive.active import ActiveRun
from loopkit.drive.calls import CallSeries, call, find_stored_reply, limit_time
from loopkit.drive.isolation import (
    files_reader,
    on_disk,
    output_file,
    project_folder,
    watch_output,
    workspace,
)
from loopkit.drive.judging.commands import (
    answer_without_rules,
    give_commands,
    result_index,
    setting_for,
)
from loopkit.drive.judging.judge import Judge, ask, gather_answers
from loopkit.drive.limits import LimitReached
from loopkit.drive.replies import body, extract, with_content, with_folder, workspace_text
from loopkit.drive.retries import CallFailed
from loopkit.drive.states.agent import perform_agent
from loopkit.drive.states.each import perform_each, perform_machine
from loopkit.engine import ledger
from loopkit.engine.events import Adding, Outcome, Replied, Reread, Worked
from loopkit.engine.findings import Answer, Report, latest_resume
from loopkit.engine.macrostep import work_digest
from loopkit.engine.payloads import Artifact, LeftFolder, Ran
from loopkit.engine.records import Usage
from loopkit.engine.rounds import Earlier
from loopkit.engine.template_values import render, value_of
from loopkit.language.facts import ORIGIN, SCORE, UNANSWERED
from loopkit.language.states import ChoiceState
from loopkit.language.states.each import EachState, MachineState
from loopkit.language.states.kinds import AgentState, CommandState, RenderState, ValidateState
from loopkit.language.states.state import Output, StateBase
from loopkit.machine.choosing import MISSING
from loopkit.machine.program import ONCE, Callee, RulesAsked
from loopkit.outside.processes import command_environment, run_command
from loopkit.validators.fixed_rules import judge_placed
from loopkit.validators.judged_artifact import JudgedArtifact
from loopkit.values import Mutable

# The state is Any, because each takes the noun whose module is named like its own.
Perform = Callable[[ActiveRun, str, Any], Awaitable[Worked]]


async def perform_choice(active: ActiveRun, name: str, _: ChoiceState) -> Worked:
    return Worked(state=name, visit=active.state.visit, outcome="done")


async def perform_command(active: ActiveRun, name: str, state: CommandState) -> Worked:
    """Run the command; a non-zero exit is a result, not an error."""
    output = state.output_at(name)
    reply = await _reply(active, name, state, output)
    artifact = _artifact(active, name, state, output, reply)
    graph = active.program.graph
    is_lost = artifact.fault and (graph.on(name, "content") or not graph.judging_follows(name))
    return Worked(
        state=name,
        visit=active.state.visit,
        outcome="content" if is_lost else "done",
        facts={"exit_code": reply.exit_code},
        artifact=artifact,
        error=artifact.fault,
    )


def _artifact(
    active: ActiveRun, name: str, state: CommandState, output: Output, reply: Replied
) -> Artifact:
    plain = Artifact(
        name=output.name,
        author=name,
        attempt=active.state.attempts.get(name, 0) + 1,
        text="",
        fallback=state.fallback,
        workspace=reply.workspace,
        place=reply.artifact_place,
    )
    written = workspace_text(reply)
    if output.may_be_missing and written is None:
        return plain.replace(fault=reply.artifact_fault, fault_code=MISSING)
    text = body(reply.text if written is None else written, output)
    fields = extract(text, output.fields, active.program.machine.patterns)
    whole = plain.replace(text=text)
    if output.folder is not None:
        whole = with_folder(whole, reply)
    return whole.replace(fields={"stderr": reply.stderr} | whole.fields | fields)


async def _reply(active: ActiveRun, name: str, state: CommandState, output: Output) -> Replied:
    folder = await workspace(active, state.workspace, writes=True)
    program, run = active.program, active.state
    argv = [render(program, run, element) for element in state.run]
    is_judged = output.name in program.graph.judged and not output.is_whole_folder
    stdin = None if state.stdin is None else render(program, run, state.stdin)

    async def ask(_: Request) -> Reply:
        env, timeout_s = command_environment(state.env), state.timeout
        with as_agent_errors():
            result = active.commands.result(name, active.state.runs_of(name), folder)
            if result is None:
                result = await run_command(
                    argv, cwd=folder, env=env, stdin=stdin, timeout_s=timeout_s
                )
        return Reply(
            result.stdout,
            exit_code=result.exit_code,
            stderr=result.stderr,
            workspace=result.workspace,
            folder=None if result.folder is None else LeftFolder(**result.folder),
        )

    work = CallSeries(
        task=f"{name}:{run.visit}:run",
        agent=name,
        place=name,
        role="run",
        callees=(Callee(ONCE, state.timeout),),
        quote=lambda _: Usage(),
        ask=ask,
        files=files_reader(active, folder, output) if is_judged else None,
    )
    if (answered := find_stored_reply(active, work)) is not None:
        return answered
    if output.is_left:
        work = work.replace(written=await watch_output(active, folder, output, work.task))
    request = Request(name, name, "run", " ".join(argv), folder=folder)
    return await call(active, work, request, hold=True)


async def perform_render(active: ActiveRun, name: str, state: RenderState) -> Worked:
    """The filled template as an artifact; a single expression passes the value itself."""
    output, made = state.output_at(name), work_digest(active.program, active.state)
    value = value_of(active.program, active.state, state.render)
    is_data = not isinstance(value, str)
    text = render(active.program, active.state, state.render)
    text = text if is_data else body(text, output)
    place = ""
    if output.file is not None:
        path = await _write(active, name, output.file, text, adds=state.adds)
        # What is added is a part of the file, and data is a value that the text only prints.
        place = "" if state.adds or is_data else str(path)
    artifact = Artifact(
        name=output.name,
        author=name,
        attempt=active.state.attempts.get(name, 0) + 1,
        text=text,
        data=value if is_data else None,
        is_data=is_data,
        fields={} if is_data else extract(text, output.fields, active.program.machine.patterns),
        fallback=state.fallback,
        place=place,
    )
    return Worked(
        state=name, visit=active.state.visit, outcome="done", artifact=artifact, made_from=made
    )


async def _write(active: ActiveRun, name: str, file: str, text: str, *, adds: bool) -> Path:
    """Write a text to a file of the workspace; what is added is added once, also after a kill.

    Returns the path of the file.
    """
    folder = await workspace(active, None, writes=True)
    path = output_file(folder, render(active.program, active.state, file).strip())
    try:
        if adds:
            add_to_file(path, text, await _size_before(active, name, path))
        else:
            replace_file(path, text)
    except NotWritable as error:
        raise CallFailed("fatal", str(error)) from error
    return path


async def _size_before(active: ActiveRun, name: str, path: Path) -> int:
    """The size of the file before this work began, in this process or an earlier one."""
    run = active.state
    known = run.adding
    if known is None or (known.state, known.visit, known.file) != (name, run.visit, str(path)):
        known = Adding(state=name, visit=run.visit, file=str(path), after=size_of(path))
        await active.append(known)
    return known.after


async def perform_validate(active: ActiveRun, name: str, state: ValidateState) -> Worked:
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
        own, ran = rules.workspace, rules_work.ran
        folder = project_folder(active, own) or await workspace(active, own)
        is_left = _is_left(artifact)
        judging = _judge_what_is_left(
            active, name, state, rules, folder, earlier, ran, is_left=is_left
        )
        started = active.clock.monotonic()
        try:
            try:
                answers = await limit_time(active, judging)
            finally:
                rules_work.time_s = active.clock.monotonic() - started
            if rules.judges and (
                judges := _judges(active, name, state, artifact, earlier, answers)
            ):
                setting, subject = setting_for(active, folder, rules), _subject(active, state)
                judged = await gather_answers(ask(one, subject, setting) for one in judges)
                if is_left and (change := await _reread(active, name, state)):
                    judged = [_without_verdict(answer, change) for answer in judged]
                of_judges = ledger.settle(judged, earlier, state, rules.levels)
        except LimitReached as reached:
            reached.commands, reached.time_s = tuple(ran), rules_work.time_s
            raise
    panel, artifact = ledger.Panel(tuple(answers), of_judges), run.artifacts[state.validate_]
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


def _is_left(artifact: Artifact) -> bool:
    """Whether it is a file or folder that is still there."""
    return bool(artifact.place) and os.path.lexists(artifact.place)


def _path_in(folder: Path, artifact: Artifact) -> str:
    return os.path.relpath(artifact.place, os.path.realpath(folder))


def _subject(active: ActiveRun, state: ValidateState) -> JudgedArtifact:
    artifact = active.state.artifacts[state.validate_]
    return JudgedArtifact(artifact.name, artifact.text, artifact.data, artifact.is_data)


async def _reread(active: ActiveRun, name: str, state: ValidateState) -> str:
    """Make what is on the disk now the artifact; returns why it can't have been judged, or ""."""
    program, artifact = active.program, active.state.artifacts[state.validate_]
    where = f"{'folder' if artifact.tree else 'file'} {Path(artifact.place).name!r}"
    if (written := await on_disk(active, artifact)) is None:
        return ""
    if written.fault:
        return f"{where} can't be read after its check: {written.fault}"
    output = program.machine.states[artifact.author].output_at(artifact.author)
    assert output is not None
    agents = program.machine.agents_at(artifact.author)
    agent = next((a for a in agents if (a.schema_ is not None) == artifact.is_data), None)
    now = with_content(artifact, written, agent, output, program.machine.patterns)
    if (now.text, now.tree) == (artifact.text, artifact.tree):
        return ""
    version = active.state.versions[artifact.name] + 1
    active.stage(
        Reread(state=name, artifact=now.replace(version=version, previous=artifact.version))
    )
    return (
        f"{where} was changed while it was judged, so nobody has judged what is left; let a check "
        "change nothing, at least not the second time"
    )


def _without_verdict(answer: Answer, reason: str) -> Answer:
    """The answer of a validator that judged something else than what is there."""
    verdict = "fail" if answer.verdict == "fail" else "error"
    reason = "; ".join(filter(None, (answer.reason, reason)))
    return answer.replace(verdict=verdict, error_class="fatal", reason=reason)


async def _judge_what_is_left(
    active: ActiveRun,
    name: str,
    state: ValidateState,
    rules: RulesAsked,
    folder: Path,
    earlier: Earlier,
    ran: list[Ran],
    *,
    is_left: bool,
) -> list[Answer]:
    """The answers of the validators without a model about the artifact as they leave it.

    If its file or folder has changed, all of them judge once more; who changes it again gives no
    verdict.
    """
    judge = partial(_judge_by_rules, active, name, state, rules, folder, earlier, ran)
    before, answers = active.state.artifacts[state.validate_], await judge()
    if not is_left or not (change := await _reread(active, name, state)):
        return answers
    now = active.state.artifacts[state.validate_]
    if now is before:
        return [_without_verdict(answer, change) for answer in answers]
    if now.fault:
        return [answer_without_rules(now, rules.levels)]
    ran.clear()
    answers = await judge(is_last=True)
    if ran and not now.tree:
        # A scenario that plays the run has to write it.
        ran[0] = ran[0].replace(files={**ran[0].files, _path_in(folder, now): now.text})
    return answers


async def _judge_by_rules(
    active: ActiveRun,
    name: str,
    state: ValidateState,
    rules: RulesAsked,
    folder: Path,
    earlier: Earlier,
    ran: list[Ran],
    *,
    is_last: bool = False,
) -> list[Answer]:
    """The answers of the validators without a model; with `stop_early`, until one blocks.

    With `is_last`, who changes the artifact gives no verdict.
    """
    answers: list[Answer] = []
    subject = _subject(active, state)
    for validator, fixed in rules.fixed:
        setting = setting_for(active, folder, rules)
        if validator in rules.starting:
            setting.baselines = active.state.baselines.get((name, validator), {})
            give_commands(active, validator, result_index(active, name, validator), setting, ran)
        answers.append(await judge_placed(validator, fixed, subject, setting))
        is_watched = is_last and validator in rules.starting
        if is_watched and (change := await _reread(active, name, state)):
            answers[-1] = _without_verdict(answers[-1], change)
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
    is_decided = _blocks(answers) or any(answer.is_missing for answer in answers)
    is_ended = any(answer.not_started for answer in answers)
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
        if (rule.always and not is_ended) or not is_decided
    ]


PERFORMERS: Mapping[type[StateBase], Perform] = {
    AgentState: perform_agent,
    ChoiceState: perform_choice,
    CommandState: perform_command,
    EachState: perform_each,
    MachineState: perform_machine,
    RenderState: perform_render,
    ValidateState: perform_validate,
}
"""What does the work of each kind of state that has work of its own."""
