"""The gates of stages: verdicts in YAML, as their system writes them, read by a small machine."""

from __future__ import annotations

import pytest

from tests.support import Desk, scenario

# `concerns` says whether a high issue blocks under the verdict CONCERNS.
GATES = r"""
loopkit: 1
input: {story: str, concerns: {type: pass|fail, default: fail}}
severities: [high, medium, low, info]
blocking: high
agents: {author: {model: openai/gpt-5-mini}, reviewer: {model: openai/gpt-5}}
validators:
  gate:
    - &gate
      judge: reviewer
      guard: input.concerns == "fail"
      prompt: "Judge this, and answer with a gate in YAML: {{ artifact | untrusted }}"
      map: &map
        verdict: gate
        verdicts: &words {PASS: pass, CONCERNS: fail, FAIL: fail, WAIVED: pass}
        findings: top_issues
        message: summary
        severity: severity
    - <<: *gate
      guard: input.concerns == "pass"
      map:
        <<: *map
        verdicts: {<<: *words, CONCERNS: warn}
        severities: {high: medium, medium: medium, low: low, info: info}
states:
  story: {agent: author, prompt: "Carry out this story: {{ input.story }}", next: check}
  check:
    validate: story
    by: [gate]
    transitions:
      - {guard: valid, target: done}
      - {guard: incomplete, target: failed}
      - {revise: story, feedback: issues}
      - {target: failed}
  done: {final: success, result: story}
  failed: {final: failure, result: story}
feedback:
  issues: |
    {% for f in findings + warnings %}
    - {{ f.message }} {{ f.item.refs | d(f.item.evidence) | d("") }}
    {% endfor %}
"""
FAIL = """
schema: 1
story: '7.1'
gate: FAIL
status_reason: 'Dough that rests too long is sold: nobody is told.'
updated: '2026-03-01T08:00:00Z'
top_issues:
  - severity: high
    summary: 'Resting is not timed: the clock has **no** alarm'
    refs: [oven/clock.ts:12]
    suggested_owner: dev
  - {severity: medium, summary: 'A weight below zero is taken', refs: [oven/form.vue:3]}
  - severity: low
    summary: 'Two buttons look alike'
    evidence: [oven/form.vue:40]
waiver: {active: false}
evidence: {tests_reviewed: 3, trace: {ac_gaps: [2]}}
nfr_validation:
  reliability: {status: FAIL, notes: 'No alarm.'}
"""
PASS = """
gate: PASS
status_reason: 'There is an alarm now; all tests pass.'
top_issues: []
waiver: { active: false }
evidence:
  tests_reviewed: { count: 5 }
recommendations:
  immediate:
    - {action: 'Keep the test of the alarm.', refs: []}
"""
CONCERNS = """
gate: CONCERNS
top_issues:
  - severity: high
    summary: '`hours` is a text in the form and a number in the list.'
    evidence:
      - oven/list.ts:9
"""
NOTES = """
gate: PASS
top_issues:
  - {id: 'OVEN-01', severity: info, summary: 'Two ovens share a clock.', suggested_owner: ops}
"""


@pytest.mark.parametrize(
    ("concerns", "gates", "counted"),
    [
        ("fail", [FAIL, PASS], [(1, 2), (0, 0)]),
        ("fail", [f"```yaml{FAIL}```", PASS], [(1, 2), (0, 0)]),
        ("fail", [CONCERNS, PASS], [(1, 0), (0, 0)]),
        ("pass", [CONCERNS], [(0, 1)]),
        ("fail", [NOTES], [(0, 1)]),
    ],
)
def test_gates_in_yaml_lead_on_or_back(
    concerns: str, gates: list[str], counted: list[tuple[int, int]], desk: Desk
) -> None:
    stories = ["The oven.", "The oven with an alarm."][: len(gates)]
    script = scenario(agents={"author": stories, "reviewer": gates})
    played = desk.play(GATES, script, {"story": "Bake.", "concerns": concerns})
    assert played.outcome == "done"
    found = [[finding.blocking for finding in report.findings] for report in played.reports]
    assert [(one.count(True), one.count(False)) for one in found] == counted
    assert len(played.prompts("reviewer")) == len(gates)
    told = ("oven/clock.ts:12", "**no** alarm", "oven/form.vue:40") if FAIL in gates[0] else ()
    assert [one for one in told if one not in played.prompts("author")[1]] == []
