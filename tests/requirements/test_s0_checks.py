"""S0, deterministic checks and judges: every line that needs no model."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loopkit.app import App, Script
from loopkit.drive.claimed_runs import StandaloneValidator
from loopkit.engine.findings import Report
from loopkit.language.load import load
from loopkit.scenario.cases import load_scenario
from tests.machines import loop
from tests.support import (
    PASS,
    PLAN_REVIEW,
    Desk,
    fails,
    plan,
    scenario,
)

ISSUE = {"issue": "Exports of one customer starve those of the others."}
JUDGED = loop(
    "RULES",
    {"valid": "accepted"},
    "{target: refused}",
    top=r"""
input: {text: str}
patterns:
  header: '^### Task \d+(\.\d+)?:'
""",
    draft='import: {render: "{{ input.text }}", output: {name: plan, fields: FIELDS}}',
    ends="refused: {final: failure, result: plan}",
    result="plan",
)


def judged(desk: Desk, rules: str, text: str, fields: str = "{}") -> Report:
    """What these rules say about a text."""
    machine = JUDGED.replace("RULES", rules).replace("FIELDS", fields)
    return desk.play(machine, inputs={"text": text}).reports[-1]


def extracted(desk: Desk, fields: str, text: str) -> dict[str, Any]:
    """The fields that are taken out of a text."""
    machine = JUDGED.replace("RULES", "[{min_chars: 0}]").replace("FIELDS", fields)
    played = desk.play(machine, inputs={"text": text})
    return played.state.artifacts["plan"].fields


STRIPPED = "section: Goal, or_title: true, strip: [Plan, Implementation Plan], placeholders: [x y]"


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("# Limit exports Implementation Plan\n\nText.\n", "Limit exports"),
        ("# Limit exports: implementation  PLAN.\n\nText.\n", "Limit exports"),
        ("# Limit exports – Plan\n\nText.\n", "Limit exports"),
        ("# A Workplan\n\nText.\n", "A Workplan"),
        ("# Plan to limit exports\n\nText.\n", "Plan to limit exports"),
        ("# (Re)write exports (phase 1)\n\nText.\n", "(Re)write exports (phase 1)"),
        ("# Implementation Plan\n\nText.\n", None),
        ("# [Feature name]\n\nText.\n", None),
        ("# [Feature name] Implementation Plan\n\nText.\n", None),
        ("# TBD\n\nText.\n", None),
        ("# To do\n\nText.\n", None),
        ("# {{ title }}\n\nText.\n", None),
        ("# …\n\nText.\n", None),
        ("# X  Y\n\nText.\n", None),
        ("# T\n\n## Goal\n\nx y\n", None),
        ("# T\n\n**Goal:** x y\n\n## Goal\n\nLimit exports.\n", "Limit exports."),
        ("# T\n\n## Goal\n\nIt is x y.\n", "It is x y."),
    ],
)
def test_a_title_stands_in_without_its_suffix_and_not_where_it_is_a_placeholder(
    desk: Desk, text: str, goal: str | None
) -> None:
    """S0.25: the field and the rule that judges it are of one mind about each text."""
    fields = f"{{goal: {{{STRIPPED}}}}}"
    report = judged(desk, f"[{{{STRIPPED}}}]", text, fields)
    assert extracted(desk, fields, text) == {"goal": goal}
    assert report.verdict == ("fail" if goal is None else "pass")
    assert all("placeholder" in finding.message for finding in report.findings)


def test_a_check_is_strict_unless_it_says_otherwise(desk: Desk) -> None:
    """S0.26: what falls back everywhere never finds anything."""
    texts = ("# T\n\n**Goal:** Limit exports.\n", "# Limit exports\n\nText.\n", "Text.\n")
    verdicts = [judged(desk, "[{section: Goal}]", text).verdict for text in texts]
    assert verdicts == ["pass", "fail", "fail"]


BOTH = loop(
    "[form, length]",
    {"valid": "accepted"},
    "{target: refused}",
    top="""
agents: {author: {command: [none]}}
validators: {form: [{matches: x}, {section: Goal}], length: [{min_chars: 200}]}
""",
)


def test_checks_stop_at_the_first_validator_that_blocks_where_asked_to(desk: Desk) -> None:
    """S0.28: `stop: first`; within a validator all findings are still collected."""
    script = scenario(agents={"author": ["a title"]})
    stopping = desk.play(BOTH.replace("by:", "stop: first\n    by:"), script)
    assert [f.validator for f in stopping.reports[0].findings] == ["form", "form"]
    collecting = desk.play(BOTH, script)
    assert [f.validator for f in collecting.reports[0].findings] == ["form", "form", "length"]


IN_CODE = "### Task 1: a\n\n```\n### Task 2: b\n```\n\n- item\n\n      ### Task 3: c\n"


@pytest.mark.parametrize("outside_code", ["true", "false"])
@pytest.mark.parametrize(
    "text",
    ["### Task 1: a\n### Task 2: b\n", "### Task 1: a\n", "### Task 1.2: a\n", "", IN_CODE,
     plan("headers_in_code_only"), plan("good")],
)  # fmt: skip
def test_validator_and_extraction_share_one_pattern(
    desk: Desk, text: str, outside_code: str
) -> None:
    """S0.29: whatever the name stands for, both find the same headers, code or no code."""
    same = f"outside_code: {outside_code}"
    fields = f"{{tasks: {{count: header, {same}}}, names: {{all: header, {same}}}}}"
    found = extracted(desk, fields, text)
    number = found["tasks"]
    assert len(found["names"]) == len(set(found["names"])) <= number
    exactly = f"[{{matches: header, {same}, count: {{min: {number}, max: {number}}}}}]"
    assert judged(desk, exactly, text).verdict == "pass"
    one_more = f"[{{matches: header, {same}, count: {{min: {number + 1}}}}}]"
    assert judged(desk, one_more, text).verdict == "fail"


def test_headers_in_code_are_not_counted_where_code_does_not_count(desk: Desk) -> None:
    """S0.29 and S0.24: the field as well as the rule."""
    fields = "{all_of_them: {count: header}, tasks: {count: header, outside_code: true}}"
    assert extracted(desk, fields, IN_CODE) == {"all_of_them": 2, "tasks": 1}
    listed = "{names: {all: header, outside_code: true}}"
    assert extracted(desk, listed, IN_CODE) == {"names": ["### Task 1:"]}


def test_a_judge_is_not_asked_about_what_a_rule_refuses(desk: Desk) -> None:
    """S0.34: judges come after the deterministic checks, and are skipped where these fail."""
    script = scenario(agents={"architect": [plan("title_only")], "critic": []})
    played = desk.play(PLAN_REVIEW, script, {**ISSUE, "max_revisions": 0})
    assert played.prompts("critic") == []
    assert [answer.validator for answer in played.reports[0].answers] == ["structure"]


def test_a_judge_that_is_always_asked_is_asked_then_too(desk: Desk) -> None:
    """S0.34: `always: true`."""
    machine = PLAN_REVIEW.read_text(encoding="utf-8").replace(
        "judge: critic", "judge: critic\n    always: true"
    )
    script = scenario(agents={"architect": [plan("title_only")], "critic": [fails("Too short.")]})
    played = desk.play(machine, script, {**ISSUE, "max_revisions": 0})
    assert [finding.validator for finding in played.reports[0].findings][-2:] == [
        "structure",
        "quality",
    ]


def test_a_judge_is_asked_where_a_rule_only_warns(desk: Desk) -> None:
    """S0.34: a warning does not block."""
    machine = PLAN_REVIEW.read_text(encoding="utf-8").replace(
        "{min_chars: 200,", "{severity: warning, min_chars: 20000,"
    )
    script = scenario(agents={"architect": [plan("good")], "critic": [PASS]})
    played = desk.play(machine, script, ISSUE)
    assert len(played.prompts("critic")) == 1
    assert played.reports[0].verdict == "warn"


def alone(desk: Desk, validator: str, text: str, critic: list[Any]) -> Report:
    """What a validator of the plan review machine says when it is used by itself."""

    async def ask() -> Report:
        path = desk.write("alone.yaml", scenario(agents={"critic": critic}))
        alone = StandaloneValidator(load(PLAN_REVIEW), validator)
        async with App.open(None) as app:
            report = await app.judge(
                alone, text, {**ISSUE, "critic": True}, Script(*load_scenario(path))
            )
            # It leaves no run behind: a server judges many.
            assert not list(await app.journal.runs(None, 1))
            return report

    return asyncio.run(ask())


def test_a_check_list_says_the_same_alone_in_a_run_and_at_import(desk: Desk) -> None:
    """S0.35: stand-alone, after the author, and for an external plan."""
    text = plan("title_only")
    script = scenario(agents={"architect": [text], "critic": []})
    in_a_run = desk.play(PLAN_REVIEW, script, {**ISSUE, "max_revisions": 0})
    given = {**ISSUE, "external_plan": text, "max_revisions": 0}
    at_import = desk.play(PLAN_REVIEW, script, given)
    reports = [alone(desk, "structure", text, []), in_a_run.reports[0], at_import.reports[0]]
    found = [[(f.id, f.message, f.line) for f in report.findings] for report in reports]
    assert found[0] == found[1] == found[2] != []


FENCED = """
loopkit: 1
input: {text: str, file: {type: str, default: ''}}
agents: {author: {command: [none]}}
states:
  draft: {agent: author, prompt: Write., output: {name: plan, fence: strip, fields: {n: {count: x}}}, next: judge}
  judge: {validate: plan, by: [{not_matches: '```'}], transitions: [{guard: valid, target: copy}, {target: refused}]}
  copy: {render: "Here:\\n```\\n{{ plan }}\\n```\\n", output: {name: copied, fence: strip}, next: show}
  show: {run: [printf, "%s", "Out: ```sh\\n{{ plan }}\\n```"], output: {name: shown, fence: strip}, next: done}
  done: {final: success, result: [plan, copied]}
  refused: {final: failure, result: plan}
"""  # noqa: E501


@pytest.mark.parametrize(
    ("reply", "artifact"),
    [
        ("Here it is:\n\n```python\nx = 1\n\n  y\n```\nBye.", "x = 1\n\n  y"),
        ("x = 1", "x = 1"),
        ("~~~\nx\n~~~", "x"),
        ("````md\n```\nx\n```\n````", "```\nx\n```"),
        ("```\nx\n```\nand\n```\ny\n```", "```\nx\n```\nand\n```\ny\n```"),
        ("a ``` x", "a ``` x"),
    ],
)
def test_the_artifact_is_what_stands_in_the_only_fence(
    desk: Desk, reply: str, artifact: str
) -> None:
    """`fence: strip`, of replies, templates and commands; several fences are part of the text."""
    played = desk.play(FENCED, scenario(agents={"author": [reply]}), {"text": ""})
    plan = played.state.artifacts["plan"]
    assert plan.text == artifact
    assert plan.fields == {"n": artifact.count("x")}
    if "```" not in artifact:
        assert played.result == {"plan": artifact, "copied": artifact}


def test_an_empty_fence_is_an_empty_answer(desk: Desk) -> None:
    played = desk.play(FENCED, scenario(agents={"author": ["Here:\n```\n\n```\n"]}), {"text": ""})
    assert [finding.code for finding in played.reports[0].findings] == ["empty"]
