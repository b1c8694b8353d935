"""What processes that share a journal have to keep together: accounts, and calls of providers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol


class AccountStanding(NamedTuple):
    """How an account stands, in USD."""

    limit: float | None
    used: float
    """Spent, or held by calls that are under way."""
    elsewhere: float
    """The part that other living processes hold for runs that they drive; it may become less."""


class Settlement(NamedTuple):
    """What a call has cost, or is charged, whatever its account has held for it."""

    key: str
    account: str
    usd: float


class Circuit(NamedTuple):
    failures: int
    """Transient failures in a row."""
    closed_s: float
    """The seconds for which nobody may call."""


class Rate(NamedTuple):
    """The calls that may be made of a provider; None for any number."""

    at_once: int | None = None
    a_minute: int | None = None

    @property
    def _burst(self) -> int:
        return max((self.a_minute or 0) // 4, 1)

    @property
    def interval_s(self) -> float:
        """What each call uses up of a minute, of which a quarter may be used in advance."""
        return 60.001 / ((self.a_minute or 1) - self._burst + 1)

    def grant(self, wanted: int, held: int, ahead_s: float) -> tuple[int, float]:
        """How many calls may be made besides those `held`, and in how many seconds one more."""
        granted, wait_s = wanted, 0.0
        if self.at_once is not None:
            granted = min(granted, self.at_once - held)
        if self.a_minute is not None:
            left = self._burst - ahead_s / self.interval_s
            granted, wait_s = min(granted, int(left + 1e-6)), (1 - left % 1) * self.interval_s
        return max(granted, 0), wait_s


class SharedLimits(Protocol):
    """Every request may raise JournalUnusable."""

    async def open_account(self, account: str, limit: float | None, spent: float) -> None:
        """Set the limit of an account; a new one has `spent` so much before."""

    async def standing(self, account: str) -> AccountStanding | None:
        """None if there is no such account."""

    async def hold(self, account: str, run: str, key: str, usd: float) -> bool:
        """Hold an amount for a call, instead of what was held for its key; 0 frees that.

        False, and nothing is held, if there is no room. What is held outlives this process, because
        the call may have been made: it is settled with the record of its reply or of its doubt.
        """

    async def free_others(self, run: str, keys: Collection[str]) -> None:
        """Free what an earlier owner of a run has held for calls that it did not come to record."""

    async def circuits(self) -> Mapping[str, Circuit]:
        """Those of all providers that have failed since they last answered."""

    async def record_failure(
        self, provider: str, closed_s: float, threshold: int, opens_s: float
    ) -> None:
        """Note a failure after which nobody may call for `closed_s`, as the provider says; at the
        `threshold` of failures in a row for `opens_s` at least."""

    async def record_answer(self, provider: str) -> None:
        """Note that the provider answered, if only to refuse."""

    async def probe(self, provider: str) -> bool:
        """Whether this process may call to see if the provider answers again; only one may."""

    async def release_probe(self, provider: str) -> None:
        """Let another process see to that."""

    async def take_calls(
        self, provider: str, held: int, wanted: int, rate: Rate
    ) -> tuple[int, float]:
        """How many of the `wanted` calls may be made now besides the `held` ones of this process,
        and when to ask for the others. The calls of a process that was killed count no more."""
