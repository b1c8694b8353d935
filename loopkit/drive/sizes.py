"""Size limits: how much of a text from outside is kept, so that it can be stored and printed."""

from __future__ import annotations

import json

LONGEST_ANSWER = 1_500_000
"""Characters. A template prints 2,000,000, and an answer stands in prompts beside other texts.

Whatever they are, they are fewer bytes than can be stored."""
MOST_BYTES = 10_000_000
"""Of a text as JSON, where a control character takes six; a record holds several texts."""
LONGEST_NAME = 10_000
"""Characters of a session or a model."""
LONGEST_TOOL = 64
"""Characters of the name of a tool that a model made up; providers take no more."""
KEPT_CHARS = 100_000
"""Characters kept of a text that is too long, half from each end."""
_MOST_BYTES_A_CHAR = 6


def fits(text: str) -> bool:
    """Whether a text can be stored, together with others that are as long."""
    if len(text) * _MOST_BYTES_A_CHAR <= MOST_BYTES:
        return True
    return len(json.dumps(text, ensure_ascii=False).encode()) <= MOST_BYTES


def is_answer(text: str) -> bool:
    """Whether a text can be stored and printed into the prompts that follow."""
    return len(text) <= LONGEST_ANSWER


def shorten(text: str, most: int = KEPT_CHARS) -> str:
    """Both ends of a text, with a line between them that says how much is missing."""
    half = most // 2
    missing = len(text) - 2 * half
    return f"{text[:half]}\n[{missing:,} characters left out]\n{text[-half:]}"
