"""What commands print at a terminal: wrapped at words, in colour; as it is anywhere else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loopkit.cli import invoke as run
from loopkit.cli.terminal import wrap
from tests.support import ROOT
from tests.terminal import Terminal

ERRORS = ROOT / "tests/cases/err"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(autouse=True)
def folder(own_folder: Path) -> None:
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


def test_a_plan_is_wrapped_by_the_terminal_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", str(ROOT / "machines/plan_review.yaml")]) == 0
    [note] = [row for row in capsys.readouterr().out.splitlines() if row.startswith("- most")]
    assert note.endswith("one for each call that is open.")


CASES = """
scenario: 1
machine: machine.yaml
cases:
  a case whose name is so long that it does not fit on one row of it: {expect: {outcome: done}}
  another: {expect: {path: [done]}}
"""


def test_cases_fit_a_terminal_and_have_colours() -> None:
    machine = "loopkit: 1\nstates: {say: {render: Tea., next: done}, done: {final: success}}\n"
    Path("machine.yaml").write_text(machine, encoding="utf-8")
    Path("a.scenario.yaml").write_text(CASES, encoding="utf-8")
    screen = at_terminal("test", "a.scenario.yaml")
    assert max(map(len, COLOUR.sub("", screen).splitlines())) <= 80
    assert "\x1b[32mok\x1b[0m (0." in screen
    assert "\x1b[31mFAILED\x1b[0m (0." in screen


def test_a_plan_fits_a_terminal() -> None:
    commits = "commits=" + "Fix export of empty tables. " * 9
    screen = at_terminal("plan", str(ROOT / "machines/release_notes.yaml"), "--set", commits)
    assert screen.count("Fix export") > 1
    assert max(map(len, COLOUR.sub("", screen).splitlines())) <= 80


REVIEWED = """
loopkit: 1
input: {facts: {type: {kind: str}, default: {kind: tea}}}
agents: {writer: {model: openai/gpt-5-mini, schema: {title: str, steps: [str]}}}
states:
  draft: {agent: writer, prompt: Write., next: check}
  check:
    validate: draft
    by: [{require: title != "Tea", message: "FINDING"}]
    transitions: [{revise: draft, max: 1}, {target: sign}]
  sign:
    human: Is it right?
    show: [draft, report]
    choices: [accept, change]
    form: {reader: str}
    transitions:
      - {guard: choice == "accept", target: done}
      - {revise: draft, feedback: "{{ comment }}"}
  done: {final: success, result: draft}
"""
LONG = "The title names the drink and not what the reader wants to know, which is how to brew it."
TEA = "{data: {title: Tea, steps: [Boil a litre of water, Wait for the water to cool a little]}}"


def test_the_review_of_a_waiting_run_fits_a_terminal_and_has_colours() -> None:
    Path("machine.yaml").write_text(REVIEWED.replace("FINDING", LONG), encoding="utf-8")
    script = f"scenario: 1\nagents: {{writer: [{TEA}, {TEA}]}}\n"
    Path("script.yaml").write_text(script, encoding="utf-8")
    terminal = Terminal(["run", "machine.yaml", "--script", "script.yaml"], columns=60)
    asked = terminal.wait_for("Your choice: ")
    assert "--form" not in asked
    terminal.type("\x03")
    terminal.end()
    left = COLOUR.sub("", terminal.output)
    name = left[left.index("run machine-") + 4 :].split()[0]
    shown = Terminal(["runs", "show", name], columns=60)
    shown.end()
    for screen in (asked, shown.output):
        rows = re.sub(r"\x1b\[\?7[lh]", "", COLOUR.sub("", screen)).splitlines()
        rows = [row for row in rows if not ("loopkit answer" in row or row.startswith("  /"))]
        assert [row for row in rows if len(row) > 60] == []
        assert '  "title": "Tea",' in rows
        assert "Verdict of check: \x1b[31mfail\x1b[0m" in screen
        assert "  1: \x1b[31mfail\x1b[0m" in screen
        begun = next(n for n, row in enumerate(rows) if row.startswith("  - The title names"))
        assert rows[begun + 1].startswith("    ")
    assert 'input facts: {"kind": "tea"}' in shown.output
    for screen in (left, shown.output):
        assert f"  loopkit answer {name} accept --form 'reader=…'\r\n" in screen


def test_the_way_of_a_plan_has_its_verdicts_in_colour() -> None:
    screen = at_terminal("plan", str(ROOT / "machines/release_notes.yaml"), "--paths")
    assert "review (verdict = \x1b[31mfail\x1b[0m)" in screen


def test_how_a_run_ended_is_in_colour_where_it_is_shown_and_listed() -> None:
    machine = "loopkit: 1\nstates: {say: {render: Tea., next: done}, done: {final: failure}}\n"
    Path("machine.yaml").write_text(machine, encoding="utf-8")
    ended = "\x1b[31mdone\x1b[0m (failure)"
    assert ended in at_terminal("run", "machine.yaml")
    assert ended in at_terminal("runs", "ls")
    assert f"finished at {ended}" in at_terminal("runs", "show", "machine")


def test_a_command_to_paste_stays_whole_on_any_terminal() -> None:
    line = "loopkit resume machine-1f09ab --machine machine.yaml"
    assert wrap(f"once the cause is fixed: {line}", 40) == f"once the cause is fixed:\n  {line}"
    assert wrap("─" * 72, 40) == "─" * 40
