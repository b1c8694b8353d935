"""Protected files: what an author changes there is undone, kept and told, before anybody judges."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from loopkit.engine.events import Isolated, Undone
from loopkit.journal.contents import Contents
from loopkit.outside.trees import Tree
from tests.crash.points import killed_at_points
from tests.support import CommandLine, Desk, Played, coding
from tests.test_merging import git, write

JUDGE = "grep -q good plan"


def machine(*does: str, protect: str = "[check.sh, 'tests/**']", **parts: str) -> str:
    """An author whose n-th work is the n-th of some shell scripts, and a script that judges it."""
    kind = parts.get("kind", f"command: {coding(*does, prompt='.count.prompt')}")
    return f"""
loopkit: 1
workspace: {{path: {parts.get("path", ".")}, isolate: {parts.get("isolate", "none")}}}
agents: {{coder: {{{kind}, protect: {protect}, retry: {{attempts: 2, backoff: 10ms}}}}}}
states:
  code:
    agent: coder
    prompt: Plan it.
    output: {parts.get("output", "notes")}
    on_error: {parts.get("on_error", "{content: failed}")}
    next: test
  test:
    validate: {parts.get("judged", "notes")}
    by: [{{command: [sh, check.sh]}}]
    transitions:
      - {{guard: valid, target: done}}
      - {{revise: code, max: 1}}
      - {{target: failed}}
  done: {{final: success}}
  failed: {{final: failure}}
"""


@pytest.fixture
def work(tmp_path: Path) -> Desk:
    write(tmp_path, **{"check.sh": JUDGE, "tests__a": "a", "tests__sub__b": "b", "plan": "bad"})
    return Desk(tmp_path, in_memory=False)


def undone(run: Played) -> list[list[str]]:
    """What was undone after each attempt."""
    return [list(event.files) for event in run.of(Undone)]


def notes(run: Played) -> list[str]:
    found = [finding for report in run.reports for finding in report.findings]
    assert not [one for one in found if one.code == "protected" and one.blocking]
    return [one.message for one in found if one.code == "protected"]


TAMPER = "echo 'exit 0' > check.sh; echo bad > plan"


@pytest.mark.parametrize("isolate", ["none", "copy", "worktree"])
def test_who_rewrites_what_judges_it_is_judged_all_the_same(work: Desk, isolate: str) -> None:
    git(work.folder, "init", "-q")
    git(work.folder, "add", ".")
    git(work.folder, "commit", "-qm", "One")
    run = work.play(machine(TAMPER, f"{TAMPER}; echo good > plan", isolate=isolate))
    assert (run.outcome, run.route[-2:]) == ("done", ["test", "done"])
    assert undone(run) == [["check.sh"], ["check.sh"]]
    assert notes(run) == ["changes to protected files were undone: check.sh"] * 2
    assert (work.folder / "check.sh").read_text() == JUDGE
    # The author is told of it with what else is wrong.
    assert "changes to protected files were undone: check.sh" in run.prompts("coder")[1]
    assert bool(run.of(Isolated)) == (isolate != "none")


@pytest.mark.parametrize(
    ("does", "files"),
    [
        ("echo >> tests/a", ["tests/a"]),
        ("echo x > tests/new", ["tests/new"]),
        ("mkdir -p tests/deep/er && echo x > tests/deep/er/new", ["tests/deep/er/new"]),
        ("echo x > tests/a.log", ["tests/a.log"]),
        ("mv tests/a tests/c", ["tests/a", "tests/c"]),
        ("rm -r tests", ["tests/a", "tests/sub/b"]),
        ("chmod +x tests/a", ["tests/a"]),
        ("rm -r tests && ln -s /tmp tests", ["tests", "tests/a", "tests/sub/b"]),
        ("ln -sf ../plan tests/a", ["tests/a"]),
        ("ln -f plan tests/a", ["tests/a"]),
        ("rm tests/a && mkfifo tests/a", ["tests/a"]),
        ("rm tests/a && mkdir tests/a && echo x > tests/a/b", ["tests/a", "tests/a/b"]),
        ("mv tests old && echo x > tests", ["tests", "tests/a", "tests/sub/b"]),
        ("mkdir x && echo 'exit 0' > x/check.sh", ["x/check.sh"]),
        # None of these is a change, or one of what is protected.
        ("mkdir tests/__pycache__ && echo > tests/__pycache__/a.pyc", []),
        ("echo good > plan && touch tests/a && git status && git add plan", []),
    ],
)
def test_however_it_is_changed_it_is_as_before(work: Desk, does: str, files: list[str]) -> None:
    git(work.folder, "init", "-q")
    write(work.folder, **{".gitignore": "*.log\n"})

    def protected() -> dict[str, Any]:
        found = [work.folder / "check.sh", *(work.folder / "tests").rglob("*")]
        return {str(one): (one.lstat().st_mode, one.is_dir() or one.read_text()) for one in found}

    before = protected()
    run = work.play(machine(does, "echo good > plan"))
    assert undone(run)[0] == files
    assert protected() == before
    assert [note.rpartition("undone: ")[2] for note in notes(run)] == (
        [", ".join(files)] * bool(files)
    )


def test_the_change_is_kept(work: Desk) -> None:
    first, *_ = work.play(machine(TAMPER, "echo good > plan")).of(Undone)
    contents = Contents(work.folder / ".loopkit")
    assert "\n+exit 0\n" in contents.diff(Tree(), contents.tree(first.tree), 10_000)


def test_a_commit_is_undone_and_not_lost(work: Desk) -> None:
    git(work.folder, "init", "-q")
    commit = "git -c user.name=A -c user.email=a@b commit -qm"
    git(work.folder, *commit.split()[1:], "One", "--allow-empty")
    before = git(work.folder, "rev-parse", "HEAD")
    hook = "echo exit 1 > .git/hooks/pre-commit"
    run = work.play(machine(f"{hook}; git add plan; {commit} Mine; rm .git/HEAD"))
    assert undone(run)[0] == [".git"]
    assert git(work.folder, "rev-parse", "HEAD") == before
    assert not (work.folder / ".git/hooks/pre-commit").exists()
    assert "Mine" in git(work.folder, "log", "--all", "--reflog", "--format=%s")


def test_a_run_in_which_something_was_undone_can_be_recorded(
    work: Desk, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(work.folder)
    run = work.play(work.write("m.yaml", machine(TAMPER, f"{TAMPER}; echo good > plan")))
    cli(0, "runs", "record", run.state.run, "m.scenario.yaml")
    assert "notes:" in (work.folder / "m.scenario.yaml").read_text()
    cli(0, "test", "m.scenario.yaml")


def test_the_artifact_is_what_is_left_of_the_folder(work: Desk) -> None:
    output = "{name: fix, folder: ., ignore: ['.*']}"
    does = f"{TAMPER}; echo more >> plan"
    run = work.play(machine(does, f"{does}; echo >> plan", output=output, judged="fix"))
    assert run.state.artifacts["fix"].fields["files"] == ["plan"]
    # Who has changed nothing else has changed nothing.
    write(work.folder, plan="bad")
    (work.folder / ".count").unlink()
    run = work.play(machine("echo 'exit 0' > check.sh", output=output, judged="fix"))
    assert "nothing in folder '.' was changed" in run.state.artifacts["fix"].fault
    assert notes(run)


def test_after_an_error_it_is_undone_before_anything_else(work: Desk) -> None:
    run = work.play(
        machine(
            f"{TAMPER}; exit 3", on_error="{fatal: test, content: failed}", judged="plan"
        ).replace("states:", "states:\n  begin: {render: x, output: plan, next: code}")
    )
    assert (run.outcome, run.route) == (
        "failed",
        ["begin", "code", "test", "code", "test", "failed"],
    )
    assert undone(run)[0] == ["check.sh"]


def test_what_is_delivered_from_outside_is_undone_too(work: Desk) -> None:
    waiting = work.play(
        machine(kind="outside: true").replace(", retry: {attempts: 2, backoff: 10ms}", "")
    )
    write(work.folder, **{"check.sh": "exit 0", "plan": "good"})
    run = work.deliver(waiting.state.run, "Done.")
    assert (run.outcome, undone(run)) == ("done", [["check.sh"]])
    assert (work.folder / "check.sh").read_text() == JUDGE


@pytest.mark.parametrize("pattern", ["''", "/etc/*", "../x", "a/../b", "~/x", "'{{ input.x }}'"])
def test_a_pattern_that_means_nothing_there_is_an_error(desk: Desk, pattern: str) -> None:
    [problem, *_] = desk.problems(machine("true", protect=pattern))
    assert problem.code == ("string-too-short" if pattern == "''" else "bad-path")


def test_protect_of_an_agent_that_only_judges_is_told_to_have_no_effect(desk: Desk) -> None:
    judge = "judge: {program: codex, protect: [check.sh]}"
    text = machine("true").replace("agents: {", f"agents: {{{judge}, ")
    text = text.replace("{command: [sh, check.sh]}", "{judge: judge, prompt: Good?}")
    [problem] = [one for one in desk.problems(text) if one.code == "no-effect"]
    assert (problem.path, "`judge`" in problem.message) == ("agents.judge.protect", True)
    assert "no-effect" not in [one.code for one in desk.problems(machine("true"))]


AGENT = """cat > .prompt; n=1; until mkdir .call_$n 2>/dev/null; do n=$((n + 1)); done
touch call_$n; echo 'exit 0' > check.sh; mkdir -p tests; echo $n > tests/new_$n
if [ -e kill_at ] && [ $n = $(cat kill_at) ]; then kill -9 $PPID; exit 1; fi
case $(cat .prompt) in *'Revision 1'*) echo good > plan;; *) echo bad > plan;; esac; echo Done."""
PREPARE = f"""states:
  prepare:
    run: [sh, -c, "[ -e check.sh ] || echo '{JUDGE}' > check.sh"]
    on_in_doubt: retry
    next: code"""


@pytest.mark.parametrize("isolate", ["none", pytest.param("copy", marks=pytest.mark.long)])
def test_a_run_that_is_killed_anywhere_is_never_judged_by_what_was_changed(
    tmp_path: Path, every: int, isolate: str
) -> None:
    shell = json.dumps(["sh", "-c", AGENT])
    text = machine("AGENT", isolate=isolate).replace("states:", PREPARE)
    text = re.sub(
        r"command: .*?, prot",
        lambda _: f"command: {shell}, on_in_doubt: retry, prot",
        text,
        count=1,
    )
    head = "loopkit: 1\ninput: {n: {type: int, minimum: 0, maximum: 3}}"
    [unharmed, *points] = killed_at_points(tmp_path, text.replace("loopkit: 1", head), every)
    assert (unharmed["outcome"], unharmed["attempts"]["code"]) == ("done", 2)
    for point in points:
        if point["outcome"] is None:
            continue
        same = ("outcome", "route", "attempts")
        assert [point[key] for key in same] == [unharmed[key] for key in same], point
        folder = tmp_path / "work" / point["point"]
        assert (folder / "check.sh").read_text() == f"{JUDGE}\n", point
        assert not list(folder.glob("tests/new_*")), point
