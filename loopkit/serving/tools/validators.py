"""The validators of a machine as a toolbox: each judges drafts as it judges artifacts in a run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from loopkit.agents.not_runnable import NotRunnable
from loopkit.app import App
from loopkit.drive.standalone import NoReport
from loopkit.engine.diagnostics import report_diagnostics
from loopkit.language.json_schema import NotJudged
from loopkit.outside.redaction import Redact, redact_data
from loopkit.serving.tools.arguments import refuse_unknown_tool
from loopkit.serving.tools.toolbox import NOBODY, Caller, CallRefused, ServedTool
from loopkit.serving.tools.validator_tools import ValidatorTool

AT_ONCE = 4
"""How many drafts are judged at the same time; the others wait."""


class ValidatorToolbox:
    """The tools of a server of validators."""

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
            return self._plain(await self._judge(name, arguments))
        except (CallRefused, NoReport, NotRunnable, NotJudged) as error:
            raise CallRefused(self._redact(str(error))) from error

    async def _judge(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        refuse_unknown_tool(name, self._tools)
        tool = self._tools[name]
        text, inputs = tool.read(arguments)
        async with self._room:
            report = await self._app.judge(tool.validator, text, inputs)
        if report.verdict == "incomplete":
            raise NoReport(f"there is no verdict on the draft: {report.reason}")
        return report_diagnostics(report, tool.machine.limits.feedback_items)

    def _plain(self, result: dict[str, Any]) -> dict[str, Any]:
        plain: dict[str, Any] = redact_data(result, self._redact)
        return plain
