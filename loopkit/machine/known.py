"""Known names: a mapping that computes each value when it is read."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

Thing = TypeVar("Thing")


class Known(Mapping[str, Thing]):
    """Names with their values; `find` is called when a value is read."""

    def __init__(
        self, names: Callable[[], Iterable[str]], find: Callable[[str], Thing | None]
    ) -> None:
        self._names = names
        self._find = find

    def __getitem__(self, name: str) -> Thing:
        if (found := self._find(name)) is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(self._names()))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def over(own: Mapping[str, Thing], others: Mapping[str, Thing]) -> Mapping[str, Thing]:
    """`own` names in front of `others`; no value is computed before it is read."""
    # The stubs want a mutable first mapping, because a ChainMap can change it; this one does not.
    return ChainMap(own, others)  # type: ignore[arg-type]
