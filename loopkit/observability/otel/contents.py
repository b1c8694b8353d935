"""Contents of messages, which spans have only if a variable enables them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from loopkit.engine.events import Intended, Replied
from loopkit.observability.otel import conventions as names
from loopkit.observability.otel.spans import Attributes
from loopkit.outside.redaction import Redact

VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable that other instrumentations of GenAI read as well."""
ASKED = frozenset({"true", "1", "span_only", "span_and_event"})


def are_asked_for(environment: Mapping[str, str]) -> bool:
    """Whether spans shall have contents."""
    return environment.get(VARIABLE, "").strip().lower() in ASKED


def request_contents(call: Intended, redact: Redact) -> Attributes:
    """The last message, or the arguments of a tool; earlier messages are in their own spans."""
    text = redact(call.prompt)
    if call.role == "tool":
        return {names.TOOL_ARGUMENTS: text}
    return {} if call.goes_on else {names.INPUT_MESSAGES: _messages("user", [_text(text)])}


def reply_contents(call: Intended, reply: Replied) -> Attributes:
    """The reply, which is stored without secrets."""
    if call.role == "tool":
        return {names.TOOL_RESULT: reply.text}
    parts = [_text(reply.text)] if reply.text else []
    parts += [{"type": "tool_call", **called.plain()} for called in reply.tool_calls]
    reason = finish_reason(reply)
    return {names.OUTPUT_MESSAGES: _messages("assistant", parts, finish_reason=reason)}


def finish_reason(reply: Replied) -> str:
    """Why an answer ended, in the words of the conventions."""
    if reply.cut_off:
        return "length"
    return "tool_call" if reply.tool_calls else "stop"


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "content": text}


def _messages(role: str, parts: list[dict[str, Any]], **more: str) -> str:
    return json.dumps([{"role": role, "parts": parts, **more}], ensure_ascii=False)
