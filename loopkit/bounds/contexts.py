"""What surrounds the rows of a state in one configuration, as facts beside the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from loopkit.bounds.variables import THEN, Variable, Variables, granted
from loopkit.rows import ROOM

Reading = Callable[[Mapping[Variable, object]], object]
"""The values of a configuration -> the value of one fact."""
PROGRESS = "progress "
"""How many earlier attempts were judged completely, up to two."""
LIMITED = "limited "
"""Whether a limit was reached before."""
OF_COUNTING = ("revisions", "max_revisions")


def readings(variables: Variables, name: str) -> Iterator[tuple[str, Reading]]:
    """Each fact of the context of a state, with how it is read from a configuration."""
    read, named = variables.read[name], variables.named[name]
    for variable in read:
        if variable.kind == "counter":
            yield ROOM + variable.name, _room(variables, variable)
        elif variable.kind in ("fact", "input") and variable.name in named:
            yield variable.name, _value(variable)
    if "attempt" in named:
        yield "attempt", _attempt(variables, name)
    if Variable("judged", name) in read:
        yield PROGRESS, lambda values: number(values[Variable("judged", name)]) // 2
    if THEN in read:
        yield LIMITED, _value(THEN)
    back = variables.graph.revise_edges[name]
    if len(back) == 1 and not named.isdisjoint(OF_COUNTING):
        counter = Variable("counter", back[0].counters[0])
        yield "revisions", _value(counter)
        yield "max_revisions", cap_of(variables, counter.name)


def cap_of(variables: Variables, counter: str) -> Callable[[Mapping[Variable, object]], int]:
    """How the cap of a counter is read from a configuration."""
    cap = variables.graph.caps[counter]
    if isinstance(cap, int):
        return lambda _: cap
    bound = Variable("input", cap)
    return lambda values: granted(values[bound])


def number(value: object) -> int:
    """The value of a variable that counts."""
    assert isinstance(value, int)
    return value


def _value(variable: Variable) -> Reading:
    return lambda values: values[variable]


def _room(variables: Variables, counter: Variable) -> Reading:
    cap = cap_of(variables, counter.name)
    return lambda values: number(values[counter]) < cap(values)


def _attempt(variables: Variables, name: str) -> Reading:
    """How often the author of what is judged has worked; elsewhere this state, with now."""
    variable = variables.attempt(name)
    if variable.kind == "version":
        return _value(variable)
    most = variables.most[variable]
    return lambda values: min(number(values[variable]) + 1, most)
