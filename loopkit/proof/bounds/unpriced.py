"""The calls whose price is unknown."""

from __future__ import annotations

from collections.abc import Iterable

from loopkit.proof.bounds.agent_calls import Asking


def unpriced(asking: Asking, states: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """(agent, place) of each call of some states that has no known price."""
    asked = (work for name in dict.fromkeys(states) for work in asking.reach(name))
    return tuple(dict.fromkeys((w.agent, w.place) for w in asked if w.call_usd is None))
