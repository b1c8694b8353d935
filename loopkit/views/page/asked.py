"""The open question of a run as a form, with its context and every field of an answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from loopkit.drive.answers import TOTAL_LIMIT
from loopkit.engine.events import Artifact, Choice, Waiting
from loopkit.engine.findings import Finding, Report
from loopkit.engine.macrostep import Engine
from loopkit.engine.revisions import cap_of
from loopkit.engine.state import RunState
from loopkit.language.datatypes import parse_record
from loopkit.machine.edges import TOTAL
from loopkit.text import one_line
from loopkit.views.hints import waiting_hints
from loopkit.views.history import artifact_lines, history_of, reviewers_of, weight
from loopkit.views.page.changes import Difference, difference
from loopkit.views.page.fields import FormField, form_fields
from loopkit.views.review import arrival_lines
from loopkit.views.version_diff import KeptVersion
from loopkit.views.versions import suffix_beside_attempt

OPENING = "; `--set limits.total_revisions="
"""The hint for the command line in the text of a closed choice; a page has a field for it."""
FORM, ORIGIN, LIMIT = "form.", "origin.", f"limit.{TOTAL_LIMIT}"
"""The prefixes of the fields of a form and of the findings, and the name of the limit's field."""


@dataclass(frozen=True, slots=True)
class ShownArtifact:
    """An artifact beside the question, with its changes."""

    name: str
    number: int
    """The number of the version in the run; 0 if unknown."""
    by: str
    text: str
    change: Difference | None


@dataclass(frozen=True, slots=True)
class ShownFinding:
    """A finding beside the question."""

    finding: Finding
    text: str
    past: str
    """Its history in earlier attempts; empty for a new one."""


@dataclass(frozen=True, slots=True)
class QuestionForm:
    """The open question of a run, or its request to an outside agent."""

    run: str
    question: Waiting
    choices: Sequence[Choice]
    closed: Mapping[str, str]
    """By choice: why it is closed, without the hint for the command line."""
    artifacts: Sequence[ShownArtifact]
    report: Report | None
    findings: Sequence[ShownFinding]
    way: Sequence[str]
    """How the run came here, in lines."""
    fields: Sequence[FormField]
    edited: str | None
    """The text that an answer may edit; None if the question offers none."""
    origins: Sequence[str]
    """The states to which a finding can be assigned; empty if the machine has no origins."""
    movable: Sequence[ShownFinding]
    """The findings that can be assigned to other states."""
    least_total: int
    """The least total of revisions that opens a closed choice; 0 if no total does."""
    lines: Sequence[str]
    """The commands that answer it."""

    @property
    def title(self) -> str:
        return "Open question" if self.question.wanted is None else "Wanted from outside"

    @property
    def words(self) -> Mapping[str, str]:
        """The labels of the fields on its page, except for those of the form."""
        edit, wanted = self.question.edit, self.question.wanted
        return {
            "choice": "Your answer",
            "comment": "Comment",
            "by": "Your name",
            "edit": f"Edit {edit}",
            "artifact": wanted.artifact if wanted is not None else "",
            LIMIT: "Total of revisions",
            **{f"{ORIGIN}{one.finding.id}": one_line(one.text) for one in self.movable},
        }

    @property
    def may_open(self) -> bool:
        """Whether other fields of the answer can open a closed choice."""
        return bool(self.origins or self.least_total)


def question_form(
    engine: Engine, run: RunState, versions: Mapping[str, Sequence[KeptVersion]]
) -> QuestionForm | None:
    """The form of the open question of a run; None if it has none."""
    question = run.question
    if question is None or run.status != "waiting":
        return None
    is_of_state = question.call is None and question.wanted is None
    shown, report = engine.questions.contents(run) if is_of_state else ({}, None)
    opens = any(OPENING in choice.closed for choice in question.choices)
    origins = _origins(engine, run) if is_of_state else ()
    return QuestionForm(
        run=run.run,
        question=question,
        choices=question.choices,
        closed={choice.name: choice.closed.partition(OPENING)[0] for choice in question.choices},
        artifacts=list(_artifacts(shown, versions)),
        report=report,
        findings=_findings(run, report),
        way=list(arrival_lines(engine, run)),
        fields=form_fields(parse_record(question.form)),
        edited=_text_to_edit(run, question.edit, shown) if question.edit is not None else None,
        origins=origins,
        movable=_findings(run, run.last_report) if origins else (),
        least_total=cap_of(engine.program, run, TOTAL) + 1 if opens else 0,
        lines=list(waiting_hints(run.run, question)),
    )


def _origins(engine: Engine, run: RunState) -> Sequence[str]:
    """The states to which an answer may assign the findings of the last report."""
    known, report = engine.program.graph.origins, run.last_report
    return known.of_author(report.author) if known and report and report.findings else ()


def _text_to_edit(run: RunState, name: str, shown: Mapping[str, Artifact]) -> str:
    artifact = shown.get(name) or run.artifacts.get(name)
    return "" if artifact is None else _text(artifact)


def _text(artifact: Artifact) -> str:
    return "\n".join(artifact_lines(artifact)) if artifact.is_data else artifact.text


def _artifacts(
    shown: Mapping[str, Artifact], versions: Mapping[str, Sequence[KeptVersion]]
) -> Iterator[ShownArtifact]:
    for name, artifact in shown.items():
        known = versions.get(name, ())
        number = next((each.number for each in known if each.artifact == artifact), 0)
        how = suffix_beside_attempt(artifact.made)
        yield ShownArtifact(
            name=name,
            number=number,
            by=f"attempt {artifact.attempt} by {artifact.author}{how}",
            text=_text(artifact),
            change=difference(known, number) if number else None,
        )


def _findings(run: RunState, report: Report | None) -> Sequence[ShownFinding]:
    if report is None:
        return ()
    return [
        ShownFinding(
            finding,
            f"{weight(finding)}{finding.message}{reviewers_of(finding)}",
            history_of(finding, run, report),
        )
        for finding in report.findings
    ]
