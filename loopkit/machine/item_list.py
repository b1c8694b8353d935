"""The items of an `each` state, read from the data of a run, or all faults of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from loopkit.language import EachState
from loopkit.language.guard import parse_path, select
from loopkit.language.guard.paths import ITEMS
from loopkit.language.input_faults import InputFault, InvalidInput
from loopkit.language.template import FieldedText
from loopkit.machine.cycles import cycle_text, shortest_cycles
from loopkit.machine.path_values import (
    MAX_HINTS,
    PAIR,
    choices,
    ends_of,
    unknown,
    value_text,
    values_at,
)
from loopkit.text import plural
from loopkit.values import Mutable, Value, field

MAX_FAULTS = 100
"""How many faults are listed one by one."""
SINGLE = "a text or a number"


class Item(Value, frozen=True):
    """One item of the list."""

    key: str
    """Its key as text; a number as in JSON."""
    value: object
    location: str
    """Its place: `input.tasks[3]`."""
    after: tuple[str, ...] = ()
    """The keys of the items that it waits for, without repetition."""
    group: str | None = None
    """What the items have in common that may run beside it."""


def items_of(state: EachState, data: Mapping[str, object]) -> tuple[Item, ...]:
    """The items, in the order of the list; raises InvalidInput with all faults of them.

    `data` has the values for the first steps of paths: the input, and artifacts.
    """
    reading = _Reading(state)
    found = reading.read_list(state.item_steps, data)
    reading.check_count(len(found))
    reading.read_edges(data)
    items = [reading.read_item(place, value) for place, value in found]
    reading.check_keys()
    refuse(reading.faults)
    return tuple(item for item in items if item is not None)


def refuse(faults: Sequence[str]) -> None:
    """Raise InvalidInput if there are faults; at most MAX_FAULTS are listed one by one."""
    if not faults:
        return
    listed = [*faults[:MAX_FAULTS]]
    if rest := len(faults) - len(listed):
        listed.append(f"there are {rest:,} more faults like these")
    raise InvalidInput([InputFault(fault) for fault in listed])


class _Reading(Mutable):
    """Reads the items of one list and collects their faults."""

    state: EachState
    faults: list[str] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)
    """The place of each key."""
    awaited: list[tuple[str, str, str]] = field(default_factory=list)
    """(key, awaited key, place that says so)."""
    pairs: dict[str, list[tuple[str, object]]] = field(default_factory=dict)
    """By key, the place and the awaited value of each edge that is written beside the items."""

    def add_fault(self, place: str, message: str) -> None:
        self.faults.append(f"`{place}`: {message}")

    def read_list(
        self, path: Sequence[str], data: Mapping[str, object]
    ) -> list[tuple[str, object]]:
        """The items of a list with their places; a list that is not there has none."""
        first, *steps = path
        found = [(first, data.get(first))]
        for step in steps:
            found = [next_one for one in found for next_one in self._follow_step(*one, step)]
        return found

    def _follow_step(self, place: str, value: object, step: str) -> Iterator[tuple[str, object]]:
        if value is None:
            return
        if isinstance(value, FieldedText) and step in value.fields:
            yield f"{place}.{step}", value.fields[step]
        elif step != ITEMS and isinstance(value, Mapping):
            yield f"{place}.{step}", value.get(step)
        elif step == ITEMS and isinstance(value, list | tuple):
            yield from ((f"{place}[{index}]", item) for index, item in enumerate(value))
        else:
            what = "is no list" if step == ITEMS else f"has no field `{step}`"
            self.add_fault(place, f"`{value_text(value)}` {what}")

    def check_count(self, items: int) -> None:
        least, most = self.state.min_items, self.state.max_items
        found = plural(items, "item", ",")
        if items < least:
            self.add_fault(self.state.each, f"{found}, where at least {least:,} have to be")
        if most is not None and items > most:
            self.add_fault(self.state.each, f"{found}, where at most {most:,} may be")

    def read_item(self, location: str, value: object) -> Item | None:
        """One item; None where it has no valid key."""
        key = self._read_key(location, value)
        if key is None:
            return None
        after, group = self._awaited_keys(key, location, value), self._read_group(location, value)
        return Item(key, value, location, after, group)

    def _read_key(self, location: str, item: object) -> str | None:
        place, found = _value_inside(self.state.key, location, item)
        key = single_text(found)
        if found is None or key == "":
            self.add_fault(place, "the key is missing")
        elif key is None:
            self.add_fault(place, f"`{value_text(found)}` is no key, which is {SINGLE}")
        elif key in self.places:
            self.add_fault(place, f"`{key}` is a key already, at `{self.places[key]}`")
        else:
            self.places[key] = place
            return key
        return None

    def _read_group(self, location: str, item: object) -> str | None:
        if self.state.group is None:
            return None
        place, found = _value_inside(self.state.group, location, item)
        group = single_text(found)
        if found is not None and group is None:
            self.add_fault(place, f"`{value_text(found)}` is no group, which is {SINGLE}")
        return group

    def read_edges(self, data: Mapping[str, object]) -> None:
        """Read the edges that are written beside the items."""
        for path in self.state.edge_paths:
            for place, value in self.read_list(parse_path(path.removesuffix(ITEMS) + ITEMS), data):
                ends = ends_of(value)
                key = single_text(ends[1]) if ends is not None else None
                if ends is None or key is None:
                    self.add_fault(place, f"`{value_text(value)}` is not an edge; {PAIR}")
                else:
                    self.pairs.setdefault(key, []).append((place, ends[0]))

    def _awaited_keys(self, key: str, location: str, item: object) -> tuple[str, ...]:
        keys: dict[str, None] = {}
        waits = (_awaited_values(path, location, item) for path in self.state.after_paths)
        for place, value in chain(*waits, self.pairs.get(key, ())):
            awaited = single_text(value)
            if awaited is None:
                self.add_fault(place, f"`{value_text(value)}` is no key, which is {SINGLE}")
            elif awaited == key:
                self.add_fault(place, f"`{key}` waits for itself")
            elif awaited not in keys:
                keys[awaited] = None
                self.awaited.append((key, awaited, place))
        return tuple(keys)

    def check_keys(self) -> None:
        """Report unknown awaited keys, and items that wait for each other."""
        words, hints = choices(self.places), MAX_HINTS
        numbers = {key: (number,) for number, key in enumerate(self.places)}
        leads: dict[tuple[int], set[tuple[int]]] = {node: set() for node in numbers.values()}
        for key, awaited, place in self.awaited:
            if awaited in numbers:
                leads[numbers[key]].add(numbers[awaited])
            else:
                message = f"there is no {self.state.as_} `{awaited}`"
                self.add_fault(place, unknown(message, awaited, words if hints > 0 else ()))
                hints -= 1
        for key, edges in self.pairs.items():
            if key not in self.places:
                message = unknown(f"there is no {self.state.as_} `{key}`", key, words)
                self.add_fault(edges[0][0], message)
        keys = list(self.places)
        for cycle in shortest_cycles(leads, MAX_FAULTS):
            listed = cycle_text([keys[number] for (number,) in cycle])
            self.add_fault(self.state.each, f"these wait for each other: {listed}")


def single_text(value: object) -> str | None:
    """A text or a number as the text of a key; None for any other value."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return json.dumps(value)
    return None


def _rest(path: str) -> str:
    """A path of an item without its first step, which names the item."""
    return path.removeprefix(parse_path(path)[0]).removeprefix(".")


def _value_inside(path: str, location: str, item: object) -> tuple[str, object]:
    """The place and the value of a path in an item; the first step of the path is the item."""
    rest = _rest(path)
    found = select(rest, item) if rest else [("", item)]
    place, value = found[0] if found else ("", None)
    return _full_location(location, place), value


def _awaited_values(path: str, location: str, item: object) -> Iterator[tuple[str, object]]:
    for place, value in values_at(_rest(path) or None, item):
        yield _full_location(location, place), value


def _full_location(location: str, place: str) -> str:
    dot = "." if place and not place.startswith("[") else ""
    return f"{location}{dot}{place}"
