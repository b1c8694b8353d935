"""`loopkit mcp validators`, spoken with by the client of the `mcp` package, over stdio."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_client import ABOUT, McpServer
from tests.support import CommandLine
from tests.waiting import until
from tests.warm import command

SECRET = "s3cr3t-0f-the-machine"
WORDS = """
loopkit: 1
input:
  known: {type: [str], description: The capabilities that there are.}
  topic: str
  strict: {type: bool, default: false}
agents:
  writer: {command: [cat]}
  planner: {command: [cat], schema: {title: str, nodes: [{id: str, capability: str}]}}
  critic: {command: [echo, '{"verdict": "fail", "findings": [{"message": "Dull.", "severity": "error"}]}']}
validators:
  structure:
    - {section: Goal, code: NO_GOAL}
    - {min_chars: 20, severity: warning}
    - {not_matches: "TBD.*", message: "Line {{ index }}: {{ value }}"}
  graph:
    - {lookup: {path: "nodes[].capability", in: input.known}, code: UNKNOWN_CAPABILITY}
    - {command: [test, "{{ plan.title }}", "=", "{{ input.topic }}"], message: "It is not about {{ input.topic }}."}
    - {require: "nodes.count > 1", guard: input.strict}
  absent: {command: [./not-there]}
  sleepy: {command: [sh, -c, "echo begun >> begun; sleep 600"]}
  reported:
    command: [cat]
    parse: report
    map: {verdict: ok, verdicts: {"true": pass, "false": fail}, findings: diagnostics}
  critical: [{min_chars: 1}, {judge: critic, sees: [input.topic]}]
  compared: {command: [test, "{{ plan }}", "=", "{{ text }}"]}
states:
  write: {agent: writer, prompt: Write., output: text, next: check}
  check:
    validate: text
    by: [structure, absent, sleepy, reported, critical]
    transitions: [{guard: valid, target: plan}, {guard: incomplete, target: failed}, {target: failed}]
  plan: {agent: planner, prompt: "Plan {{ input.topic }} with {{ input.known }}", output: plan, next: judge}
  judge:
    validate: plan
    by: [graph, compared]
    transitions: [{guard: valid, target: done}, {target: failed}]
  done: {final: success}
  failed: {final: failure}
"""  # noqa: E501 - a rule or a transition a line
GOOD = "# Tea\n\n## Goal\n\nA cup of tea for everybody.\n"
PLAN = {"title": "tea", "nodes": [{"id": "a", "capability": "boil"}]}
INPUT = {"known": ["boil", "pour"], "topic": "tea"}


class Served(McpServer):
    """A server of the validators of `words.yaml`."""

    def __init__(self, folder: Path, options: Sequence[str], mode: str) -> None:
        argv = ["validators", "words.yaml", *options]
        super().__init__(folder, argv, mode, env={"SERVICE_API_KEY": SECRET})

    def judged(self, name: str, **arguments: Any) -> dict[str, Any]:
        """The diagnostics of a draft."""
        return self.data(name, arguments)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("served")
    (made / "words.yaml").write_text(WORDS, encoding="utf-8")
    return made


@pytest.fixture(scope="module", params=["auto", "legacy"])
def served(request: pytest.FixtureRequest, folder: Path) -> Iterator[Served]:
    """A server for all tests, spoken with in the newest protocol, and in the one before."""
    server = Served(folder, (), request.param)
    yield server
    assert "Traceback" not in server.close()


def test_each_validator_is_a_tool_unless_it_asks_a_judge_or_needs_a_run(served: Served) -> None:
    tools = served.tools()
    assert list(tools) == ["structure", "graph", "absent", "sleepy", "reported"]
    assert tools["structure"].input_schema["required"] == ["draft"]
    assert tools["structure"].input_schema["properties"]["draft"]["type"] == "string"
    assert "a section `Goal` with text in it" in str(tools["structure"].description)
    assert "the command `./not-there` accepts it" in str(tools["absent"].description)
    hints = [name for name, tool in tools.items() if tool.annotations]
    assert hints == ["structure"]


def test_a_tool_asks_for_the_inputs_that_its_rules_read_and_for_data_by_its_schema(
    served: Served,
) -> None:
    schema = served.tools()["graph"].input_schema
    assert schema["required"] == ["draft", "input"]
    draft, given = schema["properties"]["draft"], schema["properties"]["input"]
    assert draft["required"] == ["title", "nodes"]
    assert list(given["properties"]) == ["known", "topic", "strict"]
    assert given["required"] == ["known", "topic"]
    assert given["properties"]["known"]["description"] == "The capabilities that there are."


def test_a_good_draft_is_ok(served: Served) -> None:
    clean = {"ok": True, "verdict": "pass", "diagnostics": []}
    assert served.judged("structure", draft=GOOD) == clean
    assert served.judged("graph", draft=PLAN, input=INPUT) == clean


def test_a_bad_draft_has_the_findings_that_validate_prints(
    served: Served,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    cli: CommandLine,
) -> None:
    """S3.1: the same code path."""
    monkeypatch.chdir(folder)
    text = "TBD\n"
    (folder / "text.md").write_text(text, encoding="utf-8")
    told = cli(1, "validate", "words.yaml", "structure", "text.md", "--json").out
    findings = json.loads(told)["findings"]
    judged = served.judged("structure", draft=text)
    assert (judged["ok"], judged["verdict"]) == (False, "fail")
    assert [d["message"] for d in judged["diagnostics"]] == [f["message"] for f in findings]
    assert [d.get("code") for d in judged["diagnostics"]] == ["NO_GOAL", None, None]
    assert [d["severity"] for d in judged["diagnostics"]] == ["error", "error", "warning"]
    assert [d.get("line") for d in judged["diagnostics"]] == [None, 1, None]


def test_data_is_judged_as_data(served: Served) -> None:
    other = {"title": "soup", "nodes": [{"id": "a", "capability": "fry"}]}
    lookup, about = served.judged("graph", draft=other, input=INPUT)["diagnostics"]
    assert (lookup["code"], lookup["location"]) == ("UNKNOWN_CAPABILITY", "nodes[0].capability")
    assert about["message"] == "It is not about tea."
    fenced = f"The plan:\n\n```json\n{json.dumps(PLAN)}\n```\n"
    assert served.judged("graph", draft=fenced, input=INPUT)["ok"]
    strict = served.judged("graph", draft=PLAN, input={**INPUT, "strict": True})
    assert len(strict["diagnostics"]) == 1


@pytest.mark.parametrize(
    ("draft", "code", "said"),
    [
        ({"title": "tea"}, "schema", "`nodes` is missing"),
        ("A plan in prose.", "not-json", "the answer is not JSON"),
        ("", "empty", "the answer is empty"),
    ],
)
def test_what_is_no_data_is_a_finding(served: Served, draft: object, code: str, said: str) -> None:
    """S3.13: faults of JSON and of its schema are diagnostics."""
    judged = served.judged("graph", draft=draft, input=INPUT)
    [diagnostic] = judged["diagnostics"]
    assert not judged["ok"]
    assert diagnostic["code"] == code
    assert said in diagnostic["message"]


def test_a_report_of_a_program_keeps_its_further_fields(served: Served) -> None:
    found = {"message": "No.", "severity": "error", "nodeStage": "planning"}
    report = json.dumps({"ok": False, "diagnostics": [found]})
    [diagnostic] = served.judged("reported", draft=report)["diagnostics"]
    assert (diagnostic["message"], diagnostic["nodeStage"]) == ("No.", "planning")


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("structure", {}, "`draft` is missing"),
        ("structure", {"draft": 7}, "`draft` has to be a text"),
        ("structure", {"draft": GOOD, "drft": ""}, "unknown argument `drft`"),
        ("structure", {"draft": GOOD, "input": INPUT}, "unknown argument `input`"),
        ("graph", {"draft": PLAN}, "missing in `input`: `known`, `topic`"),
        ("graph", {"draft": PLAN, "input": "tea"}, "`input` has to be an object"),
        ("graph", {"draft": PLAN, "input": {**INPUT, "topi": 1}}, "did you mean `topic`?"),
        ("graph", {"draft": PLAN, "input": {**INPUT, "topic": 1}}, "input `topic`"),
        ("structre", {"draft": GOOD}, "unknown tool `structre`; did you mean `structure`?"),
        ("critical", {"draft": GOOD}, "unknown tool `critical`"),
    ],
)
def test_a_wrong_call_is_answered_with_the_reason(
    served: Served, name: str, arguments: dict[str, Any], said: str
) -> None:
    assert said in served.refused(name, **arguments)


def test_a_program_that_cannot_start_gives_no_verdict(served: Served) -> None:
    assert "no verdict on the draft" in (told := served.refused("absent", draft=GOOD))
    assert "not-there" in told
    assert served.judged("structure", draft=GOOD)["ok"]


def test_a_draft_of_two_megabytes_is_judged_and_its_diagnostics_are_bounded(
    served: Served,
) -> None:
    text = GOOD + ("TBD" + " and so on" * 100 + "\n") * 1_990
    assert 1_990_000 < len(text) < 2_000_000
    result = served.call("structure", {"draft": text})
    judged = result.structured_content
    assert 10 < len(judged["diagnostics"]) < 20
    assert judged["left_out"] > 0
    assert len(str(result.content)) < 25_000
    told = served.refused("structure", draft=text + "x" * 10_000)
    assert "at most 2,000,000 can be judged" in told


def test_secrets_of_the_server_are_in_no_answer(served: Served) -> None:
    given = json.dumps({"ok": False, "diagnostics": [SECRET]})
    told = served.call("reported", {"draft": given})
    assert SECRET not in str(told)
    assert "[SERVICE_API_KEY]" in str(told)
    assert SECRET not in str(served.call(SECRET, {"draft": GOOD}))
    quoted = served.judged("structure", draft=f"{GOOD}TBD {SECRET}\n")["diagnostics"]
    assert [one["message"] for one in quoted] == ["Line 0: TBD [SERVICE_API_KEY]"]


def test_with_judges_all_are_offered_and_what_the_server_was_given_is_fixed(folder: Path) -> None:
    options = ["--judges", "--set", "topic=tea", "--set-json", 'known=["boil"]']
    server = Served(folder, options, "auto")
    try:
        tools = server.tools()
        assert list(tools["graph"].input_schema["properties"]["input"]["properties"]) == ["strict"]
        assert tools["graph"].input_schema["required"] == ["draft"]
        [dull] = server.judged("critical", draft=GOOD)["diagnostics"]
        assert dull["message"] == "Dull."
        assert server.judged("graph", draft=PLAN)["ok"]
        told = server.refused("graph", draft=PLAN, input={"topic": "soup"})
        assert "unknown input `topic`" in told
    finally:
        errors = server.close()
    assert "`compared` is not offered: it reads `text`, which only a run has" in errors


@pytest.mark.parametrize(("interrupted", "code"), [(False, 0), (True, 130)])
def test_a_client_that_goes_away_and_a_signal_end_the_server_in_the_midst_of_a_call(
    folder: Path, interrupted: bool, code: int
) -> None:
    begun = folder / "begun"
    begun.unlink(missing_ok=True)
    argv = command("-m", "loopkit", "mcp", "validators", "words.yaml")
    pipe = subprocess.PIPE
    process = subprocess.Popen(argv, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe)
    called = {"name": "sleepy", "arguments": {"draft": "TBD"}}
    assert process.stdin is not None
    for message in (
        {"id": 1, "method": "initialize", "params": ABOUT},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": called},
    ):
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        process.stdin.flush()
    until(begun.exists)
    if interrupted:
        process.send_signal(signal.SIGINT)
        process.wait(60)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in out.splitlines())


def test_closed_streams_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "stdin", None)
    assert "standard input or output is closed" in cli(2, "mcp", "validators", "words.yaml").err


WRONG = WORDS.replace("section: Goal", "sectoin: Goal")
BARE = """
loopkit: 1
states:
  write: {render: Tea., output: text, next: done}
  done: {final: success, result: text}
"""


@pytest.mark.parametrize(
    ("machine", "options", "said"),
    [
        (WRONG, [], "sectoin"),
        (BARE, [], "m.yaml has no validator to offer"),
        (WORDS, ["--set", "topc=tea"], "topc"),
        (WORDS, ["-i", "-"], "the client speaks on standard input"),
        (WORDS, ["--set", "topic=@-"], "the client speaks on standard input"),
    ],
)
def test_what_cannot_be_served_is_refused_before_anybody_speaks(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cli: CommandLine,
    machine: str,
    options: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.yaml").write_text(machine, encoding="utf-8")
    told = cli(2, "mcp", "validators", "m.yaml", *options)
    assert said in told.err
    assert told.out == ""
