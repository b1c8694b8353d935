"""Origins: which states can have injected what is found in an artifact."""

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
        self._reached: dict[str, set[str]] = {}

    def __bool__(self) -> bool:
        """Whether the machine declares any."""
        return bool(self._order)

    def __contains__(self, state: object) -> bool:
        """Whether findings may go to a state."""
        return bool(self) and state in self._possible

    def of_author(self, author: str) -> tuple[str, ...]:
        """Those of what an author wrote, the earliest first."""
        if author not in self._of_author:
            known = (origin for origin in self._order if origin in self._graph.states)
            before = (origin for origin in known if author in self._reached_from(origin))
            self._of_author[author] = self.in_order((*before, self.default_of(author)))
        return self._of_author[author]

    def default_of(self, author: str) -> str:
        """Whose a finding is of which nobody says that: the author's, or where that is no origin,
        of the last one that is on every path before it."""
        if author in self._order:
            return author
        for origin in reversed(self._order):
            start = self._graph.machine.start
            if origin == start or author not in self._graph.reachable(start, without=origin):
                return origin
        return author

    def of_state(self, judge: str) -> tuple[str, ...]:
        """Those of what a validate state judges, whoever wrote it."""
        judged = self._graph.states[judge].judges
        authors = self._graph.artifacts.get(judged or "", ())
        return self.in_order(origin for author in authors for origin in self.of_author(author))

    def attributed(self, named: Iterable[str], author: str) -> tuple[str, ...]:
        """Where a finding goes that names these; what comes later than its author is its own."""
        known, default = self.of_author(author), self.default_of(author)
        return self.in_order(name if name in known else default for name in named) or (default,)

    def earliest_of(self, rule: Rule, author: str) -> tuple[str, ...]:
        """What may be the earliest origin of all that a rule finds in what an author wrote."""
        if rule.names_origins:
            return self.of_author(author)
        return self.attributed(rule.origin, author)[:1]

    def in_order(self, names: Iterable[str]) -> tuple[str, ...]:
        """Each of some origins once, the earliest first; an author that is none comes last."""
        unique = dict.fromkeys(names)
        return tuple(sorted(unique, key=lambda name: self._order.get(name, len(self._order))))

    def later_than(self, state: str, names: Iterable[str]) -> tuple[str, ...]:
        """Those of some origins that work after a state."""
        at = self._order.get(state, len(self._order))
        return tuple(n for n in names if n != state and self._order.get(n, len(self._order)) > at)

    def ahead_of(self, state: str, names: Iterable[str]) -> tuple[str, ...]:
        """Those of some states that may work once a state, which may be no origin, has worked."""
        reached = self._reached_from(state)
        return tuple(name for name in names if name != state and name in reached)

    def _reached_from(self, state: str) -> set[str]:
        """The states that forward edges lead to from one, itself included."""
        if state not in self._reached:
            self._reached[state] = self._graph.reachable(state, back=False)
        return self._reached[state]

    @cached_property
    def _possible(self) -> frozenset[str]:
        of_judges = (self.of_state(name) for name in self._graph.judges)
        return frozenset(origin for origins in of_judges for origin in origins)
