"""MCP servers: whose tools agents may call, each a program that is started or an address."""

import re
from collections.abc import Iterator, Mapping
from typing import Self

from pydantic import model_validator

from loopkit.language.noun import Argv, Duration, Noun, Texts, fault

VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}", re.ASCII)
"""How a header names a variable of the environment."""


class McpServer(Noun):
    """An MCP server, given by a `command` or a `url`."""

    command: Argv | None = None
    """The program and its arguments; not templates."""
    env: Texts = ()
    """Environment variables to pass on, besides the harmless ones."""
    url: str | None = None
    """The address of the server, which is reached over streamable HTTP."""
    headers: dict[str, str] = {}
    """The headers to send with each request; `${NAME}` is an environment variable."""
    timeout: Duration = 30.0
    """The time limit for connecting, and for listing the tools."""

    @model_validator(mode="after")
    def _is_one_of_two(self) -> Self:
        for key, value, other in (
            ("env", self.env, "command"),
            ("headers", self.headers, "url"),
        ):
            if value and getattr(self, other) is None:
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
    return fault(
        "bad-server",
        message,
        path,
        help="write `{command: [PROGRAM, …], env: [NAME]}` or `{url: https://…, headers: {…}}`",
    )
