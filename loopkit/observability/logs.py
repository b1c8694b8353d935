"""Structured logs: each event of a run as a record of the standard library's logging.

A record holds names, ids and numbers, but no text of prompts, replies or artifacts. Only the events
that a machine emits with `emit` are logged whole.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from loopkit.drive.active import ActiveRun, History, Listener
from loopkit.drive.stored_runs import Stored
from loopkit.engine.events import (
    EVENTS,
    Decided,
    Emitted,
    Event,
    Failed,
    InDoubt,
    Intended,
    Replied,
    Settled,
    Worked,
)
from loopkit.engine.state import RunState
from loopkit.text import one_line
from loopkit.views.steps import Call, Step, Steps

LOGGER = logging.getLogger("loopkit")
LOGGER.addHandler(logging.NullHandler())
AREAS = {area: LOGGER.getChild(area) for area in sorted({kind.area for kind in EVENTS.values()})}
WARNINGS = ("alerted", "failed", "held", "in_doubt", "refused", "suspended")
LANDMARKS = (
    *("cancelled", "child_ended", "child_started", "decided", "emitted", "finished"),
    *("repaired", "resumed", "settled", "started", "waiting"),
)
LEVELS = dict.fromkeys(WARNINGS, logging.WARNING) | dict.fromkeys(LANDMARKS, logging.INFO)
"""By event; all others are logged at level DEBUG."""
FIELDS: Mapping[str, tuple[str, ...]] = {
    "alerted": ("figure", "value", "threshold"),
    "baselined": ("state", "validator"),
    "child_ended": ("state", "visit"),
    "child_started": ("state", "visit", "child", "index", "of"),
    "claimed": ("pid", "host"),
    "decided": ("edge", "source", "target"),
    "entered": ("attempt",),
    "failed": ("error_class", "unavailable"),
    "finished": ("outcome", "success"),
    "held": ("task", "provider", "until", "instead"),
    "in_doubt": ("policy",),
    "intended": ("task", "role", "agent", "place", "model", "fallback"),
    "replied": ("model", "cut_off"),
    "settled": ("choice",),
    "started": ("machine", "definition"),
    "suspended": ("reason",),
    "waiting": ("question",),
    "worked": ("outcome",),
}
"""By event: the fields that are logged besides its place. None can be a text of an agent."""
OF_CALL = ("state", "visit", "task", "role", "agent", "place")
STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
MESSAGE = "%s: %s%s"
VALUE_WIDTH = 80


class LogObserver:
    async def listener(self, active: ActiveRun, history: History) -> Listener:
        return RunLog(active.claim.run, active.state)

    async def close(self) -> None:
        """Do nothing: records are written at once."""


class RunLog:
    def __init__(self, run: str, state: RunState) -> None:
        self._run = run
        calls = [Call(0, 0, 0.0, intent) for intent in state.open_calls.values()]
        now = Step(state=state.state, visit=state.visit, calls=calls)
        self._steps = Steps(is_kept=False, before=now)

    def __call__(self, stored: Stored) -> None:
        event = stored.event
        self._steps.take(stored)
        fields = self._fields(event)
        logger = AREAS[event.area]
        level = LEVELS.get(event.type, logging.INFO if "verdict" in fields else logging.DEBUG)
        if logger.isEnabledFor(level):
            place = {"run": self._run, "seq": stored.seq, "epoch": stored.epoch}
            step = self._steps.step
            details = {"state": step.state, "visit": step.visit, **fields}
            extra = {**place, "event": event.type, **details}
            logger.log(level, MESSAGE, self._run, event.type, _as_text(details), extra=extra)

    def _fields(self, event: Event) -> dict[str, Any]:
        fields = {name: getattr(event, name) for name in FIELDS.get(event.type, ())}
        match event:
            case Intended():
                fields["call"] = event.key
            case Replied() | Failed():
                fields |= self._of_call(event.key) | {
                    "tokens": event.usage.tokens,
                    "cost_usd": event.usage.cost_usd,
                    "seconds": event.usage.time_s,
                }
            case InDoubt() | Settled():
                fields |= self._of_call(event.key)
            case Worked():
                fields |= _work(event)
            case Decided():
                fields["revises"] = bool(event.spends)
            case Emitted():
                own = {key: value for key, value in event.plain().items() if key != "version"}
                fields |= {"emitted": own.pop("name"), **own}
        return fields

    def _of_call(self, key: str) -> dict[str, Any]:
        if (call := self._steps.step.call(key)) is None:
            return {"call": key}
        return {"call": key, **{name: getattr(call.intent, name) for name in OF_CALL}}


def _as_text(fields: Mapping[str, Any]) -> str:
    """Fields as `key=value`, without lists and objects."""
    return "".join(
        f" {key}={one_line(str(value), VALUE_WIDTH)}"
        for key, value in fields.items()
        if value and not isinstance(value, list | dict)
    )


def _work(event: Worked) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if (artifact := event.artifact) is not None:
        fields |= {"artifact": artifact.name, "artifact_version": artifact.version}
    if (report := event.report) is not None:
        blocking = len(report.blocking)
        fields |= {"artifact": report.artifact, "artifact_version": report.version}
        fields |= {"verdict": report.verdict, "found": len(report.findings), "blocking": blocking}
    return fields


def are_heard() -> bool:
    return any(_is_heard(logger) for logger in AREAS.values())


def _is_heard(logger: logging.Logger) -> bool:
    """Whether the records of a logger reach a handler that is not a NullHandler."""
    at: logging.Logger | None = logger
    while at is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in at.handlers):
            return True
        at = at.parent if at.propagate else None
    return False


class JsonLines(logging.Formatter):
    """Each record as one line of JSON: time, level, logger, message, and its fields."""

    def format(self, record: logging.LogRecord) -> str:
        head = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields = {key: value for key, value in vars(record).items() if key not in STANDARD}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps({**head, **fields}, ensure_ascii=False, default=str)
