"""The tool `command`: a program, whose output is shown to the model."""

from __future__ import annotations

from loopkit.agents.command import as_agent_errors
from loopkit.drive.state_files import workspace
from loopkit.drive.tools.call import (
    BadArguments,
    ToolCalled,
    ToolResult,
    as_data,
    output_of,
    run_records,
    timeout_result,
)
from loopkit.language import CommandTool
from loopkit.outside.processes import (
    ArgumentsRefused,
    CommandResult,
    CommandTimeout,
    command_environment,
    run_command,
)
from loopkit.outside.redaction import Redact


async def run(called: ToolCalled) -> ToolResult:
    """Run the program and return what it printed, fenced.

    Raises AgentError if it can't be started, and BadArguments if its arguments are the cause.
    """
    tool, active = called.tool.tool, called.active
    assert isinstance(tool, CommandTool)
    texts = {place: t.render(called.arguments) for place, t in called.tool.templates.items()}
    argv = [texts["command", index] for index in range(len(tool.command))]
    folder = await workspace(active, called.asked.workspace, writes=True)
    with as_agent_errors():
        try:
            result = active.commands.result(called.name, called.index, folder)
            result = result or await run_command(
                argv,
                cwd=folder,
                env=command_environment(tool.env),
                stdin=texts.get(("stdin",)),
                timeout_s=tool.timeout,
            )
        except ArgumentsRefused as error:
            raise BadArguments(str(error)) from error
        except CommandTimeout:
            return timeout_result(called, tool.timeout)
    did = run_records(called, result.exit_code, result.stdout, result.stderr)
    return ToolResult(_result_text(result, active.redact), exit_code=result.exit_code, commands=did)


def _result_text(result: CommandResult, redact: Redact) -> str:
    ended = "" if result.exit_code == 0 else f"Exit code {result.exit_code}.\n\n"
    printed = output_of(result)
    return f"{ended}{as_data('It printed', printed, redact)}"
