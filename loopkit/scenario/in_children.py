"""Parts and expectations of children: by state, by the key of the item, by visit of the state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from loopkit.text.run_ids import place_of

ANY = "*"
"""Stands for every item that is not named."""
CHILDREN = "children"
ONLY, ITEMS = "<only>", "<items>"
"""The forms of what is said of the children of a state: of one without a key, or of items."""
Place = tuple[str | int, ...]
Said = TypeVar("Said")
Visits: TypeAlias = tuple[Said, ...]
"""For each visit of the state; the last one counts from then on."""
Children: TypeAlias = Mapping[str, Visits[Said] | Mapping[str, Visits[Said]]]
"""By state, and where that is an `each` state by the keys of items."""


class InChild(NamedTuple, Generic[Said]):
    """What is said in a child, and where."""

    at: Place
    state: str
    key: str
    """The item's, or `*`; empty where the state has one child only."""
    visit: int
    """The visit of the state that it is for, from 1; the last one is for all that follow."""
    said: Said

    @property
    def called(self) -> str:
        """The child, as messages call it."""
        return place_of(self.state, self.key)


def every_child(children: Children[Said]) -> Iterator[InChild[Said]]:
    """All that is said, in the order of the file."""
    for state, said in children.items():
        by_key = said if isinstance(said, Mapping) else {"": said}
        for key, visits in by_key.items():
            for visit in range(1, len(visits) + 1):
                yield _found(state, key, visit, visits)


def one_child(children: Children[Said], state: str, key: str, visit: int) -> InChild[Said] | None:
    """What is said of one child; none where nothing is."""
    said = children.get(state, ())
    by_key = said if isinstance(said, Mapping) else {"": said}
    named = key if key in by_key else ANY
    visits = by_key.get(named, ())
    return _found(state, named, min(visit, len(visits)), visits) if visits else None


def _found(state: str, key: str, visit: int, visits: Visits[Said]) -> InChild[Said]:
    at = (CHILDREN, state, key, visit - 1) if key else (CHILDREN, state, visit - 1)
    return InChild(at, state, key, visit, visits[visit - 1])


def form_of(value: object, fields: frozenset[str]) -> str:
    """The form of what is said of the children of a state, as a file has it.

    `fields` are those of what is said of one.
    """
    is_one = isinstance(value, Mapping) and ANY not in value and not fields.isdisjoint(value)
    return ONLY if is_one or isinstance(value, list | tuple) else ITEMS


def as_visits(value: object) -> Any:
    """What is said for all visits as a tuple."""
    return tuple(value) if isinstance(value, list) else (value,)
