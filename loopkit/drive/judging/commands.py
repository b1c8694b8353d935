"""Rules in a run: the commands that they start, played or really run, and their baselines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from loopkit.agents.port import AgentError
from loopkit.drive.active import ActiveRun, Stopped
from loopkit.drive.calls import limit_time
from loopkit.drive.isolation import workspace
from loopkit.drive.limits import LimitReached
from loopkit.drive.retries import CallFailed
from loopkit.engine.events import Baselined, Event, Suspended, Worked
from loopkit.engine.findings import OF_ARTIFACT, Answer
from loopkit.engine.macrostep import suspension
from loopkit.engine.payloads import Artifact, Ran
from loopkit.engine.records import Failure
from loopkit.engine.template_values import AllNames, attempt_of, fault_findings
from loopkit.language.datatypes.datatype import facts_of
from loopkit.language.facts import Severities
from loopkit.language.guard.grammar import expand, parse
from loopkit.language.guard.kleene import truth
from loopkit.language.states.kinds import ValidateState
from loopkit.language.template.errors import TemplateError
from loopkit.language.validators.command import CommandRule
from loopkit.machine.program import with_places
from loopkit.outside.processes import CommandNotStarted, CommandResult, CommandTimeout, run_command
from loopkit.outside.redaction import Redact
from loopkit.outside.workspace import without_folders
from loopkit.text.patterns import PatternError, PatternTimeout
from loopkit.validators.command import baseline_of
from loopkit.validators.fault import CannotJudge
from loopkit.validators.setting import Setting

KEPT_CHARS = 100_000
"""Characters that are kept of the end of a command's output, as many as a scenario can play."""


def result_index(active: ActiveRun, state: str, validator: str) -> int:
    """Which of a scenario's results a validator gets now: the baseline's is the first."""
    return active.state.visit - 1 + ((state, validator) in active.state.baselines)


def give_commands(
    active: ActiveRun, validator: str, index: int, setting: Setting, ran: list[Ran]
) -> None:
    """Give a setting the command results that a scenario prepares for this validator.

    A record of each command is added to `ran`.
    """
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
    setting.redact, setting.pause, setting.now = clean, active.pause, active.clock.now


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
    """A rule whose baseline is not known yet."""

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
    for name, state in program.graph.judges.items():
        for validator, rules in program.validators_of(state).items():
            known = active.state.baselines.get((name, validator), {})
            for place, rule in with_places(rules):
                if not isinstance(rule, CommandRule) or not rule.baseline or place in known:
                    continue
                if _may_apply(active, rule.guard):
                    yield _Due(name, state, validator, place, rule)


def _may_apply(active: ActiveRun, guard: str | None) -> bool:
    """Whether the rule may be asked, as far as the input alone decides."""
    if guard is None:
        return True
    facts = facts_of(active.state.input, active.program.input_type, "input.")
    return truth(expand(parse(guard), active.program.named_guards).tree, facts) is not False


async def _run_baseline(active: ActiveRun, due: _Due) -> Event:
    """The event of what the command found, or the suspension if it gave no verdict."""
    started = active.clock.monotonic()
    ran: list[Ran] = []
    try:
        folder = await workspace(active, due.state.workspace)
        setting = setting_for(active, folder, active.program.machine.levels)
        setting.names = {"input": active.state.input}
        setting.validator, setting.place = due.validator, due.place
        give_commands(active, due.validator, 0, setting, ran)
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
    """The answer if no rule is asked: the artifact is faulty, or says that it can't be done."""
    if artifact.infeasible:
        because = f": {artifact.infeasible_because}" if artifact.infeasible_because else ""
        reason = f"`{artifact.author}` declared that it can't be done{because}"
        return Answer(validator=artifact.author, verdict="infeasible", reason=reason)
    return content_fault(artifact, levels.worst)


def content_fault(artifact: Artifact, severity: str) -> Answer:
    """The author's content fault as a blocking finding; no rule is run on a faulty artifact."""
    findings = fault_findings(artifact, severity)
    return Answer(validator=OF_ARTIFACT, verdict="fail", findings=findings)


def setting_for(
    active: ActiveRun, folder: Path, levels: Severities, *, is_guarded: bool = False
) -> Setting:
    """What rules may read and do in a run; with a guard among them, also the facts."""
    program, run = active.program, active.state
    return Setting(
        names=AllNames(program, run),
        facts=program.rule_facts(run.input, attempt_of(program, run)) if is_guarded else {},
        patterns=program.machine.patterns,
        severities=levels,
        origins=program.machine.origins,
        input=run.input,
        folder=folder,
        redact=active.redact,
    )
