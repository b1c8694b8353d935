"""What an author is told of a rejection: what names the defect, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopkit.engine.findings import Report
from tests.machines import loop
from tests.support import PASS, Desk, Played, fails, listed, scenario, warns

MACHINE = loop(
    "BY",
    {"valid": "accepted", "incomplete": "unjudged"},
    "{revise: draft}",
    "{target: asked}",
    top="""
limits: {revisions: 1}
agents: {author: {command: [none]}, critic: {model: some/model}}
validators:
  review: RULE
""",
    ends="""
asked: {human: Take it?, show: [plan, report], choices: [yes], next: exhausted}
exhausted: {final: failure}
""",
)


def play(
    desk: Desk, *critic: Any, rule: str = "{judge: critic}", by: str = "[review]", **parts: Any
) -> Played:
    """A run of at most two attempts, with a person at its end."""
    plans = parts.pop("plans", ["plan 1", "plan 2"])
    script = scenario(agents={"author": plans, "critic": list(critic)}, **parts)
    return desk.play(MACHINE.replace("RULE", rule).replace("BY", by), script)


def messages(report: Report) -> list[str]:
    return [finding.message for finding in report.findings]


def told(played: Played) -> str:
    """The findings in the author's second prompt."""
    return listed(played.prompts("author")[1])


def said(**report: Any) -> dict[str, Any]:
    return {"reply": json.dumps(report)}


# A report that rejects and names nothing

ASSESSED = """
    judge: critic
    reask: 0
    prompt: Judge.
    map:
      verdict: overall_assessment
      verdicts: {PASS: pass, FAIL: fail}
      findings: issues_found
      message: description
      severities: {High: error, Low: warning}
"""
NOISE = {"review_id": "R-12", "reviewer": "J. Doe", "improvement_suggestions": [{"id": "S-1"}]}


def test_a_fail_without_blocking_findings_gives_what_its_map_names(desk: Desk) -> None:
    """S1.20: and not the ids and names that stand in a report as well."""
    milder = {"issues_found": [{"description": "Two alike.", "severity": "Low"}]}
    rejected = said(**{**NOISE, "overall_assessment": "FAIL", "acyclic": False, **milder})
    played = play(desk, rejected, said(overall_assessment="PASS", issues_found=[]), rule=ASSESSED)
    assert told(played) == "- Two alike. (severity `Low`)"


@pytest.mark.parametrize(
    "report",
    [
        {},
        {"automated_checks": {"has_goal": True, "acyclic": False}},
        {"checklist": [{"id": "C-1", "status": "Fail"}, {"id": "C-2", "status": "Pass"}]},
    ],
    ids=["nothing", "checks", "checklist"],
)
def test_a_fail_that_lists_nothing_is_for_a_person_who_sees_all_of_it(
    desk: Desk, report: dict[str, Any]
) -> None:
    """S2.31: noise is no feedback; the checks that count are declared in the map."""
    rejected = said(overall_assessment="FAIL", issues_found=[], **NOISE, **report)
    played = play(desk, rejected, rule=ASSESSED)
    assert played.outcome == "unjudged"
    assert len(played.prompts("author")) == 1
    assert '"issues_found" names none' in played.reports[0].reason


def test_the_words_around_a_report_count_where_it_names_nothing(desk: Desk) -> None:
    report = json.dumps({"overall_assessment": "FAIL", "issues_found": []})
    rejected = {"reply": f"The tasks are vague.\n\n{report}"}
    played = play(desk, rejected, said(overall_assessment="PASS", issues_found=[]), rule=ASSESSED)
    assert told(played) == "- The tasks are vague."


# Own words in a text

IN_TEXT = "{judge: critic, reask: 0, verdict: {}}"


def test_own_words_that_are_too_long_keep_the_lines_that_fail(desk: Desk) -> None:
    lines = [f"Line {number} of a long review." for number in range(900)]
    lines[7] = "Task 2: FAIL, it names no file."
    lines[9] = "| Task 3 | fail | it has no criterion |"
    text = "\n".join([*lines, "Verdict: FAIL"])
    [message] = messages(play(desk, text, "Verdict: PASS", rule=IN_TEXT).reports[0])
    assert message.startswith(f"{lines[7]}\n{lines[9]}\n…\nLine ")
    assert message.endswith("Line 899 of a long review.\nVerdict: FAIL")
    assert len(message) < 16_010


def test_a_long_text_in_which_all_lines_fail_gives_no_more_than_fits(desk: Desk) -> None:
    text = "\n".join([*(f"Task {number}: FAIL" for number in range(6_000)), "Verdict: FAIL"])
    [message] = messages(play(desk, text, "Verdict: PASS", rule=IN_TEXT).reports[0])
    assert message.startswith("Task 0: FAIL\nTask 1: FAIL\n")
    assert len(message) < 16_010


@pytest.mark.parametrize("filler", ["", "x" * 3_000 + "\n"])
@pytest.mark.parametrize(
    "met",
    ["- [PASS] The goal is there.", "* **[Pass]** It is short\n  and to the point.",
     "1. [PASS] src/a.py:3: fine"],
)  # fmt: skip
def test_what_passes_never_goes_to_the_author(desk: Desk, met: str, filler: str) -> None:
    """S1.19: also where a fail names nothing, so that its own words have to do."""
    text = f"{filler}{met}\nIt is not good.\n{met}\n\nVerdict: FAIL"
    played = play(desk, text, "Verdict: PASS", rule=IN_TEXT)
    assert told(played).endswith("It is not good.\n\n\n  Verdict: FAIL")
    assert "PASS" not in told(played).upper()
    assert "to the point" not in told(played)


def test_what_a_pattern_of_ones_own_calls_passed_does_not_go_to_the_author_either(
    desk: Desk,
) -> None:
    rule = (
        "{judge: critic, reask: 0, verdict: "
        "{words: {OK: pass, BAD: fail}, findings: '^(?P<severity>OK|BAD) (?P<message>.+)$'}}"
    )
    played = play(desk, "OK the goal\nHm.\nVerdict: BAD", "Verdict: OK", rule=rule)
    assert told(played) == "- Hm.\n  Verdict: BAD"


def test_a_program_that_prints_what_passes_tells_the_author_only_the_rest(desk: Desk) -> None:
    script = "printf '[PASS] a\\n  - [PASS] b\\n[FAIL] c\\n'; exit 1"
    rule = json.dumps({"command": ["sh", "-c", script]})
    played = play(desk, rule=rule)
    assert messages(played.reports[0]) == ["`sh` ended with exit code 1:\n[FAIL] c"]


# The message of a rule

PRINTS = ["sh", "-c", "echo 'a.md:3: no verb'; echo more >&2; exit 1"]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"command": PRINTS, "message": "Wrong."}, "Wrong.\na.md:3: no verb\nmore"),
        ({"command": PRINTS, "message": "Wrong: {{ value }}"}, "Wrong: a.md:3: no verb\nmore"),
        ({"command": PRINTS, "parse": "lines", "message": "Wrong."}, "Wrong.\na.md:3: no verb"),
        (
            {"command": PRINTS, "parse": "lines", "message": "{{ item.line }} is wrong."},
            "3 is wrong.",
        ),
        ({"command": ["false"], "message": "Wrong."}, "Wrong."),
        ({"matches": "never", "message": "Wrong."}, "Wrong."),
    ],
    ids=["exit-code", "with-value", "report", "with-item", "prints-nothing", "no-program"],
)
def test_the_message_of_a_rule_does_not_hide_what_its_program_says(
    desk: Desk, rule: dict[str, Any], message: str
) -> None:
    assert messages(play(desk, rule=json.dumps(rule)).reports[0]) == [message]


DATA_RULES = """
    - {schema: {nodes: [str]}, tolerant: true, code: form}
    - {require: nodes.count > 0, message: There are no nodes.}
    - {acyclic: {nodes: "nodes[]", edges: "edges[]"}, code: circle}
"""


def test_one_answer_that_cannot_be_read_is_one_finding(desk: Desk) -> None:
    """Whichever rules could not be tried on it, of however many validators."""
    both = MACHINE.replace("RULE", f"{DATA_RULES}  again: [{{require: nodes.count > 1}}]")
    both = both.replace("BY", "[review, again]")
    plans = ["no data", "still none", '{"nodes": []}']
    script = scenario(agents={"author": plans, "critic": []})
    played = desk.play(both.replace("{revisions: 1}", "{revisions: 2}"), script)
    first, second, third = played.reports
    assert len(first.findings) == len(second.findings) == 1
    assert [finding.status for finding in second.findings] == ["recurring"]
    # Read at last, each rule finds what it looks for.
    assert "There are no nodes." in messages(third)
    assert len(third.findings) == 2
    assert [finding.status for finding in third.resolved] == ["resolved"]


# Who is paid


@pytest.mark.parametrize(
    ("always", "calls"), [("false", 0), ("true", 1)], ids=["not-paid", "always"]
)
def test_a_judge_is_not_paid_where_a_rule_comes_to_no_verdict(
    desk: Desk, always: str, calls: int
) -> None:
    """The report is incomplete whatever the judge says."""
    by = f"[{{command: [sh, -c, exit 7]}}, {{judge: critic, always: {always}}}]"
    played = play(desk, PASS, by=by)
    assert played.outcome == "unjudged"
    assert len(played.prompts("critic")) == calls


@pytest.mark.parametrize("verdict", ["pass", "warn"])
@pytest.mark.parametrize(
    ("reading", "form"), [("", "json"), (", verdict: {}", "text")], ids=["json", "text"]
)
def test_what_a_rule_makes_a_warning_contradicts_no_verdict_that_lets_pass(
    desk: Desk, verdict: str, reading: str, form: str
) -> None:
    """The judge is not asked again for what its rule decides."""
    finding = {"message": "No goal.", "severity": "error"}
    answer = (
        {"data": {"verdict": verdict, "findings": [finding]}}
        if form == "json"
        else f"- [FAIL] No goal.\nVerdict: {verdict.upper()}"
    )
    played = play(desk, [answer, PASS], rule=f"{{judge: critic, severity: warning{reading}}}")
    assert len(played.prompts("critic")) == 1
    assert played.reports[0].verdict == "warn"
    assert played.outcome == "accepted"


def test_a_judge_that_only_advises_may_fail_and_name_what_it_likes(desk: Desk) -> None:
    rule = "{judge: critic, severity: warning}"
    answer = {"data": {"verdict": "fail", "findings": warns("Long.")["data"]["findings"]}}
    played = play(desk, [answer, PASS], rule=rule)
    assert len(played.prompts("critic")) == 1
    assert (played.reports[0].verdict, messages(played.reports[0])) == ("warn", ["Long."])


def test_a_cap_that_still_blocks_excuses_no_contradiction(desk: Desk) -> None:
    answer = {"data": {"verdict": "pass", "findings": fails("A")["data"]["findings"]}}
    played = play(desk, [answer, fails("A")], PASS, rule="{judge: critic, severity: error}")
    assert "Make the verdict" in played.prompts("critic")[1]


# Events
