"""Agents: the authors and judges that a machine declares."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from loopkit.language.noun import (
    Argv,
    Duration,
    Noun,
    Schema,
    Text,
    Texts,
    _one_or_more,
    _tuple,
)

Session = Literal["keep", "fresh"]
OnInDoubt = Literal["retry", "ask", "fail"]
ErrorClassName = Literal["transient", "content", "fatal"]


class Retry(Noun):
    """How often one call is tried again after a transient error."""

    attempts: int = Field(5, ge=1, le=100)
    """Tries of one call in all, the first included."""
    backoff: Duration = 1.0
    """Wait before the second try; it doubles from try to try."""
    max_backoff: Duration = 60.0
    """The longest wait; a provider that asks for more suspends the run until then."""


class ErrorRule(Noun):
    """Which exit code or output of a command means which class of error."""

    exit: int | None = None
    """The exit code."""
    stderr: str | None = None
    """A regular expression searched in stderr."""
    stdout: str | None = None
    """A regular expression searched in stdout."""
    error_class: ErrorClassName = Field(alias="class")
    """What that means."""


class KeepTurns(Noun):
    """`session: {keep: N}`: one conversation, of which the last N turns are sent."""

    keep: int = Field(ge=1)
    """How many turns of the conversation are sent again."""


class Workspace(Noun):
    """The folder in which an agent or a command works."""

    path: str
    """A template; relative to the project folder, and inside it."""


class _AgentBase(Noun):
    description: str = ""
    """For readers."""
    schema_: Schema | None = Field(None, alias="schema")
    """The answer is JSON data of this shape instead of text."""
    infeasible: str | None = None
    """A bool field of the schema by which the author declares that it can't be done."""
    session: Annotated[
        Annotated[Session, Tag("<session>")] | Annotated[KeepTurns, Tag("<turns>")],
        Discriminator(lambda value: "<session>" if isinstance(value, str) else "<turns>"),
    ] = "fresh"
    """`keep`: one conversation over all revisions of a state; `fresh`: anew each time."""
    retry: Retry = Retry()
    """What follows a transient error."""
    timeout: Duration = 600.0
    """Wall-clock limit of one call."""
    workspace: Workspace | None = None
    """The folder in which it works."""
    on_in_doubt: OnInDoubt | None = None
    """After a crash, what becomes of a call that may or may not have been made."""


Usd = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Price(Noun):
    """What a million tokens cost, in USD."""

    input: Usd
    """USD for a million tokens of input."""
    output: Usd
    """USD for a million tokens of output."""
    cached: Usd | None = None
    """Input tokens that the provider had in its cache; without it they cost as much as others."""


class ModelAgent(_AgentBase):
    """An agent behind a LiteLLM model string."""

    model: Annotated[
        tuple[Annotated[str, Field(min_length=1)], ...],
        Field(min_length=1),
        BeforeValidator(_one_or_more, json_schema_input_type=str | list[str]),
    ]
    """One model, or a ladder of them; the last one stays."""
    climb: Literal["revision", "stall"] = "revision"
    """A rung up for each revision, or for each report without progress."""
    system: Text = ""
    """The system prompt, sent as it is written; no template."""
    params: dict[str, Any] = {}
    """Every option of the provider, such as `max_tokens` or `temperature`."""
    base_url: str | None = None
    """Where the provider is reached; default is the provider's own address."""
    api_key_env: str | None = None
    """The environment variable that holds the key; default is the provider's own."""
    price: (
        Annotated[
            Annotated[Usd, Tag("<number>")] | Annotated[Price, Tag("<price>")],
            Discriminator(
                lambda value: "<number>" if isinstance(value, int | float) else "<price>"
            ),
        ]
        | None
    ) = None
    """USD for a million tokens, in and out; 0 for a local model. Default is the list price."""
    structured: Literal["native", "text"] | None = None
    """How a `schema` is asked for: by the provider's own means, or in words.

    Default is native where the model is known to have it."""


class JsonReply(Noun):
    """`reply: {json: PATH}`: the reply is one field of the JSON that the command prints."""

    json_: str = Field(alias="json")
    """The dotted path of the field."""


class CommandAgent(_AgentBase):
    """An agent that is a program: a list of arguments, no shell."""

    command: Argv
    """The program and its arguments; each is a template."""
    stdin: Text | None = None
    """A template that sees `prompt`; without it the prompt is sent, unless an argument names it."""
    reply: Annotated[
        Annotated[Literal["text", "stream_json"], Tag("<kind>")]
        | Annotated[JsonReply, Tag("<json>")],
        Discriminator(lambda value: "<kind>" if isinstance(value, str) else "<json>"),
    ] = "text"
    """How what it prints is read."""
    resume: Texts = ()
    """Arguments that are added where a kept session has an id; they name `session`."""
    env: Texts = ()
    """Environment variables that the program may see besides the harmless ones."""
    errors: Annotated[tuple[ErrorRule, ...], BeforeValidator(_tuple)] = ()
    """Which end of the program means which class of error; the first that fits counts."""
    price_per_run: Annotated[float, Field(ge=0)] | None = None
    """USD; what one run of the program costs at most."""


def _agent_kind(value: object) -> str:
    keys = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    return "<command>" if "command" in keys and "model" not in keys else "<model>"


Agent = Annotated[
    Annotated[ModelAgent, Tag("<model>")] | Annotated[CommandAgent, Tag("<command>")],
    Discriminator(_agent_kind),
]
__all__ = [
    "Agent",
    "CommandAgent",
    "ErrorRule",
    "JsonReply",
    "KeepTurns",
    "ModelAgent",
    "Price",
    "Retry",
    "Workspace",
]
