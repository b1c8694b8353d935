"""Driving a run from the command line: signals, progress, the person, the exit code."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from math import inf
from types import FrameType
from typing import Any

import click

from loopkit.app import App, state_folder
from loopkit.cli import exits
from loopkit.cli.person import PersonAtTerminal, at_terminal
from loopkit.cli.watching import OUTPUTS, Watcher, watcher_for
from loopkit.drive.active import ActiveRun
from loopkit.engine.state import RunState
from loopkit.outside.groups import GROUPS
from loopkit.text import printable
from loopkit.views.amounts import spent


def output_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--output",
        type=click.Choice(OUTPUTS),
        default="auto",
        help="auto: progress, live at a terminal; plain: as lines; jsonl: events on stdout; "
        "quiet: the result only.",
    )(function)


def usd(_context: click.Context, _option: click.Parameter, amount: float | None) -> float | None:
    """An amount that can be a limit: NaN would be one that nothing reaches."""
    if amount is not None and not 0 <= amount < inf:
        raise click.BadParameter("write US dollars, 0 or more")
    return amount


def drive(output: str, start: Callable[[App], Awaitable[ActiveRun]]) -> int:
    """Open the journal, take a run, advance it as far as it goes; the exit code."""
    try:
        # Around the event loop and not in it, so that its end can be interrupted too.
        with exits.told(), Interruption() as interruption:
            return asyncio.run(_drive(output, start, interruption))
    except BrokenPipeError as error:
        # As with `| head`: no failure of the run, and no end of it either.
        told = (
            "error: nobody reads the output any more; `loopkit runs ls` tells where the run stands"
        )
        raise exits.Stop(exits.ERROR, told) from error


async def _drive(
    output: str, start: Callable[[App], Awaitable[ActiveRun]], interruption: Interruption
) -> int:
    watcher = watcher_for(output)
    person = PersonAtTerminal(watcher.paused) if at_terminal() else None
    app = App.open(state_folder(), listeners=[watcher.tell], person=person)
    try:
        active = await start(app)
        watcher.begin(await app.events(active.state.run))
        interruption.watch(active, person, watcher)
        with watcher.running():
            await app.drive(active)
        return _ended(active.state, output, interruption)
    finally:
        await app.close()


class Interruption:
    """The first signal finishes the step and stores it; the second ends the process.

    It does so in its handler, which runs between any two steps of Python, whatever the event loop
    is busy with; a pattern of a rule looks out for signals as well. What is being written to the
    journal then is written whole or not at all.
    """

    def __init__(self) -> None:
        self._active: ActiveRun | None = None
        self._person: PersonAtTerminal | None = None
        self._watcher = Watcher()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._before: dict[int, Any] = {}
        self.signal: int | None = None

    def __enter__(self) -> Interruption:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._received)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def watch(self, active: ActiveRun, person: PersonAtTerminal | None, watcher: Watcher) -> None:
        """Know what there is to be stopped; one that was to stop before begins no work."""
        self._active, self._person, self._watcher = active, person, watcher
        self._loop = asyncio.get_running_loop()
        if self.signal is not None:
            active.stop()

    @property
    def code(self) -> int:
        """The exit code that tells of the signal."""
        return exits.SIGTERM if self.signal == signal.SIGTERM else exits.SIGINT

    def _received(self, number: int, _: FrameType | None) -> None:
        is_second, self.signal = self.signal is not None, number
        if is_second:
            GROUPS.end(self._leave)
        elif self._active is not None and self._loop is not None:
            self._active.stopping = True
            if self._person is not None and self._person.is_asking:
                raise KeyboardInterrupt
            self._watcher.say_in_signal("finishing the step; once more aborts the call in flight")
            self._loop.call_soon_threadsafe(self._active.stop)

    def _leave(self) -> None:
        run = self._active.state.run if self._active is not None else ""
        self._watcher.say_at_the_end(f"aborted; go on: loopkit resume {run}" if run else "aborted")
        os._exit(self.code)


def _ended(state: RunState, output: str, interruption: Interruption) -> int:
    if output == "jsonl":
        click.echo(json.dumps({"type": "result", **outcome_of(state)}, ensure_ascii=False))
    else:
        _print_result(state)
    if output not in ("jsonl", "quiet"):
        _print_end(state)
    if state.status in ("suspended", "running", "waiting") and interruption.signal is not None:
        return interruption.code
    return exit_code(state)


def exit_code(state: RunState) -> int:
    """The exit code of a run in the state in which it stopped."""
    if state.finished is not None:
        return exits.OK if state.finished.success else exits.FAILURE
    if state.status == "waiting":
        return exits.WAITING
    if state.suspended is not None:
        codes = {"limit": exits.LIMIT, "interrupted": exits.SIGINT}
        return codes.get(state.suspended.reason, exits.ERROR)
    return exits.FAILURE if state.status == "cancelled" else exits.ERROR


def outcome_of(state: RunState) -> dict[str, Any]:
    """The end of a run as data."""
    finished = state.finished
    return {
        "run": state.run,
        "status": state.status,
        "outcome": finished.outcome if finished else None,
        "success": finished.success if finished else None,
        "result": finished.result if finished else {},
        "question": state.question.plain() if state.question else None,
        "usage": state.usage.plain(),
        "exit": exit_code(state),
    }


def _print_result(state: RunState) -> None:
    result = state.finished.result if state.finished else {}
    if len(result) == 1 and isinstance(text := next(iter(result.values())), str):
        _print_text(text)
    elif result:
        value = next(iter(result.values())) if len(result) == 1 else result
        _print_text(json.dumps(value, indent=2, ensure_ascii=False))


def _print_text(text: str) -> None:
    """The text as it is; without what could drive a terminal, where it goes to one."""
    # A closed stream is None.
    is_seen = sys.stdout is not None and sys.stdout.isatty()
    shown = printable(text) if is_seen else text
    # With `color` click leaves escape sequences in a file or pipe, where they are data.
    click.echo(shown, nl=not shown.endswith("\n"), color=True)


def _print_end(state: RunState) -> None:
    for name, value in state.finished.result.items() if state.finished else ():
        if isinstance(value, str) and not value.strip():
            exits.say(f"{name} is empty")
    exits.say(f"{state.run}: {spent(state.usage)}")
    if state.question is not None and state.status == "waiting":
        choices = ", ".join(choice.name for choice in state.question.choices if not choice.closed)
        exits.say(f"see what is asked: loopkit runs show {state.run}")
        exits.say(f"answer it:         loopkit answer {state.run} CHOICE   ({choices})")
    elif state.suspended is not None:
        exits.say(printable(state.suspended.remedy) or f"go on: loopkit resume {state.run}")
    elif state.status == "running":
        exits.say(f"stopped; go on: loopkit resume {state.run}")
