"""A judge's report that is handed in by calling a tool, which no text around it can blur."""

from __future__ import annotations

from loopkit.engine.events import Replied

SUBMIT = "submit_review"
"""The tool."""
DESCRIPTION = "Hand in your report. Call it once, when you are done; only the first call counts."
INSTEAD = (
    f"Do not write this object as your answer: call the tool `{SUBMIT}` with it, once. If you have "
    "no such tool, answer with the object."
)


def as_answered(replied: Replied) -> Replied:
    """The reply with the report that was handed in as its text; as it is where none was."""
    handed_in = [call.arguments for call in replied.tool_calls if call.name == SUBMIT]
    return replied.replace(text=handed_in[0], said=()) if handed_in else replied


def note(replied: Replied) -> str:
    """What is odd about what was handed in; empty for nothing."""
    number = sum(call.name == SUBMIT for call in replied.tool_calls)
    return f"it handed in {number} reports, and the first counts" if number > 1 else ""
