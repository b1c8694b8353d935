"""S0, artifacts: every line that needs no model."""

from __future__ import annotations

from typing import Any

import pytest

from loopkit.engine.events import Replied
from tests.machines import loop
from tests.support import Desk, scenario

FILED = loop(
    "[{min_chars: 20}]",
    {"valid": "accepted", "cap_reached": "exhausted"},
    "{revise: draft}",
    top="""
input: {folder: {type: str, default: work}, file: {type: str, default: docs/plan.md}}
limits: {revisions: 1}
agents: {author: {command: [none]}}
workspace: {path: "{{ input.folder }}", create: true}
""",
    draft="draft: {agent: author, prompt: Write., "
    'output: {name: plan, file: "{{ input.file }}"ELSE}}',
    ends="exhausted: {final: failure, result: plan}",
    result="plan",
)
STRICT = FILED.replace("ELSE", "")
GOOD = "Long enough to be taken for a plan.\n"


def writes(text: str, path: str = "docs/plan.md") -> dict[str, Any]:
    return {"reply": "I wrote it.", "files": {path: text}}


def test_the_artifact_is_the_file_that_the_input_names(desk: Desk) -> None:
    """S0.41: path pattern from the run's input; folders are made."""
    played = desk.play(
        STRICT,
        scenario(agents={"author": [writes(GOOD, "plans/a.md")]}),
        {"folder": "issue_7/out", "file": "plans/a.md"},
    )
    assert played.result == {"plan": GOOD}
    assert (desk.folder / "issue_7/out/plans/a.md").read_text(encoding="utf-8") == GOOD


@pytest.mark.parametrize(
    "given",
    [
        {"file": "../plan.md"},
        {"file": "/srv/plan.md"},
        {"folder": "../elsewhere"},
        {"folder": "/srv"},
        {"file": "a/../../plan.md"},
        {"file": "way_out/plan.md"},
    ],
    ids=["up", "absolute", "folder-up", "folder-absolute", "up-in-the-middle", "symbolic-link"],
)
def test_a_path_that_leaves_the_workspace_is_refused_before_anybody_is_asked(
    desk: Desk, given: dict[str, str]
) -> None:
    """S0.41: confined to the workspace, traversal rejected."""
    outside = desk.folder.parent / f"{desk.folder.name}_outside"
    outside.mkdir()
    (desk.folder / "work").mkdir()
    (desk.folder / "work/way_out").symlink_to(outside)
    played = desk.play(STRICT, scenario(agents={"author": [writes(GOOD)]}), given)
    assert played.state.suspended is not None
    assert played.state.suspended.reason == "fatal"
    assert next(iter(given.values())) in played.state.suspended.message
    assert played.requests == []
    assert list(outside.iterdir()) == []


def test_a_link_that_the_attempt_puts_there_leads_nowhere_either(desk: Desk) -> None:
    """S0.41: an author cannot make somebody else's file its artifact."""
    desk.write("secret", "The secret is long enough for a plan.")
    machine = STRICT.replace("[none]", "[sh, -c, 'ln -s ../../secret docs/plan.md; echo done']")
    played = desk.play(machine)
    assert "secret is long" not in str(played.events)
    assert played.reports[0].findings[0].code == "missing"
    assert "symlink" in played.reports[0].findings[0].message


def test_a_file_of_an_earlier_attempt_is_not_taken_for_a_new_one(desk: Desk) -> None:
    """S0.43, S0.32: an author who says nothing does not submit the stale plan again."""
    played = desk.play(
        STRICT, scenario(agents={"author": [writes("short"), {"reply": "Done, it is there!"}]})
    )
    assert played.outcome == "exhausted"
    assert played.reports[1].findings[0].code == "missing"
    assert played.state.artifacts["plan"].text == ""


def test_a_file_that_was_there_before_the_run_is_not_taken_either(desk: Desk) -> None:
    """S0.43: "file exists" means "written in this attempt"."""
    desk.write("work/docs/plan.md", GOOD)
    played = desk.play(STRICT, scenario(agents={"author": [{"reply": "Done."}, writes("short")]}))
    assert [report.findings[0].code for report in played.reports] == ["missing", ""]
    assert "docs/plan.md was not written in this attempt" in played.prompts("author")[1]


def test_without_a_file_the_reply_is_the_artifact_only_where_that_is_written(desk: Desk) -> None:
    """S0.32: `else: reply`; the stale file is ignored there, too."""
    lenient = FILED.replace("ELSE", ", else: reply")
    played = desk.play(lenient, scenario(agents={"author": [writes("short"), GOOD]}))
    assert played.result == {"plan": GOOD}


FILE = ', file: "{{ input.file }}"'
LOOP = "The tide.\n\nIt comes.\n" * 30 + "The ti"
WHOLE = loop(
    '[{require: title != ""}]',
    {"valid": "accepted", "cap_reached": "exhausted"},
    "{revise: draft}",
    top="""
agents: {author: {command: [none], schema: {title: str}}}
limits: {revisions: 1}
""",
    result="plan",
)


@pytest.mark.parametrize(
    ("call", "code", "told"),
    [
        ("", "empty", "- the answer is empty"),
        ("   \n\t\n", "empty", "- the answer is empty"),
        ({"reply": '{"title": "A', "cut_off": True}, "cut-off", "- the answer was cut off"),
        ({"reply": '{"a": "' + LOOP, "cut_off": True}, "loops", "- the answer says the same"),
        ("Here it is!", "not-json", "- the answer is not JSON"),
        ('{"titel": "A"}', "schema", "- `title` is missing"),
        ('{"title": NaN}', "not-json", "- the answer is not JSON"),
    ],
    ids=["empty", "blank", "cut-off", "loop", "prose", "schema", "nan"],
)
def test_an_unusable_answer_enters_the_loop(desk: Desk, call: Any, code: str, told: str) -> None:
    """S0.46: missing, empty, unparseable: a content error with a finding, no end of the run."""
    good = {"data": {"title": "A"}}
    played = desk.play(WHOLE, scenario(agents={"author": [call, good]}))
    assert played.reports[0].findings[0].code == code
    assert told in played.prompts("author")[1]
    assert played.prompts("author")[1].count("The tide") <= 1
    assert played.result == {"plan": {"title": "A"}}


def test_what_is_kept_of_a_loop_is_its_first_round(desk: Desk) -> None:
    """What was said 20 times is no artifact; a list of things that are alike is one."""
    rows = "| a | b |\n|---|---|\n" + "|   |   |\n" * 40
    machine = FILED.replace("ELSE", ", else: reply")
    played = desk.play(machine, scenario(agents={"author": [f"Well:\n{LOOP}", GOOD + rows]}))
    assert played.of(Replied)[0].text == "Well:\nThe tide.\n\nIt comes."
    assert played.of(Replied)[0].raw == f"Well:\n{LOOP}"
    assert played.result == {"plan": GOOD + rows}


@pytest.mark.parametrize(
    ("text", "keys", "plan"),
    [
        ("\n```markdown\n# A plan\n\nIt is long.\n```\n", "", "# A plan\n\nIt is long."),
        ("~~~\n```\nmake\n```\n~~~", "", "```\nmake\n```"),
        ("```\nmake\n```", ", fence: keep", None),
        ("Do this:\n```\nmake\n```", "", None),
        ("```\nmake\n```\nthen\n```\nrun\n```", "", None),
        ("```\nmake\nand so on", "", None),
    ],
)
def test_an_answer_loses_the_fence_around_the_whole_of_it(
    desk: Desk, text: str, keys: str, plan: str | None
) -> None:
    machine = STRICT.replace("{min_chars: 20}", "{min_chars: 1}").replace(FILE, keys)
    played = desk.play(machine, scenario(agents={"author": [text]}))
    assert played.result == {"plan": text if plan is None else plan}


@pytest.mark.parametrize("data", [b"\xff\xfe broken \xc3", b"plan\0plan" * 10])
def test_a_file_that_is_no_text_enters_the_loop(desk: Desk, data: bytes) -> None:
    """S0.46: unreadable is a finding, too."""
    (desk.folder / "bytes").write_bytes(data)
    machine = STRICT.replace("[none]", "[sh, -c, 'cp ../bytes docs/plan.md; echo done']")
    played = desk.play(machine)
    assert played.outcome == "exhausted"
    assert [report.findings[0].code for report in played.reports] == ["missing", "missing"]
    assert "docs/plan.md" in played.prompts("author")[1]
