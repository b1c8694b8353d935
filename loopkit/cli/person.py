"""The person at the terminal: sees what is asked about, and answers."""

from __future__ import annotations

import json
import select
import sys
import time
from typing import Any

import click

from loopkit.datatypes import DataType, parse_fields
from loopkit.definition import HumanState
from loopkit.engine import Engine
from loopkit.events import Choice, HumanAnswer, Waiting
from loopkit.runner.questions import answer_events
from loopkit.runner.work.human import AnswerRefused
from loopkit.runstate import RunState
from loopkit.text import printable
from loopkit.views.review import review


def at_terminal() -> bool:
    """Whether a person can be asked here."""
    return sys.stdin.isatty() and sys.stderr.isatty()


class Expired(Exception):
    """The question's time is over."""


class PersonAtTerminal:
    """Asks until there is an answer that the question takes."""

    def __init__(self) -> None:
        self.is_asking = False

    async def answer(self, engine: Engine, run: RunState) -> HumanAnswer | None:
        """The answer; none where the question expired, the input ended, or Ctrl-C was pressed."""
        question = run.question
        if question is None:
            return None
        click.echo("\n" + review(engine, run), err=True)
        state = engine.program.machine.states.get(question.state)
        asked = state.form if isinstance(state, HumanState) and question.call is None else {}
        form = parse_fields(asked)
        self.is_asking = True
        try:
            return self._ask(engine, run, question, form)
        except (Expired, EOFError, KeyboardInterrupt):
            click.echo("", err=True)
            return None
        finally:
            self.is_asking = False

    def _ask(self, engine: Engine, run: RunState, question: Waiting, form: DataType) -> HumanAnswer:
        left_s = None if question.expires_at is None else question.expires_at - time.time()
        while True:
            choice = _chosen(question, _line("Your choice: ", left_s))
            if choice is None:
                continue
            comment = _comment(choice, left_s)
            answer = HumanAnswer(choice=choice.name, comment=comment, form=_form(form, left_s))
            try:
                answer_events(engine, run, answer, time.time())
            except AnswerRefused as refused:
                click.echo(f"  {printable(str(refused))}", err=True)
                continue
            return answer


def _chosen(question: Waiting, said: str) -> Choice | None:
    """The choice that a line names, by its name or the beginning of it."""
    matching = [c for c in question.choices if said and c.name.startswith(said.strip().lower())]
    exact = [choice for choice in matching if choice.name == said.strip().lower()]
    chosen = (exact or matching)[0] if exact or len(matching) == 1 else None
    if chosen is None:
        names = ", ".join(choice.name for choice in question.choices)
        click.echo(f"  please answer one of: {names}", err=True)
    elif chosen.closed:
        click.echo(f"  `{chosen.name}` is closed: {chosen.closed}", err=True)
        return None
    return chosen


def _comment(choice: Choice, left_s: float | None) -> str:
    if not choice.needs_comment:
        return ""
    return _line("What should change? ", left_s)


def _form(form: DataType, left_s: float | None) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    for name, field in (form.fields or {}).items():
        said = _line(f"{name}{_hint(field)}: ", left_s)
        if not said and not field.required:
            continue
        if field.scalar == "str":
            answers[name] = said
            continue
        try:
            answers[name] = json.loads(said)
        except ValueError:
            answers[name] = said
    return answers


def _hint(field: DataType) -> str:
    kind = " | ".join(field.values) if field.values else (field.scalar or "JSON")
    default = f", default {field.default}" if field.has_default else ""
    return f" ({kind}{default})"


def _line(prompt: str, left_s: float | None) -> str:
    """One line that the person types; raises Expired, EOFError, KeyboardInterrupt."""
    click.echo(prompt, nl=False, err=True)
    if left_s is not None and not select.select([sys.stdin], [], [], max(0.0, left_s))[0]:
        raise Expired
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.strip()
