"""One call to an agent, or one run of a command, as a scenario plays it."""

from __future__ import annotations

import json
from typing import Any

from loopkit.engine.events import (
    HumanAnswer,
    InDoubt,
    Intended,
    Ran,
    RefusedCall,
    Replied,
    ToolCall,
    Usage,
)
from loopkit.language import Machine
from loopkit.text.json_text import parse_output

NOTHING: dict[str, Any] = {}
"""The result where none was needed."""
COUNTED = frozenset({"tokens", "cost_usd"})
"""The limits that look at the maximum that a call can take."""


def reply_of(
    replied: Replied, intent: Intended, machine: Machine, limits: frozenset[str], file: str
) -> dict[str, Any]:
    """The call with a reply; `file` is the one to which the agent writes its output, if any."""
    call = _reply_part(replied.text)
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
    return call | usage_of(replied.usage) | reservation_of(intent.reserved, limits)


def crash_of(intent: Intended) -> dict[str, Any]:
    """The call in which the process died; it stays charged at what was reserved."""
    return {"fault": "crash"} | usage_of(intent.reserved)


def refusal_of(refused: RefusedCall) -> dict[str, Any]:
    """The call that a limit refused."""
    return reservation_of(refused.reserved, COUNTED) or {"reserved": {"tokens": 0}}


def usage_of(usage: Usage) -> dict[str, Any]:
    """The tokens and the cost at which a call counts."""
    call: dict[str, Any] = {}
    if usage.tokens:
        call["usage"] = {"total": usage.tokens}
    if usage.cost_usd != 0:
        call["cost_usd"] = usage.cost_usd
    return call


def reservation_of(usage: Usage, limits: frozenset[str]) -> dict[str, Any]:
    """The reservation that limits saw before the call, if any limit looks at it."""
    named = {"tokens": usage.tokens, "cost_usd": usage.cost_usd}
    kept = {name: amount for name, amount in named.items() if name in limits and amount != 0}
    return {"reserved": kept} if kept else {}


def result_of(replied: Replied, file: str) -> dict[str, Any]:
    """The result of the command of a `run` state."""
    result = _output_of(replied.exit_code or 0, replied.text, replied.stderr)
    if replied.artifact_text is not None:
        result["files"] = {file: replied.artifact_text}
    return result | _files_of(replied)


def _files_of(replied: Replied) -> dict[str, Any]:
    """The substitutes for the files of a workspace, which a scenario does not have."""
    files: dict[str, Any] = {"workspace": replied.workspace} if replied.workspace else {}
    if replied.folder is not None:
        folder = {name: v for name, v in replied.folder.plain().items() if v and name != "place"}
        files["folder"] = folder
    return files


def command_fault_of(message: str, error_class: str) -> dict[str, Any]:
    """The fault of a command of a `run` state that gave no result."""
    return {"fault": "timeout" if error_class == "transient" else "not_found", "message": message}


def ran_of(ran: Ran) -> dict[str, Any]:
    """The result of the program of a command validator."""
    if ran.fault == "":
        result = _output_of(ran.exit_code, ran.stdout, ran.stderr)
        return result | ({"files": ran.files} if ran.files else {})
    printed = {"stdout": ran.stdout, "stderr": ran.stderr}
    kept = {stream: text for stream, text in printed.items() if text}
    return {"fault": ran.fault, "message": ran.message, **kept}


def tries_of(ran: list[dict[str, Any]]) -> Any:
    """The tries of one command; a single one without a list."""
    return ran[0] if len(ran) == 1 else ran


def answer_of(answer: HumanAnswer, timeout_s: float | None) -> Any:
    """The answer of a person, or the wait if nobody answered in time."""
    if answer.by == "timeout":
        return {"after": f"{timeout_s or 0:g}s"}
    parts: dict[str, Any] = {"choice": answer.choice}
    if answer.comment:
        parts["comment"] = answer.comment
    if answer.form:
        parts["form"] = answer.form
    if answer.edit is not None:
        parts["edit"] = answer.edit
    if answer.origins:
        parts["origins"] = {name: list(states) for name, states in answer.origins.items()}
    if answer.limits:
        parts["limits"] = answer.limits
    return answer.choice if len(parts) == 1 else parts


def doubt_note(doubt: InDoubt, intent: Intended) -> str | None:
    """Why a call in doubt can't be played; None where it can."""
    if intent.role == "run":
        return f"the command of `{intent.state}` was in doubt, which no scenario plays"
    if intent.role == "tool":
        return f"a call of the tool `{intent.agent}` was in doubt, which no scenario plays"
    if doubt.policy == "ask":
        return f"a person was asked about a call of `{intent.agent}`, which no scenario plays"
    return None


def _reply_part(text: str) -> dict[str, Any]:
    """The reply: as data if that gives the same text."""
    data = parse_output(text)
    is_data = isinstance(data, dict | list) and json.dumps(data, ensure_ascii=False) == text
    return {"data": data} if is_data else {"reply": text}


def _tool_call(called: ToolCall) -> dict[str, Any]:
    """A call of a tool: its arguments as data if that gives the same text."""
    reply = _reply_part(called.arguments)
    named = {"name": called.name}
    return (
        {**named, "input": reply["data"]}
        if "data" in reply
        else {**named, "arguments": called.arguments}
    )


def _output_of(exit_code: int, stdout: str, stderr: str) -> dict[str, Any]:
    result = {"exit_code": exit_code, "stdout": stdout, "stderr": stderr}
    return {key: value for key, value in result.items() if value} or {"exit_code": 0}
