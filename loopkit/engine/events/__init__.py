"""The events of a run: frozen, versioned records, which everything else is folded from.

A macrostep is one atomic append: `worked`, `decided`, `entered` (and then
`waiting` or `finished`). Calls are `intended` before they are sent and
`replied` or `failed` after.
"""

from __future__ import annotations

import json

from loopkit.engine.events.calls import Failed, Held, InDoubt, Intended, Replied, Settled
from loopkit.engine.events.children import ChildEnded, ChildStarted
from loopkit.engine.events.event import EVENT_VERSION, Event, Outcome, Policy, Role
from loopkit.engine.events.files import (
    Adding,
    Captured,
    Isolated,
    Merged,
    Merging,
    Restored,
)
from loopkit.engine.events.payloads import (
    Artifact,
    Best,
    Change,
    Choice,
    Considered,
    Deferral,
    Delivery,
    Feedback,
    HumanAnswer,
    LeftFolder,
    PromptSize,
    Ran,
    TokenUse,
    ToolCall,
    Version,
    Wanted,
)
from loopkit.engine.events.runs import (
    ENDS,
    Cancelled,
    Claimed,
    Finished,
    Refused,
    Repaired,
    Resumed,
    Started,
    Suspended,
)
from loopkit.engine.events.steps import (
    Alerted,
    Baselined,
    Decided,
    Emitted,
    Entered,
    Kept,
    Waiting,
    Worked,
)
from loopkit.engine.records import read_record
from loopkit.engine.usage import RefusedCall, Usage
from loopkit.text import one_line

MESSAGE_WIDTH = 200
EVENTS: dict[str, type[Event]] = {
    noun.type: noun
    for noun in (
        Started, Claimed, Baselined, Captured, Held, Intended, Replied, Failed, InDoubt, Settled,
        ChildStarted, ChildEnded, Adding, Worked, Kept, Decided, Alerted, Emitted, Entered, Waiting,
        Suspended, Repaired, Resumed, Refused, Finished, Cancelled, Isolated, Merging, Merged,
        Restored,
    )
}  # fmt: skip


class UnknownEvent(Exception):
    """A record that this version of loopkit cannot read."""


class NewerEvent(UnknownEvent):
    """A record of a later version of the format."""


def read_event(event_type: str, data: str) -> Event:
    """The event behind a stored record, without keys that only later loopkits know.

    Raises UnknownEvent.
    """
    try:
        event = read_record(_noun(event_type), data)
    except (ValueError, RecursionError) as error:
        # What a later version changed need not fit; its number says more than how it does not.
        _refuse_newer(_version_in(data))
        raise UnknownEvent(one_line(str(error), MESSAGE_WIDTH)) from error
    _refuse_newer(event.version)
    return event


def _noun(event_type: str) -> type[Event]:
    if event_type not in EVENTS:
        raise ValueError(f"there is no type `{event_type}`")
    return EVENTS[event_type]


def _refuse_newer(version: int) -> None:
    if version > EVENT_VERSION:
        raise NewerEvent(f"has version {version}, this loopkit reads version {EVENT_VERSION}")


def _version_in(data: str) -> int:
    """The version that a text names; 0 where it names none."""
    try:
        version = json.loads(data)["version"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return 0
    return version if isinstance(version, int) else 0


__all__ = [
    "ENDS",
    "EVENTS",
    "EVENT_VERSION",
    "Adding",
    "Alerted",
    "Artifact",
    "Baselined",
    "Best",
    "Cancelled",
    "Captured",
    "Change",
    "ChildEnded",
    "ChildStarted",
    "Choice",
    "Claimed",
    "Considered",
    "Decided",
    "Deferral",
    "Delivery",
    "Emitted",
    "Entered",
    "Event",
    "Failed",
    "Feedback",
    "Finished",
    "Held",
    "HumanAnswer",
    "InDoubt",
    "Intended",
    "Isolated",
    "Kept",
    "LeftFolder",
    "Merged",
    "Merging",
    "NewerEvent",
    "Outcome",
    "Policy",
    "PromptSize",
    "Ran",
    "Refused",
    "RefusedCall",
    "Repaired",
    "Replied",
    "Restored",
    "Resumed",
    "Role",
    "Settled",
    "Started",
    "Suspended",
    "TokenUse",
    "ToolCall",
    "UnknownEvent",
    "Usage",
    "Version",
    "Waiting",
    "Wanted",
    "Worked",
    "read_event",
]
