"""Happenings: the events in the span of a run, which show its route."""

from __future__ import annotations

from loopkit.drive.stored_event import Stored
from loopkit.engine.events import (
    Alerted,
    Decided,
    Emitted,
    Event,
    Repaired,
    Resumed,
    Suspended,
    Waiting,
    Worked,
)
from loopkit.observability.otel import conventions as names
from loopkit.observability.otel.spans import Attributes, SpanEvent


def happening(stored: Stored) -> SpanEvent | None:
    """An event of a run as an event of its span; None if the span does not show it."""
    shown = _name_and_attributes(stored.event)
    if shown is None:
        return None
    name, attributes = shown
    return SpanEvent(f"loopkit.{name}", stored.at, attributes)


def _name_and_attributes(event: Event) -> tuple[str, Attributes] | None:
    match event:
        case Decided():
            ends: Attributes = {"loopkit.edge": event.edge, "loopkit.target": event.target}
            revises = {"loopkit.revises": bool(event.spends)}
            return event.type, {names.STATE: event.source, **ends, **revises}
        case Waiting():
            return event.type, {names.STATE: event.state, "loopkit.question": event.question}
        case Worked(answer=answer) if answer is not None:
            return "answered", {names.STATE: event.state, "loopkit.choice": answer.choice}
        case Suspended():
            return event.type, {names.STATE: event.state, "loopkit.reason": event.reason}
        case Resumed() | Repaired():
            return event.type, {}
        case Emitted():
            version: Attributes = {names.ARTIFACT: event.artifact} if event.artifact else {}
            version |= {names.VERSION: event.artifact_version, names.ATTEMPT: event.attempt}
            head: Attributes = {names.STATE: event.state, "loopkit.emitted": event.name}
            return event.type, {**head, **version, names.FINDINGS: len(event.findings)}
        case Alerted():
            return event.type, {"loopkit.figure": event.figure, "loopkit.value": event.value}
    return None
