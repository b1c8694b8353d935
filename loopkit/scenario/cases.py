"""Scenario files: one script, or a machine with several cases, each with what it expects."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from loopkit.language.noun import FROM_LIST, Duration, Noun, fault
from loopkit.scenario.expecting import Expect
from loopkit.scenario.in_children import CHILDREN
from loopkit.scenario.parts import PARTS, ChildParts, Parts
from loopkit.scenario.script import Cost

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
    total_revisions: Annotated[int, Field(ge=0)] | None = None
    """The cap of all revise edges of a run together."""

    @property
    def named(self) -> dict[str, Any]:
        """The limits that are set, by name."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class Resume(Noun):
    """A resume of a suspended run."""

    after: Duration = 0.0
    """The time that passes before the resume."""
    limits: RunLimits = RunLimits()
    """The limits to raise."""


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
        """The scenario of a child."""
        found = self.child(state, key, visit)
        parts = found.said if found else ChildParts()
        played = {name: getattr(parts, name) for name in (*PARTS, CHILDREN)}
        return Scenario.model_construct(scenario=1, **played)
