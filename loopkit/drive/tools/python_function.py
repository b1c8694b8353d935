"""The tool `python`: a function, in a process of its own that can be ended."""

from __future__ import annotations

import json

from pydantic import BaseModel, ConfigDict, ValidationError

from loopkit.agents.command import as_agent_errors
from loopkit.agents.port import AgentError
from loopkit.drive.state_files import workspace
from loopkit.drive.tools.call import (
    ToolCalled,
    ToolResult,
    as_data,
    output_of,
    run_records,
    timeout_result,
)
from loopkit.language import PythonTool
from loopkit.outside.processes import CommandResult, CommandTimeout, run_command
from loopkit.outside.python_workers import worker_command, worker_environment
from loopkit.validators.command import tail

WORKER = worker_command("loopkit.outside.plugin_worker")
FAILED = "It failed, and says"
MAX_PRINTED = 500
"""Characters that are shown of the output of a broken function."""


class _WorkerAnswer(BaseModel):
    """The answer of the worker."""

    model_config = ConfigDict(extra="forbid", strict=True)

    result: str = ""
    left_out: int = 0
    raised: str = ""
    error: str = ""


async def run(called: ToolCalled) -> ToolResult:
    """Call the function and return its result or its exception, fenced.

    Raises AgentError if there is no such function, or its process gave no answer.
    """
    tool, active = called.tool.tool, called.active
    assert isinstance(tool, PythonTool)
    folder = await workspace(active, called.asked.workspace, writes=True)
    request = {
        "python": tool.python,
        "folder": tool.folder,
        "arguments": {**called.arguments, **tool.with_},
    }
    with as_agent_errors():
        try:
            played = active.commands.result(called.name, called.index, folder)
            if played is not None:
                intro = "It returned" if played.exit_code == 0 else FAILED
                text = as_data(intro, output_of(played), active.redact)
                did = run_records(called, played.exit_code, played.stdout, played.stderr)
                return ToolResult(text, exit_code=played.exit_code, commands=did)
            result = await run_command(
                WORKER,
                cwd=folder,
                env=worker_environment(tool.env),
                stdin=json.dumps(request),
                timeout_s=tool.timeout,
            )
        except CommandTimeout:
            return timeout_result(called, tool.timeout)
    answer = _parse_answer(tool, result)
    if answer.error:
        raise AgentError("fatal", f"the tool `{tool.python}` failed: {answer.error}")
    if answer.raised:
        text = as_data(FAILED, answer.raised, active.redact)
        return ToolResult(text, exit_code=1, commands=run_records(called, 1, answer.raised))
    text = as_data("It returned", answer.result, active.redact, answer.left_out)
    return ToolResult(text, exit_code=0, commands=run_records(called, 0, answer.result))


def _parse_answer(tool: PythonTool, result: CommandResult) -> _WorkerAnswer:
    try:
        return _WorkerAnswer.model_validate_json(result.stdout)
    except ValidationError as error:
        code = result.exit_code
        ended = f"exit code {code}" if code >= 0 else f"signal {-code}"
        printed = tail("", result.stderr, MAX_PRINTED)
        saying = f"; it printed:\n{printed}" if printed else ""
        reason = f"its process ended with {ended} and gave no answer{saying}"
        raise AgentError("fatal", f"the tool `{tool.python}` failed: {reason}") from error
