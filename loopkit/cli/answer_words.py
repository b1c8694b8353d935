"""The options of an answer, in the words of the command line and of the terminal."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any, NamedTuple, TypeVar

import click

from loopkit.cli.exit_codes import USAGE, Stop
from loopkit.cli.limits import parse_limits

Command = TypeVar("Command", bound=Callable[..., Any])
_OPTIONS = (
    click.option(
        "--origin",
        "origins",
        multiple=True,
        metavar="FINDING=STATE",
        help="The state that has to fix a finding of the last report.",
    ),
    click.option(
        "--set", "sets", multiple=True, metavar="limits.K=V", help="Raise the total of revisions."
    ),
)
_ASKED_NEXT = "type the choice alone: a comment and everything else are asked for next"


def beside_options(command: Command) -> Command:
    """The options of an answer that apply before its choice is made."""
    return reduce(lambda done, option: option(done), reversed(_OPTIONS), command)


class Words(NamedTuple):
    """The line that a person types at the prompt of a question, parsed."""

    choice: str
    origins: dict[str, tuple[str, ...]]
    limits: dict[str, Any]


def read_words(line: str) -> Words:
    """The choice and the options in a line; either may be missing. Raises Stop."""
    try:
        read = _words.make_context("answer", shlex.split(line)).params
    except ValueError as error:
        raise Stop(USAGE, f"that can't be read: {error}") from error
    except click.UsageError as error:
        raise Stop(USAGE, _misread(error)) from error
    return Words(read["choice"] or "", parse_origins(read["origins"]), parse_limits(read["sets"]))


def _misread(error: click.UsageError) -> str:
    """What is wrong with a line; of more than the choice and its options, where that belongs."""
    message = error.format_message()
    is_unknown = isinstance(error, click.NoSuchOption) and not error.possibilities
    if is_unknown or "unexpected extra argument" in message:
        return f"{message.rstrip('.')}; {_ASKED_NEXT}"
    return message


@click.command(add_help_option=False)
@click.argument("choice", required=False)
@beside_options
def _words(choice: str | None, origins: tuple[str, ...], sets: tuple[str, ...]) -> None:
    """The command that parses the line; it does nothing itself."""


def parse_origins(written: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The states that `--origin FINDING=STATE` names; a finding may have several."""
    origins: dict[str, tuple[str, ...]] = {}
    for each in written:
        finding, equals, state = each.rpartition("=")
        if not (equals and finding and state):
            raise Stop(USAGE, f"error: `--origin {each}`: write `--origin FINDING=STATE`")
        origins[finding] = (*origins.get(finding, ()), state)
    return origins
