"""Calls and costs of the finished runs of a machine, and their outcomes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from loopkit.engine.events import Event, Failed, Intended, Replied
from loopkit.engine.state import RunState
from loopkit.engine.telemetry import usd_without_held
from loopkit.text import plural
from loopkit.views.plan.plan_as_text import usd

PastRun = tuple[RunState, Sequence[Event]]
"""The state of a run, and its events."""


@dataclass(frozen=True, slots=True)
class Past:
    """The finished runs whose agents no scenario played."""

    calls: Sequence[int]
    """The calls of each run, newest first."""
    usd: Sequence[float | None]
    outcomes: Mapping[str, int]
    by_state: Mapping[str, float]
    """The mean cost at each state, in USD."""


def past_of(runs: Iterable[PastRun]) -> Past | None:
    ended = [(state, events) for state, events in runs if state.finished and not state.script]
    if not ended:
        return None
    by_state: dict[str, float] = defaultdict(float)
    for _, events in ended:
        for name, amount in _call_costs(events):
            by_state[name] += amount / len(ended)
    return Past(
        calls=[state.usage.agent_calls for state, _ in ended],
        usd=[usd_without_held(state.usage) for state, _ in ended],
        outcomes=Counter(state.finished.outcome for state, _ in ended if state.finished),
        by_state=by_state,
    )


def _call_costs(events: Sequence[Event]) -> Iterator[tuple[str, float]]:
    """The state and the cost in USD of each call that had a cost."""
    states = {event.key: event.state for event in events if isinstance(event, Intended)}
    for event in events:
        if isinstance(event, Replied | Failed) and (amount := usd_without_held(event.usage)):
            yield states[event.key], amount


def past_text(past: Past, machine: str) -> Iterator[str]:
    count = len(past.calls)
    known = [amount for amount in past.usd if amount is not None]
    yield f"In the mean over {plural(count, 'finished run')} of `{machine}` in the journal:"
    mean = f"  {sum(past.calls) / count:.2f} calls"
    if len(known) < count:
        yield f"{mean}; what they cost is not known of all"
    else:
        yield f"{mean}, {usd(sum(known) / count)}; at most {max(past.calls)}, {usd(max(known))}"
        for name, amount in past.by_state.items():
            yield f"  at {name}: {usd(amount)}"
    for outcome, number in sorted(past.outcomes.items(), key=lambda item: -item[1]):
        yield f"  {outcome}: {number / count:.1%}"
    yield "As they ran then; runs that a scenario played are left out."
