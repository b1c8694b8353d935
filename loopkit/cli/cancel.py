"""`loopkit cancel`."""

from __future__ import annotations

import asyncio

import click

from loopkit.app import App, state_folder
from loopkit.cli import exit_codes


@click.command()
@click.argument("run")
@click.option("--reason", default="", help="Why; it is kept with the run.")
def command(run: str, reason: str) -> int:
    """End RUN for good; what it made stays."""
    with exit_codes.report_errors():
        told = asyncio.run(_cancel(run, reason))
    exit_codes.say(told)
    return exit_codes.OK


async def _cancel(run: str, reason: str) -> str:
    app = App.open(state_folder())
    try:
        return await app.cancel(run, reason)
    finally:
        await app.close()
