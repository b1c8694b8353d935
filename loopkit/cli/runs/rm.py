"""`loopkit runs rm`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import click

from loopkit.app import App
from loopkit.cli import exit_codes
from loopkit.cli.examples import examples
from loopkit.cli.stored_runs import run_argument, with_app
from loopkit.drive.stored_runs import open_children
from loopkit.engine.events import Intended
from loopkit.journal.errors import JournalError


@click.command(epilog=examples("loopkit runs rm plan-1f09ab plan-77c0de"))
@run_argument(nargs=-1, required=True)
def command(run: tuple[str, ...]) -> int:
    """Remove runs, with those that they have begun, and their events from the journal.

    Files that a run made are kept. Cancel a run that is still being driven first.
    """

    async def remove(app: App) -> None:
        one_each = {one: await _open_calls_note(app, one) for one in run}
        await app.remove(*one_each)
        for one, left_open in one_each.items():
            exit_codes.say(f"run {one} is removed{left_open}")

    with_app(remove)
    return exit_codes.OK


async def _open_calls_note(app: App, run: str) -> str:
    """A note on the run's open calls, whose results are lost once the run is removed."""
    calls = [call async for call in _open_calls(app, run)]
    asked = ", ".join(dict.fromkeys(f"`{call.agent}`" for call in calls if call.asks_agent))
    tools = ", ".join(dict.fromkeys(f"`{call.agent}`" for call in calls if call.role == "tool"))
    note = ""
    if asked:
        note += f"; it had asked {asked} without an answer, and that call may have been paid for"
    if tools:
        note += f"; it had called {tools}, and nobody knows what came of it"
    return note


async def _open_calls(app: App, run: str) -> AsyncIterator[Intended]:
    """The calls of a run and its children that have no answer."""
    try:
        state = await app.state_of(run)
    except JournalError:
        return
    for call in (*state.open_calls.values(), *state.doubts.values()):
        yield call
    for child in open_children(state):
        async for call in _open_calls(app, child.started.child):
            yield call
