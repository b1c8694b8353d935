"""A machine prepared to run: its graph, its compiled guards and its templates."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

from loopkit.language import Machine, Rule, ValidateState
from loopkit.language.datatypes import DataType, facts_of, parse_record
from loopkit.language.guard import Guard, compile_guard, expand
from loopkit.language.guard import parse as parse_guard
from loopkit.language.load import definition_of_child, digest_of
from loopkit.language.states.children import ChildrenState
from loopkit.language.template import parse as parse_template
from loopkit.machine.asked import validators_of
from loopkit.machine.edges import Edge
from loopkit.machine.graph import Graph
from loopkit.machine.plans import Predicate, plan_of
from loopkit.machine.report_items import ReportItems, report_items
from loopkit.machine.sources import names_behind

AMOUNTS = ("agent_calls", "tool_calls", "tokens", "cost_usd", "time")
"""The limits on what work takes."""


class ResolvedMachine(NamedTuple):
    """A machine as a journal stores it."""

    machine: Machine
    resolved: str
    digest: str

    @property
    def first_author(self) -> str | None:
        """The first state that reads feedback on every path to an end."""
        return Graph(self.machine).first_author


class Program:
    """What the engine and the runner read; made once for each definition."""

    def __init__(self, machine: Machine, digest: str) -> None:
        self.machine = machine
        self.digest = digest
        self.graph = Graph(machine)
        declared = {name: getattr(machine.limits, name) for name in AMOUNTS}
        self.limits: dict[str, Any] = {
            n: limit for n, limit in declared.items() if limit is not None
        }
        """The declared limits on calls, tokens, cost and time, by name."""
        known = self.predicates, self.guard_names
        self.plans = {name: plan_of(self.graph, name, *known) for name in machine.states}
        """The plan of each state."""

    @cached_property
    def is_counted(self) -> bool:
        """Whether the machine may read figures of a run while it goes on."""
        return self.machine.alert is not None or "telemetry" in self.machine.model_dump_json()

    @cached_property
    def input_type(self) -> DataType:
        return parse_record(self.machine.input)

    def type_from(self, state: str) -> DataType | None:
        """The type of the data of a state: an answer's or a form's; None for texts."""
        return self._types.get(state)

    @cached_property
    def _types(self) -> dict[str, DataType | None]:
        return {name: self.machine.data_type(name) for name in self.machine.states}

    @cached_property
    def children(self) -> dict[str, ResolvedMachine]:
        """The child machines, by the state that runs each."""
        return {
            name: ResolvedMachine(state.child, text, digest_of(text))
            for name, state in self.machine.states_of(ChildrenState).items()
            for text in (definition_of_child(state.machine),)
        }

    @cached_property
    def named_guards(self) -> dict[str, Guard]:
        return {name: parse_guard(text) for name, text in self.machine.guards.items()}

    @cached_property
    def guards(self) -> dict[str, Guard]:
        """The guard of each edge that has one, with named guards expanded."""
        return {
            e.id: expand(parse_guard(e.guard), self.named_guards)
            for e in self.graph.edges
            if e.guard is not None
        }

    @cached_property
    def predicates(self) -> dict[str, Predicate]:
        """The compiled guard of each edge that has one."""
        return {edge: compile_guard(guard) for edge, guard in self.guards.items()}

    @cached_property
    def guard_names(self) -> dict[str, frozenset[str]]:
        """The names that each edge's guard reads."""
        return {edge: guard.names for edge, guard in self.guards.items()}

    @cached_property
    def report_items(self) -> ReportItems | None:
        """The further fields that findings take from reports of other shapes."""
        return report_items(self.graph)

    @cached_property
    def has_baselines(self) -> bool:
        """Whether a rule compares its command's findings with those from before any work."""
        asked = (fixed for plan in self.plans.values() if plan.rules for fixed in plan.rules.fixed)
        rules = (rule for _, rules in asked for _, rule in rules)
        return any(rule.has_baseline for rule in rules)

    @cached_property
    def whole_authors(self) -> frozenset[str]:
        """The states whose artifact is all of their work; a program may also change files."""

        def is_whole(name: str) -> bool:
            if agents := self.machine.agents_at(name):
                return not any(agent.works_on_files for agent in agents)
            return self.machine.states[name].call != "run"

        return frozenset(filter(is_whole, self.machine.states))

    @cached_property
    def names_behind(self) -> dict[str, frozenset[str]]:
        """For each author, the names of all that its work is made from."""
        return {name: names_behind(self.graph, name) for name in self.graph.authors}

    def predicate(self, text: str) -> Predicate:
        """The compiled guard of a text that is not on an edge."""
        return compile_guard(expand(parse_guard(text), self.named_guards))

    def rule_facts(self, inputs: Mapping[str, Any], attempt: int) -> dict[str, object]:
        """What the guards of rules read: the input, the attempt, and named guards over these."""
        facts = {**facts_of(inputs, self.input_type, "input."), "attempt": attempt}
        for name, guard in self.named_guards.items():
            known = expand(guard, self.named_guards)
            if known.names <= facts.keys():
                facts[name] = compile_guard(known)(facts)
        return facts

    def feedback_of(self, edge: Edge) -> str:
        """The template of the feedback that an edge carries; empty where it words none."""
        if edge.feedback is None:
            return ""
        return self.machine.feedback.get(edge.feedback, edge.feedback)

    template = staticmethod(parse_template)

    def validators_at(self, name: str) -> dict[str, tuple[Rule, ...]]:
        """The validators of the state with this name; empty if it is not a validate state."""
        state = self.graph.judges.get(name)
        return {} if state is None else self.validators_of(state)

    def validators_of(self, state: ValidateState) -> dict[str, tuple[Rule, ...]]:
        return validators_of(self.machine, state)


def flat_facts(facts: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    """Scalars under dotted names, as guards read them."""
    flat: dict[str, object] = {}
    for key, value in facts.items():
        if isinstance(value, dict):
            flat |= flat_facts(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
