"""Parts and expectations of children: by state, by the key of the item, by visit of the state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from loopkit.text.run_ids import place_of

ANY = "*"
"""The key for every item that is not named."""
CHILDREN = "children"
ONLY, ITEMS = "<only>", "<items>"
"""The forms of the parts of a state's children: one child without a key, or items by key."""
Place = tuple[str | int, ...]
Said = TypeVar("Said")
Visits: TypeAlias = tuple[Said, ...]
"""One part for each visit of the state; the last one counts from then on."""
Children: TypeAlias = Mapping[str, Visits[Said] | Mapping[str, Visits[Said]]]
"""Parts by state, and for an `each` state by the keys of its items too."""


class InChild(NamedTuple, Generic[Said]):
    """The part of a child, and its place in the file."""

    at: Place
    state: str
    key: str
    """The key of the item, or `*`; empty where the state has only one child."""
    visit: int
    """The visit of the state, from 1; the part of the last one is for all later visits too."""
    said: Said

    @property
    def called(self) -> str:
        """The name of the child in messages."""
        return place_of(self.state, self.key)


def every_child(children: Children[Said]) -> Iterator[InChild[Said]]:
    """Every part of a child, in the order of the file."""
    for state, parts in children.items():
        by_key = parts if isinstance(parts, Mapping) else {"": parts}
        for key, visits in by_key.items():
            for visit in range(1, len(visits) + 1):
                yield _on_visit(state, key, visit, visits)


def one_child(children: Children[Said], state: str, key: str, visit: int) -> InChild[Said] | None:
    """The part of one child; None where it has none."""
    parts = children.get(state, ())
    by_key = parts if isinstance(parts, Mapping) else {"": parts}
    named = key if key in by_key else ANY
    visits = by_key.get(named, ())
    return _on_visit(state, named, min(visit, len(visits)), visits) if visits else None


def _on_visit(state: str, key: str, visit: int, visits: Visits[Said]) -> InChild[Said]:
    at = (CHILDREN, state, key, visit - 1) if key else (CHILDREN, state, visit - 1)
    return InChild(at, state, key, visit, visits[visit - 1])


def form_of(value: object, fields: frozenset[str]) -> str:
    """The form of the parts of a state's children, as a file has them.

    `fields` are those of the part of one child.
    """
    is_one = isinstance(value, Mapping) and ANY not in value and not fields.isdisjoint(value)
    return ONLY if is_one or isinstance(value, list | tuple) else ITEMS


def as_visits(value: object) -> Any:
    """The parts for all visits as a tuple."""
    return tuple(value) if isinstance(value, list) else (value,)
