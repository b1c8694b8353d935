"""What the work of one step should come to, and who should bring it about: all ways to try."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from loopkit.language import CommandRule, JudgeRule, Machine, RenderState, Rule, ValidateState
from loopkit.machine.program import Program, validators_of
from loopkit.proof.bounds.moves import Case
from loopkit.proof.outcomes import Row
from loopkit.testing.suggesting.ways import Step

By = Literal["", "artifact", "text", "command", "judge", "author"]
"""Who finds what a report says: nobody; a fault of the answer; a rule on the text; a command; a
judge; the author, who declares that it can't be done."""


@dataclass(frozen=True, slots=True)
class Want:
    """One way to bring a step about."""

    step: Step
    row: Row = field(default_factory=dict)
    """The facts that its work should leave."""
    by: By = ""
    place: str = ""
    """The validator, where a command or a judge brings it about; of judges "" stands for all."""

    @property
    def verdict(self) -> str | None:
        """The verdict of a report, where guards tell it apart."""
        verdict = self.row.get("verdict")
        return verdict if isinstance(verdict, str) else None

    @property
    def is_stalled(self) -> bool:
        return self.row.get("stalled") is True


def wants_of(program: Program, step: Step) -> tuple[Want, ...]:
    """All ways to bring a step about, the plainest first; none where no case can play it.

    A template that fails is nothing that somebody says.
    """
    machine = program.machine
    state = machine.states[step.source]
    if isinstance(state, RenderState) and step.move.event == "fatal":
        return ()
    if not isinstance(state, ValidateState):
        return tuple(Want(step, case.row) for case in sorted(step.move.cases, key=_oddness))
    found: list[Want] = []
    for want in _Judging(machine, state, step, program.rows_named[step.source]).wants():
        if want not in found:
            found.append(want)
    return tuple(found)


def _oddness(case: Case) -> tuple[bool, bool, int, bool]:
    """What is plain comes first: no standstill, few findings, no report by chance."""
    row = case.row
    counts = [row.get("error_count", 0), row.get("warning_count", 0)]
    many = sum(int(count) for count in counts if isinstance(count, int | float))
    odd = bool(row.get("stalled")), bool(row.get("regressed"))
    return *odd, many, case.spread.how == "faulty"


class _Judging:
    """The ways in which a report can come about."""

    def __init__(
        self, machine: Machine, state: ValidateState, step: Step, takes: frozenset[str]
    ) -> None:
        """`takes` says which reports without a judgement its transitions take."""
        self._levels = machine.levels.counted_from(state.block)
        self._step = step
        asked = validators_of(machine, state)
        self._is_panel = state.combine == "majority" or state.quorum is not None
        self._takes_incomplete = "incomplete" in takes
        self._rules = [(place, rule) for place, rules in asked.items() for rule in rules]

    def wants(self) -> Iterator[Want]:
        event = self._step.move.event
        if event != "done":
            yield from self._broken()
            return
        for case in sorted(self._step.move.cases, key=_oddness):
            yield from self._of_case(case)

    def _of_case(self, case: Case) -> Iterator[Want]:
        match case.row.get("verdict"), case.spread.how:
            case "fail", "faulty":
                yield self._want(case.row, "artifact")
            case "fail", "blocked":
                yield from self._found(case.row, ("text", "command"), is_blocking=True)
            case "fail", _:
                yield from self._found(case.row, ("judge",), is_blocking=True)
            case "warn", _:
                yield from self._found(case.row, ("text", "command", "judge"), is_blocking=False)
            case "incomplete", _:
                yield from self._found(case.row, ("judge", "command"), is_blocking=None)
            case "infeasible", _:
                yield self._want(case.row, "author")
            case _:
                yield self._want(case.row, "")

    def _broken(self) -> Iterator[Want]:
        if not self._takes_incomplete:
            yield from self._found({}, self._breakers, is_blocking=None)
        if self._step.move.event == "content":
            yield self._want({}, "author")

    @property
    def _breakers(self) -> Sequence[By]:
        """Who can end the judging with such an error."""
        return ("judge",) if self._step.move.event == "content" else ("judge", "command")

    def _found(self, row: Row, by: Sequence[By], *, is_blocking: bool | None) -> Iterator[Want]:
        """One for each validator that can find it; rules on texts stand for all of them."""
        for one in by:
            places = [
                place for place, rule in self._rules
                if _kind(rule) == one and self._is_as(rule, is_blocking)
            ]  # fmt: skip
            for place in self._places(one, places):
                yield self._want(row, one, place)

    def _places(self, by: By, places: Sequence[str]) -> Sequence[str]:
        """Each validator; all rules on texts as one, and all judges too where they may differ."""
        if not places or by == "text":
            return ("",) if places else ()
        # One judge may be outvoted, or be one of several of whom enough have answered.
        return ("", *places) if by == "judge" and self._is_panel else places

    def _is_as(self, rule: Rule, is_blocking: bool | None) -> bool:
        if is_blocking is None:
            return True
        blocks = self._levels.blocks(rule.severity or self._levels.ungraded)
        return blocks if is_blocking else not blocks or isinstance(rule, JudgeRule)

    def _want(self, row: Row, by: By, place: str = "") -> Want:
        return Want(self._step, row, by, place)


def _kind(rule: Rule) -> By:
    return (
        "judge" if isinstance(rule, JudgeRule)
        else "command" if isinstance(rule, CommandRule)
        else "text"
    )  # fmt: skip
