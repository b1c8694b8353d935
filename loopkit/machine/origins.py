"""Origins: which states can have injected the defects found in an artifact."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from loopkit.language import Rule

if TYPE_CHECKING:
    from loopkit.machine.graph import Graph


class Origins:
    """The origins of one machine, in the order in which they work."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._order = {name: at for at, name in enumerate(graph.machine.origins)}
        self._of_author: dict[str, tuple[str, ...]] = {}
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
            known = (origin for origin in self._order if origin in self._graph.states)
            before = (origin for origin in known if author in self._reachable_from(origin))
            self._of_author[author] = self.in_order((*before, self.default_of(author)))
        return self._of_author[author]

    def default_of(self, author: str) -> str:
        """The origin of a finding that names none: the author, or if that is not an origin, the
        last origin on every path before it."""
        if author in self._order:
            return author
        for origin in reversed(self._order):
            start = self._graph.machine.start
            if origin == start or author not in self._graph.reachable(start, without=origin):
                return origin
        return author

    def of_state(self, judge: str) -> tuple[str, ...]:
        """The origins of the artifact that a validate state judges, over all of its authors."""
        judged = self._graph.states[judge].judges
        authors = self._graph.artifacts.get(judged or "", ())
        return self.in_order(origin for author in authors for origin in self.of_author(author))

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
        return tuple(sorted(unique, key=lambda name: self._order.get(name, len(self._order))))

    def later_than(self, state: str, names: Iterable[str]) -> tuple[str, ...]:
        """The origins among `names` that work after a state."""
        at = self._order.get(state, len(self._order))
        return tuple(n for n in names if n != state and self._order.get(n, len(self._order)) > at)

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
