"""The examples at the end of a command's help."""

from __future__ import annotations

UNWRAPPED = "\b"
"""Click leaves the lines of a paragraph that starts so as they are."""


def examples(*lines: str) -> str:
    """An epilog with command lines, each as it can be pasted."""
    heading = "Example:" if len(lines) == 1 else "Examples:"
    return "\n".join([UNWRAPPED, heading, *(f"  {line}" for line in lines)])
