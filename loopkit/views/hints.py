"""Hints for a run that stopped: lines to paste, none of which leads back to the same end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from loopkit.agents.model.catalogue import near_model
from loopkit.drive.advance import CHANGE_IT
from loopkit.engine.events import Suspended, Waiting
from loopkit.engine.state import RunState
from loopkit.language import Machine, ModelAgent
from loopkit.language.datatypes import parse_record
from loopkit.text import printable
from loopkit.text.command_lines import resume_line

WIDTH = 80


def hints(run: RunState, machine: Machine, file: Path | None) -> Iterator[str]:
    """What a person can do about a suspended run, the likeliest first.

    `file` is the one that its machine was read from, where it is still there.
    """
    stopped = run.suspended
    if stopped is None:
        return
    if stopped.reason in ("interrupted", "transient"):
        yield _hint("resume with", resume_line(run.run))
        return
    if stopped.remedy:
        yield printable(stopped.remedy)
    if stopped.reason != "limit":
        yield from _mending(run, stopped, machine, file)


def answer_line(run: str, question: Waiting) -> str:
    """The line that answers a question, with what it needs and the choices that are open."""
    fields = parse_record(question.form).fields or {}
    forms = [f" --form {name}=…" for name, field in fields.items() if field.required]
    choices = [
        f"{choice.name} --comment …" if choice.needs_comment else choice.name
        for choice in question.choices
        if not choice.closed
    ]
    return f"loopkit answer {run} CHOICE{''.join(forms)}   ({', '.join(choices)})"


def _mending(
    run: RunState, stopped: Suspended, machine: Machine, file: Path | None
) -> Iterator[str]:
    for agent, model in _misspelt(run, machine):
        line = resume_line(run.run, "--model", f"{agent}={model}")
        yield _hint(f"if you meant `{model}`", line)
    if not stopped.remedy.endswith(CHANGE_IT):
        again = "ask again" if stopped.reason == "content" else "once the cause is fixed"
        yield _hint(again, resume_line(run.run))
    named = "the machine" if file is None else f"`{file}`"
    line = resume_line(run.run, "--machine", str(file or "FILE"))
    yield _hint(f"after correcting {named}", line)


def _hint(when: str, line: str) -> str:
    """A command to paste, on a line of its own where that is long."""
    short = f"{when}: {line}"
    return short if len(short) <= WIDTH else f"{when}:\n  {line}"


def _misspelt(run: RunState, machine: Machine) -> Iterator[tuple[str, str]]:
    """The agents whose last try failed for good and whose model nobody sells, with a near one."""
    for name in dict.fromkeys(task.agent for task in run.tasks.values() if task.failed):
        agent = machine.agents.get(name)
        one = agent.model[0] if isinstance(agent, ModelAgent) and len(agent.model) == 1 else ""
        if (near := near_model(one)) is not None:
            yield name, near
