"""A checked guard → a function of the facts, and paths into data such as `nodes[].needs[]`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from loopkit.language.guard.grammar import MAX_LENGTH, Guard, refusal
from loopkit.language.guard.kleene import truth


def compile_guard(guard: Guard) -> Callable[[Mapping[str, object]], bool]:
    """The guard as a function of a flat mapping with a value for each of `guard.names`."""
    return lambda facts: truth(guard.tree, facts) is True


ITEMS = "[]"
_STEP = re.compile(r"(?P<items>\[\])|(?P<dot>\.?)(?P<field>[A-Za-z_][\w-]*)", re.ASCII)
_LOCATION = re.compile(r"\[(?P<index>\d+)\]|\.?(?P<field>[^.\[\]]+)")


def parse_path(text: str) -> tuple[str, ...]:
    """The steps of a path: fields by name, "[]" for each item of a list or mapping.

    `[]` alone stands for a list at the root. Raises GuardError for a malformed path.
    """
    if len(text) > MAX_LENGTH:
        message = f"the path is longer than {MAX_LENGTH:,}"
        raise refusal(MAX_LENGTH, len(text), message, "shorten it")
    if not text:
        raise refusal(0, 0, "the path is empty", "write it like `nodes[].id`, or `[]` for the root")
    steps: list[str] = []
    at = 0
    while at < len(text):
        step = _STEP.match(text, at)
        # The first field has no dot before it, every other one has.
        if step is None or (step["field"] and bool(step["dot"]) != (at > 0)):
            message = f"the path is malformed at `{text[at : at + 20]}`"
            raise refusal(at, len(text), message, "write it like `nodes[].id`")
        steps.append(step["field"] or ITEMS)
        at = step.end()
    return tuple(steps)


def select(path: str, data: object) -> list[tuple[str, object]]:
    """The values that the path leads to, each with its location: `nodes[2].id`.

    What is missing, or no mapping where a field is read, is none at the place where it should be;
    what is no list and no mapping has no items. Raises GuardError for a malformed path.
    """
    found: list[tuple[str, object]] = [("", data)]
    for step in parse_path(path):
        found = [next_one for one in found for next_one in _take_step(*one, step)]
    return found


def _take_step(location: str, data: object, step: str) -> Iterator[tuple[str, object]]:
    if step == ITEMS:
        if isinstance(data, (list, tuple)):
            for index, item in enumerate(data):
                yield f"{location}[{index}]", item
        elif isinstance(data, Mapping):
            for key, value in data.items():
                yield f"{location}.{key}" if location else str(key), value
        return
    place = f"{location}.{step}" if location else step
    yield place, data.get(step) if isinstance(data, Mapping) else None


def holder(location: str, data: object) -> object:
    """The innermost mapping around a location that `select` gave: the node of
    `nodes[2].needs[0]`. None where there is none.
    """
    found = None
    for step in _LOCATION.finditer(location):
        if isinstance(data, Mapping):
            found, data = data, data.get(step["field"])
        elif isinstance(data, (list, tuple)) and step["index"]:
            data = data[int(step["index"])] if int(step["index"]) < len(data) else None
    return found
