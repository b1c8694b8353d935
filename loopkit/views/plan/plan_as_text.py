"""A plan as text: the number of calls of a run and their cost, then how that comes about."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from loopkit.agents.model.pricing import missing_prices
from loopkit.language.agents import Agent
from loopkit.language.agents.model import ModelAgent
from loopkit.language.machine import Machine
from loopkit.language.states.each import EachState
from loopkit.machine.graph import cap_value
from loopkit.proof.bounds.result import Bounds, Extreme, Range, Taken, values_in_words
from loopkit.proof.outcomes.table import revisions_in_words
from loopkit.text import columns, indent_lines, one_line, plural, printable
from loopkit.views.amounts import LEAST_USD, without_noise
from loopkit.views.plan.planned import Asking, Plan

LONGEST_PROMPT = 4_000
"""Characters of a first prompt that are shown."""


def plan_text(plan: Plan, inputs: Mapping[str, object], *, has_paths: bool = False) -> str:
    return _paragraphs(*_parts(plan, inputs, has_paths), *_children(plan, has_paths))


def _paragraphs(*parts: Iterable[str]) -> str:
    return "\n\n".join(filter(None, map("\n".join, parts)))


def _parts(
    plan: Plan, inputs: Mapping[str, object], has_paths: bool, *, is_child: bool = False
) -> Iterator[Iterable[str]]:
    yield _head(plan)
    yield typical_cost(plan)
    yield () if is_child else _held(plan)
    yield ["The most that could be:", *columns(list(_rows(plan)), "<>>>")]
    yield unknowns(plan)
    yield () if is_child else _legend(plan)
    yield _expectation(plan.bounds)
    yield _explored(plan) if has_paths else ()
    yield _worst_path(plan.bounds) if has_paths else ()
    yield _limits(plan.machine, inputs)
    yield _agents(plan)
    yield _commands(plan)
    # The alternative agents of a state get the same prompt.
    yield from ([prompt] for prompt in dict.fromkeys(_prompts(plan)))


def _children(plan: Plan, has_paths: bool) -> Iterator[Iterable[str]]:
    by_plan: dict[int, list[str]] = {}
    for name, child in plan.children.items():
        by_plan.setdefault(id(child.plan), []).append(name)
    for names in by_plan.values():
        # The plan of the runs that these states start.
        inner = plan.children[names[0]].plan
        parts = _parts(inner, {}, has_paths, is_child=True)
        body = _paragraphs(*parts, *_children(inner, has_paths))
        yield [*(_child_heading(plan, name) for name in names), indent_lines(body, "  ")]


def _child_heading(plan: Plan, name: str) -> str:
    child, state = plan.children[name], plan.machine.states[name]
    if not isinstance(state, EachState):
        return f"`{name}` runs {state.about}. Each run:"
    ends = dict.fromkeys(f"{end:,}" for end in (child.fewest, child.most))
    at_once = f", up to {state.parallel:,} at once" if state.parallel > 1 else ""
    times = "once" if [*ends] == ["1"] else f"{' to '.join(ends)} times"
    return f"`{name}` runs {state.about}, {times}{at_once}. Each run:"


def _head(plan: Plan) -> Iterator[str]:
    machine = plan.machine
    yield f"{machine.name}: {one_line(machine.description, 200)}".rstrip(": ")


def _explored(plan: Plan) -> Iterator[str]:
    bounds, states = plan.bounds, plural(len(plan.machine.states), "state")
    if bounds.configurations is None:
        yield f"{states}, too many configurations to explore all; every run ends"
    else:
        yield f"{states}, {bounds.configurations:,} configurations; every run ends"


def _expectation(bounds: Bounds) -> Iterator[str]:
    means = bounds.expected
    if means is None:
        return
    yield "Expected, under the given probabilities and at the typical cost of each call:"
    counted = f"  {float(means.runs):.2f} agent runs, {float(means.calls):.2f} calls"
    yield f"{counted}, {_mean(means.cost)}"
    if len(means.cost_by_state) > 1:
        for name, cost in means.cost_by_state.items():
            yield f"  at {name}: {_mean(cost)}"
    for outcome, share in means.outcomes.items():
        yield f"  {outcome}: {float(share):.1%}"
    if means.left_out:
        yield f"  {float(means.left_out):.2%} of all runs are left out, so the means are too low"


def _mean(cost: Fraction | None) -> str:
    return usd(None if cost is None else float(cost))


def _worst_path(bounds: Bounds) -> Iterator[str]:
    worst = bounds.calls.worst
    if not worst.way or not worst.known:
        return
    yield f"The path with the most calls ({count(worst.known)}):"
    if worst.inputs:
        yield f"  with {values_in_words(worst.inputs)}"
    for number, step in enumerate(worst.way, 1):
        facts = f" ({values_in_words(step.facts)})" if step.facts else ""
        yield f"  {number}. {step.state}{_event(step)}{facts}"


def _event(step: Taken) -> str:
    if step.event == "done":
        return ": kept" if step.is_spared else ""
    return f": {step.event}" + (" error" if step.event != "limit" else " reached")


def _limits(machine: Machine, inputs: Mapping[str, object]) -> Iterator[str]:
    limits = machine.limits
    values = {name: getattr(limits, name) for name in limits.model_fields_set}
    written = {name: values[name] for name in type(limits).model_fields if values.get(name)}
    if written:
        yield "Limits:"
    for name, value in written.items():
        yield f"  {name}: {_bound(value, inputs)}"
    yield from revisions_in_words(machine, inputs)


def _bound(value: object, inputs: Mapping[str, object]) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_bound(inner, inputs)}" for name, inner in value.items())
    if isinstance(value, str) and value.startswith("input."):
        return f"{value}, here {cap_value(value, inputs)}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _agents(plan: Plan) -> Iterator[str]:
    if not plan.asked:
        return
    yield "Who is asked, and what one call may cost:"
    agents = plan.machine.agents
    rows = []
    for asking in plan.asked:
        place, name = f"  {asking.place}", asking.agent
        if asking.fallback:
            place, name = "", f"fallback {asking.fallback}"
        elif asking.times > 1:
            name += f", up to {asking.times} times"
        most = "nothing" if asking.call_usd == 0 else most_usd(asking.call_usd, asking.missing)
        rows.append((place, name, _who(asking, agents[asking.agent]), most))
    yield from columns(rows, "<<<>")


def _who(asking: Asking, agent: Agent) -> str:
    if not agent.is_called:
        return "from outside"
    between, width = (" → ", 60) if isinstance(agent, ModelAgent) else (" ", 40)
    return one_line(between.join(asking.who), width)


def _commands(plan: Plan) -> Iterator[str]:
    if not plan.commands:
        return
    yield "Commands that can run:"
    for command in plan.commands:
        line = shlex.join(command.argv) if command.is_filled else " ".join(command.argv)
        yield f"  {command.place}: {one_line(line, 200)}"


def _prompts(plan: Plan) -> Iterator[str]:
    for asking in plan.asked:
        if asking.prompt is not None:
            text = printable(asking.prompt).strip("\n")
            rest = len(text) - LONGEST_PROMPT
            more = f"\n  … and {rest:,} characters more" if rest > 0 else ""
            body = indent_lines(text[:LONGEST_PROMPT], "  ")
            yield f"First prompt of {asking.place}:\n{body}{more}"


Row = tuple[str, str, str, str]
PRICES = frozenset(("price", "price_per_run"))


def typical_cost(plan: Plan) -> Iterator[str]:
    """The typical cost of a run after each number of revisions, by state, and what is assumed."""
    shown = plan.typical
    states = list(dict.fromkeys(name for typical in shown for name in typical.by_state))
    if not states:
        return
    rows = [["  revisions", *(str(typical.revisions) for typical in shown)]]
    rows.append(["  calls", *(count(typical.calls) for typical in shown)])
    if all(typical.usd is None for typical in shown):
        prices = " and ".join(f"`{key}`" for key in plan.missing if key in PRICES)
        without = f" without {prices}" if prices else ""
        yield f"What a run typically costs is not known{without}; its calls, by its revisions:"
        yield from columns(rows, "<" + ">" * len(shown))
        return
    yield "What a run typically costs, by its revisions:"
    rows.insert(1, ["  in all", *(usd(typical.usd) for typical in shown)])
    for name in states if len(states) > 1 else ():
        rows.append([f"  at {name}", *(usd(t.by_state.get(name, 0.0)) for t in shown)])
    yield from columns(rows, "<" + ">" * len(shown))
    shorter = "".join(f"; {cap:,} of `{name}`" for name, cap in plan.shorter_answers.items())
    yield (
        f"Assumed: answers of {plural(plan.answer_tokens, 'token', ',')} "
        f"(`--answer-tokens`{shorter}), findings of a quarter of that, prompts as far as they are "
        "known, four bytes to a token."
    )
    for name, number in shown[0].children.items():
        times = plural(number, "time", ",")
        what = plan.children[name].plan.machine.name
        yield f"`{name}` is taken to run `{what}` {times}, each with the fewest revisions."
    if not plan.bounds.has_all_ways:
        yield "Runs with more revisions were not followed: there are too many."


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


def most_usd(number: float | None, missing: Sequence[str]) -> str:
    """The amount; where nothing bounds it, the keys that would."""
    return ", ".join(missing) if number is None and missing else usd(number)


def _rows(plan: Plan) -> Iterator[Row]:
    bounds, cost = plan.bounds, plan.bounds.cost.worst
    yield "", "fewest", "most", "may cost"
    yield "  agent runs", *_range(bounds.runs), ""
    missing = plan.missing
    most = plan.held.cost_usd if cost.total is None and not missing else cost.total
    how = "at most " if cost.total is not None and not cost.is_exact else ""
    yield "  calls", *_range(bounds.calls), how + most_usd(most, missing)
    calls = bounds.calls.worst
    yield from _by("at", calls.by_state, cost.by_state)
    yield from _by("of", calls.by_agent, cost.by_agent)
    if bounds.tool_calls is not None:
        yield "  tool calls", "0", _range_end(bounds.tool_calls, "at most"), ""


def _range(found: Range) -> tuple[str, str]:
    least = "never" if found.best is None else _range_end(found.best, "at least")
    return least, _range_end(found.worst, "at most")


def _range_end(extreme: Extreme, how: str) -> str:
    text = count(extreme.total)
    return text if extreme.is_exact else f"{how} {text}"


def _by(word: str, calls: Mapping[str, float], cost: Mapping[str, float]) -> Iterator[Row]:
    if len(calls) > 1:
        for name, number in calls.items():
            yield f"    {word} {name}", "", count(number), usd(cost[name]) if name in cost else ""


def _held(plan: Plan) -> Iterator[str]:
    """The limits that end a run, each with what it then costs at most."""
    limits, worst = plan.machine.limits, plan.bounds.cost.worst.total
    if limits.cost_usd is not None:
        is_above = worst is not None and worst <= limits.cost_usd
        more = ", which is above the most that could be" if is_above else ""
        yield f"`cost_usd` ends a run at {usd(limits.cost_usd)}{more}."
    if limits.tokens is not None:
        more = "" if plan.tokens_usd is None else f", which cost at most {usd(plan.tokens_usd)}"
        yield f"`tokens` ends a run at {plural(limits.tokens, 'token', ',')}{more}."
    if limits.agent_calls is not None:
        yield f"`agent_calls` ends a run at {plural(limits.agent_calls, 'call', ',')}."
    is_open = limits.tokens is limits.agent_calls is limits.cost_usd is None
    if is_open and plan.asked and worst != 0 and not PRICES & {*plan.missing}:
        yield "No limit of its cost holds a run; `cost_usd` in `limits:` or `--max-cost` would."


def unknowns(plan: Plan) -> Iterator[str]:
    endless = (asking.agent for asking in plan.asked if "limits.tokens" in asking.missing)
    for name in dict.fromkeys(endless):
        yield (
            f"Nothing bounds a prompt of `{name}`, because the window of its model is not known; "
            "add `tokens: 1000000` to `limits:`."
        )
    for model, cap in plan.answer_caps.items():
        tokens = plural(cap, "token", ",")
        yield f"`{model}` is asked for {tokens} at most, because the run has a limit."
    for name, agent in plan.machine.agents.items():
        for who, what, remedy in missing_prices(name, agent, is_limited=plan.held.is_limited):
            yield f"The cost is not known: {who} {what}; {remedy}."


def _legend(plan: Plan) -> Iterator[str]:
    bounds = plan.bounds
    rounds = "fallback, re-ask and answer that calls a tool"
    if bounds.tool_calls is None:
        rounds = "fallback and re-ask"
    yield "Legend:"
    yield "- typically: an estimate, the shortest way to a success with a call and no retry"
    yield "- agent runs: authors and judges at work; a call is one request to an agent"
    yield "- fewest: on the shortest way to a success"
    yield (
        f"- most: with every retry, {rounds}, whatever the limits. A resume renews the tries, and "
        "a killed process adds one for each call that is open."
    )
    yield (
        "- may cost: all of these calls at the highest price, each with the model's whole window "
        "as input and the longest answer as output; or the key that would bound it"
    )
    ends = (bounds.runs, bounds.calls, bounds.cost)
    if not all(end.worst.is_exact and (end.best is None or end.best.is_exact) for end in ends):
        yield "- at least, at most: no run may take exactly this"
