"""Driving a run from the command line: signals, progress, the person, the exit code."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from socket import socketpair
from types import FrameType
from typing import Any, Protocol

import click

from loopkit.agents.port import NotRunnable
from loopkit.app import App
from loopkit.cli import terminal
from loopkit.cli.inputs import journal_place
from loopkit.cli.person import WAKING_BYTES, PersonAtTerminal, at_terminal
from loopkit.cli.watching import OUTPUTS, Events, PlainLines, Watcher, is_watched
from loopkit.drive.active import ActiveRun
from loopkit.drive.answers import AnswerRefused
from loopkit.drive.notify import notify, outcome_of
from loopkit.drive.stored_runs import OpenQuestion, open_children
from loopkit.engine.records import Usage
from loopkit.engine.state import RunState
from loopkit.outside.processes import GROUPS
from loopkit.text import printable
from loopkit.text.run_ids import resume_line
from loopkit.values import Value
from loopkit.views.amounts import usage_text
from loopkit.views.hints import hints_for, waiting_hints
from loopkit.views.run_data import standing_of


def _argv(_: click.Context, __: click.Parameter, written: str | None) -> tuple[str, ...]:
    if written is None:
        return ()
    try:
        argv = tuple(shlex.split(written))
    except ValueError as error:
        raise terminal.misuse(f"`--notify`: {error}") from error
    if not argv:
        raise terminal.misuse("`--notify` names no program")
    return argv


class Driving(Value, frozen=True):
    """How a run is shown while it is driven, and the program that is started when it stops."""

    output: str
    notify: Sequence[str]


driving_options = terminal.gather(
    "driving",
    Driving,
    click.option(
        "--output", type=click.Choice(OUTPUTS), default="auto",
        help="auto: progress, live at a terminal; plain: progress as lines; "
        "jsonl: events on stdout; quiet: the result, and why a run stops before.",
    ),
    click.option(
        "--notify", callback=_argv, metavar="'COMMAND LINE'",
        help="Start this program when the run waits, fails or ends, with the outcome as JSON on "
        "its stdin, instead of the machine's notifier.",
    ),
)  # fmt: skip


def drive(
    start: Callable[[App], Awaitable[ActiveRun]], driving: Driving, slice_s: float | None = None
) -> int:
    """Drive a run; for a slice of its time, if that is given, and then nobody is asked."""
    # Around the event loop and not in it, so that its end can be interrupted too.
    with Interruption() as interruption:
        return asyncio.run(_drive(start, driving, interruption, slice_s))


async def _drive(
    start: Callable[[App], Awaitable[ActiveRun]],
    driving: Driving,
    interruption: Interruption,
    slice_s: float | None,
) -> int:
    output = driving.output
    watcher = _watcher_for(output)
    asks = slice_s is None and at_terminal()
    person = PersonAtTerminal(watcher.pause, interruption.woken) if asks else None
    parts: dict[str, Any] = {"person": person, "notify": driving.notify}
    async with App.open(journal_place(), listeners_of=watcher.listeners_of, **parts) as app:
        active = await start(app)
        if slice_s is not None:
            active.is_due_again = True
            asyncio.get_running_loop().call_later(slice_s, active.stop)
        if active.claim.seq:
            await _begin(app, watcher, active.state)
        with watcher.running():
            while True:
                told = FAMILY if active.program.children else FIRST
                go_on = f"resume with: {resume_line(active.state.run)}"
                interruption.watch(active, go_on, told, watcher=watcher, person=person)
                await app.drive(active)
                if person is None or not await _is_answered(app, active, person):
                    break
                active = await app.resume(active.state.run)
        state, usage = active.state, await app.usage_of(active.state)
        hints = await hints_for(app, state, app.clock.now())
        asked = await app.questions(state.run) if state.waits_for_children else ()
        lost = watcher.fault
        try:
            _print_result(state, usage, asked, output)
        except OSError as error:
            lost = lost or error
        _print_end(state, usage, hints, output)
        stopped = state.status in ("suspended", "running", "waiting") and interruption.signal
        code = interruption.code if stopped else exit_code(state)
        if active.is_due_again and code == terminal.SIGINT and not stopped:
            code = terminal.DUE_AGAIN
        if fault := await _notify(active, interruption):
            terminal.say(fault)
        if lost is not None:
            # As with `| head` or a full disk: neither a failure nor an end of the run.
            closed = "stdout was closed" if isinstance(lost, BrokenPipeError) else lost.strerror
            terminal.say(f"error: {closed}; the run is stored: loopkit runs show {state.run}")
            return terminal.ERROR
        return code


def _watcher_for(output: str) -> Watcher:
    if output == "jsonl":
        return Events()
    if output == "quiet":
        return Watcher()
    if output == "auto" and is_watched():
        # Imported here because rich costs as much time as everything else of a small command.
        from loopkit.cli.live import LiveLines

        return LiveLines(sys.stderr)
    return PlainLines()


async def _begin(app: App, watcher: Watcher, state: RunState) -> None:
    watcher.begin(state.run, await app.events(state.run))
    for child in open_children(state):
        if await app.journal.has(child.started.child):
            await _begin(app, watcher, await app.state_of(child.started.child))


async def _is_answered(app: App, active: ActiveRun, person: PersonAtTerminal) -> bool:
    """Ask the person the questions of children, one at a time; whether any was answered."""
    if not active.state.waits_for_children or active.stopping:
        return False
    is_answered = False
    every = await app.questions(active.state.run)
    asked = [one for one in every if one.question.wanted is None]
    for number, (place, state, question) in enumerate(asked, 1):
        engine = app.engine(await app.machine_of(state), state.definition)
        answer = await person.answer(engine, state, f"{place} ({number} of {len(asked)})")
        if answer is None:
            break
        try:
            await app.post(state.run, answer, question.question)
        except (AnswerRefused, NotRunnable) as refused:
            # Another process has answered it.
            terminal.say(f"{place}: {refused}")
        is_answered = True
    if is_answered and active.stopping:
        terminal.say(f"your answers are kept; go on with: {resume_line(active.state.run)}")
    return is_answered and not active.stopping


@dataclass
class Stopper:
    stop: Callable[[], object]
    stopping: bool = False


async def _notify(active: ActiveRun, interruption: Interruption) -> str:
    work = asyncio.create_task(notify(active))
    # A run does not depend on its notifier.
    interruption.end_at_once(Stopper(work.cancel), "the notifier is ended; the run is not affected")
    await asyncio.wait([work])
    return "" if work.cancelled() else work.result()


def _print_end(state: RunState, usage: Usage, hints: Sequence[str], output: str) -> None:
    if output == "quiet" and (stop := state.suspended):
        terminal.say(f"suspended ({stop.reason}): {stop.message}")
    if output == "quiet" and state.finished is not None and state.finished.although:
        terminal.say(standing_of(state))
    if output == "jsonl" or (output == "quiet" and state.is_over):
        return
    for name, value in state.finished.result.items() if state.finished else ():
        if isinstance(value, str) and not value.strip():
            terminal.say(f"{name} is empty")
    terminal.say(f"{state.run}: {usage_text(usage)}")
    if state.question is not None and state.status == "waiting":
        asked = f"see what is asked: loopkit runs show {state.run}"
        hints = [asked, *waiting_hints(state.run, state.question)]
    elif state.suspended is None:
        resumed = f"stopped; resume with: {resume_line(state.run)}"
        hints = [resumed] if state.status == "running" else []
    for hint in hints:
        terminal.say(hint)


def exit_code(state: RunState) -> int:
    if state.finished is not None:
        return terminal.OK if state.finished.success else terminal.FAILURE
    if state.status == "waiting" or state.waits_for_children:
        return terminal.WAITING
    if state.suspended is not None:
        codes = {"limit": terminal.LIMIT, "interrupted": terminal.SIGINT}
        return codes.get(state.suspended.reason, terminal.ERROR)
    return terminal.FAILURE if state.status == "cancelled" else terminal.ERROR


def _print_result(
    state: RunState, usage: Usage, asked: Sequence[OpenQuestion], output: str
) -> None:
    if output == "jsonl":
        told = {**outcome_of(state, asked), "usage": usage.plain()}
        line = {"type": "result", **told, "exit": exit_code(state)}
        terminal.echo(json.dumps(line, ensure_ascii=False))
        return
    result = state.finished.result if state.finished else {}
    if not result:
        return
    value = next(iter(result.values())) if len(result) == 1 else result
    is_text = isinstance(value, str)
    text = str(value) if is_text else json.dumps(value, indent=2, ensure_ascii=False)
    # As it is; but without what could drive a terminal, where it goes to one. A closed one is None.
    is_seen = sys.stdout is not None and sys.stdout.isatty()
    shown = printable(text) if is_seen else text
    # With `color` click leaves escape sequences in a file or pipe, where they are data.
    terminal.echo(shown, nl=not shown.endswith("\n"), color=True)


FIRST = "the step in hand is finished first; a second {second} aborts its call"
"""The message after the first signal."""
FAMILY = "the steps in hand are finished first; a second {second} aborts their calls"


class Stoppable(Protocol):
    """A run, a batch of runs, or the work after a run."""

    stopping: bool

    def stop(self) -> object:
        """Stop as soon as nothing is lost by it: a run stops once its current step is stored."""


class Interruption:
    """The first signal finishes the step and stores it; the second ends the process.

    It does so in its handler, whatever the event loop is busy with. What is being written to the
    journal then is written whole or not at all.
    """

    def __init__(self) -> None:
        self._active: Stoppable | None = None
        self._go_on = ""
        self._told = ""
        self._person: PersonAtTerminal | None = None
        self._watcher = Watcher()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._before: dict[int, Any] = {}
        self.signal: int | None = None
        self.woken, self._waking = socketpair()
        """Readable once there was a signal. Who waits for something else waits for it too: one that
        came right before the wait interrupts no system call, and its handler runs after that."""

    def __enter__(self) -> Interruption:
        for end in (self.woken, self._waking):
            end.setblocking(False)
        signal.set_wakeup_fd(self._waking.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        self.woken.close()
        self._waking.close()

    def watch(
        self,
        active: Stoppable,
        go_on: str,
        told: str = FIRST,
        *,
        watcher: Watcher | None = None,
        person: PersonAtTerminal | None = None,
    ) -> None:
        """Set what a signal stops; after an earlier signal it is stopped before it begins work.

        `go_on` says how to go on after a second signal.
        """
        self._active, self._person, self._watcher = active, person, watcher or Watcher()
        self._go_on, self._told = go_on, told
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self.woken, self.woken.recv, WAKING_BYTES)
        if self.signal is not None:
            active.stop()

    def end_at_once(self, last: Stoppable, told: str) -> None:
        """Let the first signal from now on end the remaining work, since the run has stopped."""
        self._active, self._go_on, self._told = last, "", told

    @property
    def code(self) -> int:
        return terminal.SIGTERM if self.signal == signal.SIGTERM else terminal.SIGINT

    def _handle_signal(self, number: int, _: FrameType | None) -> None:
        is_second, self.signal = self.signal is not None, number
        if is_second:
            GROUPS.end(self._leave)
        elif self._active is not None and self._loop is not None:
            self._active.stopping = True
            if self._person is not None and self._person.is_asking:
                raise KeyboardInterrupt
            second = "SIGTERM" if number == signal.SIGTERM else "Ctrl-C"
            self._watcher.say_in_signal(self._told.format(second=second))
            self._loop.call_soon_threadsafe(self._active.stop)

    def _leave(self) -> None:
        go_on = f"; {self._go_on}" if self._go_on else ""
        self._watcher.say_at_the_end(f"aborted{go_on}")
        os._exit(self.code)
