"""A run as a page: everything that a page shows, in reading order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote

from loopkit.drive.stored_runs import OpenQuestion
from loopkit.engine.events import Cancelled, Claimed, Started
from loopkit.text import plural
from loopkit.text.command_lines import resume_line
from loopkit.text.json_text import text_or_json
from loopkit.text.run_ids import is_child, root_of
from loopkit.views.children_table import Row, rows_of, rows_to_show
from loopkit.views.diagram import Drawing, drawing
from loopkit.views.diagram.svg import svg_in_page
from loopkit.views.history import verdict_text
from loopkit.views.page.asked import QuestionForm, question_form
from loopkit.views.page.changes import Difference, difference
from loopkit.views.page.facts import RunFacts
from loopkit.views.page.finding_rows import FindingTable, finding_tables
from loopkit.views.page.rendering import Tone, tone_of
from loopkit.views.page.steps import Note, Step, Steps, steps_of
from loopkit.views.summary import standing_of, status_of
from loopkit.views.version_diff import KeptVersion, versions_of
from loopkit.views.versions import version_suffix


def path_of(run: str) -> str:
    """The path of the page of a run on a server."""
    return f"/runs/{quote(run)}"


@dataclass(frozen=True, slots=True)
class Versions:
    """All versions of one artifact, oldest first."""

    name: str
    all: Sequence[KeptVersion]

    def change(self, number: int) -> Difference | None:
        """The changes of a version from the one before it; None for the first one."""
        return difference(self.all, number)


@dataclass(frozen=True, slots=True)
class Value:
    """A named text: an input, or a part of the result."""

    name: str
    text: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class ChildRows:
    """The children of one state."""

    state: str
    total: int
    rows: Sequence[Row]
    left_out: int


class RunPage:
    """The content of the page of a run. Each part is made once, when it is first used."""

    def __init__(self, facts: RunFacts, steps: Steps | None = None) -> None:
        """`steps` are those of its history, if they are known already."""
        self.facts = facts
        self._steps = steps
        self.state = facts.state
        self.run = facts.state.run
        self.machine = facts.state.machine
        self.usage = facts.usage

    @cached_property
    def path(self) -> str:
        return path_of(self.run)

    @property
    def status(self) -> str:
        return status_of(self.state, is_driven=self.facts.is_driven)

    @property
    def is_live(self) -> bool:
        """Whether the run may continue without anyone acting."""
        return self.status in ("new", "running")

    @property
    def may_resume(self) -> bool:
        """Whether it can be resumed."""
        return self.status in ("suspended", "interrupted")

    @property
    def tone(self) -> Tone:
        finished = self.state.finished
        return tone_of(self.status, finished is not None and finished.success)

    @property
    def standing(self) -> str:
        """The active state, or the outcome."""
        return standing_of(self.state)

    @property
    def began(self) -> float:
        """Unix time."""
        return self.facts.history[0].at

    @property
    def last(self) -> float:
        """Unix time of the last event, claims aside."""
        events = reversed(self.facts.history)
        return next((each.at for each in events if not isinstance(each.event, Claimed)), self.began)

    @property
    def seq(self) -> int:
        return self.facts.history[-1].seq

    @cached_property
    def steps(self) -> Steps:
        return self._steps or steps_of(self.facts.history)

    @cached_property
    def longest(self) -> float:
        """The seconds of the longest step that did not ask a person."""
        return max((self.work_seconds(step) for step in self.steps.all), default=0.0)

    def work_seconds(self, step: Step) -> float:
        """The duration of a step in seconds; 0 if it asked a person, whose time does not count."""
        if step.waiting is not None or (step.work is not None and step.work.answer is not None):
            return 0.0
        if step.seconds is not None:
            return step.seconds
        return max(self.facts.now - step.began, 0.0) if self.is_live else 0.0

    def kind(self, state: str) -> str:
        """The kind of a state in diagrams; empty if the present machine has no such state."""
        found = self.facts.engine.program.graph.states.get(state)
        return found.drawn_as if found is not None else ""

    def words(self, step: Step) -> str:
        """The result of a step, in a few words."""
        work = step.work
        if work is None:
            standing = self.status if step is self.steps.all[-1] else ""
            return "; ".join([step.waits or standing, *(note.text for note in step.notes)])
        if work.report is not None:
            return verdict_text(work.report)
        if work.answer is not None:
            return f"{work.answer.choice} (by {work.answer.by})"
        if work.artifact is not None and work.outcome == "done":
            return f"{work.artifact.name}, {plural(len(work.artifact.text), 'character', ',')}"
        return work.error or work.outcome

    def guard(self, edge: str) -> str:
        """The guard of a transition, or the error or limit that it catches."""
        found = self.facts.engine.program.graph.by_id.get(edge)
        if found is None:
            return ""
        if found.event == "done":
            return found.guard or ""
        return "a limit was reached" if found.event == "limit" else f"{found.event} error"

    @cached_property
    def _versions(self) -> Mapping[str, list[KeptVersion]]:
        return versions_of(stored.event for stored in self.facts.history)

    @cached_property
    def artifacts(self) -> list[Versions]:
        return [Versions(name, versions) for name, versions in self._versions.items()]

    def artifact(self, name: str) -> Versions | None:
        """The versions of an artifact; None if it has none."""
        return next((each for each in self.artifacts if each.name == name), None)

    @cached_property
    def findings(self) -> list[FindingTable]:
        works = (step.work for step in self.steps.all if step.work is not None)
        return finding_tables(work.report for work in works if work.report is not None)

    @cached_property
    def asked(self) -> QuestionForm | None:
        return question_form(self.facts.engine, self.state, self._versions)

    @property
    def asked_elsewhere(self) -> list[OpenQuestion]:
        """The open questions of its children."""
        return [each for each in self.facts.asked if each.state.run != self.run]

    @cached_property
    def diagram(self) -> str:
        """SVG, which needs the style sheet of diagrams."""
        return svg_in_page(self.drawing)

    @property
    def drawing(self) -> Drawing:
        """Its machine, with its path."""
        return drawing(self.facts.engine.program.graph, self.state, status=self.status)

    @property
    def stopped(self) -> list[str]:
        """Why it stopped, on the first line, then how to continue; empty if it did not stop."""
        if self.state.suspended is not None:
            return [self.state.suspended.message, *self.facts.hints]
        if self.status == "interrupted":
            return [
                "The process that drove the run is gone.",
                f"resume with: {resume_line(self.run)}",
            ]
        cancelled = self.facts.history[-1].event
        if isinstance(cancelled, Cancelled) and cancelled.reason:
            return [cancelled.reason]
        return []

    @property
    def notes(self) -> Sequence[Note]:
        return self.steps.before

    @property
    def input(self) -> list[Value]:
        return [Value(name, text_or_json(value)) for name, value in self.state.input.items()]

    @property
    def result(self) -> list[Value]:
        finished = self.state.finished
        if finished is None:
            return []
        return [
            Value(name, text_or_json(value), version_suffix(finished.picked[name]).strip(" ()"))
            for name, value in finished.result.items()
        ]

    @property
    def children(self) -> list[ChildRows]:
        return list(self._children())

    def _children(self) -> Iterator[ChildRows]:
        for name, rows in rows_of(self.state):
            shown = rows_to_show(rows)
            first = next(iter(self.state.children[name].values()))
            yield ChildRows(name, first.started.of, shown, len(rows) - len(shown))

    @property
    def parent(self) -> str:
        """The root of its family; empty for the root itself."""
        return root_of(self.run) if is_child(self.run) else ""

    @property
    def is_played(self) -> bool:
        """Whether a scenario plays the agents."""
        return any(
            isinstance(each.event, Started) and each.event.script for each in self.facts.history[:3]
        )
