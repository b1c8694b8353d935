"""Causes of an outcome: for a report, who has to find something in the artifact.

Of all causes of a step, the plainest is taken: no standstill, few findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

from loopkit.language import Rule, ValidateState
from loopkit.language.facts import CODES, COUNTS, ERRORS, ORIGIN, REGRESSED, STALLED, VERDICT
from loopkit.language.guard import expand, parse
from loopkit.language.guard.kleene import truth
from loopkit.machine.program import Program
from loopkit.proof.bounds.moves import Case
from loopkit.proof.outcomes import Row
from loopkit.proof.outcomes.severity import levels_at, may_block, may_warn
from loopkit.testing.suggesting.ways import Step

By = Literal["", "artifact", "text", "command", "judge", "author"]
"""Who finds what a report says: nobody; a fault of the answer; a rule on the text; a command; a
judge; the author, who declares that it can't be done."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause of a step."""

    row: Row = field(default_factory=dict)
    """The facts that its work should leave."""
    by: By = ""
    place: str = ""
    """The validator, if one brings it about; "" stands for all."""

    @property
    def verdict(self) -> str:
        """The verdict of a report; "" where there is none."""
        return str(self.row.get(VERDICT, ""))

    @property
    def is_stalled(self) -> bool:
        return self.row.get(STALLED) is True


class NoCause(Exception):
    """No case can bring a step about."""

    def __init__(self, step: Step) -> None:
        edge = f"takes {step.edge}" if step.edge else "stops where an error suspends the run"
        super().__init__(f"nothing that a case can say makes sure that `{step.source}` {edge}")
        self.step = step


def plainest(step: Step) -> Cause:
    """The plainest cause of a step that judges nothing."""
    return Cause(min(step.move.cases, key=_oddness).row)


def applicable_rules(
    program: Program, state: ValidateState, facts: Mapping[str, object]
) -> dict[str, list[Rule]]:
    """The rules of a validate state that apply or may apply, by validator.

    `facts` are those that guards of rules read, as far as they are known.
    """

    def applies(rule: Rule) -> bool:
        if rule.guard is None:
            return True
        guard = expand(parse(rule.guard), program.named_guards)
        return truth(guard.tree, facts) is not False

    asked = program.validators_of(state).items()
    return {place: [rule for rule in rules if applies(rule)] for place, rules in asked}


def breakable(
    program: Program, state: ValidateState, rules: Sequence[Rule], row: Row
) -> Sequence[Rule]:
    """The rules whose findings give a report its facts: those with its earliest origin, and also
    those with a later one if the former alone do not give the rest."""
    levels, origin = levels_at(program.machine, state), row.get(ORIGIN)
    match row.get(VERDICT):
        case "fail":
            rules = [rule for rule in rules if may_block(rule, levels)]
        case "warn":
            rules = [rule for rule in rules if may_warn(rule, state, levels)]
    if not isinstance(origin, str):
        return rules
    authors, origins = program.graph.artifacts.get(state.validate_, ()), program.graph.origins
    sent = [{to for who in authors for to in origins.earliest_of(rule, who)} for rule in rules]
    first = [rule for rule, to in zip(rules, sent, strict=True) if origin in to]
    count = row.get(ERRORS)
    is_several = isinstance(count, int | float) and count > 1
    if not first or (not is_several and _gives(first, row)):
        return first
    every = frozenset[str]().union(*sent)
    known = {origin, *origins.later_than(origin, every)}
    return [rule for rule, to in zip(rules, sent, strict=True) if to & known]


def cause_of_report(program: Program, step: Step, asked: Mapping[str, Sequence[Rule]]) -> Cause:
    """The plainest cause of a report; raises NoCause."""
    state = program.graph.judges[step.source]
    judging = _Judging(program, state, asked)
    for cause in judging.causes(step, program.plans[step.source].rows):
        return cause
    raise NoCause(step)


def _oddness(case: Case) -> tuple[bool, bool, int, bool]:
    """A sort key that puts plain cases first: no standstill, few findings, no report by chance."""
    row = case.row
    counts = [row.get(count, 0) for count in COUNTS]
    many = sum(int(count) for count in counts if isinstance(count, int | float))
    odd = bool(row.get(STALLED)), bool(row.get(REGRESSED))
    return *odd, many, case.spread.how == "faulty"


@dataclass(frozen=True)
class _Judging:
    """The causes of a report."""

    program: Program
    state: ValidateState
    asked: Mapping[str, Sequence[Rule]]

    def causes(self, step: Step, takes: frozenset[str]) -> Iterator[Cause]:
        """`takes` are the reports without a judgement that the transitions of the state take."""
        event = step.move.event
        if event == "limit":
            yield Cause(by="judge")
        elif event == "done":
            for case in sorted(step.move.cases, key=_oddness):
                yield from self._of_case(case)
        else:
            if "incomplete" not in takes:
                yield from self._causes_by({}, ("judge",) if event == "content" else OTHERS)
            if event == "content":
                yield Cause(by="author")

    def _of_case(self, case: Case) -> Iterator[Cause]:
        match case.row.get(VERDICT), case.spread.how:
            case "fail", "faulty":
                yield Cause(case.row, "artifact")
            case "fail", "blocked":
                yield from self._causes_by(case.row, ("text", "command"))
            case "fail", _:
                yield from self._causes_by(case.row, ("judge",))
            case "warn", _:
                yield from self._causes_by(case.row, ("text", "command", "judge"))
            case "incomplete", _:
                yield from self._causes_by(case.row, OTHERS)
            case "infeasible", _:
                yield Cause(case.row, "author")
            case _:
                yield Cause(case.row)

    def _causes_by(self, row: Row, by: Sequence[By]) -> Iterator[Cause]:
        """A cause for each validator that can find it."""
        for one in by:
            found = {place: self._breakable(rules, one, row) for place, rules in self.asked.items()}
            places = [place for place, rules in found.items() if rules]
            if one == "judge" and places and self._is_panel:
                # A single judge may be outvoted, or the others may be enough.
                places.insert(0, "")
            elif one == "text" and self.state.stop is None:
                places = [""]
            every = self._breakable([*chain.from_iterable(self.asked.values())], one, row)
            for place in places:
                if _gives(found.get(place, every), row):
                    yield Cause(row, one, place)

    def _breakable(self, rules: Sequence[Rule], by: By, row: Row) -> Sequence[Rule]:
        played = [rule for rule in rules if (rule.played or "text") == by]
        return breakable(self.program, self.state, played, row)

    @property
    def _is_panel(self) -> bool:
        return self.state.combine == "majority" or self.state.quorum is not None


OTHERS: Sequence[By] = ("judge", "command")
"""The kinds that can fail to give a verdict."""


def _gives(rules: Sequence[Rule], row: Row) -> bool:
    """Whether rules can give the codes that a report should have."""
    wanted = row.get(CODES)
    if not isinstance(wanted, frozenset) or not wanted:
        return bool(rules)
    given = [rule.codes for rule in rules]
    return None in given or wanted <= frozenset[str]().union(*(codes or () for codes in given))
