"""Judges in reports of their own shape: what is declared of them, and what they may not say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopkit.engine.events import Replied
from tests.machines import loop
from tests.support import PASS, Desk, Played, fails, scenario

MACHINE = loop(
    "BY",
    {"valid": "accepted", "incomplete": "unjudged", "cap_reached": "exhausted"},
    "{revise: draft, feedback: FEEDBACK}",
    top="""
limits: {revisions: 1}
agents:
  author: {command: [none]}
  critic: AGENT
validators:
  review: RULE
""",
)
TYPED = "{model: ollama/model, schema: {valid: bool, issues: [str], severity: none|major|critical}}"
BY_ISSUES = '{judge: critic, map: {verdict: valid, verdicts: {"true": pass, "false": fail}, findings: issues}}'  # noqa: E501
BY_SEVERITY = "{judge: critic, map: {verdict: severity, verdicts: {none: pass, major: fail, critical: fail}, findings: issues}}"  # noqa: E501
UNTYPED = "{model: ollama/model}"
PROMPTED = BY_ISSUES.replace("{judge: critic", '{judge: critic, prompt: "Judge."')
ASSESSING = """
    model: ollama/model
    schema:
      overall_assessment: PASS|FAIL|NEEDS_IMPROVEMENT
      issues:
        - id: str
          category: naming|style|tests
          severity: {type: Critical|High|Medium|Low, default: Low}
          description: str
          evidence: {type: str, default: ""}
          affected_phase: planning|design|Both
"""
ASSESSED = """
    judge: critic
    rubric: [The tasks are specific., The paths are plausible.]
    map:
      verdict: overall_assessment
      verdicts: {PASS: pass, NEEDS_IMPROVEMENT: warn, FAIL: fail}
      findings: issues
      message: description
      severities: {Critical: error, High: error, Medium: warning, Low: warning}
      code: category
      codes: {naming: STYLE, style: STYLE, tests: TESTS}
      location: affected_phase
"""
LISTED = "{{ findings | map(attribute='message') | join('; ') }}"


def play(
    desk: Desk,
    critic: list[Any],
    *,
    agent: str = ASSESSING,
    rule: str = ASSESSED,
    by: str = "[review]",
    feedback: str = LISTED,
    plans: tuple[str, ...] = ("plan 1", "plan 2"),
) -> Played:
    parts = {"AGENT": agent, "RULE": rule, "BY": by, "FEEDBACK": json.dumps(feedback)}
    machine = MACHINE
    for name, written in parts.items():
        machine = machine.replace(name, written)
    return desk.play(machine, scenario(agents={"author": list(plans), "critic": critic}))


def said(**report: Any) -> dict[str, Any]:
    return {"data": report}


def issue(severity: str = "High", phase: str = "planning", **more: Any) -> dict[str, Any]:
    return {
        "id": "I-1",
        "category": "tests",
        "severity": severity,
        "description": "No tests.",
        "evidence": "",
        "affected_phase": phase,
        **more,
    }


def assessed(word: str, *issues: dict[str, Any]) -> dict[str, Any]:
    return said(overall_assessment=word, issues=list(issues))


@pytest.mark.parametrize("rule", [BY_ISSUES, BY_SEVERITY], ids=["by-valid", "by-severity"])
def test_a_typed_result_of_a_judge_is_read_where_it_stands(desk: Desk, rule: str) -> None:
    """S0.20: `{valid: bool, issues: list[str], severity: enum}`, and the report is kept."""
    critic = [
        said(valid=False, issues=["No tests.", "No goal."], severity="critical"),
        said(valid=True, issues=[], severity="none"),
    ]
    played = play(desk, critic, agent=TYPED, rule=rule)
    assert played.outcome == "accepted"
    assert played.prompts("author")[1].endswith("No tests.; No goal.")
    assert [report.verdict for report in played.reports] == ["fail", "pass"]


def test_groups_of_issues_are_made_by_the_template(desk: Desk) -> None:
    """S2.2: a grouping per phase is computed from the issues, not taken from the report."""
    feedback = (
        "{% for phase, found in findings | groupby('location') %}"
        "{{ phase }} {{ found | length }} {% endfor %}"
    )
    issues = [issue(phase="design"), issue(phase="planning"), issue("Critical", "design")]
    played = play(desk, [assessed("FAIL", *issues), assessed("PASS")], feedback=feedback)
    assert played.prompts("author")[1].rstrip().endswith("design 2 planning 1")


def test_synonyms_and_default_fields_are_declared_and_both_forms_are_kept(desk: Desk) -> None:
    """S2.29: the reply as it was said, and the report as it was read."""
    sparse = {"id": "I-2", "category": "naming", "description": "Odd.", "affected_phase": "Both"}
    played = play(desk, [assessed("NEEDS_IMPROVEMENT", sparse)])
    (found,) = played.reports[0].findings
    assert (found.code, found.severity) == ("STYLE", "warning")
    (reply,) = [event.text for event in played.of(Replied) if "naming" in event.text]
    assert json.loads(reply) == assessed("NEEDS_IMPROVEMENT", sparse)["data"]


DIAGNOSING = loop(
    """
      - judge: linter
        prompt: "{{ plan }}"
        reask: 0
        map: MAP
""",
    {"'valid and \"W1\" in codes'": "advised", "valid": "accepted", "incomplete": "unjudged"},
    "{target: rejected}",
    top="""
agents:
  author: {command: [none]}
  linter: {command: [sh, -c, 'cat REPORT', lint]}
""",
)
OK = '{verdict: ok, verdicts: {"true": pass, "false": fail}, findings: diagnostics}'
ANY = "{findings: diagnostics}"
E1 = {"code": "E1", "message": "No such node.", "severity": "error", "nodeStage": "build"}
W1 = {"code": "W1", "message": "Unused.", "severity": "warning", "facet": "naming"}


@pytest.mark.parametrize("map_", [OK, ANY], ids=["ok", "derived"])
@pytest.mark.parametrize(
    ("ok", "diagnostics", "outcome"),
    [
        (True, [], "accepted"),
        (True, [W1], "advised"),
        (False, [E1, W1], "rejected"),
    ],
)
def test_diagnostics_of_a_program_are_read(
    desk: Desk, map_: str, ok: bool, diagnostics: list[dict[str, str]], outcome: str
) -> None:
    """S3.2: `{code, message, severity}`; ok = no error-severity entries, said or derived."""
    printed = json.dumps({"ok": ok, "diagnostics": diagnostics})
    report = desk.write("report.json", f"Checked 3 nodes.\n{printed}\n")
    machine = DIAGNOSING.replace("REPORT", str(report)).replace("MAP", map_)
    played = desk.play(machine, scenario(agents={"author": ["plan"]}))
    assert played.outcome == outcome
    assert [finding.code for finding in played.reports[0].findings] == [
        one["code"] for one in diagnostics
    ]


def test_a_judge_is_held_to_the_form_in_which_it_is_read(desk: Desk) -> None:
    """Our own form, the schema of its agent beside a `map`, or none where the prompt says it."""
    own = play(desk, [fails("A"), PASS], agent=UNTYPED, rule="{judge: critic}")
    typed = play(desk, [assessed("PASS")])
    free = play(desk, [said(valid=True, issues=[])], agent=UNTYPED, rule=PROMPTED)
    schemas = [played.asked("critic")[0].schema for played in (own, typed, free)]
    fields = [list(schema["properties"]) if schema else None for schema in schemas]
    assert fields == [["verdict", "findings"], ["overall_assessment", "issues"], None]


def test_a_prompt_of_a_mapped_judge_never_asks_for_our_form(desk: Desk) -> None:
    """Neither at first nor when it is asked again: it could not obey both."""
    typed = play(desk, [["What?", assessed("PASS")]])
    free = play(desk, [["What?", said(valid=True, issues=[])]], agent=UNTYPED, rule=PROMPTED)
    for prompt in (*typed.prompts("critic"), *free.prompts("critic")):
        assert '"verdict"' not in prompt
    assert '"overall_assessment"' in typed.prompts("critic")[1]


def test_a_stored_map_reads_the_same_after_a_resume(desk: Desk) -> None:
    """The definition in the journal keeps what was not written as not written."""
    desk.in_memory = False
    critic = [[{"fault": "quota"}, said(issues=["No tests."])], said(issues=[])]
    rule = '{judge: critic, prompt: "Judge.", map: {findings: issues}}'
    machine = MACHINE.replace("AGENT", UNTYPED).replace("RULE", rule)
    machine = machine.replace("BY", "[review]").replace("FEEDBACK", json.dumps(LISTED))
    machine = machine.replace("guard: incomplete", "guard: stalled")
    script = scenario(agents={"author": ["plan 1", "plan 2"], "critic": critic})
    suspended = desk.play(machine, script)
    assert suspended.state.suspended is not None
    played = desk.resume(suspended.state.run)
    assert played.outcome == "accepted"
    assert [report.verdict for report in played.reports][-2:] == ["fail", "pass"]
