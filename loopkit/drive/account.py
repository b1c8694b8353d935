"""Accounts: what several runs may spend together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from loopkit.drive.active import ActiveRun
from loopkit.drive.limits import LimitReached, least_usage, option_to_raise, room_for
from loopkit.drive.line import Line
from loopkit.engine.events import Usage


class SharedLimitReached(LimitReached):
    """A limit that several runs share leaves no room."""

    def __init__(self, account: Account, reached: LimitReached) -> None:
        self.account = account
        super().__init__(
            reached.name, reached.limit, reached.spent, reached.asked, reached.held, account.owner
        )

    def remedy(self, run: str) -> str:
        return f"run {self.owner} again with a higher limit: {' '.join(option_to_raise(self))}"

    @property
    def as_own(self) -> LimitReached:
        """The error for the run whose own limit it is."""
        return LimitReached(self.name, self.limit, self.spent, self.asked, self.held)


class Account:
    """What runs have spent together, and limits that hold for all of them."""

    def __init__(
        self, limits: Mapping[str, Any], owner: str, within: Account | None = None
    ) -> None:
        """`owner` says in messages whose limits these are.

        What is spent here is spent `within` another account, too.
        """
        self.owner = owner
        self.reached: SharedLimitReached | None = None
        """The error with which a call was refused because it had no room here."""
        self._limits = limits
        self._within = within
        self._at_rest = Usage()
        """The committed usage of the runs that are not driven at the moment."""
        self._driven: dict[str, ActiveRun] = {}
        self.lines: list[Line] = [] if within is None else within.lines
        """The lines of the driven runs: a call settled in one may free room for another."""

    @property
    def limits(self) -> Mapping[str, Any]:
        """The limits of this account."""
        return self._limits

    @property
    def every_limit(self) -> Iterator[Mapping[str, Any]]:
        """The limits here, and those of the accounts that this one is within."""
        yield self.limits
        if self._within is not None:
            yield from self._within.every_limit

    def book(self, committed: Usage) -> None:
        """Count the committed usage of a run that is not driven, and of all its children.

        An account that this one is within has counted it with the run whose account this is.
        """
        self._at_rest = self._at_rest.plus(committed)

    def strike(self, committed: Usage) -> None:
        """Stop counting usage that was booked."""
        self._at_rest = self._at_rest.minus(committed)
        if self._within is not None:
            self._within.strike(committed)

    @contextmanager
    def driving(self, active: ActiveRun) -> Iterator[None]:
        """Count a run while it is driven; anything it had committed has to be booked before."""
        active.account, active.line = self, Line(self.lines)
        self.lines.append(active.line)
        try:
            with self.counting(active):
                yield
        finally:
            self.lines.remove(active.line)

    @contextmanager
    def counting(self, active: ActiveRun) -> Iterator[None]:
        """Count the committed usage that the run's state has, instead of what was booked."""
        run = active.state.run
        self._at_rest = self._at_rest.minus(active.state.committed)
        self._driven[run] = active
        try:
            with nullcontext() if self._within is None else self._within.counting(active):
                yield
        finally:
            del self._driven[run]
            self._at_rest = self._at_rest.plus(active.state.committed)

    @property
    def used(self) -> Usage:
        """The usage of all runs."""
        return self._with_driven([active.state.usage for active in self._driven.values()])

    def require_room(self, reserved: Usage) -> float | None:
        """The seconds of work that are left for a call, or None without a limit.

        Raises SharedLimitReached if the call does not fit.
        """
        left = None if self._within is None else self._within.require_room(reserved)
        if not self.limits:
            return left
        committed = [active.state.committed for active in self._driven.values()]
        try:
            here = room_for(self.limits, self._with_driven(committed), reserved)
        except LimitReached as reached:
            raise SharedLimitReached(self, reached) from reached
        return min((each for each in (left, here) if each is not None), default=None)

    def may_have_room(self, most: Usage) -> bool:
        """Whether a call can fit once the calls in flight, of all driven runs, are settled."""
        if self._within is not None and not self._within.may_have_room(most):
            return False
        least = [least_usage(one.state, one.line.in_flight) for one in self._driven.values()]
        try:
            room_for(self.limits, self._with_driven(least), most)
        except LimitReached:
            return False
        return True

    @property
    def is_calling(self) -> bool:
        """Whether any call is being made, so that there is something to wait for."""
        return any(line.in_flight for line in self.lines)

    def _with_driven(self, driven: list[Usage]) -> Usage:
        total = self._at_rest
        for usage in driven:
            total = total.plus(usage)
        return total


class FamilyAccount(Account):
    """The limits of a run, which hold for it and its children together."""

    def __init__(self, active: ActiveRun) -> None:
        super().__init__({}, active.state.run, active.account)
        self._active = active
        self._since = 0.0
        self._unsaid_s = 0.0

    @property
    def limits(self) -> Mapping[str, Any]:
        return self._active.limits

    @contextmanager
    def counting(self, active: ActiveRun) -> Iterator[None]:
        if not self._driven:
            self._since = self._now()
        try:
            with super().counting(active):
                yield
        finally:
            if not self._driven:
                self._unsaid_s += self._now() - self._since

    def add_time(self, seconds: float) -> None:
        """Count seconds in which children worked before, and that no record has yet."""
        self._unsaid_s += seconds

    def take_time(self) -> float:
        """Return and reset the seconds in which any child worked and that no record has yet."""
        seconds, self._unsaid_s, self._since = self._at_work_s, 0.0, self._now()
        return seconds

    @property
    def _at_work_s(self) -> float:
        return self._unsaid_s + (self._now() - self._since if self._driven else 0.0)

    def _with_driven(self, driven: list[Usage]) -> Usage:
        own = self._active.state.usage
        total = super()._with_driven([own, *driven])
        # Children work at the same time: what counts is when any of them does.
        return total.replace(time_s=own.time_s + self._at_work_s)

    def _now(self) -> float:
        return self._active.clock.monotonic()
