"""Inputs of a machine before any state splits their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from loopkit.language.datatypes import DataType, single_values
from loopkit.language.guard import Guard
from loopkit.language.guard.tree import conditions, names_in
from loopkit.proof.bounds.regions import Region, by_name
from loopkit.proof.bounds.telling import alike
from loopkit.proof.outcomes import Analysis
from loopkit.proof.outcomes.domains import domains

MOST_SINGLE = 1_024
"""The most values of an input that are split one by one if it is compared with another input."""
NOTHING = Region(0, 0)
"""Revisions granted by a cap whose input is not a number."""


class Inputs:
    """The region of each input that guards or caps read, and the caps of all counters."""

    def __init__(
        self, analysis: Analysis, given: Mapping[str, object], guards: Sequence[Guard]
    ) -> None:
        """`given` are the known values, by dotted name."""
        self._given = given
        self._type = analysis.scope.input
        self._bounded = dict(_whole_number_regions(self._type))
        self.caps: Mapping[str, int | str] = {
            counter: self._grant_of(cap) if cap in given else cap
            for counter, cap in analysis.graph.caps.items()
        }
        """The cap of each counter: a number, or the input that holds it."""
        self.named = dict(self._regions_in_guards(analysis, guards))
        """The regions of the inputs that guards read and whose values can be split."""

    def region(self, name: str) -> Region:
        """All values of an input that is read."""
        return self.named.get(name) or self._bounded.get(name, NOTHING)

    def cap(self, counter: str) -> Region:
        """All values that the cap of a counter may have."""
        cap = self.caps[counter]
        return Region.of(cap) if isinstance(cap, int) else self.region(cap)

    def alone(self, counters: Collection[str]) -> frozenset[str]:
        """The counters among `counters` whose cap is an input that nothing else reads."""
        users = Counter(self.caps.values())
        return frozenset(
            counter
            for counter in counters
            if isinstance(cap := self.caps[counter], str)
            and users[cap] == 1
            and cap not in self.named
        )

    def _undecidable(self, guards: Sequence[Guard]) -> set[str]:
        """The inputs that are compared with each other and have too many values to be split."""
        wide = {n for n, r in self._bounded.items() if len(r) > MOST_SINGLE} - self._given.keys()
        compared = (c for guard in guards for c in conditions(guard.tree) if wide & guard.names)
        pairs = (names_in(condition) & wide for condition in compared)
        return set().union(*(pair for pair in pairs if len(pair) > 1))

    def _grant_of(self, cap: int | str) -> int:
        value = self._given[str(cap)]
        return value if isinstance(value, int) and not isinstance(value, bool) else 0

    def _regions_in_guards(
        self, analysis: Analysis, guards: Sequence[Guard]
    ) -> Iterator[tuple[str, Region]]:
        types = analysis.scope.guards.common
        for part, truths in analysis.parts.truths.items():
            yield part, Region(others=tuple(truths))
        enough = domains(guards, types, self._type)
        reading = by_name(guards)
        for name in types.keys() & reading.keys() - self._undecidable(guards):
            none = (None,) if types[name].optional else ()
            if name in self._given:
                yield name, Region.of(self._given[name])
            elif name in self._bounded:
                whole = self._bounded[name]
                yield name, Region(whole.low, whole.high, none)
            elif name in enough and name != "attempt":
                values = tuple(dict.fromkeys(map(alike(name, reading[name]), enough[name])))
                yield name, Region.of(*values) if len(values) == 1 else Region(others=values)


def _whole_number_regions(inputs: DataType) -> Iterator[tuple[str, Region]]:
    """The inputs that are whole numbers with both ends known, by dotted name."""
    for dotted, known in single_values(inputs, "input."):
        if known.bounded and known.minimum is not None and known.maximum is not None:
            yield dotted, Region(int(known.minimum), int(known.maximum))
