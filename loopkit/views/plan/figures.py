"""The figures of a plan as text: the number of calls of a run, and their cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from loopkit.agents.model.pricing import missing_prices
from loopkit.proof.bounds import Extreme, Range
from loopkit.text import columns, plural
from loopkit.views.amounts import LEAST_USD, without_noise
from loopkit.views.plan.planned import Plan

_ROUNDS = "fallback, re-ask and answer that calls a tool"
Row = tuple[str, str, str, str]


def calls_and_cost(plan: Plan) -> Iterator[str]:
    """The minimum and maximum of calls and cost, by state and by agent, with notes."""
    yield from figures(plan)
    yield ""
    yield from _notes(plan)


def figures(plan: Plan) -> Iterator[str]:
    """The minimum and maximum of calls and cost, without notes."""
    yield from columns(list(_rows(plan)), "<>>>")


def typical_cost(plan: Plan) -> Iterator[str]:
    """The typical cost of a run after each number of revisions, by state, with notes."""
    table = list(typical_figures(plan))
    if not table:
        return
    yield from table
    shorter = "".join(f"; {cap:,} of `{name}`" for name, cap in plan.shorter_answers.items())
    yield (
        "Estimated for the shortest way to a success, with no retry and no cache: answers of "
        f"{plural(plan.answer_tokens, 'token', ',')} (`--answer-tokens`{shorter}), findings of a "
        "quarter of that, prompts as far as they are known, four bytes to a token."
    )
    for name, number in plan.typical[0].children.items():
        times = plural(number, "time", ",")
        what = plan.children[name].plan.machine.name
        yield f"`{name}` is taken to run `{what}` {times}, each with the fewest revisions."
    for name, share in plan.from_cache.items():
        yield (
            f"What `{name}` is sent again counts in full; out of the provider's cache it costs "
            f"{share:.0%} of that."
        )
    if not plan.bounds.has_all_ways:
        yield "Runs with more revisions were not followed: there are too many."


def typical_figures(plan: Plan) -> Iterator[str]:
    """The typical cost of a run, without notes; empty if it is unknown."""
    shown = plan.typical
    states = list(dict.fromkeys(name for typical in plan.typical for name in typical.by_state))
    if not states or all(typical.usd is None for typical in plan.typical):
        # The missing prices are listed beside the maximum.
        return
    yield "What a run typically costs, by its revisions:"
    rows = [["  revisions", *(str(typical.revisions) for typical in shown)]]
    for name in states if len(states) > 1 else ():
        rows.append([f"  at {name}", *(usd(t.by_state.get(name, 0.0)) for t in shown)])
    rows.append(["  in all", *(usd(typical.usd) for typical in shown)])
    rows.append(["  calls", *(count(typical.calls) for typical in shown)])
    yield from columns(rows, "<" + ">" * len(shown))


def usd(number: float | None) -> str:
    """`$1.25`, `$0.0210`, `<$0.0001`, `unknown`."""
    if number is None:
        return "unknown"
    number = without_noise(number)
    if 0 < number < LEAST_USD:
        return f"<${LEAST_USD:.4f}"
    return f"${number:,.2f}" if number >= 1 or number == 0 else f"${number:.4f}"


def count(number: float | None) -> str:
    return "unknown" if number is None else f"{int(number):,}"


def _rows(plan: Plan) -> Iterator[Row]:
    bounds = plan.bounds
    yield "", "fewest", "most", "may cost"
    yield "agent runs", *_range(bounds.runs, count), ""
    cost = bounds.cost.worst
    yield "calls", *_range(bounds.calls, count), _range_end(cost, "at most", usd)
    calls = bounds.calls.worst
    yield from _by("at", calls.by_state, cost.by_state)
    yield from _by("of", calls.by_agent, cost.by_agent)
    if bounds.tool_calls is not None:
        yield "tool calls", "0", _range_end(bounds.tool_calls, "at most", count), ""


def _range(found: Range, as_text: Callable[[float | None], str]) -> tuple[str, str]:
    least = "never" if found.best is None else _range_end(found.best, "at least", as_text)
    return least, _range_end(found.worst, "at most", as_text)


def _range_end(extreme: Extreme, how: str, as_text: Callable[[float | None], str]) -> str:
    """One end of a range; if it is not exact, between the known and the possible value."""
    ends = [extreme.total] if extreme.known is None else sorted({extreme.known, extreme.total or 0})
    texts = list(dict.fromkeys(as_text(end) for end in ends))
    if len(texts) > 1:
        return f"between {texts[0]} and {texts[1]}"
    return texts[0] if extreme.is_exact or extreme.known is not None else f"{how} {texts[0]}"


def _by(word: str, calls: Mapping[str, float], cost: Mapping[str, float]) -> Iterator[Row]:
    if len(calls) > 1:
        for name, number in calls.items():
            yield f"  {word} {name}", "", count(number), usd(cost[name]) if name in cost else ""


def _notes(plan: Plan) -> Iterator[str]:
    rounds = "fallback and re-ask" if plan.bounds.tool_calls is None else _ROUNDS
    yield (
        "Agent runs are authors and judges at work; the most calls include every retry, "
        f"{rounds}. A resume renews the tries, and a killed process adds one for each "
        "call that is open."
    )
    yield (
        "May cost: all of these calls at the highest price, each with the model's whole window as "
        f"input and the longest answer as output. {_limit(plan)}"
    )
    yield from unknowns(plan)


def unknowns(plan: Plan) -> Iterator[str]:
    """The assumptions about the models of a machine, and what is unknown about them."""
    for model, window in plan.assumed_windows.items():
        yield f"The window of `{model}` is not known; {window:,} tokens are assumed."
    for model, cap in plan.answer_caps.items():
        tokens = plural(cap, "token", ",")
        yield f"`{model}` is asked for {tokens} at most, because the run has a limit."
    for name, agent in plan.machine.agents.items():
        for who, what, remedy in missing_prices(name, agent, is_limited=plan.is_limited):
            yield f"The cost is not known: {who} {what}; {remedy}."


def _limit(plan: Plan) -> str:
    limit, worst = plan.machine.limits.cost_usd, plan.bounds.cost.worst.total
    if limit is None:
        return "No `cost_usd` limits it."
    return f"`cost_usd` ends a run at {usd(limit)}." if worst is None or worst > limit else ""
