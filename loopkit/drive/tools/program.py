"""What the tools of each kind do.

A program's output is shown to the model. A tool of an MCP server must stay as the run first saw it.
Validators look at a draft as they look at an answer in a validate state. A Python function runs in
a process of its own that can be ended.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from loopkit.agents.port import AgentError
from loopkit.agents.scripted import Unprepared
from loopkit.drive.active import ActiveRun
from loopkit.drive.isolation import workspace
from loopkit.drive.judging.commands import content_fault, give_commands, setting_for
from loopkit.drive.retries import CallFailed, has_try_left, seconds_to_next_try
from loopkit.drive.servers import Servers
from loopkit.drive.tools.call import (
    BadArguments,
    ToolCalled,
    ToolResult,
    artifact_of,
    as_data,
    output_of,
    run_records,
)
from loopkit.engine.events import Replied
from loopkit.engine.findings import Answer, diagnostics
from loopkit.engine.payloads import Artifact, Ran
from loopkit.engine.records import Usage
from loopkit.language.agents.tools import CommandTool, McpTool, PythonTool
from loopkit.language.section import Retry
from loopkit.machine.program import DRAFT, AgentAsked, FixedRules
from loopkit.outside.mcp.connection import Connection, OfferedTool, ServerFailed
from loopkit.outside.processes import (
    ArgumentsRefused,
    CommandResult,
    command_environment,
    run_command,
    worker_command,
    worker_environment,
)
from loopkit.validators.command import tail
from loopkit.validators.data import JudgedArtifact
from loopkit.validators.fixed_rules import judge_placed


async def run_program(called: ToolCalled) -> ToolResult:
    """Run the program and return what it printed, fenced.

    Raises CommandNotStarted, BadArguments if its arguments are the cause, and CommandTimeout.
    """
    tool, active = called.tool.tool, called.active
    assert isinstance(tool, CommandTool)
    texts = {place: t.render(called.arguments) for place, t in called.tool.templates.items()}
    argv = [texts["command", index] for index in range(len(tool.command))]
    folder = await workspace(active, called.asked.workspace, writes=True)
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
    did = run_records(called, result.exit_code, result.stdout, result.stderr)
    ended = "" if result.exit_code == 0 else f"Exit code {result.exit_code}.\n\n"
    text = f"{ended}{as_data('It printed', output_of(result), active.redact)}"
    return ToolResult(text, exit_code=result.exit_code, commands=did)


async def run_server_tool(called: ToolCalled) -> ToolResult:
    """Call the tool and return its answer, fenced; raises AgentError if the server fails."""
    tool, active = called.tool.tool, called.active
    assert isinstance(tool, McpTool)
    folder = await workspace(active, called.asked.workspace, writes=True)
    played = active.commands.result(called.name, called.index, folder)
    if played is not None:
        return _result(called, output_of(played), is_error=played.exit_code != 0)
    if active.scenario is not None:
        raise Unprepared(
            f"the scenario has no result for the tool `{called.name}`, and no server is asked; "
            "add it under `commands:`"
        )
    digest = tool.digest or active.state.offered.get(tool.mcp, "")
    try:
        connection = _connection(active, tool.server, folder)
        given = await connection.call(tool.its_name, called.arguments, digest, tool.timeout)
    except ServerFailed as failed:
        raise AgentError("transient" if failed.transient else "fatal", failed.message) from failed
    return _result(called, given.text, given.left_out, is_error=given.is_error)


def _result(called: ToolCalled, text: str, left_out: int = 0, *, is_error: bool) -> ToolResult:
    intro = "It failed, and says" if is_error else "It answers"
    fenced = as_data(intro, text, called.active.redact, left_out)
    return ToolResult(fenced, commands=run_records(called, int(is_error), text))


async def offers(
    active: ActiveRun, asked: AgentAsked, wanted: Mapping[str, McpTool], retry: Retry
) -> dict[str, OfferedTool]:
    """The descriptions of tools by their servers, by the names that an agent has for them.

    A server that can't be reached is tried again as a model is. Raises CallFailed, also if a tool
    is not the one that the machine or the run knows.
    """
    folder, found = await workspace(active, asked.workspace, writes=True), dict[str, OfferedTool]()
    for server in sorted({tool.server for tool in wanted.values()}):
        of_it = {name: tool for name, tool in wanted.items() if tool.server == server}
        listed = await _list_tools(active, server, of_it, folder, retry)
        for name, tool in of_it.items():
            found[name] = listed[tool.its_name]
            _refuse_another(active, tool, found[name].digest)
    return found


def digests(asked: AgentAsked, served: Mapping[str, OfferedTool]) -> dict[str, str]:
    """By `SERVER.TOOL`, the digests of tools as servers describe them."""
    tools = {name: asked.tools[name].tool for name in served}
    return {t.mcp: served[name].digest for name, t in tools.items() if isinstance(t, McpTool)}


async def _list_tools(
    active: ActiveRun, server: str, wanted: Mapping[str, McpTool], folder: Path, retry: Retry
) -> Mapping[str, OfferedTool]:
    names = sorted({tool.its_name for tool in wanted.values()})
    for failures in count(1):
        try:
            async with active.in_hand(None):
                return await _connection(active, server, folder).tools(names)
        except ServerFailed as failed:
            message = active.redact(failed.message)
            if not failed.transient:
                raise CallFailed("fatal", message) from failed
            if not has_try_left(retry, failures, 0):
                raise CallFailed("transient", message) from failed
            await active.pause(seconds_to_next_try(retry, failures, None))
    raise AssertionError


def _connection(active: ActiveRun, server: str, folder: Path) -> Connection:
    active.servers = active.servers or Servers()
    return active.servers.connection(server, active.program.machine.mcp[server], folder)


def _refuse_another(active: ActiveRun, tool: McpTool, digest: str) -> None:
    known, by = tool.digest, "the machine pins"
    if known is None:
        known, by = active.state.offered.get(tool.mcp), "this run was first offered"
    if known is not None and known != digest:
        raise CallFailed(
            "fatal",
            f"`{tool.mcp}` is not the tool that {by}, {known}, but {digest}; look at what its "
            f"server says now, and write `digest: {digest}` on the tool if you mean that one",
        )


async def run_validator_tool(called: ToolCalled) -> ToolResult:
    """The findings of the validators in a draft, as JSON; raises AgentError if one can't judge."""
    draft = called.arguments[DRAFT]
    text = draft if isinstance(draft, str) else json.dumps(draft, ensure_ascii=False)
    reply, rules = Replied(key="", text=text, usage=Usage()), called.tool.rules
    artifact = artifact_of(called.active, called.state, called.asked, reply)
    ran: list[Ran] = []
    assert rules is not None
    if artifact.infeasible:
        return ToolResult(json.dumps(diagnostics((), 0)), found_clean=digest(artifact))
    if artifact.fault:
        answers = [content_fault(artifact, rules.levels.worst)]
    else:
        answers = await _judge(called, artifact, rules, ran)
    findings = tuple(finding for answer in answers for finding in answer.findings)
    result = diagnostics(findings, called.active.program.machine.limits.feedback_items)
    return ToolResult(
        json.dumps(result, ensure_ascii=False),
        found_clean=digest(artifact) if result["ok"] else "",
        findings=findings,
        commands=tuple(ran),
    )


def digest(artifact: Artifact) -> str:
    """The digest of a draft: of its data, or of its text without the blanks around it."""
    content = (
        json.dumps(artifact.data, sort_keys=True) if artifact.is_data else artifact.text.strip()
    )
    return hashlib.sha256(content.encode()).hexdigest()


async def _judge(
    called: ToolCalled, artifact: Artifact, rules: FixedRules, ran: list[Ran]
) -> list[Answer]:
    """The answers of the rules; the runs of their programs are added to `ran`."""
    active = called.active
    subject = JudgedArtifact(artifact.name, artifact.text, artifact.data, artifact.is_data)
    folder = await workspace(active, called.asked.workspace)
    answers: list[Answer] = []
    for validator, fixed in rules.fixed:
        setting = setting_for(active, folder, rules.levels, is_guarded=rules.are_guarded)
        if validator in rules.starting:
            give_commands(active, called.name, called.index, setting, ran)
        answer = await judge_placed(validator, fixed, subject, setting)
        if answer.is_missing:
            raise AgentError(answer.error_class or "fatal", answer.reason)
        answers.append(answer)
    return answers


WORKER = worker_command("loopkit.outside.plugin_worker")
FAILED = "It failed, and says"
MAX_PRINTED = 500
"""Characters that are shown of the output of a broken function."""


class _WorkerAnswer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    result: str = ""
    left_out: int = 0
    raised: str = ""
    error: str = ""


async def run_function(called: ToolCalled) -> ToolResult:
    """Call the function and return its result or its exception, fenced.

    Raises AgentError if there is no such function, or its process gave no answer, and
    CommandTimeout.
    """
    tool, active = called.tool.tool, called.active
    assert isinstance(tool, PythonTool)
    folder = await workspace(active, called.asked.workspace, writes=True)
    request = {
        "python": tool.python,
        "folder": tool.folder,
        "arguments": {**called.arguments, **tool.with_},
    }
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
