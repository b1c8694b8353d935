"""Comparison of two runs, without what no replay can repeat.

Not compared: times and durations, ids of runs and processes, which model is asked and its
provider's name for it, whether it can call tools, how its tokens divide, what was reserved before a
call or left uncounted after it, the remedies that follow from that, and whether it is available.
Everything else counts: types, states, visits, facts, edges, prompts, replies, reports, feedback,
counters, cost, usage.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from loopkit.engine.events import (
    ChildEnded,
    ChildStarted,
    Event,
    Intended,
    Replied,
    Resumed,
    Started,
    Suspended,
    Waiting,
    Worked,
)
from loopkit.engine.state import RunState
from loopkit.engine.tasks import is_of_program
from loopkit.language.states.children import RESULT
from loopkit.outside.redaction import Redact, redact_data
from loopkit.testing.family import FamilyRun
from loopkit.text import one_line
from loopkit.text.run_ids import place_of

PROCESS = frozenset(
    {
        *("claimed", "held", "refused", "captured", "isolated", "merging", "merged", "restored"),
        "adding",
    }
)
"""Events about the process that drives a run and about its files, not about its work."""
UNREPEATED = {
    "started": ("definition", "script", "folder"),
    "intended": ("model", "fallback", "deadline_s", "cap", "reserved", "offered", "size"),
    "replied": ("model", "session", "played", "kept", "by", "counted", "has_no_tools"),
    "failed": ("retry_at", "resume_at"),
    "worked": ("time_s", "resume_at", "refused", "made_from"),
    "baselined": ("time_s",),
    "waiting": ("expires_at",),
    "suspended": ("time_s", "resume_at", "refused", "remedy"),
    "child_started": ("definition",),
    "child_ended": ("time_s",),
    "finished": ("left",),
}
CALLS = frozenset({"intended", "replied", "failed", "in_doubt"})
"""Events that may come in any order if judges work at the same time, like those of children."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place at which two runs differ."""

    index: int
    """The number of the event among those that are compared, from 1."""
    recorded: Any
    """The event in comparable form; None where there are no more."""
    replayed: Any
    called: str = ""
    """The child whose run differs; empty for the root."""

    def __str__(self) -> str:
        return f"`{self.called}`: {self._text}" if self.called else self._text

    @property
    def _text(self) -> str:
        if self.recorded is None or self.replayed is None:
            more, event = (
                ("more", self.replayed) if self.recorded is None else ("less", self.recorded)
            )
            return f"event {self.index}: there is one {more}, `{event['type']}`"
        kind, other = self.recorded["type"], self.replayed["type"]
        if kind != other:
            return f"event {self.index}: `{other}` instead of `{kind}`"
        differences = "; ".join(_value_differences(self.recorded, self.replayed))
        return f"event {self.index}, `{kind}`: {differences}"


def difference(
    recorded: Sequence[Event], replayed: Sequence[Event], redact: Redact = str
) -> Difference | None:
    """Where the two runs differ first, or None where they are the same.

    `redact` removes from both what a recording leaves out.
    """
    pairs = zip_longest(comparable_events(recorded, redact), comparable_events(replayed, redact))
    for index, (before, after) in enumerate(pairs, 1):
        if before != after:
            return Difference(index, before, after)
    return None


def family_difference(
    recorded: FamilyRun, replayed: FamilyRun, redact: Redact = str, called: str = ""
) -> Difference | None:
    """Where two runs or their children differ, whatever the order of the children; else None."""
    found = difference(recorded.plain_events, replayed.plain_events, redact)
    if found is not None:
        return replace(found, called=called)
    others = {child[:3]: child.run for child in replayed.children}
    for child in recorded.children:
        # Both have begun the same children, or their own events would differ.
        other = others.get(child[:3]) or FamilyRun(RunState(), ())
        found = family_difference(
            child.run, other, redact, place_of(child.state, child.key, called)
        )
        if found is not None:
            return found
    return None


def comparable_events(events: Sequence[Event], redact: Redact = str) -> Iterator[dict[str, Any]]:
    """The events of one run in comparable form."""
    run = next((event.run for event in events if isinstance(event, Started)), "")
    tasks = {event.key: event.task for event in events if isinstance(event, Intended)}
    together: list[tuple[str, dict[str, Any]]] = []
    for event in _without_pauses(events):
        plain = _plain(event, run, tasks, redact)
        if event.type in CALLS:
            together.append((tasks.get(getattr(event, "key", ""), ""), plain))
            continue
        if isinstance(event, ChildStarted | ChildEnded):
            together.append((event.key, plain))
            continue
        yield from _by_task(together)
        together = []
        yield plain
    yield from _by_task(together)


def _by_task(together: list[tuple[str, dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    return (plain for _, plain in sorted(together, key=lambda one: one[0]))


def _without_pauses(events: Iterable[Event]) -> Iterator[Event]:
    """The events without pauses, which change nothing in a run."""
    paused = False
    for event in events:
        if isinstance(event, Suspended):
            paused = event.is_pause
        is_left_out = event.type in PROCESS or (paused and isinstance(event, Suspended))
        if isinstance(event, Waiting) and event.wanted is not None:
            # A scenario does not have to wait for it.
            is_left_out = True
        if isinstance(event, Resumed):
            is_left_out = paused and not event.limits
            paused = False
        if not is_left_out:
            yield event


def _plain(event: Event, run: str, tasks: dict[str, str], redact: Redact) -> dict[str, Any]:
    left_out = UNREPEATED.get(event.type, ())
    kept = {key: value for key, value in event.plain().items() if key not in left_out}
    text = json.dumps({"type": event.type, **kept}, ensure_ascii=False)
    plain: dict[str, Any] = json.loads(text.replace(run, "RUN") if run else text)
    for name in ("time_s", "held_tokens", "held_usd"):
        plain.get("usage", {}).pop(name, None)
    is_command = is_of_program(tasks.get(getattr(event, "key", ""), ""))
    if isinstance(event, Replied | Worked):
        plain.update(_without_place(plain))
    if event.type == "replied" and not is_command:
        # Other output of an agent's program than its answer is not used.
        del plain["exit_code"], plain["stderr"]
    for called in plain.get("tool_calls", ()):
        del called["id"]
    if event.type == "worked":
        _drop_unrepeated(plain)
    return dict(redact_data(_without_durations(plain), redact))


def _without_durations(value: Any) -> Any:
    """The value without durations of children, also in the texts of data."""
    if isinstance(value, list):
        return [_without_durations(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: _without_durations(inner) for key, inner in value.items()}
    if RESULT.keys() == kept.keys():
        del kept["duration"]
    if kept.get("is_data") and kept["data"] != value["data"]:
        kept["text"] = ""
    return kept


def _without_place(plain: dict[str, Any]) -> dict[str, Any]:
    """The parts without the places of folders, which no replay can repeat."""
    parts = {name: plain.get(name) for name in ("folder", "artifact")}
    return {name: {**part, "place": ""} for name, part in parts.items() if part}


def _drop_unrepeated(plain: dict[str, Any]) -> None:
    for answer in (plain["report"] or {}).get("answers", ()):
        answer.pop("resume_at")
    answered = plain["answer"]
    if answered is not None and answered["by"] == "script":
        answered["by"] = "person"


def _value_differences(before: Any, after: Any, at: str = "") -> Iterator[str]:
    """Each value that differs, by its dotted place."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            yield from _value_differences(
                before.get(key), after.get(key), f"{at}.{key}" if at else key
            )
    elif before != after:
        yield f"{at} is {_json_line(after)} instead of {_json_line(before)}"


def _json_line(value: Any) -> str:
    return one_line(json.dumps(value, ensure_ascii=False))
