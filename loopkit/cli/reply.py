"""`loopkit reply`."""

from __future__ import annotations

from pathlib import Path

import click

from loopkit.app import App
from loopkit.cli.answer import give_and_drive, run_asking
from loopkit.cli.driving import driving_options
from loopkit.cli.examples import examples
from loopkit.cli.files import read_stdin, read_text
from loopkit.cli.stored_runs import run_argument
from loopkit.drive.inbox import DELIVERY, AnyAnswer
from loopkit.engine.events import Delivery

STDIN = "-"


@click.command(
    epilog=examples(
        "loopkit reply plan-1f09ab plan.md",
        "loopkit reply fix-77c0de --by alex",
    )
)
@run_argument()
@click.argument("file", required=False)
@click.option("--by", default="person", metavar="NAME", help="Who delivers, for the record.")
@click.option("--again", is_flag=True, help="Deliver the same as to the last request.")
@driving_options
def command(
    run: str,
    file: str | None,
    by: str,
    again: bool,
    output: str,
    notify: tuple[str, ...],
) -> int:
    """Deliver the artifact that RUN waits for, the text of FILE, and continue the run.

    `-` reads standard input. Without FILE, what lies in the workspace is delivered: so it is done
    where the artifact is a file or a folder. `loopkit runs show RUN` shows what is wanted.
    """

    async def give(app: App) -> list[tuple[str, AnyAnswer]]:
        delivery = Delivery(text=_text(file), by=by)
        return [(await run_asking(app, run, DELIVERY), delivery)]

    return give_and_drive(run, DELIVERY, give, (output, notify), again=again)


def _text(file: str | None) -> str | None:
    if file == STDIN:
        return read_stdin()
    return None if file is None else read_text(Path(file))
