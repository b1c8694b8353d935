"""Unwritten parts of a case: each `todo` in its replies, results and answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loopkit.document.problems import Problem
from loopkit.language.load import DocPath, Source
from loopkit.scenario.cases import PARTS, Scenario
from loopkit.scenario.script import Attempts, Unwritten

Role = Sequence[Any] | Mapping[str, Attempts]
Found = Iterator[tuple[DocPath, str, Unwritten]]
"""Where it stands, and what it is called."""


def unwritten(scenario: Scenario, source: Source, case: str | None) -> Iterator[Problem]:
    """What is left to be written of a case and of what it shares with others.

    None stands for a scenario without cases.
    """
    own = scenario if case is None else (scenario.cases or {})[case]
    for part in PARTS:
        shared, mine = getattr(scenario, part), getattr(own, part)
        for name, role in {**shared, **mine}.items():
            is_own = case is not None and name in mine
            at: DocPath = ("cases", case or "", part) if is_own else (part,)
            for path, called, one in _of_role(part, name, role):
                if one.todo:
                    yield todo_problem(source, (*at, *path), called, one.todo)


def _of_role(part: str, name: str, role: Role) -> Found:
    if part != "agents":
        kind = "result" if part == "commands" else "answer"
        for index, one in enumerate(role):
            for each in (*getattr(one, "earlier", ()), one):
                yield (name, index), f"{kind} {index + 1} of `{name}`", each
    elif isinstance(role, Mapping):
        for place, attempts in role.items():
            yield from _of_attempts((name, place), f"`{name}` at `{place}`", attempts)
    else:
        yield from _of_attempts((name,), f"`{name}`", tuple(role))


def _of_attempts(at: DocPath, who: str, attempts: Attempts) -> Found:
    for index, calls in enumerate(attempts):
        for number, call in enumerate(calls):
            path = (*at, index) if len(calls) == 1 else (*at, index, number)
            yield path, f"reply {index + 1} of {who}", call


def todo_problem(source: Source, path: DocPath, called: str, todo: str) -> Problem:
    """That something is still to be written; the remedy is what is written there about it."""
    message = f"{called} is still to be written"
    return source.problem((*path, "todo"), "todo", message, help=todo.rstrip(), key=True)
