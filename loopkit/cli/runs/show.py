"""`loopkit runs show`."""

from __future__ import annotations

from collections.abc import Iterator

import click

from loopkit.app import App
from loopkit.cli import exit_codes
from loopkit.cli.examples import examples
from loopkit.cli.stored_runs import run_argument, with_app
from loopkit.cli.wrapping import echo_wrapped
from loopkit.engine.macrostep import Engine
from loopkit.engine.state import RunState
from loopkit.text.run_ids import is_child, root_of
from loopkit.views.children_table import child_lines, rows_of, rows_to_show
from loopkit.views.hints import hints_for, waiting_hints
from loopkit.views.prompt_sizes import prompt_lines
from loopkit.views.review import option_lines, review
from loopkit.views.summary import summary


@click.command(epilog=examples("loopkit runs show plan-1f09ab"))
@run_argument()
def command(run: str) -> int:
    """Show the status of RUN, the reason, and what to do next."""

    async def read(app: App) -> list[str]:
        state, rows = await app.state_of(run), await app.journal.runs(run=run)
        engine = app.engine(await app.machine_of(state), state.definition)
        is_driven = any(row.is_driven for row in rows)
        hints = await hints_for(app, state)
        usage = await app.usage_of(state)
        items = engine.program.report_items
        told = summary(state, hints, usage, is_driven=is_driven, items=items)
        sent = prompt_lines(stored.event for stored in await app.events(run))
        return [
            *told,
            *sent,
            *_question_lines(engine, state),
            *await _family(app, state, is_driven),
        ]

    echo_wrapped(with_app(read))
    return exit_codes.OK


def _question_lines(engine: Engine, state: RunState) -> Iterator[str]:
    """The open question, or the request for an artifact, and the lines that answer it."""
    if state.question is not None and state.status == "waiting":
        yield f"\n{review(engine, state)}"
        has_origins = bool(engine.program.graph.origins) and state.question.wanted is None
        yield from option_lines(state.question, has_origins=has_origins)
        yield ""
        yield from waiting_hints(state.run, state.question)


async def _family(app: App, state: RunState, is_driven: bool) -> list[str]:
    """The children of a run in lines, and to whom it belongs itself."""
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
