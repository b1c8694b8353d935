"""Defects that people make, each put into a sound machine: found once, in its place, with a way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from loopkit.checks import check
from loopkit.document.problems import Problem, ProblemsFound
from loopkit.language.load import load_text

SOUND = """\
loopkit: 1
limits: {total_revisions: 8, agent_calls: 40, then: fallback}
agents: {writer: {model: openai/gpt-5-mini}}
states:
  plan: {agent: writer, prompt: Plan., next: check_plan}
  check_plan:
    validate: plan
    by: [{min_chars: 10}]
    on_error: {transient: fallback}
    transitions:
      - {guard: valid, target: code}
      - {guard: cap_reached or stalled, target: failed}
      - {revise: plan, max: 3}
  code: {agent: writer, prompt: "Write {{ plan }}.", next: check_code}
  check_code:
    validate: code
    by: [{min_chars: 10}]
    transitions:
      - {guard: valid, target: done}
      - {revise: code, max: 3, resets: [plan]}
      - {revise: plan, max: 3}
      - {target: failed}
  fallback: {render: Nothing came of it., fallback: true, next: failed}
  done: {final: success, result: code}
  failed: {final: failure}
"""


@dataclass(frozen=True)
class Seed:
    """One defect: a change of one line, and what has to be told of it."""

    was: str
    now: str
    code: str
    told: str
    line: str = ""
    """The line at which it is told, where that is another one."""


SEEDS = {
    "revisions beyond the cap": Seed(
        "{guard: cap_reached or stalled, target: failed}\n      - {revise: plan, max: 3}\n  code",
        "{guard: revisions > max_revisions, target: failed}\n      - {revise: plan, max: 3}\n"
        "      - {target: failed}\n  code",
        "dead-transition",
        "its guard is never true here",
    ),
    "a misspelt guard": Seed(
        "{guard: valid, target: code}",
        "{guard: vald, target: code}",
        "unknown-name",
        "unknown name `vald`",
    ),
    "resets without a total": Seed(
        "total_revisions: 8, ", "", "resets-without-total", "", line="resets: [plan]"
    ),
    "a limit that leads to a paid state": Seed(
        "then: fallback", "then: plan", "billed-after-limit", "`plan` asks the agent `writer`"
    ),
    "an error edge that closes a cycle": Seed(
        "on_error: {transient: fallback}",
        "on_error: {transient: plan}",
        "forward-cycle",
        "plan → check_plan → plan",
    ),
    "a missing default": Seed(
        "      - {target: failed}\n  fallback",
        "  fallback",
        "stuck",
        "plan → check_plan → code → check_code, with ",
        line="transitions:",
    ),
    "two swapped transitions": Seed(
        "      - {revise: plan, max: 3}\n      - {target: failed}\n",
        "      - {target: failed}\n      - {revise: plan, max: 3}\n",
        "dead-transition",
        "one before it has no guard",
        line="- {revise: plan, max: 3}",
    ),
    "a total that no run can use up": Seed(
        "{revise: code, max: 3, resets: [plan]}",
        "{revise: code, max: 3}",
        "never-binds",
        "all revise edges together allow at most 9",
        line="total_revisions",
    ),
}


def problems(text: str) -> list[Problem]:
    try:
        found = check(load_text(text, "machine.yaml", Path()))
    except ProblemsFound as wrong:
        found = list(wrong.problems)
    return [problem for problem in found if problem.severity != "note"]


def test_the_machine_without_a_defect_has_no_problems() -> None:
    assert problems(SOUND) == []


@pytest.mark.parametrize("name", SEEDS)
def test_a_defect_is_found_once_in_its_place(name: str) -> None:
    seed = SEEDS[name]
    assert SOUND.count(seed.was) >= 1
    text = SOUND.replace(seed.was, seed.now, 1)
    if name.startswith("a total"):
        text = text.replace("total_revisions: 8", "total_revisions: 10")
    if name == "two swapped transitions":
        text = SOUND.replace(seed.was, seed.now)
    [found] = problems(text)
    assert found.code == seed.code
    assert seed.told in found.message
    assert found.span is not None
    wanted = seed.line or seed.now
    line = text.splitlines()[found.span.line - 1]
    assert wanted.partition("\n")[0].strip() in line
