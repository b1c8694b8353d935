"""The typical cost of a run: the shortest path to a success with each number of revisions."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, islice

from loopkit.agents.model.pricing import usual_cost
from loopkit.language import Agent, AgentState, KeepTurns, ModelAgent
from loopkit.machine.asked import AgentAsked
from loopkit.machine.edges import Edge
from loopkit.machine.graph import artifact_of
from loopkit.machine.program import Program
from loopkit.proof.bounds import AgentCalls, Visit, Way
from loopkit.views.plan.sizes import Sizes, tokens_of

ANSWER_TOKENS = 1_000


_Place = tuple[str, str, str, int]
"""A state, and the agent, the validator and the rule of a call in it."""


@dataclass(frozen=True, slots=True)
class Typical:
    """A run that succeeds after a number of revisions."""

    revisions: int
    calls: int
    by_state: Mapping[str, float | None]
    """USD; None if a price is unknown."""

    children: Mapping[str, int]
    """How many runs of other machines each state starts."""

    @property
    def usd(self) -> float | None:
        known = [usd for usd in self.by_state.values() if usd is not None]
        return sum(known) if len(known) == len(self.by_state) else None


class Typically:
    """Costs of calls with prompts and answers of the assumed sizes."""

    def __init__(
        self, program: Program, sizes: Sizes, children: Mapping[str, Typical | None]
    ) -> None:
        """`children` are the typical runs of other machines, by the states that start them.

        They are None if no such run succeeds.
        """
        self._program = program
        self._sizes = sizes
        self._children = children
        self._each: dict[_Place, tuple[Iterator[float | None], list[float | None]]] = {}

    def of(self, revisions: int, way: Way) -> Typical:
        """The typical cost of the calls on a path."""
        by_state: dict[str, float | None] = {}
        calls = 0
        for state, number, usd in self.calls(way):
            before = by_state.get(state, 0.0)
            by_state[state] = None if usd is None or before is None else before + usd
            calls += number
        started = {v.state: v.children for v in way if v.state in self._children}
        return Typical(revisions, calls, by_state, started)

    def call(self, state: str, work: AgentCalls, revised: int) -> float | None:
        """The cost of one answer after a number of revisions of its artifact.

        For a state that starts runs, the mean cost of one of their calls.
        """
        if state in self._children:
            return self._call_of_child(state, work)
        key = (state, work.agent, work.place, work.rule)
        if key not in self._each:
            self._each[key] = _Walk(self._program, self._sizes).again(state, work), []
        coming, known = self._each[key]
        known.extend(islice(coming, max(0, revised + 1 - len(known))))
        return known[min(revised, len(known) - 1)]

    def _call_of_child(self, state: str, work: AgentCalls) -> float | None:
        typical = self._children[state]
        if typical is None or typical.usd is None or not typical.calls:
            return None
        return work.usual_calls * typical.usd / typical.calls

    def calls(self, way: Way) -> Iterator[tuple[str, int, float | None]]:
        """(state, number, USD) of the calls on a path, in order."""
        walk = _Walk(self._program, self._sizes)
        for visit in way:
            if visit.state in self._children:
                if visit.children:
                    yield self._children_at(visit)
                continue
            for usd in walk.costs(visit):
                yield visit.state, 1, usd

    def _children_at(self, visit: Visit) -> tuple[str, int, float | None]:
        typical = self._children[visit.state]
        if typical is None:
            return visit.state, 0, None
        usd = None if typical.usd is None else typical.usd * visit.children
        return visit.state, typical.calls * visit.children, usd


@dataclass(slots=True)
class _Walk:
    """A run on its path: the prompts that were sent in each state."""

    program: Program
    sizes: Sizes
    revised: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """The number of revisions of each author."""
    authors: dict[str, str] = field(default_factory=dict)
    """The last author of each artifact."""
    turns: dict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    """The tokens of each prompt to an agent in a state, oldest first."""

    def costs(self, visit: Visit) -> Iterator[float | None]:
        """The cost in USD of each call on a visit."""
        entered = visit.entered_by
        if entered is not None and entered.back:
            self.revised[visit.state] += 1
        if (artifact := artifact_of(self.program.machine, visit.state)) is not None:
            self.authors[artifact] = visit.state
        for work in visit.asked:
            agent = self.program.machine.agents[work.agent]
            if not isinstance(agent, ModelAgent):
                yield agent.call_usd
            elif visit.state in self.program.graph.judges:
                yield self._judge(visit.state, work, agent)
            else:
                yield from self._author(visit.state, entered, work.agent, agent)

    def again(self, name: str, work: AgentCalls) -> Iterator[float | None]:
        """The cost in USD of all calls for one work: at first, and after each revision."""
        graph = self.program.graph
        judged = self.program.machine.states[name].judges
        authors = graph.artifacts.get(judged or "", (name,))
        back = next((edge for edge in graph.edges if edge.back and edge.target in authors), None)
        for number in count() if back is not None else (0,):
            entered = back if number and judged is None else None
            if judged is not None:
                self.authors[judged] = authors[0]
                self.revised[authors[0]] = number
            costs = list(self.costs(Visit(name, entered, (work,))))
            known = [usd for usd in costs if usd is not None]
            yield sum(known) if len(known) == len(costs) else None

    def _author(
        self, name: str, entered: Edge | None, asks: str, agent: ModelAgent
    ) -> Iterator[float | None]:
        turns, asked = self.turns[name, asks], self.program.plans[name].agents[asks]
        sent = self._turn(name, entered, agent)
        resent = [] if agent.session == "fresh" else _resent_turns(turns, agent)
        turns.append(sent)
        model = self._model(agent, name)
        answer = self.sizes.answer(agent, model)
        again = sum(turn + agent.usual_calls * answer for turn in resent)
        schema = tokens_of(json.dumps(asked.schema)) if asked.schema else 0
        for number in range(agent.usual_calls):
            # The arguments of a tool are sent again with its result, which is short.
            whole = again + sent + schema + _tool_tokens(agent, asked) + number * answer
            yield self._usd(agent, model, whole)

    def _turn(self, name: str, entered: Edge | None, agent: ModelAgent) -> int:
        """The tokens of the prompt itself, with the feedback of a revision."""
        state = self.program.machine.states_of(AgentState)[name]
        prompt = self.sizes.prompt(name, state.prompt)
        if entered is None or not entered.back:
            return prompt
        feedback = self.sizes.feedback(entered)
        if agent.session != "fresh":
            return feedback
        named = self.program.template(state.prompt).names
        previous = 0 if "previous" in named else self.sizes.artifact_size(name)
        return prompt + previous + (0 if "feedback" in named else feedback)

    def _judge(self, name: str, work: AgentCalls, agent: ModelAgent) -> float | None:
        author = self.authors.get(self.program.graph.judges[name].validate_, name)
        again = self.revised[author] > 0
        sent = self.sizes.judge(name, work.place, work.rule, again=again)
        return self._usd(agent, self._model(agent, author), sent)

    def _usd(self, agent: ModelAgent, model: str, sent: int) -> float | None:
        whole = sent + tokens_of(agent.system_prompt)
        return usual_cost(agent, model, whole, self.sizes.answer(agent, model))

    def _model(self, agent: ModelAgent, author: str) -> str:
        """The model of the rung that is asked; the first, if the ladder climbs when work stalls."""
        return agent.model_after(self.revised[author] if agent.climb == "revision" else 0)


def _tool_tokens(agent: ModelAgent, asked: AgentAsked) -> int:
    """The tokens of the descriptions of an agent's tools."""
    if agent.tool_use == "runner":
        return 0
    return sum(
        tokens_of(json.dumps([name, one.tool.description, one.schema]))
        for name, one in asked.tools.items()
    )


def _resent_turns(turns: list[int], agent: Agent) -> list[int]:
    """The turns of a kept session that are sent again; the first says what the task is."""
    if isinstance(agent.session, KeepTurns) and len(turns) > agent.session.keep:
        return [turns[0], *turns[-agent.session.keep :]]
    return turns[:]
