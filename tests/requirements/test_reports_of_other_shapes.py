"""Reports as real reviewers write them: counted, checked, and never passed on as noise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from loopkit.engine.findings import Report
from tests.machines import loop
from tests.support import Desk, Played, listed, scenario

MACHINE = loop(
    "[review]",
    {"valid": "accepted", "incomplete": "asked"},
    "{revise: draft, max: 1}",
    "{target: asked}",
    top="""
severities: [critical, high, medium, low]
blocking: high
agents:
  author: {model: some/author}
  critic:
    model: some/critic
    schema:
      overall_assessment: PASS|FAIL|NEEDS_IMPROVEMENT
      automated_checks: {semantic_coverage: bool, schema_api_consistency: bool}
      issues_found:
        - issue_id: str
          category: str
          severity: Critical|High|Medium|Low
          description: str
          evidence: str
          impact: str
          affected_phase: Planning|Design|Both
          related: {type: [str], default: []}
      critical_issue_count: int
      high_issue_count: int
      medium_issue_count: int
      low_issue_count: int
      "...": any
validators:
  review:
    judge: critic
    map:
      verdict: overall_assessment
      verdicts: {PASS: pass, FAIL: fail, NEEDS_IMPROVEMENT: NEEDING}
      findings: issues_found
      message: description
      severity: severity
      severities: {Critical: critical, High: high, Medium: medium, Low: low}
      code: category
      counts:
        critical: critical_issue_count
        high: high_issue_count
        medium: medium_issue_count
        low: low_issue_count
      checks:
        automated_checks.semantic_coverage: {severity: low, code: COVERAGE}
        automated_checks.schema_api_consistency: {code: SCHEMA, message: Schema and API differ.}
""",
    draft="draft: {agent: author, prompt: Design it., output: design}",
    ends="""
asked: {human: Take it?, show: [design, report], choices: [yes_, no_], next: rejected}
rejected: {final: failure}
""",
)
CHECKS = {"semantic_coverage": True, "schema_api_consistency": True}
LINKS, HEADERS, NAMES = (
    {
        "issue_id": "ISSUE-001",
        "category": "Security",
        "severity": "High",
        "description": "The audit follows links out of the folder.",
        "evidence": "audit.py walks with followlinks=True",
        "impact": "Files of other customers are read.",
        "affected_phase": "Design",
    },
    {
        "issue_id": "ISSUE-002",
        "category": "Completeness",
        "severity": "Critical",
        "description": "No unit covers exports without a header.",
        "evidence": "units SU-001 to SU-004",
        "impact": "Such files are reported as sound.",
        "affected_phase": "Both",
        "related": ["SU-001", "SU-004"],
        "confidence": 0.9,
    },
    {
        "issue_id": "ISSUE-003",
        "category": "Maintainability",
        "severity": "Low",
        "description": "Two units have almost the same name.",
        "evidence": "SU-002, SU-003",
        "impact": "Confusing.",
        "affected_phase": "Planning",
    },
)


def assessed(
    word: str, *issues: Mapping[str, Any], checks: Mapping[str, Any] = CHECKS, **more: Any
) -> dict[str, Any]:
    """A report that counts what it lists, in the shape of real ones."""
    levels = [issue["severity"] for issue in issues]
    counts = {
        f"{level.lower()}_issue_count": levels.count(level)
        for level in ("Critical", "High", "Medium", "Low")
    }
    said = {
        "task_id": "EXP-012",
        "overall_assessment": word,
        "automated_checks": dict(checks),
        "issues_found": list(issues),
        "improvement_suggestions": [{"suggestion_id": "I-1", "description": "Resolve paths."}],
        "checklist_review": [{"checklist_item_id": "C-1", "status": "Fail"}],
        **counts,
    }
    return {"data": {**said, **more}}


def play(desk: Desk, *critic: Any, machine: str = MACHINE, needing: str = "warn") -> Played:
    script = scenario(agents={"author": ["design 1", "design 2"], "critic": list(critic)})
    return desk.play(machine.replace("NEEDING", needing), script)


def found(report: Report) -> list[tuple[str, str, bool]]:
    return [(one.message, one.severity, one.blocking) for one in report.findings]


def test_a_report_of_another_shape_is_read_whole(desk: Desk) -> None:
    """S2.1, S2.2: the issues with their severities, worst first, and the rest of each of them."""
    played = play(desk, assessed("FAIL", LINKS, HEADERS, NAMES), assessed("PASS"))
    first = played.reports[0]
    assert found(first) == [
        (HEADERS["description"], "critical", True),
        (LINKS["description"], "high", True),
        (NAMES["description"], "low", False),
    ]
    assert [one.code for one in first.findings] == ["Completeness", "Security", "Maintainability"]
    rest = {k: v for k, v in HEADERS.items() if k != "description"}
    assert first.findings[0].item == rest
    assert played.outcome == "accepted"


FEEDBACK = (
    "{% for f in findings %}{{ f.item.issue_id }} {{ f.message }} {{ f.item.evidence }}"
    "{% if f.item.related %} {{ f.item.related | join(', ') }}{% endif %}\\n{% endfor %}"
)


def test_what_an_item_says_besides_is_for_templates(desk: Desk) -> None:
    """S2.1: evidence and impact reach the author; a finding of a rule has none of them."""
    machine = MACHINE.replace("revise: draft", f'revise: draft, feedback: "{FEEDBACK}"')
    machine = machine.replace("by: [review]", "by: [{min_chars: 99, message: Short.}, review]")
    machine = machine.replace("judge: critic", "judge: critic\n    always: true")
    played = play(desk, assessed("FAIL", LINKS, HEADERS), machine=machine)
    said = played.prompts("author")[1]
    assert (
        "ISSUE-002 No unit covers exports without a header. units SU-001 to SU-004 SU-001" in said
    )
    assert "ISSUE-001 The audit follows links out of the folder. audit.py walks" in said
    assert "\n Short. \nISSUE-001" in said


WRONG = [
    ("pass-with-high", assessed("PASS", LINKS), f'"High": "{LINKS["description"]}"'),
    ("pass-with-a-count", assessed("PASS", high_issue_count=1), '"high_issue_count" is 1, but 0'),
    ("improve-with-high", assessed("NEEDS_IMPROVEMENT", LINKS), 'Make the verdict "FAIL"'),
    ("fail-without-any", assessed("FAIL"), '"issues_found" names none'),
    ("improve-what", assessed("NEEDS_IMPROVEMENT"), "there are no findings"),
    (
        "too-many-counted",
        assessed("FAIL", LINKS, high_issue_count=2),
        '"high_issue_count" is 2, but 1 is listed with the severity "high"',
    ),
    (
        "too-few-counted",
        assessed("FAIL", LINKS, NAMES, low_issue_count=0),
        '"low_issue_count" is 0, but 1 is listed with the severity "low"',
    ),
    ("check-untold", assessed("PASS", checks={"semantic_coverage": True}), "automated_checks"),
    ("unknown-status", assessed("BUILD_FAILED"), "BUILD_FAILED"),
]


@pytest.mark.parametrize(
    ("wrong", "reason", "asked"),
    [(*case[1:], 2 if "-with-" in case[0] else 3) for case in WRONG],
    ids=[c[0] for c in WRONG],
)
def test_a_reviewer_who_insists_is_for_a_person_and_never_noise_for_the_author(
    desk: Desk, wrong: dict[str, Any], reason: str, asked: int
) -> None:
    """S2.30, S2.31, S2.35: told why, of an approval that contradicts itself only once."""
    played = play(desk, [wrong] * 3)
    assert len(played.prompts("critic")) == asked
    assert reason in played.prompts("critic")[1]
    assert len(played.prompts("author")) == 1
    assert played.state.counters == {}
    assert played.state.state == "asked"
    assert (played.reports[0].verdict, played.reports[0].error_class) == ("incomplete", "content")
    assert played.reports[0].findings == ()


BROKEN = CHECKS | {"schema_api_consistency": False}


@pytest.mark.parametrize("word", ["PASS", "NEEDS_IMPROVEMENT", "FAIL"])
def test_a_blocking_check_that_is_false_vetoes_whatever_the_verdict_says(
    desk: Desk, word: str
) -> None:
    """S2.32: it is a fail with a made finding, which the author gets; nobody is asked again."""
    played = play(desk, assessed(word, checks=BROKEN), assessed("PASS"))
    assert [report.verdict for report in played.reports] == ["fail", "pass"]
    (made,) = played.reports[0].findings
    assert (made.message, made.severity, made.code) == (
        "Schema and API differ.",
        "high",
        "SCHEMA",
    )
    assert listed(played.prompts("author")[1]) == "- Schema and API differ. (code `SCHEMA`)"
    assert [finding.id for finding in played.reports[1].resolved] == [made.id]
    assert len(played.prompts("critic")) == 2


def test_a_check_that_stays_false_is_one_finding_over_the_rounds(desk: Desk) -> None:
    """S2.28: its id is made of where it stands."""
    played = play(desk, *[assessed("PASS", checks=BROKEN)] * 2)
    first, second = (report.findings[0] for report in played.reports)
    assert first.id == second.id
    assert second.status == "recurring"


def test_a_failed_check_cannot_be_outvoted(desk: Desk) -> None:
    """S2.32: the reviewer's own complaints can, a fact cannot."""
    others = "[review, {judge: second}, {judge: third}]\n    combine: majority"
    machine = MACHINE.replace("[review]", others).replace(
        "agents:\n", "agents:\n  second: {model: some/second}\n  third: {model: some/third}\n"
    )
    script = scenario(
        agents={
            "author": ["design 1", "design 2"],
            "critic": [assessed("FAIL", LINKS, checks=BROKEN), assessed("FAIL", LINKS)],
            "second": [{"data": {"verdict": "pass", "findings": []}}] * 2,
            "third": [{"data": {"verdict": "pass", "findings": []}}] * 2,
        }
    )
    played = desk.play(machine.replace("NEEDING", "warn"), script)
    assert [report.verdict for report in played.reports] == ["fail", "warn"]
    assert found(played.reports[0]) == [
        ("Schema and API differ.", "high", True),
        (LINKS["description"], "medium", False),
    ]


def test_a_check_that_two_specialists_report_is_one_finding(desk: Desk) -> None:
    """S2.26: it has one name, whoever reports it."""
    by = "[review, again]\n    merge: key"
    machine = MACHINE.replace("[review]", by).replace("      code: category", "      key: issue_id")
    one, _, rest = machine.partition("validators:\n")
    review, states, after = rest.partition("states:\n")
    again = review.replace("review:", "again:").replace("judge: critic", "judge: second")
    one = one.replace("  critic:", "  second: {model: some/second}\n  critic:")
    again = again.replace("judge: second", "judge: second\n    prompt: Judge.")
    script = scenario(
        agents={
            "author": ["design 1", "design 2"],
            "critic": [assessed("PASS", checks=BROKEN), assessed("PASS")],
            "second": [assessed("PASS", checks=BROKEN), assessed("PASS")],
        }
    )
    whole = f"{one}validators:\n{review}{again}{states}{after}".replace("NEEDING", "warn")
    (made,) = desk.play(whole, script).reports[0].findings
    assert made.named_by == ("review", "again")


@pytest.mark.parametrize(
    ("needing", "block", "outcome"),
    [("warn", "", "accepted"), ("fail", "\n    block: low", "asked")],
    ids=["accept", "revise"],
)
def test_what_needs_improvement_is_accepted_or_revised_as_the_machine_says(
    desk: Desk, needing: str, block: str, outcome: str
) -> None:
    """S2.4: by what the word means, and by what blocks."""
    machine = MACHINE.replace("by: [review]", f"by: [review]{block}")
    if needing == "fail":
        machine = machine.replace("blocking: high", "blocking: low")
    improve = assessed("NEEDS_IMPROVEMENT", NAMES)
    played = play(desk, improve, improve, machine=machine, needing=needing)
    assert len(played.prompts("author")) == (1 if outcome == "accepted" else 2)
    assert (played.outcome or played.state.state) == outcome


CRITERIA = loop(
    "[{judge: critic, prompt: Judge., reask: 1, map: {MAP}}]",
    {"valid": "accepted", "incomplete": "unjudged"},
    "{revise: draft}",
    "{target: unjudged}",
    top="agents: {author: {model: some/author}, critic: {model: some/critic}}",
)


def judged(desk: Desk, map_: str, *critic: Any) -> Played:
    script = scenario(agents={"author": ["plan 1", "plan 2"], "critic": list(critic)})
    return desk.play(CRITERIA.replace("MAP", map_), script)


def test_what_no_schema_declares_is_asked_for_first(desk: Desk) -> None:
    """S2.1: an item says what it says; a template has to take what comes."""
    asking = "{% if f.item.why %} {{ f.item.why }}{% endif %}"
    feedback = f"{{% for f in findings %}}{{{{ f.message }}}}{asking};{{% endfor %}}"
    issues = [{"message": "A.", "why": "It is."}, "B."]
    machine = CRITERIA.replace("revise: draft", f'revise: draft, feedback: "{feedback}"')
    script = scenario(
        agents={
            "author": ["plan 1", "plan 2"],
            "critic": [{"data": {"issues": issues}}, {"data": {"issues": []}}],
        }
    )
    played = desk.play(machine.replace("MAP", "findings: issues"), script)
    assert "A. It is.;B.;" in played.prompts("author")[1]


def test_what_a_finding_keeps_of_its_item_has_a_bound(desk: Desk) -> None:
    """A report of any size makes no journal of any size."""
    item = {"message": "Bad.", "evidence": "x" * 9_000, "list": ["y" * 9_000], "line_of": 7}
    played = judged(
        desk, "findings: issues", {"data": {"issues": [item]}}, {"data": {"issues": []}}
    )
    kept = played.reports[0].findings[0].item
    assert list(kept) == ["evidence", "line_of"]
    assert len(kept["evidence"]) == 2_000
    assert kept["evidence"].endswith("x…")


def test_secrets_do_not_come_with_the_item(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEA_API_KEY", "k3y-0f-the-t3a")
    item = {"message": "Bad.", "evidence": {"quoted": "it has k3y-0f-the-t3a in it"}}
    played = judged(
        desk, "findings: issues", {"data": {"issues": [item]}}, {"data": {"issues": []}}
    )
    assert "k3y-0f-the-t3a" not in json.dumps(played.reports[0].findings[0].item)


def test_a_program_reports_items_and_checks_as_well(desk: Desk) -> None:
    """S2.32: checks that really are deterministic."""
    report = {
        "issues": [{"text": "Odd.", "level": "minor", "rule": {"id": "R-1"}}],
        "checks": {"acyclic": False},
        "minor": 1,
    }
    machine = loop(
        """
      - command: [cat, REPORT]
        parse: report
        map:
          findings: issues
          message: text
          severity: level
          severities: {minor: warning, major: error}
          counts: {minor: minor}
          checks: {checks.acyclic: {code: CIRCLE}}
""",
        {"'\"CIRCLE\" in codes'": "circle", "valid": "accepted"},
        "{target: rejected}",
        top="agents: {author: {model: some/author}}",
    )
    file = desk.write("report.json", json.dumps(report))
    played = desk.play(machine.replace("REPORT", str(file)), scenario(agents={"author": ["plan"]}))
    assert played.outcome == "circle"
    by_code = {finding.code: finding for finding in played.reports[0].findings}
    assert by_code[""].item == {"level": "minor", "rule": {"id": "R-1"}}
    assert by_code["CIRCLE"].message.endswith("The check `checks.acyclic` is false.")


def test_a_guard_may_name_the_code_of_a_check_beside_a_closed_table(desk: Desk) -> None:
    """S2.32: what a check finds can be routed by itself."""
    table = (
        "code: category\n      codes: {Security: RISK, Completeness: GAP, Maintainability: STYLE}"
    )
    machine = MACHINE.replace("code: category", table)
    machine = machine.replace(
        "      - {guard: incomplete", "      - {guard: '\"SCHEMA\" in codes', target: rejected}\n"
        "      - {guard: incomplete",
    )  # fmt: skip
    assert play(desk, assessed("PASS", checks=BROKEN), machine=machine).outcome == "rejected"


def test_a_field_that_two_reports_declare_otherwise_is_asked_for_first(desk: Desk) -> None:
    machine = MACHINE.replace(
        "agents:\n",
        """agents:
  second: {model: some/second, schema: {issues: [{message: str, evidence: [str]}]}}
""",
    ).replace("[review]", "[{judge: second, map: {findings: issues}}, review]")
    machine = machine.replace("NEEDING", "warn")
    feedback = "{% for f in findings %}{{ f.item.evidence }}{% endfor %}"
    machine = machine.replace("revise: draft", f'revise: draft, feedback: "{feedback}"')
    assert [p.code for p in desk.problems(machine) if p.severity == "error"] == ["may-be-missing"]
