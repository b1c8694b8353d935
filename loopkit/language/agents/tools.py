"""Tools: what a model agent may call while it writes, each known by the key of its kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Union

from pydantic import Discriminator, Field, Tag

from loopkit.language.agents.agent import OnInDoubt
from loopkit.language.datatypes import DataType, parse_record
from loopkit.language.emission import Emission, Emit
from loopkit.language.noun import Argv, Duration, Fields, Ids, Noun, Text, Texts, Written


class ToolBase(Noun):
    """What every tool may say."""

    description: Text = ""
    """What the model is told that it is for."""

    kind: ClassVar[str]
    """The key by which tools of this kind are known."""
    example: ClassVar[Mapping[str, Any]]
    """One for tests and readers."""
    if_in_doubt: ClassVar[OnInDoubt] = "ask"
    """What becomes of a call that may have been made, where the tool says nothing."""

    @property
    def validators(self) -> Sequence[str]:
        """Those of the machine that look at a draft."""
        return ()

    @property
    def templates(self) -> Written:
        """What is filled in for each call."""
        yield from ()

    @property
    def timeout_s(self) -> float | None:
        """Seconds after which a call of it is ended, where it says so."""
        return None

    @property
    def emits(self) -> Emission | None:
        """The event that is stored at each call that finds something."""
        return None

    @property
    def accepts(self) -> DataType | None:
        """What it is called with; none where the tool itself does not say it."""
        return None


class ValidatorTool(ToolBase):
    """Validators of the machine look at a draft, as they would in a validate state."""

    by: Annotated[Ids, Field(min_length=1)]
    """The validators, by name."""
    emit: Emit | None = None
    """An event of this name is stored at each call that finds something."""

    kind = "by"
    if_in_doubt = "retry"
    example = {"by": ["length"]}

    @property
    def validators(self) -> Sequence[str]:
        return self.by

    @property
    def emits(self) -> Emission | None:
        return Emission.of(self.emit)


class CommandTool(ToolBase):
    """A program: a list of arguments, no shell."""

    command: Argv
    """The program and its arguments; each is a template that sees the fields of `input`."""
    input: Fields = {}
    """The fields that the model fills in."""
    stdin: Text | None = None
    """A template; without it the program reads nothing."""
    env: Texts = ()
    """Environment variables that the program may see besides the harmless ones."""
    timeout: Duration = 60.0
    """After that the program is ended, and the model is told so."""
    on_in_doubt: OnInDoubt | None = None
    """After a crash, what becomes of a call that may or may not have been made."""

    kind = "command"
    example = {"command": ["grep", "{{ word }}"], "input": {"word": "str"}}

    @property
    def timeout_s(self) -> float:
        return self.timeout

    @property
    def templates(self) -> Written:
        yield from ((("command", index), text) for index, text in enumerate(self.command))
        if self.stdin is not None:
            yield ("stdin",), self.stdin

    @property
    def accepts(self) -> DataType:
        return parse_record(self.input)


TOOL_NOUNS: tuple[type[ToolBase], ...] = (ValidatorTool, CommandTool)
"""Every kind of tool: the one table of them."""
TOOL_KINDS = {noun.kind: noun for noun in TOOL_NOUNS}


def _tag(value: object) -> str | None:
    """The tag of the tool that a mapping or a tool object is."""
    if isinstance(value, ToolBase):
        return f"<{value.kind}>"
    keys = value if isinstance(value, dict) else ()
    return next((f"<{kind}>" for kind in TOOL_KINDS if kind in keys), None)


if TYPE_CHECKING:
    Tool = ValidatorTool | CommandTool
else:
    Tool = Annotated[
        Union[tuple(Annotated[noun, Tag(f"<{noun.kind}>")] for noun in TOOL_NOUNS)],  # noqa: UP007
        Discriminator(
            _tag,
            custom_error_type="unknown-tool",
            custom_error_message="this is not a tool",
        ),
    ]
