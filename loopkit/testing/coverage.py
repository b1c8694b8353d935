"""Coverage: the states, transitions and caps that played runs reach, and those that no run can."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.engine.changes import apply
from loopkit.engine.events import Decided, Entered, Event, Resumed, Started, Suspended, Waiting
from loopkit.engine.macrostep import Engine
from loopkit.engine.revisions import has_room
from loopkit.engine.state import RunState
from loopkit.language.load import Loaded
from loopkit.machine.edges import Edge, limit_of
from loopkit.machine.graph import Graph
from loopkit.proof.bounds.exploring import explore
from loopkit.proof.bounds.result import Bounds
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.scenario.cases import GAP
from loopkit.testing.playing import FamilyRun
from loopkit.testing.suites import Suite
from loopkit.text import columns, one_line, printable
from loopkit.views.diagram.model import Mark, Marks

KINDS: tuple[tuple[GoalKind, str], ...] = (
    ("state", "states"),
    ("transition", "transitions"),
    ("cap", "caps"),
)
SHOWN_STATES = 10


def coverage_text(coverage: Coverage) -> str:
    """A table with one row for each machine, and a line for everything that is not covered.

    The line names the states on a shortest way there; whether a run can take it is not examined.
    """
    rows = [("machine", *(name for _, name in KINDS), "covered")]
    for machine in coverage.machines:
        counts = (machine.count(kind) for kind, _ in KINDS)
        parts = (f"{count.covered}/{count.total}" for count in counts)
        rows.append((machine.file, *parts, f"{machine.count().percent:g} %"))
    if len(coverage.machines) > 1:
        rows.append(("all", "", "", "", f"{coverage.count.percent:g} %"))
    missed = [text for machine in coverage.machines for text in _lines_of_missed(machine)]
    blocks = ["\n".join(columns(rows, "<>>>>"))]
    if missed:
        blocks.append("\n".join(["not covered:", *(f"  {text}" for text in missed)]))
    return printable("\n\n".join(blocks))


def data(coverage: Coverage) -> dict[str, Any]:
    """The coverage as data for JSON, with every goal, its status and the cases that cover it."""
    machines = [_machine(machine) for machine in coverage.machines]
    return {"coverage": 1, **_count(coverage.count), "machines": machines}


def _lines_of_missed(machine: MachineCoverage) -> Iterator[str]:
    subject = Subject.of(machine.loaded)
    never = {edge for edge, mark in machine.marks.edges.items() if mark == "impossible"}
    for goal in machine.missed:
        way = way_to_goal(subject, goal, never)
        if len(way) > SHOWN_STATES:
            way = (way[0], GAP, *way[2 - SHOWN_STATES :])
        by = f", by {', '.join(way)}" if way else ""
        line, text = goal_line(machine.loaded, goal), goal_text(subject.graph, goal)
        yield f"{machine.file}:{line}: {text}{by}"


def _machine(machine: MachineCoverage) -> dict[str, Any]:
    graph = Graph(machine.loaded.machine)
    goals = [
        {
            "kind": one.goal.kind,
            "name": one.goal.name,
            "status": one.status,
            "cases": list(one.cases),
            "text": goal_text(graph, one.goal),
            "edges": list(one.goal.edges),
            "line": goal_line(machine.loaded, one.goal),
        }
        for one in machine.measured
    ]
    return {
        "machine": machine.loaded.machine.name,
        "file": machine.file,
        "is_exact": machine.is_exact,
        **_count(machine.count()),
        **{name: _count(machine.count(kind)) for kind, name in KINDS},
        "goals": goals,
    }


def _count(count: Count) -> dict[str, Any]:
    return {"covered": count.covered, "total": count.total, "percent": count.percent}


GoalKind = Literal["state", "transition", "cap"]
Key = tuple[GoalKind, str]
"""A state that is entered, an edge that is taken, a back edge that has no room."""


@dataclass(frozen=True, slots=True)
class Goal:
    kind: GoalKind
    name: str
    """The state; the id of the edge; for one declaration of edges in many states, its path."""
    at: DocPath
    """Where the machine file declares it."""
    edges: tuple[str, ...] = ()
    """The edges, any one of which reaches the goal: when it is taken, or for a cap when it has no
    room as its state decides. Empty for a state."""

    @property
    def keys(self) -> frozenset[Key]:
        return frozenset((self.kind, one) for one in self.edges or (self.name,))


THEN: DocPath = ("limits", "then")


def goals_of(loaded: Loaded) -> tuple[Goal, ...]:
    """Everything that cases of the machine can cover, in the order of its file.

    `limits.then` is one goal, though every agent, run and validate state has an edge of it.
    """
    graph = Graph(loaded.machine)
    goals = [Goal("state", name, ("states", name)) for name in graph.states]
    for edge in graph.edges:
        if edge.event != "limit":
            goals.append(Goal("transition", edge.id, edge.path, (edge.id,)))
    if limits := tuple(edge.id for edge in graph.edges if edge.event == "limit"):
        goals.append(Goal("transition", ".".join(map(str, THEN)), THEN, limits))
    for edge in graph.edges:
        if edge.back:
            goals.append(Goal("cap", edge.id, _cap_path(loaded, edge), (edge.id,)))
    return tuple(goals)


def _cap_path(loaded: Loaded, edge: Edge) -> DocPath:
    """The path of the edge's own bound or its budget's name, or else of the edge."""
    document = loaded.source.document
    written = ((*edge.path, key) for key in ("max", "budget"))
    return next((path for path in written if document.node(path) is not None), edge.path)


def goal_text(graph: Graph, goal: Goal) -> str:
    """`state escalated`, `validate[1] → escalated (cap_reached or stalled)`, `cap of …`."""
    if goal.kind == "state":
        return f"state {goal.name}"
    edge = graph.by_id[goal.edges[0]]
    transition = f"{goal.name} → {edge.target}"
    if goal.kind == "cap":
        bounds = ", ".join(_bound(graph, edge, name) for name in edge.counters)
        return f"cap of {transition} ({bounds})"
    when = _when(graph, edge)
    return f"{transition} ({when})" if when else transition


def goal_line(loaded: Loaded, goal: Goal) -> int:
    span = loaded.source.problem(goal.at, "", "", key=True).span
    assert span is not None
    return span.line


def way_to_goal(subject: Subject, goal: Goal, never_taken: Collection[str]) -> Sequence[str]:
    """The states on a shortest way from the start to the state that decides for a goal.

    `never_taken` are the ids of edges that no run takes.
    """
    start, by_id = subject.machine.start, subject.graph.by_id
    ends = {by_id[edge].source for edge in goal.edges} or {goal.name}
    way = subject.shortest_path(start, ends.__contains__, lambda e: e.id not in never_taken) or ()
    return way[:-1] if goal.kind == "state" else way


def _when(graph: Graph, edge: Edge) -> str:
    if edge.event == "limit":
        return "a limit is reached"
    if edge.event != "done":
        return f"a {edge.event} error"
    if edge.guard is not None:
        return one_line(edge.guard)
    return "otherwise" if graph.on(edge.source, "done")[0] is not edge else ""


def _bound(graph: Graph, edge: Edge, counter: str) -> str:
    name = "max" if counter == edge.id else limit_of(counter) or counter.replace(":", " ")
    return f"{name} {graph.caps[counter]}"


@dataclass(frozen=True, slots=True)
class Count:
    covered: int
    total: int

    @property
    def percent(self) -> float:
        """With one digit after the point, rounded down, so that 100 means all."""
        return (1000 * self.covered // self.total) / 10 if self.total else 100.0


@dataclass(frozen=True, slots=True)
class Measured:
    goal: Goal
    status: Mark
    """`impossible` where no run of the machine can reach the goal."""
    cases: tuple[str, ...]
    """The cases that cover it, as `FILE::CASE`, in the order in which they were played."""


@dataclass(frozen=True)
class MachineCoverage:
    loaded: Loaded
    measured: tuple[Measured, ...]
    is_exact: bool
    """False if the machine has more configurations than are examined: then no goal is known to be
    impossible."""

    @property
    def file(self) -> str:
        """The machine file: relative to the current folder if below it, else as it was named."""
        named = self.loaded.source.document.file
        here = Path.cwd()
        path = Path(named).resolve()
        return str(path.relative_to(here)) if path.is_relative_to(here) else named

    @property
    def missed(self) -> tuple[Goal, ...]:
        return tuple(one.goal for one in self.measured if one.status == "missed")

    def count(self, kind: GoalKind | None = None) -> Count:
        found = [one.status for one in self.measured if kind in (None, one.goal.kind)]
        covered = found.count("covered")
        return Count(covered, covered + found.count("missed"))

    @cached_property
    def marks(self) -> Marks:
        marks = {key: one.status for one in self.measured for key in one.goal.keys}
        return Marks(
            *({key[1]: marks[key] for key in marks if key[0] == kind} for kind, _ in KINDS)
        )


@dataclass(frozen=True)
class Coverage:
    machines: tuple[MachineCoverage, ...]

    @property
    def count(self) -> Count:
        counts = [machine.count() for machine in self.machines]
        return Count(sum(one.covered for one in counts), sum(one.total for one in counts))


@dataclass
class Tally:
    """Collects what played cases reach. A machine that several files test is counted once."""

    _machines: dict[Path, tuple[Loaded, dict[Goal, list[str]]]] = field(default_factory=dict)
    """By file: the machine, and the cases that reach each of its goals."""

    def add(self, suite: Suite, case: str, run: FamilyRun, loaded: Loaded | None = None) -> None:
        """Count the run of a case, and its children for the machines that they run."""
        loaded = loaded or suite.machine
        named = f"{suite.path}::{case}"
        reached = collect_reached(suite.machines.engines[run.state.definition], run.plain_events)
        for goal, cases in self._goals(loaded).items():
            # Several children of one case may reach the same.
            if goal.keys & reached and cases[-1:] != [named]:
                cases.append(named)
        for one in run.children:
            self.add(suite, case, one.run, loaded.children[one.state])

    def _goals(self, loaded: Loaded) -> dict[Goal, list[str]]:
        """The goals of a machine; from then on the machines that it runs count too."""
        path = Path(loaded.source.document.file).resolve()
        if path not in self._machines:
            self._machines[path] = loaded, {goal: [] for goal in goals_of(loaded)}
            for child in loaded.children.values():
                self._goals(child)
        return self._machines[path][1]

    def coverage(self) -> Coverage:
        """The coverage by the cases so far. Goes through all runs of each machine once."""
        return Coverage(tuple(_measure(*machine) for machine in self._machines.values()))


def _measure(loaded: Loaded, cases: Mapping[Goal, Sequence[str]]) -> MachineCoverage:
    bounds = explore(Analysis.of_machine(loaded.machine), measures=())
    impossible = impossible_goals(loaded, cases, bounds)
    measured: list[Measured] = []
    for goal, by in cases.items():
        uncovered: Mark = "impossible" if goal in impossible else "missed"
        measured.append(Measured(goal, "covered" if by else uncovered, tuple(by)))
    return MachineCoverage(loaded, tuple(measured), bounds.is_whole)


def impossible_goals(loaded: Loaded, goals: Iterable[Goal], bounds: Bounds) -> frozenset[Goal]:
    """The goals that no run of the machine can reach; none where the bounds are not exact."""
    graph = Graph(loaded.machine)
    never: set[Key] = {("cap", edge) for edge in bounds.unclosed}
    never |= {("transition", edge) for edge in bounds.untaken}
    for name in graph.states.keys() - {graph.machine.start}:
        if {edge.id for edge in graph.incoming[name]} <= {*bounds.untaken}:
            never.add(("state", name))
    return frozenset(goal for goal in goals if goal.keys <= never)


def collect_reached(engine: Engine, events: Iterable[Event]) -> set[Key]:
    reached, before = set[Key](), RunState()
    for event in events:
        match event:
            case Entered():
                reached.add(("state", event.state))
            case Decided():
                reached.add(("transition", event.edge))
                kind = engine.program.graph.by_id[event.edge].event
                reached.update(_edges_without_room(engine, before, event.source, kind))
            case Waiting(call=None):
                reached.update(_edges_without_room(engine, before, event.state, "done"))
            case Suspended(state=state, reason=reason):
                # A revise edge of `on_error` without room can't be taken: the run ends here.
                reached.update(_edges_without_room(engine, before, state, reason))
        # Only these change caps and counters.
        if isinstance(event, Started | Decided | Resumed):
            apply(before, event)
    return reached


def _edges_without_room(engine: Engine, run: RunState, state: str, event: str) -> Iterator[Key]:
    """The back edges of a state that an event could take if they had room."""
    for edge in engine.program.graph.outgoing[state]:
        if edge.back and edge.event == event and not has_room(engine.program, run, edge):
            yield "cap", edge.id
