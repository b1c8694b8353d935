"""`loopkit answer`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from loopkit.app import App
from loopkit.cli import exit_codes
from loopkit.cli.answer_words import beside_options, parse_origins
from loopkit.cli.driving import Posting, driving_options, post_and_drive
from loopkit.cli.examples import examples
from loopkit.cli.files import read_text
from loopkit.cli.inputs import inputs_from_options
from loopkit.cli.limits import parse_limits
from loopkit.cli.stored_runs import run_argument
from loopkit.drive.answer_refused import AnswerRefused
from loopkit.engine.events import HumanAnswer
from loopkit.language.datatypes import parse_record
from loopkit.text import plural
from loopkit.views.hints import BLANK, question_hints


@click.command(
    epilog=examples(
        'loopkit answer plan-1f09ab revise --comment "Name the files."',
        "loopkit answer plan-1f09ab send_back --origin 4e1c=planning",
    )
)
@run_argument()
@click.argument("choice")
@click.option("--comment", default="", help="What should change, or the reason.")
@click.option("--form", multiple=True, metavar="K=V", help="A field of the question's form.")
@click.option(
    "--edit", type=click.Path(path_type=Path), help="A file with your version of the artifact."
)
@beside_options
@click.option("--by", default="person", metavar="NAME", help="Who answers, for the record.")
@click.option("--again", is_flag=True, help="Give a new question the same answer as the last.")
@click.option(
    "--all",
    "to_all",
    is_flag=True,
    help="Answer every open question of RUN and of the runs that it has begun.",
)
@driving_options
def command(
    run: str,
    choice: str,
    comment: str,
    form: tuple[str, ...],
    edit: Path | None,
    origins: tuple[str, ...],
    sets: tuple[str, ...],
    by: str,
    again: bool,
    to_all: bool,
    output: str,
    notify: tuple[str, ...],
) -> int:
    """Answer the question that RUN is waiting on with CHOICE, and continue the run.

    `loopkit runs show RUN` shows the question and its choices. If RUN has begun other runs and one
    of them is waiting, the answer goes there.
    """

    async def deliver(app: App) -> bool:
        """Check the answer against the open questions and post it to their runs."""
        if BLANK in (comment, *(field.partition("=")[2] for field in form)):
            message = f"error: `{BLANK}` stands for your own words: put them there"
            raise exit_codes.Stop(exit_codes.USAGE, message)
        moved, limits = parse_origins(origins), parse_limits(sets)
        edited = None if edit is None else read_text(edit)
        given = []
        for one in await _waiting_runs(app, run, choice, to_all):
            fields = await _form_fields(app, one, form)
            answer = HumanAnswer(
                choice=choice,
                comment=comment,
                form=fields,
                edit=edited,
                origins=moved,
                limits=limits,
                by=by,
            )
            asked = (await app.state_of(one)).question if again else None
            given.append((one, answer, asked.question if asked else None))
        return await app.post_answers(given, to_all=to_all)

    posting = Posting("the answer", "answer the same", "the same answer was given before")
    return post_and_drive(run, deliver, posting, output, notify)


async def _waiting_runs(app: App, run: str, choice: str, to_all: bool) -> list[str]:
    """The runs whose questions are answered; the run itself where nothing is asked."""
    asked = await app.questions(run, is_for_artifact=False)
    if to_all and asked:
        taken = [one for one in asked if choice in {c.name for c in one.question.choices}]
        if not taken:
            raise AnswerRefused(f"no open question has a choice `{choice}`")
        if remaining := len(asked) - len(taken):
            exit_codes.say(
                f"still open: {plural(remaining, 'question')} without a choice `{choice}`"
            )
        return [one.state.run for one in taken]
    if len(asked) > 1:
        lines = "\n".join(question_hints(run, asked))
        raise AnswerRefused(f"`{run}` has {plural(len(asked), 'open question')}\n{lines}")
    return [asked[0].state.run if asked else run]


async def _form_fields(app: App, run: str, form: tuple[str, ...]) -> dict[str, Any]:
    state = await app.state_of(run)
    machine = await app.machine_of(state)
    asked = machine.states.get(state.state)
    fields = parse_record((asked.asked_form if asked else None) or {})
    return inputs_from_options(fields, None, form, (), option="--form")
