"""Batches: a run for each line of a file, many at a time, resumable, with one account."""

from __future__ import annotations

import fcntl
import json
import re
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from loopkit.cli import invoke as run
from tests.support import CommandLine
from tests.terminal import Terminal
from tests.waiting import until
from tests.warm import Process, ran_loopkit

MACHINE = """
loopkit: 1
input: {n: int, tone: {type: str, default: plain}}
LIMITS
agents:
  writer:
    command: [sh, -c, 'echo call >> calls; sleep PAUSE; cat']
    stdin: "{{ prompt }}"
    on_in_doubt: retry
states:
  write:
    agent: writer
    prompt: "Note {{ input.n }}, {{ input.tone }}. {{ feedback }}"
    output: note
    next: judge
  judge:
    validate: note
    by: [{matches: 'Note \\d*[02468],|even'}]
    transitions:
      - {guard: valid, target: accepted}
      - {revise: write, max: MOST, feedback: "It is FEEDBACK."}
      - {target: given_up}
  accepted: {final: success, result: note}
  given_up: {final: failure, result: note}
"""
ASKING = """
loopkit: 1
input: {n: int}
states:
  ask:
    human: "Keep {{ input.n }}?"
    choices: [keep, drop]
    transitions: [{guard: choice == "keep", target: kept}, {target: dropped}]
  kept: {final: success}
  dropped: {final: failure}
"""
BATCH = ["run", "machine.yaml", "--batch", "in.jsonl", "-o", "out.jsonl"]


def machine(
    *, most: int = 0, feedback: str = "odd", limits: str = "", pause: str = "0", text: str = MACHINE
) -> None:
    filled = {"MOST": str(most), "FEEDBACK": feedback, "LIMITS": limits, "PAUSE": pause}
    for name, value in filled.items():
        text = text.replace(name, value)
    Path("machine.yaml").write_text(text, encoding="utf-8")


@pytest.fixture(autouse=True)
def _plain_machine(own_folder: Path) -> None:
    machine()


def inputs(*lines: Any) -> None:
    written = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    Path("in.jsonl").write_text("".join(f"{line}\n" for line in written), encoding="utf-8")


def numbers(values: Iterable[int]) -> None:
    inputs(*({"n": number} for number in values))


def results() -> dict[int, dict[str, Any]]:
    """The results by their lines; each line has one."""
    told = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    by_line = {result["line"]: result for result in told}
    assert len(by_line) == len(told)
    return by_line


def calls() -> int:
    return len(Path("calls").read_text().splitlines()) if Path("calls").exists() else 0


def test_at_a_terminal_the_status_is_written_over_and_not_erased_first() -> None:
    """An erased screen goes to the history of some terminals, one for each tick."""
    machine(pause="3")
    numbers([2])
    terminal = Terminal(BATCH)
    terminal.wait_for("0 of 1 line")
    terminal.end()
    assert re.search(r"\r0 of 1 line[^\r]*\x1b\[J\r", terminal.output)
    assert "\x1b[J0 of" not in terminal.output


def test_each_line_becomes_a_run_and_its_result_a_line(cli: CommandLine) -> None:
    inputs({"n": 2}, {"n": 3, "tone": "grim"}, "", {"n": 4})
    out, err = cli(1, *BATCH)
    ended = results()
    assert {line: told["outcome"] for line, told in ended.items()} == {
        1: "accepted",
        2: "given_up",
        4: "accepted",
    }
    assert ended[2]["result"] == {"note": "Note 3, grim. "}
    assert [ended[line]["success"] for line in (1, 2, 4)] == [True, False, True]
    assert ended[1]["usage"]["agent_calls"] == 1
    assert ended[1]["run"].startswith("machine-")
    assert out == ""
    assert "3 of 3 lines · 2 accepted · 1 given_up · 3 calls" in err


def test_the_same_command_again_makes_no_call_and_adds_no_line(cli: CommandLine) -> None:
    numbers(range(5))
    run(BATCH)
    before = Path("out.jsonl").read_bytes()
    assert run(BATCH) == 1
    assert Path("out.jsonl").read_bytes() == before
    assert calls() == 5
    assert "nothing was run: every line had ended before" in cli(1, *BATCH).err


def test_lines_that_are_added_are_run_alone() -> None:
    numbers([2])
    run(BATCH)
    numbers([2, 4])
    assert run(BATCH) == 0
    assert (calls(), sorted(results())) == (2, [1, 2])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"n": "x"}', "input `n` takes a whole number; `x` is not"),
        ("{}", "input `n` is missing"),
        ('{"n": 1, "tune": ""}', "unknown input `tune`; did you mean `tone`?"),
        ("[1]", "it is not a JSON object; write the inputs of the run as one"),
        ("{n: 1}", "it is not JSON: "),
        ('{"n": 1, "n": 2}', "it is not JSON: "),
        ('{"n": 2, "tone": "\\ud800"}', "it is not JSON: a text in it has half a surrogate pair"),
    ],
)
def test_a_line_that_does_not_fit_is_told_and_the_others_are_run(
    line: str, reason: str, cli: CommandLine
) -> None:
    inputs({"n": 2}, line, {"n": 4})
    assert f"line 2: {reason}" in cli(1, *BATCH).err
    assert sorted(results()) == [1, 3]


def test_a_line_that_is_no_utf8_is_told(cli: CommandLine) -> None:
    Path("in.jsonl").write_bytes(b'\xef\xbb\xbf{"n": 2}\n{"n": 2, "tone": "\xff"}\n')
    assert "line 2: it is not UTF-8 text (byte 19)" in cli(1, *BATCH).err
    assert sorted(results()) == [1]


def test_a_table_is_refused_once_with_the_command_that_converts_it(cli: CommandLine) -> None:
    table = Path("the table.csv")
    table.write_text('\ufeffn,tone\n2,plain\n4,"a, b"\n')
    err = cli(2, "run", "machine.yaml", "--batch", str(table), "-o", "out.jsonl").err
    assert "is not JSON Lines, one object with the inputs of a run in each line" in err
    assert (err.count("it is not JSON"), "nothing was run" in err, calls()) == (1, False, 0)
    subprocess.run(["sh", "-c", err.splitlines()[-1].strip()], check=True)
    made = Path("the table.csv.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in made] == [
        {"n": "2", "tone": "plain"}, {"n": "4", "tone": "a, b"},
    ]  # fmt: skip


def test_that_every_line_is_refused_is_not_said_of_lines_that_ended(cli: CommandLine) -> None:
    inputs("{}", "{}")
    assert "nothing was run: every line is refused" in cli(1, *BATCH).err


def test_of_very_many_lines_that_do_not_fit_the_first_are_named(cli: CommandLine) -> None:
    inputs(*["nothing"] * 50, {"n": 2})
    err = cli(1, *BATCH).err
    assert "line 20: " in err
    assert "line 21: " not in err
    assert "and 30 more" in err
    assert "51 of 51 lines · 1 accepted · 50 refused" in err


def test_what_all_lines_share_is_set_once_and_a_line_goes_before() -> None:
    inputs({"n": 2}, {"n": 4, "tone": "grim"})
    assert run([*BATCH, "--set", "tone=merry"]) == 0
    assert results()[1]["result"] == {"note": "Note 2, merry. "}
    assert results()[2]["result"] == {"note": "Note 4, grim. "}


def test_a_line_that_changed_since_it_was_run_is_refused(cli: CommandLine) -> None:
    numbers([2, 4])
    run(BATCH)
    numbers([6, 4])
    err = cli(1, *BATCH).err
    assert "line 1: its inputs have changed since its run machine-" in err
    assert "run the batch with another `-o`" in err
    assert calls() == 2


def test_so_is_one_whose_run_only_the_journal_knows() -> None:
    numbers([2])
    run(BATCH)
    Path("out.jsonl").unlink()
    numbers([6])
    assert run(BATCH) == 1
    assert (calls(), results()) == (1, {})


def test_with_a_key_lines_may_be_moved(cli: CommandLine) -> None:
    numbers([2, 4])
    keyed = [*BATCH, "--key", "n"]
    assert run(keyed) == 0
    numbers([8, 4, 6, 2])
    assert run(keyed) == 0
    assert calls() == 4
    written = Path("out.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["key"] for line in written) == ["2", "4", "6", "8"]
    inputs({"n": 2, "tone": "grim"})
    assert "line 1: its inputs have changed" in cli(1, *keyed).err


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("n", "line 2: line 1 has the same n, `2`"),
        ("m", "line 1: its `m` is not a text or a whole number, so it cannot identify the line"),
    ],
)
def test_a_key_names_one_line(key: str, reason: str, cli: CommandLine) -> None:
    machine(text=MACHINE.replace("{n: int,", "{n: int, m: optional str,"))
    inputs({"n": 2}, {"n": 2, "tone": "grim"})
    assert reason in cli(1, *BATCH, "--key", key).err


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("ton", "there is no input `ton`; did you mean `tone`?"),
        ("who.nam", "there is no input `who.nam`; did you mean `name`?"),
        ("who.name.first", "there is no input `who.name.first`"),
        ("who", "the input `who` is not a text or a whole number, so it cannot identify lines"),
        ("sure", "the input `sure` is not a text or a whole number, so it cannot identify lines"),
    ],
)
def test_a_key_that_fits_no_line_is_refused_once(key: str, reason: str, cli: CommandLine) -> None:
    machine(text=MACHINE.replace("{n: int,", "{who: {name: str}, sure: bool, n: int,"))
    inputs(*({"n": n, "who": {"name": "Ada"}, "sure": True} for n in range(3)))
    assert cli(2, *BATCH, "--key", key).err.endswith(f"error: `--key {key}`: {reason}\n")
    assert run([*BATCH, "--key", "who.name"]) == 1


def test_the_id_of_a_line_names_its_run_alone(cli: CommandLine) -> None:
    inputs(*({"n": 2} for _ in range(16)))
    assert run(BATCH) == 0
    names = {told["line"]: told["run"] for told in results().values()}
    told = cli(0, "runs", "rm", *(names[line] for line in range(11, 17))).err.splitlines()
    assert told == [f"run {names[line]} is removed" for line in range(11, 17)]
    for code, said in ((0, f"run {names[1]} is removed"), (2, f"there is no run `{names[1]}`")):
        assert said in cli(code, "runs", "rm", names[1]).err
    assert run(["runs", "show", names[10]]) == 0
    # Of six runs that begin like the second, only some are named as candidates.
    inputs(*({"n": 2} for _ in range(26)))
    assert run(BATCH) == 0
    assert cli(0, "runs", "show", names[2]).out.splitlines()[0].startswith(f"{names[2]}: finished")


def test_keys_of_any_form_and_length_name_runs() -> None:
    tones = ["a/b", "a b", "é" * 500, "x", "2"]
    inputs(*({"n": 2, "tone": tone} for tone in tones))
    assert run([*BATCH, "--key", "tone"]) == 0
    assert {told["key"] for told in results().values()} == set(tones)
    assert run([*BATCH, "--key", "tone"]) == 0
    assert calls() == 5


def test_a_result_that_was_cut_off_is_written_again_without_a_call() -> None:
    numbers([2, 4])
    run(BATCH)
    whole = Path("out.jsonl").read_bytes()
    Path("out.jsonl").write_bytes(whole[:-30])
    assert run(BATCH) == 0
    assert Path("out.jsonl").read_bytes() == whole
    assert calls() == 2


def test_another_results_file_is_another_batch() -> None:
    numbers([2])
    run(BATCH)
    assert run([*BATCH[:-1], "again.jsonl"]) == 0
    assert calls() == 2


@pytest.mark.parametrize("name", ["machine.yaml", "/dev/full", "other.jsonl"])
def test_a_file_that_is_not_this_batch_is_left_alone(name: str, cli: CommandLine) -> None:
    numbers([2])
    run([*BATCH[:-1], "first.jsonl"])
    Path("other.jsonl").write_bytes(Path("first.jsonl").read_bytes())
    before = Path("machine.yaml").read_bytes()
    assert name in cli(2, *BATCH[:-1], name).err
    assert Path("machine.yaml").read_bytes() == before
    assert calls() == 1


def test_two_processes_do_not_write_one_results_file() -> None:
    machine(pause="60")
    numbers([2])
    first = Process(["-m", "loopkit", *BATCH])
    until(lambda: calls() == 1)
    second = ran_loopkit(*BATCH)
    assert second.returncode == 2
    assert "another process is writing `out.jsonl`" in second.stderr
    first.send_signal(signal.SIGKILL)
    first.wait()


def test_a_results_file_that_is_let_go_in_a_moment_is_waited_for() -> None:
    """A program that a killed batch was about to start has it open a moment longer."""
    numbers([2])
    with Path("out.jsonl").open("a+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        letting_go = Timer(0.3, fcntl.flock, (held, fcntl.LOCK_UN))
        letting_go.start()
        assert run(BATCH) == 0
        letting_go.join()
    assert calls() == 1


def told_with_a_full_disk() -> str:
    """What a batch says whose results nobody can take."""
    with Path("/dev/full").open("wb") as full, Path("err").open("w+b") as err:
        process = Process(["-m", "loopkit", *BATCH[:-2]], [0, full.fileno(), err.fileno()])
        assert process.wait(60) == 4
        err.seek(0)
        return err.read().decode()


def test_results_that_cannot_be_written_are_not_lost() -> None:
    numbers([2, 4])
    told = told_with_a_full_disk()
    assert "can't be written: No space left on device" in told
    assert "run the same command again" in told
    made = calls()
    again = ran_loopkit(*BATCH[:-2])
    assert again.returncode == 0
    assert len(again.stdout.splitlines()) == 2
    assert calls() == made


def test_what_fails_for_one_line_stops_the_others_after_their_steps() -> None:
    machine(most=3, pause="0.5")
    numbers([2, 1])
    told_with_a_full_disk()
    # One for the line whose result could not be written, and two of the four of the other.
    assert calls() <= 3


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--record", "x.yaml"], "`--record` records one run"),
        (["--output", "jsonl"], "a batch prints results, not events"),
        (["--parallel", "0"], "--parallel"),
        (["--script", "none.yaml"], "none.yaml"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    options: list[str], told: str, cli: CommandLine
) -> None:
    numbers([2])
    assert told in cli(2, *BATCH, *options).err
    assert not Path("out.jsonl").exists()


@pytest.mark.parametrize("option", [["-o", "x"], ["--key", "n"], ["--parallel", "2"]])
def test_options_of_a_batch_need_one(option: list[str], cli: CommandLine) -> None:
    told = cli(2, "run", "machine.yaml", "--set", "n=2", *option).err
    assert f"`{option[0]}` is only for batches: add `--batch FILE`" in told


@pytest.mark.parametrize("name", ["none.jsonl", "/dev/stdin", "."])
def test_lines_come_from_a_file(name: str, cli: CommandLine) -> None:
    assert f"error: `{name}` is " in cli(2, "run", "machine.yaml", "--batch", name).err


def test_a_machine_with_errors_is_not_started() -> None:
    machine(text=MACHINE.replace("next: judge", "next: juge"))
    numbers([2])
    assert run(BATCH) == 2
    assert calls() == 0


def test_a_scenario_plays_each_line_from_its_beginning() -> None:
    machine(most=1)
    numbers([1, 2, 3])
    Path("script.yaml").write_text(
        "scenario: 1\nagents: {writer: [Note 1., It is even.]}\n", encoding="utf-8"
    )
    assert run([*BATCH, "--script", "script.yaml"]) == 0
    assert [told["result"]["note"] for told in results().values()] == ["It is even."] * 3
    assert calls() == 0


def test_so_many_lines_are_run_at_a_time() -> None:
    # Each call waits for the two others, and says so where they do not come.
    meeting = (
        "echo call >> calls; for i in $(seq 300); do "
        "[ $(wc -l < calls) -ge 3 ] && exec cat; sleep 0.1; done; echo alone"
    )
    machine(text=MACHINE.replace("echo call >> calls; sleep PAUSE; cat", meeting))
    numbers([2, 4, 6])
    assert run([*BATCH, "--parallel", "3"]) == 0


def test_no_more_lines_than_that_are_run_at_a_time() -> None:
    crowd = "touch busy_$$; ls busy_* | wc -l >> crowds; sleep 0.2; rm busy_$$; cat"
    machine(text=MACHINE.replace("echo call >> calls; sleep PAUSE; cat", crowd))
    numbers(range(0, 12, 2))
    assert run([*BATCH, "--parallel", "2"]) == 0
    assert max(map(int, Path("crowds").read_text().split())) == 2


WRITING = """
loopkit: 1
input: {n: int}
agents: {writer: {command: [sh, -c, 'echo "note $0" > note.md', "{{ input.n }}"]}}
states:
  write: {agent: writer, prompt: Go., output: {name: note, file: note.md}, WORKSPACE next: judge}
  judge:
    validate: note
    by: [{min_chars: 1}]
    transitions: [{guard: valid, target: done}, {target: lost}]
  done: {final: success, result: note}
  lost: {final: failure}
"""


def test_lines_that_would_write_one_file_are_not_run_at_the_same_time(cli: CommandLine) -> None:
    machine(text=WRITING.replace("WORKSPACE", ""))
    numbers(range(3))
    err = cli(2, *BATCH).err
    assert "lines that run at the same time would all write `note.md` (`write`)" in err
    assert run([*BATCH, "--parallel", "1"]) == 0
    notes = [told["result"]["note"] for told in results().values()]
    assert notes == ["note 0\n", "note 1\n", "note 2\n"]


def test_a_folder_for_each_line_keeps_their_files_apart(cli: CommandLine) -> None:
    own = "workspace: {path: 'work/{{ input.n }}', create: true},"
    machine(text=WRITING.replace("WORKSPACE", own))
    numbers(range(3))
    assert "same" not in cli(0, *BATCH).err
    assert Path("work/2/note.md").read_text() == "note 2\n"


def test_programs_that_share_a_folder_are_warned_of(cli: CommandLine) -> None:
    numbers([2])
    assert "share one folder in `write`: if programs write" in cli(0, *BATCH).err
    assert "share one folder" not in cli(0, *BATCH, "--parallel", "1").err


LEFT = """
loopkit: 1
input: {n: int}
states:
  write: {render: "number {{ input.n }}", output: {name: note, file: FILE}, next: done}
  done: {final: success, result: note}
"""


def test_a_text_that_each_line_would_render_to_one_file_is_not_written(cli: CommandLine) -> None:
    machine(text=LEFT.replace("FILE", "note.md"))
    numbers([1, 2])
    assert "would all write `note.md` (`write`)" in cli(2, *BATCH).err
    machine(text=LEFT.replace("FILE", "'note{{ input.n }}.md'"))
    assert "share one folder" not in cli(0, *BATCH).err
    assert Path("note2.md").read_text() == "number 2"


GIVEN = "as: item, key: item.id, each: input.list, max_items: 3, input: {n: '{{ item.n }}'}"
EACH_LINE = f"machine: inner.yaml, {GIVEN}"


@pytest.mark.parametrize(
    ("state", "may_share"),
    [
        ("machine: inner.yaml, input: {n: '{{ input.n }}'}", True),
        (EACH_LINE, True),
        (f"{EACH_LINE}, isolate: copy", False),
    ],
)
def test_machines_inside_that_write_files_are_warned_of(
    state: str, may_share: bool, cli: CommandLine
) -> None:
    Path("inner.yaml").write_text(LEFT.replace("FILE", "'note{{ input.n }}.md'"))
    text = """
loopkit: 1
input: {n: int, list: {type: array, items: {type: object}, default: [{id: a, n: 1}]}}
states:
  inner: {STATE, next: done, on_error: {fatal: done, content: done}}
  done: {final: success}
"""
    machine(text=text.replace("STATE", state))
    numbers([1])
    assert ("share one folder in `inner`" in cli(0, *BATCH).err) == may_share
    assert Path("note1.md").read_text()


def test_what_children_of_a_waiting_line_have_spent_counts_before_it_is_driven() -> None:
    Path("inner.yaml").write_text("""
loopkit: 1
agents: {writer: {command: [echo, tea], price_per_run: 1}}
states:
  write: {agent: writer, prompt: Go., on_error: {content: lost}, next: ask}
  ask: {human: Fine?, choices: [yes], next: done}
  done: {final: success}
  lost: {final: failure}
""")
    machine(
        text="""
loopkit: 1
input: {n: int}
states:
  inner: {machine: inner.yaml, next: done}
  done: {final: success}
"""
    )
    limited = [*BATCH, "--key", "n", "--parallel", "1", "--max-cost", "1"]
    numbers([1])
    assert run(limited) == 5
    numbers([2, 1])
    assert run(limited) == 3


def test_a_tree_for_each_line_keeps_their_files_apart_and_all_are_merged(cli: CommandLine) -> None:
    own = "workspace: {path: work, create: true, isolate: copy},"
    text = WRITING.replace("WORKSPACE", own).replace("> note.md", "> note$0.md")
    machine(text=text.replace("file: note.md", "file: 'note{{ input.n }}.md'"))
    numbers(range(6))
    assert "same" not in cli(0, *BATCH, "--parallel", "6").err
    kept = {file.name: file.read_text() for file in Path("work").iterdir()}
    assert kept == {f"note{n}.md": f"note {n}\n" for n in range(6)}


def test_a_line_waits_for_a_person_and_goes_on_when_it_is_answered(cli: CommandLine) -> None:
    machine(text=ASKING)
    numbers([1, 2])
    assert "2 waiting for a person" in cli(5, *BATCH).err
    assert results() == {}
    names = [row.split()[0] for row in cli(0, "runs", "ls").out.splitlines()]
    first = next(name for name in names if name.endswith("-1"))
    assert run(["answer", first, "keep"]) == 0
    assert run(BATCH) == 5
    assert {line: told["outcome"] for line, told in results().items()} == {1: "kept"}


@pytest.mark.parametrize("output", ["plain", "quiet"])
def test_why_a_line_was_suspended_is_told(output: str, cli: CommandLine) -> None:
    machine(text=MACHINE.replace("sh, -c", "./a-program-that-nobody-has, -c"))
    numbers([2])
    told = cli(4, *BATCH, "--output", output).err
    assert "line 1: command './a-program-that-nobody-has' was not started" in told


def test_limits_of_the_machine_are_those_of_each_line() -> None:
    machine(limits="limits: {agent_calls: 2}", most=5)
    numbers([1, 2, 3])
    assert run(BATCH) == 3
    assert sorted(results()) == [2]
    assert calls() == 5


def test_ctrl_c_finishes_the_steps_and_the_same_command_goes_on() -> None:
    machine(pause="1")
    numbers(range(2, 20, 2))
    process = Process(["-m", "loopkit", *BATCH, "--parallel", "2"])
    until(lambda: calls() == 2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(60)
    assert process.returncode == 130
    assert "to continue, run the same command again" in err
    # Nothing is judged any more, and no other line is begun.
    assert (calls(), results()) == (2, {})
    assert run(BATCH) == 0
    assert (calls(), len(results())) == (9, 9)


def test_at_its_limit_a_batch_says_which_command_goes_on(cli: CommandLine) -> None:
    # What a program reports counts for all lines, also if it is said to be free.
    said = json.dumps({"type": "result", "result": "even", "total_cost_usd": 0.5})
    Path("said").write_text(said)
    text = MACHINE.replace("; cat'", "; cat said'")
    machine(text=text.replace("on_in_doubt: retry", "reply: stream_json\n    price_per_run: 0"))
    numbers([2, 4, 6])
    again = "to continue, raise `--max-cost`: run the same command again with `--max-cost 1.20`"
    assert again in cli(3, *BATCH, "--max-cost", "0.6").err.splitlines()
    assert calls() == 2
    cli(0, *BATCH, "--max-cost", "1.20")
    assert calls() == 3


def test_a_line_at_a_limit_of_its_own_is_told_with_what_raises_it(cli: CommandLine) -> None:
    machine(limits="limits: {agent_calls: 1}", most=1, feedback="even")
    numbers([1])
    told = cli(3, *BATCH).err
    assert told.endswith(
        "limit of each line that reached one of its own, then run the same command again\n"
    )
    (line,) = re.findall(r"line 1: .*; raise it: loopkit (resume .*)", told)
    assert run(line.split()) == 0
    assert run(BATCH) == 0
    assert [told["outcome"] for told in results().values()] == ["accepted"]
