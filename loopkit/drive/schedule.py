"""The schedule of an `each` state: which items can begin now, and which never can."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import heappop, heappush

from loopkit.language.states.children import BLOCKED
from loopkit.machine.item_list import Item

Group = tuple[str, ...]
"""Items of one group may overlap: the group's name, or the key of an item that has none."""


class Schedule:
    """Items in the order of their list, each behind those that it waits for."""

    def __init__(
        self,
        items: Sequence[Item],
        awaited: Collection[str],
        *,
        parallel: int = 1,
        is_grouped: bool = False,
        begun: Collection[str] = (),
        ended: Mapping[str, str] = {},
    ) -> None:
        """Items wait for `awaited` outcomes of others. Those that were `begun` before come first.

        `ended` are the outcomes of those that are over. Without `is_grouped` all may overlap.
        """
        self._awaited = frozenset(awaited)
        self._parallel = parallel
        self._is_grouped = is_grouped
        self._items = {item.key: item for item in items}
        self._order = {item.key: (item.key not in begun, index) for index, item in enumerate(items)}
        self._waits = {item.key: len(set(item.after)) for item in items}
        self._dependents: dict[str, list[str]] = {}
        for item in items:
            for other in dict.fromkeys(item.after):
                self._dependents.setdefault(other, []).append(item.key)
        self._ready: dict[Group, list[tuple[tuple[bool, int], str]]] = {}
        self._running: dict[str, Group] = {}
        self.blocked: dict[str, tuple[str, str]] = {}
        """Items that can never begin: the item that each waits for, and the outcome of that."""
        self._over = set(ended)
        for key, waits in self._waits.items():
            if not waits:
                self._push(key)
        for key, outcome in ended.items():
            self.end(key, outcome)

    def begin(self) -> Iterator[Item]:
        """Take the items that can begin now."""
        while len(self._running) < self._parallel and (group := self._next_group()) is not None:
            _, key = heappop(self._ready[group])
            if not self._ready[group]:
                del self._ready[group]
            self._running[key] = group
            yield self._items[key]

    def leave(self, key: str) -> None:
        """Free the place of an item that has no work for now."""
        del self._running[key]

    def take_up(self, key: str) -> None:
        """Queue an item again that had no work and now has some."""
        self._push(key)

    def end(self, key: str, outcome: str) -> None:
        """Mark an item as over, whether it was running or not."""
        self._running.pop(key, None)
        self._over.add(key)
        ended = [(key, outcome)]
        while ended:
            over, became = ended.pop()
            for dependent in self._dependents.get(over, ()):
                if dependent in self.blocked:
                    continue
                if became in self._awaited:
                    self._waits[dependent] -= 1
                    if not self._waits[dependent]:
                        self._push(dependent)
                else:
                    self.blocked[dependent] = (over, became)
                    ended.append((dependent, BLOCKED))

    def merge_order(self) -> list[str]:
        """All keys, each behind those that it waits for, otherwise in the order of the list."""
        waits = {item.key: len(set(item.after)) for item in self._items.values()}
        numbers = {key: number for number, key in enumerate(self._items)}
        keys, ready = list(self._items), [numbers[key] for key, left in waits.items() if not left]
        ordered: list[str] = []
        while ready:
            ordered.append(key := keys[heappop(ready)])
            for dependent in self._dependents.get(key, ()):
                waits[dependent] -= 1
                if not waits[dependent]:
                    heappush(ready, numbers[dependent])
        return ordered

    def _push(self, key: str) -> None:
        if key in self._over:
            return
        heappush(self._ready.setdefault(self._group(key), []), (self._order[key], key))

    def _group(self, key: str) -> Group:
        if not self._is_grouped:
            return ()
        group = self._items[key].group
        return ("by itself", key) if group is None else ("group", group)

    def _next_group(self) -> Group | None:
        """The group of which an item can begin now."""
        if self._running:
            group = next(iter(self._running.values()))
            # One without a group is alone, and so is not joined by another.
            return group if group in self._ready else None
        return min(self._ready, key=lambda group: self._ready[group][0], default=None)
