"""`python`: plug-ins judge in processes of their own, and whatever goes wrong is no verdict."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from loopkit.engine.findings import Answer
from loopkit.language.facts import Severities
from loopkit.language.load import load
from loopkit.language.validators import PythonRule
from loopkit.outside.redaction import redactor
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.proof.outcomes.facts import faults_of
from loopkit.testing import load_suite, run_case
from loopkit.validators.data import JudgedArtifact
from loopkit.validators.setting import Setting
from tests.judging import judge_by, judge_deterministic, told_in
from tests.support import Desk, scenario
from tests.waiting import is_alive, until

MACHINE = """
loopkit: 1
input: {most: {type: int, default: 2}}
limits: {revisions: 2}
agents: {author: {command: [none], schema: {items: [str]}}}
validators: {short: [{python: "rules:check", with: {unit: items}}]}
states:
  draft: {agent: author, prompt: Write., output: plan, next: judge}
  judge:
    validate: plan
    by: [short]
    transitions: [{guard: valid, target: done}, {revise: draft}, {target: failed}]
  done: {final: success, result: plan}
  failed: {final: failure, result: plan}
"""
RULES = """
from loopkit.plugins import Context, Finding

def check(plan, context: Context):
    if len(plan["items"]) > context.input["most"]:
        said = f"{len(plan['items'])} {context.arguments['unit']} in attempt {context.attempt}"
        yield Finding(said, code="LONG", location="items")
"""
LONG, SHORT = {"data": {"items": ["a", "b", "c"]}}, {"data": {"items": ["a"]}}


async def judge(
    folder: Path,
    body: str,
    value: object = "A plan.\r\n",
    setting: dict[str, Any] | None = None,
    **keys: Any,
) -> Answer:
    """The answer of a plug-in whose function has this body."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    (folder / "rules.py").write_text(f"import os, sys, time\n\ndef check(value, context):\n{lines}")
    rule = PythonRule.model_validate(
        {"python": "rules:check", "folder": str(folder), "timeout": "200s", **keys}
    )
    names = {"input": {"n": 1}, "attempt": 2}
    around = Setting(names=names, facts={}, patterns={}, folder=folder, **(setting or {}))
    is_data = not isinstance(value, str)
    subject = JudgedArtifact(
        "plan", "" if is_data else str(value), value if is_data else None, is_data
    )
    return await judge_deterministic("rules", [rule], subject, around)


async def reason(folder: Path, body: str, **keys: Any) -> str:
    """Why a plug-in gave no verdict."""
    answer = await judge(folder, body, **keys)
    assert answer.verdict == "error"
    assert answer.findings == ()
    return answer.reason


async def test_a_plug_in_that_finds_nothing_passes(tmp_path: Path) -> None:
    assert (await judge(tmp_path, "return []")).verdict == "pass"
    assert (await judge(tmp_path, "yield from ()")).verdict == "pass"


async def test_findings_are_texts_mappings_or_of_the_class(tmp_path: Path) -> None:
    body = """
from loopkit.plugins import Finding
return ["Too short.", {"message": "No goal.", "severity": "warning", "line": 3, "code": None},
        Finding("No end.", code="END", location="nodes[1]")]
"""
    answer = await judge(tmp_path, body)
    assert answer.verdict == "fail"
    assert [(f.message, f.severity, f.line, f.code, f.location) for f in answer.findings] == [
        ("Too short.", "error", None, "", ""),
        ("No goal.", "warning", 3, "", ""),
        ("No end.", "error", None, "END", "nodes[1]"),
    ]


async def test_a_plug_in_gets_text_or_data_and_what_surrounds_it(tmp_path: Path) -> None:
    body = "c = context\nreturn [repr([value, c.artifact, c.attempt, c.input, c.arguments])]"
    answer = await judge(tmp_path, body, **{"with": {"most": 3}})
    assert answer.findings[0].message == r"['A plan.\n', 'plan', 2, {'n': 1}, {'most': 3}]"
    answer = await judge(tmp_path, "return [repr(value)]", {"a": [1, None, "ä"]})
    assert answer.findings[0].message == "{'a': [1, None, 'ä']}"


async def test_a_rule_says_how_bad_findings_are_at_most(tmp_path: Path) -> None:
    levels = {"severities": Severities(("critical", "high", "low"), "high")}
    body = "return [{'message': s or 'none', 'severity': s} for s in ('critical', 'low', '')]"
    answer = await judge(tmp_path, body, setting=levels, severity="high")
    assert [f.severity for f in answer.findings] == ["high", "low", "high"]
    assert "severity 'error'; there are critical, high, low" in await reason(
        tmp_path, "return [{'message': 'x', 'severity': 'error'}]", setting=levels
    )


async def test_a_message_of_the_rule_stands_for_those_of_the_plug_in(tmp_path: Path) -> None:
    answer = await judge(tmp_path, "return ['this']", message="Not {{ value }}.")
    assert answer.findings[0].message == "Not this."


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("raise KeyError('goal')", "KeyError: 'goal' (rules.py:4)"),
        ("raise ExceptionGroup('many', [ValueError(1)])", "many (1 sub-exception)"),
        ("return 1 / 0", "ZeroDivisionError"),
        ("sys.exit(0)", "SystemExit: 0"),
        ("os._exit(0)", "ended with exit code 0 and gave no answer"),
        ("os.kill(os.getpid(), 9)", "ended with signal 9 and gave no answer"),
        ("os.closerange(3, 99)\nreturn []", "gave no answer"),
        ("return", "it returned None, and no list of findings"),
        ("return float('nan')", "it returned float nan, and no list"),
        ("return True", "it returned bool True"),
        ("return 'all fine'", "it returned str 'all fine'"),
        ("return {'message': 'x'}", "it returned dict"),
        ("return [float('nan')]", "finding 1 is float nan"),
        ("return ['x', None]", "finding 2 is None"),
        ("return ['x', ' \\x07 ']", "finding 2 has no message"),
        ("return [{'text': 'x'}]", "unknown key 'text'"),
        ("return [{'message': ['x']}]", "`message` of finding 1 is list ['x']"),
        ("return [{'message': 'x', 'line': float('nan')}]", "`line` of finding 1 is float nan"),
        ("return [{'message': 'x', 'line': True}]", "`line` of finding 1 is bool True"),
        ("yield 'x'\nraise ValueError('late')", "ValueError: late"),
        ("class Odd:\n  def __repr__(self): raise ValueError('odd')\nreturn Odd()", "odd"),
        ("import no_such_module", "No module named 'no_such_module' (rules.py:4)"),
        ("async def later(): return []\nreturn later()", "it returned coroutine"),
        ("return input()", "EOFError"),
    ],
)
async def test_what_is_no_list_of_findings_is_no_verdict(
    tmp_path: Path, body: str, why: str
) -> None:
    told = await reason(tmp_path, body)
    assert told.startswith("the plug-in `rules:check` failed: ")
    assert why in told


async def test_a_module_that_cannot_be_read_is_no_verdict(tmp_path: Path) -> None:
    assert "SyntaxError: " in await reason(tmp_path, "return [")
    assert "no attribute 'chek'" in await reason(tmp_path, "return []", python="rules:chek")
    assert "it is not a function, but module" in await reason(tmp_path, "pass", python="rules:os")
    offered = await reason(tmp_path, "return []", python="nobody_offers_this")
    assert "no installed package offers it" in offered


async def test_what_is_printed_is_no_verdict_and_told_where_something_fails(tmp_path: Path) -> None:
    forged = "print('{\"findings\": []}', flush=True)\n"
    assert (await judge(tmp_path, f"{forged}return ['x']")).verdict == "fail"
    assert '{"findings": []}' in await reason(tmp_path, f"{forged}raise ValueError('x')")
    assert (await judge(tmp_path, "sys.stdout.close()\nos.close(1)\nreturn ['x']")).findings
    assert "gave no answer" in await reason(tmp_path, f"{forged}os._exit(0)")


async def test_a_plug_in_that_takes_too_long_is_ended_and_may_be_tried_again(
    tmp_path: Path,
) -> None:
    body = "print('here', flush=True)\nwhile True: pass"
    for limit_s in (1, 20, 200):  # a busy machine takes its time to come there
        answer = await judge(tmp_path, body, timeout=f"{limit_s}s")
        assert (answer.verdict, answer.error_class) == ("error", "transient")
        assert f"took longer than {limit_s} s" in answer.reason
        if "here" in answer.reason:
            return
    raise AssertionError(answer.reason)


@pytest.mark.parametrize("end", ["return []", "os._exit(1)", "time.sleep(600)"])
async def test_children_that_a_plug_in_leaves_behind_are_ended(tmp_path: Path, end: str) -> None:
    body = f"""
import signal
for _ in range(5):
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with open("children", "a") as file:
            file.write(f"{{os.getpid()}}\\n")
        time.sleep(600)
while not os.path.exists("children") or open("children").read().count("\\n") < 5: pass
{end}
"""
    children: list[int] = []
    for limit in ("1s", "10s", "100s"):  # a busy machine takes its time to start them
        await judge(tmp_path, body, timeout=limit)
        with suppress(FileNotFoundError):
            children = [int(line) for line in (tmp_path / "children").read_text().split()]
        if len(children) >= 5:
            break
    assert len(children) >= 5
    until(lambda: not any(map(is_alive, children)), "the end of the children")


async def test_a_thread_that_a_plug_in_leaves_behind_is_not_waited_for(tmp_path: Path) -> None:
    started = time.monotonic()
    body = "import threading\nthreading.Thread(target=time.sleep, args=(600,)).start()\nreturn []"
    assert (await judge(tmp_path, body)).verdict == "pass"
    assert time.monotonic() - started < 60


async def test_findings_and_output_without_end_are_cut(tmp_path: Path) -> None:
    answer = await judge(tmp_path, "while True: yield 'x' * 1_000_000 + str(time.time())")
    assert len(answer.findings) == 50
    assert all(len(finding.message) == 2_000 for finding in answer.findings)
    assert (
        await judge(tmp_path, "for _ in range(3000): print('x' * 10_000)\nreturn []")
    ).verdict == "pass"
    told = await reason(
        tmp_path, "for _ in range(3000): print('x' * 10_000)\nraise ValueError('y' * 9_999)"
    )
    assert len(told) < 3_000


async def test_control_characters_and_halves_of_characters_are_left_out(tmp_path: Path) -> None:
    answer = await judge(
        tmp_path, r"return [{'message': '\x1b[31mred\x00\ud800', 'location': 'a\nb'}]"
    )
    assert (answer.findings[0].message, answer.findings[0].location) == ("red?", "a b")
    assert "\x1b" not in await reason(tmp_path, r"raise ValueError('\x1b[31mred')")


async def test_a_plug_in_gets_no_secrets_but_those_that_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "hush-hush-hush")
    monkeypatch.setenv("WANTED", "wanted")
    body = "raise ValueError(str(dict(os.environ)))"
    told = await reason(tmp_path, "raise ValueError(os.environ.get('SOME_API_KEY', 'none'))")
    assert "ValueError: none" in told
    assert "hush" not in await reason(tmp_path, body)
    assert "wanted" in await reason(
        tmp_path, "raise ValueError(os.environ['WANTED'])", env=["WANTED"]
    )


async def test_a_secret_that_a_plug_in_was_given_is_taken_out_of_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", 'hush"hush/hush')
    redact = {"redact": redactor(os.environ)}
    key = "key = os.environ['SOME_API_KEY']\n"
    given = {"env": ["SOME_API_KEY"], "setting": redact}
    for failing in (
        "raise ValueError(key)",
        "print(key, flush=True)\nos._exit(1)",
        "return [{key: 1}]",
    ):
        told = await reason(tmp_path, key + failing, **given)
        assert "[SOME_API_KEY]" in told
        assert "hush" not in told
    said = "return [{'message': key, 'code': key, 'location': key}]"
    (found,) = (await judge(tmp_path, key + said, **given)).findings
    assert {found.message, found.code, found.location} == {"[SOME_API_KEY]"}


async def test_a_file_in_the_working_folder_is_no_module_of_the_worker(tmp_path: Path) -> None:
    """An agent may write there, and must not come to run as a part of the judge."""
    work = tmp_path / "work"
    work.mkdir()
    for name in ("json.py", "rules.py", "loopkit.py"):
        (work / name).write_text("raise AssertionError('taken from the working folder')\n")
    (tmp_path / "rules.py").write_text("import os\ndef check(v, c): return [os.getcwd()]\n")
    rule = PythonRule.model_validate({"python": "rules:check", "folder": str(tmp_path)})
    setting = Setting(names={}, facts={}, patterns={}, folder=work)
    answer = await judge_deterministic("rules", [rule], JudgedArtifact("plan", "x"), setting)
    assert [finding.message for finding in answer.findings] == [str(work)]


async def test_sets_have_one_order_in_every_process(tmp_path: Path) -> None:
    body = "yield ' '.join({chr(97 + n) * 9 for n in range(20)})"
    first, second = [await judge(tmp_path, body) for _ in range(2)]
    assert first == second


async def test_no_bytecode_is_left_beside_the_machine_and_nothing_loaded_that_is_not_needed(
    tmp_path: Path,
) -> None:
    slow = ("litellm", "pydantic", "statemachine", "asyncio", "importlib.metadata")
    body = f"return [name for name in {slow} if name in sys.modules]"
    assert (await judge(tmp_path, body)).findings == ()
    assert not (tmp_path / "__pycache__").exists()


async def test_an_installed_package_offers_a_plug_in_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "teapot.py").write_text("def check(value, context): return [value]\n")
    about = tmp_path / "teapot-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: teapot\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[loopkit.validators]\ntea-time = teapot:check\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    rule = PythonRule.model_validate({"python": "tea-time"})
    assert told_in(await judge_by(rule, "Tea.")) == ["Tea."]
    desk = Desk(tmp_path)
    assert desk.problems(MACHINE.replace('"rules:check"', "tea-time")) == []
    (problem,) = desk.problems(MACHINE.replace('"rules:check"', "tea-tim"))
    assert (problem.code, problem.help) == ("unknown-plugin", "did you mean `tea-time`?")


def test_a_plug_in_judges_beside_the_machine_wherever_the_run_is_started(desk: Desk) -> None:
    desk.write("machines/rules.py", RULES)
    path = desk.write("machines/machine.yaml", MACHINE)
    played = desk.play(path, scenario(agents={"author": [LONG, SHORT]}))
    assert played.outcome == "done"
    (found,) = played.reports[0].findings
    assert (found.message, found.code) == ("3 items in attempt 1", "LONG")
    assert "3 items in attempt 1" in played.prompts("author")[1]


def test_a_rule_may_name_another_folder(desk: Desk) -> None:
    desk.write("plug_ins/rules.py", RULES)
    path = desk.write("machines/m.yaml", MACHINE.replace("with:", "folder: ../plug_ins, with:"))
    played = desk.play(path, scenario(agents={"author": [SHORT]}))
    assert played.outcome == "done"


def test_a_broken_plug_in_costs_the_author_nothing(desk: Desk) -> None:
    desk.write("rules.py", "def check(plan, context): return [plan['goal']]\n")
    played = desk.play(MACHINE, scenario(agents={"author": [LONG]}))
    assert played.state.suspended is not None
    assert "KeyError: 'goal' (rules.py:1)" in played.state.suspended.message
    assert played.state.attempts["draft"] == 1


def test_a_timeout_goes_to_the_edge_for_transient_errors(desk: Desk) -> None:
    desk.write("rules.py", "import time\ndef check(plan, context): time.sleep(60)\n")
    machine = MACHINE.replace("with:", "timeout: 500ms, with:")
    machine = machine.replace("by: [short]", "by: [short]\n    on_error: {transient: failed}")
    played = desk.play(machine, scenario(agents={"author": [LONG]}))
    assert played.outcome == "failed"


def test_a_resumed_run_finds_the_plug_in_where_it_was(durable: Desk) -> None:
    durable.write("machines/rules.py", "def check(plan, context): return None\n")
    path = durable.write("machines/machine.yaml", MACHINE)
    broken = durable.play(path, scenario(agents={"author": [SHORT]}))
    assert broken.state.status == "suspended"
    durable.write("machines/rules.py", RULES)
    assert durable.resume(broken.state.run).outcome == "done"


def test_a_case_plays_the_plug_ins_of_its_machine(desk: Desk) -> None:
    """They are rules of the machine, as `schema` is, and no agents or commands."""
    desk.write("rules.py", RULES)
    desk.write("machine.yaml", MACHINE)
    suite = """
scenario: 1
machine: machine.yaml
agents: {author: [{data: {items: [a, b, c]}}, {data: {items: [a]}}]}
cases: {long: {expect: {outcome: done, findings: [{code: LONG}]}}}
"""
    result = run_case(load_suite(desk.write("plan.scenario.yaml", suite)), "long")
    assert result.passed, result.text


def test_check_says_what_cannot_be_there_and_runs_nothing(desk: Desk) -> None:
    desk.write("rules.py", "open('ran', 'w')\ndef check(plan, context)\n")
    (problem,) = desk.problems(MACHINE)
    assert problem.code == "unknown-plugin"
    assert "expected ':'" in problem.message
    desk.write("rules.py", "from loopkit.plugins import *\n")
    assert desk.problems(MACHINE) == []
    assert not (desk.folder / "ran").exists()


def test_a_plug_in_may_only_warn_and_a_transition_may_ask_for_that(desk: Desk) -> None:
    """So `check` knows that a rule without a severity can leave warnings alone."""
    desk.write(
        "rules.py", "def check(v, c): return [{'message': 'Dull.', 'severity': 'warning'}]\n"
    )
    machine = MACHINE.replace(
        "[{guard: valid", "[{guard: 'verdict == \"warn\"', target: failed}, {guard: valid"
    )
    assert [p.code for p in desk.problems(machine)] == []
    played = desk.play(machine, scenario(agents={"author": [SHORT]}))
    assert (played.outcome, played.reports[0].verdict) == ("failed", "warn")
    assert "dead-transition" in {
        p.code
        for p in desk.problems(
            machine.replace('{python: "rules:check", with: {unit: items}}', "{max_chars: 9}")
        )
    }


def test_a_validator_may_have_played_commands_beside_a_plug_in(desk: Desk) -> None:
    desk.write("rules.py", RULES)
    machine = MACHINE.replace(
        "validators: {short: [", "validators: {short: [{command: [nothing]}, "
    )
    script = scenario(agents={"author": [LONG, SHORT]}, commands={"short": [{}, {}]})
    played = desk.play(machine, script)
    assert [f.code for f in played.reports[0].findings] == ["LONG"]
    assert played.outcome == "done"


def test_check_and_plan_reckon_with_a_plug_in_that_takes_too_long(desk: Desk) -> None:
    desk.write("rules.py", RULES)
    analysis = Analysis.of_machine(load(desk.write("machine.yaml", MACHINE)).machine)
    assert "transient" in faults_of(analysis, "judge")


async def test_a_finding_says_more_under_fields(tmp_path: Path) -> None:
    body = """\
from loopkit.plugins import Finding
more = {"capabilityId": "mail", "nodes": [1, {"ü": None}], "long": "x" * 3000, "left": "y" * 9000}
return [Finding("a", fields=more), {"message": "b", "fields": {"nodeStage": "draft"}}, "c"]"""
    found = (await judge(tmp_path, body)).findings
    assert {**found[0].item, "long": len(found[0].item["long"])} == {
        "capabilityId": "mail", "nodes": [1, {"ü": None}], "long": 2000, "left": "y" * 1999 + "…",
    }  # fmt: skip
    assert [finding.item for finding in found[1:]] == [{"nodeStage": "draft"}, {}]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ("['x']", "`fields` of finding 1 is list ['x'], and no mapping"),
        ("{'x': object()}", "`fields` of finding 1 is not JSON data"),
        ("{'x': float('nan')}", "`fields` of finding 1 is not JSON data"),
        ("{'x': 'y' * 100_001}", "`fields` of finding 1 is longer than 100,000 characters"),
    ],
)
async def test_fields_that_are_no_data_are_no_verdict(
    tmp_path: Path, fields: str, why: str
) -> None:
    assert why in await reason(tmp_path, f"return [{{'message': 'x', 'fields': {fields}}}]")


async def test_no_secret_is_in_what_a_finding_says_more(tmp_path: Path) -> None:
    setting = {"redact": redactor({"MAIL_TOKEN": "hunter2-hunter2"})}
    body = "return [{'message': 'x', 'fields': {'url': ['https://hunter2-hunter2@x']}}]"
    answer = await judge(tmp_path, body, setting=setting)
    assert answer.findings[0].item == {"url": ["https://[MAIL_TOKEN]@x"]}


SUMMED = """
loopkit: 1
input: {lines: [{amount: num}], totals: {parts: [num]}}
agents:
  w:
    model: openai/gpt-5-mini
    schema: {total: num, lines: [{amount: num, tax: [{rate: num}]}], all: {parts: [num]}}
  free: {model: openai/gpt-5-mini}
states:
  draft: {agent: AGENT, prompt: "Plan {{ input }}.", output: plan, next: review}
  review:
    validate: plan
    by: [{require: "total == sum(PATH)"}]
    transitions: [{guard: valid, target: done}, {revise: draft, max: 3}, {target: failed}]
  done: {final: success, result: plan}
  failed: {final: failure, result: plan}
"""


@pytest.mark.parametrize(
    ("agent", "path", "python"),
    [
        ("w", "lines.amount", '[each["amount"] for each in data["lines"]]'),
        ("w", "lines.tax.rate",
         '[each["rate"] for each in data["lines"] for each in each["tax"]]'),
        ("w", "all.parts", 'data["all"]["parts"]'),
        ("w", "input.lines.amount", '[each["amount"] for each in context.input["lines"]]'),
        ("w", "input.totals.parts", 'context.input["totals"]["parts"]'),
        ("free", "lines.amount", '[each["amount"] for each in data["lines"]]'),
        ("free", "order.lines.amount", '[each["amount"] for each in data["order"]["lines"]]'),
    ],
)  # fmt: skip
def test_a_condition_on_a_sum_gets_the_python_that_computes_it(
    desk: Desk, agent: str, path: str, python: str
) -> None:
    problems = desk.problems(SUMMED.replace("AGENT", agent).replace("PATH", path))
    [told] = [problem.help for problem in problems if problem.code == "guard-syntax"]
    assert f'return [] if data["total"] == sum({python}) else ["…"]' in told
