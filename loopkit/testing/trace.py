"""Traces: a run's states, verdicts, feedback, prompts and costs in order; and lists compared."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import groupby
from typing import Any, Literal

from loopkit.engine.changes import apply
from loopkit.engine.events import (
    Decided,
    Emitted,
    Entered,
    Event,
    Failed,
    Intended,
    Kept,
    Worked,
)
from loopkit.engine.findings import Report
from loopkit.engine.records import Usage
from loopkit.engine.state import RunState
from loopkit.language.machine import Machine
from loopkit.language.states.each import ChildrenState
from loopkit.scenario.cases import GAP
from loopkit.testing.playing import Child, FamilyRun


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


@dataclass
class Trace:
    state: RunState
    path: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    feedback: list[FeedbackGiven] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    emitted: list[str] = field(default_factory=list)
    revisions: Counter[str] = field(default_factory=Counter)
    """The revisions by edge, and by the state that is revised."""
    calls: Counter[str] = field(default_factory=Counter)
    """The calls by agent and by tool, including those of children."""
    cost_usd: float | None = 0.0
    """Including that of children; None where unknown."""
    children: list[Child[Trace]] = field(default_factory=list)

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
        result.children.append(Child(child.state, child.key, child.visit, inner))
        result.calls.update(inner.calls)
    return result


def _note(result: Trace, machine: Machine, run: RunState, event: Event) -> None:
    match event:
        case Entered():
            result.path.append(event.state)
        case Kept():
            result.kept.append(event.state)
        case Worked(report=Report() as report):
            result.reports.append(report)
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


Sign = Literal[" ", "-", "+", "…"]
"""Both have it, only expected, only taken, taken in a gap."""


@dataclass(frozen=True, slots=True)
class Row:
    sign: Sign
    name: str
    index: int
    """The index of the expected item; for one that was only taken, of the next expected one."""


def align(expected: Sequence[str], taken: Sequence[str]) -> list[Row]:
    """What both have, in their order, and what only one of them has between that."""
    places = [place for place, name in enumerate(expected) if name != GAP]
    names = [expected[place] for place in places]
    places.append(len(expected))
    rows: list[Row] = []
    matcher = SequenceMatcher(None, names, taken, autojunk=False)
    for kind, start, end, begin, stop in matcher.get_opcodes():
        sign: Sign = " " if kind == "equal" else "-"
        rows += (Row(sign, names[at], places[at]) for at in range(start, end))
        if kind != "equal":
            around = expected[places[start - 1] + 1 if start else 0 : places[end]]
            rows += (Row("…" if GAP in around else "+", n, places[end]) for n in taken[begin:stop])
    return rows


def fit(expected: Sequence[str], taken: Sequence[str]) -> bool:
    """Whether all expected items were taken, and no others outside of gaps."""
    # With a letter for each name, an expectation is a pattern.
    names = dict.fromkeys((GAP, *expected, *taken))
    letters = {name: chr(0x10000 + number) for number, name in enumerate(names)}
    wanted, found = ("".join(map(letters.__getitem__, one)) for one in (expected, taken))
    first, *middle = wanted.split(letters[GAP])
    last = f".*{middle.pop()}" if middle else ""
    return bool(re.fullmatch("".join((first, *(f"(?>.*?{m})" for m in middle), last)), found))


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
