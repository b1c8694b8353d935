"""`loopkit doctor`: what is here of all that runs need."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

from loopkit import __version__
from loopkit.agents.model.keys import ALL_VARIABLES
from loopkit.cli.inputs import MACHINE, Given, journal_place, read_inputs
from loopkit.cli.machine import folder_of, load_checked
from loopkit.cli.stored_runs import with_runs
from loopkit.cli.terminal import (
    OK,
    USAGE,
    Stop,
    columns_of,
    echo_wrapped,
    examples,
)
from loopkit.drive.preflight import Need, needs_of
from loopkit.outside.trees import NoGit, require_git
from loopkit.project import FILE, project

MOST_RUNS = 1000
LIBRARIES = ("litellm", "mcp", "starlette", "psycopg", "opentelemetry-sdk")


@click.command(epilog=examples("loopkit doctor", "loopkit doctor plan.yaml"))
@click.argument("machine", type=MACHINE, required=False)
def doctor_command(machine: Path | None) -> int:
    """Show what runs need and what of it is here: programs, keys, the state folder, the terminal.

    With MACHINE, what its runs need; the exit code is 2 if something of that is missing. Calls
    nothing, and never shows the text of a key.
    """
    needs = [] if machine is None else _needs(machine)
    echo_wrapped(_versions())
    echo_wrapped(_needs_text(needs) if machine is not None else _keys())
    echo_wrapped(_places())
    return USAGE if any(need.is_missing for need in needs) else OK


def _needs(machine: Path) -> list[Need]:
    loaded = load_checked(machine)
    inputs = read_inputs(loaded.machine, Given(), "defaults")
    return needs_of(loaded.machine, inputs=inputs, folder=folder_of(loaded, machine))


def _needs_text(needs: list[Need]) -> Iterator[str]:
    for need in needs:
        yield f"{'missing' if need.is_missing else 'note' if need.lack else 'ok'}: {need.line}"


def _versions() -> Iterator[str]:
    yield f"loopkit {__version__}, Python {platform.python_version()}, {platform.platform()}"
    for library in LIBRARIES:
        try:
            yield f"{library} {version(library)}"
        except PackageNotFoundError:
            yield f"{library} is not installed"
    try:
        yield require_git()
    except NoGit as error:
        yield str(error)


def _keys() -> Iterator[str]:
    known = {name: bool(os.environ.get(name)) for name in sorted(ALL_VARIABLES)}
    for word, is_set in (("set", True), ("not set", False)):
        yield f"keys {word}: {', '.join(n for n, one in known.items() if one is is_set) or 'none'}"


def _places() -> Iterator[str]:
    place = journal_place()
    if isinstance(place, Path):
        is_there = "" if place.is_dir() else ", made by the first run"
        if project().has_file:
            yield f"project file {project().folder / FILE}"
        yield f"state folder {place.absolute()}{is_there}"
    try:
        runs = with_runs(lambda stored: stored.journal.find_runs("", MOST_RUNS))
        more = " or more" if len(runs) == MOST_RUNS else ""
        yield f"journal: {len(runs)}{more} runs"
    except Stop as stop:
        yield f"journal: {stop}"
    for name, stream in (("standard output", sys.stdout), ("standard error", sys.stderr)):
        columns = columns_of(stream)
        kind = "no terminal" if columns is None else f"a terminal of {columns} columns"
        yield f"{name}: {kind}, {stream.encoding}" if stream is not None else f"{name}: closed"
