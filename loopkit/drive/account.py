"""Accounts: what several runs may spend together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from loopkit.drive.active import ActiveRun
from loopkit.drive.limits import LimitReached, least_used, room_for
from loopkit.drive.line import Line
from loopkit.engine.events import Usage


class Account:
    """What runs have spent together, and limits that hold for all of them."""

    def __init__(self, limits: Mapping[str, Any], owner: str) -> None:
        """`owner` says in messages whose limits these are."""
        self.limits = limits
        self.is_reached = False
        """Whether a call was refused because it had no room here."""
        self._owner = owner
        self._at_rest = Usage()
        """What the runs have committed that are not driven at the moment."""
        self._driven: dict[str, ActiveRun] = {}
        self._lines: list[Line] = []
        """Those of the driven runs: what one settles may be the room that another waits for."""

    def book(self, committed: Usage) -> None:
        """Count what a run has committed that is not driven."""
        self._at_rest = self._at_rest.plus(committed)

    @contextmanager
    def driving(self, active: ActiveRun) -> Iterator[None]:
        """While a run is driven that was booked before, if it had committed anything."""
        run = active.state.run
        self._at_rest = self._at_rest.minus(active.state.committed)
        self._driven[run], active.account, active.line = active, self, Line(self._lines)
        self._lines.append(active.line)
        try:
            yield
        finally:
            del self._driven[run]
            self._lines.remove(active.line)
            self.book(active.state.committed)

    @property
    def used(self) -> Usage:
        """What all runs have spent."""
        return self._with_driven([active.state.usage for active in self._driven.values()])

    def require_room(self, reserved: Usage) -> None:
        """Raise LimitReached where a call does not fit."""
        if not self.limits:
            return
        committed = [active.state.committed for active in self._driven.values()]
        try:
            room_for(self.limits, self._with_driven(committed), reserved)
        except LimitReached as reached:
            raise reached.of(self._owner) from reached

    def may_have_room(self, most: Usage) -> bool:
        """Whether a call can fit once the calls in flight, of whatever run, are settled."""
        least = [least_used(one.state, one.line.in_flight) for one in self._driven.values()]
        try:
            room_for(self.limits, self._with_driven(least), most)
        except LimitReached:
            return False
        return True

    @property
    def is_calling(self) -> bool:
        """Whether any call is being made, so that there is something to wait for."""
        return any(line.in_flight for line in self._lines)

    def _with_driven(self, driven: list[Usage]) -> Usage:
        total = self._at_rest
        for usage in driven:
            total = total.plus(usage)
        return total
