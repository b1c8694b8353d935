"""`check` of machines twice as large, which takes about twice the work, counted in calls."""

from __future__ import annotations

import cProfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from loopkit.checks import check
from loopkit.language.load import load_text

HERE = Path(__file__).parent


def machine(states: Sequence[str], *keys: str) -> str:
    """A machine of these states and its two ends."""
    lines = ["loopkit: 1", *keys, "states:", *(f"  {state}" for state in states)]
    return "\n".join([*lines, "  done: {final: success}", "  failed: {final: failure}", ""])


def calls(text: str) -> int:
    """How many functions are called to check a machine."""
    loaded = load_text(text, "m.yaml", HERE)
    with cProfile.Profile() as profile:
        check(loaded)
    return sum(entry.callcount for entry in profile.getstats())


WRITER = "agents: {w: {model: openai/gpt-5-mini}}"


def after(number: int, count: int, last: str = "done") -> str:
    return f"d{number + 1}" if number + 1 < count else last


def escalations(count: int) -> str:
    """Phases that all escalate to one person, who sends each run on to the phase after its own."""
    states, exits = [], []
    for at in range(count):
        onward = after(at, count)
        states += [
            f"d{at}: {{agent: w, prompt: Write., next: c{at}}}",
            f"c{at}: {{validate: d{at}, by: [{{not_matches: TODO}}], "
            f"transitions: [{{guard: valid, target: {onward}}}, {{target: ask}}]}}",
        ]
        guard = f"came_from == 'c{at}' and choice == 'go'"
        exits.append(f'{{guard: "{guard}", target: {onward}}}')
    stop = "{guard: choice == 'stop', target: failed}"
    states.append(
        f"ask: {{human: Go on?, choices: [go, stop], "
        f"transitions: [{', '.join([stop, *exits])}, {{target: failed}}]}}"
    )
    return machine(states, WRITER)


def cases_of_an_input(count: int) -> str:
    """One choice between the values of an input."""
    exits = (f"{{guard: input.kind == {at}, target: failed}}" for at in range(count))
    start = f"start: {{transitions: [{', '.join(exits)}, {{target: done}}]}}"
    return machine([start], "input: {kind: int}")


SHAPES: Sequence[Callable[[int], str]] = (escalations, cases_of_an_input)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_a_machine_twice_as_large_takes_about_twice_the_work(shape: Callable[[int], str]) -> None:
    calls(shape(5))
    assert calls(shape(160)) < 2.4 * calls(shape(80))
