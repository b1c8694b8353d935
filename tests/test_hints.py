"""Hints of a run that stopped: each is a line to paste, and none leads back to the same end."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path

import pytest

from loopkit.agents.model.pricing import near_model
from loopkit.cli import invoke as run
from loopkit.cli.terminal import wrap
from loopkit.drive.limits import LimitReached
from loopkit.engine.records import RefusedCall, Usage
from tests.support import CommandLine
from tests.test_cli import only_run

pytestmark = pytest.mark.usefixtures("own_folder")
LINE = re.compile(r"loopkit resume .*")
MACHINE = """
loopkit: 1
LIMITS
agents:
  writer: {model: openai/gpt-5-mni, price: 1, params: {max_tokens: 100}, retry: {attempts: 1}}
validators: {runs: {command: [check-it]}}
states:
  draft: {agent: writer, prompt: Write., output: plan, next: judge}
  judge:
    validate: plan
    by: [runs, {min_chars: 9}]
    transitions: [{guard: valid, target: done}, {revise: draft}, {target: failed}]
  done: {final: success, result: plan}
  failed: {final: failure}
"""


def stopped(
    cli: CommandLine, *, limits: str = "", writer: str, check: str = "[]", code: int
) -> list[str]:
    """The lines that a run which stops tells at its end, and `runs show` as well."""
    Path("plan.yaml").write_text(MACHINE.replace("LIMITS", limits), encoding="utf-8")
    script = f"scenario: 1\nagents: {{writer: {writer}}}\ncommands: {{runs: {check}}}\n"
    Path("script.yaml").write_text(script, encoding="utf-8")
    told = cli(code, "run", "plan.yaml", "--script", "script.yaml").err
    name = only_run()
    lines = [line for line in told.splitlines() if f"loopkit resume {name}" in line]
    shown = cli(0, "runs", "show", name).out.splitlines()
    assert [line for line in shown if "loopkit resume" in line] == lines
    return lines


def pasted(line: str) -> int:
    """The exit code of the command that stands in a line."""
    found = LINE.search(line)
    return run(shlex.split(found[0])[1:])


def test_a_model_that_nobody_sells_is_told_with_the_one_that_is_meant(cli: CommandLine) -> None:
    fault = "[[{fault: bad_request, message: no such model}, long enough]]"
    meant, again, mended = stopped(cli, writer=fault, check="[{exit_code: 0}]", code=4)
    name = only_run()
    line = f"loopkit resume {name} --model writer=openai/gpt-5-mini"
    assert meant == f"if you meant `openai/gpt-5-mini`: {line}"
    # Too long for a terminal: the command has a line for itself, which is never broken.
    for width in (40, 80):
        assert wrap(meant, width) == f"if you meant `openai/gpt-5-mini`:\n  {line}"
    assert again == f"once the cause is fixed: loopkit resume {name}"
    assert mended == f"after correcting `plan.yaml`: loopkit resume {name} --machine plan.yaml"
    assert pasted(meant) == 0


PAID = """[
  {reply: short, cost_usd: 0.003, usage: {total: 30}},
  {reply: long enough, cost_usd: 0.003, usage: {total: 30}}
]"""


@pytest.mark.parametrize(
    ("limits", "line"),
    [
        ("limits: {agent_calls: 1}", "--set limits.agent_calls=2"),
        ("limits: {agent_calls: 0}", "--set limits.agent_calls=1"),
        ("limits: {tokens: 10}", "--set limits.tokens="),
        ("limits: {cost_usd: 0.0001}", "--max-cost 0."),
    ],
)
def test_a_limit_is_told_with_one_in_which_the_next_call_fits(
    limits: str, line: str, cli: CommandLine
) -> None:
    check = "[{exit_code: 0}, {exit_code: 0}]"
    [told] = stopped(cli, limits=limits, writer=PAID, check=check, code=3)
    assert told.startswith("raise it: loopkit resume plan-")
    assert line in told
    # Where the limit was very low, it is reached once more, but further on.
    events = 0
    while (code := pasted(told)) == 3:
        err = cli.said().err
        [told] = [text for text in err.splitlines() if "loopkit resume" in text]
        events += 1
        assert events < 5
    assert code == 0


def test_a_very_low_limit_is_told_as_it_is() -> None:
    assert str(LimitReached("cost_usd", 0.00001, 0.0, 0.001)) == (
        "the limit `cost_usd` leaves no room: $0.0000 of $0.000010 used, "
        "and the next call can take up to $0.0010"
    )


def test_a_limit_of_time_is_written_as_a_duration() -> None:
    assert LimitReached("time", 60.0, 61.5).remedy("a-1") == (
        "raise it: loopkit resume a-1 --set limits.time=120s"
    )


def test_an_unknown_price_is_no_matter_of_the_limit() -> None:
    reached = LimitReached("cost_usd", 1.0, 0.1, None)
    reached.call = RefusedCall(agent="writer", place="draft", task="", reserved=Usage())
    assert reached.remedy("a-1").endswith("loopkit resume a-1 --price writer=USD")


def test_an_exit_code_that_is_missing_is_told_with_the_file_to_mend(cli: CommandLine) -> None:
    again, mended = stopped(
        cli, writer="[long enough]", check="[{exit_code: 5}, {exit_code: 5}]", code=4
    )
    assert again.startswith("once the cause is fixed: ")
    text = Path("plan.yaml").read_text(encoding="utf-8")
    text = text.replace("[check-it]}", "[check-it], fail_codes: [1, 5]}")
    Path("plan.yaml").write_text(text.replace(", {revise: draft}", ""), encoding="utf-8")
    assert pasted(mended) == 1


TEMPLATE = """
loopkit: 1
agents: {writer: {command: [none]}}
states:
  draft: {agent: writer, prompt: Write., output: plan, next: judge, on_error: {content: failed}}
  judge: {render: "{{ plan[0:'x'] }}", next: done}
  done: {final: success}
  failed: {final: failure}
"""


def test_where_only_another_machine_helps_no_other_line_is_told(cli: CommandLine) -> None:
    machine = TEMPLATE.replace("plan[0:'x']", "(plan | length) // (plan | length - 4)")
    Path("plan.yaml").write_text(machine, encoding="utf-8")
    Path("s.yaml").write_text("scenario: 1\nagents: {writer: [four]}\n", encoding="utf-8")
    told = cli(4, "run", "plan.yaml", "--script", "s.yaml").err
    name = only_run()
    lines = [line for line in told.splitlines() if "loopkit" in line]
    assert lines == [f"after correcting `plan.yaml`: loopkit resume {name} --machine plan.yaml"]
    assert "correct the machine" in told
    Path("plan.yaml").write_text(machine.replace("- 4", "- 5"), encoding="utf-8")
    assert pasted(lines[0]) == 0


def test_an_interrupted_run_just_goes_on(cli: CommandLine) -> None:
    [told] = stopped(
        cli, writer="[[{fault: connection}, long enough]]", check="[{exit_code: 0}]", code=4
    )
    assert told == f"resume with: loopkit resume {only_run()}"
    assert pasted(told) == 0


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("openai/gpt-5-mni", "openai/gpt-5-mini"),
        ("anthropic/claude-sonet-4-5", "anthropic/claude-sonnet-4-5"),
        ("opnai/gpt-5-mini", "openai/gpt-5-mini"),
        ("openai/gpt-5-mini", None),
        ("gpt-5-mni", None),
        ("openai/zzzzzzzz", None),
        # What a provider of one's own sells is in no list: that the prefix is alike says nothing.
        ("openai/llama3", None),
        ("openai/mistral-small", None),
        ("azure/my-deployment", None),
        ("ollama/foo", None),
        ("", None),
    ],
)
def test_the_model_that_was_meant_is_one_of_the_same_provider(
    written: str, meant: str | None
) -> None:
    assert near_model(written) == meant


def test_a_provider_that_asks_for_a_long_wait_is_not_asked_before_it_is_over(
    cli: CommandLine,
) -> None:
    fault = "[[{fault: rate_limit, retry_after: 1h}, long enough]]"
    before = time.time()
    [told] = stopped(cli, writer=fault, check="[{exit_code: 0}]", code=4)
    found = re.fullmatch(r"resume after (\S+ \S+ \S+): (loopkit resume \S+)", told)
    moment = time.mktime(time.strptime(found[1], "%Y-%m-%d %H:%M:%S %Z"))
    assert before + 3599 <= moment <= time.time() + 3601
    assert pasted(told) == 0


def test_a_wait_that_is_over_is_not_asked_for(cli: CommandLine) -> None:
    fault = "[[{fault: rate_limit, retry_after: 2s}, long enough]]"
    stopped(cli, writer=fault, check="[{exit_code: 0}]", code=4)
    time.sleep(2)
    told = cli(0, "runs", "show", only_run()).out
    assert f"\nresume with: loopkit resume {only_run()}\n" in told
    assert "resume after" not in told


def test_only_a_limit_can_be_set_and_the_line_to_do_so_is_told(cli: CommandLine) -> None:
    stopped(cli, limits="limits: {agent_calls: 1}", writer=PAID, check="[{exit_code: 0}]", code=3)
    told = cli(2, "resume", only_run(), "--set", "agent_calls=9").err
    assert "write `--set limits.agent_calls=9`" in told


def test_the_machine_is_named_wherever_in_the_project_somebody_looks(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Path.cwd()
    stopped(cli, writer="[{fault: authentication}]", code=4)
    name = only_run()
    Path("below").mkdir()
    monkeypatch.chdir(project / "below")
    assert run(["runs", "show", name]) == 0
    line = f"loopkit resume {name} --machine {project / 'plan.yaml'}"
    assert line in cli.said().out


def test_after_a_crash_in_a_scenario_the_run_can_be_resumed(cli: CommandLine) -> None:
    machine = MACHINE.replace("LIMITS", "").replace("attempts: 1}", "attempts: 2}")
    machine = machine.replace("price: 1,", "price: 1, on_in_doubt: retry,")
    Path("plan.yaml").write_text(machine, encoding="utf-8")
    calls = (
        "agents: {writer: [[{fault: crash}, Long enough.]]}\ncommands: {runs: [{exit_code: 0}]}\n"
    )
    Path("script.yaml").write_text(f"scenario: 1\n{calls}", encoding="utf-8")
    told = cli(4, "run", "plan.yaml", "--script", "script.yaml").err
    assert "the call is in doubt now, and the run can be resumed" in told
    assert "Traceback" not in told
    assert run(["resume", only_run()]) == 0


def test_after_a_conflict_the_line_to_paste_resumes_the_run_as_it_is(cli: CommandLine) -> None:
    Path("ws").mkdir()
    both = f"echo run >f; echo somebody >{Path.cwd()}/ws/f"
    Path("plan.yaml").write_text(
        "loopkit: 1\nworkspace: {path: ws, create: true, isolate: copy}\n"
        f"states:\n  mend: {{run: [sh, -c, {both}], next: done}}\n  done: {{final: success}}\n"
    )
    told = cli(4, "run", "plan.yaml").err
    name = only_run()
    assert "correcting" not in told
    assert told.splitlines()[-1] == f"then: loopkit resume {name}"
    assert cli(0, "runs", "show", name).out.count("loopkit resume") == 1
    Path("ws/f").write_text("run\n")
    assert pasted(told.splitlines()[-1]) == 0
