"""Traces: a run's states, verdicts, feedback, prompts and costs in order; and how two runs compare.

Not compared is what no replay can repeat: times, ids of runs and processes, what depends on the
model that is asked, reservations and the remedies that follow from them. Everything else counts.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import groupby, zip_longest
from typing import Any, Literal, NamedTuple

from loopkit.engine.changes import apply
from loopkit.engine.events import (
    Decided,
    Emitted,
    Entered,
    Event,
    Failed,
    Intended,
    Kept,
    Replied,
    Resumed,
    Started,
    Suspended,
    Waiting,
    Worked,
)
from loopkit.engine.findings import Report
from loopkit.engine.records import Usage
from loopkit.engine.state import RunState, is_of_program
from loopkit.language.machine import Machine
from loopkit.language.states.each import RESULT, ChildrenState
from loopkit.outside.redaction import Redact, redact_data
from loopkit.scenario.cases import GAP
from loopkit.testing.playing import FamilyRun
from loopkit.text import one_line
from loopkit.text.run_ids import place_of
from loopkit.validators.judges.prompt import NONCE_REQUEST


@dataclass(frozen=True, slots=True)
class Judged:
    state: str
    attempt: int
    report: Report


@dataclass(frozen=True, slots=True)
class FeedbackGiven:
    to: str
    attempt: int
    text: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A call to an agent, with its last prompt."""

    agent: str
    state: str
    place: str
    attempt: int
    call: int
    text: str


class ChildTrace(NamedTuple):
    state: str
    key: str
    """The key of its item; empty for an only child."""
    visit: int
    trace: Trace


@dataclass
class Trace:
    state: RunState
    path: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    judged: list[Judged] = field(default_factory=list)
    feedback: list[FeedbackGiven] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    emitted: list[str] = field(default_factory=list)
    revisions: Counter[str] = field(default_factory=Counter)
    """The revisions by edge, and by the state that is revised."""
    calls: Counter[str] = field(default_factory=Counter)
    """The calls by agent and by tool, including those of children."""
    cost_usd: float | None = 0.0
    """Including that of children; None where unknown."""
    children: list[ChildTrace] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        return self.state.finished.outcome if self.state.finished else self.state.status

    @property
    def closing_words(self) -> str:
        """The open question with its closed choices, or why the run is suspended."""
        question = self.state.question
        if self.state.status == "waiting" and question is not None:
            closed = [f"`{c.name}` is closed: {c.closed}" for c in question.choices if c.closed]
            return "\n".join([question.text, *closed])
        return self.state.suspended.message if self.state.suspended is not None else ""

    def version(self, artifact: str) -> tuple[Any, bool]:
        """The version with which the run ends, and whether there is such an artifact.

        It is the version of the result where the final state names the artifact, else the latest.
        """
        if self.state.finished and artifact in self.state.finished.result:
            return self.state.finished.result[artifact], True
        latest = self.state.artifacts.get(artifact)
        if latest is None:
            return None, False
        return latest.data if latest.is_data else latest.text, True


def trace(machine: Machine, run: FamilyRun) -> Trace:
    result = Trace(run.state, cost_usd=run.cost_usd)
    before = RunState()
    for event in run.plain_events:
        _note(result, machine, before, event)
        apply(before, event)
    child_states = machine.states_of(ChildrenState)
    for child in run.children:
        inner = trace(child_states[child.state].child, child.run)
        result.children.append(ChildTrace(child.state, child.key, child.visit, inner))
        result.calls.update(inner.calls)
    return result


def _note(result: Trace, machine: Machine, run: RunState, event: Event) -> None:
    match event:
        case Entered():
            result.path.append(event.state)
        case Kept():
            result.kept.append(event.state)
        case Worked(report=Report() as report):
            result.judged.append(Judged(event.state, report.attempt, report))
        case Decided():
            if event.spends:
                result.revisions.update((event.edge, event.target))
            for feedback in event.feedback:
                attempt = run.attempts.get(feedback.to, 0) + 1
                result.feedback.append(FeedbackGiven(feedback.to, attempt, feedback.text))
        case Emitted():
            result.emitted.append(event.name)
        case _:
            _note_call(result, machine, run, event)


def _note_call(result: Trace, machine: Machine, run: RunState, event: Event) -> None:
    match event:
        case Intended(role="author" | "judge" | "outside"):
            result.calls[event.agent] += 1
            result.asked.append(_call_of(machine, run, event))
        case Intended(role="tool") if _is_tool(machine, event.agent):
            result.calls[event.agent] += 1
        case Failed(usage=Usage(agent_calls=0, tool_calls=0)):
            # Nothing was sent. What somebody outside is asked is no call of an agent in a usage.
            intent = run.open_calls[event.key]
            if intent.role != "outside" and intent.agent in result.calls:
                result.calls[intent.agent] -= 1


def _is_tool(machine: Machine, name: str) -> bool:
    """Whether there is such a tool; a model may call for one that does not exist."""
    agent, _, tool = name.partition(".")
    return tool in machine.agents[agent].callable_tools


def _call_of(machine: Machine, run: RunState, event: Intended) -> Asked:
    task = run.tasks.get(event.task)
    call = (task.sent if task else 0) + 1
    judged = machine.states[event.state].judges
    attempt = run.attempts.get(event.state, 0) + 1
    if judged is not None:
        attempt = run.artifacts[judged].attempt
    return Asked(event.agent, event.state, event.place, attempt, call, event.prompt)


PROCESS = frozenset(
    {
        *("claimed", "held", "refused", "captured", "isolated", "merging", "merged", "restored"),
        *("adding", "setting", "reread", "repaired"),
    }
)
"""Events about the process that drives a run, its definition and its files, not about its work."""
UNREPEATED = {
    "started": ("definition", "script", "folder"),
    "intended": ("key", "model", "fallback", "deadline_s", "cap", "reserved", "offered", "size"),
    "replied": ("key", "model", "session", "played", "kept", "by", "counted", "has_no_tools"),
    "failed": ("key", "retry_at", "resume_at"),
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
        at = f"`{self.called}`: event {self.index}" if self.called else f"event {self.index}"
        if self.recorded is None:
            return f"{at}: there is one more, `{self.replayed['type']}`"
        if self.replayed is None:
            return f"{at}: there is one less, `{self.recorded['type']}`"
        kind = self.recorded["type"]
        other = self.replayed["type"]
        if kind != other:
            return f"{at}: `{other}` instead of `{kind}`"
        return f"{at}, `{kind}`: {'; '.join(_value_differences(self.recorded, self.replayed))}"


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
        place = place_of(child.state, child.key, called)
        found = family_difference(child.run, other, redact, place)
        if found is not None:
            return found
    return None


def comparable_events(events: Sequence[Event], redact: Redact = str) -> Iterator[dict[str, Any]]:
    started = next((event for event in events if isinstance(event, Started)), None)
    names = {started.folder.rstrip("/"): "FOLDER", started.run: "RUN"} if started else {}
    tasks = {event.key: event.task for event in events if isinstance(event, Intended)}

    def task_of(event: Event) -> str:
        key: str = getattr(event, "key", "")
        return tasks.get(key, key)

    for is_in_any_order, some in groupby(_without_pauses(events), lambda e: e.type in TOGETHER):
        in_order = sorted(some, key=task_of if is_in_any_order else lambda _: "")
        yield from (_plain(event, names, tasks, redact) for event in in_order)


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


def _plain(
    event: Event, names: Mapping[str, str], tasks: Mapping[str, str], redact: Redact
) -> dict[str, Any]:
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


def _value_differences(before: Any, after: Any, at: str = "") -> Iterator[str]:
    """Each value that differs, by its dotted place."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            place = f"{at}.{key}" if at else key
            yield from _value_differences(before.get(key), after.get(key), place)
    elif before != after:
        now, then = (one_line(json.dumps(one, ensure_ascii=False)) for one in (after, before))
        yield f"{at} is {now} instead of {then}"


Sign = Literal[" ", "-", "+", "…", "gap"]
"""Both have it, only expected, only taken, taken in a gap, the gap itself."""
Move = tuple[int, Sign, int, int]
"""The cost, the sign, and the steps in both sequences."""


@dataclass(frozen=True, slots=True)
class Row:
    sign: Sign
    name: str
    index: int
    """The index of the expected item; for one that was only taken, of the next expected one."""


def align(expected: Sequence[str], taken: Sequence[str]) -> list[Row]:
    """Align both so that the fewest items differ, and then the most agree."""
    costs = _costs(expected, taken)
    rows: list[Row] = []
    i = j = 0
    while i < len(expected) or j < len(taken):
        moves = _moves(expected, taken, i, j)
        _, sign, down, along = min(moves, key=lambda m: m[0] + costs[i + m[2]][j + m[3]])
        rows.append(Row(sign, taken[j] if along else expected[i], i))
        i, j = i + down, j + along
    return [row for row in rows if row.sign != "gap"]


def fit(expected: Sequence[str], taken: Sequence[str]) -> bool:
    """Whether all expected items were taken, and no others outside of gaps."""
    if GAP not in expected:
        return tuple(expected) == tuple(taken)
    return _costs(expected, taken)[0][0] <= 0


def diff(rows: Sequence[Row]) -> tuple[str, ...]:
    lines: list[str] = []
    for is_gap, some in groupby(rows, lambda row: row.sign == "…"):
        if is_gap:
            lines.append(f"… {' '.join(row.name for row in some)}")
        else:
            lines += [f"{row.sign} {row.name}" for row in some]
    return tuple(lines)


def index_of_difference(rows: Sequence[Row], count: int) -> int:
    """The index of the expected item at which both differ first; at most the last one."""
    at = next((row.index for row in rows if row.sign in "-+"), 0)
    return max(0, min(at, count - 1))


def _costs(expected: Sequence[str], taken: Sequence[str]) -> list[list[int]]:
    """For each pair of remainders, the lowest cost; above 0 where some items differ."""
    costs = [[0] * (len(taken) + 1) for _ in range(len(expected) + 1)]
    for i in range(len(expected), -1, -1):
        for j in range(len(taken), -1, -1):
            moves = _moves(expected, taken, i, j)
            costs[i][j] = min((m[0] + costs[i + m[2]][j + m[3]] for m in moves), default=0)
    return costs


def _moves(expected: Sequence[str], taken: Sequence[str], i: int, j: int) -> Iterator[Move]:
    is_more, is_left = i < len(expected), j < len(taken)
    # One difference outweighs all items that could agree.
    different = len(taken) + 1
    if is_more and expected[i] == GAP:
        if is_left:
            yield 0, "…", 0, 1
        yield 0, "gap", 1, 0
        return
    if is_more and is_left and expected[i] == taken[j]:
        yield -1, " ", 1, 1
    if is_more:
        yield different, "-", 1, 0
    if is_left:
        yield different, "+", 0, 1
