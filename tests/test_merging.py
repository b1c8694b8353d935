"""Trees of one's own: what a copy and a worktree have, and what is merged back into a folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from weakref import finalize

import pytest

from loopkit.journal.contents import Contents
from loopkit.outside.trees import (
    CannotIsolate,
    Conflicts,
    Folder,
    Isolation,
    Tree,
    drop,
    is_in_git,
    make,
    read_tree,
)

TEN = "".join(f"line {n}\n" for n in range(10))


def git(folder: Path, *arguments: str) -> str:
    settings = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    done = subprocess.run(
        ("git", *settings, *arguments), cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


def write(folder: Path, **files: str | None) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        if text is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


class Sides:
    """A base, the folder that it came from, and a copy in which others work."""

    def __init__(self, root: Path, **files: str) -> None:
        self.contents = Contents()
        finalize(self, self.contents.close)
        self.ours = write(root / "ours", **files)
        self.theirs = make("copy", self.ours, root / "trees/1", root / "trees")
        self.base = self.keep(self.theirs)

    def keep(self, folder: Path) -> Tree:
        return self.contents.keep("run", Folder(folder))

    def merge(self) -> tuple[str, ...]:
        """Merge back; the paths in conflict."""
        ours = self.keep(self.ours)
        merge = self.contents.merge("run", self.base, ours, self.keep(self.theirs))
        if not merge.conflicts:
            self.contents.write(self.ours, ours, merge.tree)
            assert self.keep(self.ours) == merge.tree
        return merge.conflicts

    @property
    def files(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.ours)): path.read_text()
            for path in sorted(self.ours.rglob("*"))
            if path.is_file()
        }


def test_what_only_one_side_has_changed_is_taken_from_it(tmp_path: Path) -> None:
    sides = Sides(tmp_path, a="1", b="1", c="1", d__e="1", f__g="1")
    write(sides.ours, a="2", new_here="x", c=None)
    write(sides.theirs, b="2", d__e=None, new__there="y")
    assert sides.merge() == ()
    assert sides.files == {"a": "2", "b": "2", "f/g": "1", "new_here": "x", "new/there": "y"}
    # A folder without files is one.
    assert (sides.ours / "d").is_dir()


def test_both_sides_in_different_lines_of_a_text_are_merged(tmp_path: Path) -> None:
    sides = Sides(tmp_path, a=TEN)
    write(sides.ours, a=TEN.replace("line 0", "ours"))
    write(sides.theirs, a=TEN.replace("line 9", "theirs"))
    assert sides.merge() == ()
    assert sides.files["a"] == TEN.replace("line 0", "ours").replace("line 9", "theirs")


def test_the_same_change_on_both_sides_is_one(tmp_path: Path) -> None:
    sides = Sides(tmp_path, a="1", b="1")
    for folder in (sides.ours, sides.theirs):
        write(folder, a="2", b=None, c="3")
    assert sides.merge() == ()
    assert sides.files == {"a": "2", "c": "3"}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"a": "ours\n"}, {"a": "theirs\n"}),
        ({"a": None}, {"a": "theirs\n"}),
        ({"a": "ours\n"}, {"a": None}),
        ({"a": "\0ours"}, {"a": "\0theirs"}),
        ({"b": "ours\n"}, {"b": "theirs\n"}),
        ({"b": "a file"}, {"b__c": "in a folder"}),
        ({"b__c": "in a folder"}, {"b": "a file"}),
    ],
    ids=["lines", "gone here", "gone there", "binary", "two new", "file here", "folder here"],
)
def test_changes_that_exclude_each_other_are_named_and_nothing_is_merged(
    tmp_path: Path, ours: dict[str, str | None], theirs: dict[str, str | None]
) -> None:
    sides = Sides(tmp_path, a="1\n", other="1")
    write(sides.ours, **ours)
    write(sides.theirs, **theirs, other="2")
    before = sides.files
    [path] = sides.merge()
    assert path in ("a", "b", "b/c")
    assert sides.files == before


def test_a_mode_and_a_content_from_two_sides_are_merged(tmp_path: Path) -> None:
    sides = Sides(tmp_path, a="1", b="1")
    (sides.ours / "a").chmod(0o755)
    (sides.theirs / "b").chmod(0o755)
    write(sides.theirs, a="2")
    write(sides.ours, b="2")
    assert sides.merge() == ()
    assert sides.files == {"a": "2", "b": "2"}
    assert all(os.access(sides.ours / name, os.X_OK) for name in "ab")


def test_what_is_written_already_is_left_and_the_rest_follows(tmp_path: Path) -> None:
    sides = Sides(tmp_path, a="1", b="1", c="1")
    before = sides.keep(sides.ours)
    write(sides.theirs, a="2", b=None, d__e="2")
    after = sides.keep(sides.theirs)
    write(sides.ours, a="2", b=None)
    sides.contents.write(sides.ours, before, after)
    assert sides.files == {"a": "2", "c": "1", "d/e": "2"}
    sides.contents.write(sides.ours, before, after)
    assert sides.files == {"a": "2", "c": "1", "d/e": "2"}


def test_what_somebody_has_changed_meanwhile_is_not_written_over(tmp_path: Path) -> None:
    sides = Sides(tmp_path, a="1", b="1")
    before = sides.keep(sides.ours)
    write(sides.theirs, a="2", b="2")
    after = sides.keep(sides.theirs)
    write(sides.ours, b="mine")
    with pytest.raises(Conflicts) as caught:
        sides.contents.write(sides.ours, before, after)
    assert caught.value.paths == ("b",)
    assert sides.files == {"a": "1", "b": "mine"}


def repository(root: Path) -> Path:
    """A repository with a tracked file, a change, a new file and an ignored one."""
    folder = write(root / "project", **{".gitignore": "*.log\n"}, a="1", sub__b="1", gone="1")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "One")
    return write(folder, a="2", gone=None, **{"new": "x", "run.log": "noise", ".state__x": "s"})


def test_a_copy_has_everything_but_the_state_folder(tmp_path: Path) -> None:
    project = repository(tmp_path)
    place = make("copy", project, project / ".state/trees/run/1", project / ".state")
    assert (place / "a").read_text() == "2"
    assert (place / "run.log").read_text() == "noise"
    assert (place / ".git/HEAD").exists()
    assert not (place / ".state").exists()
    assert not (place / "gone").exists()
    assert git(place, "status", "--short", "a") == " M a\n"


def test_no_tree_is_made_behind_a_link(tmp_path: Path) -> None:
    project, outside = repository(tmp_path), write(tmp_path / "outside", **{"1__a": "mine"})
    (tmp_path / "trees").mkdir()
    (tmp_path / "trees/run").symlink_to(outside)
    with pytest.raises(CannotIsolate, match="it is a link now"):
        make("copy", project, tmp_path / "trees/run/1", project / ".state")
    assert (outside / "1/a").read_text() == "mine"


def test_a_worktree_has_what_git_does_not_ignore_as_it_is(tmp_path: Path) -> None:
    project = repository(tmp_path)
    before = git(project, "status", "--porcelain")
    place = make("worktree", project, tmp_path / "trees/1", tmp_path / "trees")
    assert {p.name: p.read_text() for p in place.iterdir() if p.is_file() and p.name != ".git"} == {
        ".gitignore": "*.log\n",
        "a": "2",
        "new": "x",
    }
    assert git(place, "status", "--porcelain") == before
    assert git(project, "status", "--porcelain") == before
    drop(place)
    assert not place.exists()
    assert len(git(project, "worktree", "list").splitlines()) == 1


def test_a_worktree_of_a_part_is_one_of_the_whole_repository(tmp_path: Path) -> None:
    project = repository(tmp_path)
    work = make("worktree", project / "sub", tmp_path / "trees/1", tmp_path / "trees")
    assert work == tmp_path / "trees/1/sub"
    assert (work / "b").read_text() == "1"
    assert (work.parent / "a").read_text() == "2"


def test_half_a_tree_that_was_left_is_made_anew(tmp_path: Path) -> None:
    project = repository(tmp_path)
    kinds: tuple[Isolation, ...] = ("worktree", "copy", "worktree")
    for kind in kinds:
        place = make(kind, project, tmp_path / "trees/1", tmp_path / "trees")
        assert (place / "a").read_text() == "2"
        (place / "a").unlink()


def test_a_worktree_needs_a_repository_with_a_commit(tmp_path: Path) -> None:
    folder = write(tmp_path / "plain", a="1")
    for _ in range(2):
        assert not is_in_git(folder)
        with pytest.raises(CannotIsolate, match="commit something, or write `isolate: copy`"):
            make("worktree", folder, tmp_path / "trees/1", tmp_path / "trees")
        git(folder, "init", "-q")
    assert not (tmp_path / "trees/1").exists()


def test_a_copy_of_a_worktree_shares_no_repository_with_it(tmp_path: Path) -> None:
    project = repository(tmp_path)
    worktree = make("worktree", project, tmp_path / "trees/1", tmp_path / "trees")
    assert not (make("copy", worktree, tmp_path / "trees/2", tmp_path / "x") / ".git").exists()


def test_a_copy_of_a_part_follows_the_rules_of_the_repository(tmp_path: Path) -> None:
    project = repository(tmp_path)
    write(project, sub__run_log="x", sub__deep__c="1")
    (project / "sub/deep/d.log").write_text("noise")
    place = make("copy", project / "sub", tmp_path / "trees/1", tmp_path / "trees")
    assert (place / "deep/d.log").exists()
    assert read_tree(Folder(place, origin=project / "sub")) == read_tree(Folder(project / "sub"))
    assert "deep/d.log" not in read_tree(Folder(place, origin=project / "sub")).entries
    assert "deep/d.log" in read_tree(Folder(place)).entries


def test_a_copy_of_an_ignored_folder_is_taken_as_a_whole(tmp_path: Path) -> None:
    project = write(repository(tmp_path), **{".gitignore": "work/\n", "work__a": "1"})
    place = make("copy", project / "work", tmp_path / "trees/1", tmp_path / "trees")
    assert read_tree(Folder(place, origin=project / "work")).entries.keys() == {"a"}


def test_a_pipe_in_a_folder_is_not_copied(tmp_path: Path) -> None:
    folder = write(tmp_path / "plain", a="1")
    os.mkfifo(folder / "pipe")
    place = make("copy", folder, tmp_path / "trees/1", tmp_path / "trees")
    assert [path.name for path in place.iterdir()] == ["a"]


def test_a_worktree_is_made_where_git_remembers_one_that_is_gone(tmp_path: Path) -> None:
    project = repository(tmp_path)
    for _ in range(2):
        place = make("worktree", project, tmp_path / "trees/1", tmp_path / "trees")
        shutil.rmtree(place)
    assert len(git(project, "worktree", "list").splitlines()) == 2


def test_worktrees_of_one_repository_are_made_and_dropped_at_the_same_time(tmp_path: Path) -> None:
    # As the tasks of a machine do, or the runs of several processes.
    repository = write(tmp_path / "repository", a="1\n")
    git(repository, "init", "-q")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "one")

    def made_and_dropped(number: int) -> str:
        for _ in range(8):
            place = make("worktree", repository, tmp_path / f"tree_{number}", tmp_path / "none")
            text = (place / "a").read_text()
            drop(place)
        return text

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(made_and_dropped, range(8))) == ["1\n"] * 8
    assert len(git(repository, "worktree", "list").splitlines()) == 1
