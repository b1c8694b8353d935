"""Isolated workspaces: a run works in a tree of its own, which is merged, or left where it is."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from loopkit.drive.isolation import alone
from loopkit.engine.events import Baselined, Isolated, Merged, Suspended
from tests import warm
from tests.crash.points import killed_at_points
from tests.support import Desk, Played, coding, scenario
from tests.test_merging import git, write
from tests.warm import ran_loopkit

TEN = "".join(f"line {n}\n" for n in range(10))


def machine(*does: str, isolate: str = "copy", **parts: str) -> str:
    """A coder whose n-th work is the n-th of some shell scripts, and a check of what it leaves."""
    command = coding(*does, prompt=".count.prompt")
    rule = parts.get("rule", "command: [grep, -q, good, src/plan], message: It is bad.")
    return f"""
loopkit: 1
workspace: {{path: {parts.get("path", ".")}, create: true, isolate: {isolate}}}
agents: {{coder: {{command: {command}, on_in_doubt: retry}}}}
states:
  code:
    agent: coder
    prompt: Plan it.
    output: {{name: fix, folder: src}}
    next: test
  test:
    validate: fix
    by: [{{{rule}}}]
    transitions:
      - {{guard: valid, target: {parts.get("to", "done")}}}
      - {{revise: code}}
      - {{target: failed}}
  done: {{final: success, result: fix}}
  failed: {{final: failure, result: fix, pick: best}}
"""


@pytest.fixture(params=[pytest.param("memory", marks=pytest.mark.long), "disk"])
def work(request: pytest.FixtureRequest, tmp_path: Path) -> Desk:
    write(tmp_path, src__plan="none\n", src__both=TEN)
    return Desk(tmp_path, in_memory=request.param == "memory")


def place_of(run: Played) -> Path:
    [isolated] = run.of(Isolated)
    return Path(isolated.place)


def committed(work: Desk, **files: str) -> None:
    """Make the workspace a repository that ignores logs."""
    write(work.folder, **{".gitignore": ".loopkit\n*.log\n"}, **files)
    for command in (("init", "-q"), ("add", "."), ("commit", "-qm", "One")):
        git(work.folder, *command)


@pytest.mark.parametrize("work", ["memory", "disk"], indirect=True)
@pytest.mark.parametrize("isolate", ["copy", "worktree"])
def test_a_success_is_merged_and_nothing_is_seen_before(work: Desk, isolate: str) -> None:
    committed(work)
    seen = f"cat {work.folder}/src/plan > seen; echo noise > src/run.log"
    run = work.play(
        machine(f"echo bad > src/plan; {seen}", "echo good > src/plan", isolate=isolate)
    )
    assert run.outcome == "done"
    assert (work.folder / "src/plan").read_text() == "good\n"
    assert (work.folder / "seen").read_text() == "none\n"
    # What git ignores is no part of the work.
    assert not (work.folder / "src/run.log").exists()
    [merged] = run.of(Merged)
    assert set(merged.files) == {".count", ".count.prompt", "seen", "src/plan"}
    assert len(git(work.folder, "worktree", "list").splitlines()) == 1
    assert not place_of(run).exists()


def test_what_is_merged_is_on_the_disk_before_the_run_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, synced, sync = Desk(write(tmp_path, src__plan="none\n")), list[str](), os.fsync

    def note(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    work.play(machine("echo good > src/plan; mkdir new; echo x > new/file"))
    names = [path.removeprefix(f"{tmp_path}/") for path in synced]
    assert {"src", "new", ""} <= {name if name != str(tmp_path) else "" for name in names}
    assert sum(name.startswith(("src/.loopkit-", "new/.loopkit-")) for name in names) == 2


def test_an_artifact_that_git_ignores_is_said_to_stay_behind(work: Desk) -> None:
    committed(work)
    run = work.play(machine("echo good > src/plan; echo x > src/run.log").replace(
        "folder: src", "file: src/run.log"
    ).replace(", pick: best", ""))  # fmt: skip
    assert run.of(Merged)[0].ignored == ("src/run.log",)


def test_a_failure_is_left_aside_with_its_best_version(work: Desk) -> None:
    acts = ("echo 1 > src/plan", "echo 2 > src/plan; rm src/both", "echo 3 > src/plan")
    rules = "command: [grep, -q, '2', src/plan], severity: warning}, {command: ['false']"
    run = work.play(machine(*acts, rule=rules))
    assert run.outcome == "failed"
    assert (work.folder / "src/plan").read_text() == "none\n"
    [left] = run.state.finished.left if run.state.finished else ()
    assert Path(left) == place_of(run)
    assert (place_of(run) / "src/plan").read_text() == "2\n"
    assert not (place_of(run) / "src/both").exists()
    assert "+2" in run.result["fix"]
    assert run.of(Merged) == []


@pytest.mark.parametrize(
    "change",
    [
        "rm -rf src; ln -s {outside} src",
        "rm -rf src; echo x > src",
        "rm -r src/sub; ln -s {outside} src/sub",
        "rm -r src/sub; echo x > src/sub",
        "rm src/plan; ln -s {outside}/secret src/plan",
        "rm src/plan; mkdir -p src/plan/deep; echo x > src/plan/deep/x; mkdir src/__pycache__",
        "rm src/link; mkdir src/link; echo x > src/link/x",
        "rm src/link; echo x > src/link",
        "rm src/plan; mkfifo src/plan",
        "rm src/plan; ln {outside}/secret src/plan",
        "chmod 600 src/plan; rmdir src/empty; chmod 700 src/sub",
    ],
)
def test_the_best_version_comes_back_whatever_was_put_in_its_place(
    tmp_path: Path, change: str
) -> None:
    outside = tmp_path / "outside"
    work = Desk(write(tmp_path / "work", src__plan="none\n"))
    write(outside, secret="secret\n", deep__secret="secret\n")
    best = "mkdir src/sub src/empty; echo x > src/sub/x; ln -s plan src/link; echo 1 > src/plan"
    rules = "command: [grep, -q, '1', src/plan], severity: warning}, {command: ['false']"
    acts = (best, change.format(outside=outside), "true")
    run = work.play(machine(*acts, rule=rules).replace("{revise: code}", "{revise: code, max: 1}"))
    assert run.outcome == "failed"
    src = place_of(run) / "src"
    assert sorted(path.name for path in src.iterdir() if path.name != "__pycache__") == [
        "empty", "link", "plan", "sub",
    ]  # fmt: skip
    assert (src / "link").readlink() == Path("plan")
    assert ((src / "plan").read_text(), (src / "sub/x").read_text()) == ("1\n", "x\n")
    assert [oct(path.lstat().st_mode) for path in (src / "plan", src / "sub")] == [
        "0o100644", "0o40755",
    ]  # fmt: skip
    secrets = [outside / "secret", outside / "deep/secret"]
    assert [(p.read_text(), p.stat().st_mode & 0o777) for p in secrets] == [("secret\n", 0o644)] * 2


def test_what_an_output_ignores_is_left_where_its_best_version_comes_back(work: Desk) -> None:
    write(work.folder, **{"src/uv.lock": "mine"})
    acts = ("echo 1 > src/plan", "echo 2 > src/plan", "echo 3 > src/plan")
    text = machine(*acts, rule="matches: '1'}, {command: ['false']").replace(
        "folder: src", "folder: src, ignore: ['*.lock']"
    )
    run = work.play(text)
    assert (place_of(run) / "src/plan").read_text() == "1\n"
    assert (place_of(run) / "src/uv.lock").read_text() == "mine"


@pytest.mark.parametrize("isolate", ["copy", "worktree"])
def test_what_was_there_and_still_is_counts_whatever_ignore_files_say_by_now(
    work: Desk, isolate: str
) -> None:
    committed(work, cfg__app="1", **{"cfg/.gitignore": "*\n"})
    git(work.folder, "add", "-f", "cfg")
    git(work.folder, "commit", "-qm", "Two")
    hides = "echo '*' > src/.gitignore; echo both >> .gitignore; mkdir build; touch build/x"
    run = work.play(machine(f"{hides}; echo good > src/plan; echo 2 > cfg/app", isolate=isolate))
    assert run.outcome == "done"
    assert (work.folder / "src/plan").read_text() == "good\n"
    assert (work.folder / "src/both").read_text() == TEN
    assert (work.folder / "cfg/app").read_text() == "2\n"


@pytest.mark.parametrize("isolate", ["copy", "worktree"])
def test_a_submodule_leaves_the_rules_of_its_neighbours_alone(work: Desk, isolate: str) -> None:
    library = write(work.folder.parent / f"library of {work.folder.name}", lib="1")
    for command in (("init", "-q"), ("add", "."), ("commit", "-qm", "One")):
        git(library, *command)
    committed(work)
    git(
        work.folder, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "s"
    )
    git(work.folder, "commit", "-qm", "Two")
    write(work.folder, **{"src/x.log": "mine"})
    acts = "echo good > src/plan; echo noise > src/x.log; echo good > s/lib"
    run = work.play(machine(acts, isolate=isolate))
    assert run.outcome == "done"
    assert [(work.folder / name).read_text() for name in ("s/lib", "src/x.log")] == [
        "good\n", "mine",
    ]  # fmt: skip


def test_a_file_of_any_name_is_merged_beside_files_of_others(work: Desk) -> None:
    long = "\u6f22" * 84
    write(work.folder, **{".a.loopkit": "mine"})
    run = work.play(machine(f"echo good > src/plan; echo x > {long}; echo x > a"))
    assert run.outcome == "done"
    assert (work.folder / long).read_text() == "x\n"
    assert (work.folder / ".a.loopkit").read_text() == "mine"


@pytest.mark.parametrize(
    "change", ["rm -rf src", "rm -rf src; ln -s .. src", "mv src a; ln -s a src"]
)
def test_the_best_version_comes_back_where_a_folder_above_it_was_changed(
    work: Desk, change: str
) -> None:
    write(work.folder, src__deep__plan="none\n")
    text = machine(
        "echo 1 > src/deep/plan", change, rule="matches: good}, {command: ['false']"
    ).replace("folder: src", "folder: src/deep")
    run = work.play(text.replace("{revise: code}", "{revise: code, max: 1}"))
    assert run.outcome == "failed"
    assert (place_of(run) / "src/deep/plan").read_text() == "1\n"


@pytest.mark.parametrize("isolate", ["none", "copy"])
def test_a_workspace_that_becomes_a_link_ends_the_step(work: Desk, isolate: str) -> None:
    write(work.folder, home__notes="mine", ws__src__plan="none\n")
    moved = f"mv {work.folder}/ws {work.folder}/old; ln -s home {work.folder}/ws"
    text = machine(f"echo good > src/plan; {moved}", isolate=isolate, path="ws")
    text = text.replace("[grep, -q, good, src/plan]", "[sh, -c, 'echo x > notes']")
    run = work.play(text.replace(", pick: best", ""))
    assert "put the folder" in run.of(Suspended)[-1].message
    if not work.in_memory and isolate == "copy":
        assert "now; put the folder" in work.resume(run.state.run).of(Suspended)[-1].message
    assert (work.folder / "home/notes").read_text() == "mine"


async def test_a_run_that_is_cancelled_while_others_merge_merges_nothing(tmp_path: Path) -> None:
    write(tmp_path / ".loopkit/trees", x="x")
    held = os.open(tmp_path / ".loopkit/trees", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    write(tmp_path, src__plan="none\n", **{"m.yaml": machine("echo good > src/plan")})
    begun = await asyncio.create_subprocess_exec(
        *warm.command("-m", "loopkit", "run", "m.yaml"), cwd=tmp_path,
        stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert begun.stderr is not None
    await begun.stderr.readline()
    first = (await begun.stderr.readline()).decode().split()[1]
    while b"check" not in (said := await begun.stderr.readline()) and b"done" not in said:
        if b"pass" in said:
            break
    await asyncio.to_thread(ran_loopkit, "cancel", first, cwd=tmp_path)
    said = await asyncio.wait_for(begun.stderr.read(), 20)
    await begun.wait()
    os.close(held)
    assert b"cancelled" in said
    assert (tmp_path / "src/plan").read_text() == "none\n"


def test_what_others_do_in_the_workspace_meanwhile_stays(work: Desk) -> None:
    ours = f"sed -i '1s/^/ours /' {work.folder}/src/both; echo x > {work.folder}/new"
    run = work.play(machine(f"{ours}; sed -i '9s/^/theirs /' src/both; echo good > src/plan"))
    assert run.outcome == "done"
    assert (work.folder / "new").read_text() == "x\n"
    both = TEN.replace("line 0", "ours line 0").replace("line 8", "theirs line 8")
    assert (work.folder / "src/both").read_text() == both


def test_a_conflict_suspends_the_run_and_a_resume_merges_what_is_solved(tmp_path: Path) -> None:
    work = Desk(write(tmp_path, src__plan="none\n"), in_memory=False)
    ours = f"echo ours > {work.folder}/src/plan"
    run = work.play(machine(f"echo good > src/plan; echo x > new; {ours}"))
    [suspended] = run.of(Suspended)
    assert suspended.state == "done"
    assert suspended.message == "not merged: the run and somebody else changed 1 file: src/plan"
    assert f"the run's version is in {place_of(run)}" in suspended.remedy
    assert not (work.folder / "new").exists()
    again = work.resume(run.state.run)
    assert again.state.status == "suspended"
    (work.folder / "src/plan").write_text("good\n")
    solved = work.resume(run.state.run)
    assert solved.outcome == "done"
    assert (work.folder / "new").read_text() == "x\n"
    assert (work.folder / "src/plan").read_text() == "good\n"
    assert not place_of(run).exists()


def test_what_solves_a_conflict_is_merged_where_the_best_version_is_picked(tmp_path: Path) -> None:
    work = Desk(write(tmp_path, src__plan="none\n"), in_memory=False)
    text = machine(f"echo good > src/plan; echo ours > {work.folder}/src/plan")
    run = work.play(text.replace("success, result: fix", "success, result: fix, pick: best"))
    assert run.state.status == "suspended"
    for solved in (work.folder, place_of(run)):
        (solved / "src/plan").write_text("good and ours\n")
    assert work.resume(run.state.run).outcome == "done"
    assert (work.folder / "src/plan").read_text() == "good and ours\n"


def test_a_person_picks_the_best_and_the_work_goes_on_from_there(tmp_path: Path) -> None:
    work = Desk(write(tmp_path, src__plan="none\n"), in_memory=False)
    text = machine(
        "echo one > src/plan; touch src/first",
        "echo two > src/plan; rm src/first",
        "echo three > src/plan",
        "cat src/plan > src/seen; ls src >> src/seen",
        rule="not_matches: '^.two|^.three'}, {matches: never",
        to="failed",
    )
    text = (
        text.replace("      - {target: failed}", "      - {target: ask}")
        + """
  ask:
    human: Keep the best?
    show: fix
    pick: best
    choices: [keep]
    next: polish
  polish:
    agent: coder
    prompt: Polish.
    output: {name: fix, folder: src}
    on_error: failed
    next: done
"""
    )
    asked = work.play(text)
    assert asked.state.status == "waiting"
    assert (place_of(asked) / "src/plan").read_text() == "three\n"
    done = work.answer(asked.state.run, "keep")
    assert done.outcome == "done"
    assert (work.folder / "src/seen").read_text() == "one\nboth\nfirst\nplan\nseen\n".replace(
        "both\n", ""
    )
    assert "+one" in done.result["fix"]


def test_validators_and_baselines_work_in_the_tree(work: Desk) -> None:
    rule = (
        "command: [sh, -c, 'pwd; echo \"src/plan:1: bad\"; exit 1'], parse: lines, baseline: true"
    )
    run = work.play(machine("echo 1 > src/plan", rule=rule))
    assert run.outcome == "done"
    [taken] = run.of(Baselined)
    assert taken.commands[0].stdout.startswith(f"{place_of(run)}\n")
    assert run.events.index(run.of(Isolated)[0]) < run.events.index(taken)


def test_the_tree_of_a_run_is_made_once_whoever_works_there(work: Desk) -> None:
    text = machine("echo 1 > src/plan", "echo good > src/plan").replace(
        "by: [", "workspace: {path: ., isolate: copy}\n    by: ["
    )
    assert len(work.play(text).of(Isolated)) == 1


def test_two_workspaces_have_a_tree_each_and_both_are_merged(work: Desk) -> None:
    text = (
        machine("echo good > src/plan").replace("next: test", "next: more", 1)
        + """
  more: {run: [sh, -c, echo x > y], next: test,
    workspace: {path: other, create: true, isolate: copy}}
"""
    )
    run = work.play(text)
    assert run.outcome == "done"
    assert (work.folder / "other/y").read_text() == "x\n"
    assert len(run.of(Merged)) == 2


@pytest.mark.parametrize("isolate", ["copy", "worktree"])
def test_what_git_ignores_in_a_part_of_a_repository_is_no_work(work: Desk, isolate: str) -> None:
    committed(work, part__src__plan="none\n")
    acts = "echo good > src/plan; echo noise > src/run.log; echo noise > run.log"
    run = work.play(machine(acts, isolate=isolate, path="part"))
    assert run.outcome == "done"
    assert "noise" not in run.result["fix"]
    found = sorted(path.name for path in (work.folder / "part").rglob("*.log"))
    assert (found, (work.folder / "part/src/plan").read_text()) == ([], "good\n")


@pytest.mark.parametrize(
    ("isolate", "path"), [("copy", "part"), ("copy", "."), ("worktree", "part")]
)
def test_git_in_a_tree_finds_no_repository_above_it(work: Desk, isolate: str, path: str) -> None:
    committed(work, part__src__plan="none\n")
    asks = "git rev-parse --show-toplevel > top 2>&1; echo good > src/plan"
    run = work.play(machine(asks, isolate=isolate, path=path))
    said = (work.folder / path / "top").read_text()
    has_none = (isolate, path) == ("copy", "part")
    tree = place_of(run).parent if isolate == "worktree" else place_of(run)
    assert ("not a git repository" in said) if has_none else (said == f"{tree}\n")


def test_a_worktree_without_a_commit_suspends_the_run_before_anything_is_done(
    tmp_path: Path,
) -> None:
    work = Desk(tmp_path)
    run = work.play(machine("echo 1 > src/plan", isolate="worktree"))
    assert "commit something, or write `isolate: copy`" in run.of(Suspended)[0].message
    assert run.prompts("coder") == []


def test_a_scenario_plays_an_isolated_run_without_a_repository(desk: Desk) -> None:
    plays = [{"files": {"src/plan": "bad\n"}}, {"files": {"src/plan": "good\n"}}]
    parts = scenario(agents={"coder": plays}, commands={"by[0]": [{"exit_code": 1}, {}]})
    run = desk.play(machine("true", isolate="worktree"), parts)
    assert run.outcome == "done"
    assert (desk.folder / "src/plan").read_text() == "good\n"


def test_a_tree_that_is_gone_is_told(tmp_path: Path) -> None:
    work = Desk(write(tmp_path, src__plan="none\n"), in_memory=False)
    text = machine("rm -rf $PWD; exit 3", "true")
    run = work.play(text)
    assert run.state.status == "suspended"
    again = work.resume(run.state.run)
    assert "in which the run works is gone; restore it" in again.of(Suspended)[-1].message


def test_a_second_run_in_a_workspace_is_suspended_and_names_the_first(tmp_path: Path) -> None:
    work = Desk(tmp_path, in_memory=False)
    inner = work.write(
        "inner.yaml",
        "loopkit: 1\nworkspace: {path: work, create: true}\nstates:\n"
        "  one: {run: [touch, done], on_error: caught, next: done}\n"
        "  done: {final: success}\n  caught: {final: failure}\n",
    )
    call = (
        f"{shlex.join(warm.command('-m', 'loopkit', 'run', str(inner)))} 2> {tmp_path}/said; true"
    )
    outer = (
        f"loopkit: 1\nworkspace: {{path: work, create: true}}\nstates:\n"
        f"  one: {{run: [sh, -c, {json.dumps(f'cd {tmp_path}; {call}')}], next: done}}\n"
        "  done: {final: success}\n"
    )
    run = work.play(outer)
    assert run.outcome == "done"
    said = (tmp_path / "said").read_text()
    assert f"run {run.state.run} works in the workspace" in " ".join(said.split())
    assert not (tmp_path / "work/done").exists()
    # The one that is over holds nothing any more.
    listed = ran_loopkit("runs", "ls", cwd=work.folder).stdout.splitlines()[1:]
    [second] = {line.split()[0] for line in listed} - {run.state.run}
    assert work.resume(second).outcome == "done"
    assert (tmp_path / "work/done").exists()


TOUCHES = """
loopkit: 1
workspace: {path: work, create: true}
states:
  one: {run: [touch, done], next: done}
  done: {final: success}
"""


def test_a_workspace_is_free_a_moment_after_the_process_that_worked_in_it_was_killed(
    tmp_path: Path,
) -> None:
    # A program that was being started shares the lock of the one that was killed.
    work = Desk(tmp_path, in_memory=False)
    assert work.play(TOUCHES).outcome == "done"
    [lock] = (tmp_path / ".loopkit/workspaces").iterdir()
    held = os.open(lock, os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    started = Timer(0.1, os.close, [held])
    started.start()
    assert work.play(TOUCHES).outcome == "done"
    started.join()


@pytest.mark.parametrize("plant", ["ln outside {}", "ln -s outside {}", "mkdir {}", "mkfifo {}"])
def test_what_was_put_in_the_place_of_a_lock_suspends_the_run(tmp_path: Path, plant: str) -> None:
    work = Desk(tmp_path, in_memory=False)
    work.play(TOUCHES)
    [lock] = (tmp_path / ".loopkit/workspaces").iterdir()
    lock.unlink()
    outside = work.write("outside", "Not yours.")
    subprocess.run(plant.format(lock).split(), check=True, cwd=tmp_path)
    stopped = work.play(TOUCHES).state.suspended
    assert outside.read_text() == "Not yours."
    assert stopped is not None
    assert f"{str(lock)!r} can't be used: " in stopped.message


AGENT = """cat > .prompt; n=1; until mkdir .call_$n 2>/dev/null; do n=$((n + 1)); done
touch call_$n
[ $n = 1 ] && sed -i '1s/^/ours /' ../../../../src/both
if [ -e kill_at ] && [ $n = $(cat kill_at) ]; then kill -9 $PPID; exit 1; fi
sed -i '9s/$/ theirs/' src/both
case $(cat .prompt) in *'Revision 1'*) echo good > src/plan;; *) echo bad > src/plan;; esac"""


@pytest.fixture(scope="module", params=["copy", "worktree"])
def killed(
    request: pytest.FixtureRequest, every: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, Any]]:
    """The folder of all points, and what the host tells of them."""
    folder = tmp_path_factory.mktemp("crash")
    # The workspace is made by the run, before it works in it isolated.
    make = (
        f"mkdir -p src && printf '{TEN}' > src/both && echo none > src/plan && [ -e .git ] || "
        "{ git init -q . && git add src && git -c user.name=A -c user.email=a@b commit -qm 1; }"
    ).replace("\n", "\\n")
    shell = json.dumps(["sh", "-c", AGENT])
    prepare = f"""states:
  prepare:
    run: [sh, -c, {json.dumps(make)}]
    workspace: {{path: .}}
    on_in_doubt: retry
    next: code"""
    head = """loopkit: 1
input: {n: {type: int, minimum: 0, maximum: 3}}"""
    text = machine("AGENT", isolate=request.param).replace("states:", prepare, 1)
    text = re.sub(r"command: .*?, on_in", lambda _: f"command: {shell}, on_in", text, count=1)
    text = text.replace("loopkit: 1", head)
    return folder / "work", killed_at_points(folder, text, every)


def test_a_run_that_is_killed_anywhere_merges_once(killed: tuple[Path, Any]) -> None:
    work, [unharmed, *points] = killed
    assert (unharmed["outcome"], unharmed["attempts"]["code"]) == ("done", 2)
    both = (work / "unharmed/src/both").read_text()
    assert both.count("ours") == 1
    for point in points:
        if point["outcome"] is None:
            continue
        assert {key: point[key] for key in ("outcome", "route", "attempts")} == {
            key: unharmed[key] for key in ("outcome", "route", "attempts")
        }, point
        folder = work / point["point"]
        assert (folder / "src/plan").read_text() == "good\n", point
        told = (folder / "src/both").read_text()
        assert told.count("ours") == 1, point
        assert told.count("theirs") >= both.count("theirs"), point
        assert told.count("\n") == 10, point
        assert list((folder / ".loopkit/trees").glob("*/*/src")) == [], point


async def test_whoever_is_cancelled_while_it_waits_to_merge_keeps_nobody_out(
    tmp_path: Path,
) -> None:
    async def wait() -> None:
        async with alone(tmp_path):
            raise AssertionError("another has the lock")

    async with alone(tmp_path):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wait(), 0.05)
    # Whatever a thread might still be waiting for, it has by then.
    await asyncio.get_running_loop().shutdown_default_executor()
    other = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(other)


async def test_those_who_wait_to_merge_leave_threads_to_the_one_who_does(tmp_path: Path) -> None:
    async def merge() -> None:
        async with alone(tmp_path):
            await asyncio.to_thread(tmp_path.stat)

    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    await asyncio.wait_for(asyncio.gather(*(merge() for _ in range(3))), 30)
