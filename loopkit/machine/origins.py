"""Origins: which states can have injected the defects found in an artifact."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, reduce
from operator import and_, or_
from typing import TYPE_CHECKING

from loopkit.language import Rule
from loopkit.machine.paths import Step, on_every_path, on_some_path

if TYPE_CHECKING:
    from loopkit.machine.graph import Graph


class Origins:
    """The origins of one machine, in the order in which they work."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._order = {name: at for at, name in enumerate(graph.machine.origins)}
        self._of_author: dict[str, tuple[str, ...]] = {}
        self._of_state: dict[str, tuple[str, ...]] = {}
        self._reachable: dict[str, set[str]] = {}

    def __bool__(self) -> bool:
        """Whether the machine declares any."""
        return bool(self._order)

    def __contains__(self, state: object) -> bool:
        """Whether findings may go to a state."""
        return bool(self) and state in self._possible

    def of_author(self, author: str) -> tuple[str, ...]:
        """The origins of an author's artifact, the earliest first."""
        if author not in self._of_author:
            before = self._before[author]
            known = (name for name, bit in self._bits.items() if before & bit or name == author)
            self._of_author[author] = self.in_order((*known, self.default_of(author)))
        return self._of_author[author]

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
            judged = self._graph.states[judge].judges
            authors = self._graph.artifacts.get(judged or "", ())
            found = (origin for author in authors for origin in self.of_author(author))
            self._of_state[judge] = self.in_order(found)
        return self._of_state[judge]

    def of_finding(self, named: Iterable[str], author: str) -> tuple[str, ...]:
        """The origins of a finding that names these; the default replaces impossible ones."""
        known, default = self.of_author(author), self.default_of(author)
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
        reached = self._reachable_from(state)
        return tuple(name for name in names if name != state and name in reached)

    def _reachable_from(self, state: str) -> set[str]:
        """The states to which forward edges lead from a state, itself included."""
        if state not in self._reachable:
            self._reachable[state] = self._graph.reachable(state, back=False)
        return self._reachable[state]

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
        """For each state, the origins from which forward edges lead to it."""
        found = on_some_path(self._graph.nodes_last_first, self._steps(back=False))
        return {name: self._over_nodes(name, found, or_) for name in self._graph.states}

    @cached_property
    def _passed(self) -> dict[str, int]:
        """For each state, the origins that are on every path to it."""
        order, start = self._graph.nodes_last_first[::-1], self._graph.machine.start
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
        """The steps between nodes, each of which passes the origin that it leaves."""
        junctions, states = self._graph.junctions, self._graph.states
        for node in self._graph.nodes_last_first:
            left = self._bits.get(junctions.state_of(node), 0)
            for edge in junctions.ways.get(node, ()):
                if edge.target in states and (back or not edge.back):
                    yield Step(node, junctions.to(edge), 0, left)
