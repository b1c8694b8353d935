"""`loopkit answer`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from loopkit.app import App, state_folder
from loopkit.cli import exit_codes
from loopkit.cli.driving import drive, output_option
from loopkit.cli.inputs import given_inputs
from loopkit.drive.active import ActiveRun
from loopkit.engine.events import HumanAnswer
from loopkit.journal import RunBusy
from loopkit.language.datatypes import parse_record


@click.command()
@click.argument("run")
@click.argument("choice")
@click.option("--comment", default="", help="What should change, or why.")
@click.option("--form", multiple=True, metavar="K=V", help="A field of the form.")
@click.option("--edit", type=click.Path(path_type=Path), help="The edited artifact.")
@output_option
def command(
    run: str, choice: str, comment: str, form: tuple[str, ...], edit: Path | None, output: str
) -> int:
    """Answer the question that RUN waits for with CHOICE, and go on."""
    with exit_codes.report_errors():
        delivered = asyncio.run(_deliver(run, choice, comment, form, edit))
    if not delivered:
        exit_codes.say("the same answer was given before")
        with exit_codes.report_errors():
            if asyncio.run(_is_over(run)):
                return exit_codes.OK

    async def start(app: App) -> ActiveRun:
        return await app.resume(run)

    try:
        return drive(output, start)
    except exit_codes.Stop as stop:
        if isinstance(stop.__cause__, RunBusy):
            exit_codes.say(f"{stop.__cause__}; it takes the answer")
            return exit_codes.OK
        raise


async def _deliver(
    run: str, choice: str, comment: str, form: tuple[str, ...], edit: Path | None
) -> bool:
    """Check the answer against the open question and leave it in the inbox."""
    app = App.open(state_folder())
    try:
        fields = await _form_fields(app, run, form)
        edited = None if edit is None else _read_edit(edit)
        answer = HumanAnswer(choice=choice, comment=comment, form=fields, edit=edited)
        return await app.post_answer(run, answer)
    finally:
        await app.close()


async def _is_over(run: str) -> bool:
    app = App.open(state_folder())
    try:
        return await app.is_over(run)
    finally:
        await app.close()


async def _form_fields(app: App, run: str, form: tuple[str, ...]) -> dict[str, Any]:
    state = await app.state_of(run)
    machine = await app.machine_of(state)
    asked = machine.states.get(state.state)
    fields = parse_record((asked.asked_form if asked else None) or {})
    return given_inputs(fields, None, form, (), option="--form")


def _read_edit(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise exit_codes.Stop(
            exit_codes.USAGE, f"error: `{path}` can't be read: {reason}"
        ) from error
