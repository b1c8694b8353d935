"""A circuit breaker for each provider, shared by all runs of a process.

A provider that failed several times in a row is not called for a while. Then one call probes
whether it answers again, and all others wait for the result.
"""

from __future__ import annotations

from dataclasses import dataclass

THRESHOLD = 5
"""Transient failures in a row that open the circuit."""
COOLDOWN_S = 30.0
PROBE_S = 1.0
"""How long others wait at a time while one call probes."""


@dataclass
class _Circuit:
    failures: int = 0
    open_until: float = 0.0
    is_probed: bool = False


class Breakers:
    """The circuits of all providers that were asked.

    Times are seconds of a monotonic clock, because the time of day may jump meanwhile.
    """

    def __init__(self, threshold: int = THRESHOLD, cooldown_s: float = COOLDOWN_S) -> None:
        self._threshold = threshold
        self._cooldown_s = cooldown_s
        self._circuits: dict[str, _Circuit] = {}

    def seconds_to_wait(self, provider: str, now: float) -> float:
        """Seconds until a call may be sent; 0 admits this one, whose result has to be recorded."""
        circuit = self._circuits.get(provider)
        if circuit is None or circuit.failures < self._threshold:
            return 0.0
        if now < circuit.open_until:
            return circuit.open_until - now
        if circuit.is_probed:
            return PROBE_S
        circuit.is_probed = True
        return 0.0

    def failures(self, provider: str) -> int:
        """Transient failures in a row."""
        circuit = self._circuits.get(provider)
        return circuit.failures if circuit else 0

    def record_failure(self, provider: str, now: float) -> None:
        """Record that a call failed because of the provider."""
        circuit = self._circuits.setdefault(provider, _Circuit())
        circuit.failures += 1
        circuit.open_until = now + self._cooldown_s
        circuit.is_probed = False

    def record_answer(self, provider: str) -> None:
        """Record that the provider answered, if only to refuse."""
        self._circuits.pop(provider, None)

    def release_probe(self, provider: str) -> None:
        """Let another call probe, because this one ended without an answer or a failure."""
        circuit = self._circuits.get(provider)
        if circuit is not None:
            circuit.is_probed = False
