"""The person at the terminal: sees what is asked about, and answers."""

from __future__ import annotations

import json
import select
import sys
from typing import Any

import click

from loopkit.active import ActiveRun
from loopkit.datatypes import DataType, parse_fields
from loopkit.definition import HumanState
from loopkit.events import Choice, HumanAnswer, Waiting
from loopkit.questions import answer_events
from loopkit.review import review
from loopkit.text import printable
from loopkit.work.human import AnswerRefused


def at_terminal() -> bool:
    """Whether a person can be asked here."""
    return sys.stdin.isatty() and sys.stderr.isatty()


class Expired(Exception):
    """The question's time is over."""


class PersonAtTerminal:
    """Asks until there is an answer that the question takes."""

    def __init__(self) -> None:
        self.is_asking = False

    async def answer(self, active: ActiveRun, question: Waiting) -> HumanAnswer | None:
        """The answer; none where the question expired or the input ended."""
        click.echo("\n" + review(active.engine, active.state), err=True)
        state = active.program.machine.states.get(question.state)
        form = parse_fields(state.form) if isinstance(state, HumanState) else None
        self.is_asking = True
        try:
            return self._ask(active, question, form if question.call is None else None)
        except (Expired, EOFError):
            return None
        finally:
            self.is_asking = False

    def _ask(self, active: ActiveRun, question: Waiting, form: DataType | None) -> HumanAnswer:
        left_s = None if question.expires_at is None else question.expires_at - active.clock.now()
        while True:
            choice = _chosen(question, _line(_prompt(question), left_s))
            if choice is None:
                continue
            comment = _comment(choice, left_s)
            answer = HumanAnswer(choice=choice.name, comment=comment, form=_form(form, left_s))
            try:
                answer_events(active.engine, active.state, answer, active.clock.now())
            except AnswerRefused as refused:
                click.echo(f"  {printable(str(refused))}", err=True)
                continue
            return answer


def _prompt(question: Waiting) -> str:
    names = [choice.name for choice in question.choices if not choice.closed]
    return f"{printable(question.text)} [{'/'.join(names)}] "


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


def _form(form: DataType | None, left_s: float | None) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    for name, field in (form.fields or {}).items() if form else ():
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
        click.echo("", err=True)
        raise Expired
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.strip()
