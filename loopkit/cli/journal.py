"""`loopkit journal`: what is done to a journal as a whole."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from loopkit.cli.inputs import PATH, journal_place, journal_url
from loopkit.cli.terminal import OK, echo, examples, misuse
from loopkit.journal.journal import postgres


@click.group()
def journal_command() -> None:
    """Make, change and fill a journal in PostgreSQL."""


def _url() -> str:
    place = journal_place()
    if not isinstance(place, str):
        raise misuse(
            "a state folder makes its tables by itself; name a journal in PostgreSQL by "
            "`--journal` or `LOOPKIT_JOURNAL`"
        )
    return place


@journal_command.command("migrate", epilog=examples("loopkit journal migrate"))
def migrate_command() -> int:
    """Make the tables of the journal, or change them to those of this version.

    Its role has to own the schema, or may create it. Runs may go on meanwhile.
    """
    url = _url()
    with postgres():
        from loopkit.journal.postgres.migration import migrate

        where, before, after = migrate(url)
    echo(
        f"{where} has the tables of version {after} already"
        if before == after
        else f"{where} has the tables of version {after} now"
    )
    return OK


@journal_command.command("restored", epilog=examples("loopkit journal restored"))
def restored_command() -> int:
    """Say that the journal was restored from a copy, before any process uses it again.

    It becomes one that nobody has known: followers begin anew, and no process that wrote to the
    lost one can write to it. Calls whose records the copy lacks are made again.
    """
    url = _url()
    with postgres():
        from loopkit.journal.postgres.migration import restored

        where = restored(url)
    echo(f"{where} can be used again")
    return OK


@journal_command.command(
    "copy", epilog=examples("loopkit journal copy .loopkit postgresql://db.example/runs")
)
@click.argument("source", type=PATH)
@click.argument("url")
def copy_command(source: Path, url: str) -> int:
    """Copy all runs of the state folder SOURCE to the journal at URL, where they go on.

    SOURCE stays as it is. A copy that was killed goes on when it is called again.
    """
    place = journal_url(url)
    with postgres():
        from loopkit.journal.postgres.migration import copy

        where, new, earlier = asyncio.run(copy(source, place))
    before = f" (and {earlier:,} by an earlier call)" if earlier else ""
    echo(f"runs copied to {where}: {new:,}{before}; go on with them there, not in {source}")
    return OK
