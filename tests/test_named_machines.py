"""Machines by name, a first machine of one's own, and `loopkit.yaml`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from loopkit.project import shipped_machines
from tests.support import MACHINES, CommandLine
from tests.terminal import Terminal

pytestmark = pytest.mark.usefixtures("own_folder")
NAMES = sorted(path.stem for path in MACHINES)
CASE = ["--case", "revised once", "--set", "commits=Fix the export"]


def texts() -> Mapping[Path, str]:
    """The files of the project and its machines."""
    found = [*Path().glob("*.yaml"), *Path().glob("machines/**/*.*")]
    return {path: path.read_text(encoding="utf-8") for path in found if path.is_file()}


def test_ls_has_a_sentence_for_each_machine_and_names_what_lists_runs(cli: CommandLine) -> None:
    told = cli(0, "ls")
    assert list(shipped_machines()) == NAMES
    assert re.findall(r"^  (\w+)  +\S.*\.$", told.out, re.MULTILINE) == NAMES
    assert "runs" not in told.err
    cli(0, "run", "release_notes", *CASE)
    assert "runs are listed by: loopkit runs ls" in cli(0, "ls").err


def test_a_name_stands_for_a_machine_where_a_path_is_taken(cli: CommandLine) -> None:
    assert "2 files: no errors" in cli(0, "check", "release_notes", "sql_query").err
    assert "3 cases passed" in cli(0, "test", "email_order").err
    Path("translation").mkdir()
    assert "stateDiagram" in cli(0, "diagram", "translation").out
    assert "openai/gpt-5-mini" in cli(0, "plan", "release_notes").out
    assert cli(0, "show", "code_fix").out == shipped_machines()["code_fix"].read_text("utf-8")
    assert "declares no MCP server" in cli(2, "mcp", "tools", "release_notes").err
    Path("draft.md").write_text("No plan.", encoding="utf-8")
    assert "Goal" in cli(1, "validate", "plan_review", "structure", "draft.md").out
    Path("release_notes").write_text("loopkit: 2", encoding="utf-8")
    assert "release_notes:1:" in cli(2, "run", "release_notes").err


def test_an_unknown_name_is_told_with_the_nearest_one(cli: CommandLine) -> None:
    for command in ("run", "check", "test", "show", "submit", "mcp machines", "serve --answer"):
        told = cli(2, *command.split(), "code_fx").err
        assert told.endswith("no file and no machine `code_fx`; did you mean `code_fix`?\n")


def test_a_run_by_name_works_here_and_is_shown_by_its_own_command(cli: CommandLine) -> None:
    told = cli(0, "run", "release_notes", *CASE, "--record", "tea.scenario.yaml")
    assert f"workspace: {Path.cwd()}\n" in told.err
    assert "1 case passed" in cli(0, "test", "tea.scenario.yaml").err
    run = re.search(r"^run (\S+)", told.err, re.MULTILINE)
    assert run is not None
    told = cli(2, "show", run[1])
    assert told.err == f"error: {run[1]} is a run; show it with: loopkit runs show {run[1]}\n"
    submitted = cli(0, "submit", "release_notes", "--set", "commits=x").out.strip()
    assert "has already finished" in cli(2, "submit", run[1]).err
    assert cli(0, "submit", submitted).out.strip() == submitted


@pytest.mark.parametrize("name", ["code_fix", "coding_loop", "task_validation"])
def test_a_machine_that_works_on_files_needs_a_workspace(name: str, cli: CommandLine) -> None:
    others = ("submit", "serve --answer", "mcp machines", "mcp validators")
    for command in ("run", *(others if name == "code_fix" else ())):
        told = cli(2, *command.split(), name).err
        assert f"`{name}` works on files" in told
        assert "add `--workspace DIR` to `loopkit run`" in told
        assert f"`loopkit new my_{name} --like {name}`" in told


def test_a_workspace_is_where_a_machine_by_name_works(cli: CommandLine) -> None:
    assert "the one that `loopkit run --workspace DIR` names" in cli(0, "plan", "code_fix").out
    Path("project/src").mkdir(parents=True)
    case = ["--case", "the first change repairs it"]
    cli(0, "run", "code_fix", "--workspace", "project", *case)
    assert "return a + b" in Path("project/src/calc.py").read_text(encoding="utf-8")


def passes_at_once(like: str, cli: CommandLine) -> None:
    told = cli(0, "new", "tea", "--like", like).err
    commands = re.findall(r"^  loopkit (check|test|plan) (\w+)$", told, re.MULTILINE)
    assert [command for command, _ in commands] == ["check", "test", "plan"]
    for command, name in commands:
        cli(0, command, name)
    cli(0, "plan", "tea", "-i", "machines/tea.input.yaml")
    if played := re.search(r"^  loopkit run (.*) --case '(.*)'$", told, re.MULTILINE):
        assert "tea-" in cli(0, "run", *played[1].split(), "--case", played[2]).err
    written = "\n".join(texts().values())
    assert "yaml-language-server" not in written
    assert f"{like}.yaml" not in written
    assert f"{like}/" not in written


@pytest.mark.parametrize("like", ["code_fix", "email_order", "release_notes"])
def test_a_new_machine_passes_check_test_and_plan_at_once(like: str, cli: CommandLine) -> None:
    passes_at_once(like, cli)


@pytest.mark.long
@pytest.mark.parametrize("like", NAMES)
def test_every_machine_of_a_release_can_be_made_ones_own(like: str, cli: CommandLine) -> None:
    passes_at_once(like, cli)


def test_new_overwrites_nothing(cli: CommandLine) -> None:
    Path("loopkit.yaml").write_text("notify: [none]\n", encoding="utf-8")
    cli(0, "new", "tea")
    cli(0, "check", "tea")
    before = texts()
    assert before[Path("loopkit.yaml")] == "notify: [none]\n"
    assert "already there: `machines/tea.yaml`" in cli(2, "new", "tea").err
    Path("machines/rum.input.yaml").symlink_to("nowhere")
    assert "already there: `machines/rum.input.yaml`" in cli(2, "new", "rum").err
    assert texts() == before
    Path("loopkit.yaml").write_text("machines: loopkit.yaml/there\n", encoding="utf-8")
    assert "there is no folder" in cli(2, "new", "tea").err


def test_new_says_what_a_name_is(cli: CommandLine) -> None:
    assert "try `loopkit new tea_party`" in cli(2, "new", "Tea party.yaml").err
    assert "did you mean `code_fix`?" in cli(2, "new", "tea", "--like", "code-fix").err
    Path("machines").write_text("", encoding="utf-8")
    assert "cannot write machines/tea.yaml: File exists" in cli(2, "new", "tea").err
    assert not [*Path().glob("*.yaml")]


def test_machines_and_runs_of_a_project_are_found_from_below(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOOPKIT_STATE", raising=False)
    cli(0, "new", "code_fix", "--like", "release_notes")
    root = Path.cwd()
    (root / "docs").mkdir()
    monkeypatch.chdir("docs")
    told = cli(0, "ls").out
    assert told.startswith("Of this project:\n  code_fix  Write release notes")
    assert "a coding program" not in told.partition("Of loopkit")[2].partition("coding_loop")[0]
    cli(0, "run", "code_fix", *CASE)
    assert (root / ".loopkit/journal.db").is_file()
    cli(0, "new", "second")
    assert (root / "machines/second.yaml").is_file()
    assert not list(Path().iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_project_file_of_a_stranger_above_is_none(cli: CommandLine) -> None:
    Path("loopkit.yaml").write_text("state: {}\n", encoding="utf-8")
    cli(2, "ls")
    os.chown("loopkit.yaml", 12_345, -1)
    cli(0, "ls")


def test_a_notifier_of_the_project_is_told_of_runs_of_machines_that_have_none(
    cli: CommandLine,
) -> None:
    Path("tell").write_text("#!/bin/sh\ncat > $1\n", encoding="utf-8")
    Path("tell").chmod(0o755)
    Path("loopkit.yaml").write_text("notify: [./tell, told.json]\n", encoding="utf-8")
    states = "states: {go: {render: Go., next: done}, done: {final: success}}"
    Path("a.yaml").write_text(f"loopkit: 1\n{states}\n", encoding="utf-8")
    own = f"loopkit: 1\nnotify: [./tell, own.json]\n{states}\n"
    Path("b.yaml").write_text(own, encoding="utf-8")
    cli(0, "run", "b.yaml")
    assert not Path("told.json").exists()
    cli(0, "run", "a.yaml")
    assert '"success": true' in Path("told.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("machine: x", "loopkit.yaml:1:1   (machine)|did you mean `machines`?"),
        ("machines: there", "loopkit.yaml:1:11|there is no folder `there`|make it, or correct"),
        ("state: [a]", "loopkit.yaml:1:8|expected text, found a list|write `state: a`"),
        ("state: postgresql://a/b", "is not the path of a folder|`--journal`"),
        ("machines: ''", "loopkit.yaml:1:11|is not the path of a folder|such as `.`"),
        ("notify: a b", "expected a list|write `notify: [a, b]`"),
        ("limits: {cost_usd: 1}", "unknown field `limits`|allowed: `machines`, `notify`, `state`"),
    ],
)
def test_what_is_wrong_in_the_project_file_has_its_place_and_a_remedy(
    text: str, told: str, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOOPKIT_STATE", raising=False)
    Path("loopkit.yaml").write_text(f"{text}\n", encoding="utf-8")
    for command in (("ls",), ("run", "release_notes"), ("runs", "ls"), ("new", "tea")):
        printed = cli(2, *command).err
        assert [part for part in told.split("|") if part not in printed] == []


def test_the_first_minute_at_a_terminal() -> None:
    for argv, pattern in (
        (["ls"], r"translation +Translate"),
        (["new", "tea"], r"loopkit run tea -i machines/tea.input.yaml --case 'revised once'"),
        (["check", "tea"], r"1 file: no errors"),
        (["test", "tea"], r"2 cases passed"),
        (["run", "tea", "-i", "machines/tea.input.yaml", "--case", "revised once"], r"2 calls\r"),
    ):
        terminal = Terminal(argv)
        terminal.wait_for(pattern)
        assert terminal.end() == 0
