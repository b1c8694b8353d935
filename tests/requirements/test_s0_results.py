"""S0, structured results: every line that needs no model."""

from __future__ import annotations

from typing import Any

import pytest

from loopkit.engine.events import Decided
from loopkit.engine.findings import Report
from loopkit.engine.records import read_record
from tests.machines import loop
from tests.support import Desk, fails, scenario, warns

TYPED = """
loopkit: 1
agents:
  reviewer:
    command: [none]
    schema: {valid: bool, issues: [str], severity: none|major|critical}
states:
  review:
    agent: reviewer
    prompt: "Review the plan. {{ schema }}"
    output: verdict
    on_error: {content: broken}
    transitions:
      - {guard: valid, target: approved}
      - {guard: severity == "critical", target: stopped}
      - {target: rejected}
  approved: {final: success, result: verdict}
  stopped: {final: failure, result: verdict}
  rejected: {final: failure, result: verdict}
  broken: {final: failure, result: verdict}
"""


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ({"valid": True, "issues": [], "severity": "critical"}, "approved"),
        ({"valid": False, "issues": ["No tests."], "severity": "critical"}, "stopped"),
        ({"valid": False, "issues": ["No tests."], "severity": "major"}, "rejected"),
    ],
)
def test_a_typed_result_is_kept_whatever_the_outcome(
    desk: Desk, answer: dict[str, Any], outcome: str
) -> None:
    """S0.20, S0.2: of the fields that the machine declares, the first guard that holds decides."""
    played = desk.play(TYPED, scenario(agents={"reviewer": [{"data": answer}]}))
    assert played.outcome == outcome
    assert played.result == {"verdict": answer}
    assert '"enum"' in played.prompts("reviewer")[0]


@pytest.mark.parametrize(
    "answer",
    [
        {"valid": "yes", "issues": [], "severity": "none"},
        {"valid": True, "issues": "none", "severity": "none"},
        {"valid": True, "issues": [], "severity": "minor"},
        {"valid": True, "issues": []},
        {"issues": [], "severity": "none"},
        {"valid": None, "issues": [], "severity": "none"},
        [],
    ],
)
def test_a_result_of_another_shape_is_no_result(desk: Desk, answer: Any) -> None:
    """S0.20: what breaks its type never reaches a guard."""
    played = desk.play(TYPED, scenario(agents={"reviewer": [{"data": answer}]}))
    assert played.outcome == "broken"
    assert played.of(Decided)[0].facts.get("valid") is None


JUDGED = loop(
    "[{judge: critic}]",
    {"valid": "accepted", "cap_reached": "exhausted"},
    "{revise: draft, feedback: told}",
    top="""
limits: {revisions: 1}
agents: {author: {command: [none]}, critic: {command: [none]}}
feedback:
  told: |
    {{ report.verdict }} of {{ report.state }}, {{ report.error_count }} open:
    revision {{ revision }} of {{ max_revisions }}
    {% for finding in findings %}
    - {{ finding.message }}
    {% endfor %}
""",
)


def test_every_report_is_kept_and_cannot_be_changed(desk: Desk) -> None:
    """S0.20: stored whatever the outcome, immutable once stored."""
    critic = [fails("No tests."), warns("Long.")]
    played = desk.play(JUDGED, scenario(agents={"author": ["a", "b"], "critic": critic}))
    assert [report.verdict for report in played.reports] == ["fail", "warn"]
    with pytest.raises(AttributeError, match="immutable"):
        played.reports[0].verdict = "pass"  # type: ignore[misc]
    assert read_record(Report, played.reports[0].to_json()) == played.reports[0]


def test_result_issues_and_counter_are_named_in_guards(desk: Desk) -> None:
    """S0.22: the decision keeps the values that the guards could read."""
    machine = JUDGED.replace(
        "guard: cap_reached", "guard: error_count > 1 and revisions == max_revisions"
    ).replace(
        "target: exhausted}", "target: exhausted}\n      - {guard: cap_reached, target: accepted}"
    )
    two, one = fails("No tests.", "No goal."), fails("No tests.")
    outcomes = [
        desk.play(machine, scenario(agents={"author": ["a", "b"], "critic": critic})).outcome
        for critic in ([two, two], [two, one])
    ]
    assert outcomes == ["exhausted", "accepted"]


SEVERITY = """
loopkit: 1
input: {text: str}
report_severity: {none: 0, major: 1, critical: 2}
states:
  draft: {render: "{{ input.text }}", output: plan, next: check}
  check:
    validate: plan
    by: [{matches: tea}, {matches: cups}, {matches: milk, severity: warning}]
    transitions:
      - {guard: severity == "critical", target: told}
      - {guard: severity == "major", target: told}
      - {guard: severity == "none", target: told}
  told: {render: "{{ report.severity }}", next: route}
  route: {transitions: [{guard: check.severity == "none", target: done}, {target: failed}]}
  done: {final: success, result: told}
  failed: {final: failure, result: told}
"""
WORST = SEVERITY.replace("report_severity: {none: 0, major: 1, critical: 2}\n", "")
WORST = WORST.replace('"critical"', '"error"').replace('"major"', '"warning"')


@pytest.mark.parametrize(
    ("text", "by_count", "worst"),
    [
        ("tea, cups, milk", "none", "none"),
        ("tea, cups", "none", "warning"),
        ("tea, milk", "major", "error"),
        ("milk", "critical", "error"),
    ],
)
def test_a_report_is_as_severe_as_its_worst_finding_or_by_their_number(
    desk: Desk, text: str, by_count: str, worst: str
) -> None:
    """S0.21: for guards and templates; a guard for each word is enough."""
    for machine, word in ((SEVERITY, by_count), (WORST, worst)):
        run = desk.play(machine, inputs={"text": text})
        assert (run.result["told"], run.reports[0].severity) == (word, word)
        assert run.outcome == ("done" if word == "none" else "failed")
