"""`loopkit reply`."""

from __future__ import annotations

from pathlib import Path

import click

from loopkit.app import App
from loopkit.cli.driving import Posting, driving_options, post_and_drive
from loopkit.cli.examples import examples
from loopkit.cli.files import read_stdin, read_text
from loopkit.cli.stored_runs import run_argument
from loopkit.drive.answer_refused import AnswerRefused
from loopkit.engine.events import Delivery
from loopkit.text import plural
from loopkit.views.hints import question_hints

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

    async def deliver(app: App) -> bool:
        delivery = Delivery(text=_text(file), by=by)
        waiting = await _waiting(app, run)
        asked = (await app.state_of(waiting)).question if again else None
        return await app.reply(waiting, delivery, asked.question if asked else None)

    posting = Posting("the delivery", "deliver the same", "the same was delivered before")
    return post_and_drive(run, deliver, posting, output, notify)


def _text(file: str | None) -> str | None:
    if file == STDIN:
        return read_stdin()
    return None if file is None else read_text(Path(file))


async def _waiting(app: App, run: str) -> str:
    """The run to which it is delivered: it, or the only child that waits for an artifact."""
    asked = await app.questions(run, is_for_artifact=True)
    if len(asked) > 1:
        lines = "\n".join(question_hints(run, asked))
        raise AnswerRefused(f"`{run}` has {plural(len(asked), 'open request')}\n{lines}")
    return asked[0].state.run if asked else run
