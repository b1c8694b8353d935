"""Hints for a run that stopped: commands to paste, none of which ends in the same way again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from loopkit.agents.model.pricing import near_model
from loopkit.drive.advance import CHANGE_IT
from loopkit.drive.stored_runs import OpenQuestion, StoredRuns
from loopkit.engine.events import Suspended, Waiting
from loopkit.engine.state import RunState
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.machine import Machine
from loopkit.text import one_line, printable
from loopkit.text.run_ids import RESUME, delivery_line, resume_line
from loopkit.views.amounts import moment

MOST_ASKED = 10
QUESTION_WIDTH = 60
BLANK = "…"
"""The placeholder in a command for words that only a person can supply."""


def hints(run: RunState, machine: Machine, file: Path | None, now: float) -> Iterator[str]:
    """What a person can do about a suspended run, the likeliest remedy first.

    `file` is the file that its machine was read from, if it still exists; `now` is a Unix time.
    """
    stopped = run.suspended
    if stopped is None:
        return
    if stopped.reason in ("interrupted", "transient"):
        yield f"{_then(stopped, now, 'resume with', 'resume')}: {resume_line(run.run)}"
        return
    if stopped.remedy:
        yield from printable(stopped.remedy).splitlines()
    # Some remedies end in a line to paste, and no other helps.
    if stopped.reason != "limit" and RESUME not in stopped.remedy:
        yield from _remedies(run, stopped, machine, file, now)


async def hints_for(stored: StoredRuns, state: RunState, now: float) -> list[str]:
    if state.suspended is None:
        return []
    if state.waits_for_children:
        return list(question_hints(state.run, await stored.questions(state.run)))
    machine, file = await stored.machine_of(state), await stored.machine_file_of(state)
    return list(hints(state, machine, file, now))


def answer_hints(run: str, question: Waiting) -> Iterator[str]:
    """The commands that answer a question, one for each open choice, under a heading."""
    lines = list(_answer_lines(run, question))
    words = f", with your own words for {BLANK}" if BLANK in "".join(lines) else ""
    yield f"answer it{words}:"
    yield from (f"  {line}" for line in lines)


def waiting_hints(run: str, question: Waiting) -> Iterator[str]:
    if question.wanted is None:
        yield from answer_hints(run, question)
        return
    wanted = question.wanted
    where = f" in {printable(wanted.workspace)}" if wanted.workspace else ""
    if wanted.is_left:
        what = f"the {wanted.form} {printable(wanted.path)}{where}"
        yield f"make `{wanted.artifact}`, {what}, then deliver it:"
    else:
        what = "a text" if wanted.form == "text" else "JSON data"
        yield f"write `{wanted.artifact}`, {what}{where and f', working{where}'}, and deliver it:"
    yield f"  {delivery_line(run, is_left=wanted.is_left)}"


def _answer_lines(run: str, question: Waiting) -> Iterator[str]:
    if question.wanted is not None:
        yield delivery_line(run, is_left=question.wanted.is_left)
        return
    fields = parse_record(question.form).fields or {}
    needed = [f"{name}={BLANK}" for name, field in fields.items() if field.required]
    form = [part for field in needed for part in ("--form", field)]
    for choice in question.choices:
        if not choice.closed:
            comment = ["--comment", BLANK] if choice.needs_comment else []
            yield shlex.join(["loopkit", "answer", run, choice.name, *form, *comment])


def question_hints(run: str, asked: Sequence[OpenQuestion]) -> Iterator[str]:
    if not asked:
        yield f"resume with: {resume_line(run)}"
        return
    first = asked[0]
    yield f"see what is asked: loopkit runs show {shlex.quote(first.state.run)}"
    for place, state, question in asked[:MOST_ASKED]:
        text = one_line(question.text, QUESTION_WIDTH)
        wanted = question.wanted
        names = ", ".join(choice.name for choice in question.choices if not choice.closed)
        yield f"{place}: {text} ({names if wanted is None else f'wants {wanted.artifact}'})"
        yield f"  {next(_answer_lines(state.run, question), '')}"
    if (more := len(asked) - MOST_ASKED) > 0:
        yield f"and {more:,} more: loopkit runs ls {run}"
    same = [choice.name for choice in first.question.choices if not choice.closed]
    if len(asked) > 1 and same:
        yield f"one answer for all: loopkit answer {run} {same[0]} --all"


def _remedies(
    run: RunState, stopped: Suspended, machine: Machine, file: Path | None, now: float
) -> Iterator[str]:
    for name in dict.fromkeys(task.agent for task in run.tasks.values() if task.failed):
        agent = machine.agents.get(name)
        one = agent.models[0] if agent is not None and len(agent.models) == 1 else ""
        if (near := near_model(one)) is not None:
            line = resume_line(run.run, "--model", f"{name}={near}")
            yield f"if you meant `{near}`: {line}"
    if not stopped.remedy.endswith(CHANGE_IT):
        again = "ask again" if stopped.reason == "content" else "once the cause is fixed"
        yield f"{_then(stopped, now, again, 'ask again')}: {resume_line(run.run)}"
    named = "the machine" if file is None else f"`{file}`"
    yield f"after correcting {named}: {resume_line(run.run, '--machine', str(file or 'FILE'))}"


def _then(stopped: Suspended, now: float, at_once: str, later: str) -> str:
    """When to paste a command: not before the provider answers again, if that time is known."""
    if stopped.resume_at is None or stopped.resume_at <= now:
        return at_once
    return f"{later} after {moment(stopped.resume_at)}"
