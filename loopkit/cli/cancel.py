"""`loopkit cancel`."""

from __future__ import annotations

import click

from loopkit.cli.examples import examples
from loopkit.cli.exit_codes import OK, say
from loopkit.cli.stored_runs import run_argument, with_app


@click.command(epilog=examples('loopkit cancel plan-1f09ab --reason "The issue is closed."'))
@run_argument()
@click.option("--reason", default="", help="The reason, stored with the run.")
def command(run: str, reason: str) -> int:
    """Cancel RUN permanently. Its events and artifacts are kept."""
    say(with_app(lambda app: app.cancel(run, reason)))
    return OK
