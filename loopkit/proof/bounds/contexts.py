"""Contexts: the facts that a configuration adds to the rows of a state."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from loopkit.language.facts import CAME_FROM, COUNTING
from loopkit.language.guard.kleene import UNKNOWN
from loopkit.proof.bounds.regions import Region
from loopkit.proof.bounds.variables import FOUND, THEN, Values, Variable, Variables
from loopkit.proof.outcomes import AUTHOR, FOUND_BY, ROOM

AGAIN = "again "
"""Whether a state has worked before, if that decides what its work takes."""
Reading = Callable[[Values], object]
"""The values of a configuration -> the value of one fact."""
PROGRESS = "progress "
"""How many earlier attempts were judged completely, up to two."""
KEPT = "kept "
"""Whether a state may keep its artifact."""
LAST = "last "
"""Prefix of a fact: its value after the state's own last work, if that may be kept."""
WORKED = "worked "
"""How often a state has worked, if its work may be kept and a guard reads `attempt`."""
LIMITED = "limited "
"""Whether a limit was reached before."""


def readings(variables: Variables, name: str) -> Iterator[tuple[str, Reading]]:
    """Each fact of the context of a state, with how it is read from a configuration.

    An input is read as one value of its region, which is split as far as the state needs it.
    """
    read, named = variables.read[name], variables.named[name]
    for variable in read:
        if variable.kind in ("counter", "room"):
            yield ROOM + variable.name, room_of(variables, variable.name)
        elif variable.kind == "fact" and variable.name in named:
            yield variable.name, _value(variable)
        elif variable.kind == "input" and variable.name in named:
            yield variable.name, _stand_in(variable)
    if "attempt" in named:
        yield "attempt", _attempt(variables, name)
    yield from _readings_of_before(variables, name)
    yield from _readings_of_kept_work(variables, name)
    if Variable("judged", name) in read:
        yield PROGRESS, lambda values: number(values[Variable("judged", name)]) // 2
    for author in variables.author_of_what_is_judged(name):
        yield AUTHOR, _value(author)
    if THEN in read:
        yield LIMITED, _value(THEN)
    back = variables.graph.revise_edges[name]
    counter = back[0].counters[0] if len(back) == 1 and not named.isdisjoint(COUNTING) else ""
    if counter in variables.counted:
        yield "revisions", _value(Variable("counter", counter))
        cap = variables.inputs.caps[counter]
        is_fixed = isinstance(cap, int)
        yield (
            "max_revisions",
            cap_of(variables, counter) if is_fixed else _stand_in(Variable("input", str(cap))),
        )


def _readings_of_before(variables: Variables, name: str) -> Iterator[tuple[str, Reading]]:
    """The facts of a person's state about where a run came from and what was found there."""
    if Variable("before", name) in variables.read[name]:
        yield CAME_FROM, _value(Variable("before", name))
    if FOUND in variables.read[name]:
        yield FOUND_BY, _value(FOUND)


def _readings_of_kept_work(variables: Variables, name: str) -> Iterator[tuple[str, Reading]]:
    """The facts that decide whether a state that is entered again works, and how much."""
    works = Variable("works", name)
    if name in variables.graph.keeping:
        yield KEPT, lambda values: values[Variable("kept", name)] == 1
        yield from ((LAST + own.name, _value(own)) for own in variables.own_facts(name))
        if "attempt" in variables.named[name]:
            yield WORKED, _value(works)
    if variables.keeps_items(name):
        yield AGAIN, lambda values: number(values[works]) > 0


def cap_of(variables: Variables, counter: str) -> Callable[[Values], int]:
    """How the least cap that a counter may have is read from a configuration that holds it."""
    cap = variables.inputs.caps[counter]
    if isinstance(cap, int):
        return lambda _: cap
    bound = Variable("input", cap)
    return lambda values: number(_region(values[bound]).stand_in)


def room_of(variables: Variables, counter: str) -> Callable[[Values], object]:
    """How the room of a counter is read from a configuration that holds it.

    It is UNKNOWN where the cap has not been split.
    """
    if counter in variables.rooms:
        left = Variable("room", counter)
        return lambda values: _is_above(0, _region(values[left]))
    spent, cap = Variable("counter", counter), variables.inputs.caps[counter]
    if isinstance(cap, int):
        return lambda values: number(values[spent]) < cap
    bound = Variable("input", cap)
    return lambda values: _is_above(number(values[spent]), _region(values[bound]))


def _is_above(number: int, region: Region) -> object:
    """Whether the values of a region are above a number."""
    if region.has_number(number) and number < region.high:
        return UNKNOWN
    return number < region.low <= region.high


def number(value: object) -> int:
    """The value of a variable that counts."""
    assert isinstance(value, int)
    return value


def _region(value: object) -> Region:
    assert isinstance(value, Region)
    return value


def _value(variable: Variable) -> Reading:
    return lambda values: values[variable]


def _stand_in(variable: Variable) -> Reading:
    def read(values: Values) -> object:
        region = _region(values[variable])
        return UNKNOWN if region.is_open else region.stand_in

    return read


def _attempt(variables: Variables, name: str) -> Reading:
    """How often the author of the judged artifact has worked; else this state, now included."""
    variable = variables.attempt(name)
    if variable.kind == "version":
        return _value(variable)
    most = variables.most[variable]
    return lambda values: min(number(values[variable]) + 1, most)
