"""Real files, folders, symlinks, pipes and sockets."""

import hashlib
import os
import socket
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopkit.outside.workspace import (
    OutsideWorkspace,
    UnreadableArtifact,
    UnusableWorkspace,
    mark,
    prepare,
    read_text,
    resolve_inside,
    was_written_since,
)

no_modes = pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "work"
    folder.mkdir()
    return folder


def outside(root: Path, relative: str) -> str:
    with pytest.raises(OutsideWorkspace) as caught:
        resolve_inside(root, relative)
    return str(caught.value)


# Paths


@pytest.mark.parametrize(
    ("relative", "inside"),
    [
        ("plan.md", "plan.md"),
        ("docs/plan.md", "docs/plan.md"),
        ("./docs//plan.md", "docs/plan.md"),
        (".", ""),
        ("..plan", "..plan"),
        ("docs/~draft", "docs/~draft"),
        ("docs ö/plan 1.md", "docs ö/plan 1.md"),
    ],
)
def test_a_path_inside_is_made_absolute_and_nothing_is_created(
    root: Path, relative: str, inside: str
) -> None:
    assert resolve_inside(root, relative) == root / inside
    assert list(root.iterdir()) == []


@pytest.mark.parametrize(
    ("relative", "flaw"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        ("/etc/passwd", "is absolute"),
        ("//etc", "is absolute"),
        ("..", "contains '..'"),
        ("docs/../../secret", "contains '..'"),
        ("docs/..", "contains '..'"),
        ("~/secret", "starts with ~"),
        ("~root", "starts with ~"),
        ("a\0b", "contains a NUL character"),
    ],
)
def test_a_path_that_leaves_the_workspace_is_refused(root: Path, relative: str, flaw: str) -> None:
    message = outside(root, relative)
    assert message.startswith(f"path {relative!r} {flaw}")
    assert message.endswith(f"starts at the workspace {str(root)!r} and stays inside it")


def test_an_absolute_path_is_refused_even_if_it_lies_inside(root: Path) -> None:
    assert "is absolute" in outside(root, str(root / "plan.md"))


@pytest.mark.parametrize("target", ["../secret", "/etc", "..", "../work2", "chain"])
def test_a_symlink_that_leads_out_is_refused(root: Path, target: str) -> None:
    (root.parent / "work2").mkdir()
    (root / "chain").symlink_to("../elsewhere")
    (root / "link").symlink_to(target)
    for relative in ("link", "link/x", "link/new/deep.md"):
        assert "is a symlink to" in outside(root, relative)


def test_a_symlink_that_stays_inside_is_followed(root: Path) -> None:
    (root / "docs").mkdir()
    (root / "link").symlink_to("docs")
    assert resolve_inside(root, "link/plan.md") == root / "docs/plan.md"


def test_a_workspace_is_named_by_any_path_that_leads_to_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root.parent / "alias").symlink_to("work")
    monkeypatch.chdir(root.parent)
    for name in (root.parent / "alias", Path("work")):
        assert resolve_inside(name, "plan.md") == root / "plan.md"


def test_a_symlink_loop_stays_inside_and_cannot_be_read(root: Path) -> None:
    (root / "loop").symlink_to("loop")
    with pytest.raises(UnreadableArtifact, match="can't be read"):
        read_text(resolve_inside(root, "loop"))


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(["..", ".", "", "out", "in", "loop", "~", "/", "\0", "x" * 300]),
            st.text(st.characters(exclude_categories=()), max_size=8),
        ),
        max_size=6,
    )
)
def test_every_path_is_inside_or_refused(tmp_path: Path, parts: list[str]) -> None:
    root = tmp_path.resolve() / "work"
    if not root.exists():
        (root / "docs").mkdir(parents=True)
        (root / "out").symlink_to("..")
        (root / "in").symlink_to("docs")
        (root / "loop").symlink_to("loop")
    try:
        path = resolve_inside(root, "/".join(parts))
    except OutsideWorkspace:
        return
    assert path == root or root in path.parents
    assert ".." not in path.parts
    assert not was_written_since(path, mark(path))


def test_preparing_creates_the_folder_with_its_parents_and_leaves_its_files(root: Path) -> None:
    (root / "plan.md").write_text("plan")
    (root.parent / "alias").symlink_to("work")
    assert prepare(root.parent / "alias/a/b") == root / "a/b"
    assert (root / "a/b").is_dir()
    assert prepare(root.parent / "alias") == root
    assert (root / "plan.md").read_text() == "plan"


@pytest.mark.parametrize(
    "name", ["file", "file/sub", "dangling", "loop", "loop/x", "a\0b", "a\ud800"]
)
def test_a_workspace_that_cannot_be_a_folder_is_refused(root: Path, name: str) -> None:
    (root / "file").touch()
    (root / "dangling").symlink_to("nowhere")
    (root / "loop").symlink_to("loop")
    with pytest.raises(UnusableWorkspace, match="name a folder that can be created") as caught:
        prepare(root / name)
    assert isinstance(caught.value.__cause__, OSError | ValueError)
    assert str(caught.value).encode()


# What an attempt has written


@pytest.fixture
def plan(root: Path) -> Path:
    """A file that stands there since long before the attempt."""
    path = root / "plan.md"
    path.write_text("plan")
    os.utime(path, ns=(10**18, 10**18))
    return path


def test_a_mark_says_what_stands_there(plan: Path) -> None:
    digest = hashlib.sha256(b"plan").hexdigest()
    inode = plan.stat().st_ino
    assert mark(plan) == f"{digest} {10**18} 4 {inode}"
    assert mark(plan.with_name("gone")) == ""


@pytest.mark.parametrize(
    ("act", "written"),
    [
        ("true", False),
        ("cat plan.md; chmod 400 plan.md", False),
        ("rm plan.md", False),
        # Other content under the old time and size, and the same content at other times.
        ("printf PLAN > plan.md; touch -d @1000000000 plan.md", True),
        ("printf plan > plan.md", True),
        ("touch -d @1000000001 plan.md", True),
        ("touch -d @999999999 plan.md", True),
        ("printf other > tmp; mv tmp plan.md", True),
    ],
)
def test_a_file_is_written_where_its_content_or_its_time_is_another_one(
    plan: Path, act: str, written: bool
) -> None:
    before = mark(plan)
    subprocess.run(["sh", "-c", act], cwd=plan.parent, check=True)
    assert was_written_since(plan, before) is written


@pytest.mark.parametrize("watched", ["new.md", "."])
def test_what_is_watched_is_written_when_a_file_comes(root: Path, watched: str) -> None:
    os.utime(root, ns=(10**18, 10**18))
    before = mark(root / watched)
    assert not was_written_since(root / watched, before)
    (root / "new.md").touch()
    assert was_written_since(root / watched, before)


def test_a_folder_in_place_of_a_file_is_written(plan: Path) -> None:
    before = mark(plan)
    plan.unlink()
    plan.mkdir()
    os.utime(plan, ns=(10**18, 10**18))
    assert was_written_since(plan, before)


@pytest.mark.parametrize("name", ["loop", "plan.md/x", "x" * 300, "a\0b", "a\ud800"])
def test_what_cannot_be_looked_at_does_not_exist(root: Path, plan: Path, name: str) -> None:
    (root / "loop").symlink_to("loop")
    assert mark(root / name) == ""


@no_modes
def test_a_file_that_may_not_be_read_has_no_digest(plan: Path) -> None:
    plan.chmod(0)
    inode = plan.stat().st_ino
    assert mark(plan) == f" {10**18} 4 {inode}"


# Text


def unreadable(path: Path, limit: int = 100) -> str:
    with pytest.raises(UnreadableArtifact) as caught:
        read_text(path, limit)
    assert f"file {str(path)!r} " in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("Größe ✓\r\nx\ry\n".encode(), "Größe ✓\r\nx\ry\n"),
        (b"", ""),
        (b"\xef\xbb\xbf# Plan", "# Plan"),
    ],
)
def test_text_comes_as_it_is_but_for_a_byte_order_mark(
    root: Path, content: bytes, text: str
) -> None:
    (root / "plan.md").write_bytes(content)
    assert read_text(root / "plan.md", limit=len(content)) == text


def test_a_symlink_is_followed(root: Path, plan: Path) -> None:
    (root / "link").symlink_to(plan)
    assert read_text(root / "link") == "plan"


def test_the_limit_counts_bytes(root: Path) -> None:
    (root / "plan.md").write_text("é" * 50, encoding="utf-8")
    assert read_text(root / "plan.md", limit=100) == "é" * 50
    refused = "has 100 bytes, and at most 99 are read; write a shorter one"
    assert refused in unreadable(root / "plan.md", 99)


def test_a_huge_file_is_refused_without_reading_it_all(root: Path) -> None:
    with (root / "huge").open("wb") as file:
        file.truncate(1 << 40)
    started_s = time.process_time()
    assert "has 1,099,511,627,776 bytes, and at most 100 are read" in unreadable(root / "huge")
    assert time.process_time() - started_s < 1


def test_a_missing_file_is_named(root: Path) -> None:
    message = unreadable(root / "gone.md")
    assert message == f"file {str(root / 'gone.md')!r} does not exist; write it"


@pytest.mark.parametrize(
    ("content", "place"),
    [(b"plan\xff", "byte 4"), (b"\xff\xfep\0l\0", "byte 0"), (b"\xc3", "byte 0")],
)
def test_what_is_not_utf_8_is_refused_at_its_place(root: Path, content: bytes, place: str) -> None:
    (root / "plan.md").write_bytes(content)
    message = unreadable(root / "plan.md")
    assert f"is not UTF-8 text ({place}); save it as UTF-8" in message


def test_what_is_no_text_is_refused_at_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    (root / "plan.md").write_bytes(b"pl\0an")
    assert "is binary" in unreadable(root / "plan.md")
    assert "is a folder; write a file" in unreadable(root)
    os.mkfifo(root / "pipe")  # to open it would take for ever
    assert mark(root / "pipe").startswith(" ")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        for name in ("pipe", "socket", "/dev/zero", "/dev/null", "/dev/tty"):
            assert "is a device, a pipe or a socket" in unreadable(root / name)


@pytest.mark.parametrize("name", ["loop", "plan.md/x", "x" * 300, "a\0b", "a\ud800"])
def test_what_cannot_be_opened_is_refused_with_the_reason(
    root: Path, plan: Path, name: str
) -> None:
    (root / "loop").symlink_to("loop")
    with pytest.raises(
        UnreadableArtifact, match=r"can't be read \(.+\); make it readable"
    ) as caught:
        read_text(root / name)
    assert isinstance(caught.value.__cause__, OSError | ValueError)
    assert str(caught.value).encode()


@no_modes
def test_a_file_that_may_not_be_read_is_refused(plan: Path) -> None:
    plan.chmod(0)
    assert "can't be read (Permission denied)" in unreadable(plan)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(content=st.binary(max_size=40), limit=st.integers(0, 40))
def test_every_content_is_its_text_or_refused(tmp_path: Path, content: bytes, limit: int) -> None:
    path = tmp_path / "any"
    path.write_bytes(content)
    try:
        text = read_text(path, limit)
    except UnreadableArtifact:
        return
    assert text.encode() == content.removeprefix(b"\xef\xbb\xbf")
    assert len(content) <= limit
    assert "\0" not in text
