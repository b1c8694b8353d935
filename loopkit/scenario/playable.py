"""The names of a machine that a scenario can play, and what in a scenario is none of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from loopkit.document.document import DocPath
from loopkit.document.problems import did_you_mean
from loopkit.language.agents.tools import Tool
from loopkit.language.machine import Machine
from loopkit.language.states.each import CANCELLED, ChildrenState
from loopkit.language.states.kinds import CommandState, HumanState
from loopkit.language.validators import Rule, rules_of
from loopkit.machine.edges import Edge
from loopkit.machine.graph import Graph
from loopkit.machine.program import validators_of
from loopkit.scenario.script import ANY, CHILDREN, Children, Parts
from loopkit.values import Value


@dataclass(frozen=True)
class Playable:
    graph: Graph

    @property
    def machine(self) -> Machine:
        return self.graph.machine

    @cached_property
    def askers(self) -> dict[str, HumanState]:
        return self.machine.states_of(HumanState)

    @cached_property
    def commands(self) -> tuple[str, ...]:
        running = self.machine.states_of(CommandState)
        judging = [name for name, rule in self._rules() if rule.program]
        return tuple(dict.fromkeys([*running, *judging, *filter(self._is_played, self.tools)]))

    @cached_property
    def tools(self) -> dict[str, Tool]:
        """The tools of the agents, as `AGENT.TOOL`."""
        return {
            f"{agent}.{name}": tool
            for agent, declared in self.machine.agents.items()
            for name, tool in declared.callable_tools.items()
        }

    def _is_played(self, name: str) -> bool:
        """Whether a tool may start a program, which a case can play; validators look at drafts."""
        named = self.tools[name].validators
        rules = (rule for one in named for rule in rules_of(self.machine.validators.get(one, ())))
        return not named or any(rule.program for rule in rules)

    @cached_property
    def children(self) -> dict[str, Playable]:
        running = self.machine.states_of(ChildrenState)
        return {name: Playable(Graph(state.child)) for name, state in running.items()}

    @cached_property
    def called(self) -> tuple[str, ...]:
        """The names whose calls are counted: agents of the family, and the tools of each."""
        of_children = (name for bill in self.children.values() for name in bill.called)
        return tuple(dict.fromkeys([*self.machine.agents, *self.tools, *of_children]))

    def outcomes(self, state: str) -> tuple[str, ...]:
        running = self.machine.states_of(ChildrenState)[state]
        return tuple(dict.fromkeys([*running.outcomes, CANCELLED]))

    @cached_property
    def validators(self) -> tuple[str, ...]:
        """Validators by name; those written inline are called `by[0]` and so on."""
        return tuple(dict.fromkeys(name for name, _ in self._rules()))

    def places(self, agent: str) -> tuple[str, ...]:
        """Where an agent is asked: in its states, and for the validators that it judges for."""
        authored = [name for name, asked in self.machine.authoring.items() if agent in asked]
        judged = [name for name, rule in self._rules() if rule.asks == agent]
        return tuple(dict.fromkeys([*authored, *judged]))

    @cached_property
    def revised(self) -> tuple[str, ...]:
        """The names by which revisions are counted: the states that are revised, and the edges."""
        return tuple(dict.fromkeys([*(e.target for e in self._back), *(e.id for e in self._back)]))

    @cached_property
    def feedback_receivers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.graph.written, *(e.target for e in self._back)]))

    @cached_property
    def emitted(self) -> tuple[str, ...]:
        emissions = (
            *(state.emits for state in self.machine.states.values()),
            *(edge.emit for edge in self.graph.edges),
            *(e for s in self.machine.states.values() for e in s.emits_of_verdicts.values()),
            *(tool.emits for tool in self.tools.values()),
        )
        return tuple(dict.fromkeys(each.name for each in emissions if each is not None))

    @cached_property
    def _back(self) -> tuple[Edge, ...]:
        return tuple(edge for edge in self.graph.edges if edge.back)

    def _rules(self) -> Iterator[tuple[str, Rule]]:
        for state in self.graph.judges.values():
            for name, rules in validators_of(self.machine, state).items():
                yield from ((name, rule) for rule in rules)


class Miss(Value, frozen=True):
    """Something in a scenario that its machine does not have, or that the run of a case does not
    meet."""

    at: DocPath
    """In the scenario, in a case, or in its `expect:`."""
    message: str
    code: str = ""
    help: str = ""
    is_key: bool = False
    shown: tuple[str, ...] = ()
    """What the run did instead."""

    def below(self, at: DocPath) -> Miss:
        return self.replace(at=(*at, *self.at))


def unknown(
    at: DocPath, kind: str, name: Any, known: Iterable[str], *, is_key: bool = False
) -> Iterator[Miss]:
    if name is not None and name not in known:
        code, message = f"unknown-{kind.replace(' ', '-')}", f"the machine has no {kind} `{name}`"
        yield Miss(at, message, code, did_you_mean(name, known) or "it has none", is_key)


def unknown_keys(
    at: DocPath, kind: str, names: Iterable[str], known: Iterable[str]
) -> Iterator[Miss]:
    for name in names:
        yield from unknown((*at, name), kind, name, known, is_key=True)


def misnamed_parts(at: DocPath, parts: Parts, bill: Playable) -> Iterator[Miss]:
    """The names in what is said in a run and in its children that its machine does not have."""
    yield from unknown_keys((*at, "agents"), "agent", parts.agents, bill.machine.agents)
    yield from unknown_keys((*at, "commands"), "command", parts.commands, bill.commands)
    yield from unknown_keys((*at, "answers"), "question", parts.answers, bill.askers)
    for agent, role in parts.agents.items():
        if isinstance(role, Mapping) and agent in bill.machine.agents:
            yield from unknown_keys((*at, "agents", agent), "place", role, bill.places(agent))
    for state, answers in parts.answers.items():
        for index, answer in enumerate(answers if state in bill.askers else ()):
            path = (*at, "answers", state, index, "choice")
            yield from unknown(path, "choice", answer.choice, bill.askers[state].choices)
    yield from misnamed_children(at, parts.children, bill)
    for said in parts.in_children:
        if said.state in bill.children:
            yield from misnamed_parts((*at, *said.at), said.said, bill.children[said.state])


def misnamed_children(at: DocPath, children: Children[Any], bill: Playable) -> Iterator[Miss]:
    """States that run no machine, and keys of items where there are none or the other way round."""
    yield from unknown_keys((*at, CHILDREN), "state with children", children, bill.children)
    states = bill.machine.states_of(ChildrenState)
    for name, said in children.items():
        if name not in states or not said or states[name].has_keys == isinstance(said, Mapping):
            continue
        message = f"`{name}` runs one child, which has no key"
        remedy = f"write what belongs to it directly below `{name}:`"
        if states[name].has_keys:
            message = f"`{name}` runs a child for each item, and no item is named"
            remedy = f'write `{name}: {{KEY: …}}`, with `"{ANY}"` for all other items'
        yield Miss((*at, CHILDREN, name), message, "wrong-children", remedy, is_key=True)
