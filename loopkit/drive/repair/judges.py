"""Judges of a state in two definitions: the judge that each answer belongs to now."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from loopkit.engine.state import RunState
from loopkit.language import Machine, Rule
from loopkit.machine.asked import validators_of


@dataclass(frozen=True, slots=True)
class _Seat:
    """A judge's place in the panel of a state."""

    validator: str
    index: int
    rule: Rule
    owner: tuple[str, str]
    """The validator, if it has a name, and the agent that is asked."""

    @property
    def place(self) -> str:
        return f"{self.validator}:{self.index}"


def task_moves(run: RunState, old: Machine, new: Machine) -> dict[str, str]:
    """The new name of each task of the current visit whose judge has another place now.

    It is empty if the judge is gone, so that no other judge takes its answer.
    """
    before, after = (list(_seats(machine, run.state)) for machine in (old, new))
    places = dict(_moves(before, after))
    prefix = f"{run.state}:{run.visit}:judge:"
    moved: dict[str, str] = {}
    for task in run.tasks:
        if task.startswith(prefix):
            validator, index, *number = task.removeprefix(prefix).split(":")
            place = places.get(f"{validator}:{index}", "")
            name = prefix + ":".join((place, *number)) if place else ""
            if name != task:
                moved[task] = name
    return moved


def _seats(machine: Machine, name: str) -> Iterator[_Seat]:
    state = machine.states.get(name)
    if state is None:
        return
    for validator, rules in validators_of(machine, state).items():
        named = validator if validator in machine.validators else ""
        for index, rule in enumerate(rules):
            if rule.asks is not None:
                yield _Seat(validator, index, rule, (named, rule.asks))


def _moves(before: Sequence[_Seat], after: Sequence[_Seat]) -> Iterator[tuple[str, str]]:
    """Each place with the new one of the same judge: one with equal words, else the first."""
    of_words = list(_pair(before, after, lambda seat: (seat.owner, seat.rule.model_dump_json())))
    gone, taken = {seat.place for seat, _ in of_words}, {heir.place for _, heir in of_words}
    left = [seat for seat in before if seat.place not in gone]
    free = [seat for seat in after if seat.place not in taken]
    for seat, heir in (*of_words, *_pair(left, free, lambda seat: seat.owner)):
        yield seat.place, heir.place


def _pair(
    before: Iterable[_Seat], after: Iterable[_Seat], key: Callable[[_Seat], object]
) -> Iterator[tuple[_Seat, _Seat]]:
    """Those that have a key in common, the first with the first."""
    free: dict[object, deque[_Seat]] = {}
    for seat in after:
        free.setdefault(key(seat), deque()).append(seat)
    for seat in before:
        if heirs := free.get(key(seat)):
            yield seat, heirs.popleft()
