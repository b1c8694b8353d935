"""The tools of a server as a model sees them, and the result of a tool call as text."""

from __future__ import annotations

import hashlib
import json
from difflib import get_close_matches
from typing import Any

import mcp_types as types

MAX_TEXT = 200_000
"""Characters of a result."""
MAX_SCHEMA = 100_000
"""Characters of a tool's schema and description."""


def offer(tool: types.Tool) -> dict[str, Any]:
    """A tool as models see it."""
    described = {
        "name": tool.name,
        "description": tool.description or tool.title or "",
        "schema": tool.input_schema,
    }
    written = json.dumps(described, sort_keys=True, separators=(",", ":"))
    if len(written) > MAX_SCHEMA:
        described |= {"description": "", "schema": {"type": "object"}}
    return {**described, "digest": f"sha256:{hashlib.sha256(written.encode()).hexdigest()}"}


def unknown(name: str, known: list[str]) -> str:
    """The message about a tool that does not exist."""
    near = get_close_matches(name, known, 1)
    listed = ", ".join(f"`{one:.60}`" for one in known[:20]) or "none"
    remedy = f"did you mean `{near[0]}`?" if near else f"it has {listed}"
    return f"it has no tool `{name}`; {remedy}"


def result(given: types.CallToolResult) -> dict[str, Any]:
    """The texts of a result, or its data where it has no text."""
    texts = [text for block in given.content if (text := _text(block))]
    if not texts and given.structured_content is not None:
        texts = [json.dumps(given.structured_content, ensure_ascii=False)]
    return answer("\n".join(texts), is_error=bool(given.is_error))


def answer(text: str, *, is_error: bool) -> dict[str, Any]:
    """A text, cut if it is too long."""
    told = text[:MAX_TEXT]
    return {"text": told, "left_out": len(text) - len(told), "is_error": is_error}


def _text(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            return f"[{block.mime_type}, left out]"
        case types.ResourceLink():
            return f"[{block.name}: {block.uri}]"
        case types.EmbeddedResource():
            held = block.resource
            if isinstance(held, types.TextResourceContents):
                return held.text
            return f"[{held.uri}, left out]"
