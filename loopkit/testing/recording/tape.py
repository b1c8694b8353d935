"""The events of a run → what agents, commands and people did in it, in the order of a scenario."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from loopkit.drive.stored_event import Stored
from loopkit.engine.changes import apply
from loopkit.engine.events import (
    Baselined,
    Failed,
    InDoubt,
    Intended,
    Ran,
    RefusedCall,
    Repaired,
    Replied,
    Resumed,
    Started,
    Suspended,
    Worked,
)
from loopkit.engine.state import RunState
from loopkit.engine.template_values import render
from loopkit.language import HumanState, JudgeRule, rules_of
from loopkit.machine.program import Program
from loopkit.testing.playbill import Playbill
from loopkit.testing.recording import calls
from loopkit.testing.recording.faults import duration, fault_of, provider_wait
from loopkit.validators.judges.known_findings import KNOWN


@dataclass
class Attempt:
    """The calls of one piece of work."""

    agent: str
    place: str
    calls: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Tape:
    """The work of agents, commands and people in a run."""

    program: Program
    attempts: dict[str, Attempt] = field(default_factory=dict)
    """The attempts by task, in the order in which agents were first asked."""
    commands: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    """The results by `run` state, validator or tool."""
    answers: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    """The answers by `human` state."""
    limits: dict[str, Any] = field(default_factory=dict)
    """The limits with which the run was started."""
    resumes: list[dict[str, Any]] = field(default_factory=list)
    mended: set[int] = field(default_factory=set)
    """The indices of resumes with a repair, after which the cause of the stop may be gone."""
    notes: list[str] = field(default_factory=list)
    """What a scenario can't play."""
    limited: frozenset[str] = frozenset()
    """The names of all limits that were in force at some time."""
    files: dict[str, str] = field(default_factory=dict)
    """The output files by call."""

    @cached_property
    def bill(self) -> Playbill:
        """Everything that a scenario can name."""
        return Playbill(self.program.graph)

    def note(self, before: RunState, stored: Stored) -> None:
        """Note an event; `before` is the state of the run before it."""
        match stored.event:
            case Started() as started:
                self.limits = dict(started.limits)
            case Intended() as intent:
                self._note_intent(before, intent)
            case Replied() as replied:
                self._note_reply(before, before.open_calls[replied.key], replied)
            case Failed() as failed:
                self._note_failure(before, failed, stored.at)
            case InDoubt() as doubt:
                self._note_doubt(before.open_calls[doubt.key], doubt)
            case Baselined() as taken:
                self._note_results(taken.validator, 0, taken.commands)
            case Worked() as worked:
                self._note_work(before, worked, stored.at)
            case Suspended() as suspended:
                self._note_end_of_work(before, suspended, {}, stored.at)
            case Resumed() | Repaired() as anew:
                self._note_continuation(before.suspended, anew)
            case _:
                pass

    def _note_intent(self, before: RunState, intent: Intended) -> None:
        state = self.program.machine.states[intent.state]
        output = state.output_at(intent.state)
        if output is not None and output.file is not None:
            self.files[intent.key] = render(self.program, before, output.file).strip()
        if intent.is_of_agent:
            self._drop_refusals(intent)
            self._mark_recorded(before, intent)
            self.attempts.setdefault(intent.task, Attempt(intent.agent, intent.place))

    def _drop_refusals(self, intent: Intended) -> None:
        """Forget that a limit refused the call: after a resume it is made."""
        known = self.attempts.get(intent.task)
        while known is not None and known.calls and set(known.calls[-1]) == {"reserved"}:
            known.calls.pop()

    def _mark_recorded(self, before: RunState, intent: Intended) -> None:
        """Mark an unusable answer about open findings, so that a scenario can't use it either."""
        task, attempt = before.tasks.get(intent.task), self.attempts.get(intent.task)
        if intent.role != "judge" or not (task and task.exchanges and attempt and attempt.calls):
            return
        was_asked = f'"{KNOWN}"' in task.exchanges[0].prompt and self._is_in_our_form(intent)
        if was_asked and not task.exchanges[-1].reply.played:
            attempt.calls[-1]["recorded"] = True

    def _is_in_our_form(self, intent: Intended) -> bool:
        """Whether this is a judge that answers in our own form."""
        rules = self.program.validators_at(intent.state)
        return any(
            isinstance(rule, JudgeRule) and rule.judge == intent.agent and rule.is_own_form
            for rule in rules.get(intent.place, ())
        )

    def _note_reply(self, before: RunState, intent: Intended, replied: Replied) -> None:
        file = self.files.get(replied.key, "")
        if intent.role == "tool":
            if replied.commands:
                self._note_results(intent.agent, before.tasks[intent.task].index, replied.commands)
            return
        if intent.role == "run":
            self.commands[intent.state].append(calls.result_of(replied, file))
            return
        machine = self.program.machine
        call = calls.reply_of(replied, intent, machine, self.limited, file)
        self.attempts[intent.task].calls.append(call)

    def _note_failure(self, before: RunState, failed: Failed, at: float) -> None:
        intent = before.open_calls[failed.key]
        if intent.role == "tool":
            if intent.agent in self.bill.commands:
                results, index = self.commands[intent.agent], before.tasks[intent.task].index
                results += [calls.NOTHING] * (index - len(results))
                results.append(calls.command_fault_of(failed.message, failed.error_class))
            return
        if intent.role == "run":
            fault = calls.command_fault_of(failed.message, failed.error_class)
            self.commands[intent.state].append(fault)
            return
        call = fault_of(failed) | calls.usage_of(failed.usage)
        if "time" in self.limited:
            # If the deadline of the limit was over, waiting for as long has the same effect.
            call["delay"] = f"{failed.usage.time_s:.3f}s"
        if failed.retry_at is not None:
            retry = self.program.machine.agents[intent.agent].in_turn[intent.fallback].retry
            tries = before.tasks[intent.task].tries
            wait = provider_wait(failed.retry_at - at, retry, tries)
            call |= {"retry_after": wait} if wait else {}
        elif failed.resume_at is not None:
            call["retry_after"] = duration(max(0.0, failed.resume_at - at))
        self.attempts[intent.task].calls.append(
            call | calls.reservation_of(intent.reserved, self.limited)
        )

    def _note_doubt(self, intent: Intended, doubt: InDoubt) -> None:
        if (note := calls.doubt_note(doubt, intent)) is not None:
            self.notes.append(note)
        if intent.is_of_agent:
            self.attempts[intent.task].calls.append(calls.crash_of(intent))

    def _note_work(self, before: RunState, worked: Worked, at: float) -> None:
        missing = worked.report.answers if worked.report else ()
        self._note_end_of_work(
            before, worked, {answer.validator: answer.resume_at for answer in missing}, at
        )
        if worked.answer is not None:
            asking = self.program.machine.states_of(HumanState)[worked.state]
            self.answers[worked.state].append(calls.answer_of(worked.answer, asking.timeout))

    def _note_end_of_work(
        self,
        before: RunState,
        work: Worked | Suspended,
        waits: Mapping[str, float | None],
        at: float,
    ) -> None:
        """Note how work ended or was suspended; `waits` are by validator."""
        for validator in dict.fromkeys(ran.validator for ran in work.commands):
            index = before.visit - 1 + ((work.state, validator) in before.baselines)
            self._note_results(
                validator, index, [r for r in work.commands if r.validator == validator]
            )
        self._note_wait(f"{work.state}:{before.visit}:", work.resume_at, waits, at)
        if work.refused is not None:
            self._note_refusal(work.refused)

    def _note_results(self, validator: str, index: int, ran: Sequence[Ran]) -> None:
        """Note the results of a validator's commands at this index."""
        known = self.commands[validator]
        known += [calls.NOTHING] * (index + 1 - len(known))
        rounds = _runs_by_rule(
            list(map(calls.ran_of, ran)), _command_count(self.program, validator)
        )
        result = calls.tries_of(rounds[0])
        if any(one != rounds[0] for one in rounds) or known[index] not in (calls.NOTHING, result):
            self.notes.append(
                f"commands of validator `{validator}` gave different results in one round, and"
                " a scenario plays the same for all of them"
            )
        known[index] = result

    def _note_wait(
        self, here: str, until: float | None, waits: Mapping[str, float | None], at: float
    ) -> None:
        """Note the wait that a provider asked for in the last failure of a call."""
        for task, attempt in self.attempts.items():
            named = waits.get(attempt.place, until)
            last = attempt.calls[-1] if attempt.calls else {}
            is_failed = "fault" in last and last["fault"] != "crash"
            if task.startswith(here) and named is not None and is_failed:
                last.setdefault("retry_after", duration(max(0.0, named - at)))

    def _note_refusal(self, refused: RefusedCall) -> None:
        if refused.agent not in self.program.machine.agents:
            return
        attempt = self.attempts.setdefault(refused.task, Attempt(refused.agent, refused.place))
        attempt.calls.append(calls.refusal_of(refused))

    def _note_continuation(self, suspended: Suspended | None, anew: Resumed | Repaired) -> None:
        if isinstance(anew, Repaired):
            self._note_repair(anew)
        else:
            self._note_resume(suspended, anew)

    def _note_repair(self, repaired: Repaired) -> None:
        if self.resumes:
            self.mended.add(len(self.resumes) - 1)
        named = {repaired.tasks.get(task, task): had for task, had in self.attempts.items()}
        self.attempts = {task: had for task, had in named.items() if task}

    def _note_resume(self, suspended: Suspended | None, resumed: Resumed) -> None:
        if suspended is None or suspended.is_pause:
            if resumed.limits:
                self.notes.append("limits were raised while the run was not suspended")
            return
        self.resumes.append({"limits": dict(resumed.limits)} if resumed.limits else {})


def _command_count(program: Program, validator: str) -> int:
    """The number of commands of a validator, in the state with the most, or of a tool."""
    agent, _, tool = validator.partition(".")
    if tool:
        called = program.machine.agents[agent].callable_tools[tool]
        named = [program.machine.validators.get(name, ()) for name in called.validators]
        return sum(bool(rule.program) for rules in named for rule in rules_of(rules))
    rules = (program.validators_at(name).get(validator, ()) for name in program.graph.judges)
    counts = (sum(bool(rule.program) for rule in some) for some in rules)
    return max(counts, default=1)


def _runs_by_rule(ran: list[dict[str, Any]], rules: int) -> list[list[dict[str, Any]]]:
    """The runs of each rule, if there are equally many for each; else every run by itself."""
    size = len(ran) // rules if rules and len(ran) % rules == 0 else 1
    return [ran[start : start + size] for start in range(0, len(ran), size)]


def read_tape(
    program: Program, events: Iterable[Stored], limited: frozenset[str] | None = None
) -> Tape:
    """The tape of the run with these events.

    `limited` are all limits that hold for it; None means only its own.
    """
    stored = list(events)
    limited = limit_names(program, stored) if limited is None else limited
    tape, before = Tape(program, limited=limited), RunState()
    for event in stored:
        tape.note(before, event)
        apply(before, event.event)
    return tape


def limit_names(program: Program, events: Iterable[Stored]) -> frozenset[str]:
    """The names of all limits of a run that were in force at some time."""
    begun = (one.event for one in events if isinstance(one.event, Started | Resumed))
    return frozenset(program.limits).union(*(event.limits for event in begun))
