"""Checks that change what they judge: what counts is what is on the disk in the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loopkit.cli import invoke
from loopkit.engine.events import Reread
from loopkit.views.steps import Steps
from tests.crash.points import SAME, killed_at_points
from tests.support import Desk, Played, console_lines, scenario

MACHINE = """
loopkit: 1
agents:
  w: {command: WRITES, on_in_doubt: retry}
  reader: {command: READS, on_in_doubt: retry}
states:
  draft:
    agent: w
    prompt: Write.
    output: {name: post, file: post.mdFIELDS}
    next: check
  check:
    validate: post
    by: BY
    transitions: [{guard: valid, target: tell}, {revise: draft, max: 1}, {target: failed}]
  tell: {render: "{{ post.first }}|{{ post }}", next: ask}
  ask: {human: "Publish {{ post }}?", show: post, choices: [yes], transitions: [{target: done}]}
  done: {final: success, result: [post, tell]}
  failed: {final: failure, result: post}
"""
WRITES = json.dumps(["sh", "-c", "printf 'green  tea' >post.md"])
FIELDS = ", fields: {first: {match: '^\\S+'}}"
SED = '{command: [sed, -i, "s/  / /; s/green/mint/", post.md]}'
ONE_BLANK = "{not_matches: '  '}"


def machine(by: str, writes: str = WRITES, reads: str = "[none]") -> str:
    text = MACHINE.replace("BY", by).replace("WRITES", writes).replace("READS", reads)
    return text.replace("FIELDS", FIELDS)


def play(desk: Desk, text: str) -> Played:
    return desk.play(text, scenario(answers={"ask": ["yes"]}))


def suspended(run: Played) -> str:
    assert run.state.suspended is not None
    assert run.state.suspended.reason == "fatal"
    return run.state.suspended.message


@pytest.mark.parametrize("by", [f"[{SED}, {ONE_BLANK}]", f"[{ONE_BLANK}, {SED}]"])
def test_what_a_check_has_mended_is_judged_shown_stored_and_delivered(desk: Desk, by: str) -> None:
    run = play(desk, machine(by))
    assert run.result == {"post": "mint tea", "tell": "mint|mint tea"}
    assert (desk.folder / "post.md").read_text() == "mint tea"
    assert [report.verdict for report in run.reports] == ["pass"]
    assert run.questions[0].text == "Publish mint tea?"
    written, mended = Steps().after(run.stored).versions["post"]
    assert (written.artifact.text, written.report) == ("green  tea", None)
    assert (mended.artifact.text, mended.report) == ("mint tea", run.reports[0])
    assert run.folded.artifacts["post"].text == "mint tea"
    assert any("reads `post` again, which has changed" in line for line in console_lines(run))


def test_a_file_that_no_check_changes_stays_one_version(desk: Desk) -> None:
    run = play(desk, machine("[{command: [grep, -q, tea, post.md]}]"))
    assert (run.outcome, run.of(Reread), run.state.artifacts["post"].version) == ("done", [], 1)


def test_what_another_state_has_changed_meanwhile_is_judged(desk: Desk) -> None:
    text = machine(f"[{ONE_BLANK}]").replace("    next: check", "    next: mend")
    mend = f"  mend: {{run: {SED[10:-1]}, next: check}}\n  check:\n"
    assert play(desk, text.replace("  check:\n", mend)).result["post"] == "mint tea"


def test_what_a_template_wrote_and_a_check_mends_is_judged(desk: Desk) -> None:
    text = machine(f"[{SED}]").replace("agent: w\n    prompt: Write.", "render: 'green  tea'")
    assert play(desk, text).result["post"] == "mint tea"


def test_data_in_a_file_is_read_again_as_data(desk: Desk) -> None:
    writes = json.dumps(["sh", "-c", """printf '{"cups": 1}' >post.md"""])
    text = machine("[{command: [sed, -i, s/1/2/, post.md]}, {require: cups == 2}]", writes)
    text = text.replace("on_in_doubt: retry}", "schema: {cups: int}}", 1)
    text = text.replace(FIELDS, "").replace("post.first", "post.cups")
    assert play(desk, text).result["post"] == {"cups": 2}


ADDS = '{command: [sh, -c, "echo x >>post.md"]}'


@pytest.mark.parametrize("rule", [ADDS, "{python: 'plug:more'}"])
def test_who_changes_it_each_time_gives_no_verdict_and_is_named(desk: Desk, rule: str) -> None:
    desk.write("plug.py", "def more(*_):\n    open('post.md', 'a').write('x')\n    return []\n")
    run = play(desk, machine(f"[{{matches: tea}}, {rule}]"))
    assert suspended(run).startswith("incomplete: by[1]: file 'post.md' was changed while")
    assert run.state.artifacts["post"].text == (desk.folder / "post.md").read_text()


@pytest.mark.parametrize(
    ("does", "words"),
    [
        ("rm post.md", "does not exist"),
        ("truncate -s 20 post.md", "is binary"),
        ("rm post.md; ln -s /etc/passwd post.md", "is a symlink now"),
    ],
)
def test_what_cannot_be_read_after_its_check_ends_the_step(
    desk: Desk, does: str, words: str
) -> None:
    run = play(desk, machine(f'[{{command: [sh, -c, "{does}"]}}]'))
    assert words in suspended(run)
    assert "root:" not in json.dumps([event.plain() for event in run.events])


def test_a_judge_that_changes_what_it_judges_has_not_judged_what_is_left(tmp_path: Path) -> None:
    desk = Desk(tmp_path, in_memory=False)
    says = (
        """sed -i s/green/mint/ post.md; echo >>asked; echo '{"verdict": "pass", "findings": []}'"""
    )
    run = play(desk, machine("[{judge: reader}]", reads=json.dumps(["sh", "-c", says])))
    assert suspended(run).startswith("incomplete: by[0]: file 'post.md' was changed while")
    assert desk.resume(run.state.run).result["post"] == "mint  tea"
    assert len((desk.folder / "asked").read_text()) == 2


def test_a_folder_that_a_check_mends_is_judged_as_it_is_left(desk: Desk) -> None:
    desk.write("src/post.md", "old\n")
    writes = json.dumps(["sh", "-c", "echo 'green  tea' >src/post.md"])
    text = machine(f"[{SED.replace('post.md', 'src/post.md')}, {{not_matches: green}}]", writes)
    text = text.replace(f"file: post.md{FIELDS}", "folder: src")
    run = play(desk, text.replace("post.first", "post.files[0]"))
    assert run.result["post"].endswith("-old\n+mint tea\n")
    assert run.result["tell"].startswith("src/post.md|diff --git a/src/post.md b/src/post.md")


def test_the_text_of_a_person_is_in_no_file_and_stays(desk: Desk) -> None:
    text = machine("[{matches: tea}]").replace("show: post", "edit: post")
    text = text.replace("{target: done}", "{target: last}")
    text = text.replace("  done:", f"  last: {{validate: post, by: [{SED}], next: done}}\n  done:")
    answer: Any = {"ask": [{"choice": "yes", "edit": "My own tea."}]}
    assert desk.play(text, scenario(answers=answer)).result["post"] == "My own tea."


def test_the_same_is_decided_wherever_the_process_is_killed(tmp_path: Path) -> None:
    text = machine(f"[{SED}, {ONE_BLANK}]").replace("next: ask", "next: done")
    told = killed_at_points(tmp_path, text)
    assert told[0]["result"] == {"post": "mint tea", "tell": "mint|mint tea"}
    begun = [point for point in told[1:] if point["outcome"] is not None]
    assert len(begun) > 5
    for point in begun:
        assert {key: point[key] for key in SAME} == {key: told[0][key] for key in SAME}, point


def test_a_recording_writes_what_a_check_has_mended(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(desk.folder)
    lines = machine(f"[{SED}]").replace("next: ask", "next: done").splitlines(keepends=True)
    desk.write("m.yaml", "".join(line for line in lines if "human:" not in line))
    assert invoke(["run", "m.yaml", "--record", "m.scenario.yaml"]) == 0
    assert "; it passes" in capsys.readouterr().err


RESTORED = """
loopkit: 1
workspace: {path: ., isolate: copy}
agents: {w: {command: [sh, -c, "echo x >>n; echo tea, $(wc -l <n) >src/post.md"]}}
states:
  draft: {agent: w, prompt: Write., output: {name: post, folder: src}, next: check}
  check:
    validate: post
    by: [{command: [grep, -q, '1', src/post.md]}, {matches: never}]
    transitions: [{guard: valid, target: done}, {revise: draft, max: 1}, {target: ask}]
  ask: {human: Which?, show: post, pick: best, choices: [yes], transitions: [{target: last}]}
  last: {validate: post, by: [{command: [sed, -i, s/tea/mint/, src/post.md]}], next: done}
  done: {final: success, result: post}
"""


def test_a_folder_that_was_restored_is_read_again_too(desk: Desk) -> None:
    desk.write("src/post.md", "")
    assert play(desk, RESTORED).result["post"].endswith("+mint, 1\n")


def test_the_report_of_a_rule_is_no_change_of_the_folder(desk: Desk) -> None:
    desk.write("src/post.md", "")
    report = """echo '{"verdict": "pass", "findings": []}' >src/out.json"""
    rule = json.dumps(["sh", "-c", report])
    by = f"by: [{{command: {rule}, parse: report, file: src/out.json}}]"
    text = RESTORED.replace("by: [{command: [sed, -i, s/tea/mint/, src/post.md]}]", by)
    assert play(desk, text).of(Reread) == []
