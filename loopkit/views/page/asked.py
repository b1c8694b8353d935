"""The open question of a run as a form: what it is about, and everything that an answer can say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from loopkit.engine.events import Artifact, Choice, Waiting
from loopkit.engine.findings import Finding, Report
from loopkit.engine.macrostep import Engine
from loopkit.engine.reclassification import short_ids
from loopkit.engine.revisions import cap_of
from loopkit.engine.state import RunState
from loopkit.language.datatypes import DataType, described, parse_record
from loopkit.machine.edges import TOTAL
from loopkit.text import one_line
from loopkit.text.json_text import text_or_json
from loopkit.views.history import found_by, past, printed_lines, weight
from loopkit.views.page.changes import Difference, difference
from loopkit.views.review import came_here
from loopkit.views.version_diff import KeptVersion
from loopkit.views.versions import beside_attempt

OPENING = "; `--set limits.total_revisions="
"""Begins what the command line says of a closed choice; a page has a field for it."""
Control = Literal["choice", "bool", "number", "text", "json"]


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of a form, and how it is filled in."""

    name: str
    control: Control
    about: str
    """Its type in words, with its description."""
    values: tuple[str, ...]
    """Those to choose from."""
    value: str
    """What stands there before anybody fills it in."""
    is_required: bool
    minimum: float | None
    maximum: float | None
    is_whole: bool


def form_fields(form: DataType) -> list[FormField]:
    """The fields of a record, in its order."""
    return [_field(name, datatype) for name, datatype in (form.fields or {}).items()]


def _field(name: str, datatype: DataType) -> FormField:
    controls: dict[str | None, Control] = {
        "bool": "bool", "int": "number", "num": "number", "str": "text"
    }  # fmt: skip
    control: Control = "choice" if datatype.values else controls.get(datatype.scalar, "json")
    value = text_or_json(datatype.default) if datatype.has_default else ""
    return FormField(
        name=name,
        control=control,
        about=one_line(described(datatype), 300),
        values=datatype.values,
        value="" if datatype.default is None else value,
        is_required=datatype.required,
        minimum=datatype.minimum,
        maximum=datatype.maximum,
        is_whole=datatype.scalar == "int",
    )


@dataclass(frozen=True, slots=True)
class ShownArtifact:
    """An artifact beside the question, with what it changed."""

    name: str
    by: str
    text: str
    change: Difference | None
    is_edited_here: bool
    """Whether the answer may replace it."""


@dataclass(frozen=True, slots=True)
class ShownFinding:
    """A finding beside the question."""

    finding: Finding
    text: str
    past: str
    """What earlier attempts had of it; empty for a new one."""
    name: str
    """By which an answer may give it to another state."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The open question of a run."""

    run: str
    question: Waiting
    choices: Sequence[Choice]
    closed: Mapping[str, str]
    """By choice, why it is closed, without the words of the command line."""
    artifacts: Sequence[ShownArtifact]
    report: Report | None
    findings: Sequence[ShownFinding]
    way: Sequence[str]
    """How the run came here, in lines."""
    fields: Sequence[FormField]
    origins: Sequence[str]
    """The states to which a finding can be given; none where the machine has no origins."""
    least_total: int
    """The least total of revisions that opens a choice; 0 where that opens none."""


def asked(
    engine: Engine, run: RunState, versions: Mapping[str, Sequence[KeptVersion]]
) -> Asked | None:
    """What a run waits for a person to answer."""
    question = run.question
    if question is None or run.status != "waiting":
        return None
    shown, report = engine.questions.contents(run) if question.call is None else ({}, None)
    opens = any(OPENING in choice.closed for choice in question.choices)
    origins = engine.program.graph.origins
    return Asked(
        run=run.run,
        question=question,
        choices=question.choices,
        closed={choice.name: choice.closed.partition(OPENING)[0] for choice in question.choices},
        artifacts=list(_artifacts(shown, question, versions)),
        report=report,
        findings=list(_findings(run, report)),
        way=list(came_here(engine, run)),
        fields=form_fields(parse_record(question.form)),
        origins=origins.of_author(report.author) if origins and report and report.findings else (),
        least_total=cap_of(engine.program, run, TOTAL) + 1 if opens else 0,
    )


def _artifacts(
    shown: Mapping[str, Artifact],
    question: Waiting,
    versions: Mapping[str, Sequence[KeptVersion]],
) -> Iterator[ShownArtifact]:
    for name, artifact in shown.items():
        known = versions.get(name, ())
        number = next((each.number for each in known if each.artifact == artifact), 0)
        yield ShownArtifact(
            name=name,
            by=f"attempt {artifact.attempt} by {artifact.author}{beside_attempt(artifact.made)}",
            text="\n".join(printed_lines(artifact)) if artifact.is_data else artifact.text,
            change=difference(known, number) if number else None,
            is_edited_here=name == question.edit,
        )


def _findings(run: RunState, report: Report | None) -> Iterator[ShownFinding]:
    if report is None:
        return
    names = short_ids(report.findings)
    for finding in report.findings:
        text = f"{weight(finding)}{finding.message}{found_by(finding)}"
        yield ShownFinding(finding, text, past(finding, run, report), names[finding.id])
