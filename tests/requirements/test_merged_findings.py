"""S2.26: a panel of specialists whose findings are merged by key, the worst severity counting."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopkit.engine.macrostep import Engine
from loopkit.language.load import load
from loopkit.machine.program import Program
from loopkit.testing import load_suite, run_case
from loopkit.views.console import lines
from loopkit.views.review import review
from tests.machines import loop
from tests.support import PASS, Desk, Played, progress_of, scenario

MACHINE = loop(
    "[security, speed]",
    {"valid": "done", "cap_reached or stalled": "asked"},
    "{revise: draft, max: 3, feedback: FEEDBACK}",
    top="""
severities: [critical, high, medium, low]
blocking: high
agents:
  writer: {model: some/model}
  one: {model: some/one, retry: {attempts: 1}}
  two: {model: some/two, retry: {attempts: 1}}
validators:
  security: {judge: one, rubric: [It is safe.]}
  speed: {judge: two, rubric: [It is fast.]}
""",
    draft="draft: {agent: writer, prompt: Write., output: plan}",
    judge="check",
    state="merge: key",
    ends="asked: {human: Accept it?, show: [plan, report], choices: [yes_, no_], next: done}",
    result="plan",
)
FEEDBACK = (
    "\"{% for f in findings %}{{ f.key }}: {{ f.message }} ({{ f.reviewers | join(', ') }}) "
    '{% endfor %}"'
)
PLANS = ["plan 1", "plan 2", "plan 3", "plan 4"]


def found(*findings: tuple[str, str, str], known: Any = None) -> dict[str, Any]:
    listed = [{"key": k, "severity": s, "message": m} for k, s, m in findings]
    severe = any(severity in ("critical", "high") for _, severity, _ in findings)
    severe = severe or "open" in (known or {}).values()
    said = {"verdict": "fail" if severe else "warn", "findings": listed}
    return {"data": said if known is None else {**said, "known": known}}


def play(desk: Desk, one: list[Any], two: list[Any], machine: str = MACHINE) -> Played:
    script = scenario(agents={"writer": PLANS, "one": one, "two": two})
    return desk.play(machine.replace("FEEDBACK", FEEDBACK), script)


def told(played: Played) -> list[list[tuple[str, str, str, tuple[str, ...]]]]:
    return [
        [(f.key, f.severity, f.status, f.named_by) for f in report.findings]
        for report in played.reports
    ]


BOTH = ("security", "speed")


def test_one_key_is_one_finding_of_the_worst_severity_with_all_names(desk: Desk) -> None:
    one = [found(("loop", "medium", "A loop."), ("key", "high", "A secret.")), PASS]
    two = [found(("Loop ", "critical", "It never ends."), ("io", "low", "Slow.")), PASS]
    played = play(desk, one, two)
    assert told(played)[0] == [
        ("Loop", "critical", "new", BOTH),
        ("key", "high", "new", ("security",)),
        ("io", "low", "new", ("speed",)),
    ]
    assert (
        played.prompts("writer")[1]
        .rstrip()
        .endswith("Loop: It never ends. (security, speed) key: A secret. (security)")
    )
    # What each of them said stays in the report.
    assert [len(answer.findings) for answer in played.reports[0].answers] == [2, 2]
    assert played.outcome == "done"


def test_it_is_the_same_finding_whoever_names_it_in_which_round(desk: Desk) -> None:
    one = [found(("loop", "high", "A loop.")), PASS, found(("loop", "high", "Again.")), PASS]
    two = [PASS, found(("loop", "high", "It never ends.")), PASS, PASS]
    played = play(desk, one, two, MACHINE.replace("cap_reached or stalled", "cap_reached"))
    assert told(played)[:3] == [
        [("loop", "high", "new", ("security",))],
        [("loop", "high", "recurring", ("speed",))],
        [("loop", "high", "recurring", ("security",))],
    ]
    assert len({report.findings[0].id for report in played.reports[:3]}) == 1


def test_it_settles_only_where_no_judge_knew_it(desk: Desk) -> None:
    one = [found(("loop", "high", "A loop.")), found(("other", "high", "New.")), PASS]
    two = [PASS, found(("loop", "high", "It never ends.")), PASS]
    played = play(desk, one, two, MACHINE.replace("merge: key", "merge: key\n    settle_after: 1"))
    blocking = [{f.key: f.blocking for f in report.findings} for report in played.reports]
    assert blocking[:2] == [{"loop": True}, {"loop": True, "other": False}]


def test_it_is_resolved_when_all_who_named_it_have_looked(desk: Desk) -> None:
    """X.7: a judge that is missing says nothing of it."""
    down = {"fault": "authentication"}
    bad = found(("loop", "high", "A loop."))
    machine = MACHINE.replace("merge: key", "merge: key\n    quorum: 1\n    block: low")
    one = [bad, down, PASS]
    two = [bad, found(("io", "low", "Slow.")), PASS]
    played = play(desk, one, two, machine)
    assert [[f.key for f in report.unseen] for report in played.reports] == [[], ["loop"], []]
    assert {f.key for f in played.reports[2].resolved} == {"loop", "io"}
    assert played.reports[1].unseen[0].reviewers == BOTH


def test_each_who_named_it_is_asked_and_one_who_says_open_is_enough(desk: Desk) -> None:
    bad = found(("loop", "high", "A loop."))
    first = play(desk, [bad, PASS], [bad, PASS]).reports[0].findings[0].id
    one = [bad, found(("io", "low", "Slow."), known={first: "resolved"}), PASS]
    two = [bad, found(known={first: "open"}), PASS]
    played = play(desk, one, two)
    assert all(f'"id": "{first}"' in played.prompts(name)[1] for name in ("one", "two"))
    assert told(played)[1] == [
        ("loop", "high", "recurring", ("speed",)),
        ("io", "low", "new", ("security",)),
    ]


def test_without_merge_each_judge_has_its_own_finding(desk: Desk) -> None:
    bad = found(("loop", "high", "A loop."))
    played = play(desk, [bad, PASS], [bad, PASS], MACHINE.replace("    merge: key\n", ""))
    assert [f.named_by for f in played.reports[0].findings] == [("security",), ("speed",)]


def test_judges_in_our_form_are_asked_for_a_key_where_it_merges(desk: Desk) -> None:
    merging = play(desk, [PASS], [PASS])
    plain = play(desk, [PASS], [PASS], MACHINE.replace("    merge: key\n", ""))
    [asked], [unasked] = merging.asked("one"), plain.asked("one")
    assert '"key": "short name"' in asked.prompt
    assert '"key"' not in unasked.prompt
    assert asked.schema is not None
    finding = asked.schema["properties"]["findings"]["items"]
    assert finding["properties"]["key"] == {"type": ["string", "null"]}
    assert "key" in finding["required"]


def test_maps_and_texts_merge_with_our_form(desk: Desk) -> None:
    machine = MACHINE.replace(
        "{judge: one, rubric: [It is safe.]}",
        "{judge: one, prompt: Safe?, map: {findings: issues, key: id, severity: level}}",
    ).replace(
        "{judge: two, rubric: [It is fast.]}",
        "{judge: two, verdict: {findings: '^- \\[(?P<severity>\\w+)\\] (?P<key>\\w+): "
        "(?P<message>.+)$'}}",
    )
    issue = {"id": "loop", "level": "medium", "message": "A loop."}
    one = [
        {"data": {"verdict": "warn", "issues": [issue]}},
        {"data": {"verdict": "pass", "issues": []}},
    ]
    two = ["- [high] loop: It never ends.\n\nVerdict: FAIL", "Verdict: PASS"]
    played = play(desk, one, two, machine)
    assert told(played)[0] == [("loop", "high", "new", BOTH)]
    assert played.outcome == "done"


def test_who_is_asked_sees_all_names(desk: Desk) -> None:
    bad = found(("loop", "high", "A loop."))
    played = play(desk, [bad], [bad], MACHINE.replace("max: 3", "max: 0"))
    program = Program(load(desk.folder / "machine.yaml").machine, "digest")
    assert "- high: A loop. (found by security, speed)" in review(Engine(program), played.state)
    progress = progress_of(played.stored)
    shown = [line.text for stored in played.stored for line in lines(progress, stored)]
    assert any("- high: A loop. (found by security, speed)" in text for text in shown)


@pytest.mark.parametrize(("validator", "passes"), [("security", 1), ("speed", 1), ("form", 0)])
def test_a_case_finds_a_merged_finding_by_each_of_its_names(
    desk: Desk, validator: str, passes: int
) -> None:
    bad = found(("loop", "high", "A loop."))
    script = {"writer": PLANS[:2], "one": [bad, PASS], "two": [bad, PASS]}
    machine = MACHINE.replace("FEEDBACK", FEEDBACK)
    machine = machine.replace("validators:", "validators:\n  form: [{min_chars: 1}]")
    desk.write("machine.yaml", machine.replace("[security, speed]", "[form, security, speed]"))
    case = {"agents": script, "expect": {"findings": [{"validator": validator, "message": "A l"}]}}
    cases = {"scenario": 1, "machine": "machine.yaml", "cases": {"it": case}}
    suite = load_suite(desk.write("machine.scenario.yaml", json.dumps(cases)))
    assert run_case(suite, "it").passed == bool(passes)
