"""The agent `command`: a program."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from loopkit.language.agents.agent import CalledAgent
from loopkit.language.agents.calls import ErrorRule
from loopkit.language.noun import FROM_LIST, Argv, Noun, Text, Texts, Written


def _split_at_commas(value: object) -> object:
    return (
        tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value
    )


Tools = Annotated[Texts, BeforeValidator(_split_at_commas, json_schema_input_type=str | list[str])]
"""Names in a list, or in one text with commas, as coding programs write them."""


class JsonReply(Noun):
    """`reply: {json: PATH}`: the reply is one field of the JSON that the command prints."""

    json_: str = Field(alias="json")
    """The dotted path of the field."""


class CommandAgent(CalledAgent):
    """An agent that is a program, given as a list of arguments. No shell is involved."""

    command: Argv
    """The program and its arguments; each is a template."""
    stdin: Text | None = None
    """A template for the program's stdin; it can use `prompt`. Default: the prompt, unless an
    argument uses it."""
    reply: Annotated[
        Annotated[Literal["text", "stream_json"], Tag("<kind>")]
        | Annotated[JsonReply, Tag("<json>")],
        Discriminator(lambda value: "<kind>" if isinstance(value, str) else "<json>"),
    ] = "text"
    """How to read the reply from stdout."""
    system: Text = ""
    """The system prompt, which the program's templates can use as `{{ system }}`. Not a template
    itself."""
    tools: Tools = ()
    """The program's own tools that the agent may use; its templates can use `{{ agent.tools }}`."""
    resume: Texts = ()
    """Arguments to add when a kept session with a known id is continued; they use `session`."""
    env: Texts = ()
    """Environment variables to pass on, besides the harmless ones."""
    errors: Annotated[tuple[ErrorRule, ...], FROM_LIST] = ()
    """How exit codes and output map to classes of errors. The first match counts."""
    price_per_run: Annotated[float, Field(ge=0)] | None = None
    """The maximum cost of one run of the program, in USD."""

    kind = "command"
    front_matter = frozenset({"description", "tools"})
    is_sent_turns = False
    if_in_doubt = "ask"
    example = {
        "command": ["sh", "-c", "cat"],
        "stdin": "{{ prompt }}",
        "price_per_run": 0,
    }

    @property
    def works_on_files(self) -> bool:
        return True

    @property
    def called(self) -> tuple[str, ...]:
        return self.command

    @property
    def call_usd(self) -> float | None:
        return self.price_per_run

    @property
    def own_names(self) -> Mapping[str, object]:
        if self.file is None and not self.system and not self.tools:
            return {}
        return {"system": self.system, "agent": {"tools": list(self.tools)}}

    @property
    def plain_texts(self) -> Written:
        yield ("system",), self.system

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
