"""The notifier: a program that is started when a run alerts, starts to wait, fails or ends."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from typing import Any

from loopkit.drive.active import ActiveRun, Listener
from loopkit.drive.stored_runs import OpenQuestion, Stored
from loopkit.engine.events import Alerted
from loopkit.engine.state import RunState
from loopkit.outside.processes import CommandNotStarted, CommandTimeout, run_command
from loopkit.text import one_line

LONGEST_S = 30.0
"""How long a notifier may take."""


async def notify(active: ActiveRun) -> str:
    """Start the run's notifier if the run has stopped; returns why that failed, or an empty string.

    A run that waits with the question that was open when it was claimed had stopped before.
    """
    fault = await active.alarm if active.alarm is not None else ""
    question = active.state.question
    asks_same = question is not None and question.question == active.asked_before
    if asks_same or not (active.notify and _has_stopped(active.state)):
        return fault
    run = active.state.run
    asked = await active.children.questions(run) if active.state.waits_for_children else ()
    return await _start(active, asked) or fault


def alert_listener(active: ActiveRun) -> Listener:
    """Starts the notifier of a run that raises its alert; if it stops at once, `notify` does."""

    def hear(stored: Stored) -> None:
        if isinstance(stored.event, Alerted) and not _has_stopped(active.state):
            active.alarm = asyncio.ensure_future(_start(active))

    return hear


async def _start(active: ActiveRun, asked: Sequence[OpenQuestion] = ()) -> str:
    alerted = active.state.alerted
    outcome = {**outcome_of(active.state, asked), "alert": alerted.plain() if alerted else None}
    text = json.dumps(outcome, ensure_ascii=False)
    try:
        # The user's own program, which no model has written to: it may see all that the user may.
        ended = await run_command(
            active.notify, cwd=active.folder, env=dict(os.environ), stdin=text, timeout_s=LONGEST_S
        )
    except CommandTimeout:
        return f"the notifier failed: `{active.notify[0]}` took longer than {LONGEST_S:g} s"
    except (CommandNotStarted, OSError) as error:
        return f"the notifier failed: {error}"
    if ended.exit_code == 0:
        return ""
    printed = one_line(ended.stderr)
    cause = f"`{active.notify[0]}` ended with exit code {ended.exit_code}"
    return f"the notifier failed: {cause}" + (f": {printed}" if printed else "")


def outcome_of(state: RunState, asked: Sequence[OpenQuestion] = ()) -> dict[str, Any]:
    finished = state.finished
    return {
        "run": state.run,
        "machine": state.machine,
        "status": "waiting" if state.waits_for_children else state.status,
        "state": state.state,
        "outcome": finished.outcome if finished else None,
        "success": finished.success if finished else None,
        "although": finished.although if finished else "",
        "result": finished.result if finished else {},
        "artifacts": {n: v.plain() for n, v in finished.picked.items()} if finished else {},
        "question": state.question.plain() if state.question else None,
        "questions": [
            {"run": one.state.run, "item": one.place, **one.question.plain()} for one in asked
        ],
        "error": state.suspended.message if state.suspended else "",
        "usage": state.usage.plain(),
    }


def _has_stopped(state: RunState) -> bool:
    if state.suspended is not None:
        # A person who interrupts a run knows that it stopped.
        return state.suspended.reason != "interrupted"
    return state.status in ("waiting", "finished", "cancelled")
