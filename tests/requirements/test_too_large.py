"""What is too large to be stored or printed costs its author an attempt, and is paid once."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import pytest

from loopkit.app import App
from loopkit.cli import invoke
from loopkit.engine.events import Refused, Replied
from loopkit.language.load import load
from tests.support import Desk, console_lines

SAY = """
import sys
from pathlib import Path
calls = Path(__file__).with_name(sys.argv[1] + ".calls")
number = len(calls.read_text()) if calls.exists() else 0
calls.write_text("x" * (number + 1))
words = sys.argv[2:]
sys.stdout.write(eval(words[min(number, len(words) - 1)]))
"""
"""A program that counts its calls, and prints what each of its arguments stands for."""

CONTROL = "chr(1) * 10_000_000"
PLAIN = "'word ' * 2_400_000"
MACHINE = """
loopkit: 1
limits: {revisions: 2}
agents: {author: {command: AUTHOR}, critic: {command: CRITIC}}
validators: {quality: {judge: critic}}
states:
  draft: {agent: author, prompt: "Write. {{ feedback }}", output: PLAN, next: judge}
  judge:
    validate: plan
    by: [{min_chars: 3}, quality]
    transitions:
      - {guard: valid, target: done}
      - {guard: cap_reached, target: failed}
      - {revise: draft FEEDBACK}
  done: {final: success, result: plan}
  failed: {final: failure}
"""
VERDICT = '\'{"verdict": "pass", "findings": []}\''


def said(desk: Desk, name: str, *words: str) -> str:
    path = desk.folder / "say.py"
    path.write_text(SAY, encoding="utf-8")
    return json.dumps([sys.executable, str(path), name, *words])


def calls(desk: Desk, name: str) -> int:
    return len((desk.folder / f"{name}.calls").read_text(encoding="utf-8"))


def machine(author: str, critic: str, plan: str = "plan", feedback: str = "") -> str:
    made = MACHINE.replace("AUTHOR", author).replace("CRITIC", critic)
    return made.replace("PLAN", plan).replace(" FEEDBACK", feedback)


@pytest.mark.parametrize("much", [CONTROL, PLAIN])
def test_a_reply_that_is_too_large_is_a_fault_of_its_author(much: str, durable: Desk) -> None:
    author = said(durable, "author", much, "'a good plan'")
    played = durable.play(machine(author, said(durable, "critic", VERDICT)))
    assert played.outcome == "done"
    assert played.result == {"plan": "a good plan"}
    assert calls(durable, "author") == 2
    assert played.reports[0].findings[0].code == "cut-off"
    reply = played.of(Replied)[0]
    assert reply.cut_off
    assert len(reply.text) < 110_000
    assert " characters left out]" in reply.text


def test_a_judge_whose_answer_is_too_large_is_asked_again(durable: Desk) -> None:
    author = said(durable, "author", "'a good plan'")
    played = durable.play(machine(author, said(durable, "critic", CONTROL, PLAIN, VERDICT)))
    assert played.outcome == "done"
    assert calls(durable, "author") == 1
    assert calls(durable, "critic") == 3
    assert "cut off" in played.prompts("critic")[1]


END = '{"type": "result", "subtype": "success"}'


def test_a_transcript_that_is_too_large_for_a_verdict_is_asked_for_again(durable: Desk) -> None:
    author, words = said(durable, "author", "'a good plan'"), "chr(120) * 1_000"
    line = '{"type": "assistant", "message": {"content": [{"type": "text", "text": "%s"}]}}'
    talk = f"(({line!r} % ({words})) + chr(10)) * 2_000 + {END!r}"
    verdict = f"{line!r} % {json.dumps(VERDICT[1:-1])[1:-1]!r} + chr(10) + {END!r}"
    critic = said(durable, "critic", talk, verdict)
    written = machine(author, critic).replace("critic: {", "critic: {reply: stream_json, ")
    played = durable.play(written)
    assert played.outcome == "done"
    assert calls(durable, "critic") == 2


def test_what_a_command_prints_is_stored_as_far_as_it_can_be(durable: Desk) -> None:
    printed = said(durable, "tool", CONTROL)
    played = durable.play(f"""
loopkit: 1
states:
  print: {{run: {printed}, output: text, next: done}}
  done: {{final: success, result: text}}
""")
    assert played.outcome == "done"
    assert "[9,900,000 characters left out]" in str(played.result["text"])


def test_a_file_that_is_too_large_to_be_stored_is_a_fault_of_its_author(durable: Desk) -> None:
    written = f"open('plan.md', 'w').write({CONTROL}) and ''"
    good = "open('plan.md', 'w').write('a good plan') and ''"
    author = said(durable, "author", written, good)
    plan = "{name: plan, file: plan.md}"
    played = durable.play(machine(author, said(durable, "critic", VERDICT), plan))
    assert played.outcome == "done"
    assert calls(durable, "author") == 2
    assert "takes 60,000,002 bytes as JSON" in played.reports[0].findings[0].message


@pytest.mark.parametrize(
    ("size", "outcome"), [(10_000_000, "done"), (10_000_001, "10,000,001 bytes, and at most 10,00")]
)
def test_a_file_is_taken_up_to_the_size_that_is_documented(
    size: int, outcome: str, durable: Desk
) -> None:
    quoted = f"('\"a\"' + chr(10)) * {size // 4} + 'x' * {size % 4}"
    author = said(durable, "author", f"open('plan.md', 'w').write({quoted}) and ''")
    plan = "{name: plan, file: plan.md}, on_error: {content: failed}"
    # What is too long for a prompt is judged by rules alone.
    judged = machine(author, said(durable, "critic", VERDICT), plan).replace(", quality]", "]")
    played = durable.play(judged)
    assert outcome in " ".join(console_lines(played))


FIELDS = ", ".join(f"f{number}: {{match: '(?s)(.*)'}}" for number in range(9))


@pytest.mark.parametrize(
    ("plan", "feedback", "told"),
    [
        (f"{{name: plan, fields: {{{FIELDS}}}}}", "", "what the step leaves can't be kept"),
        ("plan", ", feedback: '{{ plan }}{{ plan }}'", "prints more than 2,000,000 characters"),
    ],
)
def test_what_a_paid_reply_makes_too_large_suspends_the_run_and_is_not_paid_again(
    plan: str, feedback: str, told: str, durable: Desk
) -> None:
    author = said(durable, "author", "chr(1) * 1_400_000")
    critic = said(
        durable,
        "critic",
        VERDICT.replace("pass", "fail")
        .replace("[]", "[{}]")
        .replace("{}", '{"message": "No.", "severity": "error"}'),
    )
    played = durable.play(machine(author, critic, plan, feedback))
    for _ in range(2):
        assert played.state.suspended is not None
        assert played.state.suspended.reason == "fatal"
        assert told in played.state.suspended.message
        assert "correct the machine" in played.state.suspended.remedy
        played = durable.resume(played.state.run)
    assert calls(durable, "author") == 1


def unchecked(folder: Path, text: str) -> str:
    """A run of a machine that `check` would refuse, driven as far as it goes; its id."""
    path = folder / "machine.yaml"
    path.write_text(text, encoding="utf-8")

    async def started() -> str:
        async with App.open(folder / ".loopkit") as app:
            return (await app.drive(await app.start(load(path), {}))).run

    return asyncio.run(started())


def test_whatever_is_tried_with_a_run_without_an_edge_it_stays_suspended_and_its_work_paid_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOOPKIT_STATE", str(tmp_path / ".loopkit"))
    asked = tmp_path / "asked"
    run = unchecked(
        tmp_path,
        f"""
loopkit: 1
limits: {{total_revisions: 0}}
agents: {{writer: {{command: [sh, -c, "echo asked >> {asked}; echo short"]}}}}
states:
  write: {{agent: writer, prompt: Write., output: text, next: check}}
  check:
    validate: text
    by: [{{min_chars: 9}}]
    transitions: [{{guard: valid, target: done}}, {{revise: write, max: 3}}]
  done: {{final: success}}
""",
    )
    for argv, code in (
        (["resume", run], 4),
        (["resume", run, "--set", "limits.agent_calls=9"], 4),
        (["resume", run, "--set", "limits.total_revisions=1"], 2),
        (["answer", run, "yes"], 2),
        (["runs", "show", run], 0),
        (["runs", "ls"], 0),
    ):
        assert (invoke(argv), argv) == (code, argv)
    told = capsys.readouterr()
    assert f"{run}: suspended at check" in told.out
    assert "suspended (fatal): no edge of `check` is enabled" in told.out
    assert asked.read_text(encoding="utf-8") == "asked\n"
    assert invoke(["cancel", run]) == 0


def test_an_answer_that_finds_no_edge_is_refused_and_the_question_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOOPKIT_STATE", str(tmp_path / ".loopkit"))
    run = unchecked(
        tmp_path,
        """
loopkit: 1
states:
  ask: {human: Good?, choices: [yes, no], transitions: [{guard: choice == "yes", target: done}]}
  done: {final: success}
""",
    )
    assert invoke(["answer", run, "no"]) == 2
    assert "no transition of the state takes this answer" in capsys.readouterr().err
    assert invoke(["resume", run]) == 5
    assert invoke(["answer", run, "yes"]) == 0


def test_a_timeout_whose_answer_can_not_be_taken_leaves_the_question_open(durable: Desk) -> None:
    printed = said(durable, "tool", "'x' * 1_400_000")
    played = durable.play(f"""
loopkit: 1
states:
  print: {{run: {printed}, output: text, next: ask}}
  ask:
    human: Good?
    choices: [yes, no]
    timeout: 10ms
    otherwise: yes
    transitions:
      - {{guard: choice == "yes", target: more}}
      - {{target: done}}
  more: {{human: "{{{{ text }}}}{{{{ text }}}}", choices: [ok], next: done}}
  done: {{final: success}}
""")
    for _ in range(3):
        time.sleep(0.02)
        played = durable.resume(played.state.run)
    assert played.state.status == "waiting"
    assert "prints more than 2,000,000 characters" in played.of(Refused)[-1].reason
    assert durable.answer(played.state.run, "no").outcome == "done"
