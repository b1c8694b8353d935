"""Logs: sequences that only grow, and share their beginning with longer ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar, overload

T = TypeVar("T")


class Log(Sequence[T]):
    """Values in the order in which they came, which never changes: `plus` makes a longer one.

    Both share one list, so that adding costs the same however long it is. Only a second log with
    the same beginning copies it.
    """

    __slots__ = ("_length", "_shared")

    def __init__(self, shared: list[T] | None = None) -> None:
        """All values that are in a list now; longer logs add to it."""
        self._shared: list[T] = [] if shared is None else shared
        self._length = len(self._shared)

    def plus(self, value: T) -> Log[T]:
        shared, length = self._shared, self._length
        # All runs begin with the same empty log, which has to stay empty.
        if not length or len(shared) != length:
            shared = shared[:length]
        shared.append(value)
        return Log(shared)

    @property
    def last(self) -> T:
        """The newest value; there has to be one."""
        return self._shared[self._length - 1]

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> list[T]: ...
    def __getitem__(self, place: int | slice) -> T | list[T]:
        at = range(self._length)[place]
        return self._shared[at] if isinstance(at, int) else [self._shared[each] for each in at]

    def __iter__(self) -> Iterator[T]:
        return islice(self._shared, self._length)

    def __reversed__(self) -> Iterator[T]:
        newest_first = reversed(self._shared)
        return islice(newest_first, len(self._shared) - self._length, None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(list(self))


EMPTY: Log[Any] = Log()
"""The log with which all runs begin."""
