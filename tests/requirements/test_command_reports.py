"""`command` rules that read reports, keep a baseline and are run again: real programs."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from loopkit.app import App
from loopkit.drive.active import ActiveRun
from loopkit.drive.stored_runs import Stored
from loopkit.engine.events import Baselined, Worked
from loopkit.engine.state import RunState
from loopkit.language.load import load
from loopkit.views.console import lines
from loopkit.views.steps import Steps
from tests.machines import loop
from tests.support import Desk, Played, QuickClock, scenario
from tests.warm import ran_loopkit

BIN = Path(sys.executable).parent
MACHINE = loop(
    "[checked]",
    {"valid": "accepted", "cap_reached": "refused"},
    r'{revise: draft, feedback: "{% for f in findings %}{{ f.message }}\n{% endfor %}"}',
    top="""
input: {path: {type: str, default: .}}
agents: {author: {command: [none]}}
limits: {revisions: REVISIONS}
validators: {checked: RULE}
""",
    draft='draft: {agent: author, prompt: "{{ feedback }}", output: plan}',
    state="on_error: {transient: late, fatal: broken}",
    ends="""
late: {final: failure}
broken: {final: failure}
""",
)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def wrote(**files: str) -> dict[str, Any]:
    """A call of the author that leaves these files; `__` in a name is a dot."""
    return {
        "reply": "done",
        "files": {name.replace("__", "."): text for name, text in files.items()},
    }


def ruled(
    desk: Desk, rule: dict[str, Any], *attempts: Any, revisions: int = 1, **scripted: Any
) -> Played:
    machine = MACHINE.replace("RULE", json.dumps(rule)).replace("REVISIONS", str(revisions))
    return desk.play(machine, scenario(agents={"author": list(attempts or ["done"])}, **scripted))


def found(played: Played, index: int = 0) -> list[tuple[str, bool]]:
    return [(finding.message, finding.blocking) for finding in played.reports[index].findings]


# Reports of real programs


def test_the_tests_that_fail_are_what_the_author_is_told(desk: Desk) -> None:
    """S1.37: tests from the machine, run in the workspace; each failure is a finding."""
    options = ["-q", "-p", "no:cacheprovider", "--junitxml", "out/report.xml"]
    rule = {
        # Without byte code: two versions of one second and size would be the same to Python.
        "command": [sys.executable, "-B", "-m", "pytest", *options],
        "parse": "junit",
        "file": "out/report.xml",
    }
    desk.write(
        "test_sum.py", "from plus import plus\n\ndef test_two():\n    assert plus(1, 1) == 2\n"
    )
    played = ruled(
        desk,
        rule,
        wrote(plus__py="def plus(a, b):\n    return a - b\n"),
        wrote(plus__py="def plus(a, b):\n    return b + a\n"),
    )
    assert played.outcome == "accepted"
    [(message, blocks)] = found(played)
    assert blocks
    assert message.startswith("test_sum::test_two failed: assert 0 == 2")
    assert "test_sum::test_two failed" in played.prompts("author")[1]


def test_a_linter_names_its_places_in_sarif(desk: Desk) -> None:
    options = ["--isolated", "--no-cache", "--output-format", "sarif"]
    rule = {"command": [str(BIN / "ruff"), "check", *options, "a.py"], "parse": "sarif"}
    played = ruled(
        desk, rule, wrote(a__py="X = 1\nimport os\n"), wrote(a__py="import os\n\nprint(os)\n")
    )
    assert played.outcome == "accepted"
    unused = next(f for f in played.reports[0].findings if f.code == "F401")
    assert (unused.location, unused.line, unused.severity) == ("a.py", 2, "error")
    assert "a.py:2:8: F401 `os` imported but unused" in played.prompts("author")[1]


def test_paths_of_the_workspace_are_told_from_there(desk: Desk) -> None:
    """What is kept of a program is the same in another copy of the workspace."""
    code = "import os; print(f'{os.getcwd()}/a.py:1: see {os.getcwd()}/b.py and /x{os.getcwd()}/c')"
    played = ruled(desk, {"command": python(code), "parse": "lines"}, "done", "done")
    [(message, _)] = found(played)
    assert message == f"a.py:1: see b.py and /x{desk.folder}/c"
    assert played.of(Worked)[1].commands[0].stdout == f"{message}\n"


# Where a report comes from


STALE = """
import pathlib, sys
if "good" in pathlib.Path("a.txt").read_text():
    pathlib.Path("report.json").write_text('{"verdict": "pass", "findings": []}')
"""


def test_a_report_that_was_left_over_is_never_read(desk: Desk) -> None:
    """S1.22, S1.23: it is gone before the program starts, so that another attempt's can't pass."""
    desk.write("report.json", '{"verdict": "pass", "findings": []}')
    rule = {"command": python(STALE), "parse": "report", "file": "report.json"}
    played = ruled(desk, rule, wrote(a__txt="bad"))
    assert played.outcome == "broken"
    [answer] = played.reports[0].answers
    assert (answer.verdict, answer.findings) == ("error", ())
    assert "this run of the program did not write it" in answer.reason
    assert not (desk.folder / "report.json").exists()


@pytest.mark.parametrize(
    ("report", "text", "verdict", "says"),
    [
        ("pass", "Verdict: FAIL\n- [FAIL] Too short.", "fail", "pass and its text says fail"),
        ("fail", "Verdict: PASS", "fail", "fail and its text says pass"),
        ("pass", "Verdict: PASS", "pass", ""),
    ],
)  # fmt: skip
def test_where_a_file_and_the_text_disagree_the_stricter_counts(
    desk: Desk, report: str, text: str, verdict: str, says: str
) -> None:
    """S1.21: two sources of one verdict; what they disagree about is kept."""
    findings = [{"message": "Bad.", "severity": "error"}] if report == "fail" else []
    written = json.dumps({"verdict": report, "findings": findings})
    code = f"open('r.json', 'w').write({written!r}); print({text!r})"
    rule = {"command": python(code), "parse": "report", "file": "r.json", "verdict": {}}
    played = ruled(desk, rule, "done", "done")
    [answer] = played.reports[0].answers
    assert answer.verdict == verdict
    assert says in answer.reason
    assert bool(says) == bool(answer.reason)


# How it ended, and what it says


@pytest.mark.parametrize(
    ("code", "report", "verdict"),
    [
        (0, "clean", "pass"),
        (0, "found", "fail"),
        (1, "found", "fail"),
        (1, "clean", "fail"),
        (2, "clean", "incomplete"),
        (2, "found", "incomplete"),
        (0, "none", "incomplete"),
        (1, "none", "incomplete"),
    ],
)
def test_how_a_program_ended_is_one_thing_and_its_verdict_another(
    desk: Desk, code: int, report: str, verdict: str
) -> None:
    """S1.29: the exit code is kept beside the verdict; only a known one can go with a verdict."""
    findings = [{"message": "It is bad.", "severity": "error"}] if report == "found" else []
    written = json.dumps({"verdict": "fail" if findings else "pass", "findings": findings})
    printed = "" if report == "none" else written
    shell = f"import sys; print({printed!r}); print('why', file=sys.stderr); sys.exit({code})"
    played = ruled(desk, {"command": python(shell), "parse": "report"}, "done", "done")
    assert played.reports[0].verdict == verdict
    assert played.of(Worked)[1].commands[0].exit_code == code
    if (code, report) == (1, "clean"):
        [(message, _)] = found(played)
        assert message.endswith("exit code 1, although nothing that it reports blocks:\nwhy")
        assert "the exit code counts" in played.reports[0].answers[0].reason


# Tries of its own


BUSY = """
import pathlib, sys
count = pathlib.Path("count")
number = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(number))
if number < NEEDED:
    print("rate limit", file=sys.stderr)
    sys.exit(75)
"""


def test_a_program_that_is_busy_is_run_again_at_no_cost_for_the_author(desk: Desk) -> None:
    """S1.28: its own budget of tries, with waits that grow; neither attempts nor revisions."""
    clock = QuickClock()
    desk.clock = clock
    played = ruled(
        desk,
        {
            "command": python(BUSY.replace("NEEDED", "4")),
            "retry": {"attempts": 4, "backoff": "2s", "max_backoff": "5s"},
            "errors": [{"stderr": "rate limit", "class": "transient"}],
        },
    )
    assert played.outcome == "accepted"
    assert clock.slept == [2.0, 4.0, 5.0]
    assert played.state.attempts["draft"] == 1
    assert [ran.exit_code for ran in played.of(Worked)[1].commands] == [75, 75, 75, 0]


@pytest.mark.parametrize(("budget", "tries"), [({"retry": {"attempts": 2}}, 2), ({}, 1)])
def test_after_its_last_try_a_program_leaves_an_error_and_no_verdict(
    desk: Desk, budget: dict[str, Any], tries: int
) -> None:
    """S1.28: it costs the author nothing, and goes where its class of error goes."""
    desk.clock = QuickClock()
    errors = [{"exit": 75, "class": "transient"}]
    command = python(BUSY.replace("NEEDED", "9"))
    played = ruled(desk, {"command": command, "errors": errors, "fail_codes": [1, 75], **budget})
    assert (played.outcome, played.state.counters) == ("late", {})
    [answer] = played.reports[0].answers
    assert answer.reason.endswith("rate limit (2 tries)" if budget else "rate limit")
    assert (desk.folder / "count").read_text(encoding="utf-8") == str(tries)


def test_a_program_that_wrote_no_report_is_run_again(desk: Desk) -> None:
    """S1.28: nothing written is no verdict."""
    desk.clock = QuickClock()
    code = BUSY.replace("NEEDED", "2").replace("sys.exit(75)", "sys.exit(0)")
    code += 'print(\'{"verdict": "pass", "findings": []}\')'
    rule = {"command": python(code), "parse": "report", "retry": {"attempts": 2}}
    assert ruled(desk, rule).outcome == "accepted"


def test_a_scenario_plays_the_tries_of_a_command(desk: Desk) -> None:
    clock = QuickClock()
    desk.clock = clock
    rule = {"command": ["none"], "retry": {"attempts": 3}}
    played = ruled(
        desk, rule, "one", "two",
        commands={"checked": [[{"fault": "timeout"}, {"exit_code": 1}], {"exit_code": 0}]},
    )  # fmt: skip
    assert [report.verdict for report in played.reports] == ["fail", "pass"]
    assert clock.slept == [1.0]


# Against a baseline


LINT = """
import pathlib, sys
pathlib.Path("runs").open("a").write("x")
lines = pathlib.Path("a.txt").read_text().splitlines()
bad = [f"a.txt:{n}:1: {line}" for n, line in enumerate(lines, 1) if line.startswith("bad")]
print("\\n".join(bad))
sys.exit(bool(bad))
"""
LINTED = {"command": python(LINT), "parse": "lines", "baseline": True}


def test_only_what_is_new_since_the_start_of_the_run_fails(desk: Desk) -> None:
    """S1.38: what was there before comes as a warning, also after it has moved."""
    desk.write("a.txt", "bad old\nfine\n")
    played = ruled(
        desk,
        LINTED,
        wrote(a__txt="fine\n\nbad old\nbad new\n"),
        wrote(a__txt="fine\n\nfine\nbad old\n"),
    )
    assert played.outcome == "accepted"
    assert found(played, 0) == [
        ("a.txt:4:1: bad new", True),
        ("a.txt:3:1: bad old (was there before)", False),
    ]
    assert found(played, 1) == [("a.txt:4:1: bad old (was there before)", False)]
    assert played.reports[1].verdict == "warn"


def test_a_second_one_of_what_was_there_is_new(desk: Desk) -> None:
    """S1.38: equal defects are counted."""
    desk.write("a.txt", "bad\n")
    played = ruled(desk, LINTED, wrote(a__txt="bad\nbad\n"), wrote(a__txt="bad\n"))
    assert [blocks for _, blocks in found(played, 0)] == [True, False]
    assert played.outcome == "accepted"


def test_the_baseline_is_taken_before_the_first_work_and_kept(desk: Desk) -> None:
    """S1.38: it is a record of its own, durable before anybody writes."""
    desk.write("a.txt", "bad old\n")
    played = ruled(desk, LINTED, wrote(a__txt="bad old\n"))
    types = [event.type for event in played.events]
    assert types.index("baselined") < types.index("intended")
    [taken] = played.of(Baselined)
    assert (taken.state, taken.validator, taken.rule) == ("judge", "checked", "command[0]")
    assert list(taken.findings) == [finding.id for finding in played.reports[0].findings]
    assert [ran.exit_code for ran in taken.commands] == [1]


def test_what_was_there_does_not_block_even_where_every_warning_does(desk: Desk) -> None:
    desk.write("a.txt", "bad old\n")
    machine = MACHINE.replace("RULE", json.dumps(LINTED)).replace("REVISIONS", "1")
    machine = machine.replace("validate: plan", "validate: plan\n    block: warning")
    played = desk.play(machine, scenario(agents={"author": ["done"]}))
    assert found(played) == [("a.txt:1:1: bad old (was there before)", False)]


def test_what_was_there_does_not_block_behind_a_judge_of_the_same_validator(desk: Desk) -> None:
    """S1.38: a baseline is found again whatever else stands in its validator."""
    desk.write("a.txt", "bad old\n")
    rules = [{"judge": "critic"}, LINTED]
    machine = MACHINE.replace("RULE", json.dumps(rules)).replace("REVISIONS", "0")
    machine = machine.replace("{author:", "{critic: {model: some/model}, author:")
    agents = {"author": ["done"], "critic": [{"data": {"verdict": "pass", "findings": []}}]}
    played = desk.play(machine, scenario(agents=agents))
    assert found(played) == [("a.txt:1:1: bad old (was there before)", False)]
    assert played.outcome == "accepted"


def test_a_resumed_run_has_the_baseline_that_it_began_with(desk: Desk) -> None:
    """S1.38: after an abort in the first call it is not run again, whatever the files say now."""
    desk.in_memory = False
    desk.write("a.txt", "bad old\n")
    machine = MACHINE.replace("RULE", json.dumps(LINTED)).replace("REVISIONS", "0")
    machine = machine.replace("command: [none]", "command: [none], on_in_doubt: retry")
    aborted = desk.abort(machine, scenario(agents={"author": [wrote(a__txt="bad new\n")]}))
    desk.write("a.txt", "bad new\n")
    played = desk.resume(aborted.state.run)
    assert played.outcome == "refused"
    assert len(played.of(Baselined)) == 1
    assert (desk.folder / "runs").read_text(encoding="utf-8") == "xx"


def test_a_baseline_that_cannot_be_had_stops_the_run_before_anything_is_spent(desk: Desk) -> None:
    """S1.38, S1.39: mended and resumed, the run goes on; nothing passes without a baseline."""
    desk.in_memory = False
    tool = desk.folder / "lint"
    rule = {"command": [str(tool)], "parse": "lines", "baseline": True}
    stopped = ruled(desk, rule, "done")
    assert stopped.state.status == "suspended"
    assert stopped.state.suspended is not None
    assert "no baseline for validator `checked`" in stopped.state.suspended.message
    assert [event.type for event in stopped.events if event.type != "claimed"] == [
        "started",
        "suspended",
    ]
    tool.write_text("#!/bin/sh\necho 'a.txt:1: bad'\n", encoding="utf-8")
    tool.chmod(0o755)
    played = desk.resume(stopped.state.run)
    assert played.outcome == "accepted"
    assert [len(event.findings) for event in played.of(Baselined)] == [1]


def test_a_baseline_that_was_taken_is_kept_when_another_could_not_be(desk: Desk) -> None:
    desk.in_memory = False
    desk.write("a.txt", "fine\n")
    tool = desk.folder / "lint"
    later = {"command": [str(tool)], "parse": "lines", "baseline": True}
    machine = MACHINE.replace("RULE", json.dumps([LINTED, later])).replace("REVISIONS", "0")
    stopped = desk.play(machine, scenario(agents={"author": ["done"]}))
    assert stopped.state.status == "suspended"
    tool.write_text("#!/bin/sh\n", encoding="utf-8")
    tool.chmod(0o755)
    played = desk.resume(stopped.state.run)
    assert played.outcome == "accepted"
    assert [event.rule for event in played.of(Baselined)] == ["command[0]", "command[1]"]
    assert (desk.folder / "runs").read_text(encoding="utf-8") == "xx"


def test_a_guard_that_the_input_leaves_open_takes_a_baseline(desk: Desk) -> None:
    desk.write("a.txt", "bad old\n")
    played = ruled(desk, {**LINTED, "guard": "attempt < 2"}, "done")
    assert played.outcome == "accepted"
    assert len(played.of(Baselined)) == 1


def test_the_time_that_a_baseline_takes_counts(desk: Desk) -> None:
    desk.write("a.txt", "fine\n")
    code = f"import pathlib, time; pathlib.Path('runs').exists() or time.sleep(0.5)\n{LINT}"
    played = ruled(desk, {**LINTED, "command": python(code)}, "done")
    assert played.of(Baselined)[0].time_s > 0.5
    assert played.state.usage.time_s > 0.5


def test_a_rule_that_the_input_rules_out_takes_no_baseline(desk: Desk) -> None:
    rule = {**LINTED, "command": ["no-such-linter"], "guard": 'input.path == "x"'}
    played = ruled(desk, rule, "done")
    assert played.outcome == "accepted"
    assert not played.of(Baselined)


def test_the_first_result_that_a_scenario_plays_is_the_baseline(desk: Desk) -> None:
    old, new = "a.txt:1: old\n", "a.txt:2: new\n"
    results = [
        {"exit_code": 1, "stdout": old},
        {"exit_code": 1, "stdout": old + new},
        {"exit_code": 1, "stdout": old},
    ]
    rule = {**LINTED, "command": ["none"]}
    played = ruled(desk, rule, "one", "two", commands={"checked": results})
    assert [report.verdict for report in played.reports] == ["fail", "warn"]


def test_what_is_new_among_very_many_old_ones_is_found(desk: Desk) -> None:
    """S1.38: not all are named, but all are compared."""
    old = [f"bad {number}" for number in range(300)]
    desk.write("a.txt", "\n".join(old))
    played = ruled(desk, LINTED, wrote(a__txt="\n".join([*old, "bad new"])), revisions=0)
    assert played.outcome == "refused"
    assert found(played)[0] == ("a.txt:301:1: bad new", True)
    assert found(played)[-1] == ("251 more findings are not named here", False)


def test_the_baseline_is_told_in_the_log_of_a_run(desk: Desk) -> None:
    desk.write("a.txt", "bad old\n")
    played = ruled(desk, LINTED, "done")
    told, steps = [], Steps()
    for stored in played.stored:
        told += [line.text for line in lines(steps, stored)]
        steps.take(stored)
    said = "judge before the first work, `checked` finds 1 finding that will not block"
    assert " ".join(told[1].split()) == said


@dataclass
class Interrupted(QuickClock):
    """A clock at whose first pause the run is asked to stop."""

    active: ActiveRun | None = None

    async def sleep(self, seconds: float) -> None:
        assert self.active is not None
        self.active.stop()
        await super().sleep(seconds)


def test_a_run_that_is_stopped_between_two_tries_of_its_baseline_goes_on_later(
    desk: Desk,
) -> None:
    """Nothing is recorded of a baseline that is not complete; the resumed run takes it."""
    desk.in_memory = False
    rule = {
        "command": python(BUSY.replace("NEEDED", "2")),
        "baseline": True,
        "retry": {"attempts": 3},
        "errors": [{"exit": 75, "class": "transient"}],
    }
    machine = MACHINE.replace("RULE", json.dumps(rule)).replace("REVISIONS", "0")
    loaded = load(desk.write("machine.yaml", machine))
    script = desk.script(scenario(agents={"author": ["done"]}))
    clock = Interrupted()

    async def drive() -> RunState:
        async with App.open(desk.state_folder, clock=clock) as app:
            clock.active = await app.start(loaded, {"path": "."}, script)
            return await app.drive(clock.active)

    stopped = asyncio.run(drive())
    assert stopped.suspended is not None
    assert (stopped.suspended.reason, stopped.suspended.state) == ("interrupted", "draft")
    assert not stopped.baselines
    played = desk.resume(stopped.run)
    assert played.outcome == "accepted"
    assert len(played.of(Baselined)) == 1


def test_a_run_that_is_stopped_after_one_of_its_baselines_takes_the_others_later(
    desk: Desk,
) -> None:
    desk.in_memory = False
    rule = {"command": python("pass"), "baseline": True}
    machine = MACHINE.replace("RULE", json.dumps([rule, rule]))
    loaded = load(desk.write("machine.yaml", machine.replace("REVISIONS", "0")))
    script = desk.script(scenario(agents={"author": ["done"]}))

    async def drive() -> RunState:
        started: list[ActiveRun] = []

        def stop_after_the_first(stored: Stored) -> None:
            if isinstance(stored.event, Baselined):
                started[0].stop()

        async with App.open(desk.state_folder, listeners=[stop_after_the_first]) as app:
            started.append(await app.start(loaded, {"path": "."}, script))
            return await app.drive(started[0])

    stopped = asyncio.run(drive())
    assert [len(taken) for taken in stopped.baselines.values()] == [1]
    played = desk.resume(stopped.run)
    assert played.outcome == "accepted"
    assert len(played.of(Baselined)) == 2


def test_a_validator_by_itself_has_no_baseline(desk: Desk) -> None:
    """`loopkit validate`: there is no first work, so that everything counts."""
    desk.write("a.txt", "bad old\n")
    machine = MACHINE.replace("RULE", json.dumps(LINTED)).replace("REVISIONS", "0")
    desk.write("plan.md", "x")
    desk.write("m.yaml", machine)
    ended = ran_loopkit("validate", "m.yaml", "checked", "plan.md", cwd=desk.folder)
    assert ended.returncode == 1, ended.stderr
    assert "a.txt:1:1: bad old" in ended.stdout + ended.stderr
    assert "was there before" not in ended.stdout
