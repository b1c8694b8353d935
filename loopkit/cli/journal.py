"""`loopkit journal`: what is done to a journal as a whole."""

from __future__ import annotations

import click

from loopkit.cli.place import journal_place
from loopkit.cli.terminal import OK, USAGE, Stop, echo, examples, report_errors


@click.group()
def journal_command() -> None:
    """Make and change the tables of a journal in PostgreSQL."""


@journal_command.command("migrate", epilog=examples("loopkit journal migrate"))
def migrate_command() -> int:
    """Make the tables of the journal, or change them to those of this version.

    Its role has to own the schema, or may create it. Runs may go on meanwhile.
    """
    place = journal_place()
    if not isinstance(place, str):
        raise Stop(
            USAGE,
            "error: a state folder makes its tables by itself; name a journal in PostgreSQL by "
            "`--journal` or `LOOPKIT_JOURNAL`",
        )
    with report_errors():
        from loopkit.journal.journal import migrate

        where, before, after = migrate(place)
    echo(
        f"{where} has the tables of version {after} already"
        if before == after
        else f"{where} has the tables of version {after} now"
    )
    return OK
