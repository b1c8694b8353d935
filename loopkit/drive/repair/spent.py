"""Limits and caps of a run below what it has used already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loopkit.engine.state import RunState
from loopkit.machine.edges import TOTAL


def overspent(run: RunState, limits: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The name of each of these limits that a run has gone beyond, and how far it is."""
    used = run.committed
    spent = {
        "agent_calls": used.agent_calls,
        "tool_calls": used.tool_calls,
        # What is only held may turn out to be less.
        "tokens": used.tokens - used.held_tokens,
        "cost_usd": None if used.cost_usd is None else used.cost_usd - used.held_usd,
        "time": used.time_s,
        "total_revisions": run.counters.get(TOTAL, 0),
    }
    for name, limit in limits.items():
        amount = spent.get(name)
        if limit is not None and amount is not None and amount > limit:
            used_up = f"{amount:g} are already used"
            yield name, f"`limits.{name}` can't be {limit:g} in this run: {used_up}"
