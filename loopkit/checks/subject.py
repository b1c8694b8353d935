"""The subject of every check: the machine, its graph, its source, and the names known where.

`no-effect`, which several checks give, is made here. Names mentioned in a text are read
generously: a name is unused only if no text mentions it. Paths are the shortest to a goal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, TypeVar

from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, Severity
from loopkit.language.agents.tools import ToolBase
from loopkit.language.guard.grammar import GuardProblem
from loopkit.language.load import Loaded, Source
from loopkit.language.template.errors import TemplateError
from loopkit.language.template.grammar import Shape
from loopkit.machine.edges import Edge
from loopkit.machine.graph import Graph
from loopkit.machine.scope import Scope
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.text.patterns import PatternError, compile_pattern
from loopkit.values import Value

if TYPE_CHECKING:
    from regex import Pattern

T = TypeVar("T", bound=ToolBase)


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
    def entering(self) -> Mapping[str, Mapping[str, Shape]]:
        """What templates see when each state starts its work."""
        return {name: self.scope.entering(name) for name in self.machine.states}

    @cached_property
    def judging(self) -> Mapping[str, Mapping[str, Shape]]:
        """What rules and judges see at each state that judges, and rules at each that drafts."""
        drafting = (name for placed in self.rules for name in placed.drafted_at)
        return {name: self.scope.judging(name) for name in (*self.judges, *drafting)}

    def names_read(self, name: str) -> frozenset[str]:
        return self.guards.names_in(edge.guard for edge in self.graph.on(name, "done"))

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
        self,
        path: DocPath,
        code: str,
        message: str,
        remedy: str = "",
        *,
        severity: Severity = "error",
        key: bool = False,
    ) -> Problem:
        """A problem at a place of the machine's file, at its key with `key`."""
        return self.source.problem(path, code, message, help=remedy, severity=severity, key=key)

    def warning(
        self, path: DocPath, code: str, message: str, remedy: str = "", *, key: bool = False
    ) -> Problem:
        return self.problem(path, code, message, remedy, severity="warning", key=key)

    def no_effect(self, path: DocPath, message: str, remedy: str = "delete it") -> Problem:
        return self.warning(path, "no-effect", message, remedy, key=True)

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


def target_path(edge: Edge) -> DocPath:
    if edge.back:
        return (*edge.path, "revise")
    return edge.path if edge.is_brief else (*edge.path, "target")


# An unclosed tag reaches to the end, so that the text is searched only once.
CODE = re.compile(r"\{\{.*?(?:\}\}|\Z)|\{%.*?(?:%\}|\Z)", re.DOTALL)
TEXT = re.compile(r"\"(?:[^\"\\]|\\.)*(?:\"|\\?\Z)|'(?:[^'\\]|\\.)*(?:'|\\?\Z)", re.DOTALL)
PATH = re.compile(r"[^\W\d]\w*(?:\s*\.\s*[^\W\d]\w*)*")
HYPHENED = re.compile(r"[\w-]+")


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
    texts = [found[1:-1] for found in TEXT.findall(text)]
    quoted = [*texts, *(word for found in texts for word in re.findall(r"\w+", found))]
    # In a guard that is a name, in a template it is arithmetic.
    hyphened = HYPHENED.findall(bare)
    names = frozenset([*(step for path in paths for step in path), *quoted, *hyphened])
    return Mentions(names, frozenset(path[0] for path in paths if len(path) == 1))


StatePath = tuple[str, ...]


def arrows(way: Iterable[str]) -> str:
    """`draft → validate → approval`; of a long path only its ends."""
    states = list(way)
    if len(states) > 9:
        states = [*states[:4], "…", *states[-4:]]
    return " → ".join(states)


def on_path(way: StatePath) -> str:
    """`on the path draft → validate`, for the end of a sentence."""
    return f"on the path {arrows(way)}" if len(way) > 1 else f"when a run starts with `{way[0]}`"


def shortest_path(
    graph: Graph, start: str, goal: Callable[[str], bool], follows: Callable[[Edge], bool]
) -> StatePath | None:
    """The states of a shortest path from `start` to a goal, over edges that `follows` accepts."""
    before: dict[str, str | None] = {start: None}
    front = [start]
    for name in front:
        if goal(name):
            way = [name]
            while (earlier := before[way[-1]]) is not None:
                way.append(earlier)
            return tuple(reversed(way))
        for edge in graph.outgoing.get(name, ()):
            if edge.target in graph.states and edge.target not in before and follows(edge):
                before[edge.target] = name
                front.append(edge.target)
    return None


def forward_path(graph: Graph, start: str, goal: str, without: str = "") -> StatePath | None:
    """The states of a shortest path over forward edges, none of which leads to `without`."""
    return shortest_path(
        graph, start, lambda name: name == goal, lambda way: way.forward and way.target != without
    )


def leading_to(graph: Graph, goals: set[str]) -> set[str]:
    """Every state from which some path leads to a goal, the goals included."""
    seen, front = set(goals), list(goals)
    while front:
        sources = {edge.source for edge in graph.incoming.get(front.pop(), ())} - seen
        seen |= sources
        front += sources
    return seen
