"""The validators of a machine as a toolbox: each judges drafts as it judges artifacts in a run.

Served are those that need only a draft and inputs, which are the arguments of their tools.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from loopkit.agents.port import NotRunnable
from loopkit.app import App
from loopkit.drive.claimed_runs import NoReport, StandaloneValidator
from loopkit.engine.findings import SCHEMA, report_diagnostics
from loopkit.language.datatypes.datatype import DataType
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.input_faults import InvalidInput
from loopkit.language.json_schema.equality import NotJudged
from loopkit.language.machine import Machine
from loopkit.language.validators.judge import JudgeRule
from loopkit.machine.inputs import partial_input
from loopkit.machine.scope import inputs_read, others_read
from loopkit.outside.redaction import Redact, redact_data
from loopkit.serving.tools.arguments import (
    NOBODY,
    Caller,
    CallRefused,
    ServedTool,
    refuse_unknown,
    refuse_unknown_tool,
)
from loopkit.text import one_line

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
        refuse_unknown_tool(name, self._tools)
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
            result=SCHEMA,
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


@dataclass(frozen=True)
class Choice:
    tools: Sequence[ValidatorTool]
    left_out: Mapping[str, str]
    """The reason for each validator that is not served, by name."""


def choose(
    validators: Sequence[StandaloneValidator], fixed: Mapping[str, Any], *, judges: bool
) -> Choice:
    """The validators that need only a draft and inputs; with `judges` also those with a judge."""
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
    return Choice(tools, left_out)
