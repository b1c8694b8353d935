"""Usage: what calls cost, and the call for which a limit left no room."""

from __future__ import annotations

from loopkit.engine.records import Record

MOST_USD = 100_000.0
"""No call costs more; a higher figure of a server or a program is wrong."""


class Usage(Record, frozen=True, kw_only=True):
    """The usage of calls: counts, input and output tokens together, USD, and seconds of work."""

    agent_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0
    """The cost in USD: null if unknown, 0 only if it is free."""
    time_s: float = 0.0
    held_tokens: int = 0
    """The part of `tokens` that is only held: reserved for calls whose tokens nobody counted."""
    held_usd: float = 0.0
    """The part of `cost_usd` that is only held."""

    @property
    def as_held(self) -> Usage:
        """A reservation that stays, because what the call really took is not known."""
        return self.replace(held_tokens=self.tokens, held_usd=self.cost_usd or 0.0)

    def plus(self, other: Usage) -> Usage:
        unknown = self.cost_usd is None or other.cost_usd is None
        return Usage(
            agent_calls=self.agent_calls + other.agent_calls,
            tool_calls=self.tool_calls + other.tool_calls,
            tokens=self.tokens + other.tokens,
            cost_usd=None if unknown else (self.cost_usd or 0.0) + (other.cost_usd or 0.0),
            time_s=self.time_s + other.time_s,
            held_tokens=self.held_tokens + other.held_tokens,
            held_usd=self.held_usd + other.held_usd,
        )

    def minus(self, other: Usage) -> Usage:
        """What is left of a sum without one of its parts; what is unknown stays unknown."""
        known = self.cost_usd is not None and other.cost_usd is not None
        return Usage(
            agent_calls=self.agent_calls - other.agent_calls,
            tool_calls=self.tool_calls - other.tool_calls,
            tokens=self.tokens - other.tokens,
            cost_usd=(self.cost_usd or 0.0) - (other.cost_usd or 0.0) if known else None,
            time_s=self.time_s - other.time_s,
            held_tokens=self.held_tokens - other.held_tokens,
            held_usd=self.held_usd - other.held_usd,
        )


class RefusedCall(Record, frozen=True, kw_only=True):
    """A call that did not fit in a limit."""

    agent: str
    place: str
    task: str
    """The piece of work that the call was for."""
    reserved: Usage
    """The maximum usage of the call."""
