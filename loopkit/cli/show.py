"""`loopkit report`, `loopkit runs show` and `loopkit runs rm`: one run, shown or removed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import click

from loopkit.app import App
from loopkit.cli import terminal
from loopkit.cli.inputs import PATH, write
from loopkit.cli.stored_runs import past_moment, run_argument, with_app, with_runs
from loopkit.cli.terminal import echo_wrapped, examples, misuse
from loopkit.drive.stored_runs import open_children
from loopkit.engine.events import Intended
from loopkit.journal.errors import JournalError, RunUnreadable
from loopkit.views.hints import waiting_hints
from loopkit.views.review import option_lines, review
from loopkit.views.run_data import call_title
from loopkit.views.run_text import MOST_OF_TEXT, call_lines, child_lines, summary
from loopkit.views.run_view import RunView, RunViews


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
    from loopkit.views.page.run_page import REPORTS, RunPage

    if out.suffix not in REPORTS:
        raise click.UsageError(f"`-o {out}`: the name has to end in {' or '.join(REPORTS)}")
    page = with_runs(lambda stored: RunViews(stored, RunPage).view(run))
    write(out, REPORTS[out.suffix](page).encode())
    return terminal.OK


@click.command(
    epilog=examples("loopkit runs rm plan-1f09ab plan-77c0de", "loopkit runs rm --ended-before 30d")
)
@run_argument(nargs=-1)
@click.option(
    "--ended-before", callback=past_moment, metavar="DATE|AGE",
    help="Remove all runs that ended before a date, or so long ago."
)  # fmt: skip
def rm_command(run: tuple[str, ...], ended_before: float | None) -> int:
    """Remove runs, with those that they have begun, and their events from the journal.

    Files that a run made are kept. Cancel a run that is still being driven first.
    """
    if bool(run) == (ended_before is not None):
        raise click.UsageError("name runs, or those that ended before a time by `--ended-before`")

    async def remove(app: App) -> None:
        if ended_before is None:
            await _remove(app, run)
            return
        ended = [one async for one in _ended_before(app, ended_before)]
        for start in range(0, len(ended), REMOVED_AT_ONCE):
            await _remove(app, ended[start : start + REMOVED_AT_ONCE])
        terminal.say(f"runs removed: {len(ended):,}")

    with_app(remove)
    return terminal.OK


REMOVED_AT_ONCE = 100
"""A transaction of thousands would keep those waiting who write."""


async def _remove(app: App, runs: Sequence[str]) -> None:
    one_each = {one: await _open_calls_note(app, one) for one in runs}
    await app.remove(*one_each)
    for one, left_open in one_each.items():
        terminal.say(f"run {one} is removed{left_open}")


async def _ended_before(app: App, moment: float) -> AsyncIterator[str]:
    """The runs that are over since then, with nobody who drives them; others are named."""
    before: str | None = None
    while rows := await app.journal.runs(limit=REMOVED_AT_ONCE, before=before):
        for row in rows:
            try:
                is_wanted = row.updated_at < moment and await app.is_over(row.run)
            except RunUnreadable as fault:
                terminal.say(f"run {row.run} is left: {fault}")
                continue
            if is_wanted and row.is_driven:
                terminal.say(f"run {row.run} is left: a process has it in hand")
            elif is_wanted:
                yield row.run
        before = rows[-1].run


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


@click.command(epilog=examples("loopkit runs call plan-1f09ab 3"))
@run_argument()
@click.argument("number", type=click.IntRange(1), metavar="[N]", required=False)
def call_command(run: str, number: int | None) -> int:
    """Print call N of RUN: what was sent, what came back, and what it took.

    Without N, print a line for each call.
    """
    read = with_runs(lambda stored: RunViews(stored, RunView).read(run))
    calls = list(read.steps.every_call())
    if number is None:
        echo_wrapped(f"{call.number}. {call_title(call, step)}" for step, call in calls)
        return terminal.OK
    if number > len(calls):
        some = f"calls 1 to {len(calls)}" if calls else "no calls"
        raise misuse(f"`{run}` has no call {number}; it has {some}")
    for line in call_lines(run, *calls[number - 1]):
        terminal.echo(line)
    return terminal.OK


@click.command(epilog=examples("loopkit runs show plan-1f09ab --calls"))
@run_argument()
@click.option(
    "--calls", is_flag=True, help="Show each call too: the beginning of its prompt and reply."
)
def show_command(run: str, calls: bool) -> int:
    """Show the status of RUN, the reason, and what to do next."""

    view = with_runs(lambda stored: RunViews(stored, RunView).view(run))
    echo_wrapped(summary(view))
    for step, call in view.steps.every_call() if calls else ():
        for line in ("", *call_lines(run, step, call, MOST_OF_TEXT)):
            terminal.echo(line)
    echo_wrapped([*_question_lines(view), *child_lines(view)])
    return terminal.OK


def _question_lines(view: RunView) -> Iterator[str]:
    state, engine = view.state, view.engine
    if state.question is not None and state.status == "waiting":
        yield f"\n{review(engine, state)}"
        has_origins = bool(engine.program.graph.origins) and state.question.wanted is None
        yield from option_lines(state.question, has_origins=has_origins)
        yield ""
        yield from waiting_hints(state.run, state.question)
