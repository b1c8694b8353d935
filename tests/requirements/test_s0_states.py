"""S0, states, transitions and guards: every line that needs no model."""

from __future__ import annotations

import pytest

from tests.support import Desk, scenario


def test_a_missing_input_is_a_branch_of_its_own(desk: Desk) -> None:
    """S0.8: None is asked for by name."""
    machine = """
loopkit: 1
input: {approved: optional bool}
states:
  start:
    transitions:
      - {guard: input.approved == none, target: nobody_said}
      - {guard: input.approved == true, target: approved}
      - {target: refused}
  nobody_said: {final: failure}
  approved: {final: success}
  refused: {final: failure}
"""
    outcomes = [
        desk.play(machine, inputs=given).outcome
        for given in ({}, {"approved": True}, {"approved": False})
    ]
    assert outcomes == ["nobody_said", "approved", "refused"]


SUBSUMED = """
loopkit: 1
patterns: {task: '^### Task'}
agents: {author: {command: [none]}}
states:
  draft: {agent: author, prompt: Write., output: plan, next: precheck}
  precheck:
    validate: plan
    by: [{matches: task}]
    transitions: [{guard: valid, target: between}, {target: failed}]
  between: {render: Nothing., next: judge}
  judge:
    validate: plan
    by: [{matches: '^### Task', message: There are no tasks.}, {section: Goal}]
    transitions: [{guard: valid, target: done}, {revise: draft, max: 1}, {target: failed}]
  done: {final: success}
  failed: {final: failure}
"""


def test_a_check_that_an_earlier_one_leaves_nothing_to_find_is_told(desk: Desk) -> None:
    """S0.9: the way back for plans without tasks is dead, because they have failed before it."""
    [problem] = desk.problems(SUBSUMED)
    assert (problem.code, problem.path) == ("judged-before", "states.judge.by.0")
    played = desk.play(SUBSUMED, scenario(agents={"author": ["no tasks"]}))
    assert played.route == ["draft", "precheck", "failed"]
    goalless = desk.play(SUBSUMED, scenario(agents={"author": ["### Task 1", "### Task 2"]}))
    assert [f.message for r in goalless.reports for f in r.findings if r.state == "judge"] == [
        'no section "Goal": it needs a heading or a label `**Goal:**`, with text under it'
    ] * 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{guard: valid, target: between}", "{guard: attempt < 9, target: between}"),
        ("{guard: valid, target: between}", "{guard: not incomplete, target: between}"),
        ("by: [{matches: task}]", "by: [{matches: task, severity: warning}, {min_chars: 1}]"),
        ("by: [{matches: task}]", "by: [{matches: task, guard: attempt > 1}, {min_chars: 1}]"),
        ("by: [{matches: task}]", "by: [{matches: task, count: {max: 3}}]"),
        ("by: [{matches: task}]", "settle_after: 1\n    by: [{matches: task}]"),
        ("{render: Nothing., next", "{render: '{{ plan }}', output: plan, next"),
        ("task: '^### Task'", "task: '^## Task'"),
    ],
    ids=["lets-fails-pass", "lets-some-pass", "only-warns", "not-always", "wants-more", "settles",
         "written-anew", "another-pattern"],
)  # fmt: skip
def test_a_check_that_may_find_something_is_not_told(desk: Desk, old: str, new: str) -> None:
    """S0.9: nothing that could come to it is taken for impossible."""
    assert old in SUBSUMED
    codes = {problem.code for problem in desk.problems(SUBSUMED.replace(old, new))}
    assert "judged-before" not in codes
