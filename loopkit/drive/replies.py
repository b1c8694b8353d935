"""Replies as they are stored: without secrets, no longer than a record may be."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from loopkit.agents.port import Reply, Request
from loopkit.drive.sizes import (
    KEPT_CHARS,
    LONGEST_ANSWER,
    LONGEST_NAME,
    LONGEST_TOOL,
    MOST_BYTES,
    fits,
    shorten,
)
from loopkit.engine.events import LeftFolder, Replied, Role, ToolCall, Usage
from loopkit.engine.events.event import OF_AGENTS, OF_AUTHORS
from loopkit.outside.redaction import Redact
from loopkit.text import storable
from loopkit.values import NOTHING, Value, replace

ANSWERING = {*OF_AGENTS, *OF_AUTHORS}
"""The roles whose replies are inserted into prompts, which limits their length."""
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")
"""The characters that providers refuse in the name of a tool."""


class Written(Value, frozen=True):
    """What an attempt left in its output file or folder."""

    text: str | None = None
    """The text of the file; None if the attempt did not write it."""
    fault: str = ""
    folder: LeftFolder | None = None
    """None if the attempt changed nothing in it."""


NOTHING_WRITTEN = Written()


def reply_event(
    redact: Redact, request: Request, reply: Reply, written: Written, files: str, spent_s: float
) -> Replied:
    """The event of a reply; `files` is the digest of what it left in its workspace."""
    if written.text is not None:
        written = _storable_output(redact, written.text)
    text = storable_text(redact, reply.text)
    is_agent = request.role in ANSWERING
    is_cut = is_agent and len(text) > LONGEST_ANSWER
    usage = usage_of(request.role, reply.tokens, reply.cost_usd, spent_s)
    replied = Replied(
        key=request.key,
        text=shorten(text) if is_cut else text if is_agent else _output(text),
        said=tuple([storable_text(redact, message) for message in reply.said])
        if reply.said
        else (),
        cut_off=reply.cut_off or is_cut,
        played=reply.played,
        tool_calls=_tool_calls(redact, reply.tool_calls) if reply.tool_calls else (),
        kept=_provider_data(redact, reply.kept) if reply.kept else NOTHING,
        has_no_tools=reply.has_no_tools,
        exit_code=reply.exit_code,
        stderr=_output(storable_text(redact, reply.stderr)) if reply.stderr else "",
        session=None if reply.session is None else _session(reply.session),
        model=storable_text(redact, reply.model[:LONGEST_NAME]) if reply.model else "",
        workspace=reply.workspace or files,
        usage=usage.as_held if reply.held else usage,
        counted=reply.counted,
    )
    if request.role == "tool":
        replied = replace(replied, found_clean=reply.found_clean, commands=reply.commands)
    if written is not NOTHING_WRITTEN:
        replied = replace(
            replied,
            artifact_text=written.text,
            artifact_fault=written.fault,
            folder=written.folder,
        )
    return replied


def storable_text(redact: Redact, text: str) -> str:
    """A text from outside without secrets, as it may be stored."""
    return storable(redact(text))


def _tool_calls(redact: Redact, calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """Tool calls as they may be stored: together they are not much longer than an answer.

    If there is no room for arguments, their middle is left out, so that they are not JSON. Later
    calls are left out.
    """
    kept: list[ToolCall] = []
    left = LONGEST_ANSWER
    for called in calls:
        if left <= 0:
            break
        own, arguments = storable(called.id[:LONGEST_NAME]), called.arguments
        # A name that a model made up is sent back to its provider, and printed.
        name = _NO_NAME.sub("_", redact(called.name))[:LONGEST_TOOL] or "_"
        left -= len(own) + len(name) + len(arguments)
        if left < 0 and len(arguments) > KEPT_CHARS:
            arguments = shorten(arguments)
        kept.append(ToolCall(id=own, name=name, arguments=storable_text(redact, arguments)))
    return tuple(kept)


def _provider_data(redact: Redact, kept: Mapping[str, Any]) -> dict[str, Any]:
    """The data that a provider wants back; empty if it has secrets in it or is too long."""
    text = json.dumps(kept)
    may_be_stored = len(text) <= LONGEST_ANSWER and redact(text) == text
    return dict(kept) if may_be_stored else {}


def _storable_output(redact: Redact, text: str) -> Written:
    """The text of the output file as it may be stored; a text that is too long is a fault."""
    text = storable_text(redact, text)
    if fits(text):
        return Written(text)
    most = f"more than the {MOST_BYTES:,} bytes that are kept of a text, as JSON"
    return Written(fault=f"the output file has {len(text):,} characters, {most}; write less")


def _output(text: str) -> str:
    """The output of a program; without its middle if it is too long to be stored."""
    return text if fits(text) else shorten(text)


def _session(named: str) -> str | None:
    """The session that a program names; None if it is too long to be a name."""
    return None if len(named) > LONGEST_NAME else storable(named)


def usage_of(role: Role, tokens: int, cost_usd: float | None, spent_s: float) -> Usage:
    """The usage of a call; work of somebody outside costs nothing."""
    if role == "outside":
        return Usage()
    return Usage(
        agent_calls=int(role in OF_AGENTS),
        tool_calls=int(role == "tool"),
        tokens=tokens,
        cost_usd=cost_usd,
        time_s=spent_s,
    )
