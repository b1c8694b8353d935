"""Agent calls of each state: its author's, those of the judges of a report, or its children's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, Protocol

from loopkit.language import JudgeRule, Rule
from loopkit.language.facts import VERDICT
from loopkit.machine.asked import validators_of
from loopkit.machine.choosing import may_be_nobody
from loopkit.machine.edges import EdgeEvent
from loopkit.proof.outcomes import Analysis, Panel, Row
from loopkit.proof.outcomes.faults import is_given_up
from loopkit.proof.outcomes.severity import levels_at, may_block
from loopkit.values import Value

Price = Callable[[str, str, int], float | None]
"""(agent, place, fallback) -> USD that one call costs at most, or none where that is unknown.

The place is the state's name for an author, the validator's for a judge (`by[2]` inline); fallback
0 is the agent itself."""


class AgentCalls(Value, frozen=True):
    """One agent asked for one thing, on one visit of a state, or all that children ask of one."""

    agent: str
    place: str
    most_calls: int
    """With every retry, fallback, re-ask and round with tools; the least is one for each run."""
    call_usd: float | None
    """What one call of the agent itself costs at most; of children, what one of each run does."""
    most_usd: float | None
    """What all these calls cost at most."""
    rule: int = 0
    """Of a judge, which of the rules of its validator asks it."""
    runs: int = 1
    """How often it is asked for something."""
    usual_calls: int = 1
    """Those of an answer where nothing goes wrong."""
    most_tool_calls: int = 0


Asked = tuple[AgentCalls, ...]
Usual = Callable[[str, AgentCalls, int], float | None]
"""(state, who is asked, revisions before) -> USD of an answer where nothing goes wrong, or none."""


class Spread(Value, frozen=True):
    """Who is asked at least, and who at most; the first are among the second."""

    least: Asked
    most: Asked
    how: Literal["", "blocked", "faulty"] = ""
    """Why judges are left out: a rule blocked or came to no verdict, or there was no artifact."""
    is_sure: bool = True
    """False where it is not known that somebody is asked so little or so much."""


NOBODY = Spread((), ())
FAULTY = Spread((), (), "faulty")


class _Judge(Value, frozen=True):
    rule: JudgeRule
    work: AgentCalls
    """One sample, or the second opinion: each is asked anew."""
    may_block: bool
    confirms: bool
    """A second opinion is asked where it fails."""

    @property
    def samples(self) -> Asked:
        return (self.work,) * self.rule.samples

    @property
    def second(self) -> Asked:
        return (self.work,) if self.confirms else ()


class Asks(Protocol):
    """Who is asked by the runs of other machines that a state starts."""

    def runs_in(self, name: str) -> bool:
        """Whether a state runs another machine."""

    def reach(self, name: str) -> Asked:
        """Everybody whom they can ask."""

    def asked(self, name: str, event: EdgeEvent, row: Row) -> Iterable[Spread]:
        """Who may have been asked where the state's work came to this."""

    def is_suspended(self, name: str) -> bool:
        """Whether a run may be suspended there, and not go on by itself."""


class Asking:
    """Who works on each visit of a state, and for how many calls."""

    def __init__(self, analysis: Analysis, price: Price, children: Asks | None = None) -> None:
        """`children` say what the runs of other machines take; without them it is nothing."""
        self._analysis = analysis
        self._price = price
        self._children = children
        self._judges = {name: tuple(self._judges_at(name)) for name in analysis.judges}
        self._panels = {name: Panel(analysis, name) for name in analysis.judges}

    def reach(self, name: str) -> Asked:
        """Everybody whom a state can ask on one visit."""
        machine = self._analysis.machine
        if self._children is not None and self._children.runs_in(name):
            return self._children.reach(name)
        if asked := machine.states[name].asks:
            called = (agent for agent in asked if machine.agents[agent].is_called)
            return tuple(self._author(agent, name) for agent in called)
        return tuple(judge.work for judge in self._judges.get(name, ()))

    def unpriced(self, states: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """(agent, place) of each call of these states that has no known price."""
        asked = (work for name in dict.fromkeys(states) for work in self.reach(name))
        return tuple(dict.fromkeys((w.agent, w.place) for w in asked if w.most_usd is None))

    def author(
        self, name: str, event: EdgeEvent = "done", row: Row | None = None
    ) -> Iterator[Spread]:
        """Who is asked in a state that judges nothing: one of its agents, if it has any."""
        if self._children is not None and self._children.runs_in(name):
            yield from self._children.asked(name, event, row or {})
            return
        every = self.reach(name)
        yield from (Spread((work,), (work,)) for work in every)
        if len(every) < len(self._analysis.machine.states[name].asks) or not every:
            # Nobody is asked by a state without agents, nor where somebody outside works.
            yield NOBODY
        if event in ("done", "content") and may_be_nobody(self._analysis.graph, name):
            yield FAULTY

    def suspended(self, name: str) -> Iterator[Spread]:
        """Who may have been asked where a run of another machine can't go on."""
        if self._children is not None and self._children.is_suspended(name):
            yield from self._children.asked(name, "limit", {})

    def judging(self, name: str, row: Row) -> Iterator[Spread]:
        """Who may have been asked for a report: one for each way in which it can have come about.

        Judges are asked where no rule blocks and all came to a verdict; those with `always` also
        where one does not. A faulty
        or infeasible artifact is shown to nobody. Whatever a second opinion says, the report has a
        finding then; if it is missing, so is its judge, of whom a quorum may do without.
        """
        verdict = row.get(VERDICT)
        if verdict in ("infeasible", "not_applicable"):
            yield NOBODY
        elif verdict == "fail":
            yield from self._failing(name, row)
        elif verdict == "pass":
            yield from self._passing(name, row)
        else:
            yield _spread(self._asked(name, row))
            is_left_out = verdict == "incomplete" and self._panels[name].may_leave_judges_out(row)
            if is_left_out and self._may_be_missing(name, row):
                yield self._always(name, row)

    def broken(self, name: str, event: EdgeEvent, context: Row) -> Iterator[Spread]:
        """Who may have been asked where no report comes to the transitions."""
        everyone = _spread(self._asked(name, context))
        if event == "fatal" or (event == "content" and is_given_up(self._analysis, name)):
            yield NOBODY
        is_for_a_time = event in ("transient", "content")
        is_fixed = self._may_be_missing(name, context, for_a_time=is_for_a_time)
        is_certain = event in ("fatal", "limit") or (event == "transient" and is_fixed)
        if is_certain or everyone.most:
            yield everyone
        always = self._always(name, context)
        if is_fixed and (event != "content" or always.most):
            yield always

    def _may_be_missing(self, name: str, context: Row, *, for_a_time: bool = False) -> bool:
        """Whether a fixed rule may come to no verdict, so that judges are left out."""
        rules = self._analysis.rules_at[name]
        fixed = [rule for rule in rules if rule.asks is None]
        losing = [rule for rule in fixed if rule.may_be_lost or not for_a_time]
        return any(self._applies(name, rule, context) is not False for rule in losing)

    def _always(self, name: str, row: Row) -> Spread:
        """Those who are asked whatever the rules say."""
        asked = self._asked(name, row)
        always = [(judge, applies) for judge, applies in asked if judge.rule.always]
        return _spread(always, how="blocked")

    def _passing(self, name: str, row: Row) -> Iterator[Spread]:
        asked, quorum = self._asked(name, row), self._analysis.judges[name].quorum
        spread = _spread(asked, with_second=False)
        spared = 0 if quorum is None else max(0, len(asked) - quorum)
        second = [work for judge, _ in asked for work in judge.second]
        # The most calls and the highest cost may be those of different judges.
        for weight in (lambda work: work.most_calls, lambda work: work.most_usd or 0):
            dearest = sorted(second, key=weight, reverse=True)[:spared]
            yield Spread(spread.least, (*spread.most, *dearest))

    def _failing(self, name: str, row: Row) -> Iterator[Spread]:
        for cause in self._panels[name].causes(row):
            if cause == "faulty":
                yield FAULTY
            elif cause == "blocked":
                yield self._always(name, row)
            else:
                asked = self._asked(name, row)
                rejecting = [judge for judge, _ in asked if judge.may_block]
                spread = _spread(asked)
                yield Spread(spread.least + _cheapest_second(rejecting), spread.most)

    def _asked(self, name: str, context: Row) -> list[tuple[_Judge, bool | None]]:
        """The judges that may be asked, each with whether it surely is."""
        asked = ((judge, self._applies(name, judge.rule, context)) for judge in self._judges[name])
        return [(judge, applies) for judge, applies in asked if applies is not False]

    def _applies(self, name: str, rule: Rule, context: Row) -> bool | None:
        return self._panels[name].applies(rule, context)

    def _judges_at(self, name: str) -> Iterator[_Judge]:
        machine, state = self._analysis.machine, self._analysis.judges[name]
        levels = levels_at(machine, state)
        for place, rules in validators_of(machine, state).items():
            for index, rule in enumerate(rules):
                if isinstance(rule, JudgeRule):
                    work = self._work(rule.judge, place, rule.reask, index)
                    blocks = may_block(rule, levels)
                    yield _Judge(rule, work, blocks, blocks and rule.confirm == "fail")

    def _author(self, asked: str, place: str) -> AgentCalls:
        agent = self._analysis.machine.agents[asked]
        return self._work(asked, place, agent.most_rounds).replace(
            usual_calls=agent.usual_calls,
            most_tool_calls=agent.most_tool_calls,
        )

    def _work(self, agent: str, place: str, again: int = 0, rule: int = 0) -> AgentCalls:
        """All tries of everybody in turn, and of one of them again for each further call.

        Whoever has answered is asked again, and those before it are not.
        """
        tries = [one.retry.attempts for one in self._analysis.machine.agents[agent].in_turn]
        usd = [self._price(agent, place, fallback) for fallback in range(len(tries))]
        costs = [number * one for number, one in zip(tries, usd, strict=True) if one is not None]
        is_priced = len(costs) == len(tries)
        return AgentCalls(
            agent,
            place,
            most_calls=sum(tries) + again * max(tries),
            call_usd=usd[0],
            most_usd=sum(costs) + again * max(costs) if is_priced else None,
            rule=rule,
        )


def calls_tools(asked: Asked) -> bool:
    """Whether somebody may call a tool."""
    return any(work.most_tool_calls for work in asked)


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
