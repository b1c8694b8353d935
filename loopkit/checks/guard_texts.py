"""The guards of a machine, parsed as far as they can be."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from loopkit.guard import Guard, GuardError, GuardProblem, expand, parse

Parsed = Guard | GuardProblem


class GuardTexts:
    """Parses each guard once; a guard that cannot be used is the problem that it has."""

    def __init__(self, named: Mapping[str, str]) -> None:
        self._texts = named

    @cached_property
    def named(self) -> Mapping[str, Parsed]:
        """The guards under `guards:`, by name."""
        parsed = {name: parsed_guard(text) for name, text in self._texts.items()}
        sound = {name: guard for name, guard in parsed.items() if isinstance(guard, Guard)}
        expanded = {name: _expanded(guard, sound) for name, guard in sound.items()}
        return {
            name: expanded[name] if isinstance(expanded.get(name), GuardProblem) else guard
            for name, guard in parsed.items()
        }

    @cached_property
    def usable(self) -> dict[str, Guard]:
        """The named guards that can be put in where they are named."""
        return {name: guard for name, guard in self.named.items() if isinstance(guard, Guard)}

    def used_by(self, guard: Guard) -> tuple[str, ...]:
        """The named guards that a guard names, also through others."""
        found: dict[str, None] = {}
        front = [guard]
        while front:
            new = sorted((front.pop().names & self._texts.keys()) - found.keys())
            found |= dict.fromkeys(new)
            front += [self.usable[name] for name in new if name in self.usable]
        return tuple(found)

    def whole(self, text: str) -> Guard | None:
        """A guard with its named guards put in; none where any part of it cannot be used."""
        guard = parsed_guard(text)
        if not isinstance(guard, Guard) or not self.usable.keys() >= {*self.used_by(guard)}:
            return None
        expanded = _expanded(guard, self.usable)
        return expanded if isinstance(expanded, Guard) else None

    def problem_of(self, text: str) -> GuardProblem | None:
        """What keeps a guard from being used, in its own text; nothing for faults in named ones."""
        guard = parsed_guard(text)
        if isinstance(guard, GuardProblem):
            return guard
        if not self.usable.keys() >= {*self.used_by(guard)}:
            return None
        expanded = _expanded(guard, self.usable)
        return expanded if isinstance(expanded, GuardProblem) else None


def parsed_guard(text: str) -> Parsed:
    try:
        return parse(text)
    except GuardError as error:
        return error.problem


def _expanded(guard: Guard, named: Mapping[str, Guard]) -> Parsed:
    try:
        return expand(guard, named)
    except GuardError as error:
        return error.problem
