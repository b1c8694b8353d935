"""The properties of one run: it ends, keeps its limits and bounds, and pays once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from loopkit.engine.events import Decided, Failed, InDoubt, Intended, Replied
from loopkit.language.states.children import ChildrenState
from loopkit.machine.graph import Graph, cap_value
from loopkit.proof.bounds import Bounds
from loopkit.testing.properties.playing import Performance

Broken = tuple[str, str]
"""The property, and what happened instead."""
ENDS = ("finished", "waiting", "suspended")
NEVER_STUCK = "never stuck"
LIMITS = "limits are respected"
BOUNDS = "calls are within the bound"
NOT_TWICE = "no settled call is made twice"
_ROUNDING = 1e-6


def check_never_stuck(done: Performance) -> Iterator[Broken]:
    """The run ends, waits for a person or is suspended, without an unforeseen exception."""
    if done.error is not None:
        error = f"{type(done.error).__name__}: {done.error}"
        yield NEVER_STUCK, f"in `{done.state.state}` the run broke off with {error}"
    elif done.state.status not in ENDS:
        yield NEVER_STUCK, f"in `{done.state.state}` the run stopped and is {done.state.status}"


def check_limits(done: Performance, graph: Graph) -> Iterator[Broken]:
    """No counter of revisions above its cap; no more calls, tokens and USD than the limits."""
    yield from _revisions(done, graph)
    made, limits = done.company.made_by_family, graph.machine.limits
    for name, spent, limit in (
        ("agent_calls", len(made), limits.agent_calls),
        ("tool_calls", _tool_calls(done), limits.tool_calls),
        ("tokens", sum(call.tokens for call in made), limits.tokens),
        ("cost_usd", sum(call.cost_usd for call in made), limits.cost_usd),
    ):
        if limit is not None and spent > limit + _ROUNDING:
            yield LIMITS, f"`{name}` is {limit:g}, and the calls took {spent:g}"
    running = graph.machine.states_of(ChildrenState)
    for name, child in done.children:
        yield from check_limits(child, Graph(running[name].child))


def _revisions(done: Performance, graph: Graph) -> Iterator[Broken]:
    counters: dict[str, int] = {}
    for event in done.events:
        if not isinstance(event, Decided):
            continue
        counters |= dict.fromkeys(event.resets, 0)
        for counter in event.spends:
            counters[counter] = counters.get(counter, 0) + 1
            cap = cap_value(graph.caps[counter], done.state.input)
            if counters[counter] > cap:
                yield LIMITS, f"`{event.edge}` was taken with {cap} of {cap} revisions used up"


def check_bounds(done: Performance, bounds: Bounds) -> Iterator[Broken]:
    """Agent runs, calls and cost are within the bounds; a success takes at least the best."""
    calls = [call for call in done.company.made_by_family if call.is_billed]
    family = done.company.family
    works = {(id(one), call.work[0]) for one in family for call in one.made if call.is_billed}
    cost_usd = sum(call.cost_usd for call in calls)
    of_tools, most = _tool_calls(done), bounds.tool_calls.total if bounds.tool_calls else 0
    if most is not None and of_tools > most:
        yield BOUNDS, f"at most {most:g} calls of tools are known, and the run made {of_tools}"
    for name, spent, known in (
        ("agent runs", len(works), bounds.runs),
        ("calls", len(calls), bounds.calls),
        ("USD", cost_usd, bounds.cost),
    ):
        worst = known.worst.total
        if worst is not None and spent > worst + _ROUNDING:
            yield BOUNDS, f"at most {worst:g} {name} are known, and the run took {spent:g}"
        if name != "USD" and _is_plain_success(done) and known.best is not None:
            least = known.best.total or 0
            if spent < least:
                message = f"a success takes at least {least:g} {name}, and this one took {spent:g}"
                yield BOUNDS, message


def _tool_calls(done: Performance) -> int:
    """The number of tool calls that a run and its children made."""
    own = sum(isinstance(event, Intended) and event.role == "tool" for event in done.events)
    return own + sum(_tool_calls(child) for _, child in done.children)


def _is_plain_success(done: Performance) -> bool:
    finished = done.state.finished
    return finished is not None and finished.success and not done.state.then_used


def check_paid_once(done: Performance) -> Iterator[Broken]:
    """A call that was answered, or has failed, is not made again; each key is asked once."""
    settled = {event.key for event in done.events if isinstance(event, Replied | Failed)}
    keys = Counter(call.key for call in done.company.made)
    for key in (key for key, count in keys.items() if count > 1):
        yield NOT_TWICE, f"the call `{key}` was made {keys[key]} times"
    before: dict[tuple[str, int], str] = {}
    for call in done.company.made:
        if (earlier := before.get(call.work)) in settled:
            yield NOT_TWICE, f"`{earlier}` was settled, and `{call.key}` asks for the same again"
        before[call.work] = call.key
    doubts = Counter(event.key.split(":")[1] for event in done.events if isinstance(event, InDoubt))
    for (place, index), count in Counter(done.company.run_commands).items():
        if count > 1 + doubts[place]:
            yield NOT_TWICE, f"the command of `{place}` ran {count} times for visit {index + 1}"
    for _, child in done.children:
        yield from check_paid_once(child)
