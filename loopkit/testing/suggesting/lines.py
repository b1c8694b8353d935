"""What is said at one step: by an agent, by a command, by a person."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from loopkit.agents.port import Request
from loopkit.drive.active import ActiveRun
from loopkit.engine.macrostep import Engine
from loopkit.engine.names import render
from loopkit.engine.state import RunState
from loopkit.language import (
    AuthorState,
    CommandRule,
    HumanState,
    JudgeRule,
    Rule,
    ValidateState,
)
from loopkit.language.datatypes import parse_record
from loopkit.machine.graph import output_of
from loopkit.proof.outcomes import OTHER_TEXT
from loopkit.testing.suggesting.author import Writing, as_reply, shown_text
from loopkit.testing.suggesting.programs import ended
from loopkit.testing.suggesting.reports import Found, report, words
from loopkit.testing.suggesting.said import Call
from loopkit.testing.suggesting.values import Hints, smallest
from loopkit.testing.suggesting.wants import Want
from loopkit.validators.report_form import ReportForm, form_of

FAULTS: Mapping[str, Call] = {
    "transient": {"fault": "rate_limit"},
    "content": {"fault": "cut_off"},
    "fatal": {"fault": "authentication"},
}
COMMAND_FAULTS: Mapping[str, Call] = {
    "transient": {"fault": "timeout"},
    "fatal": {"fault": "not_found"},
}
NO_VERDICT = "Suggested answer without a verdict."
Write = Callable[[ActiveRun, Sequence[str]], Writing]


class LimitNeeded(Exception):
    """The run has to have a limit of so many calls to go on as wanted."""

    def __init__(self, calls: int) -> None:
        super().__init__(calls)
        self.calls = calls


@dataclass(frozen=True)
class Lines:
    """The lines of one step."""

    active: ActiveRun
    want: Want

    def of(self, request: Request, write: Write, known: Sequence[str]) -> Call:
        """What an agent says; raises NoWords."""
        event = self.want.step.move.event
        if event == "limit":
            return self._refused()
        if request.role == "judge":
            return self._judge(request)
        if event != "done":
            return self._without_file() if event == "content" and self._file else FAULTS[event]
        return self._author(write(self.active, known))

    def of_command(self, place: str, write: Write) -> Call:
        """How a command ends; raises NoWords."""
        rules = self._rules_of(place)
        if rules:
            return self._check(place, rules)
        event = self.want.step.move.event
        if event in COMMAND_FAULTS:
            return COMMAND_FAULTS[event]
        code = self.want.row.get("exit_code", 0)
        ended: Call = {"exit_code": code} if code else {}
        if event == "content":
            return ended
        return {**ended, **self._printed(write(self.active, ()))}

    def _rules_of(self, place: str) -> Sequence[Rule]:
        """The rules of a validator that is asked, or whose baseline is taken before anything is."""
        program, name = self.active.program, self.active.state.state
        state = program.machine.states.get(name)
        if state is not None and not isinstance(state, ValidateState):
            return ()
        asking = [state] if state else program.machine.states.values()
        judging = (one for one in asking if isinstance(one, ValidateState))
        known = (program.validators_of(one).get(place, ()) for one in judging)
        return next((rules for rules in known if rules), ())

    # -- authors ---------------------------------------------------------------------------

    def _author(self, writing: Writing) -> Call:
        if writing.is_faulty:
            return self._without_file() if self._file else FAULTS["content"]
        answer = writing.answer()
        if self._file is None:
            return as_reply(answer)
        return {"files": {self._file: shown_text(answer)}}

    def _printed(self, writing: Writing) -> Call:
        if writing.is_faulty:
            return {}
        text = shown_text(writing.answer())
        return {"stdout": text} if self._file is None else {"files": {self._file: text}}

    @property
    def _file(self) -> str | None:
        """The file of the output, where nothing but that file is the artifact."""
        run, program = self.active.state, self.active.program
        state = program.machine.states[run.state]
        assert isinstance(state, AuthorState)
        output = output_of(state, run.state)
        if output.file is None or output.else_ is not None:
            return None
        return render(program, run, output.file).strip()

    def _without_file(self) -> Call:
        return {"reply": f"Suggested answer, without the file `{self._file}`."}

    def _refused(self) -> Call:
        """A call that can take more than one of the limits leaves."""
        limits = self.active.limits
        if limits.get("cost_usd") is not None:
            return {"reserved": {"cost_usd": limits["cost_usd"] + 1}}
        if limits.get("tokens") is not None:
            return {"reserved": {"tokens": limits["tokens"] + 1}}
        if limits.get("agent_calls") != (calls := self.active.state.committed.agent_calls):
            raise LimitNeeded(calls)
        return {"reserved": {}}

    # -- reports ---------------------------------------------------------------------------

    def _judge(self, request: Request) -> Call:
        rule, want = self._rule(request), self.want
        if want.by != "judge" or want.place not in ("", request.place):
            return self._report(rule, "pass")
        event = want.step.move.event
        if event == "content":
            return {"reply": NO_VERDICT}
        if event != "done" or want.verdict == "incomplete":
            return FAULTS["fatal" if event == "done" else event]
        return self._report(rule, want.verdict or "pass")

    def _rule(self, request: Request) -> JudgeRule:
        state = self.active.program.machine.states[self.active.state.state]
        assert isinstance(state, ValidateState)
        rules = self.active.program.validators_of(state)[request.place]
        return next(r for r in rules if isinstance(r, JudgeRule) and r.judge == request.agent)

    def _report(self, rule: JudgeRule, verdict: str) -> Call:
        if rule.verdict is not None:
            patterns = self.active.program.machine.patterns
            return {"reply": words(rule.verdict, verdict, self._label, patterns)}
        machine = self.active.program.machine
        form = form_of(rule, machine.agents[rule.judge], machine.levels)
        found = () if verdict == "pass" else self._found(form)
        score = self.want.row.get("score")
        return {"data": report(form, verdict, found, self._label, score)}

    def _found(self, form: ReportForm) -> list[Found]:
        """The findings that bring the wanted facts about."""
        row, levels = self.want.row, form.levels
        fails = self.want.verdict == "fail"
        errors = _number(row.get("error_count"), 1) if fails else 0
        warnings = _number(row.get("warning_count"), 0 if fails else 1)
        found = [Found(levels.worst)] * errors + [Found(levels.advisory)] * warnings
        codes = row.get("codes")
        wanted = sorted(codes) if isinstance(codes, frozenset) else []
        while len(found) < len(wanted):
            found.append(found[0])
        return [Found(one.level, code) for one, code in zip(found, wanted, strict=False)] + found[
            len(wanted) :
        ]

    @property
    def _label(self) -> str:
        """What the findings of this round are called: as two rounds ago, where they come back."""
        visit = self.active.state.visit
        return str(max(1, visit - 2) if self.want.row.get("regressed") else visit)

    def _check(self, place: str, rules: Sequence[Rule]) -> Call:
        """How the program of a validator ends."""
        rule = next(rule for rule in rules if isinstance(rule, CommandRule))
        verdict, event = self.want.verdict, self.want.step.move.event
        if self.want.by != "command" or self.want.place != place:
            return self._ended(rule, "pass")
        if event in COMMAND_FAULTS or verdict == "incomplete":
            lost = COMMAND_FAULTS["fatal" if event == "done" else event]
            tries = rule.retry.attempts if event == "transient" else 1
            return {**lost, "earlier": [lost] * (tries - 1)} if tries > 1 else lost
        return self._ended(rule, verdict or "pass")

    def _ended(self, rule: CommandRule, verdict: str) -> Call:
        run, program = self.active.state, self.active.program
        file = None if rule.file is None else render(program, run, rule.file).strip()
        return ended(rule, verdict, self._label, program.machine, file)


def answer(engine: Engine, run: RunState, state: HumanState, want: Want, number: int) -> Call:
    """What a person answers, as a scenario file writes it."""
    choice = str(want.row.get("choice", state.choices[0]))
    said: Call = {"choice": choice}
    if any(c.name == choice and c.takes_comment for c in engine.closed_choices(run)):
        said["comment"] = f"Suggested comment {number}."
    fields = parse_record(state.form)
    fixed = {n: v for n, v in want.row.items() if n != "choice" and v != OTHER_TEXT}
    form = smallest(fields, Hints(str(number)), fixed)
    known = {} if fields.fields is None else fields.fields
    kept = {n: v for n, v in (form or {}).items() if n in fixed or known[n].required}
    return {**said, "form": kept} if kept else said


def _number(value: object, otherwise: int) -> int:
    return int(value) if isinstance(value, int | float) else otherwise
