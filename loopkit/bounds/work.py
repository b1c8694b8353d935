"""What the work of each state asks for: its author, or the judges of a report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from loopkit.definition import AgentState, CommandRule, FixedRule, JudgeRule, Rule
from loopkit.graph import EdgeEvent
from loopkit.guard.kleene import truth
from loopkit.program import validators_of
from loopkit.rows import Anatomy, Row
from loopkit.rows.facts import may_be_faulty, verdicts
from loopkit.rows.faults import is_given_up

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
    """Of a failing report: why judges are left out. A rule blocked, or there was no artifact."""


NOBODY = Spread((), ())
FAULTY = Spread((), (), "faulty")


@dataclass(frozen=True, slots=True)
class _Judge:
    rule: JudgeRule
    work: Work


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

        Judges are asked where no rule blocks; those with `always` also where one does. A faulty
        or infeasible artifact is shown to nobody.
        """
        verdict = row.get("verdict")
        if verdict in ("infeasible", "not_applicable"):
            yield NOBODY
        elif verdict == "fail":
            yield from self._failing(name, row)
        else:
            yield self._asked(name, row)

    def broken(self, name: str, event: EdgeEvent, context: Row) -> Iterator[Spread]:
        """Who may have been asked where no report comes to the transitions."""
        everyone = self._asked(name, context)
        if event == "fatal" or (event == "content" and is_given_up(self._anatomy, name)):
            yield NOBODY
        is_command = event == "transient" and self._may_run_command(name, context)
        if event in ("fatal", "limit") or everyone.most or is_command:
            yield everyone

    def _may_run_command(self, name: str, context: Row) -> bool:
        rules = self._anatomy.rules_at[name]
        return any(
            isinstance(r, CommandRule) and self._applies(r, context) is not False for r in rules
        )

    def _failing(self, name: str, row: Row) -> Iterator[Spread]:
        rules = self._anatomy.rules_at[name]
        errors = [rule for rule in rules if rule.severity == "error"]
        blocking = [rule for rule in errors if self._applies(rule, row) is not False]
        is_alone = row.get("error_count", 1) == 1 and not row.get("warning_count", 0)
        if is_alone and may_be_faulty(self._anatomy, name):
            yield FAULTY
        if any(isinstance(rule, FixedRule) for rule in blocking):
            asked = self._asked(name, row, lambda judge: judge.rule.always)
            yield Spread(asked.least, asked.most, "blocked")
        if any(isinstance(rule, JudgeRule) for rule in blocking):
            yield self._asked(name, row)

    def _asked(
        self, name: str, context: Row, among: Callable[[_Judge], bool] = lambda _: True
    ) -> Spread:
        applying = [
            (judge.work, self._applies(judge.rule, context))
            for judge in self._judges[name]
            if among(judge)
        ]
        return Spread(
            tuple(work for work, applies in applying if applies),
            tuple(work for work, applies in applying if applies is not False),
        )

    def _applies(self, rule: Rule, context: Row) -> bool | None:
        if rule.guard is None:
            return True
        guard = self._anatomy.guards.whole(rule.guard)
        return truth(guard.tree, context) if guard else None

    def _judges_at(self, name: str) -> Iterator[_Judge]:
        asked = validators_of(self._anatomy.machine, self._anatomy.judges[name])
        for place, rules in asked.items():
            for rule in rules:
                if isinstance(rule, JudgeRule):
                    attempts = self._anatomy.machine.agents[rule.judge].retry.attempts
                    calls = attempts * (1 + rule.reask)
                    yield _Judge(rule, self._work(rule.judge, place, calls))

    def _work(self, agent: str, place: str, calls: int) -> Work:
        return Work(agent, place, calls, self._price(agent, place))
