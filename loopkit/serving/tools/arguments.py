"""Toolboxes: the tools that a server offers, their unchecked arguments, and their answers.

Served of validators are those that need only a draft and inputs, the arguments of their tools.
"""

from __future__ import annotations

import asyncio
import copy
import json
import shlex
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from loopkit.agents.port import NotRunnable
from loopkit.app import App
from loopkit.document.problems import did_you_mean
from loopkit.drive.claimed_runs import NoReport, StandaloneValidator
from loopkit.drive.stored_runs import OpenQuestion
from loopkit.engine.findings import report_diagnostics
from loopkit.engine.payloads import Wanted
from loopkit.engine.state import RunState
from loopkit.language.datatypes.datatype import DataType
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.input_faults import InvalidInput
from loopkit.language.json_schema.equality import NotJudged
from loopkit.language.machine import Machine
from loopkit.language.validators.judge import JudgeRule
from loopkit.machine.inputs import partial_input
from loopkit.machine.scope import inputs_read, others_read
from loopkit.outside.redaction import Redact, redact_data
from loopkit.text import one_line
from loopkit.text.run_ids import root_of
from loopkit.views.hints import answer_hints, hints_for, question_hints
from loopkit.views.run_data import status_of


def refuse_unknown(names: Iterable[str], known: Collection[str], noun: str = "argument") -> None:
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or "there is none"
            raise CallRefused(f"unknown {noun} `{one_line(name)}`; {hint}")


@dataclass(frozen=True)
class ServedTool:
    name: str
    description: str
    arguments: Mapping[str, Any]
    """JSON Schema of its arguments."""
    changes_nothing: bool = False
    """Whether it is read-only: it starts no program and makes no call."""

    def refuse(self, given: Mapping[str, Any]) -> None:
        """Refuse arguments that it does not have, and what should be a text and is none."""
        known = self.arguments["properties"]
        refuse_unknown(given, known)
        for name, schema in known.items():
            is_needed = name in given or name in self.arguments.get("required", ())
            if (
                is_needed
                and schema.get("type") == "string"
                and not isinstance(given.get(name), str)
            ):
                raise CallRefused(f"`{name}` has to be a text: {schema['description']}")


class CallRefused(Exception):
    """A call that is refused; the message tells the model why, and what to do."""


Tell: TypeAlias = Callable[[str], Awaitable[None]]


@dataclass(frozen=True)
class Caller:
    tell: Tell | None = None
    """Takes what happens in the call; None if the client did not ask for it."""
    program: str = "a client"
    """The client's own name, for the record."""


NOBODY = Caller()


class Toolbox(Protocol):
    @property
    def instructions(self) -> str:
        """The purpose of the tools, for the client's model."""

    @property
    def offered(self) -> Sequence[ServedTool]: ...

    async def call(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        """The answer of a tool; raises CallRefused. The arguments have not been checked."""


LONGEST_RESULT = 250_000
"""Characters of a result as JSON: some clients refuse messages of more than a mebibyte, and an
answer contains its data twice."""


async def standing(app: App, run: str, pages: str = "") -> dict[str, Any]:
    """Where a run and its family stand; `pages` is the address of a server that shows runs, if any.

    Of several requests to outside agents it has that of the run itself, else the first one.
    """
    state = await app.state_of(root_of(run))
    [row] = await app.journal.runs(run=state.run)
    status = status_of(state, is_driven=row.is_driven)
    usage = await app.usage_of(state)
    asked = await app.questions(state.run)
    answer: dict[str, Any] = {"run": state.run, "machine": row.machine, "status": status}
    answer["state"] = state.state
    if (finished := state.finished) is not None:
        answer |= {"outcome": finished.outcome, "success": finished.success}
        if _is_short(finished.result):
            answer["result"] = finished.result
    if message := "\n".join(await _message(app, state, status, asked, pages)):
        answer["message"] = message
    questions, requests = [], []
    for one in asked:
        if one.question.wanted is not None:
            requests.append(_request(one, one.question.wanted))
            continue
        choices = [choice.name for choice in one.question.choices if not choice.closed]
        questions.append({"run": one.state.run, "text": one.question.text, "choices": choices})
    if questions:
        answer["questions"] = questions
    if requests:
        answer["request"] = next((one for one in requests if one["run"] == run), requests[0])
    return {**answer, "calls": usage.agent_calls, "cost_usd": usage.cost_usd}


def _is_short(result: Mapping[str, Any]) -> bool:
    return len(json.dumps(result)) <= LONGEST_RESULT


def _request(asked: OpenQuestion, wanted: Wanted) -> dict[str, Any]:
    optional = {"schema": wanted.json_schema, "workspace": wanted.workspace, "path": wanted.path}
    return {
        "id": asked.question.question,
        "run": asked.state.run,
        "state": asked.state.state,
        "attempt": wanted.attempt,
        "prompt": asked.question.text,
        "artifact": wanted.artifact,
        "form": wanted.form,
        "deliver": _how_to_deliver(wanted),
        **{name: value for name, value in optional.items() if value},
    }


def _how_to_deliver(wanted: Wanted) -> str:
    if wanted.is_left:
        how = f"put it at {wanted.path!r} in the workspace, and submit without `artifact`"
        return how + ("; or submit a text as `artifact`" if wanted.takes_text else "")
    what = "the whole text" if wanted.form == "text" else "data that fits `schema`"
    where = ", after working in the workspace" if wanted.workspace else ""
    return f"submit {what} as `artifact`{where}"


async def _message(
    app: App, state: RunState, status: str, asked: Sequence[OpenQuestion], pages: str
) -> list[str]:
    if status == "waiting":
        is_wanted = any(one.question.wanted is not None for one in asked)
        request = ["the run waits for what `request` asks for; `submit` takes it"]
        return [*(request if is_wanted else []), *_asking(state.run, asked, pages)]
    if status == "interrupted":
        return ["nobody drives the run now; the tool `resume` goes on with it"]
    if state.finished is not None:
        report = shlex.join(["loopkit", "report", state.run, "-o", "run.html"])
        where = f"the result is too long for an answer; a person finds it with `{report}`"
        return [] if _is_short(state.finished.result) else [where]
    if (stopped := state.suspended) is not None:
        may_go_on = stopped.reason in ("interrupted", "transient")
        tool = ["the tool `resume` goes on with it"] if may_go_on else []
        return [stopped.message, *tool, *await hints_for(app, state, app.clock.now())]
    if status in ("running", "new"):
        return ["the run is being driven; call `status` again later"]
    return ["the run was cancelled"] if status == "cancelled" else []


def _asking(run: str, asked: Sequence[OpenQuestion], pages: str) -> Iterator[str]:
    people = [one for one in asked if one.question.wanted is None]
    if asked and not people:
        return
    yield "a person has to answer, and not you: show the user the question and these lines"
    if len(people) == 1 and people[0].state.run == run:
        yield from answer_hints(run, people[0].question)
    else:
        yield from question_hints(run, people)
    if pages:
        yield f"or at {pages}/runs/{run}"


AT_ONCE = 4


class ValidatorToolbox:
    def __init__(self, app: App, tools: Sequence[ValidatorTool], redact: Redact) -> None:
        self._app = app
        self._tools = {tool.validator.name: tool for tool in tools}
        self._redact = redact
        self._room = asyncio.Semaphore(AT_ONCE)

    @property
    def instructions(self) -> str:
        return (
            "Each tool judges a draft and finds what is wrong with it. Call it with the whole "
            "draft, correct what blocks, and call it again until `ok` is true."
        )

    @property
    def offered(self) -> Sequence[ServedTool]:
        return [tool.offered for tool in self._tools.values()]

    async def call(
        self, name: str, arguments: Mapping[str, Any], caller: Caller = NOBODY
    ) -> dict[str, Any]:
        """The diagnostics of a draft; raises CallRefused if there is no verdict."""
        try:
            diagnostics = await self._judge(name, arguments)
        except (CallRefused, NoReport, NotRunnable, NotJudged) as error:
            raise CallRefused(self._redact(str(error))) from error
        plain: dict[str, Any] = redact_data(diagnostics, self._redact)
        return plain

    async def _judge(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        refuse_unknown([name], self._tools, "tool")
        tool = self._tools[name]
        text, inputs = tool.read(arguments)
        async with self._room:
            report = await self._app.judge(tool.validator, text, inputs)
        if report.verdict == "incomplete":
            raise NoReport(f"there is no verdict on the draft: {report.reason}")
        return report_diagnostics(report, tool.machine.limits.feedback_items)


WISH_WIDTH = 300
WISHES = 20


@dataclass(frozen=True)
class ValidatorTool:
    validator: StandaloneValidator
    fixed: Mapping[str, Any]
    """Inputs that the client can't set."""

    @property
    def machine(self) -> Machine:
        return self.validator.machine

    @cached_property
    def inputs(self) -> dict[str, DataType]:
        """The inputs that a client may supply, by name: those that are read and not fixed."""
        read = inputs_read(self.machine, self.validator.rules) - self.fixed.keys()
        fields = parse_record(self.machine.input).fields or {}
        return {name: datatype for name, datatype in fields.items() if name in read}

    @cached_property
    def required(self) -> list[str]:
        return [name for name, datatype in self.inputs.items() if datatype.required]

    @cached_property
    def offered(self) -> ServedTool:
        rules = self.validator.rules
        return ServedTool(
            name=self.validator.name,
            description=self._description,
            arguments=self._arguments,
            changes_nothing=not any(rule.may_be_lost or rule.played for rule in rules),
        )

    @property
    def _description(self) -> str:
        lines = [f"Judges a draft of `{self.validator.artifact}`. What it checks for:"]
        wishes: list[str] = []
        for rule in self.validator.rules:
            if isinstance(rule, JudgeRule) and rule.rubric:
                wishes += rule.rubric
            elif rule.played:
                wishes.append(f"the {rule.kind} `{rule.about}` accepts it")
            else:
                wishes.append(rule.wish(self.machine.patterns))
        lines += [f"- {one_line(wish, WISH_WIDTH)}" for wish in wishes[:WISHES]]
        lines += [f"- and {len(wishes) - WISHES} more"] if len(wishes) > WISHES else []
        return "\n".join(lines)

    @property
    def _arguments(self) -> dict[str, Any]:
        author = self.validator.author
        text = {"type": "str", "description": "The whole text to judge."}
        fields: dict[str, Any] = {"draft": text if author is None else author.schema_}
        if self.inputs:
            fields["input"] = {name: known.schema for name, known in self.inputs.items()}
        arguments = copy.deepcopy(dict(parse_record(fields).schema))
        if self.inputs:
            arguments["properties"]["input"]["required"] = self.required
            arguments["required"] = ["draft", *(["input"] if self.required else [])]
        return arguments

    def read(self, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        refuse_unknown(arguments, self.offered.arguments["properties"])
        return self._text_in(arguments), self._input_in(arguments)

    def _text_in(self, arguments: Mapping[str, Any]) -> str:
        if "draft" not in arguments:
            raise CallRefused("`draft` is missing: it is what is judged")
        draft = arguments["draft"]
        if isinstance(draft, str):
            return draft
        if self.validator.author is None:
            raise CallRefused("`draft` has to be a text")
        return json.dumps(draft, ensure_ascii=False)

    def _input_in(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        inputs = arguments.get("input", {})
        if not isinstance(inputs, Mapping):
            raise CallRefused("`input` has to be an object with the inputs by name")
        refuse_unknown(inputs, self.inputs, "input")
        if missing := [name for name in self.required if name not in inputs]:
            raise CallRefused(f"missing in `input`: {', '.join(map('`{}`'.format, missing))}")
        try:
            return partial_input(self.machine, {**inputs, **self.fixed}, Path.cwd())
        except InvalidInput as error:
            raise CallRefused("; ".join(fault.message for fault in error.faults)) from error


def choose(
    validators: Sequence[StandaloneValidator], fixed: Mapping[str, Any], *, judges: bool
) -> tuple[list[ValidatorTool], dict[str, str]]:
    """The validators that need only a draft and inputs; with `judges` also those with a judge.

    Besides, for each that is left out, why.
    """
    tools: list[ValidatorTool] = []
    left_out: dict[str, str] = {}
    for validator in validators:
        others = others_read(validator.machine, validator.rules, validator.artifact)
        if validator.asks and not judges:
            asked = ", ".join(sorted(validator.asks))
            left_out[validator.name] = f"it asks {asked}; add `--judges` to offer it"
        elif others:
            read = ", ".join(map("`{}`".format, sorted(others)))
            left_out[validator.name] = f"it reads {read}, which only a run has"
        else:
            tools.append(ValidatorTool(validator, fixed))
    return tools, left_out
