"""Tools that a model agent may call while it writes, by the key of their kind, and MCP servers."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from loopkit.language.datatypes.datatype import DataType
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.section import (
    FUNCTION_PATTERN,
    Argv,
    Duration,
    Emission,
    Emit,
    Fields,
    Ids,
    Key,
    Noun,
    OnInDoubt,
    PlainText,
    PluginFolder,
    Spelled,
    Text,
    Variables,
    Written,
    fault,
    one_of,
    templates_of,
)


class ToolBase(Noun):
    """What every tool may say."""

    description: PlainText = ""
    """The description of the tool for the model."""

    kind: ClassVar[str]
    if_in_doubt: ClassVar[OnInDoubt] = "ask"
    """What becomes of a call that may have been made, where the tool says nothing."""

    validators: ClassVar[Key[Sequence[str]]] = Key("by", ())

    @property
    def templates(self) -> Written:
        yield from ()

    timeout_s: ClassVar[Key[float | None]] = Key("timeout", None)

    @property
    def emits(self) -> Emission | None:
        """The event that is stored for each draft that is rejected."""
        return Emission.of(getattr(self, "emit", None))

    @property
    def accepts(self) -> DataType | None:
        """The type of its arguments; none if the tool does not declare it."""
        declared = getattr(self, "input", None)
        return None if declared is None else parse_record(declared)


class ValidatorTool(ToolBase):
    """A tool that runs validators of the machine on a draft, as a validate state would."""

    by: Annotated[Ids, Field(min_length=1)]
    """The names of the validators."""
    emit: Emit | None = None
    """The name of an event to store for each draft in which something blocks."""
    attempt: bool = False
    """Whether a draft in which something blocks is the answer of this attempt."""

    kind = "by"
    if_in_doubt = "retry"


class StartedTool(ToolBase):
    """What every tool may say that something outside of loopkit runs."""

    timeout: Duration = 60.0
    """The time after which the program, the function or the server is ended. The model gets an
    error as the result."""
    on_in_doubt: OnInDoubt | None = None
    """The policy for a call in doubt, which may have been made before a crash. Default: `ask`."""


class ProgramTool(StartedTool):
    """What every tool may say that loopkit starts as a program."""

    input: Fields = {}
    """The fields that the model fills in, with their types."""
    env: Variables = ()
    """Environment variables to pass on, besides the harmless ones."""


class CommandTool(ProgramTool):
    """A tool that is a program, given as a list of arguments. No shell is involved."""

    command: Argv
    """The program and its arguments; each is a template that can use the fields of `input`."""
    stdin: Text | None = None
    """A template for the program's stdin. Default: no input."""

    kind = "command"

    @property
    def templates(self) -> Written:
        yield from templates_of("command", self.command, self.stdin)


ServerTool = Annotated[
    str,
    Spelled(
        r"^[a-z][a-z0-9_]*\.\S+$",
        "bad-server-tool",
        "does not name a tool of a server",
        "write SERVER.TOOL, such as `files.read_file`",
    ),
]
Digest = Annotated[
    str,
    Spelled(
        r"^sha256:[0-9a-f]{64}$",
        "bad-digest",
        "is not a digest",
        "copy the one that `loopkit mcp tools MACHINE` prints: `sha256:` and 64 digits",
    ),
]


class McpTool(StartedTool):
    """A tool of an MCP server."""

    mcp: ServerTool
    """`SERVER.TOOL`: the machine's name for the server, and the server's name for the tool."""
    digest: Digest | None = None
    """The digest of the name, description and schema that the tool must have. Any other tool is a
    fatal error."""

    kind = "mcp"

    @property
    def server(self) -> str:
        """The server, as the machine calls it."""
        return self.mcp.partition(".")[0]

    @property
    def its_name(self) -> str:
        """The tool, as the server calls it."""
        return self.mcp.partition(".")[2]


class PythonTool(ProgramTool):
    """A tool that is a Python function, run in a process of its own."""

    python: Annotated[
        str,
        Spelled(
            f"^{FUNCTION_PATTERN}$",
            "bad-plugin",
            "names no function",
            "write `package.module:function`, without `.py`",
            re.ASCII,
        ),
    ]
    """`package.module:function`, called with the fields of `input` and `with` as keyword
    arguments."""
    with_: dict[str, Any] = Field({}, alias="with")
    """Further arguments, as data, which the model does not see; not templates."""
    folder: PluginFolder = None
    """The folder to search first for modules, relative to the machine file. Default: the machine
    file's own folder."""

    kind = "python"

    @model_validator(mode="after")
    def _says_each_argument_once(self) -> Self:
        for name in (
            self.with_.keys() & parse_record(self.input).schema.get("properties", {}).keys()
        ):
            message = f"`{name}` is an argument under `with` and under `input`"
            remedy = "keep the one whose value you mean: the machine's, or the model's"
            raise fault("given-twice", message, ("with", name), help=remedy)
        return self


TOOL_NOUNS: tuple[type[ToolBase], ...] = (ValidatorTool, CommandTool, McpTool, PythonTool)
"""Every kind of tool: the one table of them."""
TOOL_KINDS = {noun.kind: noun for noun in TOOL_NOUNS}


if TYPE_CHECKING:
    Tool = ValidatorTool | CommandTool | McpTool | PythonTool
else:
    Tool = one_of(TOOL_NOUNS, unknown=("unknown-tool", "this is not a tool"))

VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}", re.ASCII)
"""How a header names a variable of the environment."""


class McpServer(Noun):
    """An MCP server, given by a `command` or a `url`."""

    command: Argv | None = None
    """The program and its arguments; not templates."""
    env: Variables = ()
    """Environment variables to pass on, besides the harmless ones."""
    url: str | None = None
    """The address of the server, which is reached over streamable HTTP."""
    headers: dict[str, str] = {}
    """The headers to send with each request; `${NAME}` is an environment variable."""
    timeout: Duration = 30.0
    """The time limit for connecting, and for listing the tools."""

    @model_validator(mode="after")
    def _is_one_of_two(self) -> Self:
        for key, other in (("env", "command"), ("headers", "url")):
            if getattr(self, key) and getattr(self, other) is None:
                raise _bad(f"`{key}` belongs to a `{other}`", (key,))
        if (self.command is None) == (self.url is None):
            raise _bad("a server has either a `command` or a `url`", ())
        if self.url is not None and not re.match(r"https?://[^/]", self.url):
            raise _bad(f"`{self.url}` is no address of a server", ("url",))
        return self

    @property
    def variables(self) -> Iterator[str]:
        """The variables that its headers name, which hold secrets whatever they are called."""
        for value in self.headers.values():
            yield from VARIABLE.findall(value)

    def headers_with(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The headers with the values of their variables; raises KeyError if one is missing."""
        return {
            name: VARIABLE.sub(lambda named: environment[named[1]], value)
            for name, value in self.headers.items()
        }


def _bad(message: str, path: tuple[str, ...]) -> Exception:
    remedy = "write `{command: [PROGRAM, …], env: [NAME]}` or `{url: https://…, headers: {…}}`"
    return fault("bad-server", message, path, help=remedy)
