"""Coding programs as agents: what a run makes of what they print, of how they fail, and who pays.

They are scripts on the PATH that print what the real ones do. What each flag and record means is
tested in `test_programs.py`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from loopkit.cli import invoke
from loopkit.engine.events import Acted, Decided, Failed, InDoubt, Replied, Suspended, Worked
from loopkit.programs import PROGRAMS
from tests.machines import loop
from tests.recording import taped_same
from tests.support import CommandLine, Desk, console_lines, scenario

SCRIPT = """#!/bin/sh
at="$HOME/calls/$(ls "$HOME/calls" | wc -l)"
mkdir "$at"
cat > "$at/prompt"
env > "$at/env"
printf '%s\\n' "$@" > "$at/args"
. "$HOME/plays/$(basename "$at")"
"""
SESSION = "s-1"
EDIT = {"type": "tool_use", "id": "t", "name": "Write", "input": {"file_path": "notes.md"}}
SERVER = {"result": "API Error: 500 Internal server error", "api_error_status": 500}
TESTS = {"tool_name": "Bash", "tool_use_id": "u", "tool_input": {"command": "npm test"}}
DENIED = {"permission_denials": [TESTS]}
LIMIT = {"result": "Usage limit reached, try again in 2 hours", "api_error_status": 429}
LOST = "echo 'No conversation found with session ID: s-1' >&2; exit 1"


def printed(*records: Mapping[str, Any], then: str = "") -> str:
    """The script of a call that prints these records."""
    lines = "\n".join(json.dumps({"session_id": SESSION, **record}) for record in records)
    return f"cat <<'END'\n{lines}\nEND\n{then}"


def begun(version: str = "2.1.332") -> dict[str, Any]:
    return {"type": "system", "subtype": "init", "claude_code_version": version}


def does(*blocks: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "assistant", "message": {"role": "assistant", "content": [*blocks]}}


def ends(text: str = "Done.", total_usd: float = 0.25, **fields: Any) -> dict[str, Any]:
    usage = {"input_tokens": 100, "output_tokens": 10}
    last = {"type": "result", "subtype": "success", "is_error": False, "result": text}
    return last | {"usage": usage, "total_cost_usd": total_usd} | fields


def fails(**fields: Any) -> dict[str, Any]:
    return ends(**{"is_error": True, "total_usd": 0.0, **fields})


def answers(text: str, *before: Mapping[str, Any], **fields: Any) -> str:
    return printed(begun(), *before, ends(text, **fields))


@dataclass(frozen=True)
class Stub:
    """Programs of these names on the PATH, and what was asked of them."""

    home: Path

    def plays(self, *scripts: str) -> None:
        for number, script in enumerate(scripts):
            (self.home / "plays" / str(number)).write_text(script, encoding="utf-8")

    def asked(self, part: str) -> list[str]:
        """A part of each call: its `prompt`, `args` or `env`."""
        calls = sorted((self.home / "calls").iterdir())
        return [(call / part).read_text(encoding="utf-8") for call in calls]

    @property
    def resumed(self) -> list[bool]:
        return [f"--resume\n{SESSION}" in args for args in self.asked("args")]


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stub:
    home = tmp_path / "home"
    for name in ("bin", "plays", "calls"):
        (home / name).mkdir(parents=True)
    for name in ("claude", "copilot", "qwen"):
        (home / "bin" / name).write_text(SCRIPT, encoding="utf-8")
        (home / "bin" / name).chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{home}/bin:{os.environ['PATH']}")
    return Stub(home)


RETRY = "retry: {attempts: 2, backoff: 1ms, max_backoff: 1m}"


def machine(keys: str = "program: claude", retry: str = RETRY) -> str:
    return loop(
        "[{min_chars: 6, message: Too short.}]",
        {"valid": "accepted", "cap_reached": "refused"},
        "{revise: draft, max: 2}",
        top=f"agents: {{author: {{{keys}, {retry}}}}}",
        result="plan",
    )


def test_a_revision_goes_on_in_the_session_and_is_told_only_what_was_found(
    desk: Desk, stub: Stub
) -> None:
    stub.plays(answers("Tea."), answers("Green tea.", does(EDIT), total_usd=0.75))
    played = desk.play(machine())
    assert (played.outcome, played.result["plan"]) == ("accepted", "Green tea.")
    first, second = stub.asked("prompt")
    assert (first, stub.resumed) == ("Write.", [False, True])
    assert "Too short." in second
    assert "Write." not in second


def test_a_program_is_told_the_shape_of_its_answer_once_in_a_session(
    desk: Desk, stub: Stub
) -> None:
    stub.plays(answers("{}"), answers('{"tea": "green tea"}'))
    desk.play(machine("program: claude, schema: {tea: str}"))
    first, second = stub.asked("prompt")
    assert '"tea"' in first.removeprefix("Write.\n\nAnswer with one JSON value")
    assert "JSON Schema" not in second
    stub.plays(answers('{"tea": "green tea"}'))
    told = machine("program: claude, schema: {tea: str}").replace("Write.", "'{{ schema }}'")
    desk.play(told)
    assert "Answer with one JSON value" not in stub.asked("prompt")[-1]


def test_what_a_session_has_cost_before_is_not_counted_again(desk: Desk, stub: Stub) -> None:
    stub.plays(answers("Tea."), answers("Green tea.", total_usd=0.75))
    assert [reply.usage.cost_usd for reply in desk.play(machine()).of(Replied)] == [0.25, 0.5]


def test_tokens_that_are_counted_for_a_session_are_paid_by_the_price_of_each_call(
    desk: Desk, stub: Stub
) -> None:
    later = {"usage": {"input_tokens": 300, "output_tokens": 30}}
    stub.plays(answers("Tea."), answers("Green tea.", **later))
    played = desk.play(machine("program: qwen, price: {input: 1000, output: 10000}"))
    assert [reply.usage.tokens for reply in played.of(Replied)] == [110, 220]
    assert [reply.usage.cost_usd for reply in played.of(Replied)] == [0.2, 0.4]


def test_tokens_that_a_program_writes_to_a_file_are_counted(desk: Desk, stub: Stub) -> None:
    said = {"type": "assistant.message", "data": {"content": "Green tea."}}
    used = {"modelMetrics": {"m": {"usage": {"inputTokens": 70, "outputTokens": 7}}}}
    writes = f'for last; do :; done; echo {shlex.quote(json.dumps(used))} > "$last"'
    stub.plays(printed(said, {"type": "result", "exitCode": 0}, then=writes))
    assert [one.usage.tokens for one in desk.play(machine("program: copilot")).of(Replied)] == [77]


def test_what_a_program_does_is_stored_and_printed_before_its_answer(
    desk: Desk, stub: Stub
) -> None:
    stub.plays(answers("Green tea.", does(EDIT)))
    played = desk.play(machine())
    kinds = [event.type for event in played.events]
    assert kinds.index("intended") < kinds.index("acted") < kinds.index("replied")
    [acted] = played.of(Acted)
    assert (acted.kind, acted.name, acted.about, acted.session) == (
        "edit", "Write", "notes.md", SESSION,
    )  # fmt: skip
    assert "- Write notes.md" in " ".join(console_lines(played))
    [reply] = played.of(Replied)
    assert json.loads(reply.stream.splitlines()[-1]) == {
        "session_id": SESSION,
        **ends("Green tea."),
    }


def test_what_was_denied_is_a_finding_that_blocks_nothing(desk: Desk, stub: Stub) -> None:
    stub.plays(answers("Green tea.", **DENIED))
    played = desk.play(machine())
    [report] = [work.report for work in played.of(Worked) if work.report]
    [finding] = report.findings
    assert (report.verdict, finding.blocking, finding.validator) == ("warn", False, "artifact")
    assert "`Bash`" in finding.message
    assert "npm test" in finding.message


def test_a_version_that_was_not_tried_is_a_warning_once(desk: Desk, stub: Stub) -> None:
    new = {"type": "new_kind"}
    stub.plays(*(printed(begun("9.0.1"), new, ends(text)) for text in ("Tea.", "Green tea.")))
    told = [line for line in console_lines(desk.play(machine())) if "9.0.1" in line]
    assert len(told) == 1
    assert "warning: `claude` is version 9.0.1" in told[0]
    assert told[0].endswith("; it printed 1 record of unknown kinds")


@pytest.mark.parametrize(
    ("script", "error_class", "said"),
    [
        (
            printed(begun(), fails(result="Invalid API key", api_error_status=401)),
            "fatal",
            "`claude`: Invalid API key; sign in with `claude auth login`",
        ),
        (printed(begun(), fails(**LIMIT)), "transient", "Usage limit reached"),
        (printed(begun(), fails(**SERVER)), "transient", "500 Internal server error"),
        (printed(begun(), then="kill -TERM $$"), "transient", "before its last record"),
        (
            printed(begun(), fails(result="", subtype="error_max_turns")),
            "content",
            "error_max_turns",
        ),
    ],
)
def test_a_failure_is_classed_by_the_records_and_told_in_the_words_of_the_provider(
    desk: Desk, stub: Stub, script: str, error_class: str, said: str
) -> None:
    stub.plays(script, answers("Green tea."), answers("Green tea."))
    [failed] = desk.play(machine()).of(Failed)
    assert (failed.error_class, said in failed.message) == (error_class, True)


def test_a_quota_with_its_time_suspends_the_run_after_one_call(desk: Desk, stub: Stub) -> None:
    stub.plays(printed(begun(), fails(**LIMIT)))
    played = desk.play(machine())
    [suspended] = played.of(Suspended)
    assert suspended.resume_at is not None
    assert 7000 < suspended.resume_at - played.stored[-1].at < 7300
    assert len(stub.asked("prompt")) == 1


def test_a_failure_before_anything_was_done_begins_anew(desk: Desk, stub: Stub) -> None:
    stub.plays(printed(begun(), fails(**SERVER)), answers("Green tea."))
    assert desk.play(machine()).outcome == "accepted"
    assert stub.resumed == [False, False]


FAILS_AFTER_AN_EDIT = (
    printed(begun(), does(EDIT), fails(**SERVER)),
    printed(begun(), does(EDIT), then="kill -TERM $$"),
)


@pytest.mark.parametrize("script", FAILS_AFTER_AN_EDIT)
def test_a_failure_after_an_edit_is_in_doubt_and_goes_on_in_the_same_session(
    durable: Desk, stub: Stub, script: str
) -> None:
    stub.plays(script, answers("Green tea."))
    waiting = durable.play(machine())
    [doubt] = waiting.of(InDoubt)
    assert (doubt.policy, "Write notes.md" in doubt.reason) == ("ask", True)
    assert len(stub.asked("prompt")) == 1
    assert durable.answer(waiting.state.run, "retry").outcome == "accepted"
    assert (stub.resumed, stub.asked("prompt")) == ([False, True], ["Write."] * 2)


def test_what_a_program_said_that_it_used_before_it_failed_is_counted(
    durable: Desk, stub: Stub
) -> None:
    stub.plays(printed(begun(), does(EDIT), fails(api_error_status=500, total_usd=0.1)))
    waiting = durable.play(machine())
    assert len(waiting.of(InDoubt)) == 1
    assert waiting.state.usage.cost_usd == 0.1


def test_by_a_machine_that_says_so_it_goes_on_without_asking(desk: Desk, stub: Stub) -> None:
    stub.plays(FAILS_AFTER_AN_EDIT[0], LOST, answers("Green tea."))
    played = desk.play(machine("program: claude, on_in_doubt: retry"))
    assert played.outcome == "accepted"
    # The session is gone meanwhile, and nothing of it is left to go on with.
    assert stub.resumed == [False, True, False]


def test_a_program_that_took_too_long_goes_on_in_its_session(durable: Desk, stub: Stub) -> None:
    stub.plays(printed(begun(), does(EDIT), then="sleep 60"), answers("Green tea."))
    once = "retry: {attempts: 1}"
    stopped = durable.play(machine("program: claude, on_in_doubt: retry, timeout: 2s", once))
    assert [event.reason for event in stopped.of(Suspended)] == ["transient"]
    assert durable.resume(stopped.state.run).outcome == "accepted"
    assert stub.resumed == [False, True]


def test_a_run_that_is_killed_goes_on_in_the_session_in_which_something_was_done(
    durable: Desk, stub: Stub
) -> None:
    path = durable.write("machine.yaml", machine("program: claude, on_in_doubt: retry"))
    waits = "until grep -aq acted .loopkit/*.db*; do sleep 0.1; done"
    stub.plays(
        printed(begun(), does(EDIT), then=f"{waits}; kill -9 $PPID; sleep 60"),
        answers("Green tea."),
    )
    line = [sys.executable, "-m", "loopkit", "run", str(path)]
    killed = subprocess.run(
        line, check=False, cwd=durable.folder, capture_output=True, text=True, timeout=120
    )
    assert killed.returncode == -signal.SIGKILL
    [run] = re.findall(r"^run (\S+)$", killed.stderr, re.MULTILINE)
    assert durable.resume(run).outcome == "accepted"
    assert stub.resumed == [False, True]


@pytest.mark.parametrize(
    "lost", [LOST, printed(begun(), fails(result="Prompt is too long", api_error_status=400))]
)
def test_a_session_that_is_lost_or_outgrown_begins_anew_with_the_whole_prompt(
    desk: Desk, stub: Stub, lost: str
) -> None:
    stub.plays(answers("Tea."), lost, answers("Green tea."))
    played = desk.play(machine())
    assert (played.outcome, stub.resumed) == ("accepted", [False, True, False])
    # The new session counts from nothing, and one that is not found costs nothing.
    assert played.state.usage.cost_usd == 0.5
    assert stub.asked("prompt")[2].startswith("Write.")
    assert "Too short." in stub.asked("prompt")[2]
    assert len([edge for edge in played.of(Decided) if edge.spends]) == 1


def test_a_program_that_prints_nothing_is_ended_before_its_timeout(desk: Desk, stub: Stub) -> None:
    stub.plays(printed(begun(), then="sleep 60"))
    [doubt] = desk.play(machine("program: claude, idle_timeout: 300ms")).of(InDoubt)
    assert doubt.reason == "it printed nothing for 0.3 s"
    assert doubt.time_s < 30


CANARY = "sk-canary-0123456789"


@pytest.mark.parametrize(("auth", "is_passed"), [("login", False), ("key", True)])
def test_a_key_reaches_a_program_only_where_the_machine_says_that_it_pays(
    desk: Desk, stub: Stub, monkeypatch: pytest.MonkeyPatch, auth: str, is_passed: bool
) -> None:
    for name in ("ANTHROPIC_API_KEY", "OTHER", "SECOND_TOKEN", "https_proxy", "SSL_CERT_FILE"):
        monkeypatch.setenv(name, CANARY)
    stub.plays(answers("Green tea."))
    assert desk.play(machine(f"program: claude, auth: {auth}, env: [OTHER]")).outcome == "accepted"
    [env] = stub.asked("env")
    seen = {line.partition("=")[0] for line in env.splitlines() if CANARY in line}
    keys = {"ANTHROPIC_API_KEY"} if is_passed else set()
    assert seen == {"OTHER", "https_proxy", "SSL_CERT_FILE"} | keys


@pytest.mark.parametrize(("auth", "codes"), [("login", ["no-effect"]), ("key", [])])
def test_a_key_under_env_contradicts_a_login(desk: Desk, auth: str, codes: list[str]) -> None:
    found = desk.problems(machine(f"program: claude, auth: {auth}, env: [ANTHROPIC_API_KEY]"))
    assert [one.code for one in found] == codes


def test_a_program_sees_the_proxy_and_its_own_configuration(
    desk: Desk, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "no_proxy", "NODE_EXTRA_CA_CERTS", "CLAUDE_CONFIG_DIR"):
        monkeypatch.setenv(name, "/passed")
    monkeypatch.setenv("QWEN_HOME", "/withheld")
    stub.plays(answers("Green tea."))
    desk.play(machine())
    [env] = stub.asked("env")
    assert (env.count("=/passed"), "/withheld" in env) == (4, False)


def test_a_withheld_key_is_named_where_nobody_has_signed_in(
    desk: Desk, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", CANARY)
    stub.plays(printed(begun(), fails(result="Not logged in", api_error_status=401)))
    [failed] = desk.play(machine()).of(Failed)
    assert failed.message.endswith("`ANTHROPIC_API_KEY` is set, which only `auth: key` passes")


def test_a_plan_and_a_run_say_who_pays_and_what_is_started(
    desk: Desk, stub: Stub, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk.folder)
    path = str(desk.write("machine.yaml", machine("program: claude, model: opus, timeout: 1m")))
    stub.plays(answers("Green tea."))
    planned = cli(0, "plan", path).out
    assert "author (your login, no key is passed): claude -p " in planned
    assert " --model opus" in planned
    assert "program claude is installed" in planned
    assert cli(0, "run", path).err.startswith("claude: your login, no key is passed\n")
    assert "ok: program claude: agent `author`, your login" in cli(0, "doctor", path).out


def test_a_program_that_is_not_installed_is_missing_before_anything_is_called(
    desk: Desk, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.chdir(desk.folder)
    path = str(desk.write("machine.yaml", machine("program: codex, auth: key")))
    told = cli(2, "doctor", path).out
    assert "missing: program codex is not on PATH" in told
    assert "npm install --global @openai/codex" in told
    assert "missing: key CODEX_API_KEY" in told
    assert invoke(["run", path]) == 2


def test_a_scenario_plays_a_program_without_any(desk: Desk) -> None:
    script = scenario(agents={"author": ["Tea.", "Green tea."]})
    played = desk.play(machine("program: gemini"), script)
    assert played.outcome == "accepted"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_stored_run_of_any_program_is_read_again(
    name: str, desk: Desk, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk.folder)
    path = str(desk.write("machine.yaml", machine(f"program: {name}, config: user")))
    script = str(desk.write("script.yaml", scenario(agents={"author": ["Green tea."]})))
    told = cli(0, "run", path, "--script", script).err
    [run] = re.findall("^run (.+)$", told, re.MULTILINE)
    assert "accepted" in cli(0, "runs", "show", run).out


def test_a_run_with_programs_is_recorded_as_a_case_that_plays_it(desk: Desk, stub: Stub) -> None:
    """Its sessions too: a revision is sent only what was found."""
    stub.plays(answers("Tea.", does(EDIT)), LOST, answers("Green tea.", **DENIED))
    played = desk.play(machine())
    taped_same(desk, played)


def test_a_program_judges_by_its_last_words(desk: Desk, stub: Stub) -> None:
    verdict = json.dumps({"verdict": "pass", "findings": []})
    stub.plays(answers("Green tea."), answers(verdict, does({"type": "text", "text": "I look."})))
    text = machine().replace("{min_chars: 6, message: Too short.}", "{judge: author}")
    played = desk.play(text)
    assert (played.outcome, stub.resumed) == ("accepted", [False, False])


def test_an_answer_in_many_pieces_and_a_record_without_an_end_are_read(
    desk: Desk, stub: Stub
) -> None:
    last = json.dumps({"session_id": SESSION, **ends("Green tea.")})
    parts = [last[:40], last[40:]]
    slow = "; sleep 0.2; ".join(f"printf %s {shlex.quote(part)}" for part in parts)
    stub.plays(printed(begun(), {"type": "of_next_year", "x": [1]}, then=slow))
    assert desk.play(machine()).result["plan"] == "Green tea."


def test_what_a_program_does_without_end_is_stored_up_to_a_thousand(desk: Desk, stub: Stub) -> None:
    stub.plays(answers("Green tea.", *(does({**EDIT, "id": str(n)}) for n in range(1100))))
    assert len(desk.play(machine()).of(Acted)) == 1000
