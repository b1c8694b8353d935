"""Recording what tests play, and holding a replay against it."""

from __future__ import annotations

import json
import re
import resource
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import groupby, zip_longest
from typing import Any

from loopkit.engine.events import (
    Event,
    Intended,
    Replied,
    Resumed,
    Started,
    Suspended,
    Waiting,
    Worked,
)
from loopkit.engine.state import is_of_program
from loopkit.language.load import load
from loopkit.language.states.each import RESULT
from loopkit.machine.program import Program
from loopkit.testing import load_suite, play
from loopkit.testing.playing import FamilyRun
from loopkit.testing.recording import Recording, record, target
from loopkit.text import one_line
from loopkit.text.run_ids import place_of
from loopkit.validators.judges.prompt import NONCE_REQUEST
from tests.support import Desk, Played


def taped(desk: Desk, played: Played, name: str | None = None) -> Recording:
    """The recording of a run of the desk's `machine.yaml`."""
    path = desk.folder / "machine.yaml"
    loaded = load(path)
    into = target(desk.folder / "recorded.scenario.yaml", path, name)
    run = FamilyRun(played.state, tuple(played.stored))
    return record(into, Program(loaded.machine, loaded.digest), run)


def taped_same(desk: Desk, played: Played, name: str | None = None) -> Recording:
    """The same, after its replay was held against the run."""
    made = taped(desk, played, name)
    assert_same(made, played)
    return made


def replayed(made: Recording) -> list[Event]:
    return [stored.event for stored in play(load_suite(made.path), made.case).events]


def assert_same(made: Recording, played: Played) -> None:
    """The replay comes to the same events, and the case passes as it is written."""
    assert not made.failure, f"{made.failure}\n{made.path.read_text()}"
    assert not difference(played.events, replayed(made)), made.path.read_text()


@contextmanager
def no_room(most_bytes: int = 16) -> Iterator[None]:
    """No file can get longer than a few bytes, as on a disk that is nearly full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


PROCESS = frozenset(
    {
        *("claimed", "held", "refused", "captured", "isolated", "merging", "merged", "restored"),
        *("adding", "setting", "reread", "repaired", "acted"),
    }
)
"""Events about the process that drives a run, its definition and its files, not about its work."""
UNREPEATED = {
    "started": ("definition", "script", "folder"),
    "intended": ("key", "model", "fallback", "deadline_s", "cap", "reserved", "offered", "size"),
    "replied": (
        *("key", "model", "session", "session_use", "stream", "warning", "played", "kept", "by"),
        *("counted", "has_no_tools"),
    ),
    "failed": ("key", "retry_at", "resume_at", "stream"),
    "in_doubt": ("key",),
    "worked": ("time_s", "resume_at", "refused", "made_from"),
    "baselined": ("time_s",),
    "waiting": ("expires_at",),
    "suspended": ("time_s", "resume_at", "refused", "remedy"),
    "child_started": ("definition",),
    "child_ended": ("time_s",),
    "finished": ("left",),
}
TOGETHER = {"intended", "replied", "failed", "in_doubt", "child_started", "child_ended"}
"""Events that may come in any order if judges or children work at the same time."""


def difference(recorded: Sequence[Event], replayed: Sequence[Event]) -> str:
    """Where two runs differ first; "" where they are the same.

    Not compared is what no replay can repeat: times, ids of runs and processes, what depends on
    the model that is asked, reservations and the remedies that follow from them.
    """
    pairs = zip_longest(comparable_events(recorded), comparable_events(replayed), fillvalue={})
    for index, (before, after) in enumerate(pairs, 1):
        if before != after:
            parts = "; ".join(_value_differences(before, after))
            return f"event {index}, `{before.get('type')}`: {parts}"
    return ""


def family_difference(recorded: FamilyRun, replayed: FamilyRun, called: str = "") -> str:
    """The same with children, whatever their order."""
    if found := difference(recorded.plain_events, replayed.plain_events):
        return f"`{called}`: {found}"
    others = {child[:3]: child.run for child in replayed.children}
    inner = (
        family_difference(child.run, others[child[:3]], place_of(child.state, child.key, called))
        for child in recorded.children
    )
    return next(filter(None, inner), "")


def comparable_events(events: Sequence[Event]) -> Iterator[dict[str, Any]]:
    started = next((event for event in events if isinstance(event, Started)), None)
    names = {started.folder.rstrip("/"): "FOLDER", started.run: "RUN"} if started else {}
    tasks = {event.key: event.task for event in events if isinstance(event, Intended)}

    def task_of(event: Event) -> str:
        key: str = getattr(event, "key", "")
        return tasks.get(key, key)

    for is_in_any_order, some in groupby(_without_pauses(events), lambda e: e.type in TOGETHER):
        in_order = sorted(some, key=task_of if is_in_any_order else lambda _: "")
        yield from (_plain(event, names, tasks) for event in in_order)


def _without_pauses(events: Iterable[Event]) -> Iterator[Event]:
    paused = False
    for event in events:
        is_left_out = event.type in PROCESS
        match event:
            case Suspended():
                is_left_out = paused = event.is_pause
            case Waiting():
                # A scenario does not have to wait for what comes from outside.
                is_left_out = event.wanted is not None
            case Resumed():
                is_left_out = paused and not event.limits
                paused = False
        if not is_left_out:
            yield event


def _plain(event: Event, names: Mapping[str, str], tasks: Mapping[str, str]) -> dict[str, Any]:
    left_out = UNREPEATED.get(event.type, ())
    kept = {key: value for key, value in event.plain().items() if key not in left_out}
    text = json.dumps({"type": event.type, **kept}, ensure_ascii=False)
    text = reduce(lambda made, name: made.replace(name, names[name]), filter(None, names), text)
    # It depends on what is judged, which may name a folder.
    text = re.sub(f"{NONCE_REQUEST.partition('{}')[0]}\\w+", "", text)
    plain: dict[str, Any] = json.loads(text)
    for name in ("time_s", "held_tokens", "held_usd"):
        plain.get("usage", {}).pop(name, None)
    plain.pop("artifact_place", None)
    is_command = is_of_program(tasks.get(getattr(event, "key", ""), ""))
    if isinstance(event, Replied | Worked):
        for holder in (plain.get("folder"), plain.get("artifact")):
            if holder:
                holder["place"] = ""
    if event.type == "replied" and not is_command:
        # Other output of an agent's program than its answer is not used.
        del plain["exit_code"], plain["stderr"]
    for called in plain.get("tool_calls", ()):
        # Both are of the provider: what is played has neither.
        del called["id"], called["as_text"]
    if event.type == "worked":
        for answer in (plain["report"] or {}).get("answers", ()):
            answer.pop("resume_at")
        if (plain["answer"] or {}).get("by") == "script":
            plain["answer"]["by"] = "person"
    return dict(_without_durations(plain))


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


def _value_differences(before: Any, after: Any, at: str = "") -> Iterator[str]:
    """Each value that differs, by its dotted place."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            place = f"{at}.{key}" if at else key
            yield from _value_differences(before.get(key), after.get(key), place)
    elif before != after:
        now, then = (one_line(json.dumps(one, ensure_ascii=False)) for one in (after, before))
        yield f"{at} is {now} instead of {then}"
