"""The digest of a workspace: what changes it and what does not."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from loopkit.outside.trees import Folder, files_digest, make, read_tree


def git(folder: Path, *arguments: str) -> None:
    settings = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(("git", *settings, *arguments), cwd=folder, check=True, capture_output=True)


@pytest.fixture(params=["git", "plain"])
def work(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A workspace with a file in a folder; in git it is tracked."""
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    (folder / "src/tea.py").write_text("one\n")
    if request.param == "git":
        git(folder, "init", "-q")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "One")
    return folder


def written(name: str, text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)

    return write


@pytest.mark.parametrize(
    "change",
    [
        written("src/tea.py", "two\n"),
        written("src/new.py", ""),
        written(" odd\nname", ""),
        lambda folder: (folder / "src/tea.py").unlink(),
        lambda folder: (folder / "src/tea.py").rename(folder / "src/pot.py"),
        lambda folder: (folder / "src/tea.py").chmod(0o755),
        lambda folder: (folder / "link").symlink_to("/nowhere"),
        lambda folder: os.mkfifo(folder / "pipe"),
        lambda folder: (folder / os.fsdecode(b"not\xffutf8")).write_text(""),
    ],
    ids=["changed", "new", "odd name", "deleted", "renamed", "made a program", "link", "pipe",
         "bytes"],
)  # fmt: skip
def test_what_a_program_leaves_changes_the_digest(
    work: Path, change: Callable[[Path], object]
) -> None:
    before = files_digest(work)
    assert before == files_digest(work) != ""
    change(work)
    assert files_digest(work) not in ("", before)


def test_the_same_files_elsewhere_have_the_same_digest(work: Path, tmp_path: Path) -> None:
    shutil.copytree(work, tmp_path / "copy", symlinks=True)
    assert files_digest(tmp_path / "copy") == files_digest(work)


@pytest.mark.parametrize(("repository", "asked"), [(None, 0), ("work", 3), (".", 3), ("beside", 0)])
def test_git_is_started_only_where_there_may_be_a_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: str | None, asked: int
) -> None:
    calls = tmp_path / "calls"
    program = tmp_path / "bin/git"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho asked >> {calls}\nPATH={os.environ["PATH"]} exec git "$@"\n'
    )
    program.chmod(0o755)
    (tmp_path / "work/inner").mkdir(parents=True)
    (tmp_path / "work/inner/tea.py").write_text("one\n")
    if repository is not None:
        git(tmp_path, "init", "-q", repository)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    assert files_digest(tmp_path / "work/inner") != ""
    assert len(calls.read_text().splitlines() if calls.exists() else []) == asked


def test_a_folder_that_is_reached_by_a_link_belongs_to_the_repository_around_it(
    tmp_path: Path,
) -> None:
    git(tmp_path, "init", "-q", "work")
    (tmp_path / "work/src").mkdir()
    (tmp_path / "work/.gitignore").write_text("*.log\n")
    (tmp_path / "link").symlink_to(tmp_path / "work/src")
    before = files_digest(tmp_path / "link")
    (tmp_path / "work/src/out.log").write_text("")
    assert files_digest(tmp_path / "link") == before


def test_the_output_file_is_left_out(work: Path) -> None:
    plan = work / "plan.md"
    before = files_digest(work, plan)
    plan.write_text("A plan")
    assert files_digest(work, plan) == before != files_digest(work)


def test_a_folder_that_ignores_itself_does_not_count(work: Path) -> None:
    before = files_digest(work)
    cache = work / ".cache"
    cache.mkdir()
    (cache / ".gitignore").write_text("# Made by a program.\n*\n")
    (cache / "seen").write_text("1")
    assert files_digest(work) == before


def test_in_a_git_tree_what_it_ignores_does_not_count(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text("*.log\nout/\n")
    before = files_digest(tmp_path)
    (tmp_path / "out").mkdir()
    for name in ("a.log", "out/x"):
        (tmp_path / name).write_text("x")
    assert files_digest(tmp_path) == before
    # A commit alone changes no file.
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "One")
    assert files_digest(tmp_path) == before


def test_a_workspace_that_the_tree_around_it_ignores_is_looked_at_as_it_is(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text("out/\n")
    (tmp_path / "out").mkdir()
    before = files_digest(tmp_path / "out")
    (tmp_path / "out/x").write_text("x")
    assert files_digest(tmp_path / "out") not in ("", before)


def test_a_repository_in_the_repository_counts_with_its_files(work: Path) -> None:
    inner = work / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "x").write_text("one")
    before = files_digest(work)
    (inner / "x").write_text("two")
    assert files_digest(work) not in ("", before)


def test_no_program_that_a_repository_names_is_started(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "spy").write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    (tmp_path / "spy").chmod(0o755)
    git(tmp_path, "config", "core.fsmonitor", f"{tmp_path}/spy")
    assert files_digest(tmp_path)
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("kind", ["copy", "worktree"])
def test_what_comes_and_goes_meanwhile_does_not_keep_a_tree_from_being_made(
    tmp_path: Path, kind: Literal["copy", "worktree"]
) -> None:
    source, over = tmp_path / "source", threading.Event()
    source.mkdir()
    (source / "kept").write_text("kept")
    git(source, "init", "-q")
    git(source, "add", ".")
    git(source, "commit", "-qm", "One")

    def come_and_go() -> None:
        while not over.is_set():
            for number in range(20):
                (source / f".{number}").write_text("")
            for number in range(20):
                (source / f".{number}").unlink()

    other = threading.Thread(target=come_and_go)
    other.start()
    try:
        for number in range(20):
            made = make(kind, source, tmp_path / str(number), tmp_path / "without")
            assert (made / "kept").read_text() == "kept"
    finally:
        over.set()
        other.join()


def test_of_too_much_nothing_is_said(work: Path) -> None:
    (work / "b").write_text("x" * 3)
    assert files_digest(work, most_files=2, most_bytes=7)
    assert files_digest(work, most_files=1) == ""
    assert files_digest(work, most_bytes=6) == ""
    # What is too large is not read.
    os.truncate(work / "b", 10**13)
    assert files_digest(work) == ""


def test_of_a_folder_that_is_not_there_nothing_is_said(tmp_path: Path) -> None:
    assert files_digest(tmp_path / "gone") == ""


def test_folders_inside_one_another_cost_no_more_than_their_number(tmp_path: Path) -> None:
    deep = str(tmp_path)
    for _ in range(1_050):
        deep += "/d"
        os.mkdir(deep)  # noqa: PTH102 - too deep for Path
    try:
        os.mkfifo(f"{deep}/x")
        assert len(read_tree(Folder(tmp_path)).entries) == 1_051
    finally:
        # Longer than what Python can remove without calling itself too often.
        subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)
