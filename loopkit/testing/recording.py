"""A family of runs → a case in a scenario file, with everything that it expects.

The file is checked before anything is spent, and the case is played once to check that it passes.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from pydantic import TypeAdapter, ValidationError

from loopkit.agents.players import CAPPED, FAULTS, SESSION_LOST, TOO_LONG, UNREADABLE
from loopkit.agents.port import CUT_OFF, NotRunnable
from loopkit.document.problems import ProblemsFound
from loopkit.document.writing import (
    NotSet,
    refuse_unwritable,
    replace_file,
    to_yaml,
    with_values,
)
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
from loopkit.language.datatypes.datatype import DataType, conform
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.machine import Machine
from loopkit.language.states.kinds import HumanState
from loopkit.language.validators import rules_of
from loopkit.language.validators.judge import JudgeRule
from loopkit.machine.program import Program
from loopkit.outside.redaction import Redact, redact_data, redactor
from loopkit.scenario.cases import SUFFIX, CaseName, LoadedScenario, load_file
from loopkit.scenario.playable import Playable
from loopkit.scenario.script import CHILDREN, PARTS
from loopkit.testing.expectations import expectations_of, run_case
from loopkit.testing.playing import FamilyRun
from loopkit.testing.suites import CaseResult, ChildName, Machines, by_state, load_suite
from loopkit.testing.trace import trace
from loopkit.text import one_line
from loopkit.text.json_text import parse_json
from loopkit.validators.judges.form import KNOWN

_IN_ADDRESS = re.compile(r"(?<=://)[^\s/@\"'`]+@")
_BEARER = re.compile(r"\b(Bearer|Basic) +[A-Za-z0-9._~+/=-]{8,}")


@dataclass(frozen=True)
class Recording:
    path: Path
    case: str
    failure: str
    """Why the case does not pass as it is written; empty where it passes."""


def record(
    target: Target, program: Program, run: FamilyRun, machines: Machines | None = None
) -> Recording:
    """Write the case of a run into its file; where it raises NotRecordable or NotWritable, nothing
    is written.

    A case that does not pass is written all the same, and its description says why. To record many
    runs, pass the same `machines` each time, so that each machine is checked once.
    """
    machines = machines or Machines()
    redact = _redactor_for(program.machine)
    state = run.state
    # The id of a child has a `/`, which no name can have.
    name = target.name or state.run.replace("/", "-")
    case = make_case(program, run, redact)
    case = {"description": f"Recorded from run {state.run}.", **case}
    text = target.text(name, case)
    failures = _play_beside(target.path, text, name, machines).failures
    failure = one_line("; ".join(failed.problem.message for failed in failures), 200)
    if failure:
        case["description"] += f" It does not pass: {failure}"
        text = target.text(name, case)
    replace_file(target.path, text)
    return Recording(target.path, name, failure)


def _play_beside(path: Path, text: str, name: str, machines: Machines) -> CaseResult:
    """Play a case of a text in place of a file; raises NotRecordable."""
    # In its folder, because its paths start there.
    folder = path.resolve().parent
    try:
        with NamedTemporaryFile(dir=folder, prefix=".", suffix=SUFFIX) as file:
            file.write(text.encode())
            file.flush()
            return run_case(load_suite(Path(file.name), machines), name)
    except ProblemsFound as found:
        messages = "; ".join(problem.message for problem in found.problems[:3])
        raise NotRecordable(f"no case of `{path}` can play this run: {messages}") from found
    except OSError as error:
        raise NotRecordable(f"`{path}` can't be written: {error.strerror}") from error


def _redactor_for(machine: Machine) -> Redact:
    """A function that removes the environment's secrets, and the credentials in addresses."""
    redact = redactor(os.environ, machine.key_names)

    def clean(text: str) -> str:
        return _BEARER.sub(r"\1 [credentials]", _IN_ADDRESS.sub("[credentials]@", redact(text)))

    return clean


NAME: TypeAdapter[str] = TypeAdapter(CaseName)


@dataclass(frozen=True)
class Target:
    path: Path
    machine: Path
    name: str | None = None
    """The name of the case; None for the id of the run."""
    known: LoadedScenario | None = None

    def text(self, name: str, case: dict[str, Any]) -> str:
        """The whole file with the case in it, the other cases as they are."""
        if self.known is None:
            machine = os.path.relpath(self.machine.resolve(), self.path.resolve().parent)
            named = Path(machine).as_posix()
            return to_yaml({"scenario": 1, "machine": named, "cases": {name: case}})
        if name in self.known.names:
            raise NotRecordable(f"`{self.path}` has a case `{name}` already; name another one")
        try:
            return with_values(self.known.source.document, ("cases",), {name: self._alone(case)})
        except NotSet as error:
            raise NotRecordable(f"{error}; name another file") from error

    def _alone(self, case: dict[str, Any]) -> dict[str, Any]:
        """The case, in which none of the parts that all cases share are played."""
        assert self.known is not None
        own = dict(case)
        for part in PARTS:
            shared: dict[str, Any] = {name: [] for name in self.known.plain.get(part, {})}
            if shared or part in own:
                own[part] = {**shared, **own.get(part, {})}
        expect = own.pop("expect", None)
        return {**own, "expect": expect} if expect is not None else own


def target(path: Path, machine: Path, name: str | None = None) -> Target:
    """A file that can take a recording; raises NotRecordable, NotWritable, and ProblemsFound.

    It is a new file, or one with cases of the same machine, to which the case is added.
    """
    if not path.name.endswith(SUFFIX):
        message = f"`{path}`: a recording is called `NAME{SUFFIX}`, so that it is found as a test"
        raise NotRecordable(message)
    if not machine.is_file():
        raise NotRecordable(f"`{machine}` is not a machine file that a recording can use")
    try:
        if name is not None:
            NAME.validate_python(name)
        refuse_unwritable(path)
    except ValidationError as error:
        [wrong] = error.errors()
        raise NotRecordable(f"{wrong['msg']}: {wrong['ctx']['help']}") from error
    known = load_file(path) if path.exists() else None
    if known is not None:
        _refuse_other(known, path, machine, name)
    return Target(path, machine, name, known)


def _refuse_other(known: LoadedScenario, path: Path, machine: Path, name: str | None) -> None:
    """Raise NotRecordable where the case can't be added to the existing file."""
    if known.scenario.machine is None:
        raise NotRecordable(f"`{path}` is a script without cases; name another file")
    tested = (known.folder / known.scenario.machine).resolve()
    if tested != machine.resolve():
        raise NotRecordable(
            f"`{path}` has cases of another machine, `{known.scenario.machine}`; name another file"
        )
    if name in known.names:
        raise NotRecordable(f"`{path}` has a case `{name}` already; name another one")


def make_case(program: Program, run: FamilyRun, redact: Redact) -> dict[str, Any]:
    """The case of a run, without the secrets that `redact` knows; raises NotRecordable."""
    state = run.state
    refuse_unrecordable(state)
    tape = read_tape(program, run.events, frozenset())
    case = {
        "input": _input(state.input, parse_record(program.machine.input)),
        "limits": _limits(tape.limits),
        "resumes": [{"limits": _limits(one)} if one else {} for one in tape.resumes],
        **family_parts(tape, run),
        "expect": expectations_of(trace(program.machine, run), program.machine),
    }
    kept: dict[str, Any] = redact_data({k: part for k, part in case.items() if part}, redact)
    return kept


def refuse_unrecordable(state: RunState) -> None:
    """Raise NotRecordable where a run is not at an end that a case can come to."""
    go_on = f"continue it with `loopkit resume {state.run}`, and then record it"
    if state.status == "cancelled":
        raise NotRecordable(f"run `{state.run}` was cancelled, which no case plays")
    if state.status == "suspended" and state.suspended is not None:
        if state.suspended.reason == "interrupted":
            raise NotRecordable(f"run `{state.run}` was interrupted; {go_on}")
    elif state.status not in ("finished", "waiting"):
        raise NotRecordable(f"run `{state.run}` is {state.status}; {go_on}")


def _input(given: Mapping[str, Any], datatype: DataType) -> dict[str, Any]:
    """The input without the defaults that the machine fills in."""
    kept = dict(given)
    for name in given:
        filled, faults = conform({k: v for k, v in kept.items() if k != name}, datatype)
        if not faults and filled == dict(given):
            del kept[name]
    return kept


def _limits(limits: Mapping[str, Any]) -> dict[str, Any]:
    return {n: f"{limit:g}s" if n == "time" else limit for n, limit in limits.items()}


class NotRecordable(NotRunnable):
    """A run that no case can play; the message says why and what to do."""


def family_parts(tape: Tape, run: FamilyRun) -> dict[str, Any]:
    """The parts of a run and of its children."""
    parts = {
        # A list where an agent is asked at one place, else by place.
        "agents": {
            agent: places if len(places) > 1 else next(iter(places.values()))
            for agent, places in _replies_by_agent(tape).items()
        },
        "commands": {
            name: [result or {"exit_code": 0} for result in results]
            for name, results in tape.commands.items()
            if results
        },
        "answers": dict(tape.answers),
    }
    children: dict[ChildName, dict[str, Any]] = {}
    for child in run.children:
        definition = tape.program.children[child.state]
        program = Program(definition.machine, definition.digest)
        within = read_tape(program, child.run.events, tape.limited)
        children[child[:3]] = family_parts(within, child.run)
    parts[CHILDREN] = by_state(tape.program.machine, children)
    return {part: value for part, value in parts.items() if value}


def _replies_by_agent(tape: Tape) -> dict[str, dict[str, list[Any]]]:
    """The replies of each agent at each place, in order; a reply with only a text is that text."""
    agents: dict[str, dict[str, list[Any]]] = {}
    for attempt in tape.attempts.values():
        calls = [call["reply"] if set(call) == {"reply"} else call for call in attempt.calls]
        places = agents.setdefault(attempt.agent, {})
        places.setdefault(attempt.place, []).append(calls[0] if len(calls) == 1 else calls)
    return agents


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
    """The limits that each of them raised."""
    limited: frozenset[str] = frozenset()
    """The names of all limits that were in force at some time."""
    files: dict[str, str] = field(default_factory=dict)

    @cached_property
    def bill(self) -> Playable:
        return Playable(self.program.graph)

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
            case Resumed() as resumed if before.suspended and not before.suspended.is_pause:
                self.resumes.append(dict(resumed.limits))
            case Repaired() as repaired:
                named = {repaired.tasks.get(task, task): had for task, had in self.attempts.items()}
                self.attempts = {task: had for task, had in named.items() if task}

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
        if failed.resume_at is not None:
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
        # The tries of the first rule, if there are equally many for each: all play the same.
        size = len(ran) // rules if rules and len(ran) % rules == 0 else 1
        tries = list(map(ran_of, ran[:size]))
        known[index] = tries[0] if len(tries) == 1 else tries

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


def read_tape(program: Program, events: Sequence[Stored], around: frozenset[str]) -> Tape:
    """The tape of a run; `around` are the limits of the runs around it."""
    begun = (one.event for one in events if isinstance(one.event, Started | Resumed))
    limited = around.union(program.limits, *(event.limits for event in begun))
    tape, before = Tape(program, limited=limited), RunState()
    for stored in events:
        tape.note(before, stored)
        apply(before, stored.event)
    return tape


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
    for note in replied.findings:
        call.setdefault("notes", {}).setdefault(note.code, []).append(note.message)
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


def fault_of(failed: Failed) -> dict[str, Any]:
    words = (_UNAVAILABLE if failed.unavailable else _WORDS)[failed.error_class]
    named = (w for said, w in words if re.search(said, failed.message, re.IGNORECASE))
    word = UNREADABLE if failed.unreadable else next(named)
    if failed.begins_anew and word != TOO_LONG:
        word = SESSION_LOST
    is_usual = FAULTS[word] == (failed.error_class, failed.message)
    return {"fault": word} if is_usual else {"fault": word, "message": failed.message}


def duration(seconds: float) -> str:
    """A duration such as `2.5s`; one very close to a tenth of a second is rounded to it."""
    tenths = round(seconds, 1)
    exact = tenths if abs(tenths - seconds) < 0.025 else seconds
    return f"{exact:.3f}".rstrip("0").rstrip(".") + "s"
