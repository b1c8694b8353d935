"""The items of an `each` state: read from the data of a run, and what is known of them before."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain
from typing import Any

from loopkit.document.problems import Problem, did_you_mean
from loopkit.language.datatypes.datatype import DataType
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.guard.evaluate import ITEMS, parse_path, select
from loopkit.language.input_faults import InvalidInput
from loopkit.language.states.each import ChildrenState, EachState, steps_to_items
from loopkit.language.template.grammar import Anything, Fields, Items, Shape, either, member
from loopkit.language.template.sandbox import FieldedText
from loopkit.machine.cycles import cycle_text, shortest_cycles
from loopkit.machine.graph import Graph
from loopkit.text import one_line, plural
from loopkit.text.json_text import canonical, text_or_json
from loopkit.values import Mutable, Value, field

MAX_FAULTS = 100
SINGLE = "a text or a number"


class Item(Value, frozen=True):
    key: str
    """Its key as text; a number as in JSON."""
    value: object
    location: str
    """Its place: `input.tasks[3]`."""
    after: tuple[str, ...] = ()
    """The keys of the items that it waits for, without repetition."""
    group: str | None = None
    """What the items have in common that may run beside it."""
    exclusive: frozenset[str] = frozenset()
    """What it needs for itself alone."""


def items_of(state: EachState, data: Mapping[str, object]) -> tuple[Item, ...]:
    """The items, in the order of the list; raises InvalidInput with all faults of them.

    `data` has the values for the first steps of paths: the input, and artifacts.
    """
    reading = _Reading(state)
    found = list_at(state.item_steps, data, reading.faults)
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
    raise InvalidInput([Problem("wrong-kind", fault) for fault in listed])


def list_at(
    path: Sequence[str], data: Mapping[str, object], faults: list[str]
) -> list[tuple[str, object]]:
    """The items of a list with their places; a list that is not there has none.

    What is no list on the way there is added to `faults`.
    """
    first, *steps = path
    found = [(first, data.get(first))]
    for step in steps:
        found = [next_one for one in found for next_one in _follow_step(*one, step, faults)]
    return found


def _follow_step(
    place: str, value: object, step: str, faults: list[str]
) -> Iterator[tuple[str, object]]:
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
        faults.append(f"`{place}`: `{value_text(value)}` {what}")


class _Reading(Mutable):
    state: EachState
    faults: list[str] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)
    awaited: list[tuple[str, str, str]] = field(default_factory=list)
    """(key, awaited key, place that says so)."""
    pairs: dict[str, list[tuple[str, object]]] = field(default_factory=dict)
    """By key, the place and the awaited value of each edge that is written beside the items."""

    def add_fault(self, place: str, message: str) -> None:
        self.faults.append(f"`{place}`: {message}")

    def check_count(self, items: int) -> None:
        least, most = self.state.min_items, self.state.max_items
        found = plural(items, "item", ",")
        if items < least:
            self.add_fault(self.state.each, f"{found}, where at least {least:,} have to be")
        if most is not None and items > most:
            self.add_fault(self.state.each, f"{found}, where at most {most:,} may be")

    def read_item(self, location: str, value: object) -> Item | None:
        key = self._read_key(location, value)
        if key is None:
            return None
        after = self._awaited_keys(key, location, value)
        group = None
        if self.state.group is not None:
            place, found = _value_inside(self.state.group, location, value)
            group = None if found is None else self._read_word("group", place, found)
        needed = _texts_in(self.state.exclusive or (), location, value)
        words = [self._read_word("name", place, name) for place, name in needed]
        exclusive = frozenset(word for word in words if word is not None)
        return Item(key, value, location, after, group, exclusive)

    def _read_key(self, location: str, item: object) -> str | None:
        place, found = _value_inside(self.state.key, location, item)
        if found is None or found == "":
            self.add_fault(place, "the key is missing")
            return None
        key = self._read_word("key", place, found)
        if key in self.places:
            self.add_fault(place, f"`{key}` is a key already, at `{self.places[key]}`")
            return None
        if key is not None:
            self.places[key] = place
        return key

    def _read_word(self, noun: str, place: str, value: object) -> str | None:
        if (word := single_text(value)) is None:
            self.add_fault(place, f"`{value_text(value)}` is no {noun}, which is {SINGLE}")
        return word

    def read_edges(self, data: Mapping[str, object]) -> None:
        for path in self.state.edge_paths:
            for place, value in list_at(steps_to_items(path), data, self.faults):
                ends = ends_of(value)
                key = single_text(ends[1]) if ends is not None else None
                if ends is None or key is None:
                    self.add_fault(place, f"`{value_text(value)}` is not an edge; {PAIR}")
                else:
                    self.pairs.setdefault(key, []).append((place, ends[0]))

    def _awaited_keys(self, key: str, location: str, item: object) -> tuple[str, ...]:
        keys: dict[str, None] = {}
        waits = _texts_in(self.state.after_paths, location, item)
        for place, value in chain(waits, self.pairs.get(key, ())):
            awaited = self._read_word("key", place, value)
            if awaited == key:
                self.add_fault(place, f"`{key}` waits for itself")
            elif awaited is not None and awaited not in keys:
                keys[awaited] = None
                self.awaited.append((key, awaited, place))
        return tuple(keys)

    def check_keys(self) -> None:
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
    return path.removeprefix(parse_path(path)[0]).removeprefix(".")


def _texts_in(paths: Iterable[str], location: str, item: object) -> Iterator[tuple[str, object]]:
    for path in paths:
        for place, value in values_at(_rest(path) or None, item):
            yield _full_location(location, place), value


def _value_inside(path: str, location: str, item: object) -> tuple[str, object]:
    """The place and the value of a path in an item; the first step of the path is the item."""
    rest = _rest(path)
    found = select(rest, item) if rest else [("", item)]
    place, value = found[0] if found else ("", None)
    return _full_location(location, place), value


def _full_location(location: str, place: str) -> str:
    dot = "." if place and not place.startswith("[") else ""
    return f"{location}{dot}{place}"


MAX_HINTS = 10
"""The number of unknown values for which a similar known value is suggested."""
CHOICES_CHARS = 3_000
"""The number of characters of known values among which a similar one is looked for."""
LARGE = sys.hash_info.modulus
"""From here on different numbers may share a hash, which makes a table of them slow."""
ENDS = (("from", "to"), ("source", "target"))
"""The keys for the ends of an edge that is written by itself."""
PAIR = "write it as [FROM, TO] or {from: FROM, to: TO}"
Same = tuple[str, Any]
"""A kind and a value; values of one kind can be ordered."""


def values_at(path: str | None, data: object) -> Iterator[tuple[str, object]]:
    """The single values to which a path leads, each with its location, without None.

    A list gives its items and a mapping its keys, unless the path already ends in items: `nodes`
    gives the keys of a mapping, `nodes[]` the mappings. Raises GuardError.
    """
    is_item = path is not None and path.endswith(ITEMS)
    for location, value in [("", data)] if path is None else select(path, data):
        if is_item:
            inner = [(location, value)]
        elif isinstance(value, list | tuple):
            inner = [(f"{location}[{index}]", item) for index, item in enumerate(value)]
        elif isinstance(value, Mapping):
            inner = [(f"{location}.{key}" if location else str(key), key) for key in value]
        else:
            inner = [(location, value)]
        yield from ((place, item) for place, item in inner if item is not None)


def same_as(value: object) -> Same | None:
    """A key that equal values share: 1 equals 1.0; true is not a number. None for a non-scalar."""
    match value:
        case bool():
            return "truth", value
        case int() | float() if abs(value) < LARGE:
            return "number", value
        case int() | float():
            return "large number", canonical(value)
        case str():
            return "text", value
        case _:
            return None


def value_text(value: object) -> str:
    """A value for a sentence: in quotes if its white space would be invisible otherwise."""
    if isinstance(value, str) and value.split(" ") != value.split():
        return one_line(json.dumps(value, ensure_ascii=False))
    return one_line(text_or_json(value))


def choices(known: Iterable[object]) -> list[str]:
    """The texts of the first known values, up to CHOICES_CHARS characters."""
    words: list[str] = []
    left = CHOICES_CHARS
    for value in known:
        words.append(value_text(value))
        left -= len(words[-1])
        if left < 0:
            break
    return words


def unknown(message: str, value: object, known: Sequence[str]) -> str:
    remedy = did_you_mean(value_text(value), known)
    return f"{message}; {remedy}" if remedy else message


def ends_of(value: object) -> tuple[object, object] | None:
    """The ends of an edge that is written by itself; None for a value that is not an edge."""
    match value:
        case [start, end]:
            return start, end
        case Mapping():
            found = ((a, b) for a, b in ENDS if a in value and b in value)
            return next(((value[a], value[b]) for a, b in found), None)
    return None


def items_at(names: Mapping[str, Shape], lists: Iterable[Sequence[str]]) -> Shape:
    """The shape of the items of lists; Anything where a path leads nowhere."""
    first: Shape = Fields(names)
    found = (reduce(lambda at, step: step_into(at, step) or Anything(), s, first) for s in lists)
    return reduce(either, found)


def step_into(shape: Shape, step: str) -> Shape | None:
    """The shape to which a step of a path leads; None where it leads nowhere."""
    if step != ITEMS:
        return member(shape, step)
    if isinstance(shape, Items):
        return shape.item
    return Anything() if isinstance(shape, Anything) else None


def item_counts(graph: Graph, state: EachState) -> tuple[int, int | None]:
    """The least and the most number of items of a list; the most is None where it is unknown."""
    found = [_counts_in(root, state.item_steps) for root in _roots(graph, state.each)]
    ranges = found or [(0, None)]
    most = None if any(high is None for _, high in ranges) else max(high or 0 for _, high in ranges)
    known = [bound for bound in (most, state.max_items) if bound is not None]
    return max(state.min_items, min(low for low, _ in ranges)), min(known, default=None)


def types_at(graph: Graph, state: ChildrenState, path: tuple[str, ...]) -> list[DataType | None]:
    """The type of a name in the state's input, one for each source that the value may have.

    None stands for a text. An empty list means that nothing is known.
    """
    first, *steps = path
    if isinstance(state, EachState) and first == state.as_:
        lists = _roots(graph, state.each)
        items = (known and known.at(state.item_steps) for known in lists)
        roots: list[DataType | None] = [known or DataType({}) for known in items]
    else:
        roots = [known and known.field(first) for known in _roots(graph, first)]
    if not steps:
        return roots
    found = [None if root is None else root.at(steps) for root in roots]
    return [] if None in found else found


def _roots(graph: Graph, path: str) -> Iterator[DataType | None]:
    """The types at the first step of a path, one for each state that may write it."""
    first, *_ = parse_path(path)
    if first == "input":
        yield DataType({}, fields={first: parse_record(graph.machine.input)})
        return
    for data in graph.types_of(first):
        yield None if data is None else DataType({}, fields={first: data})


def _counts_in(known: DataType | None, steps: tuple[str, ...]) -> tuple[int, int | None]:
    """The least and the most number of items to which steps lead: the product over nested lists."""
    least: int = 1
    most: int | None = 1
    for step in steps:
        if step == ITEMS:
            said = known.schema if known is not None else {}
            least *= said.get("minItems", 0)
            most = most * said["maxItems"] if most is not None and "maxItems" in said else None
        known = known and known.at((step,))
    return least, most
