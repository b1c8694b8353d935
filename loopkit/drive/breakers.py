"""A circuit breaker and a rate of calls for each provider.

A provider that failed several times in a row is not called for a while, by any run of the process.
Then one call probes whether it answers again, and all others wait for the result. The processes
that share a journal know this of each other, and when a provider has told one of them to wait.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from math import inf

from loopkit.agents.port import NotRunnable
from loopkit.journal.port import SharedLimits
from loopkit.journal.records import Circuit, Rate
from loopkit.values import NOTHING

THRESHOLD = 5
"""Transient failures in a row that open the circuit."""
COOLDOWN_S = 30.0
PROBE_S = 1.0
"""How long others wait at a time while one call probes."""

LOOK_AGAIN_S = 1.0
"""How old what other processes know of a provider may be."""
TURN_S = 0.1
Rates = Mapping[str, Rate]
_RATE = re.compile(r"(\S+?)\s*=\s*([1-9]\d{0,5}(?![\d/]))?\s*(?:([1-9]\d{0,5})/min)?")


def rates_in(text: str) -> Rates:
    """The rates by provider that `openai=8 120/min, anthropic=4` names; raises NotRunnable."""
    rates: dict[str, Rate] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        found = _RATE.fullmatch(part)
        if found is None or not (found[2] or found[3]):
            raise NotRunnable(
                f"`LOOPKIT_CALLS` has {part!r}; write calls at once, or a minute, or both: "
                "openai=8, openai=120/min, openai=8 120/min"
            )
        rates[found[1]] = Rate(*(int(number) if number else None for number in found.group(2, 3)))
    return rates


class Breakers:
    """The circuits and the rates of all providers that were asked.

    Times are seconds of a monotonic clock, because the time of day may jump meanwhile.
    """

    def __init__(
        self, threshold: int = THRESHOLD, cooldown_s: float = COOLDOWN_S, rates: Rates = NOTHING
    ) -> None:
        self._threshold = threshold
        self._cooldown_s = cooldown_s
        self._known: dict[str, Circuit] = {}
        self._looked = 0.0
        """The time at which that was known, from which its seconds count."""
        self._probed: set[str] = set()
        self._rates = rates
        self._asking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._calls = Counter[str]()
        self._next: defaultdict[str, float] = defaultdict(float)
        self._used_until: defaultdict[str, float] = defaultdict(float)

    @asynccontextmanager
    async def turn(
        self,
        provider: str,
        now: Callable[[], float],
        pause: Callable[[float], Awaitable[None]],
    ) -> AsyncIterator[None]:
        """Entered for a call, once its rate lets it be sent."""
        if (rate := self._rates.get(provider)) is None:
            yield
            return
        while (wait_s := await self._seconds_to_turn(provider, rate, now())) > 0:
            await pause(wait_s)
        try:
            yield
        finally:
            await self._give_back(provider, rate)

    async def _seconds_to_turn(self, provider: str, rate: Rate, now: float) -> float:
        """One call asks at a time, and none before the time that the last one was told."""
        async with self._asking[provider]:
            wait_s = self._next[provider] - now
            if wait_s <= 0:
                granted, wait_s = await self._take(provider, 1, rate, now)
                self._calls[provider] += granted
                wait_s = 0.0 if granted else max(wait_s, TURN_S)
                self._next[provider] = now + wait_s
            return wait_s

    async def _give_back(self, provider: str, _: Rate) -> None:
        self._calls[provider] -= 1
        self._next[provider] = 0.0

    async def _take(self, provider: str, wanted: int, rate: Rate, now: float) -> tuple[int, float]:
        ahead_s = max(self._used_until[provider] - now, 0.0)
        granted, wait_s = rate.grant(wanted, self._calls[provider], ahead_s)
        self._used_until[provider] = now + ahead_s + granted * rate.interval_s
        return granted, wait_s

    async def seconds_to_wait(self, provider: str, now: float) -> float:
        """Seconds until a call may be sent; 0 admits this one, whose result has to be recorded."""
        await self._look(now)
        circuit = self._known.get(provider)
        left_s = self._looked + circuit.closed_s - now if circuit else 0.0
        if circuit is None or left_s > 0 or circuit.failures < self._threshold:
            return max(left_s, 0.0)
        return 0.0 if await self._probe(provider) else PROBE_S

    async def _look(self, now: float) -> None:
        """See what other processes know by now."""

    async def _probe(self, provider: str) -> bool:
        """Whether this call may see if the provider answers again."""
        is_first = provider not in self._probed
        self._probed.add(provider)
        return is_first

    def failures(self, provider: str) -> int:
        circuit = self._known.get(provider)
        return circuit.failures if circuit else 0

    async def record_failure(
        self, provider: str, now: float, retry_after_s: float | None = None
    ) -> None:
        """Record a transient failure; a provider that refuses has answered."""
        failures = self.failures(provider) + 1
        closed_s = now + self._cooldown_s if failures >= self._threshold else 0.0
        self._known[provider] = Circuit(failures, closed_s)
        self._probed.discard(provider)

    async def record_answer(self, provider: str) -> None:
        """Record that the provider answered, if only to refuse."""
        self._known.pop(provider, None)
        self._probed.discard(provider)

    async def release_probe(self, provider: str) -> None:
        """Let another call probe, because this one ended without an answer or a failure."""
        self._probed.discard(provider)


class SharedBreakers(Breakers):
    """What all processes of a journal know; only failures and what follows are told at once."""

    def __init__(self, limits: SharedLimits, rates: Rates) -> None:
        super().__init__(rates=rates)
        self._limits = limits
        self._looked = -inf

    async def _look(self, now: float) -> None:
        if now - self._looked > LOOK_AGAIN_S:
            self._looked = now
            self._known = dict(await self._limits.circuits())

    async def _probe(self, provider: str) -> bool:
        self._looked = -inf
        return await self._limits.probe(provider)

    async def _take(self, provider: str, wanted: int, rate: Rate, now: float) -> tuple[int, float]:
        return await self._limits.take_calls(provider, self._calls[provider], wanted, rate)

    async def _give_back(self, provider: str, rate: Rate) -> None:
        async with self._asking[provider]:
            await super()._give_back(provider, rate)
            await self._limits.take_calls(provider, self._calls[provider], 0, rate)

    async def record_failure(
        self, provider: str, now: float, retry_after_s: float | None = None
    ) -> None:
        self._looked = -inf
        opens_s = self._threshold, self._cooldown_s
        # A program has no provider.
        if provider:
            await self._limits.record_failure(provider, retry_after_s or 0.0, *opens_s)

    async def record_answer(self, provider: str) -> None:
        if self.failures(provider):
            self._looked = -inf
            await self._limits.record_answer(provider)

    async def release_probe(self, provider: str) -> None:
        if self.failures(provider) >= self._threshold:
            await self._limits.release_probe(provider)
