"""`no-effect`: `fence` or `fields` of a text, where the artifact is data."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks.subject import Subject
from loopkit.document.problems import Problem

OF_TEXTS = {
    "fence": "it is found in fences anyway",
    "fields": "its fields are those of the schema",
}


def check_outputs(subject: Subject) -> Iterator[Problem]:
    """A warning for `fence` and `fields` where the agent's `schema` makes the answer data."""
    for name, state in subject.machine.states.items():
        agent, output = subject.machine.agent_at(name), state.output_at(name)
        if agent is None or agent.schema_ is None:
            continue
        for key, instead in OF_TEXTS.items():
            if getattr(output, key):
                message = f"the answer of `{state.asks}` is data, by its `schema`: {instead}"
                yield subject.no_effect(("states", name, "output", key), message)
