"""Stored runs at the command line: which there are, where each stands and why, and their end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loopkit.cli import invoke as run
from loopkit.engine.records import Usage
from loopkit.views.amounts import cost
from tests.machines import loop
from tests.support import CommandLine
from tests.terminal import Terminal
from tests.waiting import LONG_S, until
from tests.warm import Process, ran_loopkit

pytestmark = pytest.mark.usefixtures("own_folder")
LONG = "It has to say who does it and until when, or nobody will ever know that it was asked for."
SHORT_OF_WORDS = f"""
loopkit: 1
limits: {{revisions: 1}}
states:
  note: {{render: "A note.{{{{ feedback }}}}", next: check}}
  check:
    validate: note
    by: [{{matches: until, message: "{LONG}"}}]
    transitions:
      - {{guard: valid, target: done}}
      - {{revise: note, feedback: Once more.}}
      - {{target: failed}}
  done: {{final: success}}
  failed: {{final: failure}}
"""
BROKEN = """
loopkit: 1
agents: {nobody: {command: [sh, -c, "exit 3"]}}
states:
  one: {agent: nobody, prompt: Write., next: done, on_error: {content: done}}
  done: {final: success}
"""
SLEEPY = """
loopkit: 1
states:
  one: {run: [sh, -c, "touch begun; sleep 60"], next: done}
  done: {final: success}
"""


LIMITED = """
loopkit: 1
agents: {writer: {outside: true, timeout: 2h}}
states:
  ask:
    human: Go on?
    choices: [write, stop]
    timeout: 1h
    otherwise: stop
    transitions: [{guard: choice == "write", target: note}, {target: stopped}]
  note: {agent: writer, prompt: Write., on_error: stopped, next: check}
  check:
    validate: note
    by: [{min_chars: 1}]
    transitions: [{guard: valid, target: done}, {target: stopped}]
  done: {final: success}
  stopped: {final: failure}
"""


def started(machine: str, name: str = "note") -> str:
    """The id of a run of a machine."""
    Path(f"{name}.yaml").write_text(machine, encoding="utf-8")
    run(["run", f"{name}.yaml", "--output", "quiet"])
    return rows()[0][0]


def rows() -> list[list[str]]:
    """The cells of the table of runs."""
    listed = ran_loopkit("runs", "ls")
    return [re.split(r"  +", line) for line in listed.stdout.splitlines()[1:]]


def test_runs_are_listed_with_their_state_their_age_and_their_cost() -> None:
    first, second = started(SHORT_OF_WORDS), started(BROKEN, "broken")
    (newest, status, state, began, age, paid), older = rows()
    assert re.fullmatch(r"\d\d-\d\d \d\d:\d\d", began)
    assert (newest, status, state, paid) == (second, "suspended", "one", "unknown")
    assert re.fullmatch(r"\d+ s", age)
    assert older[:3] == [first, "finished", "failed (failure)"]


ITEM = loop(
    "[{min_chars: 9}]",
    {"valid": "done"},
    "{target: bad}",
    top="input: {day: str}",
    draft='note: {render: "{{ input.day }}"}',
    judge="check",
)
ENDS = "  done: {final: success}\n"
FAILED = "  failed: {final: failure}\n"
CHECK = """  draft: {render: "Tea.{{ feedback }}", next: check}
  check:
    validate: draft
    by: [{min_chars: 999}]
    transitions: [{guard: valid, target: done}, {revise: draft, max: 1}, {target: NEXT}]
"""
WRITER = """agents:
  writer:
    command: [echo, '{"ready": false, "text": "Tea."}']
    schema: {ready: bool, text: str}
"""
LOOP = """  draft:
    agent: writer
    prompt: Write.
    on_error: {content: done}
    transitions:
      - {guard: ready, target: text}
      - {revise: draft, feedback: More., max: 1}
      - {target: NEXT}
  text: {render: "{{ draft.text }}", next: done}
"""
PERSON = "  ask: {human: Good?, choices: [go], next: done}\n"
DAYS = (
    "each: input.days, as: day, key: day, max_items: 9, machine: item.yaml, "
    "input: {day: '{{ day }}'}"
)
TEST = "run: [sh, -c, 'exit 3']"


@pytest.mark.parametrize(
    ("states", "although"),
    {
        "a report": (CHECK.replace("NEXT", "done"), "the last verdict on `draft` is fail"),
        "a report and a person": (CHECK.replace("NEXT", "ask") + PERSON, ""),
        "a report on another version": (
            CHECK.replace("NEXT", "plain") + "  plain: {render: x, output: draft, next: done}\n",
            "",
        ),
        "items": (f"  days: {{{DAYS}, next: done}}\n", "2 of 3 items failed in `days`"),
        "items of which a guard knows": (
            f"  days: {{{DAYS}, transitions: [{{guard: succeeded > 0, target: done}}, "
            "{target: failed}]}\n" + FAILED, "",
        ),
        "a machine": (
            "  one: {machine: item.yaml, input: {day: Fri}, next: done}\n", "`one` ended in `bad`",
        ),
        "a program": (f"  test: {{{TEST}, next: done}}\n", "`test` ended with exit code 3"),
        "a program, by another state's guard": (
            f"  test: {{{TEST}, next: two}}\n"
            "  two: {render: x, transitions: [{guard: test.exit_code == 0, target: failed}, "
            "{target: done}]}\n" + FAILED, "",
        ),
        "two": (
            f"  test: {{{TEST}, next: draft}}\n" + CHECK.replace("NEXT", "done"),
            "the last verdict on `draft` is fail and `test` ended with exit code 3",
        ),
        "no verdict": (
            CHECK.replace("min_chars: 999", "command: [./pytset]")
            .replace("valid,", "valid or incomplete,").replace("NEXT", "done"),
            "`draft` was not judged",
        ),
        "an agent's loop": (LOOP.replace("NEXT", "text"), "no revision after `draft` helped"),
        "an agent's loop that ends by its own count": (
            LOOP.replace("{revise", "{guard: attempt == 1, revise")
            .replace("{target: NEXT", "{guard: cap_reached, target: text"),
            "no revision after `draft` helped",
        ),
        "an agent's loop and a person": (LOOP.replace("NEXT", "ask") + PERSON, ""),
    }.values(),
)  # fmt: skip
def test_a_success_says_what_had_failed_and_nobody_has_read(
    states: str, although: str, cli: CommandLine
) -> None:
    Path("item.yaml").write_text(ITEM, encoding="utf-8")
    days = "input: {days: {type: [str], default: [mon, tue, wednesday]}}\n"
    agents = WRITER if "agent: writer" in states else ""
    text = f"loopkit: 1\n{days}{agents}states:\n{states}{ENDS}"
    Path("m.yaml").write_text(text, encoding="utf-8")
    if "human" in states:
        cli(5, "run", "m.yaml", "--output", "plain")
        told = cli(0, "answer", rows()[0][0], "go").err
    else:
        told = cli(0, "run", "m.yaml", "--output", "plain").err
    end = f"done (success), although {although}" if although else "done (success)"
    assert told.splitlines()[-2] == end
    [row] = rows()
    assert end.startswith(row[2].rstrip("…"))
    assert cli(0, "runs", "show", row[0]).out.startswith(f"{row[0]}: finished at {end}\n")
    if although and "human" not in states:
        assert end in cli(0, "run", "m.yaml", "--output", "quiet").err
        result = json.loads(cli(0, "run", "m.yaml", "--output", "jsonl").out.splitlines()[-1])
        assert (result["although"], result["exit"]) == (although, 0)


@pytest.mark.parametrize("limit", ["0", "-1"])
def test_a_list_of_no_run_at_most_is_refused_instead_of_telling_that_there_are_none(
    limit: str,
) -> None:
    started(SHORT_OF_WORDS)
    refused = ran_loopkit("runs", "ls", "--limit", limit)
    assert refused.returncode == 2
    assert "--limit" in refused.stderr


def test_what_was_spent_and_what_is_only_held_are_told_apart_in_the_list() -> None:
    usage = Usage(agent_calls=2, cost_usd=0.0053, held_usd=0.0047)
    assert cost(usage) == "$0.0006 · up to $0.0047 held"
    assert cost(Usage(agent_calls=1, cost_usd=None)) == "unknown"


def test_a_run_whose_process_is_gone_is_interrupted_and_one_at_work_runs() -> None:
    Path("sleepy.yaml").write_text(SLEEPY, encoding="utf-8")
    process = Process(["-m", "loopkit", "run", "sleepy.yaml"])
    until(Path("begun").exists, "the step")
    [at_work] = rows()
    refused = ran_loopkit("runs", "rm", at_work[0])
    drawn = ran_loopkit("diagram", "--run", at_work[0]).stdout
    assert "the run is running here" in drawn
    os.kill(process.pid, signal.SIGKILL)
    process.wait(LONG_S)
    [gone] = rows()
    assert (at_work[1], gone[1]) == ("running", "interrupted")
    assert refused.returncode == 4
    assert f"is being driven by process {process.pid}" in refused.stderr
    shown = ran_loopkit("runs", "show", gone[0]).stdout
    assert shown.startswith(f"{gone[0]}: interrupted at one\n")
    assert f"\nresume with: loopkit resume {gone[0]}\n" in shown
    ran_loopkit("report", gone[0], "-o", "report.md")
    for text in (ran_loopkit("diagram", "--run", gone[0]).stdout, Path("report.md").read_text()):
        assert "the run is interrupted here" in text


def test_runs_are_found_by_their_status_their_end_and_their_age(cli: CommandLine) -> None:
    asking, ended, stopped = started(LIMITED), started(SHORT_OF_WORDS), started(BROKEN, "broken")
    for options, found in (
        (["--status", "waiting"], [asking]),
        (["--status", "failed"], [ended]),
        (["--outcome", "failed", "--since", "1h"], [ended]),
        (["--machine", "broken", "--status", "suspended"], [stopped]),
    ):
        listed = cli(0, "runs", "ls", *options).out.splitlines()
        assert [line.split()[0] for line in listed] == ["run", *found]
    [heading, row] = cli(0, "runs", "ls", "--status", "waiting").out.splitlines()
    assert heading.endswith("  asks")
    assert row.endswith("  Go on?")
    assert cli(0, "runs", "ls", "--outcome", "done").err == "no such runs\n"
    assert "such as 30d" in cli(2, "runs", "ls", "--since", "2999-01-01").err
    assert "leave out what selects" in cli(2, "runs", "ls", asking, "--status", "waiting").err


TALK = """
loopkit: 1
agents:
  writer: {command: [sh, -c, "cat; echo Warm the pot. >&2"]}
  editor: {command: [sh, -c, "cat >/dev/null; printf '\\\\033[31mThe kettle sings.'"]}
states:
  draft: {agent: writer, prompt: Write about the white teapot., output: post, next: edit,
          on_error: failed}
  edit: {agent: editor, prompt: "Edit this: {{ post }}", output: text, next: done,
         on_error: failed}
  done: {final: success}
  failed: {final: failure}
"""


def test_each_call_can_be_read_with_what_was_sent_and_what_came_back(cli: CommandLine) -> None:
    name = started(TALK)
    first, second = cli(0, "runs", "call", name).out.splitlines()
    assert first.startswith("1. draft, attempt 1: author writer answered")
    assert second.startswith("2. edit, attempt 1: author editor answered")
    whole = cli(0, "runs", "call", name, "2").out
    assert "\n  Edit this: Write about the white teapot.\n" in whole
    assert whole.endswith("Reply (exit 0):\n  The kettle sings.\n")
    told = cli(0, "runs", "show", name, "--calls").out
    assert whole in told
    assert "Standard error:\n  Warm the pot.\n" in told
    assert re.search(r"^spent: 2 calls.*\n  draft: 1 call .*\n  edit: 1 call ", told, re.MULTILINE)
    assert "has no call 3; it has calls 1 to 2" in cli(2, "runs", "call", name, "3").err
    cli(0, "report", name, "-o", "run.md")
    report = Path("run.md").read_text(encoding="utf-8")
    assert "```\nWrite about the white teapot.\n```" in report
    assert "The kettle sings." in report
    assert "\x1b" not in whole + told + report


def test_versions_of_two_runs_are_compared(cli: CommandLine) -> None:
    first, second = started(SHORT_OF_WORDS), started(SHORT_OF_WORDS.replace("A note", "One"))
    before, after, *changed = cli(0, "runs", "diff", first, "--with", second).out.splitlines()
    assert before.startswith(f"--- {first}: note 2, attempt 2")
    assert after.startswith(f"+++ {second}: note 2, attempt 2")
    assert changed[1:3] == ["-A note.Once more.", "+One.Once more."]


def test_a_question_says_until_when_it_is_open_and_what_counts_then(cli: CommandLine) -> None:
    name = started(LIMITED)
    told = cli(0, "runs", "show", name).out
    due = r"\nDue by [-\d]{10} [:\d]{8} UTC: if the run goes on after that, "
    assert re.search(due + r"the answer is `stop`; as long as it has not, a later", told)
    assert run(["answer", name, "write"]) == 5
    told = cli(0, "runs", "show", name).out
    assert re.search(due + r"it no longer waits for the delivery; as long as", told)


def test_a_late_delivery_is_taken_until_the_run_goes_on_and_again_after_a_resume(
    cli: CommandLine,
) -> None:
    late = LIMITED.replace("timeout: 2h", "timeout: 100ms").replace(", on_error: stopped", "")
    Path("note.md").write_text("Tea.", encoding="utf-8")
    taken, suspended = (started(late) for _ in range(2))
    for name in (taken, suspended):
        assert run(["answer", name, "write"]) == 5
    time.sleep(0.2)
    assert run(["reply", taken, "note.md"]) == 0
    assert run(["resume", suspended]) == 4
    told = cli(2, "reply", suspended, "note.md").err
    assert "waits for no delivery now: it is suspended (nobody delivered `note` in time)" in told
    [line] = re.findall(r"resume it first: `loopkit (.*)`", told)
    assert run(line.split()) == 5
    assert run(["reply", suspended, "note.md"]) == 0


def test_a_question_says_which_error_led_to_it_and_what_was_not_written(cli: CommandLine) -> None:
    name = started("""
loopkit: 1
states:
  fetch: {run: [./a-program-that-nobody-has], output: news, on_error: ask, next: done}
  ask:
    human: Go on without it?
    show: news
    choices: [yes, no]
    transitions: [{guard: choice == "yes", target: done}, {target: stopped}]
  done: {final: success}
  stopped: {final: failure}
""")
    told = cli(0, "runs", "show", name).out
    why = "Came here from fetch: a fatal error; command './a-program-that-nobody-has' was not"
    assert f"\n{why} started: " in told
    assert "\nNot written so far: news\n" in told
    assert run(["answer", name, "no"]) == 1
    assert "ended after" not in cli(0, "runs", "show", name).out
    machine = Path("note.yaml").read_text(encoding="utf-8")
    name = started(machine.replace("on_error: ask, next: done", "on_error: stopped, next: ask"))
    assert "\nended after an error: command './a-program" in cli(0, "runs", "show", name).out


def test_a_run_says_why_it_ended_as_it_did(cli: CommandLine) -> None:
    name = started(SHORT_OF_WORDS)
    shown = cli(0, "runs", "show", name).out
    assert "Verdict of check: fail, 1 blocking finding" in shown
    assert f"  - {LONG}\n" in shown


def test_at_a_terminal_messages_are_wrapped_at_words() -> None:
    terminal = Terminal(["runs", "show", started(SHORT_OF_WORDS)], columns=80)
    assert terminal.end() == 0
    lines = terminal.output.replace("\r", "").splitlines()
    assert max(map(len, lines)) <= 80
    assert LONG in " ".join(" ".join(lines).split())


def test_a_run_is_known_by_the_beginning_of_its_id(cli: CommandLine) -> None:
    note, broken = started(SHORT_OF_WORDS), started(BROKEN, "broken")
    assert cli(0, "runs", "show", note[:-2]).out.startswith(f"{note}: finished")
    assert f"run {broken} is cancelled" in cli(0, "cancel", "b").err
    other = started(SHORT_OF_WORDS)
    told = cli(2, "runs", "show", "note-").err
    assert f"error: `note-` begins several runs: {other}, {note}" in told
    assert "there is no run `nothing`" in cli(2, "runs", "show", "nothing").err


def test_a_shell_completes_the_ids_of_runs() -> None:
    name = started(SHORT_OF_WORDS)
    for words, count in (("loopkit runs show no", 3), ("loopkit resume no", 2)):
        asked = {
            "_LOOPKIT_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(count),
        }
        done = subprocess.run(
            [Path(sys.executable).parent / "loopkit"],
            env=os.environ | asked, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.stdout == f"plain,{name}\n"


def test_an_unknown_command_of_runs_is_told_with_the_one_that_was_meant(cli: CommandLine) -> None:
    assert "no such command `lgos`; did you mean `logs`?" in cli(2, "runs", "lgos", "note").err
    assert "did you mean `runs diff`?" in cli(2, "diff", "note").err
