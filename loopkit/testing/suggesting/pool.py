"""What the cases of a file say already: words of a person, which are tried first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from loopkit.scenario import Attempts, Case, Scenario


@dataclass
class Pool:
    """Replies by agent, and inputs by name."""

    replies: dict[str, list[str]] = field(default_factory=dict)
    inputs: dict[str, list[Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, scenario: Scenario, inputs: Mapping[str, Mapping[str, Any]]) -> Pool:
        """All that a scenario and its cases have; `inputs` are the complete ones, by case."""
        pool = cls()
        pool._take(scenario)
        for case in (scenario.cases or {}).values():
            pool._take(case)
        for given in inputs.values():
            for name, value in given.items():
                known = pool.inputs.setdefault(name, [])
                if value not in known:
                    known.append(value)
        return pool

    def _take(self, parts: Scenario | Case) -> None:
        for agent, role in parts.agents.items():
            known = self.replies.setdefault(agent, [])
            known += [text for text in _texts(role) if text not in known]


def _texts(role: Attempts | Mapping[str, Attempts]) -> Iterator[str]:
    attempts = role if isinstance(role, tuple) else [a for some in role.values() for a in some]
    for calls in attempts:
        for call in calls:
            if call.fault is None and not call.cut_off and call.text:
                yield call.text
