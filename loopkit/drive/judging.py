"""Rules and judges in a run: the commands that rules start, their baselines, and what judges say.

Commands are played or really run. A judge is asked as often as its rule says, and again if its
answer can't be read.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import Any

from loopkit.agents.port import AgentError, Request, Tool
from loopkit.drive.active import ActiveRun, Stopped
from loopkit.drive.calls import CallSeries, call, callees_for, exchanges_of, limit_time
from loopkit.drive.isolation import workspace
from loopkit.drive.limits import LimitReached
from loopkit.drive.replies import ask_agent, conversation
from loopkit.drive.retries import CallFailed
from loopkit.engine.events import Baselined, Event, Replied, Suspended, Worked
from loopkit.engine.findings import OF_ARTIFACT, Answer, Finding, with_findings
from loopkit.engine.ledger import combine_samples, confirm
from loopkit.engine.macrostep import suspension
from loopkit.engine.payloads import Artifact, Ran
from loopkit.engine.records import Failure
from loopkit.engine.template_values import AllNames, attempt_of, fault_findings
from loopkit.language.agents import Agent
from loopkit.language.datatypes.datatype import facts_of
from loopkit.language.facts import Severities
from loopkit.language.guard.evaluate import truth
from loopkit.language.guard.grammar import expand, parse
from loopkit.language.json_schema.equality import NotJudged
from loopkit.language.states.kinds import ValidateState
from loopkit.language.template.errors import TemplateError
from loopkit.language.validators.command import CommandRule
from loopkit.language.validators.judge import JudgeRule
from loopkit.machine.program import with_places
from loopkit.outside.processes import CommandNotStarted, CommandResult, CommandTimeout, run_command
from loopkit.outside.redaction import Redact
from loopkit.outside.workspace import without_folders
from loopkit.plugins import CALL, serving
from loopkit.text.patterns import PatternError, PatternTimeout
from loopkit.validators.command import baseline_of
from loopkit.validators.data import JudgedArtifact
from loopkit.validators.fault import CannotJudge
from loopkit.validators.judges.form import AnswerForm, Misread, OwnForm, ReportForm
from loopkit.validators.judges.prompt import (
    DESCRIPTION,
    INSTEAD,
    SUBMIT,
    as_text_reply,
    form_of,
    judge_prompt,
    reask_prompt,
    submission_note,
    with_nonce,
)
from loopkit.validators.judges.report import read_answer
from loopkit.validators.setting import Setting

KEPT_CHARS = 100_000
"""Characters that are kept of the end of a command's output, as many as a scenario can play."""


def result_index(active: ActiveRun, state: str, validator: str) -> int:
    """Which of a scenario's results a validator gets now: the baseline's is the first."""
    return active.state.visit - 1 + ((state, validator) in active.state.baselines)


def give_commands(
    active: ActiveRun, validator: str, index: int, setting: Setting, ran: list[Ran]
) -> None:
    """Give a setting what runs a validator's commands, or plays them, and records them in `ran`."""
    tries: dict[tuple[str, ...], int] = {}
    clean = _text_cleaner(active.redact, setting.folder)

    async def run(
        argv: Sequence[str],
        *,
        cwd: Path | None,
        env: Mapping[str, str],
        stdin: str | None,
        timeout_s: float,
    ) -> CommandResult:
        earlier = tries.get(tuple(argv), 0)
        tries[tuple(argv)] = earlier + 1
        try:
            played = active.commands.result(validator, index, cwd, earlier)
            with serving(f"{CALL.get()}:{earlier + 1}"):
                result = played or await run_command(
                    argv, cwd=cwd, env=env, stdin=stdin, timeout_s=timeout_s
                )
        except AgentError as error:
            raise CommandNotStarted(error.message) from error
        except CommandNotStarted as error:
            ran.append(Ran(validator=validator, fault="not_found", message=str(error)))
            raise
        except CommandTimeout as late:
            late.stdout, late.stderr = clean(late.stdout), clean(late.stderr)
            ran.append(_run_record(validator, late, fault="timeout", message=str(late)))
            raise
        result = replace(result, stdout=clean(result.stdout), stderr=clean(result.stderr))
        ran.append(_run_record(validator, result, exit_code=result.exit_code))
        return result

    def note_file(name: str, text: str) -> None:
        if len(text) <= KEPT_CHARS:
            ran[-1] = ran[-1].replace(files={name: text})

    setting.run, setting.note_file = run, note_file
    setting.redact = clean
    setting.pause = active.pause
    setting.now = active.clock.now


def _text_cleaner(redact: Redact, folder: Path | None) -> Redact:
    """A function that removes secrets from a text, and makes paths of the workspace relative.

    So a finding is the same one in another copy of the workspace, and when a run is replayed.
    """

    def clean(text: str) -> str:
        text = without_folders(redact(text))
        places = {str(place) for place in (folder, folder and folder.resolve()) if place} - {"/"}
        if not any(place in text for place in places):
            return text
        either = "|".join(map(re.escape, sorted(places)))
        # Only where a path begins: `/notes/` is not a part of `/home/me/notes/`.
        return re.sub(rf"(?<![\w.~/-])(?:file://)?(?:{either})/", "", text)

    return clean


def _run_record(validator: str, printed: CommandResult | CommandTimeout, **ended: Any) -> Ran:
    stdout, stderr = (text[-KEPT_CHARS:] for text in (printed.stdout, printed.stderr))
    return Ran(validator=validator, stdout=stdout, stderr=stderr, **ended)


REMEDY = "nothing has been done yet"


@dataclass(frozen=True, slots=True)
class _Due:
    name: str
    state: ValidateState
    validator: str
    place: str
    rule: CommandRule


async def take_baselines(active: ActiveRun) -> bool:
    """Run every command of a `baseline` rule that has not run yet, each with its own record.

    False if a baseline failed, which suspends the run before anything is spent. Raises Stopped.
    """
    # A command may take long, and the run can be seen meanwhile.
    await active.append()
    for due in list(_due(active)):
        if active.stopping:
            raise Stopped
        event = await _run_baseline(active, due)
        await active.append(event)
        if not isinstance(event, Baselined):
            return False
    return True


def _due(active: ActiveRun) -> Iterator[_Due]:
    program = active.program
    facts = facts_of(active.state.input, program.input_type, "input.")
    for name, state in program.graph.judges.items():
        for validator, rules in program.validators_of(state).items():
            known = active.state.baselines.get((name, validator), {})
            for place, rule in with_places(rules):
                if not isinstance(rule, CommandRule) or not rule.baseline or place in known:
                    continue
                guard = expand(parse(rule.guard or "true"), program.graph.named_guards)
                # As far as the input alone decides.
                if truth(guard.tree, facts) is not False:
                    yield _Due(name, state, validator, place, rule)


async def _run_baseline(active: ActiveRun, due: _Due) -> Event:
    started = active.clock.monotonic()
    ran: list[Ran] = []
    try:
        folder = await workspace(active, due.state.workspace)
        setting = setting_for(active, folder, active.program.machine.levels)
        setting.names = {"input": active.state.input}
        setting.validator = due.validator
        setting.place = due.place
        give_commands(active, due.validator, 0, setting, ran)
        with serving(f"{active.state.run}:{due.name}:0:{due.validator}:{due.place}"):
            found = await limit_time(active, lambda: baseline_of(due.rule, setting))
    except LimitReached as reached:
        suspended = _suspension(active, due, reached.failure(active.state.run))
        return suspended.replace(commands=tuple(ran), time_s=reached.time_s)
    except CallFailed as error:
        return _suspension(active, due, error.failure)
    except CannotJudge as error:
        return _suspension(active, due, error.failure(active.clock.now()))
    except (TemplateError, PatternError, PatternTimeout) as error:
        return _suspension(active, due, Failure("fatal", str(error)))
    return Baselined(
        state=due.name,
        validator=due.validator,
        rule=due.place,
        findings=tuple(found),
        commands=tuple(ran),
        time_s=active.clock.monotonic() - started,
    )


def _suspension(active: ActiveRun, due: _Due, failure: Failure) -> Suspended:
    message = f"no baseline for validator `{due.validator}` of `{due.name}`: {failure.message}"
    whole = failure.replace(message=message, remedy=failure.remedy or REMEDY)
    return suspension(Worked.with_failure(active.program.machine.start, 0, whole))


def answer_without_rules(artifact: Artifact, levels: Severities) -> Answer:
    if artifact.infeasible:
        because = f": {artifact.infeasible_because}" if artifact.infeasible_because else ""
        author = artifact.author or "author"
        reason = f"`{author}` declared that it can't be done{because}"
        return Answer(validator=author, verdict="infeasible", reason=reason)
    # No rule is run on a faulty artifact.
    findings = fault_findings(artifact, levels.worst)
    return Answer(validator=OF_ARTIFACT, verdict="fail", findings=findings)


def notes_on(artifact: Artifact, levels: Severities) -> Iterator[Answer]:
    """What is told of how an artifact was made, beside what validators find; it blocks nothing."""
    mildest = levels.levels[-1]
    if notes := [note.with_level(mildest, blocking=False) for note in artifact.notes]:
        yield Answer(validator=OF_ARTIFACT, verdict="warn", findings=tuple(notes))


def setting_for(
    active: ActiveRun, folder: Path, levels: Severities, *, is_guarded: bool = False
) -> Setting:
    """What rules may read and do in a run; with a guard among them, also the facts."""
    program, run = active.program, active.state
    return Setting(
        call=CALL.get() or f"{run.run}:{run.state}:{run.visit}{run.era}",
        names=AllNames(program, run),
        facts=program.rule_facts(run.input, attempt_of(program, run)) if is_guarded else {},
        patterns=program.machine.patterns,
        severities=levels,
        origins=program.machine.origins,
        input=run.input,
        folder=folder,
        redact=active.redact,
    )


NONCE_DIGITS = 12
"""Digits of a digest that a judge has to repeat."""


@dataclass(frozen=True)
class Judge:
    """A `judge` rule of a validate state, in a run."""

    active: ActiveRun
    state: str
    validator: str
    index: int
    rule: JudgeRule
    author: str
    """The state whose work it judges; the judge climbs its ladder with that."""
    levels: Severities
    known: Sequence[Finding] = ()
    shares_keys: bool = False
    """Whether one key means one finding in the whole panel."""
    number: int = 1
    """Which of its opinions this is: those after its samples are second ones."""

    @cached_property
    def agent(self) -> Agent:
        return self.active.program.machine.agents[self.rule.judge]

    @cached_property
    def form(self) -> AnswerForm:
        # A second opinion is one only if it does not know the first.
        known = self.known if self.number <= self.rule.samples else ()
        machine = self.active.program.machine
        machine_rules = machine.patterns, known, machine.origins
        form = form_of(self.rule, self.agent, self.levels, *machine_rules)
        if isinstance(form, ReportForm) and machine.origins:
            of_author = self.active.program.graph.origins.of_author(self.author)
            form = form.replace(of_author=of_author)
        return form.replace(shares_keys=self.shares_keys, nonce=self._nonce)

    @property
    def _nonce(self) -> str:
        """A code derived from what is judged, so that a replay has the same."""
        if not self.rule.nonce:
            return ""
        judged = self.active.program.graph.judges[self.state].validate_
        run = self.active.state
        content = json.dumps([run.input, self._task, run.artifacts[judged].text], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:NONCE_DIGITS]

    @cached_property
    def work(self) -> CallSeries:
        port = self.active.agents[self.rule.judge]
        return CallSeries(
            task=self._task,
            callees=callees_for(self.active, self.agent, self.author),
            quote=port.quote,
            ask=partial(ask_agent, port, self.agent),
            ready=port.ready,
            opinion=self._opinion,
        )

    @property
    def _task(self) -> str:
        run = self.active.state
        task = f"{self.state}:{run.visit}:judge:{self.validator}:{self.index}"
        if rereads := run.artifacts[self.active.program.graph.judges[self.state].validate_].rereads:
            # What it has said is about the content before.
            task = f"{task}:r{rereads}"
        return task if self.number == 1 else f"{task}:{self.number}"

    @property
    def _opinion(self) -> str:
        samples = self.rule.samples
        if self.number > samples:
            return "second opinion"
        return f"sample {self.number} of {samples}" if samples > 1 else ""

    def applies(self, setting: Setting) -> bool:
        guard = self.rule.guard
        return guard is None or self.active.program.predicate(guard)(setting.facts)

    def message(self, prompt: str, misread: Misread | None) -> str:
        text = prompt if misread is None else reask_prompt(misread, self.form)
        text = with_nonce(text, self.form)
        if misread is not None and not self.agent.is_sent_turns:
            # A program starts anew each time, and has not seen the question.
            text = f"{prompt.rstrip()}\n\n{text}"
        return f"{text.rstrip()}\n\n{INSTEAD}\n" if self.rule.submit else text

    async def reply(self, prompt: str) -> Replied:
        exchanges = exchanges_of(self.active, self.work)
        schema = self.form.schema or {"type": "object"}
        request = Request(
            agent=self.rule.judge,
            place=self.validator,
            role="judge",
            prompt=prompt,
            messages=conversation(exchanges, prompt),
            names={"input": AllNames(self.active.program, self.active.state)["input"]},
            input=self.active.state.input,
            schema=None if self.rule.submit else self.form.schema,
            is_described=isinstance(self.form, OwnForm) and self.rule.prompt is None,
            # With it, the judge submits its report instead of writing that as its answer.
            tools=(Tool(SUBMIT, DESCRIPTION, schema),) if self.rule.submit else (),
            folder=await workspace(self.active, self.agent.workspace),
        )
        return await call(self.active, self.work, request)

    def read(self, replied: Replied) -> Answer | Misread:
        asked = [exchange.prompt for exchange in exchanges_of(self.active, self.work)]
        if not self.rule.submit:
            return read_answer(self.validator, replied, self.form, echoes=asked)
        read = read_answer(self.validator, as_text_reply(replied), self.form, echoes=asked)
        if isinstance(read, Answer) and (odd := submission_note(replied)):
            return read.replace(reason="; ".join(filter(None, (read.reason, odd))))
        return read


async def opinion(judge: Judge, prompt: str) -> Answer:
    try:
        return _apply_rule(judge.rule, await _read_with_reasks(judge, prompt), judge.levels)
    except NotJudged as error:
        reason = f"the report could not be checked against its schema: {error}"
        return Answer.with_failure(judge.validator, Failure("fatal", reason))
    except CallFailed as failed:
        return Answer.with_failure(judge.validator, failed.failure)


async def _read_with_reasks(judge: Judge, prompt: str) -> Answer:
    """The answer of the judge after all its re-asks; stored replies are used first.

    A fail that could not be used as it was counts if nothing better follows, also if the judge
    can't be asked again; if its reason can be read, an approval is nothing better. About an
    approval that contradicts itself the judge is asked once, beyond the rule's re-asks.
    """
    task = judge.active.state.tasks.get(judge.work.task)
    renewed = task.renewed if task else 0
    left, is_confronted = judge.rule.reask, False
    misread: Misread | None = None
    kept: Misread | None = None
    for index in count():
        exchanges = exchanges_of(judge.active, judge.work)
        stored = exchanges[index].reply if index < len(exchanges) else None
        try:
            read = judge.read(stored or await judge.reply(judge.message(prompt, misread)))
        except CallFailed:
            if kept is None or kept.last_resort is None:
                raise
            break
        if isinstance(read, Answer):
            if read.verdict == "fail" or kept is None or not kept.stands:
                return read
            break
        misread = read
        if index < renewed:
            # A person has had it asked anew since.
            continue
        if read.stands or (read.rejects and not (kept and kept.stands)):
            kept = read
        if read.contradicts and not is_confronted:
            is_confronted = True
        elif left and not read.contradicts:
            left -= 1
        else:
            break
    last = kept or misread
    # It was asked at least once.
    assert last is not None
    return last.last_resort or Answer(
        validator=judge.validator,
        verdict="unparsed",
        error_class="content",
        reason=f"no verdict could be read: {last.reason}",
    )


def _apply_rule(rule: JudgeRule, answer: Answer, severities: Severities) -> Answer:
    """The answer with the rule's code and origin, no finding worse than the rule's severity."""
    findings: list[Finding] = []
    for finding in answer.findings:
        level = severities.with_cap(finding.severity, rule.severity)
        code = finding.code or rule.code
        origins = finding.origins or rule.origin
        coded = finding.replace(code=code, origins=origins)
        findings.append(coded.with_level(level, blocking=severities.blocks(level)))
    return with_findings(answer, findings)


async def ask(judge: Judge, subject: JudgedArtifact, setting: Setting) -> Answer:
    """One judge's answer: its samples combined, with a second opinion if its rule wants one."""
    if not judge.applies(setting):
        reason = f"guard `{judge.rule.guard}` is false"
        return Answer(validator=judge.validator, verdict="not_applicable", reason=reason)
    rule, levels = judge.rule, judge.levels

    def give_opinion(number: int) -> Coroutine[Any, Any, Answer]:
        one = replace(judge, number=number)
        return opinion(one, judge_prompt(rule, subject, setting.names, one.form))

    samples = await gather_answers(map(give_opinion, range(1, rule.samples + 1)))
    answer = combine_samples(samples, rule.combine, levels)
    if rule.confirm is None or answer.verdict != "fail":
        return answer
    return confirm(answer, await give_opinion(rule.samples + 1), levels)


async def gather_answers(requests: Iterable[Coroutine[Any, Any, Answer]]) -> list[Answer]:
    """All answers, asked for concurrently; if one raises, the others, which cost, finish first."""
    given = await asyncio.gather(*requests, return_exceptions=True)
    if raised := [error for error in given if isinstance(error, BaseException)]:
        # The limit may be reached only because of what the defect left unsettled.
        raise min(raised, key=lambda error: isinstance(error, LimitReached))
    return [answer for answer in given if isinstance(answer, Answer)]
