"""Work with stored runs: the journal is opened for it where there is one, and closed behind it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from loopkit.cli.inputs import MACHINE, NAME, journal_place
from loopkit.cli.terminal import Stop, report_errors
from loopkit.drive.stored_runs import StoredRuns
from loopkit.journal.journal import open_journal
from loopkit.text.moments import moment_in, period_at
from loopkit.text.run_ids import root_of

if TYPE_CHECKING:
    from pathlib import Path

    from loopkit.app import App
    from loopkit.journal.journal import Journal

Result = TypeVar("Result")
OFFERED = 50
"""Ids that a shell is offered at most."""


def with_runs(work: Callable[[StoredRuns], Awaitable[Result]]) -> Result:
    """The result of work that reads stored runs; raises Stop for errors that a user can cause."""

    async def read() -> Result:
        journal = _open(journal_place(), readonly=True)
        try:
            return await work(StoredRuns(journal))
        finally:
            await journal.close()

    with report_errors():
        return asyncio.run(read())


def _open(place: Path | str, *, readonly: bool) -> Journal:
    """The journal there, where somebody has used it; a replica of a database is enough to read."""
    return open_journal(place, if_used=True, readonly=readonly and isinstance(place, str))


def with_app(
    work: Callable[[App], Awaitable[Result]], *, readonly: bool = False, makes_journal: bool = False
) -> Result:
    """The result of the work; raises Stop for errors that a user can cause."""
    from loopkit.app import App

    async def use_app() -> Result:
        place = journal_place()
        journal = open_journal(place) if makes_journal else _open(place, readonly=readonly)
        async with App.open(place, journal) as app:
            return await work(app)

    with report_errors():
        return asyncio.run(use_app())


async def has_driver(stored: StoredRuns, run: str) -> bool:
    """Whether a process has the run in hand; it holds that of a child with its root."""
    return any(row.is_driven for row in await stored.journal.runs(run=root_of(run)))


def run_argument(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The argument RUN: the id of a stored run, or as much of its beginning as no other run has."""
    return click.argument("run", callback=full_ids, shell_complete=complete_id, **options)


def full_ids(_: click.Context, __: click.Parameter, value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value and full_id(value)
    return tuple(map(full_id, value))


def full_id(beginning: str) -> str:
    return with_runs(lambda stored: stored.run_named(beginning))


def machine_or_run(named: str) -> Path | str:
    """A machine, by its path or name, or else the whole id of a run; raises Stop."""
    is_path = named == "-" or named.endswith((".yaml", ".yml")) or os.path.lexists(named)
    try:
        if is_path or NAME.fullmatch(named):
            machine: Path = MACHINE.convert(named, None, None)
            return machine
    except Stop:
        with suppress(Stop):
            return full_id(named)
        raise
    return full_id(named)


def complete_id(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    try:
        return with_runs(lambda stored: stored.journal.find_runs(incomplete, OFFERED))
    except Stop:
        # A shell that asks for words has no place for a message.
        return []


def past_moment(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    """The Unix time of a date, or so long ago."""
    if text is None:
        return None
    now = datetime.now().astimezone()
    age, end = period_at(text)
    if 0 < end == len(text):
        return now.timestamp() - age
    if (moment := moment_in(text, now)) is None or moment > now:
        raise click.BadParameter("give a past date such as 2026-11-01, or an age such as 30d")
    return moment.timestamp()
