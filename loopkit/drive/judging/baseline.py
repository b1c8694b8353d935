"""Baselines: `baseline` commands run before any work, and the ids of what they find."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from loopkit.drive.active import ActiveRun
from loopkit.drive.deadline import limit_time
from loopkit.drive.judging.commands import give_commands
from loopkit.drive.limits import LimitReached
from loopkit.drive.retries import CallFailed
from loopkit.drive.state_files import workspace
from loopkit.engine.events import Baselined, Event, Ran, Suspended, Worked
from loopkit.engine.failure import Failure
from loopkit.engine.macrostep import suspension
from loopkit.language import CommandRule, ValidateState
from loopkit.language.datatypes import facts_of
from loopkit.language.guard import expand, parse
from loopkit.language.guard.kleene import truth
from loopkit.language.template import TemplateError
from loopkit.machine.asked import with_places
from loopkit.text.patterns import PatternError, PatternTimeout
from loopkit.validators.command import baseline_of
from loopkit.validators.fault import CannotJudge
from loopkit.validators.setting import Setting

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

    False if the run is asked to stop, or if a baseline failed, which suspends the run before
    anything is spent. Raises Stopped.
    """
    # A command may take long, and the run can be seen meanwhile.
    await active.append()
    for due in list(_due(active)):
        if active.stopping:
            return False
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
        judging = baseline_of(due.rule, _setting(active, due, folder, ran))
        found = await limit_time(active, judging)
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


def _setting(active: ActiveRun, due: _Due, folder: Path, ran: list[Ran]) -> Setting:
    machine = active.program.machine
    setting = Setting(
        names={"input": active.state.input},
        facts={},
        patterns=machine.patterns,
        severities=machine.levels,
        input=active.state.input,
        folder=folder,
        validator=due.validator,
        place=due.place,
        redact=active.redact,
    )
    give_commands(active, due.validator, 0, setting, ran)
    return setting


def _suspension(active: ActiveRun, due: _Due, failure: Failure) -> Suspended:
    message = f"no baseline for validator `{due.validator}` of `{due.name}`: {failure.message}"
    whole = failure.replace(message=message, remedy=failure.remedy or REMEDY)
    return suspension(Worked.with_failure(active.program.machine.start, 0, whole))
