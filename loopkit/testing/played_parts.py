"""The played parts of a case: what agents, commands and people say in it, as a file has them."""

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
    """Everything that agents, commands and people say, in order."""

    replies: dict[tuple[str, str, int], list[Call]] = field(default_factory=dict)
    """By agent, place and how often it was asked there before: its calls."""
    results: dict[str, dict[int, Call]] = field(default_factory=dict)
    """By place and position."""
    answers: dict[str, list[Call]] = field(default_factory=dict)
    """By the state that asks."""
    children: dict[ChildName, PlayedParts] = field(default_factory=dict)
    """What is said in children."""

    def written(self, bill: Playbill) -> dict[str, Any]:
        """The parts of a case; what is empty is left out."""
        children = {
            child: said.written(bill.children[child[0]]) for child, said in self.children.items()
        }
        asked = by_agent((agent, place, said) for (agent, place, _), said in self.replies.items())
        parts = {
            "agents": {
                agent: places if len(bill.places(agent)) > 1 else next(iter(places.values()))
                for agent, places in asked.items()
            },
            # Where no result was asked for, a plain success stands.
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


def by_agent(asked: Iterable[tuple[str, str, list[Call]]]) -> dict[str, dict[str, list[Any]]]:
    """What each agent says at each place, in order; `asked` has agent, place and calls."""
    parts: dict[str, dict[str, list[Any]]] = {}
    for agent, place, calls in asked:
        short = [_plain(call, "reply") for call in calls]
        places = parts.setdefault(agent, {})
        places.setdefault(place, []).append(short[0] if len(short) == 1 else short)
    return parts


def _plain(call: Call, key: str) -> Any:
    """A call that is nothing but its text, or its choice, is written as that."""
    return call[key] if set(call) == {key} else call
