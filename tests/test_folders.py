"""Folders as artifacts: what an attempt has changed, as judges, people and templates see it."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from loopkit.cli import invoke
from loopkit.engine.events import Suspended
from loopkit.journal.contents import Contents
from loopkit.journal.errors import JournalUnusable
from loopkit.outside.trees import Folder
from tests.crash.points import SAME, killed_at_points
from tests.recording import no_room
from tests.support import PASS, CommandLine, Desk, Played, coding, scenario

FIX = """diff --git a/src/calc.py b/src/calc.py
--- a/src/calc.py
+++ b/src/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a {sign} b
"""


def machine(*does: str, output: str = "folder: src", **parts: str) -> str:
    """A coder whose n-th work is the n-th of some shell scripts, and a check of what it leaves."""
    command = coding(*does)
    by = parts.get("by", "[{command: [grep, -q, 'a + b', src/calc.py], message: It is wrong.}]")
    return f"""
loopkit: 1
agents: {{coder: {{command: {command}, on_in_doubt: retry}}}}
states:
  code:
    agent: coder
    prompt: Repair it.
    output: {{name: fix, {output}}}
    next: test
  test:
    validate: fix
    by: {by}
    transitions:
      - {{guard: valid, target: {parts.get("to", "done")}}}
      - {{guard: stalled, target: stuck}}
      - {{revise: code}}
      - {{target: failed}}
  tell: {{render: "{{{{ fix.files | join(' ') }}}}|{{{{ fix.last_change }}}}", next: done}}
  done: {{final: success, result: fix}}
  stuck: {{final: failure, result: fix}}
  failed: {{final: failure, result: fix}}
""".replace("  tell:", "  tell:" if parts.get("to") == "tell" else "  # tell:")


def says(text: str) -> str:
    return rf"printf 'def add(a, b):\n    return a {text} b\n' > src/calc.py"


@pytest.fixture
def work(desk: Desk, own_folder: Path) -> Desk:
    """A desk with a folder that has a fault."""
    desk.write("src/calc.py", "def add(a, b):\n    return a - b\n")
    return desk


def test_the_artifact_is_the_difference_to_the_state_before_the_first_attempt(work: Desk) -> None:
    run = work.play(machine(says("*"), says("+")))
    assert run.outcome == "done"
    assert run.result == {"fix": FIX.format(sign="+")}
    before, after = (artifact_at(run, n) for n in (1, 2))
    assert before["text"] == FIX.format(sign="*")
    assert before["tree"] != after["tree"]


def artifact_at(run: Played, attempt: int) -> dict[str, Any]:
    made = (e.plain()["artifact"] for e in run.events if e.type == "worked")
    return next(a for a in made if a and a["attempt"] == attempt)


def test_templates_know_what_the_last_attempt_changed_and_in_which_files(work: Desk) -> None:
    new = "mkdir -p src/deep; echo x > 'src/deep/a b'"
    run = work.play(machine(f"{says('*')}; {new}", says("+"), to="tell"))
    files, _, change = run.state.artifacts["tell"].text.partition("|")
    assert files == "src/calc.py src/deep/a b"
    assert "-    return a * b\n+    return a + b" in change
    assert "deep" not in change


def test_the_difference_is_one_that_git_applies(work: Desk, tmp_path: Path) -> None:
    act = "; ".join(
        [
            says("+"),
            "printf 'no end' > src/new",
            "printf 'one' > src/was",
            "rm src/gone",
            "chmod +x src/tool",
            "ln -s calc.py src/link",
            ": > src/empty",
            "rm src/turned; ln -s calc.py src/turned",
        ]
    )
    for name in ("gone", "tool", "was", "turned"):
        work.write(f"src/{name}", "#!/bin/sh\n")
    copy = tmp_path / "copy"
    shutil.copytree(work.folder / "src", copy / "src")
    run = work.play(machine(act))
    subprocess.run(("git", "init", "-q", copy), check=True)
    subprocess.run(("git", "apply", "-"), input=run.result["fix"], cwd=copy, text=True, check=True)
    assert files_of(copy / "src") == files_of(work.folder / "src")


def files_of(folder: Path) -> dict[str, Any]:
    return {
        path.name: (
            path.readlink() if path.is_symlink() else path.read_bytes(),
            path.lstat().st_mode & 0o100,
        )
        for path in folder.iterdir()
    }


def test_a_binary_file_is_named_and_not_shown(work: Desk) -> None:
    run = work.play(machine(rf"{says('+')}; printf '\000secret' > src/data"))
    assert "Binary files /dev/null and b/src/data differ" in run.result["fix"]
    assert "secret" not in run.result["fix"]


def test_what_git_ignores_is_no_part_of_the_folder(work: Desk) -> None:
    subprocess.run(("git", "init", "-q", work.folder), check=True)
    work.write(".gitignore", "*.log\n")
    run = work.play(machine(f"{says('+')}; echo noise > src/run.log"))
    assert run.result == {"fix": FIX.format(sign="+")}


@pytest.mark.parametrize(
    ("output", "rule"),
    [
        ("folder: .", "echo 'src/calc.py:1: bad' | tee out/report.txt; false"),
        ("folder: src, ignore: ['*.fixed', src/log]", "touch src/a.fixed; mkdir src/log; exit 1"),
        ("folder: src", "mkdir -p src/__pycache__; touch src/__pycache__/a.pyc src/b.pyc; exit 1"),
        ("folder: src", "mkdir -p src/node_modules/a; touch src/node_modules/a/b; exit 1"),
    ],
)
def test_what_rules_write_for_themselves_is_no_change_of_the_author(
    work: Desk, output: str, rule: str
) -> None:
    file = ", parse: lines, file: out/report.txt" if "report" in rule else ""
    by = f"[{{command: [sh, -c, {json.dumps(rule)}]{file}}}]"
    run = work.play(machine(says("*"), says("/"), says("+"), output=output, by=by))
    assert run.result["fix"].endswith(FIX.format(sign="+"))
    for text in (run.result["fix"], *run.prompts("coder")):
        assert not re.search(r" b/(out|src/(a\.fixed|log|__pycache__|b\.pyc|node_modules))", text)


def test_a_hard_link_that_was_there_before_the_work_is_no_fault(work: Desk, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("shared\n")
    os.link(tmp_path / "other", work.folder / "src/shared")
    put = f"rm src/shared; ln {tmp_path}/secret src/shared"
    (tmp_path / "secret").write_text("password\n")
    run = work.play(machine(f"{says('*')}; echo more >> src/shared", put, says("+")))
    [first, second, *_] = [report.findings[0].message for report in run.reports]
    assert first == "It is wrong."
    assert "'src/shared' is a hard link to a file outside" in second
    assert "password" not in json.dumps([event.plain() for event in run.events])


def test_a_folder_that_git_ignores_is_an_artifact_all_the_same(work: Desk) -> None:
    subprocess.run(("git", "init", "-q", work.folder), check=True)
    work.write(".gitignore", "src\n")
    assert work.play(machine(says("+"))).result == {"fix": FIX.format(sign="+")}


def test_a_folder_that_is_a_link_before_the_first_attempt_is_refused(work: Desk) -> None:
    (work.folder / "src").rename(work.folder / "real")
    (work.folder / "src").symlink_to("real")
    [suspended] = work.play(machine(says("+"))).of(Suspended)
    assert "'src' leads through a link to" in suspended.message


def test_a_folder_that_an_attempt_made_a_link_is_told_as_a_link_and_mended(
    work: Desk, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "calc.py").write_text("password")
    mend = f"rm src; mkdir src; {says('+')}"
    run = work.play(machine(f"rm -r src; ln -s {outside} src", mend))
    assert run.result == {"fix": FIX.format(sign="+")}
    assert f"+{outside}\n" in artifact_at(run, 1)["text"]
    assert "password" not in json.dumps([event.plain() for event in run.events])


def test_a_repository_inside_the_folder_is_named_and_its_files_are_shown(work: Desk) -> None:
    run = work.play(machine(f"{says('+')}; git init -q src/inner; echo x > src/inner/new"))
    assert run.result["fix"].endswith("Repository src/inner/.git differs\n")
    assert "+++ b/src/inner/new\n" in run.result["fix"]
    assert "HEAD" not in run.result["fix"]


def test_an_attempt_that_changes_nothing_is_a_fault_and_the_author_is_told(work: Desk) -> None:
    run = work.play(machine("true", says("+")))
    assert run.outcome == "done"
    [first, _] = run.reports
    assert [(f.code, f.message) for f in first.findings] == [
        ("missing", "nothing in folder 'src' was changed in this attempt")
    ]


STRONGER = """
loopkit: 1
workspace: {path: ., isolate: copy}
agents: {coder: {command: CODER}, expert: {command: [sh, -c, "cat > .asked; echo Done."]}}
states:
  code: {agent: coder, prompt: Repair it., output: {name: fix, folder: src}, next: test}
  test:
    validate: fix
    by: [{matches: 'a [+] b', message: It is wrong.}]
    transitions: [{guard: valid, target: done}, {target: again}]
  again:
    agent: expert
    prompt: "{{ findings }}"
    output: {name: fix, folder: src}
    next: check
  check:
    validate: fix
    by: [{matches: 'a [+] b', message: It is wrong.}]
    transitions: [{guard: valid, target: done}, {revise: again, max: 1}, {target: ask}]
  ask:
    human: Take it?
    show: fix
    choices: [yes, no]
    transitions: [{guard: choice == "yes", target: done}, {target: failed}]
  done: {final: success, result: fix}
  failed: {final: failure, result: fix, pick: best}
"""


def test_what_a_second_author_leaves_as_it_was_is_judged_and_shown_as_it_is(work: Desk) -> None:
    work.in_memory = False
    run = work.play(STRONGER.replace("CODER", coding(says("*"))))
    assert run.route == ["code", "test", "again", "check", "again", "check", "ask"]
    assert [f.message for f in run.reports[1].findings] == ["It is wrong."]
    assert [f.code for f in run.reports[2].findings] == ["", "repeated"]
    assert run.state.artifacts["fix"].text == FIX.format(sign="*")
    assert "It is wrong." in run.prompts("expert")[1]
    refused = work.answer(run.state.run, "no")
    assert refused.result == {"fix": FIX.format(sign="*")}
    taken = work.play(STRONGER.replace("CODER", coding(says("+"))))
    assert (taken.outcome, taken.result) == ("done", {"fix": FIX.format(sign="+")})


def test_the_same_content_written_again_counts_as_written(work: Desk) -> None:
    run = work.play(machine("touch -d 2020-01-01 src/calc.py", says("+")))
    assert [f.message for f in run.reports[0].findings] == ["It is wrong."]
    assert artifact_at(run, 1)["text"] == ""


def test_with_else_the_reply_is_the_artifact_where_nothing_changed(work: Desk) -> None:
    by = "[{matches: Done}]"
    run = work.play(machine("true", output="folder: src, else: reply", by=by, to="tell"))
    assert run.result == {"fix": "Done.\n"}
    assert run.state.artifacts["tell"].text == "|"


def test_a_folder_that_comes_back_has_stalled_and_another_has_not(work: Desk) -> None:
    assert work.play(machine(says("*"), says("/"), says("*"))).outcome == "stuck"
    (work.folder / ".count").unlink()
    assert work.play(machine(says("*"), says("/"), says("%"))).outcome == "failed"


def test_files_elsewhere_are_no_progress(work: Desk) -> None:
    acts = [f"{says('*')}; echo {n} > notes" for n in (1, 2)]
    run = work.play(machine(*acts))
    assert (run.outcome, len(run.reports)) == ("stuck", 2)


def test_a_later_prompt_shows_the_changes_so_far(work: Desk) -> None:
    run = work.play(machine(says("*"), says("+")))
    prompt = run.prompts("coder")[1]
    assert f"Your changes so far:\n\n```\n{FIX.format(sign='*')}```" in prompt
    assert "Fix this in the files" in prompt


def test_an_author_that_takes_everything_back_is_told_so(work: Desk) -> None:
    run = work.play(machine(says("*"), says("-"), says("+")))
    assert "So far, nothing is changed." in run.prompts("coder")[2]


def test_a_judge_reads_the_difference(work: Desk) -> None:
    text = machine(says("+"), by="[{judge: critic}]")
    text = text.replace("agents: {", "agents: {critic: {model: openai/gpt-5-mini}, ")
    run = work.play(text, scenario(agents={"critic": [PASS]}))
    [prompt] = run.prompts("critic")
    assert "+    return a + b" in prompt


def test_a_person_sees_the_difference_and_what_the_last_attempt_changed(
    work: Desk, cli: CommandLine
) -> None:
    text = machine(says("*"), says("+"), to="ask") + (
        "  ask: {human: Take it?, show: fix, choices: take, next: done}\n"
    )
    file = work.write("ask.yaml", text)
    assert invoke(["run", str(file)]) == 5
    [row] = run_rows(cli)
    said = "".join(cli(0, "runs", "show", row))
    assert "fix, attempt 2 by code" in said
    assert "+    return a + b" in said
    assert "Changed since attempt 1:\n  diff --git" in said


def test_a_change_that_is_too_long_is_a_fault_with_its_place(work: Desk) -> None:
    long = "yes $(printf '%01000d' 1) | head -n 1600 > src/long.txt"
    run = work.play(machine(long, f"rm src/long.txt; {says('+')}"))
    assert run.outcome == "done"
    [finding] = run.reports[0].findings
    assert finding.code == "missing"
    assert "more than 1,500,000 characters (1 file, the first is 'src/long.txt')" in finding.message


def test_too_many_files_before_the_first_attempt_suspend_the_run(work: Desk) -> None:
    for number in range(50_001):
        os.mknod(f"{work.folder}/src/{number}")
    run = work.play(machine(says("+")))
    [suspended] = run.of(Suspended)
    assert "folder 'src' has more than 50,000 files or" in suspended.message
    assert "let git ignore" in suspended.message
    assert run.prompts("coder") == []


def test_a_folder_that_leads_out_of_the_workspace_is_refused(work: Desk) -> None:
    run = work.play(machine(says("+"), output="folder: ../other"))
    assert "contains '..'" in run.of(Suspended)[0].message


def test_secrets_are_taken_out_of_the_difference(
    work: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-verysecretkey12345")
    run = work.play(machine(f"{says('+')}; echo sk-verysecretkey12345 > src/key"))
    assert "sk-verysecret" not in json.dumps([event.plain() for event in run.events])


def test_a_command_of_a_run_state_writes_a_folder(work: Desk) -> None:
    command = json.dumps(["sh", "-c", says("+")])
    text = (
        machine("true")
        .replace("agent: coder", f"run: {command}")
        .replace("    prompt: Repair it.\n", "")
    )
    run = work.play(text)
    assert run.result == {"fix": FIX.format(sign="+")}


def test_files_of_a_scenario_make_the_folder(desk: Desk) -> None:
    part = {"files": {"src/calc.py": "a + b\n"}}
    run = desk.play(
        machine("true", by="[{matches: '^.a . b'}]"), scenario(agents={"coder": [part]})
    )
    assert run.result["fix"].endswith("@@ -0,0 +1 @@\n+a + b\n")


def test_a_recorded_run_plays_the_same_difference_without_the_files(
    work: Desk, cli: CommandLine
) -> None:
    file = work.write("machine.yaml", machine(says("*"), says("+")))
    tape = work.folder / "case.scenario.yaml"
    assert "differs" not in cli(0, "run", str(file), "--record", str(tape)).err
    assert invoke(["test", str(tape)]) == 0
    assert "last_change" in tape.read_text()


def test_what_a_removed_run_has_kept_goes_and_what_others_have_stays(
    work: Desk, cli: CommandLine
) -> None:
    file = work.write("machine.yaml", machine(says("+")))
    for _ in range(2):
        (work.folder / ".count").unlink(missing_ok=True)
        work.write("src/calc.py", "def add(a, b):\n    return a - b\n")
        assert invoke(["run", str(file)]) == 0
    runs = run_rows(cli)
    assert invoke(["runs", "rm", runs[0]]) == 0
    assert kept(work) == 2
    assert invoke(["runs", "rm", runs[1]]) == 0
    assert kept(work) == 0
    assert (work.folder / "src/calc.py").exists()


def test_folders_of_two_runs_are_compared_file_by_file_without_secrets(
    work: Desk, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-verysecretkey12345")
    for sign in "+*":
        work.write("src/calc.py", "def add(a, b):\n    return a - b\n")
        does = f"{says(sign)}; echo sk-verysecretkey12345{sign} > src/key; rm -f .count"
        invoke(["run", str(work.write("machine.yaml", machine(does, by="[{min_chars: 1}]")))])
    runs = [line.split()[0] for line in cli(0, "runs", "ls").out.splitlines()[1:]]
    told = cli(0, "runs", "diff", runs[1], "--with", runs[0]).out
    assert "-    return a + b\n+    return a * b\n" in told
    assert "-[OPENAI_API_KEY]+\n+[OPENAI_API_KEY]*\n" in told


def run_rows(cli: CommandLine) -> list[str]:
    """The ids of all runs."""
    assert "attempt 1: 1 file changed" in cli.said().err
    return [line.split()[0] for line in cli(0, "runs", "ls").out.splitlines()[1:]]


def kept(desk: Desk) -> int:
    """How many trees are kept; older contents than these go by and by."""
    git = ("git", "--git-dir", desk.folder / ".loopkit/trees.git", "for-each-ref")
    return len(subprocess.run(git, check=True, capture_output=True).stdout.splitlines())


AGENT = "cat > .prompt; until mkdir .call_$((n += 1)) 2>/dev/null; do :; done; touch call_$n; \
echo 'work '$n >> src/log; \
if [ -e kill_at ] && [ $n = $(cat kill_at) ]; then kill -9 $PPID; exit 1; fi; \
case $(cat .prompt) in *'Revision 1'*) echo good > src/plan;; *) echo bad > src/plan;; esac"
CRASHING = f"""
loopkit: 1
input: {{n: {{type: int, minimum: 0, maximum: 3}}}}
agents: {{coder: {{command: {json.dumps(["sh", "-c", AGENT])}, on_in_doubt: retry}}}}
states:
  code: {{agent: coder, prompt: Plan., output: {{name: fix, folder: src}}, next: test}}
  test:
    validate: fix
    by: [{{command: [grep, -q, good, src/plan], message: It is bad.}}]
    transitions: [{{guard: valid, target: done}}, {{revise: code}}, {{target: failed}}]
  done: {{final: success, result: fix}}
  failed: {{final: failure, result: fix}}
"""


@pytest.fixture(scope="module")
def told(every: int, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the host tells of the unharmed run and of each point."""
    return killed_at_points(tmp_path_factory.mktemp("crash"), CRASHING, every)


def test_a_run_that_is_killed_anywhere_ends_with_the_folder_of_the_unharmed_one(told: Any) -> None:
    unharmed, *points = told
    assert (unharmed["outcome"], unharmed["calls"]) == ("done", 2)
    for point in points:
        assert point["outcome"] in ("done", None), point
        if point["outcome"] and point["calls"] == unharmed["calls"]:
            assert {key: point[key] for key in SAME} == {key: unharmed[key] for key in SAME}


@pytest.mark.parametrize("output", ["folder: src", "file: src/plan"])
def test_what_a_lost_call_has_written_need_not_be_written_again(
    every: int, tmp_path_factory: pytest.TempPathFactory, output: str
) -> None:
    agent = AGENT.partition("case $(cat")[0].replace("echo 'work '$n >> src/log", "true")
    once = "[ $n = 1 ] && echo good > src/plan"
    agent = agent.replace("if [ -e kill_at ]", f"{once}; if [ -e kill_at ]") + "true"
    command = json.dumps(["sh", "-c", agent])
    text = re.sub(r"command: \[\"sh.*?\], on_in", lambda _: f"command: {command}, on_in", CRASHING)
    text = text.replace("folder: src", output)
    [unharmed, *points] = killed_at_points(tmp_path_factory.mktemp("lost"), text, every)
    assert (unharmed["outcome"], unharmed["calls"]) == ("done", 1)
    lost = [point for point in points if point["calls"] == 2]
    assert lost
    assert {point["attempts"]["code"] for point in lost} == {1}


@pytest.mark.parametrize(
    ("broken", "mended", "told"),
    [
        ("folder: src", "folder: lib", "+++ b/lib/a\n@@ -0,0 +1 @@\n+new\n"),
        ("file: lib", "folder: lib", "+++ b/lib/a\n@@ -0,0 +1 @@\n+new\n"),
        ("folder: lib/a", "file: lib/a", "new\n"),
    ],
)
def test_an_attempt_whose_output_is_repaired_begins_with_what_is_there_then(
    work: Desk, broken: str, mended: str, told: str
) -> None:
    work.in_memory = False
    by, again = "[{matches: new}]", "rm -rf lib; mkdir lib; echo new > lib/a"
    run = work.play(machine("exit 3", again, output=broken, by=by))
    assert run.state.status == "suspended"
    done = work.repair(run.state.run, machine("exit 3", again, output=mended, by=by))
    assert done.outcome == "done"
    assert done.result["fix"].endswith(told)


def test_what_a_lost_call_had_changed_is_part_of_the_difference(told: Any) -> None:
    lost = [point for point in told if point["outcome"] and point["calls"] > 2]
    assert lost
    for point in lost:
        # The base is what was there before the first try, also where another process goes on.
        assert "+work 1\n+work 2\n+work 3\n" in point["result"]["fix"]


@pytest.mark.parametrize("size", [100_000, 5_000_000])
def test_a_full_disk_is_told_as_such_where_a_folder_is_kept(tmp_path: Path, size: int) -> None:
    contents, folder = Contents(tmp_path / ".loopkit"), tmp_path / "work"
    folder.mkdir()
    first = contents.keep("first", Folder(folder))
    (folder / "large").write_bytes(random.Random(1).randbytes(size))
    for _ in range(2):
        with no_room(60_000), pytest.raises(JournalUnusable, match="check the disk, its free"):
            contents.keep("second", Folder(folder))
    assert contents.runs() == ["first"]
    assert contents.tree(contents.keep("second", Folder(folder)).digest) != first
    contents.close()
