"""A resume with another definition: what changes, and whether what the run has done fits into it.

Everything that does not fit is reported at once. Also refused are limits below what is used, and
to go on with a run that is over.
"""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from loopkit.agents.players import AgentChanges
from loopkit.agents.port import NotRunnable
from loopkit.checks.exits import stuck_ahead, stuck_in_words, stuck_under
from loopkit.checks.references import wrong_options
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, ProblemsFound, did_you_mean
from loopkit.drive.stored_runs import differences
from loopkit.engine.changes import apply
from loopkit.engine.events import Repaired
from loopkit.engine.revisions import after_edge
from loopkit.engine.state import RunState
from loopkit.engine.telemetry import usd_without_held
from loopkit.language.datatypes.datatype import DataType, default_fault
from loopkit.language.inclusion import digest_of
from loopkit.language.input_faults import MISSING, InvalidInput
from loopkit.language.load import Loaded, Source, load_resolved, with_definition
from loopkit.language.machine import Limits, Machine
from loopkit.language.states.each import EachState
from loopkit.language.states.state import WorkingState
from loopkit.language.validators import Rule
from loopkit.machine.edges import OF_REVISIONS, Edge, limit_of
from loopkit.machine.graph import Graph, artifact_of, cap_value
from loopkit.machine.inputs import complete_input
from loopkit.machine.program import Program, flat_facts, validators_of, with_places
from loopkit.text.run_ids import is_child, root_of

CODE = "does-not-fit"
T = TypeVar("T")

Misfit = tuple[DocPath, str, str]
"""What a run has done and another definition has no room for: where in that, in words, a remedy."""


@dataclass(frozen=True)
class Definition:
    machine: Machine
    resolved: str
    source: Source | None = None

    @property
    def digest(self) -> str:
        return digest_of(self.resolved)

    def refuse(self, misfits: Iterable[Misfit]) -> None:
        """Raise ProblemsFound for what does not fit, each at its place."""
        if found := [self._problem(*misfit) for misfit in misfits]:
            raise ProblemsFound(found)

    def _problem(self, path: DocPath, message: str, remedy: str) -> Problem:
        if self.source is None:
            return Problem(CODE, message, None, ".".join(map(str, path)), remedy)
        return self.source.problem(path, CODE, message, help=remedy)


@dataclass(frozen=True)
class Mend:
    loaded: Loaded | None = None
    """The machine of a file, instead of the one that the run has."""
    agents: AgentChanges = AgentChanges()

    @property
    def is_any(self) -> bool:
        return bool(self.loaded or self.agents)

    def apply_to(self, stored: str) -> Definition:
        """A stored definition with all changes applied; raises NotRunnable."""
        machine = load_resolved(stored)
        resolved = stored
        source = None
        if self.loaded is not None:
            machine = self.loaded.machine
            resolved = self.loaded.resolved
            source = self.loaded.source
        machine = changed_machine(machine, self.agents)
        return Definition(machine, with_definition(resolved, machine), source)


def changed_machine(machine: Machine, changes: AgentChanges) -> Machine:
    """The machine with other models and options for its agents; raises NotRunnable."""
    for name, options in changes.params.items():
        for key, _, message, remedy in wrong_options(options):
            raise NotRunnable(f"`--param {name}.{key}=…`: {message}: {remedy}")
    return changes.apply_to(machine)


AS_IT_IS = Mend()


@dataclass(frozen=True)
class Fitting:
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
        kept = {n: limit for n, limit in self.run.limits.items() if n not in self.released}
        return {**self.new.limits.model_dump(), **kept, **self.raised}


def repair(run: RunState, old: Machine, wanted: Definition, raised: Mapping[str, Any]) -> Repaired:
    """The event with which a run goes on with a definition; raises ProblemsFound.

    It has no changes if the run has that definition already.
    """
    fitting = Fitting(run, old, wanted.machine, raised)
    for rules in (OF_WAY, OF_SPENDING):
        wanted.refuse(misfit for rule in rules for misfit in rule(fitting))
    added = {n: v for n, v in fitting.input.items() if n not in run.input or run.input[n] != v}
    repaired = Repaired(
        definition=wanted.digest,
        changes=differences(old, fitting.new),
        edges=fitting.renamed,
        counters=fitting.counters,
        tasks=task_moves(run, old, fitting.new),
        input=added,
        limits=fitting.released,
    )
    ahead = run.copy()
    apply(ahead, repaired)
    wanted.refuse(_stuck(fitting, ahead))
    return repaired


def _states(fitting: Fitting) -> Iterator[Misfit]:
    for name in fitting.run.visits:
        state = fitting.new.states.get(name)
        if state is None:
            message = f"the run has been in `{name}`, which no longer exists"
            yield ("states",), message, "keep the name of every state that the run has been in"
        elif state.kind != (kind := fitting.old.states[name].kind):
            message = f"the run has been in `{name}` as a state of the kind `{kind}`"
            yield ("states", name), message, "use another name for the new state"


def _agents(fitting: Fitting) -> Iterator[Misfit]:
    for name in dict.fromkeys(task.agent for task in fitting.run.tasks.values()):
        if name in fitting.old.agents and name not in fitting.new.agents:
            message = f"the run has asked `{name}`, which no longer exists"
            yield ("agents",), message, "keep its name; everything else about it may change"


def _edges(fitting: Fitting) -> Iterator[Misfit]:
    old, new = fitting.graphs
    for edge_id in dict.fromkeys(fitting.run.route):
        edge = old.by_id[edge_id]
        if edge_id not in fitting.same and edge.source in new.states:
            message = f"the run took {in_words(edge)}, which no longer exists"
            remedy = "keep its guard and its target; it may move, and others may come before it"
            yield edge_path(fitting.new, edge), message, remedy


def _artifacts(fitting: Fitting) -> Iterator[Misfit]:
    for name, times in fitting.run.attempts.items():
        written = artifact_of(fitting.old, name)
        if times and name in fitting.new.states and written != artifact_of(fitting.new, name):
            message = f"the run has `{written}` from `{name}`, which no longer writes it"
            yield ("states", name, "output"), message, f"keep `output: {written}`"
    for name in sorted(fitting.new.artifacts.keys() - fitting.run.artifacts.keys()):
        message = f"the run began without a first value of `{name}`"
        yield ("artifacts", name), message, "let a state write it, or start a new run"


def _children(fitting: Fitting) -> Iterator[Misfit]:
    name = fitting.run.state
    old = fitting.old.states.get(name)
    new = fitting.new.states.get(name)
    begun = fitting.run.children.get(name, {}).values()
    is_under_way = any(child.started.visit == fitting.run.visit for child in begun)
    if is_under_way and isinstance(old, EachState) and isinstance(new, EachState):
        for field in ("each", "key"):
            if (written := getattr(old, field)) != getattr(new, field):
                message = f"items of `{name}` have begun, and would be others"
                remedy = f"keep `{field}: {written}`, or start a new run"
                yield ("states", name, field), message, remedy


def _inputs(fitting: Fitting) -> Iterator[Misfit]:
    try:
        fitting.input  # noqa: B018 - asked for what it raises
    except InvalidInput as error:
        for fault in error.faults:
            message = f"{fault.message}; the run's input stays what it was"
            path = ("input", fault.path) if fault.code == MISSING else ("input",)
            yield path, message, "give it a default"


def _facts(fitting: Fitting) -> Iterator[Misfit]:
    """Facts that guards read of states whose work left others; the one at work leaves new ones."""
    run, graph = fitting.run, fitting.graphs[1]
    program = Program(graph.machine, "")
    left = {name: flat_facts(facts) for name, facts in run.facts.items() if name != run.state}
    for edge in graph.edges:
        for read in sorted(program.guard_names.get(edge.id, ())):
            owner, _, name = read.partition(".")
            if owner not in left or owner == edge.source:
                continue
            if why := _misfit(left[owner], name, program.type_from(owner)):
                message = f"the guard reads `{read}`, and `{owner}` left {why} in this run"
                remedy = f"read it only in `{owner}` itself, or in a new run"
                yield (*edge.path, "guard"), message, remedy


def _misfit(left: dict[str, object], name: str, datatype: DataType | None) -> str:
    if name not in left:
        return "nothing of that name"
    known = datatype.at(name.split(".")) if datatype else None
    value = left[name]
    if known is None or (value is None and (known.optional or not known.required)):
        return ""
    return f"a value that does not fit: {fault}" if (fault := default_fault(value, known)) else ""


def _baselines(fitting: Fitting) -> Iterator[Misfit]:
    run, new = fitting.run, fitting.new
    # One that the old machine has as well is not taken because the input rules it out.
    known = {(*place, key) for place, keys in run.baselines.items() for key in keys}
    known |= set(_baseline_places(fitting.old))
    wanted = set(_baseline_places(new)) - known if run.state else ()
    for state, validator in dict.fromkeys((state, validator) for state, validator, _ in wanted):
        path: DocPath = ("validators", validator)
        if validator not in new.validators:
            path = ("states", state, "by", int(validator.removeprefix("by[").removesuffix("]")))
        message = "a baseline is taken before the first work, and the run has begun"
        yield path, message, "delete `baseline`, or start a new run"


def _baseline_places(machine: Machine) -> Iterator[tuple[str, str, str]]:
    for name, state in Graph(machine).judges.items():
        for validator, rules in validators_of(machine, state).items():
            for place, rule in with_places(rules):
                if rule.has_baseline:
                    yield name, validator, place


def _caps(fitting: Fitting) -> Iterator[Misfit]:
    caps = Graph(fitting.new, fitting.limits).caps
    for counter, spent in fitting.counters.items():
        cap = cap_value(caps[counter], fitting.input)
        if cap < spent:
            message = f"the cap is {cap}, but the run has already spent {spent}"
            yield cap_path(fitting.new, counter), message, f"write {spent} or more"


def _limits(fitting: Fitting) -> Iterator[Misfit]:
    before = {**fitting.old.limits.model_dump(), **fitting.run.limits}
    wanted = ((n, limit) for n, limit in fitting.limits.items() if n not in OF_REVISIONS)
    changed = {name: limit for name, limit in wanted if before.get(name) != limit}
    for name, message in overspent(fitting.run, changed):
        yield ("limits", name), message, "raise it"


def _stuck(fitting: Fitting, run: RunState) -> Iterator[Misfit]:
    if not run.state:
        # The checks of the machine hold from its start.
        return
    if (stuck := stuck_ahead(fitting.new, run, fitting.limits)) is not None:
        message = f"`{stuck.state}` would have no transition left{stuck_in_words(stuck)}"
        path = ("states", stuck.state, "transitions")
        yield path, message, "add `- {target: STATE}` as the last one"


FittingRule = Callable[[Fitting], Iterator[Misfit]]
OF_WAY: tuple[FittingRule, ...] = (_states, _agents, _edges, _artifacts, _children, _inputs)
"""Asked first: what the run has used has to exist."""
OF_SPENDING: tuple[FittingRule, ...] = (_facts, _baselines, _caps, _limits)


def same_edges(old: Graph, new: Graph) -> dict[str, str]:
    """The id in the new graph of every edge of the old one that is still there.

    An edge is known by its source, event, guard and target, wherever it stands. Several edges that
    have these in common are matched in order.
    """

    def known_by(edge: Edge) -> object:
        guard = " ".join((edge.guard or "").split())
        return edge.source, edge.event, guard, edge.target, edge.back

    return {edge.id: heir.id for edge, heir in _pair(old.edges, new.edges, known_by)}


def counters_of_route(route: Iterable[str], graph: Graph) -> dict[str, int]:
    """What a route has spent of each counter of a graph, by the counters that its edges own now."""
    spent: dict[str, int] = {}
    for edge_id in route:
        edge = graph.by_id[edge_id]
        spent = after_edge(spent, edge.counters, edge.resets)
    return spent


class _Seat(NamedTuple):
    """A judge's place in the panel of a state."""

    place: str
    owner: tuple[str, str]
    """The validator, if it has a name, and the agent that is asked."""
    rule: Rule


def task_moves(run: RunState, old: Machine, new: Machine) -> dict[str, str]:
    """The new name of each task of the current visit whose judge has another place now.

    It is empty if the judge is gone, so that no other judge takes its answer.
    """
    before, after = (list(_seats(machine, run.state)) for machine in (old, new))
    places = dict(_moves(before, after))
    prefix = f"{run.state}:{run.visit}:judge:"
    moved: dict[str, str] = {}
    for task in run.tasks:
        if task.startswith(prefix):
            validator, index, *number = task.removeprefix(prefix).split(":")
            place = places.get(f"{validator}:{index}", "")
            name = prefix + ":".join((place, *number)) if place else ""
            if name != task:
                moved[task] = name
    return moved


def _seats(machine: Machine, name: str) -> Iterator[_Seat]:
    state = machine.states.get(name)
    if state is None:
        return
    for validator, rules in validators_of(machine, state).items():
        named = validator if validator in machine.validators else ""
        for index, rule in enumerate(rules):
            if rule.asks is not None:
                yield _Seat(f"{validator}:{index}", (named, rule.asks), rule)


def _moves(before: Sequence[_Seat], after: Sequence[_Seat]) -> Iterator[tuple[str, str]]:
    """Each place with the new one of the same judge: one with equal words, else the first."""
    of_words = list(_pair(before, after, lambda seat: (seat.owner, seat.rule.model_dump_json())))
    gone = {seat.place for seat, _ in of_words}
    taken = {heir.place for _, heir in of_words}
    left = [seat for seat in before if seat.place not in gone]
    free = [seat for seat in after if seat.place not in taken]
    for seat, heir in (*of_words, *_pair(left, free, lambda seat: seat.owner)):
        yield seat.place, heir.place


def _pair(
    before: Iterable[T], after: Iterable[T], key: Callable[[T], object]
) -> Iterator[tuple[T, T]]:
    """Those that have a key in common, the first with the first."""
    free: dict[object, deque[T]] = {}
    for one in after:
        free.setdefault(key(one), deque()).append(one)
    for one in before:
        if heirs := free.get(key(one)):
            yield one, heirs.popleft()


def edge_path(machine: Machine, edge: Edge) -> DocPath:
    """Where a state says its edges of the same kind as an edge that it had once."""
    state = machine.states[edge.source]
    if edge.event == "limit":
        return "limits", "then"
    if edge.event != "done":
        return "states", edge.source, "on_error"
    is_next = isinstance(state, WorkingState) and state.next is not None
    return "states", edge.source, "next" if is_next else "transitions"


def cap_path(machine: Machine, counter: str) -> DocPath:
    if limit := limit_of(counter):
        return "limits", limit
    kind, _, name = counter.partition(":")
    if kind == "budget" and name:
        return "limits", "budgets", name
    return (*Graph(machine).by_id[counter].path, "max")


def in_words(edge: Edge) -> str:
    """An edge as its author would name it: ``from `check`, `- {revise: draft}` ``."""
    guard = f"guard: {edge.guard}, " if edge.guard else ""
    way = "revise" if edge.back else "target"
    event = "" if edge.event == "done" else f" on `{edge.event}`"
    return f"`- {{{guard}{way}: {edge.target}}}` out of `{edge.source}`{event}"


def overspent(run: RunState, limits: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The name of each of these limits that a run has gone beyond, and how far it is."""
    used = run.committed
    spent = {
        "agent_calls": used.agent_calls,
        "tool_calls": used.tool_calls,
        # What is only held may turn out to be less.
        "tokens": used.tokens - used.held_tokens,
        "cost_usd": usd_without_held(used),
        "time": used.time_s,
        **{
            name: max((n for c, n in run.counters.items() if limit_of(c) == name), default=0)
            for name in OF_REVISIONS
        },
    }
    for name, limit in limits.items():
        amount = spent.get(name)
        if limit is not None and amount is not None and amount > limit:
            used_up = f"{amount:g} are already used"
            yield name, f"`limits.{name}` can't be {limit:g} in this run: {used_up}"


RAISABLE = ("agent_calls", "tool_calls", "tokens", "cost_usd", "time", *OF_REVISIONS)


def new_limits(given: Mapping[str, Any]) -> dict[str, Any]:
    """New limits of a run as a machine would read them; raises NotRunnable."""
    limits: dict[str, Any] = {}
    for name, value in given.items():
        if name not in RAISABLE:
            raise NotRunnable(f"`{name}` can't be raised; {did_you_mean(name, RAISABLE)}")
        try:
            limits[name] = getattr(Limits.model_validate({name: value}), name)
        except ValueError as error:
            raise NotRunnable(f"`{value}` is not a value for `limits.{name}`") from error
    return limits


def refuse_limits(machine: Machine, state: RunState, limits: Mapping[str, Any]) -> None:
    """Raise NotRunnable if new limits are used up, or a run could get stuck under them.

    Only those on revisions decide where a run goes; what else is limited ends it wherever it is.
    """
    for _, message in overspent(state, limits):
        raise NotRunnable(message)
    known = {limit_of(counter) for counter in Graph(machine).caps}
    if changed := [name for name in OF_REVISIONS if limits.get(name) is not None]:
        if unknown := [name for name in changed if name not in known]:
            raise NotRunnable(f"no revise edge of the machine goes by `limits.{unknown[0]}`")
        if stuck := stuck_under(machine, state, limits):
            told = " and ".join(f"`limits.{name}` can't be {limits[name]}" for name in changed)
            raise NotRunnable(f"{told} in this run: {stuck}")


def refuse_child(run: str, *command: str) -> None:
    """Raise NotRunnable if a run is a child: a family is ended and removed as a whole."""
    if is_child(run):
        line = shlex.join(["loopkit", *command, root_of(run)])
        raise NotRunnable(f"run `{run}` belongs to `{root_of(run)}`; for the whole family: {line}")


def refuse_over(state: RunState) -> None:
    if state.finished is not None:
        raise NotRunnable(f"run `{state.run}` has already finished: {state.finished.outcome}")
    if state.status == "cancelled":
        raise NotRunnable(f"run `{state.run}` was cancelled")
