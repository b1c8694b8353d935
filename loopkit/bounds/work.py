"""What the work of each state asks for: its author, or the judges of a report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Literal

from loopkit.definition import AgentState, CommandRule, FixedRule, JudgeRule, PythonRule, Rule
from loopkit.graph import EdgeEvent
from loopkit.guard.kleene import truth
from loopkit.program import validators_of
from loopkit.rows import Anatomy, Row
from loopkit.rows.facts import may_be_faulty, verdicts
from loopkit.rows.faults import is_given_up
from loopkit.rows.severity import levels_at, may_block

Price = Callable[[str, str], float | None]
"""(agent, place) -> USD that one call costs at most, or none where that is unknown.

The place is the state's name for an author, the validator's for a judge (`by[2]` inline)."""


@dataclass(frozen=True, slots=True)
class Work:
    """One agent asked for one thing, on one visit of a state."""

    agent: str
    place: str
    most_calls: int
    """With every retry and re-ask; the least is one."""
    call_usd: float | None
    """What one call costs at most."""


Asked = tuple[Work, ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """Who is asked at least, and who at most; the first are among the second."""

    least: Asked
    most: Asked
    how: Literal["", "blocked", "faulty"] = ""
    """Why judges are left out: by what a rule found or could not tell, or without an artifact."""


NOBODY = Spread((), ())
FAULTY = Spread((), (), "faulty")


@dataclass(frozen=True, slots=True)
class _Judge:
    rule: JudgeRule
    work: Work
    """One sample, or the second opinion: each is asked anew."""
    confirms: bool
    """A second opinion is asked where it fails."""

    @property
    def samples(self) -> Asked:
        return (self.work,) * self.rule.samples

    @property
    def second(self) -> Asked:
        return (self.work,) if self.confirms else ()


class Asking:
    """Who works on each visit of a state, and for how many calls."""

    def __init__(self, anatomy: Anatomy, price: Price) -> None:
        self._anatomy = anatomy
        self._price = price
        self._judges = {name: tuple(self._judges_at(name)) for name in anatomy.judges}

    def reach(self, name: str) -> Asked:
        """Everybody whom a state can ask on one visit."""
        state = self._anatomy.machine.states[name]
        if isinstance(state, AgentState):
            attempts = self._anatomy.machine.agents[state.agent].retry.attempts
            return (self._work(state.agent, name, attempts),)
        return tuple(judge.work for judge in self._judges.get(name, ()))

    def author(self, name: str) -> Spread:
        """Who is asked in a state that judges nothing."""
        asked = self.reach(name)
        return Spread(asked, asked)

    def verdicts(self, name: str, context: Row) -> frozenset[str]:
        """The verdicts that are possible with what the guards of rules read."""
        return frozenset(verdicts(self._anatomy, name, lambda rule: self._applies(rule, context)))

    def judging(self, name: str, row: Row) -> Iterator[Spread]:
        """Who may have been asked for a report: one for each way in which it can have come about.

        Judges are asked where no rule blocks or came to no verdict; those with `always` whatever
        the rules say. A faulty
        or infeasible artifact is shown to nobody. Whatever a second opinion says, the report has a
        finding then, or with a quorum a judge too few.
        """
        verdict, is_short = row.get("verdict"), self._anatomy.judges[name].quorum is not None
        if verdict in ("infeasible", "not_applicable"):
            yield NOBODY
        elif verdict == "fail":
            yield from self._failing(name, row)
        else:
            asked = self._asked(name, row)
            yield _spread(asked, with_second=verdict != "pass" or is_short)
            if verdict == "incomplete" and self._may_apply(FixedRule, name, row):
                yield _unjudged(asked)

    def broken(self, name: str, event: EdgeEvent, context: Row) -> Iterator[Spread]:
        """Who may have been asked where no report comes to the transitions."""
        asked = self._asked(name, context)
        everyone = _spread(asked)
        if event == "fatal" or (event == "content" and is_given_up(self._anatomy, name)):
            yield NOBODY
        programs = CommandRule | PythonRule
        is_command = event == "transient" and self._may_apply(programs, name, context)
        if event in ("fatal", "limit") or everyone.most or is_command:
            yield everyone
        if is_command:
            yield _unjudged(asked)

    def _may_apply(self, kinds: type | UnionType, name: str, context: Row) -> bool:
        rules = self._anatomy.rules_at[name]
        return any(isinstance(r, kinds) and self._applies(r, context) is not False for r in rules)

    def _failing(self, name: str, row: Row) -> Iterator[Spread]:
        rules = self._anatomy.rules_at[name]
        levels = levels_at(self._anatomy.machine, self._anatomy.judges[name])
        errors = [rule for rule in rules if may_block(rule, levels)]
        blocking = [rule for rule in errors if self._applies(rule, row) is not False]
        is_alone = row.get("error_count", 1) == 1 and not row.get("warning_count", 0)
        if is_alone and may_be_faulty(self._anatomy, name):
            yield FAULTY
        asked = self._asked(name, row)
        if any(isinstance(rule, FixedRule) for rule in blocking):
            yield _unjudged(asked)
        rejecting = [judge for judge, _ in asked if judge.rule in blocking]
        if rejecting:
            spread = _spread(asked)
            yield Spread(spread.least + _cheapest_second(rejecting), spread.most)

    def _asked(self, name: str, context: Row) -> list[tuple[_Judge, bool | None]]:
        """The judges that may be asked, each with whether it surely is."""
        asked = ((judge, self._applies(judge.rule, context)) for judge in self._judges[name])
        return [(judge, applies) for judge, applies in asked if applies is not False]

    def _applies(self, rule: Rule, context: Row) -> bool | None:
        if rule.guard is None:
            return True
        guard = self._anatomy.guards.whole(rule.guard)
        return truth(guard.tree, context) if guard else None

    def _judges_at(self, name: str) -> Iterator[_Judge]:
        machine, state = self._anatomy.machine, self._anatomy.judges[name]
        levels = levels_at(machine, state)
        for place, rules in validators_of(machine, state).items():
            for rule in rules:
                if isinstance(rule, JudgeRule):
                    calls = machine.agents[rule.judge].retry.attempts * (1 + rule.reask)
                    work = self._work(rule.judge, place, calls)
                    yield _Judge(rule, work, rule.confirm == "fail" and may_block(rule, levels))

    def _work(self, agent: str, place: str, calls: int) -> Work:
        return Work(agent, place, calls, self._price(agent, place))


def _spread(
    asked: Sequence[tuple[_Judge, bool | None]],
    *,
    with_second: bool = True,
    how: Literal["", "blocked"] = "",
) -> Spread:
    """All samples of these judges at least, and their second opinions at most."""
    least = (work for judge, applies in asked if applies for work in judge.samples)
    most = (
        work
        for judge, _ in asked
        for work in (*judge.samples, *(judge.second if with_second else ()))
    )
    return Spread(tuple(least), tuple(most), how)


def _cheapest_second(rejecting: Sequence[_Judge]) -> Asked:
    """The second opinion without which none of these judges can have failed, if there is one."""
    seconds = [judge.second for judge in rejecting]
    return min(seconds, key=lambda asked: (len(asked), sum(work.call_usd or 0 for work in asked)))


def _unjudged(asked: Sequence[tuple[_Judge, bool | None]]) -> Spread:
    """Those who are asked where a rule blocks or came to no verdict."""
    return _spread(
        [(judge, applies) for judge, applies in asked if judge.rule.always], how="blocked"
    )
