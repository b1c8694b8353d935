"""What commands print at a terminal: wrapped at words, in colour; as it is anywhere else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loopkit.cli import invoke as run
from tests.support import ROOT
from tests.terminal import Terminal

ERRORS = ROOT / "tests/cases/err"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ERRORS / "lookup_path_in_name.yaml").read_text(encoding="utf-8")
    Path("machine.yaml").write_text(text, encoding="utf-8")


def at_terminal(*argv: str, **env: str) -> str:
    terminal = Terminal(argv, columns=80, env=env)
    terminal.end()
    return terminal.output.replace("\r\n", "\n")


@pytest.mark.parametrize("command", [["check", "machine.yaml"], ["run", "machine.yaml"]])
def test_problems_fit_a_terminal_and_have_colours(command: list[str]) -> None:
    screen = at_terminal(*command)
    rows = COLOUR.sub("", screen).splitlines()
    assert max(map(len, rows)) <= 80
    assert "\x1b[31merror[unknown-field]\x1b[0m: `input` has no field `skills[]`" in screen
    assert "\x1b[31m^^^^^^^^^^^^^^^^^^^\x1b[0m" in screen
    caret = next(n for n, row in enumerate(rows) if "^" in row)
    column = rows[caret].index("^")
    assert rows[caret - 1][column:].startswith('"input.skills[].id"')


def test_a_remedy_goes_on_under_its_first_word() -> None:
    Path("machine.yaml").write_text((ERRORS / "habit_retry.yaml").read_text(), encoding="utf-8")
    rows = COLOUR.sub("", at_terminal("check", "machine.yaml")).splitlines()
    begun = next(n for n, row in enumerate(rows) if row.startswith("  help: failed calls"))
    assert rows[begun + 1].startswith("        `agents:`; to have work revised")


def test_no_color_is_honoured() -> None:
    screen = at_terminal("check", "machine.yaml", NO_COLOR="1")
    assert "error[unknown-field]: `input`" in screen
    assert not COLOUR.search(screen)


def test_in_a_pipe_nothing_is_wrapped_or_coloured(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "machine.yaml"]) == 1
    printed = capsys.readouterr().out
    assert not COLOUR.search(printed)
    assert max(map(len, printed.splitlines())) > 100


def test_a_plan_fits_a_terminal() -> None:
    commits = "commits=" + "Fix export of empty tables. " * 9
    screen = at_terminal("plan", str(ROOT / "machines/release_notes.yaml"), "--set", commits)
    assert screen.count("Fix export") > 1
    assert max(map(len, COLOUR.sub("", screen).splitlines())) <= 80
