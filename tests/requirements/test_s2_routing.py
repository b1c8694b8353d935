"""S2: a review finds which phase injected a defect, and the run goes back there, within bounds."""

from __future__ import annotations

from typing import Any

from loopkit.engine.events import Decided
from tests.support import Desk, Played, scenario

PIPELINE = """
loopkit: 1
origins: [planning, design, code]
limits: {total_revisions: 5, revisions: 3}
agents: {writer: {model: some/writer, schema: {text: str}}}
feedback:
  defects: |
    {% for f in findings %}{{ f.message }}{{ " (assumed)" if f.defaulted else "" }} {% endfor %}
states:
  planning:
    agent: writer
    prompt: |
      {% if feedback %}Mend {{ previous.text }}: {{ feedback }}{% else %}Plan.{% endif %}
      {{ schema }}
    output: plan
    next: check_plan
  check_plan:
    validate: plan
    by: [{require: 'text != ""', message: It is empty.}]
    transitions: [{guard: valid, target: design}, {revise: planning}, {target: escalated}]
  design: {agent: writer, prompt: "Design {{ plan.text }}.", output: spec, next: review}
  review:
    validate: spec
    by:
      - {not_matches: NO UNIT, origin: planning, message: A unit is missing.}
      - {not_matches: NO GOAL, origin: planning, message: The goal is missing.}
      - {not_matches: NO API, message: An interface is missing.}
    transitions:
      - {guard: valid, target: code}
      - {revise: {origin: [planning, design]}, feedback: defects, resets: [code]}
      - {target: escalated}
  code: {agent: writer, prompt: "Code {{ spec.text }}.", output: source, next: test}
  test:
    validate: source
    by:
      - {not_matches: BAD API, origin: design, message: The interface is wrong.}
      - {not_matches: BAD CODE, message: A test fails.}
    transitions:
      - {guard: valid, target: done}
      - {revise: {origin: [planning, design, code]}, feedback: defects, max: 2}
      - {target: escalated}
  escalated:
    human: What now?
    show: [plan, spec, source, report]
    choices: [stop]
    transitions: [{target: failed}]
  done: {final: success, result: [plan, spec, source]}
  failed: {final: failure, result: [plan, spec, source]}
"""


def played(desk: Desk, *texts: str, text: str = PIPELINE, **more: Any) -> Played:
    """One reply after the other, whoever is asked."""
    return desk.play(
        text, scenario(agents={"writer": [{"data": {"text": t}} for t in texts]}, **more)
    )


def told(run: Played) -> list[tuple[str, str]]:
    return [(f.to, f.text.strip()) for event in run.of(Decided) for f in event.feedback]


def test_s2_13_a_reset_is_declared_and_the_whole_still_bounds(desk: Desk) -> None:
    codes = ["BAD CODE 1", "BAD CODE 2", "BAD API BAD CODE 3", "NO API", "S3"]
    run = played(desk, "P", "S", *codes, "BAD CODE 4", "BAD CODE 5")
    # Sent back from the review, the code has its two revisions anew; the total has not.
    assert run.state.counters["test[1].code"] == 1
    assert run.state.counters["total"] == 5
    assert run.route[-2:] == ["test", "escalated"]


def test_s2_24_the_schema_in_the_revise_prompt_is_the_one_that_is_enforced(desk: Desk) -> None:
    run = played(desk, "P", "NO UNIT", "P2", "S2", "C")
    assert '"required": [\n    "text"\n  ]' in run.prompts("writer")[2]
    other = desk.play(PIPELINE, scenario(agents={"writer": [{"data": {"words": "P"}}]}))
    assert "`text` is missing" in other.reports[0].findings[0].message


REPAIR = """
loopkit: 1
agents: {fixer: {model: some/fixer, schema: {fixes: [str], program: str}}}
states:
  patch:
    agent: fixer
    prompt: |
      Repair {{ previous.program | default("x = 1 +") }}
      {% for round in history %}
      {{ round.artifact.program }} failed: {{ round.findings | map(attribute="message") | join }}
      {% endfor %}
    output: patched
    next: test
  test:
    validate: patched
    by:
      - {require: fixes.count > 0, code: NONE}
      - {not_matches: 'bug \\d', message: "{{ value }} is left."}
    transitions:
      - {guard: valid, target: done}
      - {guard: '"NONE" in codes', target: escalated}
      - {revise: patch, from: best, max: 3}
      - {target: escalated}
  escalated: {human: Nobody knows a fix., choices: [stop], transitions: [{target: failed}]}
  done: {final: success, result: patched}
  failed: {final: failure}
"""


def test_s2_38_a_patch_that_fails_is_taken_back_and_what_was_tried_is_in_the_prompt(
    desk: Desk,
) -> None:
    tried = ["bug 1", "bug 1 bug 2", "x = 1"]
    fixes: list[dict[str, Any]] = [{"data": {"fixes": ["a"], "program": text}} for text in tried]
    run = desk.play(REPAIR, scenario(agents={"fixer": fixes}))
    prompt = run.prompts("fixer")[2]
    assert prompt.startswith("Repair bug 1\n")
    assert "bug 1 failed: bug 1 is left." in prompt
    assert "bug 1 bug 2 failed: bug 1 is left.bug 2 is left." in prompt
    assert run.result["patched"]["program"] == "x = 1"
