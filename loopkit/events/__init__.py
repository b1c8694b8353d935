"""The events of a run: frozen, versioned records, which everything else is folded from.

A macrostep is one atomic append: `worked`, `decided`, `entered` (and then
`waiting` or `finished`). Calls are `intended` before they are sent and
`replied` or `failed` after.
"""

from __future__ import annotations

from loopkit.events.calls import Failed, Held, InDoubt, Intended, Replied, Settled
from loopkit.events.event import EVENT_VERSION, Event, Outcome, Policy, Role
from loopkit.events.runs import Cancelled, Claimed, Finished, Refused, Resumed, Started, Suspended
from loopkit.events.steps import Baselined, Decided, Emitted, Entered, Waiting, Worked
from loopkit.events.values import Artifact, Choice, Feedback, HumanAnswer, Ran, RefusedCall, Usage

EVENTS: dict[str, type[Event]] = {
    noun.model_fields["type"].default: noun
    for noun in (
        Started, Claimed, Baselined, Held, Intended, Replied, Failed, InDoubt, Settled, Worked,
        Decided, Emitted, Entered, Waiting, Suspended, Resumed, Refused, Finished, Cancelled,
    )
}  # fmt: skip


class UnknownEvent(Exception):
    """A record that this version of loopkit cannot read."""


def read_event(event_type: str, data: str) -> Event:
    """The event behind a stored record; raises UnknownEvent."""
    noun = EVENTS.get(event_type)
    if noun is None:
        raise UnknownEvent(f"the journal holds a record of unknown type `{event_type}`")
    try:
        return noun.model_validate_json(data)
    except ValueError as error:
        raise UnknownEvent(f"a `{event_type}` record of the journal is damaged: {error}") from error


def write_event(event: Event) -> str:
    """The stored form of an event: JSON without the type, which is stored beside it."""
    return event.model_dump_json(exclude={"type"})


__all__ = [
    "EVENTS",
    "EVENT_VERSION",
    "Artifact",
    "Baselined",
    "Cancelled",
    "Choice",
    "Claimed",
    "Decided",
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
    "Outcome",
    "Policy",
    "Ran",
    "Refused",
    "RefusedCall",
    "Replied",
    "Resumed",
    "Role",
    "Settled",
    "Started",
    "Suspended",
    "UnknownEvent",
    "Usage",
    "Waiting",
    "Worked",
    "read_event",
    "write_event",
]
