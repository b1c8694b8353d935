"""Submission: a judge hands in its report by calling a tool, with no text around it."""

from __future__ import annotations

from loopkit.engine.events import Replied

SUBMIT = "submit_review"
"""The name of the tool."""
DESCRIPTION = "Hand in your report. Call it once, when you are done; only the first call counts."
INSTEAD = (
    f"Do not write this object as your answer: call the tool `{SUBMIT}` with it, once. If you have "
    "no such tool, answer with the object."
)


def as_text_reply(replied: Replied) -> Replied:
    """The reply with the report that was handed in as its text; unchanged if there is none."""
    reports = [call.arguments for call in replied.tool_calls if call.name == SUBMIT]
    return replied.replace(text=reports[0], said=()) if reports else replied


def submission_note(replied: Replied) -> str:
    """A remark where more than one report was handed in; else empty."""
    number = sum(call.name == SUBMIT for call in replied.tool_calls)
    return f"it handed in {number} reports, and the first counts" if number > 1 else ""
