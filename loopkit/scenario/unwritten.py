"""Unwritten parts of a case: each `todo` in its replies, results and answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loopkit.document.document import DocPath
from loopkit.document.problems import Problem
from loopkit.language.load import Source
from loopkit.scenario.cases import Scenario
from loopkit.scenario.in_children import InChild
from loopkit.scenario.parts import PARTS, ChildParts, Parts
from loopkit.scenario.script import Attempts, Unwritten

Role = Sequence[Any] | Mapping[str, Attempts]
Found = Iterator[tuple[DocPath, str, Unwritten]]
"""Each with its place, and its name in messages."""


def unwritten(scenario: Scenario, source: Source, case: str | None) -> Iterator[Problem]:
    """A problem for each unwritten part of a case and of what it shares with others.

    `case` is None for a scenario without cases.
    """
    own = scenario if case is None else (scenario.cases or {})[case]
    at: DocPath = () if case is None else ("cases", case)
    for path, called, one in (*_in_run(own, at), *_in_shared_parts(scenario, own)):
        if one.todo:
            yield todo_problem(source, path, called, one.todo)


def _in_shared_parts(scenario: Scenario, own: Parts) -> Found:
    """The shared parts that a case does not replace by its own."""
    if own is scenario:
        return
    names = {part: getattr(own, part) for part in PARTS}
    for path, called, one in _of_parts(scenario, ()):
        if path[1] not in names[str(path[0])]:
            yield path, called, one
    for child in scenario.in_children:
        mine, is_keyed = own.children.get(child.state), bool(child.key)
        if mine is None or (is_keyed and isinstance(mine, Mapping) and child.key not in mine):
            yield from _in_child(child, ())


def _in_run(parts: Parts, at: DocPath) -> Found:
    yield from _of_parts(parts, at)
    for child in parts.in_children:
        yield from _in_child(child, at)


def _in_child(child: InChild[ChildParts], at: DocPath) -> Found:
    for path, called, one in _in_run(child.said, (*at, *child.at)):
        yield path, f"{called} in `{child.called}`", one


def _of_parts(parts: Parts, at: DocPath) -> Found:
    for part in PARTS:
        for name, role in getattr(parts, part).items():
            for path, called, one in _of_role(part, name, role):
                yield (*at, part, *path), called, one


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
    """The problem of an unwritten part; its remedy is the text of the `todo`."""
    message = f"{called} is still to be written"
    return source.problem((*path, "todo"), "todo", message, help=todo.rstrip(), key=True)
