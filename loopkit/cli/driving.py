"""Driving a run from the command line: signals, progress, the person, the exit code."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import click

from loopkit.agents.not_runnable import NotRunnable
from loopkit.app import App
from loopkit.cli import exit_codes
from loopkit.cli.interruption import FAMILY, FIRST, Interruption
from loopkit.cli.person import PersonAtTerminal, at_terminal
from loopkit.cli.watching import OUTPUTS, Events, PlainLines, Watcher, is_watched
from loopkit.drive.active import ActiveRun
from loopkit.drive.answer_refused import AnswerRefused
from loopkit.drive.notify import notify, outcome_of
from loopkit.drive.stored_runs import OpenQuestion, open_children
from loopkit.engine.events import Usage
from loopkit.engine.state import RunState
from loopkit.journal.files import state_folder
from loopkit.text import printable
from loopkit.text.command_lines import resume_line
from loopkit.views.amounts import usage_text
from loopkit.views.hints import hints_for, waiting_hints


def driving_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--output` and `--notify`."""
    output = click.option(
        "--output",
        type=click.Choice(OUTPUTS),
        default="auto",
        help="auto: progress, live at a terminal; plain: progress as lines; "
        "jsonl: events on stdout; quiet: the result, and why a run stops before.",
    )
    notify = click.option(
        "--notify",
        callback=_argv,
        metavar="'COMMAND LINE'",
        help="Start this program when the run waits, fails or ends, with the outcome as JSON on "
        "its stdin, instead of the machine's notifier.",
    )
    return output(notify(function))


def _argv(_: click.Context, __: click.Parameter, written: str | None) -> tuple[str, ...]:
    if written is None:
        return ()
    try:
        argv = tuple(shlex.split(written))
    except ValueError as error:
        raise exit_codes.Stop(exit_codes.USAGE, f"error: `--notify`: {error}") from error
    if not argv:
        raise exit_codes.Stop(exit_codes.USAGE, "error: `--notify` names no program")
    return argv


def drive(
    output: str, start: Callable[[App], Awaitable[ActiveRun]], notifier: Sequence[str] = ()
) -> int:
    """Open the journal, claim a run, and drive it until it stops; the exit code."""
    try:
        # Around the event loop and not in it, so that its end can be interrupted too.
        with exit_codes.report_errors(), Interruption() as interruption:
            return asyncio.run(_drive(output, start, notifier, interruption))
    except OSError as error:
        if error.filename is not None:
            raise
        # Of stdout, as with `| head` or a full disk: neither a failure nor an end of the run.
        closed = "stdout was closed" if isinstance(error, BrokenPipeError) else error.strerror
        told = f"error: {closed or error}; `loopkit runs ls` shows the status of the run"
        raise exit_codes.Stop(exit_codes.ERROR, told) from error


async def _drive(
    output: str,
    start: Callable[[App], Awaitable[ActiveRun]],
    notifier: Sequence[str],
    interruption: Interruption,
) -> int:
    watcher = _watcher_for(output)
    person = PersonAtTerminal(watcher.pause, interruption.woken) if at_terminal() else None
    parts: dict[str, Any] = {"person": person, "notify": notifier}
    async with App.open(state_folder(), listeners_of=watcher.listeners_of, **parts) as app:
        active = await start(app)
        if active.claim.seq:
            await _begin(app, watcher, active.state)
        with watcher.running():
            while True:
                _watch(interruption, active, person, watcher)
                await app.drive(active)
                if person is None or not await _is_answered(app, active, person):
                    break
                active = await app.resume(active.state.run)
        state = active.state
        ended = Ended(
            state,
            await hints_for(app, state),
            await app.usage_of(state),
            await app.questions(state.run) if state.waits_for_children else (),
        )
        code = _end(ended, output, interruption)
        if fault := await _notify(active, interruption):
            exit_codes.say(fault)
        return code


def _watcher_for(output: str) -> Watcher:
    """The watcher that `--output` names; `auto` is the live one at a terminal."""
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
    """Tell the watcher the earlier events of a run and its children."""
    watcher.begin(state.run, await app.events(state.run))
    for child in open_children(state):
        if await app.journal.has(child.started.child):
            await _begin(app, watcher, await app.state_of(child.started.child))


def _watch(
    interruption: Interruption,
    active: ActiveRun,
    person: PersonAtTerminal | None,
    watcher: Watcher,
) -> None:
    told = FAMILY if active.program.children else FIRST
    go_on = f"resume with: {resume_line(active.state.run)}"
    interruption.watch(active, go_on, told, watcher=watcher, person=person)


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
            exit_codes.say(f"{place}: {refused}")
        is_answered = True
    if is_answered and active.stopping:
        exit_codes.say(f"your answers are kept; go on with: {resume_line(active.state.run)}")
    return is_answered and not active.stopping


class _Notifying:
    """A notifier at work, which a signal ends: the run does not depend on it."""

    def __init__(self, work: asyncio.Task[str]) -> None:
        self.stopping = False
        self._work = work

    def stop(self) -> None:
        self._work.cancel()


async def _notify(active: ActiveRun, interruption: Interruption) -> str:
    work = asyncio.create_task(notify(active))
    interruption.end_at_once(_Notifying(work), "the notifier is ended; the run is not affected")
    await asyncio.wait([work])
    return "" if work.cancelled() else work.result()


class Ended(NamedTuple):
    """The state in which a run stopped, and the facts to print about it."""

    state: RunState
    hints: Sequence[str]
    usage: Usage
    """The usage of the run and its children."""
    asked: Sequence[OpenQuestion]
    """The open questions of its children."""


def _end(ended: Ended, output: str, interruption: Interruption) -> int:
    state = ended.state
    if output == "jsonl":
        click.echo(json.dumps(_result(ended), ensure_ascii=False))
    else:
        _print_result(state)
    if output == "quiet" and (stop := state.suspended):
        exit_codes.say(f"suspended ({stop.reason}): {stop.message}")
    if output != "jsonl" and not (output == "quiet" and state.is_over):
        _print_end(state, ended.hints, ended.usage)
    if state.status in ("suspended", "running", "waiting") and interruption.signal is not None:
        return interruption.code
    return exit_code(state)


def exit_code(state: RunState) -> int:
    """The exit code of a run in the state in which it stopped."""
    if state.finished is not None:
        return exit_codes.OK if state.finished.success else exit_codes.FAILURE
    if state.status == "waiting":
        return exit_codes.WAITING
    if state.suspended is not None:
        codes = {
            "limit": exit_codes.LIMIT,
            "interrupted": exit_codes.SIGINT,
            "waiting": exit_codes.WAITING,
        }
        return codes.get(state.suspended.reason, exit_codes.ERROR)
    return exit_codes.FAILURE if state.status == "cancelled" else exit_codes.ERROR


def _result(ended: Ended) -> dict[str, Any]:
    result = {**outcome_of(ended.state, ended.asked), "usage": ended.usage.plain()}
    return {"type": "result", **result, "exit": exit_code(ended.state)}


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


def _print_end(state: RunState, hints: Sequence[str], usage: Usage) -> None:
    for name, value in state.finished.result.items() if state.finished else ():
        if isinstance(value, str) and not value.strip():
            exit_codes.say(f"{name} is empty")
    exit_codes.say(f"{state.run}: {usage_text(usage)}")
    if state.question is not None and state.status == "waiting":
        exit_codes.say(f"see what is asked: loopkit runs show {state.run}")
        for hint in waiting_hints(state.run, state.question):
            exit_codes.say(hint)
    elif state.suspended is not None:
        for hint in hints:
            exit_codes.say(hint)
    elif state.status == "running":
        exit_codes.say(f"stopped; resume with: {resume_line(state.run)}")
