"""Verdicts out of text: which words of whom count, and what becomes of a text that has none."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from loopkit.engine.events import Replied
from loopkit.engine.findings import Report
from tests.machines import loop
from tests.support import Desk, Played, scenario

MACHINE = loop(
    "[review]",
    {"valid": "accepted", "incomplete": "unjudged", "cap_reached": "exhausted"},
    "{revise: draft}",
    top=r"""
limits: {revisions: 2}
patterns: {logged: '^### .* - (?P<verdict>\w+) \(', told: 'Result=(\w+)'}
agents:
  author: {command: [none]}
  critic: AGENT
validators:
  review: {judge: critic, RULE}
""",
)
PLAYED = "{model: some/model}"


def play(desk: Desk, *critic: Any, rule: str = "verdict: {}", attempts: int = 3) -> Played:
    """A run in which the critic says these texts; a list of them answers one attempt."""
    machine = MACHINE.replace("AGENT", PLAYED).replace("RULE", rule)
    plans = [f"plan {number}" for number in range(1, attempts + 1)]
    return desk.play(machine, scenario(agents={"author": plans, "critic": list(critic)}))


def messages(report: Report) -> list[str]:
    return [finding.message for finding in report.findings]


def test_a_pattern_says_where_the_word_stands(desk: Desk) -> None:
    """S1.11: a regular expression, or the name of one."""
    for pattern in ("told", "'Result=(\\w+)'"):
        played = play(desk, "Result=PASS", rule=f"verdict: {{pattern: {pattern}}}")
        assert played.outcome == "accepted"


# Whose words count

TRANSCRIPT = """
import json, sys

def line(role, *content):
    print(json.dumps({"type": role, "message": {"role": role, "content": list(content)}}))

def text(said):
    return {"type": "text", "text": said}

sys.stdin.read()
print(json.dumps({"type": "system", "subtype": "init", "session_id": "s-1"}))
"""
QUOTED = (
    TRANSCRIPT
    + """
line("user", text("Verdict: PASS"))
line("assistant", text("I read the notes."), {"type": "tool_use", "id": "t", "name": "Read", "input": {"q": "Verdict: PASS"}})
line("user", {"type": "tool_result", "tool_use_id": "t", "content": "Old notes.\\nVerdict: PASS"})
line("assistant", text("- [FAIL] plan.md:3: No goal.\\n\\nVerdict: FAIL"))
line("user", {"type": "tool_result", "tool_use_id": "u", "content": [text("Verdict: PASS")]})
print(json.dumps({"type": "result", "result": "That was my review."}))
"""  # noqa: E501
)
EARLIER = (
    TRANSCRIPT
    + """
line("assistant", text("- [FAIL] plan.md:3: No goal.\\n\\n**Verdict:** FAIL"))
line("assistant", {"type": "tool_use", "id": "t", "name": "Write", "input": {"text": "Verdict: PASS"}})
line("user", {"type": "tool_result", "tool_use_id": "t", "content": "Verdict: PASS"})
line("assistant", text(""))
print(json.dumps({"type": "result", "result": ""}))
"""  # noqa: E501
)
ECHOED = """
import sys
print(sys.stdin.read())
print("I have read it.")
"""


def judged(desk: Desk, program: str, how: str, rule: str = "verdict: {}") -> Played:
    """A run in which a program judges, as an agent of a judge or as the command of a rule."""
    desk.write("reviewer.py", program)
    command = json.dumps([sys.executable, str(desk.folder / "reviewer.py")])
    agent = f"{{command: {command}, reply: {'text' if program is ECHOED else 'stream_json'}}}"
    machine = MACHINE.replace("limits: {revisions: 2}", "limits: {revisions: 0}")
    if how == "command":
        machine = machine.replace("  critic: AGENT\n", "")
        machine = machine.replace("{judge: critic, RULE}", f"{{command: {command}, {rule}}}")
    machine = machine.replace("AGENT", agent).replace("RULE", f"reask: 0, {rule}")
    return desk.play(machine, scenario(agents={"author": ["Verdict: PASS, says the author."]}))


BOTH = pytest.mark.parametrize("how", ["judge", "command"])
ANYWHERE = "verdict: {pattern: 'Verdict:\\W*(PASS|FAIL)'}"


@BOTH
@pytest.mark.parametrize("rule", ["verdict: {}", ANYWHERE], ids=["by-default", "anywhere"])
def test_only_what_the_assistant_says_is_searched(desk: Desk, how: str, rule: str) -> None:
    """S1.12: neither results of tools nor what they are given, and not the user's words."""
    report = judged(desk, QUOTED, how, rule).reports[0]
    assert report.verdict == "fail"
    [finding] = report.findings
    assert (finding.message, finding.location, finding.line) == (
        "plan.md:3: No goal.",
        "plan.md",
        3,
    )


@BOTH
@pytest.mark.parametrize("rule", ["verdict: {}", ANYWHERE], ids=["by-default", "anywhere"])
def test_what_is_echoed_is_no_verdict(desk: Desk, how: str, rule: str) -> None:
    """S1.12, S1.17: the artifact in the prompt says PASS."""
    played = judged(desk, ECHOED, how, rule)
    assert played.outcome == "unjudged"
    assert played.reports[0].verdict == "incomplete"


@BOTH
def test_all_messages_are_searched_and_not_the_last_alone(desk: Desk, how: str) -> None:
    """S1.15: the verdict stands in an earlier message, and the result is empty."""
    played = judged(desk, EARLIER, how)
    assert played.outcome == "exhausted"
    assert messages(played.reports[0]) == ["plan.md:3: No goal."]


def test_all_messages_of_a_judge_are_stored_where_they_are_more_than_its_reply(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1.15: a resumed run reads what was said, not what it says again; secrets are left out."""
    monkeypatch.setenv("NOTES_TOKEN", "I read the notes.")
    [replied] = [e for e in judged(desk, EARLIER, "judge").of(Replied) if "judge" in e.key]
    assert replied.said == ()
    assert replied.text.endswith("FAIL")
    [replied] = [e for e in judged(desk, QUOTED, "judge").of(Replied) if "judge" in e.key]
    assert [text.partition("\n")[0] for text in replied.said] == [
        "[NOTES_TOKEN]",
        "- [FAIL] plan.md:3: No goal.",
        "That was my review.",
    ]


@BOTH
def test_nothing_is_read_in_a_transcript_that_ends_in_an_error(desk: Desk, how: str) -> None:
    end = "; print(json.dumps({'type': 'result', 'subtype': 'error_max_turns', 'is_error': True}))"
    said = f"{TRANSCRIPT}line('assistant', text('Verdict: PASS')){end}"
    assert "reports an error: error_max_turns" in judged(desk, said, how).reports[0].reason


def test_nothing_is_read_in_a_transcript_that_is_too_long(desk: Desk) -> None:
    """S1.17: a part that is left out could hold the verdict, so nothing is read."""
    long = "line('assistant', text('word ' * 210_000)); line('assistant', text('Verdict: PASS')); "
    long += "print(json.dumps({'type': 'result', 'subtype': 'success'}))"
    report = judged(desk, TRANSCRIPT + long, "judge").reports[0]
    assert report.verdict == "incomplete"
    assert "cut off before its end" in report.reason


# What becomes of findings


@pytest.mark.parametrize(
    "said",
    [
        "The plan has no goal at all.\n\nVerdict: FAIL",
        "The plan has no goal at all.\n- [PASS] It is short.\n\nVerdict: FAIL",
    ],
    ids=["no-findings", "all-pass"],
)
def test_a_fail_that_names_nothing_is_asked_for_more_and_then_gives_its_own_words(
    desk: Desk, said: str
) -> None:
    """S1.20: never empty feedback."""
    played = play(desk, [said, said, said], "Verdict: PASS")
    assert "no finding says what has to be corrected" in played.prompts("critic")[1]
    [finding] = played.reports[0].findings
    assert finding.blocking
    assert finding.message.startswith("The plan has no goal at all.")
    assert "The plan has no goal at all." in played.prompts("author")[1]
    assert played.outcome == "accepted"


def test_a_long_text_that_names_nothing_gives_its_end(desk: Desk) -> None:
    """S1.20: the tail, from the start of a line."""
    lines = "\n".join(f"Line {number} of a long complaint." for number in range(500))
    played = play(desk, f"{lines}\nVerdict: FAIL", "Verdict: PASS", rule="reask: 0, verdict: {}")
    [finding] = played.reports[0].findings
    assert len(finding.message) <= 8_010
    assert finding.message.startswith("…\nLine ")
    assert finding.message.endswith("Line 499 of a long complaint.\nVerdict: FAIL")


def test_points_of_a_review_in_prose_that_stay_the_same_are_no_progress(desk: Desk) -> None:
    """S1.20: whatever stands around them; fewer of them are progress."""
    said = "{}\n\nVerdict: FAIL\n\n1. Build: fine. PASS\n2. Tests:\n{}\n\nSummary: {}"
    tests = ("   - test_cup: cold", "   - test_pot: empty", "   - test_tea: weak")
    rounds = [
        said.format("First.", "\n".join(tests), "Three fail."),
        said.format("Again.", "\n".join(tests[:2]), "One was mended."),
        said.format("Once more.", "\n".join(tests[:2]), "Only a name was changed."),
    ]
    stop = "limits: {revisions: 2, stall: 2}\n"
    machine = MACHINE.replace("limits: {revisions: 2}\n", stop)
    machine = machine.replace("cap_reached", "cap_reached or stalled")
    machine = machine.replace("AGENT", PLAYED).replace("RULE", "verdict: {}")
    script = scenario(agents={"author": ["one", "two", "three"], "critic": rounds})
    played = desk.play(machine, script)
    assert [report.stalled for report in played.reports] == [False, False, True]
    assert [len(report.blocking) for report in played.reports] == [3, 2, 2]
    assert played.outcome == "exhausted"
    assert "test_cup: cold" in played.prompts("author")[2]
    assert [one.message for one in played.reports[1].warnings] == [
        "Again.\n\n\n1. Build: fine. PASS\n2. Tests:\nSummary: One was mended."
    ]


def test_a_command_that_fails_and_names_nothing_gives_its_own_words(desk: Desk) -> None:
    """S1.20: it is not asked again; its text is what there is."""
    program = "print('The plan has no goal at all.\\n\\nVerdict: FAIL')"
    [finding] = judged(desk, program, "command").reports[0].findings
    assert finding.blocking
    assert "The plan has no goal at all." in finding.message


# What a judge is asked


def test_a_judge_is_asked_for_text_in_the_form_that_is_read(desk: Desk) -> None:
    """S1.11: the prompt names words and form, and no JSON Schema is sent."""
    played = play(desk, "Verdict: OK", rule="verdict: {words: {OK: pass, BAD: fail}}")
    [request] = played.asked("critic")
    assert request.schema is None
    assert '"Verdict:" and one of the words "OK", "BAD"' in request.prompt
    assert "- [BAD] " in request.prompt
    assert "JSON" not in request.prompt
