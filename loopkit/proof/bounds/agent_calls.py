"""Agent calls of each state: those of its author, of the judges of a report, or of its children."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from loopkit.language.facts import VERDICT
from loopkit.language.validators.judge import JudgeRule
from loopkit.machine.edges import EdgeEvent
from loopkit.machine.graph import may_be_nobody
from loopkit.machine.program import validators_of
from loopkit.proof.outcomes.analysis import Analysis, levels_at, may_block
from loopkit.proof.outcomes.facts import Panel, is_given_up
from loopkit.proof.outcomes.table import Row
from loopkit.values import Value

if TYPE_CHECKING:
    from loopkit.proof.bounds.children import Children

Price = Callable[[str, str, int], float | None]
"""(agent, place, fallback) -> USD that one call costs at most, or none where that is unknown.

The place is the state's name for an author, the validator's for a judge (`by[2]` inline); fallback
0 is the agent itself."""


class AgentCalls(Value, frozen=True):
    """All calls of one agent for one task on one visit of a state, or by all children."""

    agent: str
    place: str
    most_calls: int
    """With every retry, fallback, re-ask and round with tools; the least is one for each run."""
    call_usd: float | None
    """The maximum cost of one call of the agent; for children, of one call in each run."""
    most_usd: float | None
    rule: int = 0
    """The index of the rule that asks, among the rules of a judge's validator."""
    runs: int = 1
    """The number of tasks."""
    usual_calls: int = 1
    """The number of calls if nothing goes wrong."""
    most_tool_calls: int = 0


Asked = tuple[AgentCalls, ...]
Usual = Callable[[str, AgentCalls, int], float | None]
"""(state, who is asked, revisions before) -> USD of an answer where nothing goes wrong, or none."""


class Spread(Value, frozen=True):
    """The fewest and the most agent calls; the fewest are among the most."""

    least: Asked
    most: Asked
    how: Literal["", "blocked", "faulty"] = ""
    """Why judges are not asked: a rule blocked or came to no verdict, or there was no artifact."""
    is_sure: bool = True
    """False if the fewest or the most may not occur."""


NOBODY = Spread((), ())
FAULTY = Spread((), (), "faulty")


class _Judge(Value, frozen=True):
    rule: JudgeRule
    work: AgentCalls
    """The calls for one sample or for the second opinion."""
    may_block: bool
    confirms: bool
    """Whether a second opinion is asked when it fails."""

    @property
    def samples(self) -> Asked:
        return (self.work,) * self.rule.samples

    @property
    def second(self) -> Asked:
        return (self.work,) if self.confirms else ()


class Asking:
    def __init__(self, analysis: Analysis, price: Price, children: Children | None = None) -> None:
        """`children` has the calls of the runs of other machines; without it they make none."""
        self._analysis = analysis
        self._price = price
        self._children = children
        self._judges = {name: tuple(self._judges_at(name)) for name in analysis.judges}
        self._panels = {name: Panel(analysis, name) for name in analysis.judges}

    def reach(self, name: str) -> Asked:
        """All calls that a state can make on one visit."""
        machine = self._analysis.machine
        if self._children is not None and self._children.runs_in(name):
            return self._children.reach(name)
        if asked := machine.states[name].asks:
            called = (agent for agent in asked if machine.agents[agent].is_called)
            return tuple(self._author(agent, name) for agent in called)
        return tuple(judge.work for judge in self._judges.get(name, ()))

    def of_states(self, states: Iterable[str]) -> Asked:
        return tuple(work for name in states for work in self.reach(name))

    def author(
        self, name: str, event: EdgeEvent = "done", row: Row | None = None
    ) -> Iterator[Spread]:
        """The possible calls of a state that does not judge: one of its agents, if it has any."""
        if self._children is not None and self._children.runs_in(name):
            yield from self._children.spreads(name, event, row or {})
            return
        every = self.reach(name)
        for work in every:
            # Whether there is a session to lose depends on earlier visits.
            is_sure = not self._analysis.machine.agents[work.agent].has_one_more_try
            yield Spread((work,), (work,), is_sure=is_sure)
        if len(every) < len(self._analysis.states[name].asks) or not every:
            # A state without agents asks nobody, and an agent outside is not called.
            yield NOBODY
        if event in ("done", "content") and may_be_nobody(self._analysis.graph, name):
            yield FAULTY

    def on_suspension(self, name: str) -> Iterator[Spread]:
        """The possible calls before a run of another machine is suspended."""
        if self._children is not None and self._children.is_suspended(name):
            yield from self._children.spreads(name, "limit", {})

    def judging(self, name: str, row: Row) -> Iterator[Spread]:
        """The possible calls for a report, one spread for each way in which it can come about.

        Judges are asked if no rule blocks and all rules come to a verdict; judges with `always`
        are asked unless a program does not exist. A faulty or infeasible artifact is judged by
        nobody. A second opinion is asked only about a finding, so the report has one whatever the
        second opinion says. If it is missing, so is its judge, which a quorum may allow.
        """
        verdict = row.get(VERDICT)
        if verdict in ("infeasible", "not_applicable"):
            yield NOBODY
        elif verdict == "fail":
            yield from self._failing(name, row)
        elif verdict == "pass":
            yield from self._passing(name, row)
        else:
            yield _spread(self._possible_judges(name, row))
            is_left_out = verdict == "incomplete" and self._panels[name].may_leave_judges_out(row)
            if is_left_out and self._may_be_missing(name, row):
                yield self._always(name, row)
                if self._may_be_missing(name, row, for_a_time=True):
                    # If a program of a rule does not exist, they are not asked either.
                    yield NOBODY

    def without_report(self, name: str, event: EdgeEvent, context: Row) -> Iterator[Spread]:
        """The possible calls when no report reaches the transitions."""
        everyone = _spread(self._possible_judges(name, context))
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
        """Whether a fixed rule may come to no verdict, so that judges are not asked."""
        rules = self._analysis.rules_at[name]
        fixed = [rule for rule in rules if rule.asks is None]
        losing = [rule for rule in fixed if rule.may_be_lost or not for_a_time]
        return any(self._panels[name].applies(rule, context) is not False for rule in losing)

    def _always(self, name: str, row: Row) -> Spread:
        asked = self._possible_judges(name, row)
        always = [(judge, applies) for judge, applies in asked if judge.rule.always]
        return _spread(always, how="blocked")

    def _passing(self, name: str, row: Row) -> Iterator[Spread]:
        asked = self._possible_judges(name, row)
        quorum = self._analysis.judges[name].quorum
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
                asked = self._possible_judges(name, row)
                spread = _spread(asked)
                # One of those that may block has failed.
                seconds = (judge.second for judge, _ in asked if judge.may_block)
                cheapest = min(seconds, key=lambda s: (len(s), sum(w.call_usd or 0 for w in s)))
                yield Spread(spread.least + cheapest, spread.most)

    def _possible_judges(self, name: str, context: Row) -> list[tuple[_Judge, bool | None]]:
        """The judges that may be asked; each with True, or None where its guard is open."""
        panel, judges = self._panels[name], self._judges[name]
        asked = ((judge, panel.applies(judge.rule, context)) for judge in judges)
        return [(judge, applies) for judge, applies in asked if applies is not False]

    def _judges_at(self, name: str) -> Iterator[_Judge]:
        machine = self._analysis.machine
        state = self._analysis.judges[name]
        levels = levels_at(machine, state)
        for place, rules in validators_of(machine, state).items():
            for index, rule in enumerate(rules):
                if isinstance(rule, JudgeRule):
                    work = self._work(rule.judge, place, rule.most_reasks, index)
                    blocks = may_block(rule, levels)
                    yield _Judge(rule, work, blocks, blocks and rule.confirm == "fail")

    def _author(self, asked: str, place: str) -> AgentCalls:
        agent = self._analysis.machine.agents[asked]
        work = self._work(asked, place, agent.most_rounds, spare=agent.has_one_more_try)
        return work.replace(
            usual_calls=agent.usual_calls,
            most_tool_calls=agent.most_tool_calls,
        )

    def _work(
        self, agent: str, place: str, again: int = 0, rule: int = 0, *, spare: bool = False
    ) -> AgentCalls:
        """The calls of an agent: all tries of all callees, then those of one callee `again` times.

        With `spare` there is one more, in place of one whose session was lost. A further call goes
        to the callee that has answered, not to those before it.
        """
        tries = [one.retry.attempts for one in self._analysis.machine.agents[agent].in_turn]
        prices = [self._price(agent, place, fallback) for fallback in range(len(tries))]
        usd = [one for one in prices if one is not None]
        costs = [number * one for number, one in zip(tries, prices, strict=True) if one is not None]
        is_priced = len(costs) == len(tries)
        return AgentCalls(
            agent,
            place,
            most_calls=sum(tries) + again * max(tries) + spare,
            call_usd=prices[0],
            most_usd=sum(costs) + again * max(costs) + spare * max(usd) if is_priced else None,
            rule=rule,
        )


def without_price(asked: Asked) -> tuple[tuple[str, str], ...]:
    """(agent, place) of each of these calls that has no known price."""
    return tuple(dict.fromkeys((w.agent, w.place) for w in asked if w.most_usd is None))


def calls_tools(asked: Asked) -> bool:
    return any(work.most_tool_calls for work in asked)


def _spread(
    asked: Sequence[tuple[_Judge, bool | None]],
    *,
    with_second: bool = True,
    how: Literal["", "blocked"] = "",
) -> Spread:
    """At least the samples of these judges, at most their second opinions as well."""
    least = (work for judge, applies in asked if applies for work in judge.samples)
    most = (
        work
        for judge, _ in asked
        for work in (*judge.samples, *(judge.second if with_second else ()))
    )
    return Spread(tuple(least), tuple(most), how)
