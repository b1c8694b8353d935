"""The subject of every check, and the rules that subscribe to the nouns of a machine.

To add a rule, write one function in the file of its topic and one row in the table of codes. Names
mentioned in a text are read generously: a name is unused only if no text mentions it. Paths are the
shortest to a goal. `no-effect`, which many rules give, is made here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from loopkit.checks.codes import CODES
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, Severity, did_you_mean
from loopkit.language.agents.tools import ToolBase
from loopkit.language.datatypes.datatype import DataType
from loopkit.language.facts import PRINTED_FACTS, SCORE
from loopkit.language.guard.grammar import GuardProblem
from loopkit.language.load import Loaded, Source
from loopkit.language.states.state import StateBase
from loopkit.language.template.errors import TemplateError
from loopkit.language.template.grammar import Shape
from loopkit.language.transitions import ErrorEdge, Transition
from loopkit.language.validators.rule import RuleBase
from loopkit.machine.edges import Edge
from loopkit.machine.flow import Token
from loopkit.machine.graph import Graph
from loopkit.machine.scope import Scope
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.proof.outcomes.facts import table_of
from loopkit.proof.outcomes.table import Table
from loopkit.text.patterns import PatternError, compile_pattern
from loopkit.values import Value

if TYPE_CHECKING:
    from regex import Pattern

T = TypeVar("T", bound=ToolBase)
Found = Iterator[Problem]
Texts = Iterator[tuple[DocPath, str]]
StatePath = tuple[str, ...]


def in_full(remedy: str, holder: str) -> str:
    """A remedy for a part of a dotted name, with what stands before that part."""
    return remedy.replace("did you mean `", f"did you mean `{holder}", 1)


class Subject(Analysis, frozen=True, dict=True, kw_only=True):
    """One machine under examination, with its source text."""

    loaded: Loaded

    @classmethod
    def of(cls, loaded: Loaded) -> Subject:
        graph = Graph(loaded.machine)
        return cls(graph, Scope(graph), loaded=loaded)

    @property
    def source(self) -> Source:
        return self.loaded.source

    def tools_of(self, noun: type[T]) -> Iterator[tuple[DocPath, T]]:
        for agent, asked in self.machine.agents.items():
            for name, tool in asked.callable_tools.items():
                if isinstance(tool, noun):
                    yield ("agents", agent, "tools", name), tool

    @cached_property
    def tables(self) -> Mapping[str, Table | None]:
        """The rows of each state; None if one of its guards cannot be used."""
        return {name: table_of(self, name) for name in self.states}

    @cached_property
    def entering(self) -> Mapping[str, Mapping[str, Shape]]:
        """What templates see when each state starts its work."""
        return {name: self.scope.entering(name) for name in self.machine.states}

    @cached_property
    def judging(self) -> Mapping[str, Mapping[str, Shape]]:
        """What rules and judges see at each state that judges, and rules at each that drafts."""
        drafting = (name for placed in self.rules for name in placed.drafted_at)
        return {name: self.scope.judging(name) for name in (*self.judges, *drafting)}

    @cached_property
    def data_types(self) -> Mapping[str, tuple[DataType, ...]]:
        """For each artifact the types that its data may have; none where it may be a text."""
        every = {name: (*self.graph.types_of(name),) for name in self.graph.artifacts}
        known = {name: tuple(filter(None, types)) for name, types in every.items()}
        return {name: types for name, types in known.items() if types == every[name]}

    def names_read(self, name: str) -> frozenset[str]:
        """The names that the guards of a state read, its own without `STATE.` before them."""
        read = self.guards.names_in(edge.guard for edge in self.graph.on(name, "done"))
        return frozenset(fact.removeprefix(f"{name}.") for fact in read)

    @property
    def revise_edges(self) -> Iterator[tuple[Edge, Transition | ErrorEdge]]:
        """Every back edge, and as it is written, each once."""
        for path, edge in {edge.path: edge for edge in self.graph.edges if edge.back}.items():
            written = getattr(self.states[edge.source], str(path[2]))
            if edge.event == "done":
                found = written[path[3]]
            else:
                found = getattr(written, str(path[-1]), written)
            if isinstance(found, Transition | ErrorEdge):
                yield edge, found

    @property
    def validators_named(self) -> Texts:
        """Every name of a validator, with its place in a state or in a tool of an agent."""
        for state, judging in self.judges.items():
            for index, item in enumerate(judging.by):
                if isinstance(item, str):
                    yield ("states", state, "by", index), item
        for agent in self.machine.agents:
            yield from self.validators_of_tools(agent)

    def validators_of_tools(self, agent: str) -> Texts:
        declared = self.machine.agents.get(agent)
        for name, tool in declared.callable_tools.items() if declared is not None else ():
            for index, validator in enumerate(tool.validators):
                yield ("agents", agent, "tools", name, "by", index), validator

    def shortest_path(
        self, start: str, goal: Callable[[str], bool], follows: Callable[[Edge], bool]
    ) -> StatePath | None:
        """The states of a shortest path to a goal, over edges that `follows` accepts."""
        before: dict[str, str | None] = {start: None}
        front = [start]
        for name in front:
            if goal(name):
                way = [name]
                while (earlier := before[way[-1]]) is not None:
                    way.append(earlier)
                return tuple(reversed(way))
            for edge in self.graph.outgoing.get(name, ()):
                if edge.target in self.states and edge.target not in before and follows(edge):
                    before[edge.target] = name
                    front.append(edge.target)
        return None

    def forward_path(self, start: str, goal: str, without: str = "") -> StatePath | None:
        """The states of a shortest path over forward edges, none of which leads to `without`."""
        return self.shortest_path(
            start, lambda name: name == goal, lambda way: way.forward and way.target != without
        )

    def way_without(self, token: Token, state: str, *, on_errors: bool = True) -> StatePath | None:
        """A path from the start to a state on which a token does not come into being, if any."""
        flow = self.scope.flow
        if token in (flow.entering if on_errors else flow.entering_as_done)[state].surely:
            # Searching a path for each name would take time quadratic in the states.
            return None

        def follows(edge: Edge) -> bool:
            counts = on_errors or edge.event == "done"
            return counts and not flow.brings(edge, token)

        return self.shortest_path(self.machine.start, lambda name: name == state, follows)

    def leading_to(self, goals: set[str]) -> set[str]:
        """Every state from which some path leads to a goal, the goals included."""
        seen, front = set(goals), list(goals)
        while front:
            sources = {edge.source for edge in self.graph.incoming.get(front.pop(), ())} - seen
            seen |= sources
            front += sources
        return seen

    def pattern(self, written: str) -> Pattern[str] | None:
        """A pattern by its name or its text; None if it can't be read, which is reported once."""
        try:
            return compile_pattern(self.machine.patterns.get(written, written))
        except PatternError:
            return None

    def is_sound(self) -> bool:
        """Whether every edge leads to a state, and the first state is not final."""
        start, machine = self.machine.start, self.machine
        named = {start, *(edge.target for edge in self.graph.edges)}
        return named <= machine.states.keys() and start not in machine.finals

    def problem(
        self, path: DocPath, code: str, message: str, remedy: str = "", *,
        severity: Severity | None = None, key: bool | None = None,
    ) -> Problem:  # fmt: skip
        """A problem at a place of the machine's file, as the row of its code says."""
        row = CODES[code]
        severity, key = severity or row.severity, row.at_key if key is None else key
        return self.source.problem(path, code, message, help=remedy, severity=severity, key=key)

    def unknown(
        self, path: DocPath, code: str, what: str, name: str, known: Collection[str], add: str = ""
    ) -> Problem:
        """A name that is not among the known ones; `add` is the remedy where none is to be told."""
        remedy = self.meant(name, known) or did_you_mean(name, known) or add
        return self.problem(path, code, f"{what} `{name}`", remedy)

    def meant(self, name: str, known: Collection[str]) -> str:
        """The remedy for a state whose artifact or report is known, and for a field of `input`."""
        if (artifact := self.graph.written.get(name)) in known:
            return f"write `{artifact}`: that is what the state `{name}` writes"
        of_input = self.scope.input.fields or {}
        holders = {"reports": self.judges, "input": of_input, "report": (*PRINTED_FACTS, SCORE)}
        within = [held for held, names in holders.items() if held in known and name in names]
        return f"did you mean `{within[0]}.{name}`?" if within else ""

    def no_effect(self, path: DocPath, message: str, remedy: str = "delete it") -> Problem:
        return self.problem(path, "no-effect", message, remedy)

    def fault(self, path: DocPath, fault: GuardProblem | TemplateError) -> Problem:
        """The fault of a guard, of another text in its language, or of a template at a path."""
        line = fault.line if isinstance(fault, TemplateError) else 1
        return self.source.problem_inside(
            path, fault.code, fault.message,
            help=fault.help, line=line, column=fault.column, length=fault.length,
        )  # fmt: skip

    def with_use(self, problem: Problem, path: DocPath) -> Problem:
        used_here = ("used here", self.source.document.span(path))
        return problem.replace(also=(*problem.also, used_here))


Check = Callable[[Subject], Found]
Stage = Literal["parts", "paths", "unneeded"]
"""Single parts; paths, which mean little while an edge leads to no state; and unneeded parts, which
wait for all errors, because a misspelt name may need one."""
RULES: dict[Stage, list[Check]] = {"parts": [], "paths": [], "unneeded": []}
"""Each is total on every machine that loads, sound or not."""


C = TypeVar("C", bound=Callable[..., Found])


def of_machine(stage: Stage = "parts") -> Callable[[C], C]:
    """A rule of a machine as a whole."""

    def subscribe(rule: C) -> C:
        RULES[stage].append(rule)
        return rule

    return subscribe


Subscribe = Callable[[Callable[..., Found]], Check]


def of_each(nouns: Callable[[Subject], Iterable[tuple[Any, ...]]], stage: Stage) -> Subscribe:
    """A rule that is asked for each of some nouns."""

    def subscribe(rule: Callable[..., Found]) -> Check:
        return of_machine(stage)(
            lambda subject: (found for noun in nouns(subject) for found in rule(subject, *noun))
        )

    return subscribe


def of_states(noun: type[StateBase], stage: Stage = "parts") -> Subscribe:
    return of_each(lambda subject: subject.machine.states_of(noun).items(), stage)


def of_rules(noun: type[RuleBase], stage: Stage = "parts") -> Subscribe:
    return of_each(lambda subject: ((placed,) for placed in subject.rules_of(noun)), stage)


def of_edges(stage: Stage = "parts") -> Subscribe:
    return of_each(lambda subject: ((edge,) for edge in subject.graph.edges), stage)


def target_path(edge: Edge) -> DocPath:
    if edge.back:
        return (*edge.path, "revise")
    return edge.path if edge.is_brief else (*edge.path, "target")


# An unclosed tag reaches to the end, so that the text is searched only once.
CODE = re.compile(r"\{\{.*?(?:\}\}|\Z)|\{%.*?(?:%\}|\Z)", re.DOTALL)
TEXT = re.compile(r"\"(?:[^\"\\]|\\.)*(?:\"|\\?\Z)|'(?:[^'\\]|\\.)*(?:'|\\?\Z)", re.DOTALL)
PATH = re.compile(r"[^\W\d]\w*(?:\s*\.\s*[^\W\d]\w*)*")


class Mentions(Value, frozen=True):
    """The words of the code of a text; quoted words count, because they may be fields."""

    names: frozenset[str]
    whole: frozenset[str]
    """The names that occur somewhere without a field."""


@lru_cache(maxsize=4096)
def in_template(text: str) -> Mentions:
    return in_code(" ; ".join(CODE.findall(text)))


@lru_cache(maxsize=4096)
def in_code(text: str) -> Mentions:
    """The names in an expression: a guard, a condition, a path, the inside of a template."""
    bare = TEXT.sub(" ", text)
    paths = [re.split(r"\s*\.\s*", path) for path in PATH.findall(bare)]
    # With a hyphen, a word of a guard is a name, and one of a template is arithmetic.
    names = frozenset([*re.findall(r"\w+", text), *re.findall(r"[\w-]+", text)])
    return Mentions(names, frozenset(path[0] for path in paths if len(path) == 1))


def either(names: Iterable[str]) -> str:
    return " or ".join(f"`{name}`" for name in names)


def arrows(way: Iterable[str]) -> str:
    """`draft → validate → approval`; of a long path only its ends."""
    states = list(way)
    if len(states) > 9:
        states = [*states[:4], "…", *states[-4:]]
    return " → ".join(states)


def on_path(way: StatePath) -> str:
    """`on the path draft → validate`, for the end of a sentence."""
    return f"on the path {arrows(way)}" if len(way) > 1 else f"when a run starts with `{way[0]}`"
