"""The machine as a graph: every edge with its number, its counters and its place.

Origins are the states that can have injected the defects found in an artifact. Junctions are states
whose edges depend on the state from which a run came: each has one node for each way into it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property, reduce
from math import inf
from operator import and_, or_
from typing import NamedTuple, TypeVar

from loopkit.language.datatypes.datatype import DataType, value_at
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.facts import CAME_FROM
from loopkit.language.guard.evaluate import equality, truth
from loopkit.language.guard.grammar import Guard, GuardError, expand, readable
from loopkit.language.guard.grammar import parse as parse_guard
from loopkit.language.machine import Machine
from loopkit.language.section import Bound
from loopkit.language.states import State
from loopkit.language.states.kinds import RenderState, ValidateState
from loopkit.language.states.state import AgentChoice
from loopkit.language.template.rendering import parse_if_valid
from loopkit.language.validators import Rule, rules_of
from loopkit.language.validators.command import CommandRule
from loopkit.machine.cycles import Step, on_every_path, on_some_path, strong_components
from loopkit.machine.edges import Edge, EdgeEvent, caps_of, edges_of
from loopkit.values import NOTHING

_Key = TypeVar("_Key", bound=Hashable)
_Member = TypeVar("_Member")


class Graph:
    """States and edges of one machine; immutable."""

    def __init__(self, machine: Machine, raised: Mapping[str, object] = NOTHING) -> None:
        self.machine = machine
        self.states: Mapping[str, State] = machine.states
        edges = edges_of(machine)
        onward = (edge for edge in edges if edge.event == "done" and not edge.back)
        self._onward = _group(onward, lambda edge: edge.source)
        self.edges: tuple[Edge, ...] = tuple(e for e in edges if not self._goes_to_judge(e))
        self.caps: dict[str, Bound] = caps_of(machine, edges, raised)
        self.has_origins = bool(machine.origins)
        """Whether the machine says which states can have injected what is found."""
        self.notes_told = self.has_origins or any(edge.from_best for edge in self.edges)
        """Whether feedback has to record which findings it names, as some may go elsewhere."""

    def _goes_to_judge(self, edge: Edge) -> bool:
        """An author's content fault goes to the judging state unless `content:` says otherwise."""
        state = self.states[edge.source]
        if edge.event != "content" or edge.path[-1] == "content":
            return False
        return bool(state.call) and self.judging_follows(edge.source)

    @cached_property
    def outgoing(self) -> dict[str, tuple[Edge, ...]]:
        return dict.fromkeys(self.states, ()) | _group(self.edges, lambda edge: edge.source)

    @cached_property
    def incoming(self) -> dict[str, tuple[Edge, ...]]:
        return dict.fromkeys(self.states, ()) | _group(self.edges, lambda edge: edge.target)

    @cached_property
    def by_id(self) -> dict[str, Edge]:
        return {edge.id: edge for edge in self.edges}

    def on(self, state: str, event: EdgeEvent) -> tuple[Edge, ...]:
        """The edges that an event can take out of a state, in their order."""
        return self._by_event.get((state, event), ())

    @cached_property
    def guards(self) -> dict[str, Guard]:
        """The whole guards of edges, by the ids of these, without those that the checks report."""
        whole: dict[str, Guard] = {}
        for edge in self.edges:
            with suppress(GuardError):
                if edge.guard is not None:
                    whole[edge.id] = expand(parse_guard(edge.guard), self.named_guards)
        return whole

    @cached_property
    def named_guards(self) -> dict[str, Guard]:
        return readable(self.machine.guards)

    @cached_property
    def _by_event(self) -> dict[tuple[str, str], tuple[Edge, ...]]:
        return _group(self.edges, lambda edge: (edge.source, edge.event))

    @cached_property
    def revise_edges(self) -> dict[str, tuple[Edge, ...]]:
        return {s: tuple(e for e in self.on(s, "done") if e.back) for s in self.states}

    def most_revisions(self, cap: Callable[[str], float]) -> Mapping[str, float]:
        """How often a run revises each author at most; `cap` gives the number of a counter."""
        reset = {counter for edge in self.edges for counter in edge.resets}
        found: dict[str, float] = {}
        for author, into in self.incoming.items():
            if not (edges := [edge for edge in into if edge.back]):
                continue
            # Of each edge the counter that the fewest others share, and what all of them share.
            alone = {edge.counting[-1] for edge in edges}
            together = inf if alone & reset else sum(map(cap, alone))
            common = set(edges[0].counters).intersection(*(edge.counters for edge in edges))
            found[author] = min([together, *map(cap, common - reset)])
        return found

    @cached_property
    def written(self) -> dict[str, str]:
        named = ((name, artifact_of(self.machine, name)) for name in self.states)
        return {name: artifact for name, artifact in named if artifact}

    @cached_property
    def artifacts(self) -> dict[str, tuple[str, ...]]:
        """The states that write each artifact; none where it only has a first value."""
        first = dict.fromkeys(self.machine.artifacts, ())
        return {**first, **_group(self.written, self.written.__getitem__)}

    def author_of(self, artifact: str, author: str) -> str:
        """Who corrects a version: its author; of a first value, the first state that writes it."""
        return author or next(iter(self.artifacts.get(artifact, ())), "")

    def types_of(self, name: str) -> Iterator[DataType | None]:
        """The types of the data that a name may stand for, one for each source; None for a text."""
        for author in self.artifacts.get(name, (name,) if name in self.states else ()):
            known = self.machine.data_type(author) or self.states[author].leaves
            # Most templates of one unknown path pass on a text.
            is_text = isinstance(self.states[author], RenderState) and known == DataType({})
            yield None if is_text else known
        if name in self.machine.artifacts:
            given = parse_record(self.machine.input)
            yield self.machine.first_values[name].type_with(given)

    @cached_property
    def fallbacks(self) -> frozenset[str]:
        states = self.states
        return frozenset(n for n in self.written if getattr(states[n], "fallback", False))

    @cached_property
    def attempting(self) -> dict[str, tuple[str, ...]]:
        """The states whose work on each artifact is an attempt: all that write it but fallbacks."""
        by = self.artifacts.items()
        return {a: tuple(n for n in names if n not in self.fallbacks) for a, names in by}

    @cached_property
    def origins(self) -> Origins:
        return Origins(self)

    @cached_property
    def judged(self) -> dict[str, tuple[str, ...]]:
        return _group(self.judges, lambda name: self.judges[name].validate_)

    @cached_property
    def judges(self) -> dict[str, ValidateState]:
        return self.machine.states_of(ValidateState)

    def rules_at(self, name: str) -> Iterator[Rule]:
        """The rules of a validate state, judges included; any other state has none."""
        validators = self.machine.validators
        for item in self.judges[name].by if name in self.judges else ():
            yield from rules_of(validators.get(item, ()) if isinstance(item, str) else item)

    def drafting_rules_at(self, name: str) -> Iterator[Rule]:
        """The rules of the tools that authors of the artifact that a validate state judges must
        call; what they found in the last draft is judged where the author gives up."""
        for author in self.artifacts.get(self.judges[name].validate_, ()):
            for agent in self.machine.agents_at(author):
                tool = agent.callable_tools.get(agent.required_tool or "")
                for validator in tool.validators if tool is not None else ():
                    yield from rules_of(self.machine.validators.get(validator, ()))

    @cached_property
    def report_files(self) -> tuple[str, ...]:
        """The files that rules write for themselves, as patterns."""
        rules = (rule for name in self.judges for rule in self.rules_at(name))
        files = {rule.file for rule in rules if isinstance(rule, CommandRule) and rule.file}
        return tuple(sorted("/" + re.sub(r"\{\{.*?\}\}", "*", file) for file in files))

    @cached_property
    def scoring(self) -> frozenset[str]:
        rules = ((name, rule) for name in self.judges for rule in self.rules_at(name))
        return frozenset(name for name, rule in rules if rule.score_range is not None)

    def judging_follows(self, author: str) -> bool:
        """Whether every path judges an author's artifact before it is rewritten or the run ends."""
        return not self._unjudged[author] & self._written[artifact_of(self.machine, author)]

    @cached_property
    def _written(self) -> dict[str | None, int]:
        """A bit for each artifact, and one for None."""
        written = dict.fromkeys((None, *(artifact_of(self.machine, name) for name in self.states)))
        return {artifact: 1 << number for number, artifact in enumerate(written)}

    @cached_property
    def _unjudged(self) -> dict[str, int]:
        """For each state, the bits of artifacts that may be rewritten, or final, unjudged."""
        every = (1 << len(self._written)) - 1
        ways = {name: {edge.target for edge in self._onward.get(name, ())} for name in self.states}
        found = {name: 0 if onward else every for name, onward in ways.items()}

        def entering(name: str) -> int:
            if name not in found:
                return every
            judged = self._written.get(self.states[name].judges or "", 0)
            return (found[name] | self._written[artifact_of(self.machine, name)]) & ~judged

        leads = {name: onward & found.keys() for name, onward in ways.items()}
        for component in reversed(list(strong_components(leads))):
            changed = True
            while changed:
                before = {name: found[name] for name in component}
                for name in component:
                    found[name] |= reduce(or_, map(entering, ways[name]), 0)
                changed = len(component) > 1 and any(found[n] != before[n] for n in component)
        return found

    @cached_property
    def first_author(self) -> str | None:
        """The first state that reads feedback and is on every path to an end."""

        def is_passed_by(name: str) -> bool:
            start = self.machine.start
            others = self.reachable(start, without=name) if name != start else ()
            return any(self.states[state].ends for state in others)

        authors = (name for name in reversed(self.last_first) if self.states[name].reads_feedback)
        return next((name for name in authors if not is_passed_by(name)), None)

    @cached_property
    def keeping(self) -> frozenset[str]:
        """The states that may keep their artifact when a forward edge enters them again."""
        again = {edge.target for edge in self._in_cycles if not edge.back}
        return frozenset(filter(self.machine.may_be_kept, again))

    @cached_property
    def repeated(self) -> frozenset[str]:
        return frozenset(edge.target for edge in self._in_cycles)

    @cached_property
    def _in_cycles(self) -> tuple[Edge, ...]:
        """The edges after which a run may come back to the state that they leave."""
        states = self.states
        leads = {s: {e.target for e in self.outgoing[s]} & states.keys() for s in states}
        components = enumerate(strong_components(leads))
        component_of = {name: number for number, names in components for name in names}
        ends = ((edge, component_of.get(edge.target)) for edge in self.edges)
        return tuple(edge for edge, number in ends if number == component_of[edge.source])

    @cached_property
    def junctions(self) -> Junctions:
        return Junctions(self)

    @cached_property
    def last_first(self) -> tuple[str, ...]:
        """The states, each after all that its forward edges lead to, if these have no cycle."""
        return tuple(dict.fromkeys(map(self.junctions.state_of, self.nodes_last_first)))

    @cached_property
    def nodes_last_first(self) -> tuple[str, ...]:
        """The nodes in the same order; a junction has several nodes."""
        order: dict[str, None] = {}
        seen: set[str] = set()
        for start in (*self.states, *self.junctions.before):
            trail = [(start, self._ahead(start))] if start not in seen else []
            seen.add(start)
            while trail:
                onward = next((name for name in trail[-1][1] if name not in seen), None)
                if onward is None:
                    order[trail.pop()[0]] = None
                else:
                    seen.add(onward)
                    trail.append((onward, self._ahead(onward)))
        return tuple(order)

    def _ahead(self, node: str) -> Iterator[str]:
        ways = self.junctions.ways.get(node, ())
        to = self.junctions.to
        return (to(edge) for edge in ways if edge.forward and edge.target in self.states)

    def reachable(self, start: str, *, back: bool = True, without: str = "") -> set[str]:
        """Every state that some path from `start` enters, itself included.

        `without` is a state that the paths don't enter.
        """
        ways, to = self.junctions.ways, self.junctions.to
        seen, front = {start}, [start]
        while front:
            for edge in ways.get(front.pop(), ()):
                node, is_entered = to(edge), edge.target != without and edge.target in self.states
                if is_entered and (back or not edge.back) and node not in seen:
                    seen.add(node)
                    front.append(node)
        return {*map(self.junctions.state_of, seen)}


def _group(
    members: Iterable[_Member], key: Callable[[_Member], _Key]
) -> dict[_Key, tuple[_Member, ...]]:
    groups: dict[_Key, list[_Member]] = {}
    for member in members:
        groups.setdefault(key(member), []).append(member)
    return {name: tuple(grouped) for name, grouped in groups.items()}


def artifact_of(machine: Machine, name: str) -> str | None:
    state = machine.states.get(name)
    output = state.output_at(name) if state is not None else None
    return None if output is None else output.name


def cap_value(bound: Bound, inputs: Mapping[str, object]) -> int:
    if isinstance(bound, int):
        return bound
    value = value_at(inputs, bound.split(".")[1:])
    # The checks allow only bounded whole numbers here; anything else grants nothing.
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


class Origins:
    """The origins of one machine, in the order in which they work."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._order = {name: at for at, name in enumerate(graph.machine.origins)}
        self._of_author: dict[str, tuple[str, ...]] = {}
        self._of_state: dict[str, tuple[str, ...]] = {}
        self._reachable: dict[str, set[str]] = {}

    def __bool__(self) -> bool:
        return bool(self._order)

    def __contains__(self, state: object) -> bool:
        """Whether findings may go to a state."""
        return bool(self) and state in self._possible

    def of_author(self, author: str) -> tuple[str, ...]:
        """The origins of an author's artifact, the earliest first."""
        if author not in self._of_author:
            before = self._before.get(author, 0)
            known = (name for name, bit in self._bits.items() if before & bit or name == author)
            self._of_author[author] = self.in_order((*known, self.default_of(author)))
        return self._of_author[author]

    def of_artifact(self, artifact: str, author: str) -> tuple[str, ...]:
        """The origins of a version; of a first value, those of the state that corrects it."""
        return self.of_author(self._graph.author_of(artifact, author))

    def default_of(self, author: str) -> str:
        """The origin of a finding that names none: the author, or if that is not an origin, the
        last origin on every path before it."""
        if author in self._order:
            return author
        if author not in self._entered:
            return next(reversed(self._order), author)
        passed = self._passed[author]
        return next((name for name in reversed(self._bits) if passed & self._bits[name]), author)

    def of_state(self, judge: str) -> tuple[str, ...]:
        """The origins of the artifact that a validate state judges, over all of its authors."""
        if judge not in self._of_state:
            authors = self._graph.artifacts.get(self._graph.states[judge].judges or "", ())
            found = (origin for author in authors for origin in self.of_author(author))
            self._of_state[judge] = self.in_order(found)
        return self._of_state[judge]

    def of_finding(self, named: Iterable[str], author: str) -> tuple[str, ...]:
        """The origins of a finding that names these; the default replaces impossible ones."""
        known = self.of_author(author)
        default = self.default_of(author)
        return self.in_order(name if name in known else default for name in named) or (default,)

    def earliest_of(self, rule: Rule, author: str) -> tuple[str, ...]:
        """The possible earliest origins of a rule's findings in an author's artifact."""
        if rule.names_origins:
            return self.of_author(author)
        return self.of_finding(rule.origin, author)[:1]

    def in_order(self, names: Iterable[str]) -> tuple[str, ...]:
        """Origins without repetition, the earliest first; an author that is not one comes last."""
        unique = dict.fromkeys(names)
        return tuple(sorted(unique, key=self.place_of))

    def place_of(self, name: str) -> int:
        """The place of an origin in their order; an author that is not one comes last."""
        return self._order.get(name, len(self._order))

    def ahead_of(self, state: str, names: Iterable[str]) -> tuple[str, ...]:
        """The states among `names` that may work after a state, which need not be an origin."""
        if state not in self._reachable:
            self._reachable[state] = self._graph.reachable(state, back=False)
        reached = self._reachable[state]
        return tuple(name for name in names if name != state and name in reached)

    @cached_property
    def _possible(self) -> frozenset[str]:
        of_judges = (self.of_state(name) for name in self._graph.judges)
        return frozenset(origin for origins in of_judges for origin in origins)

    # -- all states at once, with a bit for each origin ------------------------------------

    @cached_property
    def _bits(self) -> dict[str, int]:
        known = (name for name in self._order if name in self._graph.states)
        return {name: 1 << at for at, name in enumerate(known)}

    @cached_property
    def _before(self) -> dict[str, int]:
        found = on_some_path(self._graph.nodes_last_first, self._steps(back=False))
        return {name: self._over_nodes(name, found, or_) for name in self._graph.states}

    @cached_property
    def _passed(self) -> dict[str, int]:
        order = self._graph.nodes_last_first[::-1]
        start = self._graph.machine.start
        found = on_every_path(order, start, self._steps(back=True))
        return {name: self._over_nodes(name, found, and_) for name in self._graph.states}

    @cached_property
    def _entered(self) -> set[str]:
        return self._graph.reachable(self._graph.machine.start)

    def _over_nodes(
        self, state: str, found: Mapping[str, int], join: Callable[[int, int], int]
    ) -> int:
        return reduce(join, (found[node] for node in self._graph.junctions.all_of(state)))

    def _steps(self, *, back: bool) -> Iterator[Step]:
        junctions = self._graph.junctions
        states = self._graph.states
        for node in self._graph.nodes_last_first:
            left = self._bits.get(junctions.state_of(node), 0)
            for edge in junctions.ways.get(node, ()):
                if edge.target in states and (back or not edge.back):
                    yield Step(node, junctions.to(edge), 0, left)


class Before(NamedTuple):
    state: str
    source: str
    is_done: bool
    """Whether the state before completed its work; False after an error or at a limit."""


class Junctions:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._split = {name for name, state in graph.states.items() if self._is_one(name)}
        self.before: dict[str, Before] = {}
        """The way into each node of a junction; its plain name stands for any way."""
        self.entered: dict[str, str] = {}
        """For each edge to a junction: the node to which it leads."""
        for edge in graph.edges if self._split else ():
            if edge.target in self._split:
                before = Before(edge.target, edge.source, edge.event == "done")
                node = " ".join((edge.target, "after", edge.source, *(["done"] * before.is_done)))
                self.before[node], self.entered[edge.id] = before, node

    def _is_one(self, name: str) -> bool:
        """Whether a state is a junction: it has edges to origins, or a guard reads `came_from`."""
        if not self._graph.states[name].knows_before:
            return False
        guards = self._graph.guards
        guarded = [(edge, guards.get(edge.id)) for edge in self._graph.on(name, "done")]
        return any(edge.origin or (guard and CAME_FROM in guard.names) for edge, guard in guarded)

    def state_of(self, node: str) -> str:
        before = self.before.get(node)
        return node if before is None else before.state

    @cached_property
    def ways(self) -> Mapping[str, tuple[Edge, ...]]:
        split = {node: tuple(self._ways(before)) for node, before in self.before.items()}
        return {**self._graph.outgoing, **split} if split else self._graph.outgoing

    def to(self, edge: Edge) -> str:
        return self.entered.get(edge.id, edge.target)

    def all_of(self, state: str) -> tuple[str, ...]:
        """All nodes of a state, its plain name among them."""
        return (state, *self._nodes.get(state, ()))

    @cached_property
    def _nodes(self) -> Mapping[str, tuple[str, ...]]:
        return {
            name: tuple(node for node, before in self.before.items() if before.state == name)
            for name in self._split
        }

    @cached_property
    def sources(self) -> Mapping[str, tuple[str, ...]]:
        """For each edge out of a junction: the nodes from which it may be taken."""
        found: dict[str, tuple[str, ...]] = {}
        for name in self._split:
            nodes = [name] if name == self._graph.machine.start else []
            nodes += self._nodes[name]
            leaving: dict[str, list[str]] = {edge.id: [] for edge in self._graph.outgoing[name]}
            for node in nodes:
                for edge in self.ways[node]:
                    leaving[edge.id].append(node)
            found |= {edge: tuple(some) for edge, some in leaving.items()}
        return found

    def nodes_of(self, state: str) -> tuple[str, ...]:
        """All nodes of a state to which a run may come."""
        split = self._nodes.get(state, ())
        return (state, *split) if state == self._graph.machine.start or not split else split

    def _ways(self, before: Before) -> Iterator[Edge]:
        """The edges of a junction whose guard may hold and is not covered by an earlier one."""
        known = {CAME_FROM: before.source}
        passed: list[frozenset[str]] = []
        for exit_ in self._exits[before.state]:
            edge, guard = exit_.edge, exit_.guard
            if exit_.source not in (None, before.source):
                continue
            if guard is not None and truth(guard.tree, known) is False:
                continue
            parts = exit_.parts.items()
            needed = frozenset(text for text, tree in parts if truth(tree, known) is not True)
            if edge.event == "done" and any(covering <= needed for covering in passed):
                continue
            yield edge
            is_read = guard is not None or edge.guard is None
            if edge.event == "done" and not edge.back and is_read:
                passed.append(needed)

    @cached_property
    def _exits(self) -> Mapping[str, tuple[Exit, ...]]:
        outgoing = self._graph.outgoing
        return {name: tuple(map(self._exit, outgoing[name])) for name in self._split}

    def _exit(self, edge: Edge) -> Exit:
        guard = self._graph.guards.get(edge.id) if edge.event == "done" else None
        parts = () if guard is None else tuple(_parts(guard.tree))
        named = (value for fact, value in filter(None, map(equality, parts)) if fact == CAME_FROM)
        return Exit(edge, guard, {ast.dump(part): part for part in parts}, next(named, None))


class Exit(NamedTuple):
    edge: Edge
    guard: Guard | None
    parts: Mapping[str, ast.expr]
    """The operands of `and`, each by what tells it from others."""
    source: object
    """The state before that its guard asks for; none where it asks for none."""


def _parts(tree: ast.expr) -> Iterator[ast.expr]:
    if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And):
        for part in tree.values:
            yield from _parts(part)
    else:
        yield tree


def names_in_templates(graph: Graph, name: str) -> frozenset[str]:
    own = (template for agent in graph.machine.agents_at(name) for template in agent.templates)
    names = frozenset[str]()
    for path, text in (*graph.states[name].templates, *own):
        # Neither the file that holds the artifact nor how a program is resumed makes a difference.
        if path[0] not in ("output", "resume"):
            template = parse_if_valid(text)
            names |= frozenset() if template is None else template.names
    lists = graph.states[name].item_lists.values()
    return names | {first for paths in lists for first, *_ in paths}


def names_needed(graph: Graph, name: str) -> frozenset[str]:
    return frozenset(path.partition(".")[0] for path in graph.states[name].needed or ())


def names_behind(graph: Graph, name: str) -> frozenset[str]:
    return names_in_templates(graph, name) | names_needed(graph, name)


def judges_behind(graph: Graph, states: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """For each author, the validate states among `states` that judge what its artifact led to."""
    names_of = {name: names_behind(graph, name) for name in graph.written}
    found: dict[str, dict[str, None]] = {}
    for judging in states:
        for author in _sources(graph, names_of, graph.judges[judging].validate_):
            found.setdefault(author, {})[judging] = None
    return {author: tuple(judging) for author, judging in found.items()}


def _sources(graph: Graph, names_of: dict[str, frozenset[str]], artifact: str) -> Iterator[str]:
    """The authors of an artifact, and the agents' states that may have a part in it."""
    seen, front = {artifact}, [artifact]
    while front:
        name = front.pop()
        for author in graph.artifacts.get(name, ()):
            if name == artifact or graph.states[author].asks:
                yield author
            made_of = [n for n in names_of[author] if n in graph.artifacts and n not in seen]
            seen.update(made_of)
            front += made_of


def writers(machine: Machine) -> Iterator[str]:
    """The states whose programs may write or that write a file; a child machine counts as well."""
    return (name for name in machine.states if _writes(machine, name))


def _writes(machine: Machine, name: str) -> bool:
    state = machine.states[name]
    if state.isolates:
        return False
    if state.child is not None:
        return any(writers(state.child))
    output = state.output_at(name)
    is_program = state.call == "run" or any(a.works_on_files for a in machine.agents_at(name))
    is_writer = is_program or (output is not None and output.is_left)
    return is_writer and machine.works_in_sight(name)


def word_types(graph: Graph, choice: AgentChoice) -> list[DataType | None]:
    """The type of the word, one for each source that it may have; None for an unknown type."""
    first, *inner = choice.steps
    if choice.is_of_input:
        return [parse_record(graph.machine.input).at(inner)]
    return [root.at(inner) if root is not None else None for root in graph.types_of(first)]


def may_be_nobody(graph: Graph, state: str) -> bool:
    """Whether a word may arrive for which a state has no agent.

    A word from the input never does: such an input is refused.
    """
    choice = graph.states[state].choice
    if choice is None or choice.is_of_input or choice.else_ is not None:
        return False
    types = word_types(graph, choice)
    known = {word for one in types if one is not None for word in one.values}
    is_closed = all(one is not None and one.values and not one.optional for one in types)
    return not (types and is_closed and known <= choice.of.keys())


EMPTY = "empty"
CUT_OFF = "cut-off"
MISSING = "missing"
REFUSED = "refused"
LOOPS = "loops"
NOT_JSON, BREAKS_SCHEMA = "not-json", "schema"
NO_AGENT = "no-agent"
NO_ANSWER = "no-answer"
NOT_VALIDATED = "not-validated"
ECHO = "echo"
ANSWER_CODES = {EMPTY, CUT_OFF, MISSING, REFUSED, LOOPS, NOT_JSON, BREAKS_SCHEMA, NO_AGENT}
ANSWER_CODES |= {NO_ANSWER, NOT_VALIDATED, ECHO}
"""The codes of answers that are not artifacts."""


def codes_at(graph: Graph, name: str) -> frozenset[str] | None:
    """All codes that the findings of a validate state can have; None where any code is possible."""
    faults = fault_codes(graph, name)
    drafting = graph.drafting_rules_at(name) if NOT_VALIDATED in faults else ()
    found = [rule.codes for rule in (*graph.rules_at(name), *drafting)]
    known = [codes for codes in found if codes is not None]
    return faults.union(*known) if len(known) == len(found) else None


def fault_codes(graph: Graph, name: str) -> frozenset[str]:
    """The codes of answers that a validate state judges although they are not artifacts."""
    authors = graph.artifacts.get(graph.judges[name].validate_, ())
    return frozenset(code for author in authors for code in _faults_of(graph, author))


def _faults_of(graph: Graph, author: str) -> Iterator[str]:
    state = graph.states[author]
    agents = graph.machine.agents_at(author)
    if not state.may_leave_none or graph.on(author, "content"):
        return
    if state.asks:
        yield from (EMPTY, CUT_OFF, LOOPS, REFUSED)
        if author in graph.repeated:
            yield ECHO
    if may_be_nobody(graph, author):
        yield NO_AGENT
    if any(agent.callable_tools and not agent.leaves_tools_alone for agent in agents):
        yield NO_ANSWER
    if any(agent.required_tool for agent in agents):
        yield NOT_VALIDATED
    if any(agent.schema_ is not None for agent in agents):
        yield from (NOT_JSON, BREAKS_SCHEMA)
    output = state.output_at(author)
    if output is not None and output.may_be_missing:
        yield MISSING
