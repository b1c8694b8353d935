"""Scenario files: one script, or a machine with several cases, each with what it expects.

A case is a script of its own, with its texts included.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)

from loopkit.document.problems import ProblemsFound, did_you_mean
from loopkit.document.reading import read_file
from loopkit.engine.findings import Status, Verdict
from loopkit.language.inclusion import Files, digest_of, include
from loopkit.language.load import Source, explain
from loopkit.language.section import FROM_LIST, Duration, Id, Noun, Text, fault
from loopkit.scenario.script import (
    CHILDREN,
    ITEMS,
    ONLY,
    PARTS,
    ChildParts,
    Cost,
    InChild,
    Parts,
    as_tuple,
    every_child,
    form_of,
    with_own,
)

SUFFIX = ".scenario.yaml"
NAME_PATTERN = r"^[^\s:\[\]/\\]+( [^\s:\[\]/\\]+)*$"
MAX_NAME = 100


def _name(text: str) -> str:
    # Not `re` with the published pattern: its cost would grow with what somebody pastes here.
    is_spaced = " ".join(text.split()) == text != ""
    if not is_spaced or set(text) & set(":[]/\\") or len(text) > MAX_NAME:
        raise fault(
            "bad-name",
            f"`{text[:MAX_NAME]}` can't be the name of a case",
            help=f"up to {MAX_NAME} characters, words with one space between, none of `: [ ] / \\`",
        )
    return text


CaseName = Annotated[str, AfterValidator(_name), Field(json_schema_extra={"pattern": NAME_PATTERN})]


class RunLimits(Noun):
    """Limits of a run, which replace those of the machine."""

    agent_calls: Annotated[int, Field(ge=0)] | None = None
    """The maximum number of calls to agents and judges."""
    tool_calls: Annotated[int, Field(ge=0)] | None = None
    """The maximum number of tool calls."""
    tokens: Annotated[int, Field(ge=0)] | None = None
    """The maximum number of input and output tokens together."""
    cost_usd: Cost | None = None
    """The maximum cost in USD."""
    time: Duration | None = None
    """The maximum working time, not counting waiting."""
    revisions: Annotated[int, Field(ge=0)] | None = None
    """How often each author may be revised."""
    total_revisions: Annotated[int, Field(ge=0)] | None = None
    """The cap of all revise edges of a run together."""

    @property
    def named(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.model_fields_set}


class Resume(Noun):
    """A resume of a suspended run."""

    after: Duration = 0.0
    """The time that passes before the resume."""
    limits: RunLimits = RunLimits()
    """The limits to raise."""


def _texts(value: object) -> object:
    value = [value] if isinstance(value, str) else value
    return tuple(value) if isinstance(value, list) else value


def _steps(value: object) -> object:
    if not isinstance(value, list):
        return value
    return tuple(GAP if isinstance(step, str) and step in GAPS else step for step in value)


Pieces = Annotated[tuple[str, ...], BeforeValidator(_texts, json_schema_input_type=str | list[str])]
"""One piece of text, or several."""
Steps = Annotated[tuple[str, ...], BeforeValidator(_steps)]
"""Names in order; `…` (also `...` or `"*"`) stands for anything between."""
Kind = TypeVar("Kind")
Several = Annotated[tuple[Kind, ...], Field(min_length=1), BeforeValidator(_texts)]
Position = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]


class ExpectedFinding(Noun):
    """Findings in reports. Each key narrows down which ones are meant."""

    state: Id | None = None
    """The validate state. Default: any."""
    attempt: Position | None = None
    """The author's attempt that was judged. Default: any."""
    message: Text | None = None
    """A text that occurs in the finding's message."""
    code: str | None = None
    """The code of the finding."""
    validator: str | None = None
    """The validator that reported it."""
    severity: Id | None = None
    """The severity of the finding."""
    status: Status | None = None
    """The status of the finding compared with earlier rounds."""
    origin: Id | None = None
    """A state that must fix it."""
    defaulted: bool | None = None
    """Whether its origin was set by default, because nobody named one."""
    count: Count | None = None
    """The exact number of such findings. Default: at least one."""


class _Quoting(Noun):
    contains: Pieces = ()
    """Texts that must occur in it."""
    lacks: Pieces = ()
    """Texts that must not occur in it."""

    @model_validator(mode="after")
    def _says_something(self) -> _Quoting:
        if not self.model_fields_set & {"contains", "lacks", "equals", "data"}:
            raise fault(
                "expects-nothing", "this expects nothing", help="add `contains: …` or `lacks: …`"
            )
        return self


class ExpectedFeedback(_Quoting):
    """Feedback that a state must receive when it has to work again."""

    to: Id | None = None
    """The state that receives it. Default: any state."""
    attempt: Position | None = None
    """The attempt that receives it; the first revision is attempt 2. Default: any attempt."""


class ExpectedPrompt(_Quoting):
    """The last message of a call to an agent."""

    agent: Id | None = None
    """The agent. Default: any."""
    state: Id | None = None
    """The state in which the agent is asked. Default: any."""
    validator: str | None = None
    """The validator for which a judge is asked. Default: any."""
    attempt: Position | None = None
    """The attempt of the state or, for a judge, of the author that it judges. Default: any."""
    call: Position = 1
    """The number of the call in the attempt; retries and re-asks follow the first."""


class ExpectedArtifact(_Quoting):
    """The conditions that the last version of an artifact must meet."""

    equals: Text | None = None
    """The whole text. Trailing spaces and surrounding blank lines are ignored."""
    data: Any = None
    """The whole value, if the artifact is data."""


Verdicts = Annotated[
    tuple[Literal[Verdict, "…", "...", "*"], ...], Field(min_length=1), BeforeValidator(_steps)
]
Numbers = Annotated[dict[str, Count], Field(min_length=1)]


class Expect(Noun):
    """The conditions that the run of a case must meet."""

    outcome: Id | None = None
    """The final state, `waiting`, or `suspended`."""
    reason: Literal["limit", "transient", "content", "fatal", "waiting"] | None = None
    """The reason why the run is suspended."""
    says: Pieces = ()
    """Texts that must occur in the open question, or in the reason why the run is suspended."""
    path: Annotated[tuple[str, ...], Field(min_length=1), BeforeValidator(_steps)] | None = None
    """The states, in the order in which they are entered."""
    kept: Steps | None = None
    """The states that keep the artifact of their last work, in order."""
    verdicts: Annotated[dict[Id, Verdicts], Field(min_length=1)] | None = None
    """The verdicts of each validate state, in order."""
    findings: Several[ExpectedFinding] | None = None
    """The findings that reports must have."""
    feedback: Several[ExpectedFeedback] | None = None
    """The feedback that states must receive when they have to work again."""
    prompts: Several[ExpectedPrompt] | None = None
    """The prompts that agents must receive."""
    revisions: Numbers | None = None
    """The number of revisions used, by the state that is revised or by edge."""
    calls: Numbers | None = None
    """The number of calls to each agent, including retries and re-asks, or of each tool
    (`AGENT.TOOL`)."""
    calls_at_most: Numbers | None = None
    """The maximum number of calls to each agent or tool."""
    cost_usd_at_most: Annotated[float, Field(ge=0, strict=False)] | None = None
    """The maximum cost of the whole run, in USD."""
    events: Steps | None = None
    """The names of the events that `emit:` stores, in order."""
    artifacts: Annotated[dict[Id, ExpectedArtifact], Field(min_length=1)] | None = None
    """The artifacts at the end of the run."""
    children: dict[Id, ExpectedChildren] | None = None
    """The same conditions for the runs that a state starts, by the keys of their items."""

    @model_validator(mode="after")
    def _belongs_together(self) -> Expect:
        if self.reason is not None and self.outcome not in (None, SUSPENDED):
            raise fault(
                "reason-without-suspension",
                f"`reason` tells why a run is suspended, and `{self.outcome}` is expected",
                ("reason",),
                help=f"delete it, or expect `outcome: {SUSPENDED}`",
            )
        return self

    @property
    def in_children(self) -> Iterator[InChild[Expect]]:
        return every_child(self.children or {})


class Case(Parts):
    """One run of the machine with scripted agents, commands and people, and the expected
    results."""

    description: str = ""
    """A note for readers; has no effect."""
    input: dict[str, Any] = {}
    """The inputs of the run. Each overrides the input that all cases share."""
    limits: RunLimits = RunLimits()
    """The limits of the run, instead of the machine's."""
    resumes: Annotated[tuple[Resume, ...], FROM_LIST] = ()
    """The resumes of the run, in order, one for each suspension."""
    expect: Expect | None = None
    """The conditions that the run must meet. A case without any fails."""


class Scenario(Parts):
    """Scripted agents, commands and people; with `cases`, the parts that all cases share."""

    model_config = ConfigDict(
        json_schema_extra={
            "dependencies": {"cases": ["machine"], "machine": ["cases"], "input": ["cases"]}
        }
    )

    scenario: Literal[1]
    """The version of the format."""
    description: str = ""
    """A note for readers; has no effect."""
    machine: str | None = None
    """The machine file that the cases test, relative to the scenario's folder."""
    input: dict[str, Any] = {}
    """The inputs that all cases share."""
    cases: Annotated[dict[CaseName, Case], Field(min_length=1)] | None = None
    """The cases, by name."""

    @model_validator(mode="after")
    def _cases_have_a_machine(self) -> Scenario:
        if self.cases is not None and self.machine is None:
            raise fault(
                "no-machine",
                "the cases do not say which machine they test",
                ("cases",),
                help="add `machine: FILE`, relative to the folder of this file",
            )
        alone = [key for key in ("machine", "input") if key in self.model_fields_set]
        if self.cases is None and alone:
            raise fault(
                "no-cases",
                f"`{alone[0]}` belongs to a scenario with `cases`",
                (alone[0],),
                help="add `cases:`, or delete it",
            )
        return self

    def of_child(self, state: str, key: str, visit: int) -> Scenario:
        found = self.child(state, key, visit)
        parts = found.said if found else ChildParts()
        played = {name: getattr(parts, name) for name in (*PARTS, CHILDREN)}
        return Scenario.model_construct(scenario=1, **played)


GAP = "…"
"""In a list: any number of items between the one before it and the one after it."""
GAPS = frozenset({GAP, "...", "*"})
WAITING, SUSPENDED = "waiting", "suspended"


ExpectedVisits = Annotated[
    tuple[Expect, ...],
    Field(min_length=1),
    BeforeValidator(as_tuple, json_schema_input_type=Expect | list[Expect]),
]
"""What has to be true of a child on each visit of its state; the last one counts from then on."""
ExpectedChildren = Annotated[
    Annotated[ExpectedVisits, Tag(ONLY)]
    | Annotated[Annotated[dict[str, ExpectedVisits], Field(min_length=1)], Tag(ITEMS)],
    Discriminator(lambda value: form_of(value, frozenset(Expect.model_fields))),
]
"""Expectations of the only child of a state, or of its items by their keys."""
Expect.model_rebuild()

INCLUDING = frozenset({"reply", "edit", "stdout", "equals"})


@dataclass(frozen=True)
class LoadedScenario:
    """A scenario file with the place of each of its values."""

    scenario: Scenario
    source: Source
    folder: Path
    plain: dict[str, Any]
    """Its values with all texts included."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.scenario.cases or ())

    def script_json(self, case: str | None) -> str:
        """The script of a case, or of a scenario without cases, as JSON."""
        if case is None:
            return _json(self.plain)
        own = self.plain["cases"][case]
        parts = {part: {**self.plain.get(part, {}), **own.get(part, {})} for part in PARTS}
        children = with_own(self.plain.get(CHILDREN, {}), own.get(CHILDREN, {}))
        return _json({"scenario": 1, **parts, **({CHILDREN: children} if children else {})})


def cases_of(path: Path) -> Path:
    """The scenario file beside a machine file; the path itself where there is none."""
    beside = path.parent / f"{path.stem}{SUFFIX}"
    return beside if path.is_file() and beside.is_file() else path


def load_file(path: Path) -> LoadedScenario:
    document = read_file(path, shown_as=str(path))
    plain = document.plain()
    if "loopkit" in plain and "scenario" not in plain:
        message = "this is a machine, not a scenario"
        remedy = "name a scenario of it; `loopkit run MACHINE --record FILE` writes one"
        source, at = Source(document), ("loopkit",)
        raise ProblemsFound([source.problem(at, "missing-field", message, help=remedy, key=True)])
    files = Files(document, path.parent)
    include(plain, files, INCLUDING)
    if files.faults:
        raise ProblemsFound(files.faults)
    try:
        scenario = Scenario.model_validate(plain)
    except ValidationError as error:
        raise ProblemsFound(list(explain(error, document, Scenario))) from error
    return LoadedScenario(scenario, Source(document, files.included), path.parent, plain)


def load_scenario(path: Path, case: str | None = None) -> tuple[Scenario, str, str]:
    """The script of a file, or of one of its cases: itself, its JSON, and that JSON's digest.

    Without a name it is the only case. Raises ProblemsFound.
    """
    loaded = load_file(path)
    case = _case_of(loaded, case)
    script = loaded.script_json(case)
    return read_resolved(script), script, digest_of(script)


def _case_of(loaded: LoadedScenario, case: str | None) -> str | None:
    names = loaded.names
    if case is None and len(names) < 2:
        return names[0] if names else None
    if case in names:
        return case
    message, remedy = "the scenario has several cases", f"name one: `--case '{names[0]}'`"
    if case is not None:
        message = f"there is no case `{case}`"
        remedy = did_you_mean(case, names) or "this scenario has none: leave it out"
    raise ProblemsFound([loaded.source.problem(("cases",), "unknown-case", message, help=remedy)])


def read_resolved(script: str) -> Scenario:
    return Scenario.model_validate(json.loads(script))


def _json(plain: dict[str, Any]) -> str:
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
