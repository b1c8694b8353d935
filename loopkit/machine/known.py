"""Known names: a mapping that looks each name up only when it is asked for."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

Thing = TypeVar("Thing")


class Known(Mapping[str, Thing]):
    """Names with what each stands for, found when it is asked for."""

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
    """Names over other ones, of which none is made that nobody asks for."""
    # The stubs want a first mapping that can be changed, as a ChainMap could; nobody changes this.
    return ChainMap(own, others)  # type: ignore[arg-type]
