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
from loopkit.text.json_text import parse_json

NOTHING: dict[str, Any] = {}
"""Stands for a result that nobody asked for."""
COUNTED = frozenset({"tokens", "cost_usd"})
"""The limits that look at what a call can take at most."""


def reply_of(
    replied: Replied, intent: Intended, machine: Machine, limits: frozenset[str], file: str
) -> dict[str, Any]:
    """The call that gave a reply; `file` is where the agent writes its output, if it does."""
    call = _said(replied.text)
    agent = machine.agents[intent.agent]
    if replied.has_no_tools and agent.callable_tools:
        # loopkit makes the call that whoever answered could not make.
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
    call |= _left(replied)
    if agent.goes_on and replied.session is None:
        call["session"] = False
    if "time" in limits:
        call["delay"] = f"{replied.usage.time_s:.3f}s"
    return call | spent(replied.usage) | reserved(intent.reserved, limits)


def crash_of(intent: Intended) -> dict[str, Any]:
    """The call in which the process died; it stays charged at what was reserved."""
    return {"fault": "crash"} | spent(intent.reserved)


def refused_of(refused: RefusedCall) -> dict[str, Any]:
    """The call that a limit refused."""
    return reserved(refused.reserved, COUNTED) or {"reserved": {"tokens": 0}}


def spent(usage: Usage) -> dict[str, Any]:
    """What a call counts as."""
    call: dict[str, Any] = {}
    if usage.tokens:
        call["usage"] = {"total": usage.tokens}
    if usage.cost_usd != 0:
        call["cost_usd"] = usage.cost_usd
    return call


def reserved(usage: Usage, limits: frozenset[str]) -> dict[str, Any]:
    """What limits saw before the call, where there are any that look at it."""
    named = {"tokens": usage.tokens, "cost_usd": usage.cost_usd}
    kept = {name: amount for name, amount in named.items() if name in limits and amount != 0}
    return {"reserved": kept} if kept else {}


def result_of(replied: Replied, file: str) -> dict[str, Any]:
    """What the command of a `run` state did."""
    result = _printed(replied.exit_code or 0, replied.text, replied.stderr)
    if replied.artifact_text is not None:
        result["files"] = {file: replied.artifact_text}
    return result | _left(replied)


def _left(replied: Replied) -> dict[str, Any]:
    """What stands for the files of a workspace, which a scenario does not have."""
    left: dict[str, Any] = {"workspace": replied.workspace} if replied.workspace else {}
    if replied.folder is not None:
        folder = {name: v for name, v in replied.folder.plain().items() if v and name != "place"}
        left["folder"] = folder
    return left


def lost_result_of(message: str, error_class: str) -> dict[str, Any]:
    """How the command of a `run` state came to no result."""
    return {"fault": "timeout" if error_class == "transient" else "not_found", "message": message}


def ran_of(ran: Ran) -> dict[str, Any]:
    """What the program of a command validator did."""
    if ran.fault == "":
        result = _printed(ran.exit_code, ran.stdout, ran.stderr)
        return result | ({"files": ran.files} if ran.files else {})
    printed = {"stdout": ran.stdout, "stderr": ran.stderr}
    kept = {stream: text for stream, text in printed.items() if text}
    return {"fault": ran.fault, "message": ran.message, **kept}


def tries_of(ran: list[dict[str, Any]]) -> Any:
    """The tries of one command: the only one as it is."""
    return ran[0] if len(ran) == 1 else ran


def answer_of(answer: HumanAnswer, timeout_s: float | None) -> Any:
    """What a person said, or that nobody came in time."""
    if answer.by == "timeout":
        return {"after": f"{timeout_s or 0:g}s"}
    said: dict[str, Any] = {"choice": answer.choice}
    if answer.comment:
        said["comment"] = answer.comment
    if answer.form:
        said["form"] = answer.form
    if answer.edit is not None:
        said["edit"] = answer.edit
    if answer.origins:
        said["origins"] = {name: list(states) for name, states in answer.origins.items()}
    if answer.limits:
        said["limits"] = answer.limits
    return answer.choice if len(said) == 1 else said


def doubt_note(doubt: InDoubt, intent: Intended) -> str | None:
    """Why a call in doubt can't be played, where it can't."""
    if intent.role == "run":
        return f"the command of `{intent.state}` was in doubt, which no scenario plays"
    if intent.role == "tool":
        return f"a call of the tool `{intent.agent}` was in doubt, which no scenario plays"
    if doubt.policy == "ask":
        return f"a person was asked about a call of `{intent.agent}`, which no scenario plays"
    return None


def _said(text: str) -> dict[str, Any]:
    """A reply: as data where that is the same text."""
    data = parse_json(text)
    is_data = isinstance(data, dict | list) and json.dumps(data, ensure_ascii=False) == text
    return {"data": data} if is_data else {"reply": text}


def _tool_call(called: ToolCall) -> dict[str, Any]:
    """A call of a tool: its arguments as data where they are the same text."""
    said = _said(called.arguments)
    named = {"name": called.name}
    return (
        {**named, "input": said["data"]}
        if "data" in said
        else {**named, "arguments": called.arguments}
    )


def _printed(exit_code: int, stdout: str, stderr: str) -> dict[str, Any]:
    result = {"exit_code": exit_code, "stdout": stdout, "stderr": stderr}
    return {key: value for key, value in result.items() if value} or {"exit_code": 0}
