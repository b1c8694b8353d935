"""The events of a run → what agents, commands and people did in it, in the order of a scenario."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from loopkit.agents.port import CUT_OFF
from loopkit.agents.scripted import CAPPED, FAULTS, SESSION_LOST, TOO_LONG, UNREADABLE
from loopkit.drive.retries import JITTER
from loopkit.drive.stored_runs import Stored
from loopkit.engine.changes import apply
from loopkit.engine.events import (
    Baselined,
    Failed,
    InDoubt,
    Intended,
    Repaired,
    Replied,
    Resumed,
    Started,
    Suspended,
    Worked,
)
from loopkit.engine.payloads import HumanAnswer, Ran, ToolCall
from loopkit.engine.records import Usage
from loopkit.engine.state import RunState
from loopkit.engine.template_values import render
from loopkit.language.machine import Machine
from loopkit.language.section import Retry
from loopkit.language.states.kinds import HumanState
from loopkit.language.validators import rules_of
from loopkit.language.validators.judge import JudgeRule
from loopkit.machine.program import Program
from loopkit.testing.playbill import Playbill
from loopkit.text.json_text import parse_json
from loopkit.validators.judges.form import KNOWN


@dataclass
class Attempt:
    """The calls of one piece of work."""

    agent: str
    place: str
    calls: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Tape:
    program: Program
    attempts: dict[str, Attempt] = field(default_factory=dict)
    """By task, in the order in which agents were first asked."""
    commands: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    """The results by `run` state, validator or tool."""
    answers: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    """By `human` state."""
    limits: dict[str, Any] = field(default_factory=dict)
    """The limits with which the run was started."""
    resumes: list[dict[str, Any]] = field(default_factory=list)
    mended: set[int] = field(default_factory=set)
    """The indices of resumes with a repair, after which the cause of the stop may be gone."""
    notes: list[str] = field(default_factory=list)
    limited: frozenset[str] = frozenset()
    """The names of all limits that were in force at some time."""
    files: dict[str, str] = field(default_factory=dict)

    @cached_property
    def bill(self) -> Playbill:
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
                self._note_doubt(before, before.open_calls[doubt.key], doubt)
            case Baselined() as taken:
                self._note_results(taken.validator, 0, taken.commands)
            case Worked() | Suspended() as work:
                self._note_work(before, work, stored.at)
            case Resumed() as resumed:
                self._note_resume(before.suspended, resumed)
            case Repaired() as repaired:
                self._note_repair(repaired)

    def _note_intent(self, before: RunState, intent: Intended) -> None:
        state = self.program.machine.states[intent.state]
        output = state.output_at(intent.state)
        if output is not None and output.file is not None:
            self.files[intent.key] = render(self.program, before, output.file).strip()
        if intent.is_of_agent:
            known = self.attempts.get(intent.task)
            # A call that a limit refused is made after a resume.
            while known is not None and known.calls and set(known.calls[-1]) == {"reserved"}:
                known.calls.pop()
            self._mark_recorded(before, intent)
            self.attempts.setdefault(intent.task, Attempt(intent.agent, intent.place))

    def _mark_recorded(self, before: RunState, intent: Intended) -> None:
        """Mark an unusable answer about open findings, so that a scenario can't use it either."""
        task, attempt = before.tasks.get(intent.task), self.attempts.get(intent.task)
        if intent.role != "judge" or not (task and task.exchanges and attempt and attempt.calls):
            return
        rules = self.program.validators_at(intent.state).get(intent.place, ())
        was_asked = f'"{KNOWN}"' in task.exchanges[0].prompt and any(
            isinstance(rule, JudgeRule) and rule.judge == intent.agent and rule.is_own_form
            for rule in rules
        )
        if was_asked and not task.exchanges[-1].reply.played:
            attempt.calls[-1]["recorded"] = True

    def _note_reply(self, before: RunState, intent: Intended, replied: Replied) -> None:
        file = self.files.get(replied.key, "")
        if intent.role == "tool":
            if replied.commands:
                self._note_results(intent.agent, before.tasks[intent.task].index, replied.commands)
            return
        if intent.role == "run":
            self.commands[intent.state].append(result_of(replied, file))
            return
        call = reply_of(replied, intent, self.program.machine, self.limited, file)
        self.attempts[intent.task].calls.append(call)

    def _note_failure(self, before: RunState, failed: Failed, at: float) -> None:
        intent = before.open_calls[failed.key]
        if not intent.is_of_agent:
            word = "timeout" if failed.error_class == "transient" else "not_found"
            self._note_command_fault(before, intent, {"fault": word, "message": failed.message})
            return
        call = fault_of(failed) | usage_of(failed.usage)
        if intent.asks_agent and not failed.usage.agent_calls:
            call["sent"] = False
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
            call | reservation_of(intent.reserved, self.limited, failed.usage)
        )

    def _note_command_fault(self, before: RunState, intent: Intended, fault: Any) -> None:
        if intent.agent in self.bill.commands:
            results = self.commands[intent.agent]
            if intent.role == "tool":
                results += [NOTHING] * (before.tasks[intent.task].index - len(results))
            results.append(fault)

    def _note_doubt(self, before: RunState, intent: Intended, doubt: InDoubt) -> None:
        if doubt.policy == "ask":
            asked = f"a person was asked about a call of `{intent.agent}`"
            self.notes.append(f"{asked}, which no scenario plays")
        elif not doubt.reason and intent.role in ("run", "tool"):
            tool = f"a call of the tool `{intent.agent}`"
            what = tool if intent.role == "tool" else f"the command of `{intent.state}`"
            self.notes.append(f"{what} was in doubt, which no scenario plays")
        fault = {"fault": "timeout" if doubt.reason else "crash"}
        if intent.is_of_agent:
            if doubt.reason and "time" in self.limited:
                fault["delay"] = f"{doubt.time_s:.3f}s"
            # It stays charged at what was reserved.
            self.attempts[intent.task].calls.append(fault | usage_of(intent.reserved))
        elif doubt.reason:
            self._note_command_fault(before, intent, fault)

    def _note_work(self, before: RunState, work: Worked | Suspended, at: float) -> None:
        for validator in dict.fromkeys(ran.validator for ran in work.commands):
            index = before.visit - 1 + ((work.state, validator) in before.baselines)
            self._note_results(
                validator, index, [r for r in work.commands if r.validator == validator]
            )
        report = work.report if isinstance(work, Worked) else None
        waits = {answer.validator: answer.resume_at for answer in report.answers} if report else {}
        self._note_wait(f"{work.state}:{before.visit}:", work.resume_at, waits, at)
        refused = work.refused
        if refused is not None and refused.agent in self.program.machine.agents:
            attempt = self.attempts.setdefault(refused.task, Attempt(refused.agent, refused.place))
            reserved = reservation_of(refused.reserved, COUNTED, Usage())
            attempt.calls.append(reserved or {"reserved": {"tokens": 0}})
        if isinstance(work, Worked) and work.answer is not None:
            asking = self.program.machine.states_of(HumanState)[work.state]
            self.answers[work.state].append(answer_of(work.answer, asking.timeout))

    def _note_results(self, validator: str, index: int, ran: Sequence[Ran]) -> None:
        known = self.commands[validator]
        known += [NOTHING] * (index + 1 - len(known))
        rules = _command_count(self.program, validator)
        # The runs of each rule, if there are equally many for each; else every run by itself.
        size = len(ran) // rules if rules and len(ran) % rules == 0 else 1
        rounds = [list(map(ran_of, ran[at : at + size])) for at in range(0, len(ran), size)]
        # The tries of one command; a single one without a list.
        result = rounds[0][0] if len(rounds[0]) == 1 else rounds[0]
        if any(one != rounds[0] for one in rounds) or known[index] not in (NOTHING, result):
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


def read_tape(
    program: Program, events: Iterable[Stored], limited: frozenset[str] | None = None
) -> Tape:
    """The tape of a run; `limited` are all limits that hold for it, None means only its own."""
    stored = list(events)
    limited = limit_names(program, stored) if limited is None else limited
    tape, before = Tape(program, limited=limited), RunState()
    for event in stored:
        tape.note(before, event)
        apply(before, event.event)
    return tape


def limit_names(program: Program, events: Iterable[Stored]) -> frozenset[str]:
    begun = (one.event for one in events if isinstance(one.event, Started | Resumed))
    return frozenset(program.limits).union(*(event.limits for event in begun))


NOTHING: dict[str, Any] = {}
"""The result where none was needed."""
COUNTED = frozenset({"tokens", "cost_usd"})
"""The limits that look at the maximum that a call can take."""


def reply_of(
    replied: Replied, intent: Intended, machine: Machine, limits: frozenset[str], file: str
) -> dict[str, Any]:
    """The call with a reply; `file` is the one to which the agent writes its output, if any."""
    call = _reply_part(replied.raw or replied.text)
    agent = machine.agents[intent.agent]
    if replied.has_no_tools and agent.callable_tools:
        # loopkit makes the call that this agent could not make.
        call["tools"] = False
    elif replied.tool_calls:
        call = call if replied.text else {}
        call["tool_calls"] = list(map(_tool_call, replied.tool_calls))
    if replied.artifact_text is not None:
        call |= {"files": {file: replied.artifact_text}}
        call = call if replied.text else {"files": call["files"]}
    if replied.said:
        call["said"] = list(replied.said)
    if replied.cut_off:
        call["cut_off"] = True
    call |= _files_of(replied)
    if agent.goes_on and replied.session is None:
        call["session"] = False
    if "time" in limits:
        call["delay"] = f"{replied.usage.time_s:.3f}s"
    return call | usage_of(replied.usage) | reservation_of(intent.reserved, limits, replied.usage)


def usage_of(usage: Usage) -> dict[str, Any]:
    tokens: dict[str, Any] = {"usage": {"total": usage.tokens}} if usage.tokens else {}
    return tokens | ({"cost_usd": usage.cost_usd} if usage.cost_usd != 0 else {})


def reservation_of(reserved: Usage, limits: frozenset[str], used: Usage) -> dict[str, Any]:
    """The reservation that limits saw before the call, if any limit looks at it.

    Without one, what the call `used` would be reserved when it is played.
    """
    amounts = {name: getattr(reserved, name) for name in ("tokens", "cost_usd") if name in limits}
    kept = {name: most for name, most in amounts.items() if (most, getattr(used, name)) != (0, 0)}
    return {"reserved": kept} if kept else {}


def result_of(replied: Replied, file: str) -> dict[str, Any]:
    result = _output_of(replied.exit_code or 0, replied.text, replied.stderr)
    if replied.artifact_text is not None:
        result["files"] = {file: replied.artifact_text}
    return result | _files_of(replied)


def _files_of(replied: Replied) -> dict[str, Any]:
    """The substitutes for the files of a workspace, which a scenario does not have."""
    files: dict[str, Any] = {"workspace": replied.workspace} if replied.workspace else {}
    if replied.folder is not None:
        folder = replied.folder.plain().items()
        files["folder"] = {name: value for name, value in folder if value and name != "place"}
    return files


def ran_of(ran: Ran) -> dict[str, Any]:
    if ran.fault == "":
        result = _output_of(ran.exit_code, ran.stdout, ran.stderr)
        return result | ({"files": ran.files} if ran.files else {})
    printed = {"stdout": ran.stdout, "stderr": ran.stderr}
    kept = {stream: text for stream, text in printed.items() if text}
    return {"fault": ran.fault, "message": ran.message, **kept}


def answer_of(answer: HumanAnswer, timeout_s: float | None) -> Any:
    if answer.by == "timeout":
        return {"after": f"{timeout_s or 0:g}s"}
    given = {
        "choice": answer.choice,
        "comment": answer.comment,
        "form": answer.form,
        "edit": answer.edit,
        "origins": {name: list(states) for name, states in answer.origins.items()},
        "limits": answer.limits,
    }
    # A text that was edited away is no missing one.
    parts = {key: value for key, value in given.items() if value or (key, value) == ("edit", "")}
    return answer.choice if len(parts) == 1 else parts


def _reply_part(text: str) -> dict[str, Any]:
    """The reply: as data if that gives the same text."""
    data = parse_json(text)
    is_data = isinstance(data, dict | list) and json.dumps(data, ensure_ascii=False) == text
    return {"data": data} if is_data else {"reply": text}


def _tool_call(called: ToolCall) -> dict[str, Any]:
    reply = _reply_part(called.arguments)
    given = {"input": reply["data"]} if "data" in reply else {"arguments": called.arguments}
    return {"name": called.name, **given}


def _output_of(exit_code: int, stdout: str, stderr: str) -> dict[str, Any]:
    result = {"exit_code": exit_code, "stdout": stdout, "stderr": stderr}
    return {key: value for key, value in result.items() if value} or {"exit_code": 0}


_NO_QUOTA = r"quota|credit|budget|402"
_WORDS = {
    "transient": (
        (r"429|rate.?limit|too many", "rate_limit"),
        (r"no answer within|time[sd]? ?out|took longer|408|504", "timeout"),
        (r"connect|reach|network|lost", "connection"),
        ("", "server_error"),
    ),
    "fatal": (
        (f"^{CUT_OFF}", CAPPED),
        (_NO_QUOTA, "quota"),
        (r"too long|context", "context_too_long"),
        (r"content policy", "content_policy"),
        (r"401|403|\bkey\b", "authentication"),
        ("", "bad_request"),
    ),
    "content": (("", "refusal"),),
}
"""By class: patterns of messages, each with its word. The first pattern that is found counts."""
_UNAVAILABLE = {
    "transient": (("", "region_outage"),),
    "fatal": ((_NO_QUOTA, "quota"), ("", "missing_model")),
}
"""Patterns and words for a model that is unavailable."""
_NOTICEABLE_S = 0.05
"""A wait that exceeds ours by less than this is ours."""


def fault_of(failed: Failed) -> dict[str, Any]:
    words = (_UNAVAILABLE if failed.unavailable else _WORDS)[failed.error_class]
    named = (w for said, w in words if re.search(said, failed.message, re.IGNORECASE))
    word = UNREADABLE if failed.unreadable else next(named)
    if failed.begins_anew and word != TOO_LONG:
        word = SESSION_LOST
    is_usual = FAULTS[word] == (failed.error_class, failed.message)
    return {"fault": word} if is_usual else {"fault": word, "message": failed.message}


def provider_wait(wait_s: float, retry: Retry, tries: int) -> str | None:
    """The wait that the provider asked for; None if it is our own after `tries` failures."""
    own = min(retry.backoff * 2.0**tries * (1.0 + JITTER), retry.max_backoff)
    return duration(wait_s) if wait_s > own + _NOTICEABLE_S else None


def duration(seconds: float) -> str:
    """A duration such as `2.5s`; one very close to a tenth of a second is rounded to it."""
    tenths = round(seconds, 1)
    exact = tenths if abs(tenths - seconds) < _NOTICEABLE_S / 2 else seconds
    return f"{exact:.3f}".rstrip("0").rstrip(".") + "s"
