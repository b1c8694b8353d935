"""Judges of a state in two definitions: where the answers that they have given belong now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from loopkit.engine.state import RunState
from loopkit.language import JudgeRule, Machine, ValidateState
from loopkit.machine.program import validators_of


@dataclass(frozen=True, slots=True)
class _Seat:
    """A judge's place in the panel of a state."""

    validator: str
    index: int
    rule: JudgeRule
    owner: tuple[str, str]
    """The validator, where it has a name, and who is asked."""

    @property
    def place(self) -> str:
        return f"{self.validator}:{self.index}"


def moved_tasks(run: RunState, old: Machine, new: Machine) -> dict[str, str]:
    """The new name of each task of the visit in hand whose judge stands elsewhere now.

    It is empty where nobody is asked that any more, so that no other judge takes the answer.
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
    if not isinstance(state, ValidateState):
        return
    for validator, rules in validators_of(machine, state).items():
        named = validator if validator in machine.validators else ""
        for index, rule in enumerate(rules):
            if isinstance(rule, JudgeRule):
                yield _Seat(validator, index, rule, (named, rule.judge))


def _moves(before: Iterable[_Seat], after: Iterable[_Seat]) -> Iterator[tuple[str, str]]:
    """Each place with the one of the same judge: of one with the same words, else of the first."""
    free, left = list(after), []
    for seat in before:
        same = next((s for s in free if (s.owner, s.rule) == (seat.owner, seat.rule)), None)
        if same is None:
            left.append(seat)
        else:
            free.remove(same)
            yield seat.place, same.place
    for seat in left:
        heir = next((s for s in free if s.owner == seat.owner), None)
        if heir is not None:
            free.remove(heir)
            yield seat.place, heir.place
