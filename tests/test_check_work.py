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


JUDGED = "agents: {w: {model: openai/gpt-5-mini}, j: {model: openai/gpt-5}}"
SHARED = "limits: {budgets: {shared: 2}, total_revisions: 2}"


def drafts(count: int) -> str:
    return f"[{', '.join(f'd{at}' for at in range(count))}]"


def after(number: int, count: int, last: str = "done") -> str:
    return f"d{number + 1}" if number + 1 < count else last


def escalations(count: int) -> str:
    """Phases that all escalate to one person, who sends each run on to the phase after its own."""
    states, exits = [], []
    for at in range(count):
        onward = after(at, count)
        states += [
            f"d{at}: {{agent: w, prompt: Write., next: c{at}}}",
            f"c{at}: {{validate: d{at}, by: [{{not_matches: Draft}}], "
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


def phases_with_origins(count: int) -> str:
    """Phases that go back to this or an earlier one, and share a budget and a total."""
    judge = "{judge: j, rubric: [It is good.]}"
    states = []
    for at in range(count):
        earlier = ", ".join(f"d{number}" for number in range(max(0, at - 2), at + 1))
        states += [
            f"d{at}: {{agent: w, prompt: Write., next: c{at}}}",
            f"c{at}: {{validate: d{at}, by: [{judge}], "
            f"transitions: [{{guard: valid, target: {after(at, count)}}}, "
            f"{{revise: {{origin: [{earlier}]}}, budget: shared}}, {{target: failed}}]}}",
        ]
    return machine(states, JUDGED, f"origins: {drafts(count)}", SHARED)


def one_judge_of_many_origins(count: int) -> str:
    """Drafts in a row, with one validate state that sends each finding to its origin."""
    states = [
        f"d{at}: {{agent: w, on_error: {{content: failed}}, prompt: Write., "
        f"next: {after(at, count, 'check')}}}"
        for at in range(count)
    ]
    states.append(
        f"check: {{validate: d{count - 1}, by: [{{judge: j, rubric: [It is good.]}}], "
        f"transitions: [{{guard: valid, target: done}}, "
        f"{{revise: {{origin: {drafts(count)}}}, budget: shared}}, {{target: failed}}]}}"
    )
    return machine(states, JUDGED, f"origins: {drafts(count)}", SHARED)


def choices_that_revise(count: int) -> str:
    """A person who may ask for one of many changes, all of one budget."""
    names = ", ".join(f"change{at}" for at in range(count))
    exits = (
        f"{{guard: choice == 'change{at}', revise: draft, budget: shared, feedback: Change {at}.}}"
        for at in range(count)
    )
    states = [
        "draft: {agent: w, on_error: {content: failed}, prompt: Write., next: ask}",
        f"ask: {{human: Is it good?, choices: [good, {names}], "
        f"transitions: [{{guard: choice == 'good', target: done}}, {', '.join(exits)}, "
        "{target: failed}]}",
    ]
    return machine(states, WRITER, SHARED)


SHAPES: Sequence[Callable[[int], str]] = (
    escalations,
    cases_of_an_input,
    phases_with_origins,
    one_judge_of_many_origins,
    choices_that_revise,
)


@pytest.mark.parametrize("count", [40, pytest.param(80, marks=pytest.mark.long)])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_a_machine_twice_as_large_takes_about_twice_the_work(
    shape: Callable[[int], str], count: int
) -> None:
    calls(shape(5))
    assert calls(shape(2 * count)) < 2.4 * calls(shape(count))
