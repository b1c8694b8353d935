"""Files that templates write: whole, or added to what is there, each addition once."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopkit.document.writing import NotWritable, add_to_file, replace_file, size_of
from loopkit.engine.events import Adding
from tests.crash.points import killed_at_points
from tests.support import Desk

LOG = """
loopkit: 1
input: {text: {type: str, default: tea}, n: {type: int, default: 0}}
WORKSPACE
states:
  note:
    render: "- {{ input.text }}\\n"
    output: {name: entry, file: "docs/{{ input.text }}.md", append: APPEND}
    next: done
  done: {final: success, result: entry}
"""


def log(append: str = "true", workspace: str = "") -> str:
    return LOG.replace("APPEND", append).replace("WORKSPACE", workspace)


def test_a_text_is_added_to_what_a_file_holds(desk: Desk) -> None:
    desk.write("docs/tea.md", "# Tea\n")
    desk.play(log())
    run = desk.play(log())
    assert (run.outcome, run.result) == ("done", {"entry": "- tea\n"})
    assert (desk.folder / "docs/tea.md").read_text() == "# Tea\n- tea\n- tea\n"
    assert [event.after for event in run.of(Adding)] == [len("# Tea\n- tea\n")]


def test_without_append_a_file_is_written_anew(desk: Desk) -> None:
    desk.write("docs/tea.md", "# Tea, and much more\n")
    assert desk.play(log("false")).outcome == "done"
    assert (desk.folder / "docs/tea.md").read_text() == "- tea\n"


def test_a_file_is_written_in_the_workspace_of_the_machine(desk: Desk) -> None:
    desk.play(log(workspace="workspace: {path: work, create: true}"))
    assert (desk.folder / "work/docs/tea.md").read_text() == "- tea\n"


@pytest.mark.parametrize("append", ["true", "false"])
def test_no_file_is_written_outside_the_workspace(desk: Desk, append: str) -> None:
    run = desk.play(
        log(append, "workspace: {path: work, create: true}"), inputs={"text": "../../../x"}
    )
    assert run.state.suspended is not None
    assert run.state.suspended.reason == "fatal"
    assert "contains '..'" in run.state.suspended.message
    assert not list(desk.folder.parent.glob("x.md"))


@pytest.mark.parametrize("append", ["true", "false"])
def test_a_file_that_cannot_be_written_stops_the_run_until_it_can(
    tmp_path: Path, append: str
) -> None:
    desk = Desk(tmp_path, in_memory=False)
    (desk.folder / "docs/tea.md").mkdir(parents=True)
    run = desk.play(log(append))
    assert run.state.suspended is not None
    assert "is a folder" in run.state.suspended.message
    (desk.folder / "docs/tea.md").rmdir()
    assert desk.resume(run.state.run).outcome == "done"
    assert (desk.folder / "docs/tea.md").read_text() == "- tea\n"


@pytest.mark.parametrize("append", ["true", "false"])
def test_a_name_that_is_too_long_for_a_file_stops_the_run(desk: Desk, append: str) -> None:
    suspended = desk.play(log(append), inputs={"text": "x" * 300}).state.suspended
    assert suspended is not None
    assert suspended.reason == "fatal"
    assert "can't be written: File name too long" in suspended.message


def test_a_link_to_itself_is_replaced_by_a_file_and_not_added_to(desk: Desk) -> None:
    (desk.folder / "docs").mkdir()
    (desk.folder / "docs/tea.md").symlink_to("tea.md")
    suspended = desk.play(log()).state.suspended
    assert suspended is not None
    assert "can't be written: Too many levels of symbolic links" in suspended.message
    assert desk.play(log("false")).outcome == "done"
    assert (desk.folder / "docs/tea.md").read_text() == "- tea\n"


def test_a_part_of_an_addition_is_completed_and_a_whole_one_is_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "log.md"
    file.write_text("old\n")
    before = size_of(file)
    for found in ("", "- t", "- tea\n", "other\n"):
        file.write_text(f"old\n{found}")
        add_to_file(file, "- tea\n", before)
        other = found if found == "other\n" else ""
        assert file.read_text() == f"old\n{other}- tea\n"
    file.write_text("old\nother\n- tea\nmore\n")
    add_to_file(file, "- tea\n", before)
    assert file.read_text() == "old\nother\n- tea\nmore\n"


def test_a_protected_file_is_neither_replaced_nor_added_to(tmp_path: Path) -> None:
    file = tmp_path / "log.md"
    file.write_text("old\n")
    file.chmod(0o444)
    with pytest.raises(NotWritable):
        replace_file(file, "new\n")
    with pytest.raises(NotWritable):
        add_to_file(file, "new\n", 4)
    assert file.read_text() == "old\n"


def test_a_text_is_added_once_wherever_the_process_is_killed(tmp_path: Path) -> None:
    told = killed_at_points(tmp_path, log())
    assert len(told) > 5
    for point in told:
        if point["outcome"] is not None:
            assert point["outcome"] == "done"
            written = tmp_path / "work" / point["point"] / "docs/tea.md"
            assert written.read_text() == "- tea\n", point
