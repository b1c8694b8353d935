"""A run as a page: everything that a page shows, in reading order.

As one file a run is HTML that needs nothing else, or Markdown; there texts share the space: those
of a run with a few steps are whole, those of a long run are cut.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple
from urllib.parse import quote

from loopkit.drive.stored_runs import OpenQuestion
from loopkit.engine.findings import Finding, Report, Status
from loopkit.engine.payloads import Best
from loopkit.text import plural
from loopkit.text.editing import changed_lines
from loopkit.text.json_text import text_or_json
from loopkit.text.run_ids import ancestors_of
from loopkit.views.diagram.mermaid import mermaid
from loopkit.views.diagram.model import Drawing, drawing
from loopkit.views.diagram.svg import svg_in_page
from loopkit.views.page.fields import QuestionForm, question_form
from loopkit.views.page.rendering import Difference, Tone, as_difference, asset, render, tone_of
from loopkit.views.review import artifact_lines, verdict_text, version_suffix
from loopkit.views.run_data import Row, rows_of, rows_to_show, word_of
from loopkit.views.run_view import RunView
from loopkit.views.steps import Call, Step


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


class RunPage(RunView):
    """The page of a run, each part made once, when it is first used."""

    @property
    def path(self) -> str:
        return path_of(self.run)

    @property
    def parent(self) -> str:
        return next(ancestors_of(self.run), "")

    @property
    def success(self) -> bool | None:
        return self.state.finished.success if self.state.finished else None

    @property
    def tone(self) -> Tone:
        return tone_of(self.status, self.success)

    @property
    def word(self) -> str:
        return word_of(self.status, self.success)

    @property
    def open_calls(self) -> list[Call]:
        """The calls that are being answered now."""
        calls = self.steps.all[-1].calls if self.is_live and self.steps.all else []
        return [call for call in calls if call.status == "open"]

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
        return max(self.now - step.began, 0.0) if self.is_live else 0.0

    def kind(self, state: str) -> str:
        """The kind of a state in diagrams; empty if the present machine has no such state."""
        found = self.engine.program.graph.states.get(state)
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
        found = self.engine.program.graph.by_id.get(edge)
        if found is None:
            return ""
        if found.event == "done":
            return found.guard or ""
        return "a limit was reached" if found.event == "limit" else f"{found.event} error"

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
        return question_form(self.engine, self.state, self.steps.versions)

    @property
    def asked_elsewhere(self) -> list[OpenQuestion]:
        return [each for each in self.questions if each.state.run != self.run]

    @cached_property
    def diagram(self) -> str:
        """SVG, which needs the style sheet of diagrams."""
        return svg_in_page(self.drawing)

    @property
    def drawing(self) -> Drawing:
        return drawing(self.engine.program.graph, self.state, status=self.status)

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
    last = (
        versions[-1].artifact for name, versions in page.steps.versions.items() if name not in given
    )
    return texts | {one.name: "\n".join(artifact_lines(one)) for one in last}


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


def html_report(page: RunPage) -> str:
    """A self-contained page: it has no script and fetches nothing."""
    style = asset("page.css")
    names = {"style": style, "style_hash": csp_hash(style), "diagram": page.diagram}
    return render("report.html", _names(page) | names)


def markdown_report(page: RunPage) -> str:
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


REPORTS: Mapping[str, Callable[[RunPage], str]] = {".html": html_report, ".md": markdown_report}
