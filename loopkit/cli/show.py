"""`loopkit report`, `loopkit runs show` and `loopkit runs rm`: one run, shown or removed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import click

from loopkit.app import App
from loopkit.cli import terminal
from loopkit.cli.inputs import PATH, write
from loopkit.cli.stored_runs import run_argument, with_app
from loopkit.cli.terminal import echo_wrapped, examples
from loopkit.drive.stored_runs import open_children
from loopkit.engine.events import Intended
from loopkit.engine.macrostep import Engine
from loopkit.engine.state import RunState
from loopkit.journal.errors import JournalError
from loopkit.text.run_ids import is_child, root_of
from loopkit.views.hints import hints_for, waiting_hints
from loopkit.views.plan.planned import fresh_session_lines, prompt_lines
from loopkit.views.review import option_lines, review
from loopkit.views.run_data import child_lines, rows_of, rows_to_show, summary


@click.command(
    epilog=examples(
        "loopkit report plan-1f09ab -o plan.html", "loopkit report plan-1f09ab -o plan.md"
    )
)
@run_argument()
@click.option(
    "-o", "out", type=PATH, required=True, metavar="FILE.html|FILE.md",
    help="The file to write; its ending says the format."
)  # fmt: skip
def report_command(run: str, out: Path) -> int:
    """Write RUN as a page: its path, its calls, every attempt, and what was found.

    The page needs no server, contains no script and fetches nothing.
    """
    from loopkit.views.page.run_page import REPORTS

    if out.suffix not in REPORTS:
        raise click.UsageError(f"`-o {out}`: the name has to end in {' or '.join(REPORTS)}")
    facts = with_app(lambda app: app.facts_of(run), readonly=True)
    write(out, REPORTS[out.suffix](facts).encode())
    return terminal.OK


@click.command(epilog=examples("loopkit runs rm plan-1f09ab plan-77c0de"))
@run_argument(nargs=-1, required=True)
def rm_command(run: tuple[str, ...]) -> int:
    """Remove runs, with those that they have begun, and their events from the journal.

    Files that a run made are kept. Cancel a run that is still being driven first.
    """

    async def remove(app: App) -> None:
        one_each = {one: await _open_calls_note(app, one) for one in run}
        await app.remove(*one_each)
        for one, left_open in one_each.items():
            terminal.say(f"run {one} is removed{left_open}")

    with_app(remove)
    return terminal.OK


async def _open_calls_note(app: App, run: str) -> str:
    calls = [call async for call in _open_calls(app, run)]
    asked = ", ".join(dict.fromkeys(f"`{call.agent}`" for call in calls if call.asks_agent))
    tools = ", ".join(dict.fromkeys(f"`{call.agent}`" for call in calls if call.role == "tool"))
    paid = f"; it had asked {asked} without an answer, and that call may have been paid for"
    unknown = f"; it had called {tools}, and nobody knows what came of it"
    return (paid if asked else "") + (unknown if tools else "")


async def _open_calls(app: App, run: str) -> AsyncIterator[Intended]:
    try:
        state = await app.state_of(run)
    except JournalError:
        return
    for call in (*state.open_calls.values(), *state.doubts.values()):
        yield call
    for child in open_children(state):
        async for call in _open_calls(app, child.started.child):
            yield call


@click.command(epilog=examples("loopkit runs show plan-1f09ab"))
@run_argument()
def show_command(run: str) -> int:
    """Show the status of RUN, the reason, and what to do next."""

    async def read(app: App) -> list[str]:
        state, rows = await app.state_of(run), await app.journal.runs(run=run)
        engine = app.engine(await app.machine_of(state), state.definition)
        is_driven = any(row.is_driven for row in rows)
        hints = await hints_for(app, state, app.clock.now())
        usage = await app.usage_of(state)
        items = engine.program.report_items
        told = summary(state, hints, usage, is_driven=is_driven, items=items)
        events = [stored.event for stored in await app.events(run)]
        return [
            *told,
            *fresh_session_lines(events),
            *prompt_lines(events),
            *_question_lines(engine, state),
            *await _family(app, state, is_driven),
        ]

    echo_wrapped(with_app(read, readonly=True))
    return terminal.OK


def _question_lines(engine: Engine, state: RunState) -> Iterator[str]:
    if state.question is not None and state.status == "waiting":
        yield f"\n{review(engine, state)}"
        has_origins = bool(engine.program.graph.origins) and state.question.wanted is None
        yield from option_lines(state.question, has_origins=has_origins)
        yield ""
        yield from waiting_hints(state.run, state.question)


async def _family(app: App, state: RunState, is_driven: bool) -> list[str]:
    lines: list[str] = []
    for name, rows in rows_of(state):
        known = {
            row.run: await app.state_of(row.run)
            for row in rows_to_show(rows)
            if row.run and not row.outcome and await app.journal.has(row.run)
        }
        lines += child_lines(state, name, rows, known, is_driven)
    if is_child(state.run):
        lines.append(f"part of: loopkit runs show {root_of(state.run)}")
    return lines
