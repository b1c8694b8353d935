"""Calls and costs of the finished runs of a machine, and their outcomes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from loopkit.engine.events import Event, Failed, Intended, Replied
from loopkit.engine.state import RunState
from loopkit.engine.telemetry import usd_without_held
from loopkit.text import plural
from loopkit.views.plan.plan_as_text import usd

PastRun = tuple[RunState, Sequence[Event]]
"""The state of a run, and its events."""


def past_of(runs: Iterable[PastRun]) -> list[PastRun] | None:
    """The finished runs whose agents no scenario played; None without any."""
    return [run for run in runs if run[0].finished and not run[0].script] or None


def _call_costs(events: Sequence[Event]) -> Iterator[tuple[str, float]]:
    """The state and the cost in USD of each call that had a cost."""
    states = {event.key: event.state for event in events if isinstance(event, Intended)}
    for event in events:
        if isinstance(event, Replied | Failed) and (amount := usd_without_held(event.usage)):
            yield states[event.key], amount


def past_text(past: Sequence[PastRun], machine: str) -> Iterator[str]:
    count, calls = len(past), [state.usage.agent_calls for state, _ in past]
    costs = (usd_without_held(state.usage) for state, _ in past)
    known = [amount for amount in costs if amount is not None]
    yield f"In the mean over {plural(count, 'finished run')} of `{machine}` in the journal:"
    mean = f"  {sum(calls) / count:.2f} calls"
    if len(known) < count:
        yield f"{mean}; what they cost is not known of all"
    else:
        yield f"{mean}, {usd(sum(known) / count)}; at most {max(calls)}, {usd(max(known))}"
        by_state: dict[str, float] = defaultdict(float)
        for name, amount in chain.from_iterable(_call_costs(events) for _, events in past):
            by_state[name] += amount / count
        for name, amount in by_state.items():
            yield f"  at {name}: {usd(amount)}"
    outcomes = Counter(state.finished.outcome for state, _ in past if state.finished)
    for outcome, number in outcomes.most_common():
        yield f"  {outcome}: {number / count:.1%}"
    yield "As they ran then; runs that a scenario played are left out."
