"""A run cut off and resumed, compared with the same run uninterrupted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from loopkit.drive.breaker import THRESHOLD
from loopkit.engine.events import Failed, InDoubt, Suspended, Worked
from loopkit.engine.state import RunState
from loopkit.language import Machine
from loopkit.testing.properties.playing import Performance
from loopkit.testing.properties.run_properties import Broken

SAME_END = "a run that is resumed ends the same"


@dataclass(frozen=True)
class End:
    """How a run ended, as far as a resume must not change it."""

    outcome: str
    reason: str
    state: str
    route: tuple[str, ...]
    counters: Mapping[str, int]
    result: Mapping[str, Any]


def end_of(state: RunState) -> End:
    finished, suspended = state.finished, state.suspended
    return End(
        outcome=finished.outcome if finished else state.status,
        reason=suspended.reason if suspended and state.status == "suspended" else "",
        state=state.state,
        route=tuple(state.route),
        counters={name: count for name, count in state.counters.items() if count},
        result=finished.result if finished else {},
    )


def check_same_end(whole: Performance, cut: Performance, machine: Machine) -> Iterator[Broken]:
    """Both runs end the same; at most the calls in doubt are made once more."""
    if _spends_more(whole, cut, machine):
        return
    one, other = end_of(whole.state), end_of(cut.state)
    for name in End.__dataclass_fields__:
        if getattr(one, name) != getattr(other, name):
            yield SAME_END, f"{name}: {getattr(one, name)!r} became {getattr(other, name)!r}"
            return
    more = len(cut.company.made) - len(whole.company.made)
    if more > len(cut.doubted):
        yield SAME_END, f"{more} calls more were made, and {len(cut.doubted)} were in doubt"


def _spends_more(whole: Performance, cut: Performance, machine: Machine) -> bool:
    """Whether a call in doubt may change the end: it costs its reservation and one try.

    What a process knows of its providers is lost with it, so many failures may change it too.
    """
    failed = [e for e in whole.events if isinstance(e, Failed) and e.error_class == "transient"]
    if len(failed) >= THRESHOLD:
        return True
    meets_limit = any(
        (isinstance(event, Worked) and event.outcome == "limit")
        or (isinstance(event, Suspended) and event.reason == "limit")
        for event in cut.events
    )
    return bool(cut.doubted) and (
        meets_limit or _is_last_try(cut, machine) or _is_given_up(whole, cut)
    )


def _is_last_try(cut: Performance, machine: Machine) -> bool:
    tries = Counter(_task(e.key) for e in cut.events if isinstance(e, InDoubt | Failed))
    tasks = {_task(key) for key in cut.doubted}
    agents = {
        name: min(asked.retry.attempts for asked in agent.in_turn)
        for name, agent in machine.agents.items()
        if agent.is_called
    }
    known = cut.state.tasks
    return any(tries[task] >= agents.get(known[task].agent, tries[task] + 1) for task in tasks)


def _is_given_up(whole: Performance, cut: Performance) -> bool:
    """Whether a call is not made again, or its process dies in both runs."""
    tasks = {_task(key) for key in cut.doubted}
    crashed = {_task(event.key) for event in whole.events if isinstance(event, InDoubt)}
    refused = any(isinstance(event, InDoubt) and event.policy == "fail" for event in cut.events)
    return refused or bool(tasks & crashed)


def _task(key: str) -> str:
    """The part of a call's key that all tries of one piece of work have in common."""
    return key.partition(":")[2].rpartition(":")[0]
