"""A plan as text."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from loopkit.language import Agent, EachState, Limits, ModelAgent
from loopkit.machine.graph import cap_value
from loopkit.proof.bounds import Bounds, Extreme, Taken
from loopkit.proof.bounds.result import values_in_words
from loopkit.text import columns, indent_lines, one_line, plural, printable
from loopkit.views.plan.figures import (
    calls_and_cost,
    count,
    figures,
    typical_cost,
    typical_figures,
    unknowns,
    usd,
)
from loopkit.views.plan.planned import Asking, Plan

LONGEST_PROMPT = 4_000
"""Characters of a first prompt that are shown."""


def plan_text(plan: Plan, inputs: Mapping[str, object]) -> str:
    """The whole plan, for a person to read before a run costs anything."""
    parts = [
        "\n".join(_head(plan)),
        "\n".join(calls_and_cost(plan)),
        "\n".join(typical_cost(plan)),
        "\n".join(_expectation(plan.bounds)),
        *_work(plan, inputs),
    ]
    return "\n\n".join(part for part in parts if part)


def _work(plan: Plan, inputs: Mapping[str, object]) -> Iterator[str]:
    """The path with the most calls, the limits, the agents, the commands, and the child runs."""
    yield "\n".join(_worst_path(plan.bounds))
    yield "\n".join(_limits(plan.machine.limits, inputs))
    yield "\n".join(_agents(plan))
    yield "\n".join(_commands(plan))
    # The alternative agents of a state get the same prompt.
    yield "\n\n".join(dict.fromkeys(_prompts(plan)))
    by_plan: dict[int, list[str]] = {}
    for name, child in plan.children.items():
        by_plan.setdefault(id(child.plan), []).append(name)
    for names in by_plan.values():
        yield _child(plan, names)


def _child(plan: Plan, names: Sequence[str]) -> str:
    """The plan of the runs that some states start."""
    child = plan.children[names[0]].plan
    parts = [
        "\n".join([*_head(child), *figures(child), *unknowns(child)]),
        "\n".join(typical_figures(child)),
        *_work(child, {}),
    ]
    body = "\n\n".join(part for part in parts if part)
    heading = "\n".join(_child_heading(plan, name) for name in names)
    return f"{heading}\n{indent_lines(body, '  ')}"


def _child_heading(plan: Plan, name: str) -> str:
    child, state = plan.children[name], plan.machine.states[name]
    if not isinstance(state, EachState):
        return f"`{name}` runs {state.about}. Each run:"
    ends = dict.fromkeys(f"{end:,}" for end in (child.fewest, child.most))
    at_once = f", up to {state.parallel:,} at once" if state.parallel > 1 else ""
    times = "once" if [*ends] == ["1"] else f"{' to '.join(ends)} times"
    return f"`{name}` runs {state.about}, {times}{at_once}. Each run:"


def _head(plan: Plan) -> Iterator[str]:
    machine, bounds = plan.machine, plan.bounds
    yield f"{machine.name}: {one_line(machine.description, 200)}".rstrip(": ")
    if bounds.configurations is None:
        yield "too many configurations to explore all; every run ends; inexact figures say so"
    else:
        yield (
            f"{plural(len(machine.states), 'state')}, {bounds.configurations:,} configurations, "
            f"{bounds.paths:,} paths; each of them ends"
        )


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
    is_known = "" if worst.is_exact else " that is known"
    yield f"The path{is_known} with the most calls ({count(worst.known)}):"
    yield from (f"  {line}" for line in _steps(bounds.calls.worst))


def _steps(extreme: Extreme) -> Iterator[str]:
    if extreme.inputs:
        yield f"with {values_in_words(extreme.inputs)}"
    for number, step in enumerate(extreme.way, 1):
        facts = f" ({values_in_words(step.facts)})" if step.facts else ""
        yield f"{number}. {step.state}{_event(step)}{facts}"


def _event(step: Taken) -> str:
    if step.event == "done":
        return ": kept" if step.is_spared else ""
    return f": {step.event}" + (" error" if step.event != "limit" else " reached")


def _limits(limits: Limits, inputs: Mapping[str, object]) -> Iterator[str]:
    values = {name: getattr(limits, name) for name in limits.model_fields_set}
    written = {name: values[name] for name in type(limits).model_fields if values.get(name)}
    if written:
        yield "Limits:"
    for name, value in written.items():
        yield f"  {name}: {_bound(value, inputs)}"


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
    rows = [
        (
            "" if asking.fallback else f"  {asking.place}",
            _agent(asking),
            _who(asking, agents[asking.agent]),
            "nothing" if asking.call_usd == 0 else usd(asking.call_usd),
        )
        for asking in plan.asked
    ]
    yield from columns(rows, "<<<>")


def _agent(asking: Asking) -> str:
    if asking.fallback:
        return f"fallback {asking.fallback}"
    return f"{asking.agent}, up to {asking.times} times" if asking.times > 1 else asking.agent


def _who(asking: Asking, agent: Agent) -> str:
    """A ladder of models, or a program with its arguments."""
    if not agent.is_called:
        return "from outside"
    if isinstance(agent, ModelAgent):
        return one_line(" → ".join(asking.who), 60)
    return one_line(" ".join(asking.who), 40)


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
