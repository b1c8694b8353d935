"""Values in messages: never longer than a line, however large they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

LIMIT = 120
"""How many characters of a value are shown."""


def excerpt(value: object, limit: int = LIMIT) -> str:
    """A value as Python writes it, cut; takes no longer for a large one."""
    text = ""
    for piece in _pieces(value, limit):
        text += piece
        if len(text) > limit:
            return f"{text[: limit - 1]}…"
    return text


def join_excerpts(values: Iterable[object], most: int = 5) -> str:
    """The first values, with commas between them."""
    first = list(islice(values, most + 1))
    words = [excerpt(value) for value in first[:most]]
    return ", ".join([*words, "…"] if len(first) > most else words)


def _pieces(value: object, limit: int) -> Iterator[str]:
    match value:
        case str():
            yield repr(value[: limit + 1])
        case Mapping():
            yield "{"
            for index, (key, inner) in enumerate(value.items()):
                yield f"{', ' if index else ''}{excerpt(key)}: "
                yield from _pieces(inner, limit)
            yield "}"
        case list() | tuple():
            yield "["
            for index, inner in enumerate(value):
                yield ", " if index else ""
                yield from _pieces(inner, limit)
            yield "]"
        case _:
            yield repr(value)
