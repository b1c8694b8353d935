"""Programs that plant links, hard links and FIFOs wherever they can: nothing outside is harmed.

The canary is a folder beside the project. It keeps its bytes, modes, times and link counts, and the
word that only its files have never gets into anything that loopkit stores, shows or writes.
"""

from __future__ import annotations

import json
import re
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random
from shutil import rmtree

import pytest

from tests.support import CommandLine

WORD = "Quetzalcoatl"
OUTSIDE = "$P/../canary"
# `$T` is the folder in which the program works, `$P` that of the project, `$O` the canary.
PLANTS = {
    "the folder": "rm -rf $F; ln -s $O $F",
    "the folder, to one inside": "rm -rf $F; mkdir -p other; ln -s $T/other $F",
    "the folder, to itself": "rm -rf $F; ln -s $F $F",
    "a parent": "rm -rf a; ln -s $O a",
    "a file": "mkdir -p $F; rm -rf $F/f.txt; ln -s $O/secret $F/f.txt",
    "a file in place of the folder": "rm -rf $F; echo good >$F",
    "an inner folder": "mkdir -p $F; rm -rf $F/sub; ln -s $O $F/sub",
    "a folder in place of a file": "rm -rf $F/f.txt; mkdir -p $F/f.txt; echo x >$F/f.txt/x",
    "a link to the root": "mkdir -p $F; ln -sfn / $F/root",
    "a hard link": "mkdir -p $F; rm -rf $F/f.txt; ln $O/secret $F/f.txt",
    "another hard link": "mkdir -p $F; ln -f $O/deep/secret $F/hard",
    "a FIFO": "mkdir -p $F; rm -rf $F/f.txt; mkfifo $F/f.txt",
    "a FIFO beside": "mkdir -p $F; mkfifo $F/pipe",
    "the report": "rm -rf report.txt; ln -s $O/secret report.txt",
    "the report, hard": "rm -rf report.txt; ln $O/secret report.txt",
    "the note": "rm -rf out; mkdir out; ln -s $O/secret out/note.md",
    "the note, hard": "rm -rf out; mkdir out; ln $O/secret out/note.md",
    "the note's folder": "rm -rf out; ln -s $O out",
    "the tree": "cd ..; mv $T $T.moved; ln -s $O $T",
    "its repository": "rm -rf .git; echo gitdir: $O/.git/worktrees/x >.git",
    "a repository inside": "mkdir -p $F; rm -rf $F/.git; ln -s $O/.git $F/.git",
    "a repository's ignore file": "ln -sf $O/secret .gitignore",
    "the trees": "cd $P/.loopkit && mv trees trees.moved && ln -s $O trees",
    "the contents": "cd $P/.loopkit && mv trees.git moved.git && ln -s $O trees.git",
    "the workspaces": "cd $P/.loopkit && rm -rf workspaces && ln -s $O workspaces",
    "an ignore file": "ln -sf $O/f.txt $P/.loopkit/trees/.gitignore",
    "the state folder": "mv $P/.loopkit $P/.moved && ln -s $O $P/.loopkit",
    "a draft": "mkdir -p $F; ln -s $O/secret $F/.f.txt.loopkit",
}
GOOD = "rm -rf $F/f.txt; mkdir -p $F/sub; echo good $N >$F/f.txt"
# The programs of the test plant links, and do nothing through them.
INSIDE = (
    "case $(realpath -m $(dirname $F)) in $(realpath $T)*) [ -L $F ] && rm $F; "
    "( {} ) 2>/dev/null ;; esac"
)


def script(random: Random, folder: str) -> str:
    """What a program does: in its n-th work the n-th of these, over again."""
    acts = []
    for n in range(4):
        some = [
            PLANTS[name]
            for name in random.sample(sorted(PLANTS), random.choice([1 if n == 0 else 0, 1, 1, 2]))
        ]
        random.shuffle(some := [*some, *([GOOD] if random.random() < 0.6 else [])])
        acts.append("; ".join(INSIDE.format(act) for act in some) or "true")
    cases = "\n".join(f"{n}) {act} ;;" for n, act in enumerate(acts))
    count = "$P/count"
    return (
        f"T=$PWD; P=$1; O={OUTSIDE}; F={folder}\n"
        f"N=$(cat {count} 2>/dev/null || echo 0); echo $((N + 1)) >{count}\n"
        f"case $((N % 4)) in\n{cases}\nesac\necho done\n"
    )


def machine(random: Random, project: Path) -> str:
    output = random.choice(["folder: d", "folder: a/b", "folder: .", "file: d/f.txt"])
    place = output.partition(": ")[2].removesuffix("/f.txt")
    for name in ("author.sh", "rule.sh"):
        (project / name).write_text(script(random, place))
    isolate = random.choice(["none", "copy", "worktree"])
    best = "" if isolate == "none" or "folder" not in output else ", pick: best"
    author, rule = (
        json.dumps(["sh", str(project / f), str(project)]) for f in ("author.sh", "rule.sh")
    )
    read = random.choice(["", ", parse: lines, file: report.txt"])
    return f"""
loopkit: 1
workspace: {{path: ws, create: true, isolate: {isolate}}}
agents: {{w: {{command: {author}}}}}
states:
  code:
    agent: w
    prompt: "Do it. {{{{ feedback }}}}"
    output: {{name: fix, {output}}}
    on_error: {{content: failed}}
    next: check
  check:
    validate: fix
    by: [{{command: {rule}{read}}}, {{matches: {random.choice(["good", "never"])}}}]
    transitions: [{{guard: valid, target: tell}}, {{revise: code, max: 2}}, {{target: failed}}]
  tell:
    render: "Told: {{{{ fix }}}}"
    output: {{name: note, file: out/note.md, append: {random.choice(["true", "false"])}}}
    next: done
  done: {{final: success, result: note}}
  failed: {{final: failure, result: fix{best}}}
"""


def snapshot(canary: Path) -> dict[str, tuple[object, ...]]:
    """Everything in a folder: kind and mode, links, time, content."""

    def look(path: Path) -> tuple[object, ...]:
        info = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(info.st_mode) else b""
        times = () if stat.S_ISDIR(info.st_mode) else (info.st_nlink,)
        return (info.st_mode, info.st_mtime_ns, *times, content)

    return {str(path): look(path) for path in (canary, *sorted(canary.rglob("*")))}


def everything_written(project: Path) -> Iterator[bytes]:
    """All that loopkit has stored or written; what a link or hard link has is not its own."""
    for path in project.rglob("*"):
        info = path.lstat()
        if stat.S_ISREG(info.st_mode) and info.st_nlink == 1:
            yield path.read_bytes()
    store = project / ".loopkit/trees.git"
    for git in (store, store.with_name("moved.git")):
        if git.is_dir() and not git.is_symlink():
            ask = ("git", "--git-dir", git, "cat-file", "--batch-all-objects", "--batch")
            yield subprocess.run(ask, capture_output=True, check=True).stdout


@pytest.mark.parametrize(
    "seed", [*range(14), *(pytest.param(n, marks=pytest.mark.long) for n in range(14, 200))]
)
def test_nothing_outside_is_read_changed_or_deleted(
    seed: int, tmp_path: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, canary = tmp_path / "project", tmp_path / "canary"
    for path in (project / "ws/d", project / "ws/a/b", project / ".loopkit", canary / "deep"):
        path.mkdir(parents=True)
    for path in (project / "ws/d/f.txt", project / "ws/a/b/f.txt"):
        path.write_text("old\n")
    for path in (canary / "secret", canary / "deep/secret", canary / "f.txt"):
        path.write_text(f"{WORD}\n")
    for folder in (project / "ws", canary):
        for command in (("init", "-q"), ("add", "."), ("commit", "-qm", "One")):
            asked = ("git", "-c", "user.name=A", "-c", "user.email=a@example.org", *command)
            subprocess.run(asked, cwd=folder, check=True)
    (canary / "deep/secret").chmod(0o640)
    monkeypatch.chdir(project)
    Path("m.yaml").write_text(machine(Random(seed), project))
    before = snapshot(canary)
    said = "".join(cli.ends("run", "m.yaml")[1])
    run = re.findall(r"m-[0-9a-f]{6}", said)[0]
    if (project / ".loopkit").is_symlink():
        # What a command finds behind it is the user's wish.
        (project / ".loopkit").unlink()
        (project / ".moved").rename(project / ".loopkit")
    for command in (["resume", run], ["runs", "show", run], ["report", run, "-o", "report.md"]):
        code, more = cli.ends(*command)
        said += "".join(more)
        assert code != 70, said
    assert WORD not in said
    for written in everything_written(project):
        assert WORD.encode() not in written
    cli.ends("runs", "rm", run)
    rmtree(project)
    assert snapshot(canary) == before
