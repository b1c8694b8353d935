"""The playbill: every agent, command and person that the cases of a machine can name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from loopkit.language import (
    CommandState,
    HumanState,
    Machine,
    Rule,
    Tool,
    ValidateState,
    rules_of,
)
from loopkit.language.states.children import CANCELLED, ChildrenState
from loopkit.machine.asked import validators_of
from loopkit.machine.edges import Edge
from loopkit.machine.graph import Graph


@dataclass(frozen=True)
class Playbill:
    """The names of a machine by what they can do in a case."""

    graph: Graph

    @property
    def machine(self) -> Machine:
        return self.graph.machine

    @property
    def judges(self) -> dict[str, ValidateState]:
        return self.graph.judges

    @cached_property
    def askers(self) -> dict[str, HumanState]:
        return self.machine.states_of(HumanState)

    @cached_property
    def commands(self) -> tuple[str, ...]:
        """The states, validators and tools that run a command."""
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
    def children(self) -> dict[str, Playbill]:
        """The playbills of the machines that states run, by state."""
        running = self.machine.states_of(ChildrenState)
        return {name: Playbill(Graph(state.child)) for name, state in running.items()}

    @cached_property
    def family_agents(self) -> tuple[str, ...]:
        """The agents of the machine, and of those that its states run."""
        of_children = (name for bill in self.children.values() for name in bill.family_agents)
        return tuple(dict.fromkeys([*self.machine.agents, *of_children]))

    @cached_property
    def called(self) -> tuple[str, ...]:
        """The names whose calls are counted: these agents, and the tools of each."""
        of_children = (name for bill in self.children.values() for name in bill.called)
        return tuple(dict.fromkeys([*self.family_agents, *self.tools, *of_children]))

    def outcomes(self, state: str) -> tuple[str, ...]:
        """The outcomes of a child of a state that has children."""
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
        """The states that can get feedback."""
        return tuple(dict.fromkeys([*self.graph.authors, *(e.target for e in self._back)]))

    @cached_property
    def emitted(self) -> tuple[str, ...]:
        """The names of the events that the machine can emit."""
        emissions = (
            *(state.emits for state in self.machine.states.values()),
            *(edge.emit for edge in self.graph.edges),
            *(tool.emits for tool in self.tools.values()),
        )
        return tuple(dict.fromkeys(each.name for each in emissions if each is not None))

    @cached_property
    def _back(self) -> tuple[Edge, ...]:
        return tuple(edge for edge in self.graph.edges if edge.back)

    def _rules(self) -> Iterator[tuple[str, Rule]]:
        for state in self.judges.values():
            for name, rules in validators_of(self.machine, state).items():
                yield from ((name, rule) for rule in rules)
