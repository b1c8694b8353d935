"""What `check` asks of a large machine is settled without a look at all its configurations."""

from __future__ import annotations

import pytest

from loopkit.language.load import load_text
from loopkit.proof.bounds.exploring import explore
from loopkit.proof.bounds.result import Bounds
from loopkit.proof.outcomes.analysis import Analysis
from tests.support import ROOT


def phases(count: int, total: int, more: str = "", cap: int = 3) -> str:
    """Phases in a row, each with a review that sends back to any phase before it."""
    origins = [f"phase{number}" for number in range(count)]
    lines = [
        "loopkit: 1",
        f"origins: [{', '.join(origins)}]",
        f"limits: {{total_revisions: {total}}}",
        "agents: {writer: {model: openai/gpt-5-mini}, critic: {model: openai/gpt-5-mini}}",
        "states:",
    ]
    for number, origin in enumerate(origins):
        onward = f"phase{number + 1}" if number + 1 < count else "done"
        known = ", ".join(origins[: number + 1])
        lines += [
            f"  {origin}: {{agent: writer, prompt: Write., next: review{number}}}",
            f"  review{number}:",
            f"    validate: {origin}",
            "    by: [{judge: critic, rubric: [It is right.]}]",
            "    transitions:",
            f"      - {{guard: valid, target: {onward}}}",
            *([f"      - {more}"] if number == count - 1 and more else []),
            f"      - {{revise: {{origin: [{known}]}}, max: {cap if number == count - 1 else 3}}}",
            "      - {target: failed}",
        ]
    return "\n".join([*lines, "  done: {final: success}", "  failed: {final: failure}", ""])


def soon(text: str) -> tuple[Bounds, Bounds]:
    """What is known without extremes, and what a look at everything shows."""
    machine = load_text(text, "large.yaml", ROOT).machine
    known = explore(Analysis.of_machine(machine), measures=())
    return known, explore(Analysis.of_machine(machine), measures=("runs",))


@pytest.mark.parametrize(
    ("more", "cap"),
    [("", 3), ("{guard: valid and error_count > 3, target: failed}", 3), ("", 9)],
    ids=["nothing is odd", "a guard never holds", "caps never bind"],
)
def test_it_is_what_a_look_at_everything_shows(more: str, cap: int) -> None:
    known, everything = soon(phases(4, 8, more, cap))
    assert everything.configurations is not None
    assert everything.configurations > 10_000
    assert (known.untaken, known.unfilled) == (everything.untaken, everything.unfilled)
    assert [found.state for found in known.stuck] == [found.state for found in everything.stuck]


@pytest.mark.parametrize(("count", "total"), [(4, 8), (9, 12)])
def test_a_machine_in_which_nothing_is_odd_is_settled_soon(count: int, total: int) -> None:
    machine = load_text(phases(count, total), "large.yaml", ROOT).machine
    known = explore(Analysis.of_machine(machine), measures=())
    assert known.configurations is None
    assert (known.untaken, known.unfilled, known.stuck) == ((), {}, ())
