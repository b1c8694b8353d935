"""Scenario files: prepared replies, faults, command results and human answers.

They play a machine without a model, a key, a network or a cent.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationError, model_validator

from loopkit.definition.noun import Duration, Id, Noun, Text, fault
from loopkit.load import digest_of, include
from loopkit.mistakes import explain
from loopkit.problems import ProblemsFound
from loopkit.source import read_file

Fault = Literal[
    "rate_limit",
    "timeout",
    "server_error",
    "connection",
    "authentication",
    "quota",
    "context_too_long",
    "content_policy",
]
INCLUDING = frozenset({"reply", "edit", "stdout"})


class SpentTokens(Noun):
    """Tokens that a played reply counts as."""

    input: int = Field(0, ge=0)
    output: int = Field(0, ge=0)


class Played(Noun):
    """One call: a reply, or a fault."""

    reply: Text | None = None
    data: Any = None
    """The reply is this, as JSON."""
    files: dict[str, str] = {}
    """Files that the agent writes into its workspace."""
    cut_off: bool = False
    """The reply ends where the provider's limit cut it."""
    fault: Fault | None = None
    message: str = ""
    retry_after: Duration | None = None
    delay: Duration = 0.0
    """The reply takes so long."""
    usage: SpentTokens = SpentTokens()
    cost_usd: Annotated[float, Field(ge=0, strict=False)] = 0.0

    @model_validator(mode="after")
    def _one_thing(self) -> Played:
        given = [k for k in ("reply", "data", "fault") if k in self.model_fields_set]
        if len(given) != 1 and not (self.files and not given):
            raise fault("one-reply", "a call plays one of `reply`, `data`, `fault`")
        return self

    @property
    def text(self) -> str:
        """The reply's text."""
        if "data" in self.model_fields_set:
            return json.dumps(self.data, ensure_ascii=False)
        return self.reply or ""


class PlayedCommand(Noun):
    """One run of a command."""

    exit_code: int = 0
    stdout: Text = ""
    stderr: str = ""
    files: dict[str, str] = {}
    fault: Literal["timeout", "not_found"] | None = None


class PlayedAnswer(Noun):
    """What the person answers."""

    choice: Id
    comment: str = ""
    form: dict[Id, Any] = {}
    edit: Text | None = None


def _calls(value: object) -> object:
    """One attempt as a tuple of calls, whichever way it is written."""
    calls = value if isinstance(value, list) else [value]
    return tuple({"reply": call} if isinstance(call, str) else call for call in calls)


def _answer(value: object) -> object:
    return {"choice": value} if isinstance(value, str) else value


def _tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


Call = str | Played
Attempt = Annotated[
    tuple[Played, ...], BeforeValidator(_calls, json_schema_input_type=Call | list[Call])
]
"""What one attempt plays: a reply, or a list of calls (faults, then a reply)."""
Attempts = Annotated[tuple[Attempt, ...], BeforeValidator(_tuple)]
Role = Annotated[
    Annotated[Attempts, Tag("<attempts>")] | Annotated[dict[str, Attempts], Tag("<places>")],
    Discriminator(lambda value: "<places>" if isinstance(value, dict) else "<attempts>"),
]
"""The attempts of an agent in order, or by the state or validator where it is asked."""
Answers = Annotated[
    tuple[
        Annotated[
            PlayedAnswer, BeforeValidator(_answer, json_schema_input_type=str | PlayedAnswer)
        ],
        ...,
    ],
    BeforeValidator(_tuple),
]
Commands = Annotated[tuple[PlayedCommand, ...], BeforeValidator(_tuple)]


class Scenario(Noun):
    """What everyone says, attempt by attempt."""

    scenario: Literal[1]
    """The version of the format."""
    description: str = ""
    agents: dict[Id, Role] = {}
    commands: dict[str, Commands] = {}
    """Results of `run` states and `command` validators, by the state's or validator's name."""
    answers: dict[Id, Answers] = {}
    """Answers of the person, by the state that asks."""


def load_scenario(path: Path) -> tuple[Scenario, str, str]:
    """The scenario of a file, its resolved JSON, and that JSON's digest; raises ProblemsFound."""
    document = read_file(path, shown_as=str(path))
    plain = document.plain()
    _, faults = include(plain, path.parent, document, INCLUDING)
    if faults:
        raise ProblemsFound(faults)
    try:
        Scenario.model_validate(plain)
    except ValidationError as error:
        raise ProblemsFound(list(explain(error, document, Scenario))) from error
    resolved = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    return read_resolved(resolved), resolved, digest_of(resolved)


def read_resolved(resolved: str) -> Scenario:
    """The scenario that a journal kept."""
    return Scenario.model_validate(json.loads(resolved))
