"""Strategies for replies, reports, results of commands, answers and faults."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from loopkit.agents.port import Request
from loopkit.engine.macrostep import Engine
from loopkit.engine.state import RunState
from loopkit.engine.template_values import render
from loopkit.language import (
    CommandRule,
    HumanState,
    JudgeRule,
    Rule,
)
from loopkit.language.datatypes import parse_fields, parse_record
from loopkit.machine.asked import DRAFT
from loopkit.machine.graph import artifact_of
from loopkit.machine.program import Program
from loopkit.testing.played_parts import Call
from loopkit.testing.properties.library import strategies as st
from loopkit.testing.properties.reports import Found, report
from loopkit.testing.properties.texts import Texts, condition_literals, quoted_texts
from loopkit.testing.properties.values import TEXT, value_of
from loopkit.validators.judges.forms import report_form_of
from loopkit.validators.judges.report_form import ReportForm

Draw = Callable[[st.SearchStrategy[Any]], Any]
MOST_USD = 0.05
"""The highest cost of a call."""
MOST_TOKENS = 2000
MOST_TEXTS = 12
FAULTS = (
    "server_error", "rate_limit", "timeout", "connection", "unreadable", "cut_off", "invalid_json",
    "refusal", "authentication", "quota", "region_outage", "context_too_long", "content_policy",
    "crash",
)  # fmt: skip
_NUMBER = re.compile(r"(?<![\w.\"'])\d+\b")
WRITTEN_FILE = "written.txt"
"""The file that agents write into a folder that is an artifact."""


@dataclass(frozen=True)
class Lines:
    """Strategies for all replies, results and answers in a machine, the plainest first."""

    program: Program

    def call(self, draw: Draw, run: RunState, request: Request) -> Call:
        """One call of an agent."""
        kind = draw(st.sampled_from(("said",) * 6 + ("fault",)))
        said = self._fault(draw) if kind == "fault" else self._reply(draw, run, request)
        return {**said, **draw(_spending())}

    def result(self, draw: Draw, run: RunState, place: str) -> Call:
        """One run of a command."""
        fault = draw(st.sampled_from((None,) * 8 + ("timeout", "not_found")))
        if fault is not None:
            return {"fault": fault}
        code = draw(st.sampled_from((0, 0, *self._exit_codes(place))))
        ended: Call = {"exit_code": code} if code else {}
        if place not in self.program.machine.states:
            return {**ended, "stdout": draw(TEXT)}
        text = self._text(draw, run)
        file = self._file(run)
        if file is None or draw(st.integers(0, 5)) == 5:
            return {**ended, "stdout": text}
        return {**ended, "files": {file: text}}

    def answer(self, draw: Draw, engine: Engine, run: RunState) -> Call | None:
        """The answer of a person; None for no answer."""
        state = self.program.machine.states_of(HumanState)[run.state]
        open_ones = [choice for choice in engine.questions.choices(run) if not choice.closed]
        is_there = draw(st.sampled_from((True,) * 7 + (False,)))
        after: Call = draw(self._after(state))
        if not (open_ones and is_there):
            return after or None
        chosen = draw(st.sampled_from(open_ones))
        said: Call = {"choice": chosen.name, **after}
        if chosen.takes_comment or chosen.needs_comment:
            said["comment"] = draw(st.sampled_from(["Change it.", "Say more."]))
        if state.form:
            said["form"] = draw(value_of(parse_record(state.form), self._words))
        if state.edit is not None and draw(st.booleans()):
            said["edit"] = f"Edited. {draw(TEXT)}"
        return said

    def _after(self, state: HumanState) -> st.SearchStrategy[Call]:
        if state.timeout is None:
            return st.just({})
        past: Call = {"after": f"{int(state.timeout) + 1}s"}
        return st.sampled_from([{}, {}, past])

    # -- what agents say -------------------------------------------------------------------

    def _fault(self, draw: Draw) -> Call:
        fault = draw(st.sampled_from(FAULTS))
        waits = {"retry_after": "2s"} if fault == "rate_limit" and draw(st.booleans()) else {}
        return {"fault": fault, **waits}

    def _reply(self, draw: Draw, run: RunState, request: Request) -> Call:
        if request.role == "judge":
            return self._judgement(draw, run, request)
        calls_tools = 3 if request.may_call_tools else 0
        if request.tools and draw(st.integers(0, 9)) <= calls_tools:
            return {"tool_calls": draw(st.lists(self._tool_call(request), min_size=1, max_size=3))}
        schema = self.program.machine.agents[request.agent].schema_
        drafts = _drafts(request)
        if drafts and draw(st.booleans()):
            return {"reply": drafts[-1]} if schema is None else {"data": drafts[-1]}
        is_data = schema is not None and draw(st.integers(0, 9)) < 9
        value = (
            draw(value_of(parse_fields(schema or {}), self._words))
            if is_data
            else self._text(draw, run)
        )
        file = self._file(run)
        if file is None or draw(st.integers(0, 9)) == 9:
            return {"data": value} if is_data else {"reply": value}
        return {"files": {file: json.dumps(value) if is_data else value}}

    def _tool_call(self, request: Request) -> st.SearchStrategy[Call]:
        """A call of a tool, or of a missing one, with arguments that may be malformed."""
        agent = self.program.machine.agents[request.agent]
        draft = (
            TEXT if agent.schema_ is None else value_of(parse_fields(agent.schema_), self._words)
        )
        calls = [st.just({"name": "missing"})]
        for name, tool in agent.callable_tools.items():
            given: st.SearchStrategy[Any] = st.just({})
            if tool.validators:
                given = st.fixed_dictionaries({DRAFT: draft})
            elif tool.accepts is not None:
                given = value_of(tool.accepts, self._words)
            called = {"name": st.just(name)}
            calls += [st.fixed_dictionaries({**called, "input": given})] * 4
            calls.append(st.just({"name": name, "arguments": "{"}))
        return st.one_of(calls)

    def _judgement(self, draw: Draw, run: RunState, request: Request) -> Call:
        rule, form = self._form(run, request)
        if draw(st.integers(0, 9)) == 9:
            return {"reply": draw(TEXT)}
        verdict = draw(st.sampled_from(("pass", "fail", "warn")))
        if rule.verdict is not None:
            words = {meant: word for word, meant in rule.verdict.words.items()}
            return {"reply": f"I have read it.\n\n{words.get(verdict, verdict.upper())}\n"}
        found, label = draw(self._findings(verdict, form)), str(draw(st.integers(1, 3)))
        data = report(form, verdict, found, label)
        if form.score is not None:
            data[form.parts.score] = draw(st.integers(int(form.score.min), int(form.score.max)))
        return {"data": data}

    def _findings(self, verdict: str, form: ReportForm) -> st.SearchStrategy[list[Found]]:
        levels = form.levels
        known = {"pass": (), "warn": levels.mild, "fail": levels.levels}[verdict]
        if not known:
            return st.just([])
        codes = ("", *self._words)
        origins = ("", *form.origins) if form.origin else ("",)
        found = st.builds(Found, *map(st.sampled_from, (known, codes, origins)))
        return st.lists(found, min_size=1, max_size=3)

    def _form(self, run: RunState, request: Request) -> tuple[JudgeRule, ReportForm]:
        machine = self.program.machine
        rules = self.program.validators_at(run.state)[request.place]
        rule = next(r for r in rules if isinstance(r, JudgeRule) and r.judge == request.agent)
        agent = machine.agents[request.agent]
        return rule, report_form_of(rule, agent, machine.levels, machine.origins)

    def _text(self, draw: Draw, run: RunState) -> str:
        """A text that keeps the rules for it, or breaks one, or ignores them."""
        number = draw(st.sampled_from((run.attempts.get(run.state, 0) + 1, 1)))
        texts = Texts(list(self._rules(run.state)), self.program.machine.patterns, number)
        made = list(dict.fromkeys(islice(texts.candidates(), MOST_TEXTS)))
        text: str = draw(st.sampled_from([*made[:1] * 3, *made]) | TEXT)
        return text

    def _file(self, run: RunState) -> str | None:
        """The file that the current work has to write, if it has to write one."""
        output = self.program.machine.states[run.state].output_at(run.state)
        if output is None:
            return None
        if output.folder is not None:
            return f"{render(self.program, run, output.folder).strip()}/{WRITTEN_FILE}"
        return None if output.file is None else render(self.program, run, output.file).strip()

    # -- what the machine looks for --------------------------------------------------------

    def _rules(self, author: str) -> Iterator[Rule]:
        """The rules that judge what a state writes, without those that ask a judge."""
        written = artifact_of(self.program.machine, author)
        for name in self.program.graph.judged.get(written or "", ()):
            for rules in self.program.validators_at(name).values():
                yield from (rule for rule in rules if rule.asks is None)

    def _exit_codes(self, place: str) -> Iterator[int]:
        yield from (1, 2)
        if place in self.program.machine.states:
            yield from self._numbers
        for name in self.program.graph.judges:
            for rule in self.program.validators_at(name).get(place, ()):
                yield from rule.fail_codes if isinstance(rule, CommandRule) else ()

    @cached_property
    def _words(self) -> Sequence[str]:
        """The texts that guards and conditions name."""
        rules = [r for name in self.program.machine.states for r in self._rules(name)]
        return tuple(dict.fromkeys([*quoted_texts(self._guards), *condition_literals(rules)[0]]))

    @cached_property
    def _numbers(self) -> Sequence[int]:
        found = [int(n) for text in self._guards for n in _NUMBER.findall(text)]
        return tuple(number for number in dict.fromkeys(found) if number <= 255)

    @property
    def _guards(self) -> Iterator[str]:
        yield from self.program.machine.guards.values()
        yield from (edge.guard for edge in self.program.graph.edges if edge.guard is not None)


def _drafts(request: Request) -> list[Any]:
    """The drafts that were passed to a validating tool in this conversation."""
    calls = [call for message in request.messages for call in message.tool_calls]
    with_drafts = (json.loads(one.arguments) for one in calls if f'"{DRAFT}"' in one.arguments)
    return [given[DRAFT] for given in with_drafts]


def _spending() -> st.SearchStrategy[Call]:
    """Tokens and cost of a call; most have none, so that cases stay short."""
    tokens = st.fixed_dictionaries({"output": st.integers(1, MOST_TOKENS)})
    usd = st.sampled_from([0.01, 0.02, MOST_USD])
    spent = st.fixed_dictionaries({}, optional={"usage": tokens, "cost_usd": usd})
    return st.just({}) | spent
