"""Fitting what a run has done into another definition, or everything that does not fit there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from loopkit.checks.stuck_ahead import stuck_ahead, stuck_in_words
from loopkit.document.document import DocPath
from loopkit.drive.differences import differences
from loopkit.drive.repair.baselines import new_baselines
from loopkit.drive.repair.edges import counters_of_route, same_edges
from loopkit.drive.repair.facts import unknown_facts
from loopkit.drive.repair.judges import task_moves
from loopkit.drive.repair.places import cap_path, edge_path, in_words
from loopkit.drive.repair.spent import overspent
from loopkit.engine.changes import apply
from loopkit.engine.events import Repaired
from loopkit.engine.state import RunState
from loopkit.language import EachState, Machine
from loopkit.language.input_faults import InvalidInput
from loopkit.machine.edges import TOTAL
from loopkit.machine.graph import Graph, artifact_of, cap_value
from loopkit.machine.inputs import complete_input


@dataclass(frozen=True, slots=True)
class Misfit:
    """Something that a run has done and that another definition has no room for."""

    path: DocPath
    """Where in the other definition."""
    message: str
    help: str = ""


class NotFitting(Exception):
    """A definition with which a run can't go on; `misfits` are all the reasons."""

    def __init__(self, misfits: list[Misfit]) -> None:
        super().__init__("; ".join(misfit.message for misfit in misfits))
        self.misfits = tuple(misfits)


@dataclass(frozen=True)
class Fitting:
    """A run, the machine that it has, and the one with which it is to go on."""

    run: RunState
    old: Machine
    new: Machine
    raised: Mapping[str, Any]
    """Limits that are set for the run together with the new machine."""

    @cached_property
    def graphs(self) -> tuple[Graph, Graph]:
        return Graph(self.old), Graph(self.new)

    @cached_property
    def same(self) -> dict[str, str]:
        return same_edges(*self.graphs)

    @cached_property
    def renamed(self) -> dict[str, str]:
        """The new id of each edge that the run knows under another id; empty if it is gone."""
        edges = (each.edge for waiting in self.run.deferred.values() for each in waiting)
        known = dict.fromkeys((*self.run.route, *(edge for edge in edges if edge)))
        return {edge: to for edge in known if (to := self.same.get(edge, "")) != edge}

    @cached_property
    def input(self) -> dict[str, Any]:
        """The run's input with what the new machine adds; raises InvalidInput."""
        given = {name: value for name, value in self.run.input.items() if name in self.new.input}
        return {**self.run.input, **complete_input(self.new, given)}

    @cached_property
    def counters(self) -> dict[str, int]:
        return counters_of_route((self.same[edge] for edge in self.run.route), self.graphs[1])

    @cached_property
    def released(self) -> tuple[str, ...]:
        """Limits that were set for the run before, and that the new machine changes."""
        before, after = self.old.limits, self.new.limits
        changed = (n for n in self.run.limits if getattr(before, n) != getattr(after, n))
        return tuple(n for n in changed if n not in self.raised)

    @cached_property
    def limits(self) -> dict[str, Any]:
        """The limits that would be in force."""
        kept = {n: limit for n, limit in self.run.limits.items() if n not in self.released}
        return {**self.new.limits.model_dump(), **kept, **self.raised}


def fit(run: RunState, old: Machine, new: Machine, raised: Mapping[str, Any]) -> Repaired:
    """The event with which a run goes on with another machine; its digest is still empty.

    Raises NotFitting. Everything ahead of the run is explored from where it stands then.
    """
    fitting = Fitting(run, old, new, raised)
    for rules in (OF_WAY, OF_SPENDING):
        if misfits := [misfit for rule in rules for misfit in rule(fitting)]:
            raise NotFitting(misfits)
    added = {n: v for n, v in fitting.input.items() if n not in run.input or run.input[n] != v}
    repaired = Repaired(
        definition="",
        changes=differences(old, new),
        edges=fitting.renamed,
        counters=fitting.counters,
        tasks=task_moves(run, old, new),
        input=added,
        limits=fitting.released,
    )
    if misfits := list(_stuck(fitting, repaired)):
        raise NotFitting(misfits)
    return repaired


def _states(fitting: Fitting) -> Iterator[Misfit]:
    for name in fitting.run.visits:
        state = fitting.new.states.get(name)
        if state is None:
            message = f"the run has been in `{name}`, which no longer exists"
            yield Misfit(
                ("states",), message, "keep the name of every state that the run has been in"
            )
        elif state.kind != (kind := fitting.old.states[name].kind):
            message = f"the run has been in `{name}` as a state of the kind `{kind}`"
            yield Misfit(("states", name), message, "use another name for the new state")


def _agents(fitting: Fitting) -> Iterator[Misfit]:
    for name in dict.fromkeys(task.agent for task in fitting.run.tasks.values()):
        if name in fitting.old.agents and name not in fitting.new.agents:
            message = f"the run has asked `{name}`, which no longer exists"
            yield Misfit(("agents",), message, "keep its name; everything else about it may change")


def _edges(fitting: Fitting) -> Iterator[Misfit]:
    old, new = fitting.graphs
    for edge_id in dict.fromkeys(fitting.run.route):
        edge = old.by_id[edge_id]
        if edge_id not in fitting.same and edge.source in new.states:
            message = f"the run took {in_words(edge)}, which no longer exists"
            remedy = "keep its guard and its target; it may move, and others may come before it"
            yield Misfit(edge_path(fitting.new, edge), message, remedy)


def _artifacts(fitting: Fitting) -> Iterator[Misfit]:
    for name, times in fitting.run.attempts.items():
        written = artifact_of(fitting.old, name)
        if times and name in fitting.new.states and written != artifact_of(fitting.new, name):
            message = f"the run has `{written}` from `{name}`, which no longer writes it"
            yield Misfit(("states", name, "output"), message, f"keep `output: {written}`")


def _children(fitting: Fitting) -> Iterator[Misfit]:
    """Children that have begun keep their items, whose keys have to be those of the list."""
    name = fitting.run.state
    old, new = fitting.old.states.get(name), fitting.new.states.get(name)
    begun = fitting.run.children.get(name, {}).values()
    is_under_way = any(child.started.visit == fitting.run.visit for child in begun)
    if is_under_way and isinstance(old, EachState) and isinstance(new, EachState):
        for field in ("each", "key"):
            if (written := getattr(old, field)) != getattr(new, field):
                message = f"items of `{name}` have begun, and would be others"
                remedy = f"keep `{field}: {written}`, or start a new run"
                yield Misfit(("states", name, field), message, remedy)


def _inputs(fitting: Fitting) -> Iterator[Misfit]:
    try:
        fitting.input  # noqa: B018 - asked for what it raises
    except InvalidInput as error:
        for fault in error.faults:
            message = f"{fault.message}; the run's input stays what it was"
            path = ("input", fault.missing) if fault.missing else ("input",)
            yield Misfit(path, message, "give it a default")


def _facts(fitting: Fitting) -> Iterator[Misfit]:
    for path, name, owner, why in unknown_facts(fitting.run, fitting.graphs[1]):
        message = f"the guard reads `{name}`, and `{owner}` left {why} in this run"
        yield Misfit(path, message, f"read it only in `{owner}` itself, or in a new run")


def _baselines(fitting: Fitting) -> Iterator[Misfit]:
    for path in new_baselines(fitting.run, fitting.old, fitting.new):
        message = "a baseline is taken before the first work, and the run has begun"
        yield Misfit(path, message, "delete `baseline`, or start a new run")


def _caps(fitting: Fitting) -> Iterator[Misfit]:
    caps = {**fitting.graphs[1].caps, TOTAL: fitting.limits["total_revisions"]}
    for counter, spent in fitting.counters.items():
        cap = cap_value(caps[counter], fitting.input)
        if cap < spent:
            message = f"the cap is {cap}, but the run has already spent {spent}"
            yield Misfit(cap_path(fitting.new, counter), message, f"write {spent} or more")


def _limits(fitting: Fitting) -> Iterator[Misfit]:
    before = {**fitting.old.limits.model_dump(), **fitting.run.limits}
    changed = {n: limit for n, limit in fitting.limits.items() if before.get(n) != limit}
    changed.pop("total_revisions", None)
    for name, message in overspent(fitting.run, changed):
        yield Misfit(("limits", name), message, "raise it")


def _stuck(fitting: Fitting, repaired: Repaired) -> Iterator[Misfit]:
    run = fitting.run.copy()
    apply(run, repaired)
    if not run.state:
        # The checks of the machine hold from its start.
        return
    total = fitting.limits.get("total_revisions")
    if (stuck := stuck_ahead(fitting.new, run, total)) is not None:
        message = f"`{stuck.state}` would have no transition left{stuck_in_words(stuck)}"
        path = ("states", stuck.state, "transitions")
        yield Misfit(path, message, "add `- {target: STATE}` as the last one")


Rule = Callable[[Fitting], Iterator[Misfit]]
OF_WAY: tuple[Rule, ...] = (_states, _agents, _edges, _artifacts, _children, _inputs)
"""Asked first: what the run has used has to exist."""
OF_SPENDING: tuple[Rule, ...] = (_facts, _baselines, _caps, _limits)
