"""The agent `command`: a program."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from loopkit.language.agents.agent import AgentBase, ErrorRule
from loopkit.language.noun import FROM_LIST, Argv, Noun, Text, Texts, Written


class JsonReply(Noun):
    """`reply: {json: PATH}`: the reply is one field of the JSON that the command prints."""

    json_: str = Field(alias="json")
    """The dotted path of the field."""


class CommandAgent(AgentBase):
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
    errors: Annotated[tuple[ErrorRule, ...], FROM_LIST] = ()
    """Which end of the program means which class of error; the first that fits counts."""
    price_per_run: Annotated[float, Field(ge=0)] | None = None
    """USD; what one run of the program costs at most."""

    kind = "command"
    works_on_files = True
    is_sent_turns = False
    if_in_doubt = "ask"
    example = {
        "command": ["sh", "-c", "cat"],
        "stdin": "{{ prompt }}",
        "price_per_run": 0,
    }

    @property
    def called(self) -> tuple[str, ...]:
        return self.command

    @property
    def call_usd(self) -> float | None:
        return self.price_per_run

    @property
    def goes_on(self) -> bool:
        return bool(self.resume)

    @property
    def error_rules(self) -> tuple[ErrorRule, ...]:
        return self.errors

    @property
    def templates(self) -> Written:
        yield from ((("command", index), text) for index, text in enumerate(self.command))
        if self.stdin is not None:
            yield ("stdin",), self.stdin
        yield from ((("resume", index), text) for index, text in enumerate(self.resume))
