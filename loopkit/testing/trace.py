"""Traces: a run's states, verdicts, feedback, prompts and costs in order, for expectations."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from loopkit.engine.changes import apply
from loopkit.engine.events import Decided, Emitted, Entered, Event, Intended, Kept, Worked
from loopkit.engine.findings import Report
from loopkit.engine.state import RunState
from loopkit.language import Machine
from loopkit.language.states.children import ChildrenState
from loopkit.testing.family import FamilyRun


@dataclass(frozen=True, slots=True)
class Judged:
    """A report of a validate state about one attempt of an author."""

    state: str
    attempt: int
    report: Report


@dataclass(frozen=True, slots=True)
class FeedbackGiven:
    """Feedback that a state gets for its next attempt."""

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
    """Everything that a run did."""

    state: RunState
    path: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    """The states that kept what they had made, in order."""
    judged: list[Judged] = field(default_factory=list)
    feedback: list[FeedbackGiven] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    emitted: list[str] = field(default_factory=list)
    revisions: Counter[str] = field(default_factory=Counter)
    """The revisions by edge, and by the state that is revised."""
    calls: Counter[str] = field(default_factory=Counter)
    """The calls by agent and by tool, including those of children."""
    cost_usd: float | None = 0.0
    """The cost in USD, including that of children; None where unknown."""
    children: list[ChildTrace] = field(default_factory=list)
    """Its children, in the order in which they began."""

    @property
    def outcome(self) -> str:
        """The final state, or how the run stopped."""
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


class ChildTrace(NamedTuple):
    """The trace of one child."""

    state: str
    key: str
    """The key of its item; empty for an only child."""
    visit: int
    trace: Trace


def trace(machine: Machine, run: FamilyRun) -> Trace:
    """The trace of a run."""
    result, before = Trace(run.state, cost_usd=run.cost_usd), RunState()
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
        case Intended(role="author" | "judge" | "outside"):
            result.calls[event.agent] += 1
            result.asked.append(_call_of(machine, run, event))
        case Intended(role="tool") if _is_tool(machine, event.agent):
            result.calls[event.agent] += 1
        case _:
            pass


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
