"""Parsed guards of a machine, as far as each can be parsed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from loopkit.language.guard import Guard, GuardError, GuardProblem, expand, parse
from loopkit.proof.outcomes.input_parts import InputParts

Parsed = Guard | GuardProblem


class GuardTexts:
    """Parses each guard once; a guard that cannot be used is represented by its problem."""

    def __init__(self, named: Mapping[str, str], parts: InputParts) -> None:
        self._texts = named
        self._parts = parts
        self._whole: dict[str, Guard | None] = {}

    @cached_property
    def named(self) -> Mapping[str, Parsed]:
        """The guards under `guards:`, by name."""
        return {
            name: _fault_of(guard, self._readable) or guard for name, guard in self._parsed.items()
        }

    @cached_property
    def reached(self) -> Mapping[str, frozenset[str]]:
        """The named guards that each readable one uses, also through others."""
        return {
            name: _guards_reachable_from(guard, self._readable)
            for name, guard in self._readable.items()
        }

    @cached_property
    def _parsed(self) -> Mapping[str, Parsed]:
        return {name: parse_or_problem(text) for name, text in self._texts.items()}

    @cached_property
    def _readable(self) -> Mapping[str, Guard]:
        return {name: guard for name, guard in self._parsed.items() if isinstance(guard, Guard)}

    @cached_property
    def usable(self) -> dict[str, Guard]:
        """The named guards that can be expanded."""
        return {name: guard for name, guard in self.named.items() if isinstance(guard, Guard)}

    def named_guards_in(self, guard: Guard) -> frozenset[str]:
        """The readable named guards that a guard names, also through others."""
        return _guards_reachable_from(guard, self._readable)

    def is_usable(self, guard: Guard) -> bool:
        """Whether every named guard that a guard names can be expanded."""
        names = guard.names.union(
            *(self._readable[name].names for name in self.named_guards_in(guard))
        )
        return self.usable.keys() >= names & self._texts.keys()

    def whole(self, text: str) -> Guard | None:
        """A guard with named guards and parts expanded; None if any of them cannot be used."""
        if text not in self._whole:
            self._whole[text] = self._assemble(text)
        return self._whole[text]

    def _assemble(self, text: str) -> Guard | None:
        guard = parse_or_problem(text)
        if not isinstance(guard, Guard) or not self.is_usable(guard):
            return None
        expanded = _expand_or_problem(guard, self.usable)
        return self._parts.substitute(expanded) if isinstance(expanded, Guard) else None

    def problem_of(self, text: str) -> GuardProblem | None:
        """The problem in a guard's own text; None if there is none, or it is in a named guard."""
        guard = parse_or_problem(text)
        if isinstance(guard, GuardProblem):
            return guard
        return _fault_of(guard, self.usable) if self.is_usable(guard) else None


def parse_or_problem(text: str) -> Parsed:
    try:
        return parse(text)
    except GuardError as error:
        return error.problem


def _expand_or_problem(guard: Guard, named: Mapping[str, Guard]) -> Parsed:
    try:
        return expand(guard, named)
    except GuardError as error:
        return error.problem


def _fault_of(parsed: Parsed, named: Mapping[str, Guard]) -> GuardProblem | None:
    expanded = _expand_or_problem(parsed, named) if isinstance(parsed, Guard) else parsed
    return expanded if isinstance(expanded, GuardProblem) else None


def _guards_reachable_from(guard: Guard, named: Mapping[str, Guard]) -> frozenset[str]:
    found: set[str] = set()
    front = [guard]
    while front:
        new = (front.pop().names & named.keys()) - found
        found |= new
        front += [named[name] for name in new]
    return frozenset(found)
