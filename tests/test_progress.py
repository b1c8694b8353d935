"""What a person who watches a run sees: the status as a fold, the lines, and a real terminal."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from loopkit.drive.stored_runs import Stored
from loopkit.engine.events import Failed, Held, InDoubt, Intended, Replied
from loopkit.engine.records import Usage
from loopkit.views.amounts import usage_suffix, usage_text
from loopkit.views.console import lines, status
from loopkit.views.plan.plan_as_text import usd
from loopkit.views.steps import Steps
from tests.machines import loop
from tests.support import (
    PASS,
    CommandLine,
    Desk,
    Played,
    console_lines,
    fails,
    progress_of,
    scenario,
)
from tests.terminal import Terminal
from tests.warm import ran_loopkit

LOOP = loop(
    "[facts, style]",
    {"valid": "done", "cap_reached": "dropped"},
    "{revise: draft}",
    top="""
limits: {revisions: 2}
agents:
  writer: {model: openai/gpt-5-mini, retry: {attempts: 2, backoff: 0.1s}}
  critic: {model: openai/gpt-5, retry: {attempts: 1}}
validators:
  facts: {judge: critic, rubric: [It is true.]}
  style: {judge: critic, rubric: [It reads well.]}
""",
    draft="draft: {agent: writer, prompt: Write., output: plan}",
    judge="check",
    result="plan",
)
PRICED: dict[str, Any] = {"usage": {"input": 1000, "output": 204}, "cost_usd": 0.021}
LIMITED = {"fault": "rate_limit", "retry_after": "0.1s", "cost_usd": 0.001}
REVISED = scenario(
    agents={
        "writer": [{"reply": "first", **PRICED}, [LIMITED, {"reply": "second"}]],
        "critic": {"facts": [fails("No date."), PASS], "style": [PASS, PASS]},
    }
)
COMMAND = """
loopkit: 1
states:
  tests: {run: [sh, -c, "echo sound"], output: log, next: done}
  done: {final: success}
"""


def until(played: Played, kind: type, number: int = 1) -> tuple[Steps, float]:
    """The progress right after the n-th event of a kind, and the time of it."""
    met = [index for index, event in enumerate(played.events) if isinstance(event, kind)]
    at = met[number - 1]
    return progress_of(played.stored[: at + 1]), played.stored[at].at


def shown(progress: Steps, now: float) -> str:
    return status(progress, now)


def test_the_status_says_where_the_run_stands_and_whom_it_waits_for(desk: Desk) -> None:
    progress, at = until(desk.play(LOOP, REVISED), Intended, 4)
    assert shown(progress, at + 12.7) == (
        "draft · asks writer 12 s · $0.0210 · revision 1 of 2 · attempt 2 · 4 calls"
        " · openai/gpt-5-mini"
    )


def test_the_first_second_of_a_call_is_not_counted(desk: Desk) -> None:
    progress, at = until(desk.play(LOOP, REVISED), Intended)
    assert shown(progress, at + 0.9) == (
        "draft · asks writer · attempt 1 · 1 call · openai/gpt-5-mini"
    )


def test_judges_that_are_asked_at_once_are_all_named(desk: Desk) -> None:
    played = desk.play(LOOP, REVISED)
    progress, at = until(played, Intended, 3)
    assert "asks 2 judges 61 s" not in shown(progress, at + 61)
    assert "asks 2 judges 1 min 1 s: facts, style" in shown(progress, at + 61)
    progress, at = until(played, Replied, 2)
    assert "asks critic to judge style 5 s" in shown(progress, at + 5)


def test_a_wait_before_the_next_try_is_counted_down(desk: Desk) -> None:
    progress, _ = until(desk.play(LOOP, REVISED), Failed)
    (waits,) = progress.step.pending.values()
    assert waits.until is not None
    assert "asks writer again in 8 s" in shown(progress, waits.until - 7.5)
    assert "asks writer again in 0.5 s" in shown(progress, waits.until - 0.5)
    assert "asks writer again now" in shown(progress, waits.until + 1)


def test_a_provider_that_is_left_alone_is_what_the_run_waits_for(desk: Desk) -> None:
    played = desk.play(LOOP, REVISED)
    progress, at = until(played, Failed)
    (task,) = progress.step.pending
    held = Held(task=task, state="draft", provider="openai", until=at + 25, reason="it failed")
    stored = Stored(progress.seq + 1, 1, at, held)
    told = [line.text for line in lines(progress, stored)]
    assert "waits for openai, again in 25 s" in shown(progress.after([stored]), at)
    assert told == ["  draft          waits for openai: it failed · again in 25 s"]
    prolonged = Stored(progress.seq + 1, 1, at, held.replace(until=at + 30))
    assert list(lines(progress, prolonged)) == []


def test_a_command_is_shown_with_its_words(desk: Desk) -> None:
    progress, at = until(desk.play(COMMAND), Intended)
    assert shown(progress, at + 3) == "tests · runs sh -c echo sound 3 s · attempt 1"


def test_work_that_is_no_call_is_shown_once_it_takes_time(desk: Desk) -> None:
    progress, at = until(desk.play(LOOP, REVISED), Replied, 3)
    assert "works" not in shown(progress, at + 0.5)
    assert "check · works 4 s" in shown(progress, at + 4)


@pytest.mark.parametrize(
    ("policy", "said"),
    [("retry", "it is made again"), ("ask", "a person decides"), ("fail", "it counts as failed")],
)
def test_what_becomes_of_a_call_in_doubt_is_said(policy: str, said: str, durable: Desk) -> None:
    machine = LOOP.replace("backoff: 0.1s}}", f"backoff: 0.1s}}, on_in_doubt: {policy}}}")
    played = durable.resume(durable.abort(machine, REVISED).state.run)
    lost = f"a call is in doubt, because its process died: {said}"
    assert f"{'':<17}{lost}" in console_lines(played)


AGAIN = (
    LOOP.replace("{revise: draft}", "{revise: draft, max: 0}")
    .replace("cap_reached, target: dropped}", "cap_reached, target: ask}")
    .replace(
        "  done:",
        """  ask:
    human: Shall it be judged again?
    choices: [again, drop]
    transitions: [{guard: choice == "again", revise: check}, {target: dropped}]
  done:""",
    )
)
JUDGED_AGAIN = scenario(
    agents={
        "writer": ["plan"],
        "critic": {"facts": [fails("No date."), PASS], "style": [PASS, PASS]},
    },
    answers={"ask": ["again"]},
)


def test_judging_a_version_again_is_told_without_a_number(desk: Desk) -> None:
    played = desk.play(AGAIN, JUDGED_AGAIN)
    assert played.outcome == "done"
    led = [line.strip() for line in console_lines(played) if "→ check" in line]
    assert led == ["→ check", "→ check"]
    progress, at = until(played, Intended, 4)
    assert shown(progress, at).startswith("check · asks critic")


@pytest.mark.parametrize("path", ["revised", "failed", "in doubt", "resumed", "command"])
def test_the_status_counts_what_the_run_itself_counts(path: str, durable: Desk) -> None:
    if path in ("in doubt", "resumed"):
        played = durable.abort(LOOP, REVISED, in_call=4)
        if path == "resumed":
            played = durable.resume(played.state.run)
            assert played.of(InDoubt)
    elif path == "failed":
        faults = scenario(agents={"writer": [[LIMITED, LIMITED]], "critic": []})
        played = durable.play(LOOP, faults)
    else:
        played = durable.play(*{"revised": (LOOP, REVISED), "command": (COMMAND,)}[path])
    progress = progress_of(played.stored)
    assert progress.usage == played.state.usage
    assert progress.calls == played.state.committed.agent_calls
    assert progress.step.state == played.state.state
    open_calls = {intent.key for intent in played.state.open_calls.values()}
    assert {p.call.key for p in progress.step.pending.values() if p.call} == open_calls


WIDE_SPACE = """
loopkit: 1
states:
  draft: {render: "\n  green \n", output: post, next: check}
  check:
    validate: post
    by: [{min_chars: 8}]
    transitions: [{guard: valid, target: done}, {target: failed}]
  done: {final: success}
  failed: {final: failure}
"""


def test_a_text_has_one_size_wherever_its_characters_are_counted(
    own_folder: Path, cli: CommandLine
) -> None:
    Path("machine.yaml").write_text(WIDE_SPACE, encoding="utf-8")
    told = cli(1, "run", "machine.yaml").err
    run = told.split("run ", 1)[1].split()[0]
    cli(0, "report", run, "-o", "run.md")
    told += Path("run.md").read_text(encoding="utf-8")
    assert "post, attempt 1: 5 characters" in told
    assert set(re.findall(r"(\d+) characters", told)) == {"5"}


def test_a_call_that_failed_for_good_says_so_once(desk: Desk) -> None:
    message = "401: this key, which is long enough to be noticed when it comes twice, is not valid"
    fault = {"fault": "authentication", "message": message}
    said = console_lines(desk.play(LOOP, scenario(agents={"writer": [[fault]], "critic": []})))
    assert said[-2:] == [
        f"                 failed (fatal): {message}",
        "  draft          suspended (fatal)",
    ]
    judge = scenario(agents={"writer": ["text"], "critic": {"facts": [[fault]], "style": [PASS]}})
    said = console_lines(desk.play(LOOP, judge))
    assert f"                 `critic` (facts) failed (fatal): {message}" in said
    assert "\n".join(said).count(message) == 1


def test_what_a_suspension_adds_to_a_failure_is_said(desk: Desk) -> None:
    long = {"fault": "rate_limit", "retry_after": "3h", "message": "429: too many"}
    said = console_lines(desk.play(LOOP, scenario(agents={"writer": [[long]], "critic": []})))
    # Nobody waits for so long: there is no next try while the run is suspended.
    assert said[-2] == "                 failed (transient): 429: too many"
    assert said[-1] == "  draft          suspended (transient) · can be resumed in 3 h"


def test_what_calls_cost_stands_where_they_are_told(desk: Desk) -> None:
    said = console_lines(desk.play(LOOP, REVISED))
    assert "  draft          asks `writer` (openai/gpt-5-mini)" in said
    assert "  check          asks `critic` (openai/gpt-5) to judge (facts)" in said
    assert "  draft          plan, attempt 1: 5 characters · 1,204 tokens · $0.0210" in said
    assert any(
        re.fullmatch(r" +failed \(transient\): 429: .* · \$0\.0010 · again in 0\.\d s", line)
        for line in said
    )


def test_the_reason_stands_where_a_judge_is_asked_again(desk: Desk) -> None:
    critic = {"facts": [["Fine by me, I guess.", PASS]], "style": [PASS]}
    run = desk.play(LOOP, scenario(agents={"writer": ["first"], "critic": critic}))
    assert run.outcome == "done"
    asked = [line for line in console_lines(run) if "to judge (facts)" in line]
    assert len(asked) == 2
    assert "again" not in asked[0]
    assert re.search(r"to judge \(facts\) again: .*JSON", asked[1])


def test_equal_amounts_are_shown_alike_however_they_were_added() -> None:
    for amount in (0.00025, 0.00024999999999999995):
        assert usage_text(Usage(agent_calls=1, cost_usd=amount)) == "1 call · $0.0003"
        assert usd(amount) == "$0.0003"


def test_a_rule_that_a_program_draws_leaves_room_for_what_it_says(desk: Desk) -> None:
    machine = loop(
        "[{command: [run-tests], message: The tests fail.}]",
        {"valid": "done"},
        "{target: failed}",
        top="",
        draft="draft: {render: Tea.}",
        judge="check",
    )
    printed = f"{'=' * 70}\nERROR: test_calc\n{'-' * 70}\nImportError: no calc\n"
    failed = scenario(commands={"by[0]": [{"exit_code": 1, "stdout": printed}]})
    said = " ".join(console_lines(desk.play(machine, failed)))
    assert "- The tests fail. ERROR: test_calc ImportError: no calc" in said


def test_one_token_is_one_token() -> None:
    one = Usage(agent_calls=1, tokens=1)
    assert usage_text(one) == "1 call · 1 token"
    assert usage_suffix(one) == " · 1 token"
    assert usage_suffix(one.replace(tokens=1204)) == " · 1,204 tokens"


def test_seconds_are_told_where_a_call_took_one(desk: Desk) -> None:
    slow = scenario(
        agents={
            "writer": [{"reply": "text", "delay": "1.1s"}],
            "critic": {"facts": [{**PASS, "delay": "1.1s"}], "style": [PASS]},
        }
    )
    said = console_lines(desk.play(LOOP, slow))
    assert "  draft          plan, attempt 1: 4 characters · 1 s" in said
    assert [line.strip() for line in said if "answered" in line] == [
        "`critic` answered (facts) · 1 s"
    ]


def escaped(text: str) -> str:
    """A scenario with the characters that YAML takes as escapes only."""
    return text.replace("\x9b", "\\x9b").replace("\u202e", "\\u202e")


HOSTILE = "[red]no[/red] \x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J a\rb\nc \u202egnp 漢字 :smile:"


def test_text_of_an_agent_stays_one_row_of_plain_characters(desk: Desk) -> None:
    played = desk.play(
        LOOP,
        escaped(
            scenario(
                agents={
                    "writer": [
                        [{"fault": "rate_limit", "retry_after": "0.1s", "message": HOSTILE}, "x"]
                    ],
                    "critic": {"facts": [fails(HOSTILE)] * 3, "style": [PASS] * 3},
                }
            )
        ),
    )
    said = [line for line in console_lines(played) if "[red]no[/red]" in line]
    assert said
    assert all(line.isprintable() for line in said)
    assert "- [red]no[/red] red 2J a b c gnp 漢字 :smile:" in said[-1]


SGR = re.compile(r"\x1b\[[0-9;]*m")
STATUS = re.compile(r"\x1b\[\?7l(.*?)\x1b\[\?7h", re.DOTALL)


def statuses(output: str) -> list[str]:
    """Every status line that was drawn, as text."""
    drawn = [SGR.sub("", line) for line in STATUS.findall(output)]
    assert all(line.endswith("\r") for line in drawn)
    return [line[:-1] for line in drawn]


def screen(output: str) -> list[str]:
    """The rows that a terminal wide enough shows in the end; no other escapes may be in it."""
    text = re.sub(r"\x1b\[\?7[lh]", "", SGR.sub("", output)).replace("\r\n", "\n")
    rows, column = [""], 0
    for token in re.split(r"(\r|\n|\x1b\[J)", text):
        if token == "\r":
            column = 0
        elif token == "\n":
            rows, column = [*rows, ""], 0
        elif token == "\x1b[J":
            rows[-1] = rows[-1][:column]
        else:
            assert token.isprintable() or "^C" in token, token
            rows[-1] = rows[-1][:column] + token + rows[-1][column + len(token) :]
            column += len(token)
    return [row.rstrip() for row in rows]


def left_on(terminal: Terminal) -> list[str]:
    """The rows that stay on the screen; the live line is none of them."""
    rows = screen(terminal.output)
    assert not [row for row in rows if "▸" in row or re.search(r"attempt \d ·", row)]
    _, drawn, after = terminal.output.rpartition("\x1b[?7h")
    assert drawn
    assert after.removeprefix("^C").startswith("\r\x1b[J")
    return rows


PARTS: dict[str, Any] = {
    "writer": [{"reply": "first", **PRICED}, {"reply": "second"}],
    "critic": {"facts": [fails(HOSTILE), PASS], "style": [PASS, PASS]},
}
QUICK = escaped(scenario(agents=PARTS))
SLOW = escaped(
    scenario(agents={**PARTS, "writer": [{**call, "delay": "2s"} for call in PARTS["writer"]]})
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".loopkit").mkdir()
    (tmp_path / "loop.yaml").write_text(LOOP, encoding="utf-8")
    (tmp_path / "quick.yaml").write_text(QUICK, encoding="utf-8")
    (tmp_path / "slow.yaml").write_text(SLOW, encoding="utf-8")
    return tmp_path


QUICK_RUN = ["run", "loop.yaml", "--script", "quick.yaml"]
SLOW_RUN = ["run", "loop.yaml", "--script", "slow.yaml"]


def named_alike(text: str) -> str:
    return re.sub(r"loop-\w{6}", "loop-xxxxxx", text)


@pytest.mark.usefixtures("folder")
def test_at_a_terminal_the_last_line_is_live_and_gone_in_the_end() -> None:
    terminal = Terminal(SLOW_RUN, columns=200)
    assert terminal.end() == 0
    drawn = statuses(terminal.output)
    assert "▸ draft · asks writer 1 s · attempt 1 · 1 call · openai/gpt-5-mini" in drawn
    assert any(" · revision 1 of 2 · attempt 2 · " in line for line in drawn)
    assert left_on(terminal)


@pytest.mark.usefixtures("folder")
def test_what_scrolls_is_what_a_run_without_a_terminal_prints() -> None:
    terminal = Terminal(QUICK_RUN, columns=200)
    assert terminal.end() == 0
    plain = ran_loopkit(*QUICK_RUN)
    expected = [*plain.stderr.splitlines(), *plain.stdout.splitlines()]
    left = screen(terminal.output)[:-1]
    assert sorted(map(named_alike, left)) == sorted(map(named_alike, expected))
    assert "\x1b" not in plain.stderr


@pytest.mark.usefixtures("folder")
def test_the_status_never_takes_more_than_a_row_while_the_window_changes() -> None:
    terminal = Terminal(SLOW_RUN, columns=40)
    before = terminal.wait_for("asks writer 1 s")
    terminal.resize(24)
    narrow = terminal.wait_for(r"revision|valid|\$0")
    terminal.resize(200)
    # Up to the end of a status, so that there is one.
    wide = terminal.wait_for(r"revision 1 of 2 · [^\r\n]*\r\x1b\[\?7h")
    assert terminal.end() == 0
    assert max(map(len, statuses(before))) < 40
    # What was on its way when the window changed does not count.
    assert max(map(len, statuses(narrow)[2:]), default=0) < 24
    assert max(map(len, statuses(wide))) < 200
    # No row counts how it is drawn: it is erased from its beginning, with all that is below it.
    for one, other in pairwise(re.finditer(STATUS, terminal.output)):
        assert terminal.output[one.end() : other.start()].lstrip("^C").startswith("\r\x1b[J")


@pytest.mark.usefixtures("folder")
def test_lines_are_broken_between_words_and_indented() -> None:
    terminal = Terminal(QUICK_RUN, columns=44)
    assert terminal.end() == 0
    rows = screen(terminal.output)
    at = rows.index("                 - [red]no[/red] red 2J a b")
    assert rows[at + 1] == "                   c gnp 漢字 :smile:"


@pytest.mark.usefixtures("folder")
def test_colour_marks_a_verdict_and_follows_no_markup() -> None:
    terminal = Terminal(QUICK_RUN, columns=200)
    assert terminal.end() == 0
    assert re.search(r"check +\x1b\[31mfail\x1b\[0m", terminal.output)
    assert re.search(r"check +\x1b\[32mpass\x1b\[0m", terminal.output)
    assert "[red]no[/red] red 2J a b c gnp 漢字 :smile:" in terminal.output


@pytest.mark.usefixtures("folder")
def test_no_color_keeps_the_live_line_without_colours() -> None:
    terminal = Terminal(QUICK_RUN, env={"NO_COLOR": "1"})
    assert terminal.end() == 0
    assert statuses(terminal.output)
    assert set(SGR.findall(terminal.output)) <= {"\x1b[0m", "\x1b[2m"}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("env", "argv"),
    [({"CI": "true"}, []), ({"TERM": "dumb"}, []), ({"TERM": ""}, []), ({}, ["--output", "plain"])],
    ids=["CI", "dumb", "no TERM", "plain"],
)
def test_where_nobody_looks_on_the_lines_are_plain(env: Mapping[str, str], argv: list[str]) -> None:
    terminal = Terminal([*QUICK_RUN, *argv], env=env)
    assert terminal.end() == 0
    assert "\x1b" not in terminal.output
    assert "check          pass" in terminal.output


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("output", ["quiet", "jsonl"])
def test_other_outputs_show_no_progress_at_a_terminal(output: str) -> None:
    terminal = Terminal([*QUICK_RUN, "--output", output])
    assert terminal.end() == 0
    rows = terminal.output.splitlines()
    assert rows == ["second"] or all(row.startswith("{") for row in rows)
    assert "\x1b" not in terminal.output


ASKING = LOOP.replace("target: done}", "target: ask}").replace(
    "  done: {",
    """
  ask:
    human: Take it?
    choices: [yes, again]
    transitions:
      - {guard: choice == "yes", target: done}
      - {revise: draft, feedback: "{{ comment }}"}
  done: {""",
)


def test_the_live_line_is_away_while_a_person_is_asked_and_back_afterwards(folder: Path) -> None:
    (folder / "loop.yaml").write_text(ASKING, encoding="utf-8")
    terminal = Terminal(SLOW_RUN)
    asked = terminal.wait_for("Your choice: ")
    assert screen(asked)[-1] == "Your choice:"
    assert not [row for row in screen(asked) if "▸" in row]
    time.sleep(0.7)  # two ticks
    terminal.type("again\n")
    assert statuses(terminal.wait_for("What should change\\? ")) == []
    terminal.type("shorter\n")
    # The scenario has no third attempt; until then the line is there again.
    after = terminal.wait_for("suspended")
    assert any("revision 2 of 2" in line for line in statuses(after))
    assert terminal.end() == 4
    assert left_on(terminal)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_leaves_no_live_line(times: int) -> None:
    terminal = Terminal(SLOW_RUN, columns=200)
    terminal.wait_for("asks writer ·")
    terminal.type("\x03")
    terminal.wait_for("the step in hand is finished first; a second Ctrl-C aborts its call\r\n")
    if times == 2:
        terminal.type("\x03")
    assert terminal.end() == 130
    left = left_on(terminal)
    assert "the step in hand is finished first; a second Ctrl-C aborts its call" in left
    assert any("suspended (interrupted)" in row for row in left) == (times == 1)
    assert "loopkit resume loop-" in left[-2]


@pytest.mark.usefixtures("folder")
def test_a_resumed_run_shows_what_it_did_and_spent_before() -> None:
    first = Terminal(SLOW_RUN)
    first.wait_for("asks writer ·")
    first.type("\x03")
    first.wait_for("suspended")
    assert first.end() == 130
    name = re.search(r"loopkit resume (\S+)", first.output)
    assert name
    second = Terminal(["resume", name[1]], columns=200)
    assert second.end() == 0
    line = "▸ draft · asks writer · $0.0210 · revision 1 of 2 · attempt 2 · 4 calls"
    assert f"{line} · openai/gpt-5-mini" in statuses(second.output)


def test_an_error_leaves_no_live_line(folder: Path) -> None:
    (folder / "loop.yaml").write_text(ASKING, encoding="utf-8")
    wrong = SLOW.replace('"agents"', '"answers": {"ask": ["maybe"]}, "agents"')
    (folder / "slow.yaml").write_text(wrong, encoding="utf-8")
    terminal = Terminal(SLOW_RUN, columns=200)
    assert terminal.end() == 2
    left = left_on(terminal)
    assert "there is no choice `maybe`" in left[-2]


@pytest.mark.usefixtures("folder")
def test_a_process_that_is_killed_leaves_a_terminal_that_works() -> None:
    terminal = Terminal(SLOW_RUN)
    terminal.wait_for("asks writer ·")
    terminal.signal(signal.SIGKILL)
    assert terminal.end() == -signal.SIGKILL
    # Nothing was switched off that only the program could switch on again.
    assert set(re.findall(r"\x1b\[\?(\d+)[hl]", terminal.output)) == {"7"}
    assert terminal.output.count("\x1b[?7l") == terminal.output.count("\x1b[?7h")


def test_the_events_of_a_run_are_told_afterwards_as_they_were_live(folder: Path) -> None:
    live = ran_loopkit(*QUICK_RUN).stderr.splitlines()[1:]
    name = live[0].removeprefix("run ")
    day, *told = ran_loopkit("runs", "logs", name).stdout.splitlines()
    assert re.fullmatch(r"[-\d]{10} \S+", day)
    assert all(re.match(r"\d\d:\d\d:\d\d  ", line) for line in told)
    assert [line[10:] for line in told] == live[:-1]
