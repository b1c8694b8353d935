"""The played parts of a case: replies, results and answers, as a file has them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from loopkit.scenario import CHILDREN
from loopkit.testing.by_state import ChildName, by_state
from loopkit.testing.playbill import Playbill

Call = dict[str, Any]
"""A call, a command's result or an answer, as a scenario file writes it."""


@dataclass
class PlayedParts:
    """The replies, results and answers of agents, commands and people, in order."""

    replies: dict[tuple[str, str, int], list[Call]] = field(default_factory=dict)
    """The calls by agent, place and how often the agent was asked there before."""
    results: dict[str, dict[int, Call]] = field(default_factory=dict)
    """The results by place and position."""
    answers: dict[str, list[Call]] = field(default_factory=dict)
    """The answers by the state that asks."""
    children: dict[ChildName, PlayedParts] = field(default_factory=dict)
    """The parts of children."""

    def as_case_parts(self, bill: Playbill) -> dict[str, Any]:
        """The parts as those of a case, without empty ones."""
        children = {
            child: said.as_case_parts(bill.children[child[0]])
            for child, said in self.children.items()
        }
        asked = by_agent((agent, place, said) for (agent, place, _), said in self.replies.items())
        parts = {
            "agents": {
                agent: places if len(bill.places(agent)) > 1 else next(iter(places.values()))
                for agent, places in asked.items()
            },
            # A result that was never needed is a plain success.
            "commands": {
                place: [results.get(index, {}) for index in range(max(results) + 1)]
                for place, results in self.results.items()
            },
            "answers": {
                state: [_plain(answer, "choice") for answer in answers]
                for state, answers in self.answers.items()
            },
            CHILDREN: by_state(bill.machine, children),
        }
        return {part: said for part, said in parts.items() if said}


def by_agent(replies: Iterable[tuple[str, str, list[Call]]]) -> dict[str, dict[str, list[Any]]]:
    """The replies of each agent at each place, in order, from agent, place and calls of each."""
    parts: dict[str, dict[str, list[Any]]] = {}
    for agent, place, calls in replies:
        short = [_plain(call, "reply") for call in calls]
        places = parts.setdefault(agent, {})
        places.setdefault(place, []).append(short[0] if len(short) == 1 else short)
    return parts


def _plain(call: Call, key: str) -> Any:
    """The call; if it has only a text, or a choice, that alone."""
    return call[key] if set(call) == {key} else call
