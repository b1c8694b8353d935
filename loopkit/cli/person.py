"""The person at the terminal: sees the review of a question, and answers it.

What applies beside the choice, `--origin` and `--set limits.K=V`, is read as on a command line.
"""

from __future__ import annotations

import select
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from socket import socket
from typing import Any, TextIO

import click

from loopkit.agents.port import NotRunnable
from loopkit.cli.inputs import as_type, read_text
from loopkit.cli.terminal import USAGE, Stop, echo, misuse, say, with_options
from loopkit.drive.answers import AnswerRefused, consider_answer, step_of_answer
from loopkit.drive.repair import RAISABLE, new_limits
from loopkit.engine.events import Waiting
from loopkit.engine.macrostep import Engine
from loopkit.engine.payloads import Choice, HumanAnswer
from loopkit.engine.state import RunState
from loopkit.language.datatypes.datatype import DataType, describe_type, misfit
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.json_schema import schema_faults
from loopkit.text import printable
from loopkit.views.review import choice_lines, review

WAKING_BYTES = 4096
"""More than the bytes of the signals that can have come, each of which leaves one."""
Ask = Callable[[str], str]
beside_options = with_options(
    click.option(
        "--origin", "origins", multiple=True, metavar="FINDING=STATE",
        help="The state that has to fix a finding of the last report.",
    ),
    click.option(
        "--set", "sets", multiple=True, metavar="limits.K=V", help="Raise the total of revisions."
    ),
)  # fmt: skip
_ASKED_NEXT = "type the choice alone: a comment and everything else are asked for next"


def at_terminal() -> bool:
    streams = (sys.stdin, sys.stderr)
    # A closed stream is None.
    return all(stream is not None and stream.isatty() for stream in streams)


class Expired(Exception):
    """The question has expired."""


class PersonAtTerminal:
    def __init__(
        self,
        paused: Callable[[], AbstractContextManager[None]] = nullcontext,
        woken: socket | None = None,
    ) -> None:
        """`paused` keeps everybody else off the terminal while the person is asked.

        `woken` can be read once there was a signal.
        """
        self._paused = paused
        self._woken = woken
        self.is_asking = False

    async def answer(self, engine: Engine, run: RunState, place: str = "") -> HumanAnswer | None:
        """The answer; none where the question expired, the input ended, or Ctrl-C was pressed.

        `place` says which child asks.
        """
        question = run.question
        if question is None:
            return None
        told = review(engine, run)
        state = engine.program.machine.states.get(question.state)
        asked = state.asked_form if state and question.call is None else None
        with self._paused():
            say(f"\n{place}\n{told}" if place else f"\n{told}")
            self.is_asking = True
            try:
                return self._ask(engine, run, question, parse_record(asked or {}))
            except (Expired, EOFError, KeyboardInterrupt):
                echo("", err=True)
                return None
            finally:
                self.is_asking = False

    def _ask(self, engine: Engine, run: RunState, question: Waiting, form: DataType) -> HumanAnswer:
        ask = partial(_line, until=question.expires_at, woken=self._woken)
        beside = HumanAnswer(choice="")
        while True:
            choice, beside = self._choice(engine, run, question, beside, ask("Your choice: "))
            if choice is None:
                continue
            answer = beside.replace(
                choice=choice.name,
                comment=_comment(choice, ask),
                form=_form(form, ask),
                edit=_edit(question, ask),
            )
            try:
                step_of_answer(engine, run, answer, time.time())
            except AnswerRefused as refused:
                echo(f"  {printable(str(refused))}", err=True)
                continue
            return answer

    @staticmethod
    def _choice(
        engine: Engine, run: RunState, question: Waiting, beside: HumanAnswer, line: str
    ) -> tuple[Choice | None, HumanAnswer]:
        """The choice that a line makes, if any, and the options given so far."""
        try:
            words = read_words(line)
            said = beside.replace(
                origins=beside.origins | words.origins, limits=beside.limits | words.limits
            )
            choices = _choices_after(engine, run, question, said)
        except (Stop, AnswerRefused) as refused:
            echo(f"  {printable(str(refused))}", err=True)
            return None, beside
        if words.choice or said == beside:
            return _match_choice(choices, words.choice), said
        for told in choice_lines(choices):
            echo(told, err=True)
        return None, said


def _choices_after(
    engine: Engine, run: RunState, question: Waiting, said: HumanAnswer
) -> tuple[Choice, ...]:
    """The choices after these options are applied; raises AnswerRefused."""
    if question.call is not None or not (said.origins or said.limits):
        return question.choices
    return engine.questions.choices(consider_answer(engine, run, said)[1])


def _match_choice(choices: Sequence[Choice], said: str) -> Choice | None:
    """The choice that a word names, by its name or the beginning of it."""
    matching = [c for c in choices if said and c.name.startswith(said.lower())]
    exact = [choice for choice in matching if choice.name == said.lower()]
    chosen = (exact or matching)[0] if exact or len(matching) == 1 else None
    if chosen is None:
        fits = f"`{said}` fits several of them; " if matching else ""
        names = ", ".join(choice.name for choice in matching or choices)
        echo(f"  {fits}please answer one of: {names}", err=True)
    elif chosen.closed:
        echo(f"  `{chosen.name}` is closed: {chosen.closed}", err=True)
        return None
    return chosen


def _comment(choice: Choice, ask: Ask) -> str:
    if not choice.takes_comment:
        return ""
    while not (said := ask("What should change? ")) and choice.needs_comment:
        echo("  a comment is needed: it becomes the feedback", err=True)
    return said


def _form(form: DataType, ask: Ask) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    for name, field in (form.fields or {}).items():
        while said := ask(f"{name} ({describe_type(field)}): ") or field.required:
            value = "" if said is True else as_type(str(said), field)
            faults = schema_faults(value, field.schema) if value != "" else [("", "is needed")]
            if not faults:
                answers[name] = value
                break
            fault = faults[0][1]
            if value != "":
                # In the words of its type, if there are any.
                fault = misfit(value, field) or f"does not fit: {fault}"
            echo(f"  `{name}` {printable(fault)}", err=True)
    return answers


def _edit(question: Waiting, ask: Ask) -> str | None:
    while question.edit is not None:
        said = ask(f"File with your version of {question.edit} (empty: leave it as it is): ")
        if not said:
            return None
        try:
            return read_text(Path(said).expanduser())
        except (Stop, RuntimeError) as error:
            echo(f"  {printable(str(error))}", err=True)
    return None


def _line(prompt: str, until: float | None, woken: socket | None) -> str:
    """One line that the person types; raises Expired, EOFError, KeyboardInterrupt."""
    echo(prompt, nl=False, err=True)
    # Not read at once: a Ctrl-C that comes right before would be noticed only after the line.
    awaited: list[TextIO | socket] = [sys.stdin] if woken is None else [sys.stdin, woken]
    while True:
        left_s = None if until is None else max(0.0, until - time.time())
        readable = select.select(awaited, [], [], left_s)[0]
        if sys.stdin in readable:
            break
        if not readable:
            raise Expired
        if woken is not None:
            woken.recv(WAKING_BYTES)
    try:
        line = sys.stdin.readline()
    except UnicodeDecodeError:
        echo(f"  that is not {sys.stdin.encoding}, which is read here", err=True)
        return _line(prompt, until, woken)
    if not line:
        raise EOFError
    return line.strip()


def read_words(line: str) -> HumanAnswer:
    """The choice and the options in a line; either may be missing. Raises Stop."""
    try:
        read = _words.make_context("answer", shlex.split(line)).params
    except ValueError as error:
        raise Stop(USAGE, f"that can't be read: {error}") from error
    except click.UsageError as error:
        raise Stop(USAGE, _misread(error)) from error
    origins = parse_origins(read["origins"])
    limits = parse_limits(read["sets"])
    return HumanAnswer(choice=read["choice"] or "", origins=origins, limits=limits)


def _misread(error: click.UsageError) -> str:
    """What is wrong with a line; of more than the choice and its options, where that belongs."""
    message = error.format_message()
    is_unknown = isinstance(error, click.NoSuchOption) and not error.possibilities
    if is_unknown or "unexpected extra argument" in message:
        return f"{message.rstrip('.')}; {_ASKED_NEXT}"
    return message


@click.command(add_help_option=False)
@click.argument("choice", required=False)
@beside_options
def _words(choice: str | None, origins: tuple[str, ...], sets: tuple[str, ...]) -> None:
    """The command that parses the line; it does nothing itself."""


def parse_origins(written: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The states that `--origin FINDING=STATE` names; a finding may have several."""
    origins: dict[str, tuple[str, ...]] = {}
    for each in written:
        finding, equals, state = each.rpartition("=")
        if not (equals and finding and state):
            raise misuse(f"`--origin {each}`: write `--origin FINDING=STATE`")
        origins[finding] = (*origins.get(finding, ()), state)
    return origins


def parse_limits(sets: tuple[str, ...]) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    for written in sets:
        key, equals, value = written.partition("=")
        name = key.removeprefix("limits.")
        if not equals or not key.startswith("limits."):
            raise misuse(
                f"`--set {written}`: only limits can change: write `--set "
                f"limits.{key if key in RAISABLE else 'NAME'}={value or 'VALUE'}`"
            )
        limits[name] = _amount(name, value) if name in RAISABLE else value
    try:
        return new_limits(limits)
    except NotRunnable as error:
        raise misuse(str(error)) from error


def _amount(name: str, text: str) -> Any:
    if name == "time":
        return text
    try:
        return float(text) if name == "cost_usd" else int(text)
    except ValueError as error:
        raise misuse(f"`{text}` is not a number for `limits.{name}`") from error
