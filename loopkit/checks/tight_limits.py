"""`no-call-fits`: a limit that leaves no room for a single call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil

from loopkit.checks.subject import Subject
from loopkit.document.problems import Problem
from loopkit.language import Agent, ModelAgent
from loopkit.language.agents.agent import AgentBase
from loopkit.machine.asked import agents_called

CODE = "no-call-fits"

DEAREST_TOKEN = 150 / 1_000_000
"""The maximum price of a token in USD, for nearly every model."""
SHORTEST_ANSWER = 20_000
"""More than the shortest one with what any effort lets a model think."""
SHOWN = {
    "agent_calls": "{:,.0f} call",
    "tool_calls": "{:,.0f} call",
    "tokens": "{:,.0f} tokens",
    "cost_usd": "${:.4f}",
}
OF_NUMBERS = ("agent_calls", "tool_calls")
"""The limits that count calls, whatever these take."""


def check_tight_limits(subject: Subject, options: Mapping[str, str] = {}) -> Iterator[Problem]:
    """A warning for each limit and agent, none of whose calls can be made under it.

    A limit that an option of the command line sets is told of by that, as nobody wrote it.
    """
    limits = subject.machine.limits
    written = {name: getattr(limits, name) for name in SHOWN}
    family = agents_called(subject.machine) if any(n is not None for n in written.values()) else {}
    for name, shown in SHOWN.items():
        limit = written[name]
        for asked, agent in family.items() if limit is not None else ():
            least = _least(agent, name, limit)
            if least is None or least <= limit:
                continue
            least = ceil(least * 10_000) / 10_000
            takes = shown.format(least)
            option = options.get(name)
            where = "this limit" if option is None else f"`{option} {_plain(limit)}`"
            enough = f"{name}:" if option is None else option
            whose = f"`{asked}`" if name != "tool_calls" else f"a tool of `{asked}`"
            message = f"no call of {whose} fits into {where}: the smallest may take {takes}"
            remedy = f"raise it to `{enough} {_plain(least)}` or more"
            if name not in OF_NUMBERS:
                remedy += ", or give the agent a lower `max_tokens` or a cheaper model"
            if option is not None:
                yield Problem(CODE, message, help=remedy, severity="warning")
                continue
            path = ("limits", name)
            yield subject.source.problem(path, CODE, message, help=remedy, severity="warning")


def _plain(number: float) -> str:
    return f"{number:.6f}".rstrip("0").rstrip(".")


def _is_roomy(agent: AgentBase, name: str, limit: float) -> bool:
    """Whether a call of any model fits."""
    if not isinstance(agent, ModelAgent) or agent.price is not None:
        return False
    caps = [agent.params.get(cap) for cap in ("max_tokens", "max_completion_tokens")]
    longest = max([cap for cap in caps if isinstance(cap, int)], default=SHORTEST_ANSWER)
    tokens = longest + 2 * len(agent.system_prompt.encode()) + 100
    return limit >= (tokens if name == "tokens" else tokens * DEAREST_TOKEN)


def _least(agent: Agent, name: str, limit: float) -> float | None:
    """How much of a limit an agent's smallest call may take; None if it is unknown."""
    if name == "agent_calls":
        return 1
    if name == "tool_calls":
        return 1 if agent.most_tool_calls else None
    if any(_is_roomy(asked, name, limit) for asked in agent.in_turn):
        return None
    found = [amount for asked in agent.in_turn for amount in _amounts(asked, name)]
    known = [amount for amount in found if amount is not None]
    return min(known) if len(known) == len(found) else None


def _amounts(asked: AgentBase, name: str) -> list[float | None]:
    if not isinstance(asked, ModelAgent):
        return [asked.call_usd if name == "cost_usd" else 0]
    # Only a low limit needs the table of prices, which is long.
    from loopkit.agents.model.pricing import least_call  # noqa: PLC0415

    return [getattr(least_call(asked, model), name) for model in asked.model]
