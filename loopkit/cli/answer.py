"""`loopkit answer` and `reply`, which give a run what it waits for; `resume`; and `cancel`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import click

from loopkit.agents.players import AgentChanges
from loopkit.agents.port import NotRunnable
from loopkit.app import App
from loopkit.cli.driving import Driving, drive, driving_options
from loopkit.cli.inputs import PATH, Given, inputs_from_options, read_stdin, read_text
from loopkit.cli.machine import load_checked, max_cost_option, model_options
from loopkit.cli.person import beside_options, parse_limits, parse_origins
from loopkit.cli.stored_runs import run_argument, with_app
from loopkit.cli.terminal import OK, Stop, examples, misuse, say
from loopkit.drive.active import ActiveRun
from loopkit.drive.answers import AnsweredTwice, AnswerRefused
from loopkit.drive.inbox import ANSWER, DELIVERY, AnyAnswer, Kind
from loopkit.drive.repair import Mend
from loopkit.drive.stored_runs import note_of_change
from loopkit.engine.events import Worked
from loopkit.engine.payloads import Delivery, HumanAnswer
from loopkit.journal.errors import RunBusy
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.states.kinds import HumanState
from loopkit.text import plural
from loopkit.text.run_ids import resume_line, root_of
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
@click.option("--edit", type=PATH, help="A file with your version of the artifact.")
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
def answer_command(
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
    driving: Driving,
) -> int:
    """Answer the question that RUN is waiting on with CHOICE, and continue the run.

    `loopkit runs show RUN` shows the question and its choices. If RUN has begun other runs and one
    of them is waiting, the answer goes there.
    """
    if BLANK in (comment, *(field.partition("=")[2] for field in form)):
        raise misuse(f"`{BLANK}` stands for your own words: put them there")
    answer = HumanAnswer(
        choice=choice,
        comment=comment,
        edit=None if edit is None else read_text(edit),
        origins=parse_origins(origins),
        limits=parse_limits(sets),
        by=by,
    )

    async def give(app: App) -> list[tuple[str, AnyAnswer]]:
        if to_all:
            runs = await _runs_with_choice(app, run, choice)
        else:
            runs = [await run_asking(app, run, ANSWER)]
        forms = [await _form_fields(app, one, choice, form) for one in runs]
        return [(one, answer.replace(form=form)) for one, form in zip(runs, forms, strict=True)]

    return give_and_drive(run, ANSWER, give, driving, again=again, to_all=to_all)


async def _runs_with_choice(app: App, run: str, choice: str) -> list[str]:
    """All runs of a family that offer a choice; the run itself where nothing is asked."""
    asked = await app.questions(run, is_for_artifact=False)
    taken = [one for one in asked if choice in {c.name for c in one.question.choices}]
    if asked and not taken:
        raise AnswerRefused(f"no open question has a choice `{choice}`")
    if remaining := len(asked) - len(taken):
        say(f"still open: {plural(remaining, 'question')} without a choice `{choice}`")
    return [one.state.run for one in taken] or [run]


async def _form_fields(app: App, run: str, choice: str, form: tuple[str, ...]) -> dict[str, Any]:
    """The form, in the types of the open question, or of the last one that takes such an answer."""
    state = await app.state_of(run)
    machine = await app.machine_of(state)
    given = {written.partition("=")[0].strip().partition(".")[0] for written in form}
    events = [stored.event for stored in reversed(await app.events(run))] if form else []
    answered = [one.state for one in events if isinstance(one, Worked) and one.answer]
    states = [machine.states.get(name) for name in (state.state, *answered)]
    asked = [one for one in states if isinstance(one, HumanState)]
    fitting = [one for one in asked if choice in one.choices and given <= one.form.keys()]
    fields = next((one.form for one in (*fitting, *asked[:1])), {})
    return inputs_from_options(parse_record(fields), Given(sets=form), "--form")


def give_and_drive(
    run: str,
    kind: Kind,
    give: Callable[[App], Awaitable[Sequence[tuple[str, AnyAnswer]]]],
    driving: Driving,
    *,
    again: bool,
    to_all: bool = False,
) -> int:
    """Post what is given to runs, and continue the run; who drives it already takes the post."""
    root = root_of(run)

    async def start(app: App) -> ActiveRun:
        given: list[tuple[str, AnyAnswer, str | None]] = []
        for one, what in await give(app):
            asked = (await app.state_of(one)).question if again else None
            given.append((one, what, asked.question if asked else None))
        try:
            is_new = await app.post_all(given, to_all=to_all)
        except AnsweredTwice as twice:
            help_ = f"see `loopkit runs show {run}`, and add `--again` to {twice.again}"
            raise AnswerRefused(f"{twice}; {help_}") from twice
        if not is_new:
            say(f"the same {kind.name} was given before")
            if await app.is_over(root):
                raise Stop(OK)
        if await app.journal.is_submitted(root):
            raise Stop(OK, f"a worker goes on with {root}")
        try:
            return await app.resume(run)
        except RunBusy as busy:
            told = f"{busy}; it takes the {kind.name} after the step in hand"
            raise Stop(OK, told) from busy
        except NotRunnable as error:
            # Whoever gave the same, or drove the run already, may have come to its end meanwhile.
            if not await app.is_over(root):
                raise
            raise Stop(OK, f"run {root} has ended meanwhile") from error

    return drive(start, driving)


async def run_asking(app: App, run: str, kind: Kind) -> str:
    """The run that something of a kind is for: it, or the only child that waits for that."""
    asked = await app.questions(run, is_for_artifact=kind is DELIVERY)
    if len(asked) > 1:
        lines = "\n".join(question_hints(run, asked))
        raise AnswerRefused(f"`{run}` has {plural(len(asked), f'open {kind.noun}')}\n{lines}")
    return asked[0].state.run if asked else run


@click.command(epilog=examples('loopkit cancel plan-1f09ab --reason "The issue is closed."'))
@run_argument()
@click.option("--reason", default="", help="The reason, stored with the run.")
def cancel_command(run: str, reason: str) -> int:
    """Cancel RUN permanently. Its events and artifacts are kept."""
    say(with_app(lambda app: app.cancel(run, reason)))
    return OK


@click.command(
    epilog=examples("loopkit reply plan-1f09ab plan.md", "loopkit reply fix-77c0de --by alex")
)
@run_argument()
@click.argument("file", required=False)
@click.option("--by", default="person", metavar="NAME", help="Who delivers, for the record.")
@click.option("--again", is_flag=True, help="Deliver the same as to the last request.")
@driving_options
def reply_command(run: str, file: str | None, by: str, again: bool, driving: Driving) -> int:
    """Deliver the artifact that RUN waits for, the text of FILE, and continue the run.

    `-` reads standard input. Without FILE, what lies in the workspace is delivered: so it is done
    where the artifact is a file or a folder. `loopkit runs show RUN` shows what is wanted.
    """

    async def give(app: App) -> list[tuple[str, AnyAnswer]]:
        text = None
        if file is not None:
            text = read_stdin() if file == "-" else read_text(Path(file))
        return [(await run_asking(app, run, DELIVERY), Delivery(text=text, by=by))]

    return give_and_drive(run, DELIVERY, give, driving, again=again)


@click.command(
    epilog=examples(
        "loopkit resume plan-1f09ab", "loopkit resume plan-1f09ab --max-cost 5 --machine plan.yaml"
    )
)
@run_argument()
@click.option(
    "--machine",
    type=PATH,
    metavar="FILE",
    help="Continue with the current contents of this machine file.",
)
@model_options
@max_cost_option("The new cost limit of the whole run.")
@click.option(
    "--set", "sets", multiple=True, metavar="limits.K=V", help="Set a limit of the whole run."
)
@driving_options
def resume_command(
    run: str,
    machine: Path | None,
    changes: AgentChanges | None,
    max_cost: float | None,
    sets: tuple[str, ...],
    driving: Driving,
) -> int:
    """Continue RUN from exactly the state in which it stopped.

    Completed calls are not made again. An id can be shortened.
    """
    limits = parse_limits(sets) | ({} if max_cost is None else {"cost_usd": max_cost})
    loaded = None if machine is None else load_checked(machine)
    mend = Mend(loaded, changes or AgentChanges())

    async def start(app: App) -> ActiveRun:
        if machine is None and (changed := await app.machine_file_if_changed(run)) is not None:
            line = resume_line(run, "--machine", str(changed))
            say(f"note: {note_of_change(changed)}; to continue with the file: {line}")
        return await app.resume(run, limits, mend)

    return drive(start, driving)
