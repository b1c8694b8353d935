"""Scripts: replies and faults of agents, results of commands, answers of people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from loopkit.language.noun import FROM_LIST, Duration, Id, Ids, Noun, Text, Texts, fault

Fault = Literal[
    "rate_limit",
    "timeout",
    "server_error",
    "connection",
    "unreadable",
    "authentication",
    "quota",
    "missing_model",
    "region_outage",
    "context_too_long",
    "content_policy",
    "bad_request",
    "capped",
    "refusal",
    "cut_off",
    "invalid_json",
    "crash",
]
CRASH = "crash"
"""The fault after which the run goes on in another process, with the call in doubt."""


class SpentTokens(Noun):
    """Tokens that a played reply counts as."""

    input: int = Field(0, ge=0)
    """Tokens of input."""
    output: int = Field(0, ge=0)
    """Tokens of output."""
    total: int = Field(0, ge=0)
    """Tokens of which it is not known whether they went in or out."""

    @property
    def tokens(self) -> int:
        """The sum of all tokens."""
        return self.input + self.output + self.total

    @property
    def is_counted(self) -> bool:
        """Whether each token is known to be input or output."""
        return bool(self.input or self.output) and not self.total


Cost = Annotated[float, Field(ge=0, strict=False)]


class Reserved(Noun):
    """What a call can take at most, as limits see it before the call."""

    tokens: int = Field(0, ge=0)
    """Tokens in and out."""
    cost_usd: Cost | None = 0.0
    """USD; null where it is not known."""


class Unwritten(Noun):
    """Something that is said or done in a case, and that may still have to be written."""

    todo: str = ""
    """What is still to be written here, for a person; a case with that is not played."""


class PlayedFolder(Noun):
    """What stands for the output folder after a call."""

    change: str = ""
    """The difference to what was there before the first attempt, which is the artifact."""
    last_change: str = ""
    """What this attempt changed."""
    files: Texts = ()
    """The paths of the files that differ."""
    tree: str = ""
    """Equal where the contents are; without it a digest of the difference."""


class PlayedToolCall(Noun):
    """A call of a tool."""

    name: str
    """The tool, which need not exist."""
    input: Any = {}
    """What it is called with."""
    arguments: Text | None = None
    """The same as a text, which need not be JSON."""

    @property
    def text(self) -> str:
        """The arguments as a model writes them."""
        written = json.dumps(self.input, ensure_ascii=False)
        return written if self.arguments is None else self.arguments


class Played(Unwritten):
    """One call: a reply, or a fault."""

    reply: Text | None = None
    """What the agent says."""
    data: Any = None
    """The reply is this, as JSON."""
    files: dict[str, str] = {}
    """Files that the agent writes into its workspace."""
    workspace: str = ""
    """What stands for all files of its workspace after that; without it they are looked at."""
    folder: PlayedFolder | None = None
    """What stands for its output folder after that; without it the folder is looked at."""
    cut_off: bool = False
    """The reply ends where the provider's limit cut it."""
    fault: Fault | None = None
    """What goes wrong instead of a reply."""
    message: str = ""
    """What the provider says about the fault."""
    retry_after: Duration | None = None
    """The wait that the provider asks for with the fault."""
    delay: Duration = 0.0
    """The reply takes so long."""
    usage: SpentTokens = SpentTokens()
    """Tokens that the call counts as."""
    cost_usd: Cost | None = 0.0
    """USD that the call counts as; null where that is not known."""
    reserved: Reserved | None = None
    """What limits see before the call is made, instead of what it counts as."""
    said: Annotated[tuple[Text, ...], FROM_LIST] = ()
    """All messages of a judge's transcript, where they are more than the reply."""
    recorded: bool = False
    """A real judge said it: it has to answer for every open finding, as it had to then."""
    tool_calls: Annotated[tuple[PlayedToolCall, ...], FROM_LIST] = ()
    """Tools that the agent calls with it; its next call follows once it has what they gave."""
    tools: bool = True
    """Whether who answers can call tools; else loopkit calls the required one with the reply."""
    session: bool = True
    """Whether a program names a session to which it can be taken back."""

    @model_validator(mode="after")
    def _one_thing(self) -> Played:
        given = [k for k in ("reply", "data", "fault") if k in self.model_fields_set]
        is_other = bool(self.files or self.folder or self.todo or self.tool_calls) and not given
        if len(given) != 1 and not is_other and not self.is_refused:
            raise fault("one-reply", "a call plays one of `reply`, `data`, `fault`")
        return self

    @property
    def is_refused(self) -> bool:
        """Whether a limit leaves no room for the call, so that it is never made."""
        return self.model_fields_set == {"reserved"}

    @property
    def text(self) -> str:
        """The reply's text."""
        if "data" in self.model_fields_set:
            return json.dumps(self.data, ensure_ascii=False)
        return self.reply or ""


class PlayedTry(Unwritten):
    """One run of a command."""

    exit_code: int = 0
    """The exit code; 0 without one."""
    stdout: Text = ""
    """What the program prints."""
    stderr: str = ""
    """What the program prints on its other stream."""
    files: dict[str, str] = {}
    """Files that the program writes into its workspace."""
    workspace: str = ""
    """What stands for all files of its workspace after that; without it they are looked at."""
    folder: PlayedFolder | None = None
    """What stands for its output folder after that; without it the folder is looked at."""
    fault: Literal["timeout", "not_found"] | None = None
    """What goes wrong instead of an end."""
    message: str = ""
    """What is told about the fault."""


class PlayedCommand(PlayedTry):
    """One time that a command is needed."""

    earlier: Annotated[tuple[PlayedTry, ...], FROM_LIST] = ()
    """The tries before, of which nothing came; a list of tries says the same."""


class PlayedAnswer(Unwritten):
    """What the person answers."""

    choice: Id | None = None
    """One of the choices of the question; without it nobody answers."""
    after: Duration = 0.0
    """The time that passes before that; the question may be over by then."""
    comment: str = ""
    """What the person says about it."""
    form: dict[Id, Any] = {}
    """The fields that are filled in."""
    edit: Text | None = None
    """The new text of the artifact that the question lets the person edit."""
    origins: dict[str, Ids] = {}
    """For findings of the last report, by id, code or key: the states that have to mend them."""
    limits: dict[Id, int] = {}
    """Limits of the run that the answer raises."""

    @model_validator(mode="after")
    def _something_happens(self) -> PlayedAnswer:
        if self.choice is None and not self.after and not self.todo:
            raise fault(
                "no-answer",
                "an answer has a `choice`, or `after:` alone where nobody answers",
                help="add `choice: …`",
            )
        return self


def _calls(value: object) -> object:
    """One attempt as a tuple of calls, in whichever form it is written."""
    calls = value if isinstance(value, list) else [value]
    return tuple({"reply": call} if isinstance(call, str) else call for call in calls)


def _tries(value: object) -> object:
    """A list of tries as the last try, which contains the earlier ones."""
    if not isinstance(value, list) or not value or not isinstance(value[-1], dict):
        return value
    return {**value[-1], "earlier": value[:-1]}


def _answer(value: object) -> object:
    return {"choice": value} if isinstance(value, str) else value


Call = str | Played
Attempt = Annotated[
    tuple[Played, ...], BeforeValidator(_calls, json_schema_input_type=Call | list[Call])
]
"""The calls of one attempt: a reply, or a list of calls (faults, then a reply)."""
Attempts = Annotated[tuple[Attempt, ...], FROM_LIST]
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
    FROM_LIST,
]
Commands = Annotated[
    tuple[
        Annotated[
            PlayedCommand,
            BeforeValidator(_tries, json_schema_input_type=PlayedCommand | list[PlayedTry]),
        ],
        ...,
    ],
    FROM_LIST,
]


def call_at(calls: Sequence[Played], settled: int, lost: int) -> int:
    """The position in an attempt of the call after `settled` answers and failures.

    `lost` calls never came back: each stands for one played crash, and the call after it is next.
    """
    for position, played in enumerate(calls):
        if played.fault == CRASH and lost > 0:
            lost -= 1
        elif settled > 0 and played.fault != CRASH:
            settled -= 1
        else:
            return position
    return len(calls) + settled
