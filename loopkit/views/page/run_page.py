"""A run as a page: everything that a page shows, in reading order.

As one file a run is HTML that needs nothing else, or Markdown; there texts share the space: those
of a run with a few steps are whole, those of a long run are cut.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple, Self
from urllib.parse import quote

from loopkit.drive.stored_runs import OpenQuestion, Stored
from loopkit.engine.events import (
    Cancelled,
    ChildEnded,
    ChildStarted,
    Claimed,
    Decided,
    Entered,
    Failed,
    Finished,
    InDoubt,
    Intended,
    Replied,
    Waiting,
    Worked,
)
from loopkit.engine.findings import Finding, Report, Status
from loopkit.engine.payloads import Best
from loopkit.engine.records import Usage
from loopkit.text import one_line, plural
from loopkit.text.editing import changed_lines
from loopkit.text.json_text import text_or_json
from loopkit.text.run_ids import ancestors_of, resume_line
from loopkit.views.console import LineTone, lines
from loopkit.views.diagram.mermaid import mermaid
from loopkit.views.diagram.model import Drawing, drawing
from loopkit.views.diagram.svg import svg_in_page
from loopkit.views.page.facts import RunFacts
from loopkit.views.page.fields import QuestionForm, question_form
from loopkit.views.page.rendering import (
    Difference,
    Tone,
    as_difference,
    asset,
    render,
    tone_of,
    word_of,
)
from loopkit.views.progress import Progress
from loopkit.views.review import artifact_lines, verdict_text, version_suffix
from loopkit.views.run_data import (
    KeptVersion,
    Row,
    rows_of,
    rows_to_show,
    standing_of,
    status_of,
    versions_of,
)


def path_of(run: str) -> str:
    return f"/runs/{quote(run)}"


@dataclass(frozen=True, slots=True)
class Value:
    name: str
    text: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class ChildRows:
    state: str
    total: int
    rows: Sequence[Row]
    left_out: int


class RunPage:
    """The content of the page of a run. Each part is made once, when it is first used."""

    def __init__(self, facts: RunFacts, steps: Steps | None = None) -> None:
        self.facts = facts
        self._steps = steps
        self.state = facts.state
        self.run = facts.state.run
        self.machine = facts.state.machine
        self.usage = facts.usage
        self.path = path_of(self.run)
        self.parent = next(ancestors_of(self.run), "")

    @property
    def status(self) -> str:
        return status_of(self.state, is_driven=self.facts.is_driven)

    @property
    def is_live(self) -> bool:
        """Whether the run may continue without anyone acting."""
        return self.status in ("new", "running")

    @property
    def tone(self) -> Tone:
        finished = self.state.finished
        return tone_of(self.status, finished is not None and finished.success)

    @property
    def word(self) -> str:
        finished = self.state.finished
        return word_of(self.status, finished is not None and finished.success)

    @property
    def open_calls(self) -> list[Call]:
        """The calls that are being answered now."""
        calls = self.steps.all[-1].calls if self.is_live and self.steps.all else []
        return [call for call in calls if call.status == "open"]

    @property
    def standing(self) -> str:
        return standing_of(self.state)

    @property
    def began(self) -> float:
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
        return self._steps or Steps().after(self.facts.history)

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
            return f"{work.artifact.name}, {plural(work.artifact.size, 'character', ',')}"
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
    def artifacts(self) -> Mapping[str, list[KeptVersion]]:
        """All versions of each artifact, oldest first."""
        return versions_of(stored.event for stored in self.facts.history)

    @cached_property
    def findings(self) -> list[FindingTable]:
        """A table for each validate state and artifact with findings, in order of appearance."""
        tables: dict[tuple[str, str], FindingTable] = {}
        for step in self.steps.all:
            if step.work is not None and (report := step.work.report) is not None:
                key = report.state, report.artifact
                tables.setdefault(key, FindingTable(*key)).take(report)
            if step.decision is not None and step.decision.best is not None:
                for table in tables.values():
                    table.go_back(step.decision.best)
        return [table for table in tables.values() if table.rows]

    @cached_property
    def asked(self) -> QuestionForm | None:
        return question_form(self.facts.engine, self.state, self.artifacts)

    @property
    def asked_elsewhere(self) -> list[OpenQuestion]:
        return [each for each in self.facts.asked if each.state.run != self.run]

    @cached_property
    def diagram(self) -> str:
        """SVG, which needs the style sheet of diagrams."""
        return svg_in_page(self.drawing)

    @property
    def drawing(self) -> Drawing:
        return drawing(self.facts.engine.program.graph, self.state, status=self.status)

    @property
    def stopped(self) -> list[str]:
        """Why it stopped, on the first line, then how to continue; empty if it did not stop."""
        if self.state.suspended is not None:
            return [self.state.suspended.message, *self.facts.hints]
        if self.status == "interrupted":
            gone = "The process that drove the run is gone."
            return [gone, f"resume with: {resume_line(self.run)}"]
        cancelled = self.facts.history[-1].event
        if isinstance(cancelled, Cancelled) and cancelled.reason:
            return [cancelled.reason]
        return []

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
        found: list[ChildRows] = []
        for name, rows in rows_of(self.state):
            shown = rows_to_show(rows)
            first = next(iter(self.state.children[name].values()))
            found.append(ChildRows(name, first.started.of, shown, len(rows) - len(shown)))
        return found


MOST_COMPARED = 400_000
"""Characters of two texts whose differences are shown."""


class Compared(NamedTuple):
    """An input, a result or an artifact of two runs."""

    name: str
    texts: tuple[str | None, str | None]
    change: Difference | None = None

    @property
    def is_same(self) -> bool:
        return self.texts[0] == self.texts[1]


def compared(first: RunPage, second: RunPage) -> list[Compared]:
    """What went into two runs and what came of them; last the last versions of their artifacts."""
    before, after = (_texts_of(page) for page in (first, second))
    found: list[Compared] = []
    for name in before | after:
        one, other = before.get(name), after.get(name)
        change = None
        if one != other and one and other and len(one) + len(other) <= MOST_COMPARED:
            change = as_difference(0, changed_lines(one.splitlines(), other.splitlines()))
        found.append(Compared(name, (one, other), change))
    return found


def _texts_of(page: RunPage) -> dict[str, str]:
    texts = {f"input {one.name}": one.text for one in page.input}
    texts |= {f"result {one.name}": one.text for one in page.result}
    given = {one.name for one in page.result}
    last = (versions[-1].artifact for name, versions in page.artifacts.items() if name not in given)
    return texts | {one.name: "\n".join(artifact_lines(one)) for one in last}


NOTED = frozenset(
    ("baselined", "held", "in_doubt", "settled", "kept", "alerted", "emitted", "suspended",
     "repaired", "reread", "resumed", "refused", "merged", "cancelled")
)  # fmt: skip
NOTE_WIDTH = 400
CallStatus = Literal["open", "answered", "failed", "in doubt"]


@dataclass(slots=True)
class Call:
    seq: int
    """The number of its first event, which is in the address of its texts."""
    began: float
    """Unix time."""
    intent: Intended
    status: CallStatus = "open"
    ended: float | None = None
    reply: Replied | None = None
    failure: Failed | None = None

    @property
    def usage(self) -> Usage:
        settled = self.reply or self.failure
        return settled.usage if settled is not None else Usage()

    @property
    def model(self) -> str:
        """The model that answered, else the one that was asked."""
        return (self.reply.model if self.reply else "") or self.intent.model

    def settle(self, event: Replied | Failed | InDoubt, at: float) -> None:
        """Set the result; the end of a call in doubt is unknown."""
        match event:
            case Replied():
                self.status = "answered"
                self.reply = event
                self.ended = at
            case Failed():
                self.status = "failed"
                self.failure = event
                self.ended = at
            case InDoubt():
                self.status, self.ended = "in doubt", None


@dataclass(frozen=True, slots=True)
class Note:
    at: float
    text: str
    tone: LineTone = "plain"


@dataclass(slots=True)
class Step:
    seq: int
    """The number of its first record."""
    state: str
    attempt: int
    began: float
    last: int = 0
    """The number of its last record."""
    ended: float | None = None
    calls: list[Call] = field(default_factory=list)
    work: Worked | None = None
    decision: Decided | None = None
    waiting: Waiting | None = None
    question: str = ""
    """The id of its last question."""
    notes: list[Note] = field(default_factory=list)
    children: list[ChildStarted] = field(default_factory=list)
    ended_children: list[ChildEnded] = field(default_factory=list)

    @property
    def waits(self) -> str:
        if self.waiting is None:
            return ""
        whom = "a person" if self.waiting.wanted is None else "somebody outside"
        return f"waits for {whom}"

    @property
    def usage(self) -> Usage:
        total = Usage(time_s=self.work.time_s if self.work else 0.0)
        for call in self.calls:
            total = total.plus(call.usage)
        for child in self.ended_children:
            total = total.plus(child.usage.replace(time_s=child.time_s))
        return total

    @property
    def seconds(self) -> float | None:
        return None if self.ended is None else self.ended - self.began

    def take(self, stored: Stored) -> None:
        match stored.event:
            case Intended() as intent:
                self.calls.append(Call(stored.seq, stored.at, intent))
            case Replied() | Failed() | InDoubt() as settled:
                calls = reversed(self.calls)
                if call := next((call for call in calls if call.intent.key == settled.key), None):
                    call.settle(settled, stored.at)
            case Worked() as work:
                self.work = work
                self.ended = stored.at
                self.waiting = None
            case Decided() as decision:
                self.decision, self.ended = decision, stored.at
            case Waiting() as waiting:
                self.waiting, self.question = waiting, waiting.question
            case Finished() | Cancelled():
                self.ended = stored.at
            case ChildStarted() as child:
                self.children.append(child)
            case ChildEnded() as child:
                self.ended_children.append(child)


@dataclass(slots=True)
class Steps:
    """All steps of a run, oldest first; they grow with its events."""

    all: list[Step] = field(default_factory=list)
    before: list[Note] = field(default_factory=list)
    _progress: Progress = field(default_factory=Progress)

    def after(self, news: Iterable[Stored]) -> Self:
        """These steps, to which the next events are added."""
        for stored in news:
            self._take(stored)
        return self

    def _take(self, stored: Stored) -> None:
        event = stored.event
        if isinstance(event, Entered):
            self.all.append(Step(stored.seq, event.state, event.attempt, stored.at))
        elif self.all:
            self.all[-1].take(stored)
        if event.type in NOTED:
            state, notes = "", self.before
            if self.all:
                state = self.all[-1].state
                notes = self.all[-1].notes
            for line in lines(self._progress, stored):
                text = one_line(line.text, NOTE_WIDTH).removeprefix(f"{state} ").lstrip(": ")
                notes.append(Note(stored.at, text, line.tone))
        if self.all:
            self.all[-1].last = stored.seq
        self._progress = self._progress.after(stored)


MOST_ROUNDS = 12
Cell = Status | Literal["", "not looked for"]


@dataclass(slots=True)
class FindingRow:
    finding: Finding
    cells: list[Cell]
    """Its status in each round, oldest first."""
    now: Cell = ""
    """Its status since the last round with one, or since the run went back to another version."""


@dataclass(slots=True)
class FindingTable:
    state: str
    artifact: str
    rounds: list[Report] = field(default_factory=list)
    rows: dict[str, FindingRow] = field(default_factory=dict)
    """By id, in the order of discovery."""

    @property
    def skipped(self) -> int:
        """How many rounds have no column."""
        return max(len(self.rounds) - MOST_ROUNDS, 0)

    def take(self, report: Report) -> None:
        for finding in (*report.findings, *report.resolved, *report.unnamed):
            self._note(finding, finding.status)
        for finding in report.findings:
            self.rows[finding.id].finding = finding
        for finding in report.unseen:
            self._note(finding, "not looked for")
        self.rounds.append(report)
        for row in self.rows.values():
            row.cells += [""] * (len(self.rounds) - len(row.cells))

    def _note(self, finding: Finding, cell: Cell) -> None:
        row = self.rows.get(finding.id)
        if row is None:
            row = self.rows[finding.id] = FindingRow(finding, [""] * len(self.rounds))
        del row.cells[len(self.rounds) :]
        row.cells.append(cell)
        row.now = cell

    def go_back(self, best: Best) -> None:
        """Take what the run gave up as withdrawn, and what its best version has as open."""
        place = (best.state, best.author, best.attempt, best.made_from)
        then = [r for r in self.rounds if (r.state, r.author, r.attempt, r.made_from) == place]
        for finding in best.withdrawn:
            if finding.id in self.rows:
                self.rows[finding.id].now = finding.status
        for finding in then[-1].findings if then else ():
            row = self.rows[finding.id]
            row.now = row.finding.status


ROOM = 60_000
"""The approximate characters of all prompts and replies together."""
LEAST, MOST = 300, 8_000
"""Characters of one of these texts."""
SHOWN, VERSION, INPUT = 20_000, 6_000, 2_000
"""The characters of a part of the result or of an artifact beside the question; of a version; and
of an input."""
MOST_STEPS, MOST_VERSIONS = 200, 30
"""How many steps and how many versions of each artifact are shown: the last ones."""


def html_report(facts: RunFacts) -> str:
    """A self-contained page: it has no script and fetches nothing."""
    page = RunPage(facts)
    style = asset("page.css")
    names = {"style": style, "style_hash": csp_hash(style), "diagram": page.diagram}
    return render("report.html", _names(page) | names)


def markdown_report(facts: RunFacts) -> str:
    page = RunPage(facts)
    return render("report.md", _names(page) | {"mermaid": mermaid(page.drawing)})


def _names(page: RunPage) -> dict[str, object]:
    calls = sum(len(step.calls) for step in page.steps.all[-MOST_STEPS:])
    each = min(max(ROOM // max(2 * calls, 1), LEAST), MOST)
    return {
        "page": page,
        "texts": {"shown": SHOWN, "versions": VERSION, "calls": each, "input": INPUT},
        "earlier": max(len(page.steps.all) - MOST_STEPS, 0),
        "most_versions": MOST_VERSIONS,
    }


def csp_hash(text: str) -> str:
    """The source expression of an inline style or script in a Content-Security-Policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


REPORTS: Mapping[str, Callable[[RunFacts], str]] = {".html": html_report, ".md": markdown_report}
