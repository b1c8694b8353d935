"""Packed configurations: one whole number in which each variable has its bits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import or_

from loopkit.machine.components import strong_components
from loopkit.machine.edges import Edge
from loopkit.proof.bounds.variables import FOUND, Values, Variable, Variables
from loopkit.values import Mutable

WIDTH = 16
"""The number of bits of a value that is not a count."""


class TooManyValues(Exception):
    """A variable has more values than fit into its bits."""


class _Field(Mutable):
    """The bits of one variable; a variable that is not held has the value 0."""

    shift: int
    mask: int
    least: int
    """The code of a count of 0, chosen so that the highest bit is set when the count is full."""
    values: list[object] | None
    """The value of each code, for a variable that is not a count."""
    codes: dict[tuple[type, object], int]

    def bits(self, value: object) -> int:
        if self.values is None:
            assert isinstance(value, int)
            return value + self.least << self.shift
        key = (type(value), value)
        code = self.codes.get(key)
        if code is None:
            code = self.codes[key] = len(self.values)
            if code >= 1 << WIDTH:
                raise TooManyValues
            self.values.append(value)
        return code << self.shift

    def value(self, held: int) -> object:
        code = (held & self.mask) >> self.shift
        return max(code - self.least, 0) if self.values is None else self.values[code]


class Packing:
    """The bits of each variable and their meaning."""

    def __init__(self, variables: Variables) -> None:
        self._fields: dict[Variable, _Field] = {}
        at = 0
        for variable in dict.fromkeys(v for read in variables.read.values() for v in read):
            most = variables.largest(variable)
            width = WIDTH if most is None else max(most.bit_length(), 1)
            values: list[object] | None = [None] if most is None else None
            least = 0
            if most is not None and variable in variables.by_room:
                width, least = most.bit_length() + 1, (1 << most.bit_length()) - most
            self._fields[variable] = _Field(at, ((1 << width) - 1) << at, least, values, {})
            at += width

    def __contains__(self, variable: Variable) -> bool:
        return variable in self._fields

    def mask(self, variables: Iterable[Variable]) -> int:
        """All bits of some variables; a variable that is never held has none."""
        mask = 0
        for variable in variables:
            mask |= self._fields[variable].mask if variable in self._fields else 0
        return mask

    def pack(self, values: Values) -> int:
        return sum(self._fields[variable].bits(value) for variable, value in values.items())

    def value(self, held: int, variable: Variable) -> object:
        return self._fields[variable].value(held)

    def unpack(self, held: int, variables: Iterable[Variable]) -> dict[Variable, object]:
        """The values of some variables."""
        return {variable: self._fields[variable].value(held) for variable in variables}

    def one(self, variable: Variable) -> int:
        """The lowest bit of a variable."""
        return 1 << self._fields[variable].shift

    def is_full(self, variable: Variable) -> int:
        """The highest bit of a counter that is read only for its room: set if it has none."""
        mask = self._fields[variable].mask
        return mask & ~(mask >> 1)


def live(variables: Variables, packing: Packing, edges: Iterable[Edge]) -> Mapping[str, int]:
    """For each state, the bits that it or a state ahead over `edges` reads."""
    read = {name: packing.mask(some) for name, some in variables.read.items()}
    found = packing.mask((FOUND,))
    leads: dict[str, set[str]] = {name: set() for name in read}
    # Each report replaces FOUND, so nothing reads the previous value behind a judge.
    heeding: dict[str, list[str]] = {name: [] for name in read}
    for edge in edges:
        leads[edge.source].add(edge.target)
        if edge.source not in variables.graph.judges or edge.event == "limit":
            heeding[edge.target].append(edge.source)
    later = dict[str, int]()
    for component in reversed(list(strong_components(leads))):
        ahead = {other for name in component for other in leads[name]} - component
        inside = (read[name] for name in component)
        bits = reduce(or_, [*inside, *(later[name] for name in ahead)])
        later |= dict.fromkeys(component, bits & ~found)
    front = [name for name in read if read[name] & found]
    for name in front:
        if not later[name] & found:
            later[name] |= found
            front += heeding[name]
    return later
