"""What is kept of folders comes back byte for byte, whatever is in them and whoever is killed."""

from __future__ import annotations

import os
import random
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from shutil import copytree, rmtree

import pytest

from loopkit.journal.contents import Contents
from loopkit.outside.trees import Folder, NotKept, Tree, blob_id, read_tree, require_git

NAMES = [
    "a", "b.txt", "C", "c", "with blank ", "-dash", "new\nline", 'quo"te', "back\\slash", "ü",
    b"not\xffutf8".decode(errors="surrogateescape"), "git~1", ".gitattributes", ".hidden", "a:b",
    "CON", "\U0001f375", ".git", "x" * 200, "#", "%", ".git%", "tab\t", "~", "$HOME", "*.txt",
]  # fmt: skip
TEXTS = [
    b"", b"text\n", b"no end", b"one\r\ntwo\r\n", b"\r", b"\0binary\xff", b"ident $Id$\n",
    b"*.txt text eol=crlf filter=lfs\n* binary\n", b"latin \xe9\n", "tea ☕\n".encode(),
]  # fmt: skip
MODES = [0o644, 0o755, 0o600, 0o444, 0o666, 0o700, 0o640]


def fill(random: random.Random, folder: Path, depth: int = 0) -> None:
    """Make some files, links, folders and repositories in a folder."""
    for name in random.sample(NAMES, random.randint(0, 7)):
        path, kind = folder / name, random.random()
        if depth == 0 and name == ".git":
            continue
        if kind < 0.2 and depth < 4:
            path.mkdir()
            fill(random, path, depth + 1)
            path.chmod(random.choice([0o755, 0o700, 0o775]))
        elif kind < 0.3:
            path.symlink_to(random.choice(["a", "..", "/nowhere", "/etc/passwd", "c/d", name]))
        elif kind < 0.35 and name != ".git":
            subprocess.run(("git", "init", "-q", path), check=True)
            (path / "file").write_bytes(random.choice(TEXTS))
        else:
            path.write_bytes(random.choice(TEXTS) * random.choice([1, 1, 1, 3_000]))
            path.chmod(random.choice(MODES))


def look(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything in a folder with its kind, mode and content."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            found[str(path.relative_to(folder))] = ("link", str(path.readlink()))
        else:
            content = path.read_bytes() if stat.S_ISREG(mode) else b""
            found[str(path.relative_to(folder))] = (stat.S_IFMT(mode), mode & 0o777, content)
    return found


@pytest.mark.parametrize(
    "seed", [*range(20), *(pytest.param(n, marks=pytest.mark.long) for n in range(20, 200))]
)
def test_a_folder_comes_back_as_it_was(seed: int, tmp_path: Path) -> None:
    made, contents = random.Random(seed), Contents(tmp_path / "state")
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        fill(made, folder)
    work = tmp_path / "work"
    copytree(folders[0], work, symlinks=True)
    first = contents.keep("run", Folder(work))
    rmtree(work)
    copytree(folders[1], work, symlinks=True)
    second = contents.keep("run", Folder(work))
    for tree, folder in ((first, folders[0]), (second, folders[1]), (first, folders[0])):
        now = read_tree(Folder(work))
        contents.write(work, now, contents.tree(tree.digest), ignored_may_go=True)
        assert look(work) == look(folder)
    # A merge with a side that has changed nothing is the other side.
    for ours, theirs in ((first, second), (second, first)):
        merged = contents.merge("run", first, ours, theirs)
        assert (merged.conflicts, merged.tree) == ((), second)


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.long)])
def test_many_files_come_back(count: int, tmp_path: Path) -> None:
    contents, work = Contents(tmp_path / "state"), tmp_path / "work"
    for n in range(count):
        path = work / f"{n % 97}/{n % 7}/file {n}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{n}\n" * (n % 5))
    tree, before = contents.keep("run", Folder(work)), look(work)
    for path in list(work.iterdir())[::2]:
        rmtree(path)
    contents.write(work, read_tree(Folder(work)), tree)
    assert look(work) == before


@pytest.mark.parametrize("kind", ["FIFO", "socket"])
def test_what_is_neither_a_file_nor_a_link_nor_a_folder_is_refused_by_name(
    kind: str, tmp_path: Path
) -> None:
    (tmp_path / "work/sub").mkdir(parents=True)
    os.mknod(tmp_path / "work/sub/it", stat.S_IFIFO if kind == "FIFO" else stat.S_IFSOCK)
    with pytest.raises(NotKept, match=f"'sub/it' is a {kind}.*remove it"):
        Contents().keep("run", Folder(tmp_path / "work"))


def test_a_folder_that_is_reached_by_a_link_is_neither_read_nor_written(tmp_path: Path) -> None:
    contents = Contents()
    for name in ("work", "outside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    tree = contents.keep("run", Folder(tmp_path / "work"))
    (tmp_path / "work/file").unlink()
    (tmp_path / "work").rmdir()
    (tmp_path / "work").symlink_to("outside")
    with pytest.raises(NotKept, match="it is a link now"):
        contents.keep("run", Folder(tmp_path / "work"))
    with pytest.raises(OSError, match="it is a link now"):
        contents.write(tmp_path / "work", Tree(), tree)
    assert (tmp_path / "outside/file").read_text() == "outside"
    contents.close()


def test_the_draft_of_a_writer_that_was_killed_is_no_file_of_anybodys(tmp_path: Path) -> None:
    contents, work = Contents(), tmp_path / "work"
    work.mkdir()
    (work / "a").write_text("old")
    before = contents.keep("run", Folder(work))
    (work / "a").write_text("new")
    after = contents.keep("run", Folder(work))
    (work / "a").write_text("old")
    draft = work / f".loopkit-{blob_id(b'a')[:16]}"
    draft.write_text("half")
    assert contents.keep("run", Folder(work)) == before
    contents.write(work, before, after)
    assert [path.name for path in work.iterdir()] == ["a"]
    contents.close()


KEEPING = """
import sys
from pathlib import Path
from loopkit.journal.contents import Contents
from loopkit.outside.trees import Folder
contents = Contents(Path(sys.argv[1]))
print(contents.keep(sys.argv[3], Folder(Path(sys.argv[2]))).digest, flush=True)
"""


def test_whoever_is_killed_while_a_folder_is_kept_loses_nothing(tmp_path: Path) -> None:
    state, work = tmp_path / "state", tmp_path / "work"
    work.mkdir()
    contents = Contents(state)
    (work / "first").write_text("first\n")
    first = contents.keep("first", Folder(work))
    for n in range(300):
        (work / str(n)).write_bytes(random.Random(n).randbytes(3_000))
    for delay in (0.12, 0.16, 0.2, 0.24, 0.28):
        command = (sys.executable, "-c", KEEPING, state, work, f"run {delay}")
        keeping = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        time.sleep(delay)
        os.killpg(keeping.pid, signal.SIGKILL)
        said, _ = keeping.communicate()
        if said:
            assert len(contents.tree(said.decode().strip()).entries) == 301
        assert contents.tree(first.digest) == first
    whole = contents.keep("again", Folder(work))
    contents.forget([run for run in contents.runs() if run != "again"])
    before = look(work)
    rmtree(work)
    work.mkdir()
    contents.write(work, read_tree(Folder(work)), contents.tree(whole.digest))
    assert look(work) == before


def test_what_is_kept_while_another_run_is_removed_stays(tmp_path: Path) -> None:
    contents, work = Contents(tmp_path / "state"), tmp_path / "work"
    work.mkdir()
    (work / "a").write_text("the same in both")
    old = contents.keep("old", Folder(work))
    make_older(tmp_path / "state/trees.git")
    assert contents.keep("new", Folder(work)).digest == old.digest
    contents.forget(["old"])
    assert contents.runs() == ["new"]
    assert contents.tree(old.digest) == old
    contents.forget(["new"])
    # Somebody may be about to name what is new.
    assert objects_in(tmp_path / "state/trees.git") != b""
    make_older(tmp_path / "state/trees.git")
    contents.forget(["new"])
    assert objects_in(tmp_path / "state/trees.git") == b""


def make_older(repository: Path) -> None:
    hours_ago = time.time() - 3 * 3600
    for path in (repository / "objects").rglob("*"):
        os.utime(path, (hours_ago, hours_ago))


def objects_in(repository: Path) -> bytes:
    asked = ("git", "--git-dir", repository, "cat-file", "--batch-all-objects", "--batch-check")
    return subprocess.run(asked, check=True, capture_output=True).stdout


def test_an_attribute_a_hook_and_a_users_configuration_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, home = tmp_path / "started", tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        f"[core]\n autocrlf = true\n hooksPath = {home}\n fsmonitor = touch {started}\n"
        f'[filter "x"]\n clean = touch {started}\n required = true\n'
    )
    for hook in ("post-checkout", "reference-transaction", "post-index-change"):
        (home / hook).write_text(f"#!/bin/sh\ntouch {started}\n")
        (home / hook).chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    contents, work = Contents(tmp_path / "state"), tmp_path / "work"
    work.mkdir()
    (work / ".gitattributes").write_text("* text eol=lf filter=x\n")
    (work / "a").write_bytes(b"one\r\n")
    tree, before = contents.keep("run", Folder(work)), look(work)
    (work / "a").unlink()
    contents.write(work, read_tree(Folder(work)), tree)
    assert look(work) == before
    assert not started.exists()


def test_without_git_a_folder_says_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin/git"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho git version 2.25.1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    for _ in range(2):
        require_git.cache_clear()
        with pytest.raises(NotKept, match=r"install git 2\.38 or newer"):
            Contents(tmp_path / "state").keep("run", Folder(tmp_path))
        program.unlink(missing_ok=True)
    require_git.cache_clear()
