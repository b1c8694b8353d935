"""What a `command` rule reads out of a program: forms, severities, and what is no report."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from loopkit.engine.findings import Answer
from loopkit.engine.template_values import finding_in_words
from loopkit.language.facts import Severities
from loopkit.language.validators import Rules
from loopkit.language.validators.command import CommandRule
from loopkit.outside.processes import CommandResult
from loopkit.text import end_of
from loopkit.validators.command import MAX_READ, read_findings
from loopkit.validators.data import JudgedArtifact
from loopkit.validators.fault import MAX_FAULTS
from loopkit.validators.setting import Setting
from tests.judging import judge_deterministic

RULES = TypeAdapter(Rules)
LEVELS = Severities(("critical", "high", "medium", "low"), "high")


async def judge(rule: dict[str, Any], setting: Setting | None = None) -> Answer:
    rules = RULES.validate_python([rule])
    setting = setting or Setting(names={}, facts={}, patterns={})
    return await judge_deterministic("lint", rules, JudgedArtifact("plan", ""), setting)


def setting(
    stdout: str = "",
    code: int = 0,
    *,
    folder: Path | None = None,
    levels: Severities | None = None,
    truncated: bool = False,
) -> Setting:
    """A setting in which every command prints this."""

    async def run(argv, *, cwd, env, stdin, timeout_s):
        return CommandResult(code, stdout, "", truncated)

    return Setting({}, {}, {}, levels or Severities(), folder=folder, run=run)


async def read(
    parse: str, stdout: str, code: int = 0, levels: Severities | None = None, **rule: Any
) -> Answer:
    return await judge(
        {"command": ["tool"], "parse": parse, **rule}, setting(stdout, code, levels=levels)
    )


async def refused(parse: str, stdout: str, code: int = 0) -> str:
    answer = await read(parse, stdout, code)
    assert (answer.verdict, answer.error_class, answer.findings) == ("error", "fatal", ())
    return answer.reason


def no_verdict(answer: Answer) -> str:
    """Why a rule could not judge."""
    assert answer.verdict == "error"
    return answer.reason


def told(answer: Answer) -> list[tuple[str, str, int | None, str]]:
    return [(f.severity, f.location, f.line, f.message) for f in answer.findings]


# lines


@pytest.mark.parametrize(
    ("line", "severity", "place", "code", "message"),
    [
        ("a.py:3:5: F401 `os` unused", "error", ("a.py", 3), "", "a.py:3:5: F401 `os` unused"),
        ("src/a.c:12: error: no `;`", "error", ("src/a.c", 12), "", "src/a.c:12: no `;`"),
        ("a.c:1:2: fatal error: x.h: gone", "error", ("a.c", 1), "", "a.c:1:2: x.h: gone"),
        ("a.c:1:2: Warning: unused", "warning", ("a.c", 1), "", "a.c:1:2: unused"),
        ("a.rs:7:1: error[E0308]: types", "error", ("a.rs", 7), "E0308", "a.rs:7:1: E0308 types"),
        ("\x1b[1ma.py:3:\x1b[0m bad\x07", "error", ("a.py", 3), "", "a.py:3: bad"),
        ("  Makefile:4: tab", "error", ("Makefile", 4), "", "Makefile:4: tab"),
    ],
)
async def test_a_line_of_a_compiler_is_a_finding_at_its_place(
    line: str, severity: str, place: tuple[str, int], code: str, message: str
) -> None:
    [finding] = (await read("lines", f"Checking…\n{line}\nDone.")).findings
    assert (finding.severity, finding.location, finding.line) == (severity, *place)
    assert (finding.code, finding.message) == (code, message)
    # What the line says itself is not said again.
    assert finding_in_words(finding, None) == message


@pytest.mark.parametrize(
    "line",
    [
        "a.c:3: note: declared here",
        "a.py:3:1: help: try this",
        "10:15:30: started",
        "12:3:4: two numbers",
        "http://host:80: refused",
        "see a.py:3: above",
        "a.py:3:message",
        "a.py:x: y",
        "a.py:3: ",
        "Found 3 errors.",
    ],
)
async def test_other_lines_are_none(line: str) -> None:
    assert (await read("lines", line)).verdict == "pass"


async def test_a_rejection_without_a_line_says_what_was_printed() -> None:
    [finding] = (await read("lines", "Traceback\nKeyError: 3", 1)).findings
    assert finding.message == "`tool` ended with exit code 1:\nTraceback\nKeyError: 3"
    assert not finding.identified


async def test_an_exit_code_and_own_words_have_one_id_for_every_failure() -> None:
    said = json.dumps({"verdict": "fail", "findings": [], "summary": "No."})
    [own] = (await read("report", said)).findings
    [code, named] = (await read("lines", "a.py:3: warning: long", 1)).findings
    assert [own.identified, code.identified, named.identified] == [False, False, True]


async def test_a_rejection_with_warnings_only_is_a_finding_beside_them() -> None:
    answer = await read("lines", "a.c:1: warning: unused", 1)
    assert [(f.severity, f.blocking) for f in answer.findings] == [
        ("error", True),
        ("warning", False),
    ]
    assert "although nothing that it reports blocks:\na.c:1: warning" in answer.findings[0].message
    assert "the exit code counts" in answer.reason


async def test_a_rule_that_only_warns_has_no_more_to_say_of_a_rejection() -> None:
    answer = await read("lines", "a.c:1: bad", 1, severity="warning")
    assert told(answer) == [("warning", "a.c", 1, "a.c:1: bad")]
    assert (answer.verdict, answer.reason) == ("warn", "")


async def test_a_defect_that_moves_down_its_file_stays_the_same() -> None:
    [before] = (await read("lines", "a.py:3:5: bad name")).findings
    [after] = (await read("lines", "a.py:30:5: bad name")).findings
    [other] = (await read("lines", "b.py:3:5: bad name")).findings
    assert before.id == after.id != other.id


async def test_paths_inside_the_folder_are_told_from_there(tmp_path: Path) -> None:
    rule = {"command": ["tool"], "parse": "lines"}
    printed = f"{tmp_path}/src/a.py:1: x\n/else/b.py:1: y"
    answer = await judge(rule, setting(printed, folder=tmp_path))
    assert [finding.location for finding in answer.findings] == ["src/a.py", "/else/b.py"]


def test_lines_without_end_are_read_in_no_time() -> None:
    rule = CommandRule(command=["lint"], parse="lines")
    for text in ("a" * 5_000_000, "1" * 5_000_000, "a:" * 2_500_000, "a.py:1: " + " x" * 2_500_000):
        started = time.process_time()
        read_findings(text, rule, setting(""))
        assert time.process_time() - started < 5


# Many, and severities


async def test_of_very_many_findings_the_worst_are_named_and_the_rest_counted() -> None:
    printed = [f"a.py:{number}: warning: w{number}" for number in range(1, 61)]
    printed.append("a.py:99: the worst")
    answer = await read("lines", "\n".join(printed))
    assert len(answer.findings) == MAX_FAULTS + 1
    assert answer.findings[0].message == "a.py:99: the worst"
    assert answer.findings[-1].message == "11 more findings are not named here"
    assert answer.findings[-1].severity == "warning"


async def test_more_findings_than_can_be_compared_are_no_report() -> None:
    printed = "\n".join(f"a.py:{number}: x{number}" for number in range(1, MAX_READ + 2))
    assert "more than 10,000 findings, and no more are read" in await refused("lines", printed, 1)


@pytest.mark.parametrize(
    ("level", "severity", "blocks"),
    [("error", "high", True), ("warning", "medium", False), ("note", "low", False)],
)
async def test_levels_of_a_tool_are_levels_of_the_machine(
    level: str, severity: str, blocks: bool
) -> None:
    [finding] = (await read("sarif", sarif({"level": level}), levels=LEVELS)).findings
    assert (finding.severity, finding.blocking) == (severity, blocks)


async def test_the_severity_of_the_rule_is_the_most_that_its_findings_have() -> None:
    answer = await read("sarif", sarif({"level": "error"}), levels=LEVELS, severity="low")
    assert [(f.severity, f.blocking) for f in answer.findings] == [("low", False)]


async def test_a_message_of_a_program_is_bounded_and_plain() -> None:
    [finding] = (await read("lines", f"a.py:1: \x00\u202e\x1b[31m{'x' * 3000}")).findings
    assert len(finding.message) < 1100
    assert finding.message.startswith("a.py:1: xxx")


async def test_a_message_of_the_rule_sees_what_was_found() -> None:
    message = "{{ item.file }}/{{ item.line }}/{{ item.code }}: {{ value }}"
    answer = await read("lines", "a.rs:7:1: error[E1]: types", message=message)
    assert [finding.message for finding in answer.findings] == ["a.rs/7/E1: types"]


# junit


def junit(*cases: str, attributes: str = "") -> str:
    return f'<?xml version="1.0"?><testsuites><testsuite name="s"{attributes}>{"".join(cases)}</testsuite></testsuites>'  # noqa: E501


GOOD = '<testcase classname="t" name="good"/>'
BAD = (
    '<testcase classname="t.C" name="bad" file="t.py" time="0.1">'
    '<failure message="1 != 2" type="AssertionError">trace\n&lt;b&gt; t.py:3</failure>'
    "<system-out>noise</system-out></testcase>"
)


async def test_a_test_that_fails_otherwise_is_the_same_finding() -> None:
    [before] = (await read("junit", junit(BAD))).findings
    [after] = (await read("junit", junit(BAD.replace("1 != 2", "1 != 3")))).findings
    assert before.id == after.id


async def test_a_bomb_of_entities_is_not_even_read() -> None:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    bomb = f'<!DOCTYPE x [<!ENTITY e0 "ha">{entities}]><testsuite>&e11;</testsuite>'
    started = time.process_time()
    assert "document type" in await refused("junit", bomb)
    assert time.process_time() - started < 2


# sarif


def sarif(*results: dict[str, Any], **run: Any) -> str:
    located = {
        "artifactLocation": {"uri": "src/a%20b.py"},
        "region": {"startLine": 3, "startColumn": 7},
    }
    whole = {
        "ruleId": "R1",
        "message": {"text": "It is bad."},
        "locations": [{"physicalLocation": located}],
    }
    listed = [{**whole, **result} for result in results]
    return json.dumps({"version": "2.1.0", "runs": [{"results": listed, **run}]})


@pytest.mark.parametrize(
    "result",
    [
        {"suppressions": [{"kind": "inSource"}]},
        {"suppressions": [{"kind": "external", "status": "accepted"}]},
        {"kind": "pass", "level": "none"},
        {"kind": "informational"},
        {"level": "none"},
        {"baselineState": "absent"},
    ],
)
async def test_what_a_tool_does_not_hold_against_the_code_is_no_finding(
    result: dict[str, Any],
) -> None:
    assert (await read("sarif", sarif(result))).verdict == "pass"


async def test_a_level_that_is_left_out_is_that_of_the_rule() -> None:
    rules = [{"id": "R1", "defaultConfiguration": {"level": "error"}}]
    [finding] = (await read("sarif", sarif({}, tool={"driver": {"rules": rules}}))).findings
    assert finding.severity == "error"
    [other] = (await read("sarif", sarif({}))).findings
    assert other.severity == "warning"


async def test_odd_parts_of_a_result_are_left_out() -> None:
    odd = {"message": 3, "locations": [None], "ruleId": ["x"], "ruleIndex": True}
    assert told(await read("sarif", sarif(odd))) == [
        ("warning", "", None, "a finding without a message")
    ]
    place = {"artifactLocation": {"uri": "a\0.py"}, "region": {"startLine": -4}}
    answer = await read("sarif", sarif({"locations": [{"physicalLocation": place}]}))
    assert told(answer) == [("warning", "a.py", None, "a.py: R1 It is bad.")]


# Every format


def report(verdict: str, *findings: object, **more: Any) -> str:
    return json.dumps({"verdict": verdict, "findings": findings, **more})


LOST = '<testcase name="lost"><error message="boom"/></testcase>'
LEFT = '<testcase name="left"><skipped message="not now"/></testcase>'
PREFIXED = BAD.replace("<", "<j:").replace("<j:/", "</j:")
TRACE = "t.C::bad failed: 1 != 2\ntrace\n<b> t.py:3"
FAILED = [("t.py", None, TRACE)]
REJECTED = {"level": "error", "suppressions": [{"kind": "external", "status": "rejected"}]}
LOCATED = "src/a b.py:3:7: R1 It is bad."
AT_LINE = {"message": "Bad.", "severity": "error", "location": "a.py", "line": 4}


@pytest.mark.parametrize(
    ("parse", "printed", "found"),
    [
        ("junit", junit(GOOD), []),
        ("junit", junit(GOOD, BAD, LEFT), FAILED),
        ("junit", junit(LOST), [("", None, "lost ended with an error: boom")]),
        # A test that fails twice over is one finding.
        ("junit", junit(BAD.replace("</test", '<error message="x"/></test')), FAILED),
        ("junit", junit('<error message="no base"/>', GOOD),
         [("", None, "s ended with an error: no base")]),
        # With a name space, and a root of one suite.
        ("junit", f'<j:testsuite xmlns:j="urn:x">{PREFIXED}</j:testsuite>', FAILED),
        # A web page in the output of a test is no document type.
        ("junit", junit(BAD.replace("trace\n", "<![CDATA[<!DOCTYPE html>&nope;]]>")),
         [("t.py", None, TRACE.replace("trace\n", "<!DOCTYPE html>&nope;"))]),
        ("sarif", sarif({"level": "error"}), [("src/a b.py", 3, LOCATED)]),
        ("sarif", sarif(REJECTED), [("src/a b.py", 3, LOCATED)]),
        ("report", report("fail", AT_LINE), [("a.py", 4, "a.py:4: Bad.")]),
        # Its message is its own, and is not begun with the code.
        ("report", report("fail", {**AT_LINE, "code": "tea"}), [("a.py", 4, "a.py:4: Bad.")]),
        # A rejection that names nothing counts in its own words.
        ("report", report("fail", summary="No tests."), [("", None, "No tests.")]),
    ],
)  # fmt: skip
async def test_a_report_names_its_findings_with_their_places(
    parse: str, printed: str, found: list[tuple[str, int | None, str]]
) -> None:
    assert told(await read(parse, printed)) == [("error", *one) for one in found]


@pytest.mark.parametrize(
    ("parse", "printed", "why"),
    [
        ("junit", "", "it is not XML: no element found"),
        ("junit", "3 passed", "it is not XML: syntax error"),
        ("junit", junit(GOOD)[:-5], "it is not XML: "),
        ("junit", junit(GOOD) + "x", "it is not XML: junk after document element"),
        ("junit", "<html/>", "it is not a test report: its root is <html>"),
        ("junit", junit(), "it has no test case, so nothing was tested"),
        ("junit", junit(GOOD, attributes=' failures="2"'), "it counts 2 failures and shows none"),
        ("junit", junit("<a>" * 100 + "</a>" * 100), "nested more than 64 levels deep"),
        ("junit", junit(GOOD).replace("good", "go\0od"), "it is not XML: "),
        ("junit", f"<!-- x --><!DOCTYPE a [<!ENTITY b 'c'>]>{junit(GOOD)[21:]}", "a document type"),
        ("sarif", "", "it is not JSON"),
        ("sarif", "[" * 100_000, "it is not JSON: it is nested more than 64 levels deep"),
        ("sarif", '{"runs": [NaN]}', "it is not JSON: NaN is not a JSON number"),
        ("sarif", "[]", "it has no `runs`"),
        ("sarif", '{"runs": []}', "it has no `runs`"),
        ("sarif", '{"runs": [{"results": null}]}', "a run of it has no `results`"),
        ("sarif", sarif(invocations=[{"executionSuccessful": False}]), "says that it did not"),
        ("sarif", sarif({"level": "horrible"}), "not a SARIF level"),
        ("sarif", sarif({"level": ["error"]}), "not a SARIF level"),
        ("report", "all fine", "it cannot be used: The answer holds no JSON object"),
        ("report", report("maybe"), '"verdict" must be one of'),
        ("report", report("pass", AT_LINE), "but a findi"),
        ("report", report("pass", error_count=2), "there are 0 of them"),
        ("report", report("pass") + report("fail"), "several different reports"),
    ],
)
async def test_what_is_no_report_or_leaves_a_doubt_is_an_error(
    parse: str, printed: str, why: str
) -> None:
    assert why in await refused(parse, printed)


async def test_a_report_of_another_shape_has_a_map() -> None:
    report = {"status": "KO", "issues": [{"text": "Bad.", "level": "minor"}, "Worse."]}
    mapped = {
        "verdict": "status", "verdicts": {"KO": "fail", "OK": "pass"}, "findings": "issues",
        "message": "text", "severities": {"minor": "warning", "major": "error"},
        "severity": "level",
    }  # fmt: skip
    answer = await read("report", json.dumps(report), 0, map=mapped)
    assert told(answer) == [("warning", "", None, "Bad."), ("error", "", None, "Worse.")]


async def test_a_report_that_was_cut_is_no_report() -> None:
    rule = {"command": ["tool"], "parse": "lines"}
    reason = no_verdict(await judge(rule, setting("a.py:1: bad", 1, truncated=True)))
    assert "let the program print less, or write it to a `file`" in reason


# Files, really written


def script(code: str) -> list[str]:
    return [sys.executable, "-c", code]


async def filed(folder: Path, code: str, name: str = "out/r.json", **rule: Any) -> Answer:
    whole = {"command": script(code), "parse": "report", "file": name, **rule}
    return await judge(whole, Setting({}, {}, {}, folder=folder))


PASSES = """import json; open("out/r.json", "w").write('{"verdict": "pass", "findings": []}')"""


async def test_a_report_is_read_from_the_file_that_the_program_writes(tmp_path: Path) -> None:
    assert (await filed(tmp_path, PASSES)).verdict == "pass"
    assert (await filed(tmp_path, "pass")).verdict == "error"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        *((name, "write a path that starts at the workspace")
          for name in ("/etc/passwd", "../r.json", "", "~/r.json", "a\0b")),
        ("x" * 300, "can't be deleted (File name too long); name a file that the program"),
    ],
)  # fmt: skip
async def test_a_report_lies_in_the_workspace(tmp_path: Path, name: str, why: str) -> None:
    assert why in no_verdict(await filed(tmp_path, PASSES, name))


async def test_a_folder_in_the_place_of_the_report_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out/r.json").mkdir(parents=True)
    reason = no_verdict(await filed(tmp_path, PASSES))
    assert "is a folder; name a file that the program writes" in reason
    assert (tmp_path / "out/r.json").is_dir()


async def test_a_link_that_leads_out_is_neither_deleted_nor_read(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside.json", tmp_path / "work"
    outside.write_text('{"verdict": "pass", "findings": []}', encoding="utf-8")
    (inside / "out").mkdir(parents=True)
    (inside / "out/r.json").symlink_to(outside)
    assert "is a symlink to" in no_verdict(await filed(inside, "pass"))
    (inside / "out/r.json").unlink()
    linking = f"import os; os.symlink({str(outside)!r}, 'out/r.json')"
    assert "is a symlink to" in no_verdict(await filed(inside, linking))
    assert outside.exists()


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import os; os.mkfifo('out/r.json')", "is a device, a pipe or a socket"),
        ("import os; os.mkdir('out/r.json')", "is a folder"),
        ("open('out/r.json', 'wb').write(b'\\xff\\xfe{')", "is not UTF-8 text"),
        ("open('out/r.json', 'wb').write(b'{}\\0')", "contains a NUL"),
        (
            "open('out/r.json', 'wb').truncate(50_000_000)",
            "has 50,000,000 bytes, and at most 10,000,000 are read",
        ),
    ],
)
async def test_what_is_no_text_is_no_report(tmp_path: Path, code: str, why: str) -> None:
    assert why in no_verdict(await filed(tmp_path, code))


@pytest.mark.parametrize("parse", ["lines", "junit", "sarif", "report"])
async def test_fifty_megabytes_of_output_are_an_error_told_in_short(parse: str) -> None:
    code = "import sys\nfor _ in range(50): sys.stdout.write('a.py:1: x\\n' * 100_000)"
    started = time.process_time()
    answer = await judge({"command": script(code), "parse": parse})
    assert answer.verdict == "error"
    assert len(answer.reason) < 1000
    assert time.process_time() - started < 30


async def test_a_secret_in_a_report_file_is_not_told(tmp_path: Path) -> None:
    code = """open("r.txt", "w").write("a.py:1: the key is hunter2hunter2")"""
    rule = {"command": script(code), "parse": "lines", "file": "r.txt"}
    hides = Setting({}, {}, {}, folder=tmp_path, redact=lambda t: t.replace("hunter2hunter2", "…"))
    assert [f.message for f in (await judge(rule, hides)).findings] == ["a.py:1: the key is …"]


# The rest of the rule


async def test_a_rule_with_a_baseline_that_nobody_took_cannot_judge() -> None:
    rule = {"command": ["{{ input.tool }}"], "parse": "lines", "baseline": True}
    names = {"input": {"tool": "lint"}}
    answer = await judge(rule, setting("a.py:1: x").replace(names=names))
    assert (answer.verdict, answer.error_class) == ("error", "fatal")
    assert "`lint` was not run before the first work" in answer.reason


@pytest.mark.parametrize(
    ("rule", "what"),
    [
        ({"map": {"findings": "x"}}, "`map` reads a report, and `parse` is `exit_code`"),
        ({"parse": "sarif", "map": {"findings": "x"}}, "and `parse` is `sarif`"),
        ({"file": "r.xml"}, "nothing reads this file: `parse` is `exit_code`"),
        ({"errors": [{"exit": 3, "class": "content"}]}, "'transient' or 'fatal'"),
        ({"parse": "xml"}, "'exit_code', 'lines', 'junit', 'sarif' or 'report'"),
    ],
)
def test_keys_that_would_do_nothing_are_refused(rule: dict[str, Any], what: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(what)):
        RULES.validate_python([{"command": ["tool"], **rule}])


async def test_a_pattern_of_errors_that_takes_too_long_is_an_error() -> None:
    rule = {"command": ["tool"], "errors": [{"stdout": "(a|aa)+$", "class": "transient"}]}
    assert "took longer than" in no_verdict(await judge(rule, setting("a" * 60 + "b")))


async def test_a_program_that_a_signal_ended_is_run_again() -> None:
    slept: list[float] = []

    async def pause(seconds: float) -> None:
        slept.append(seconds)

    own = Setting({}, {}, {}, pause=pause)
    rule = {"command": script("import os; os.kill(os.getpid(), 9)"), "retry": {"attempts": 2}}
    answer = await judge(rule, own)
    assert (answer.verdict, answer.error_class, slept) == ("error", "fatal", [1.0])
    assert answer.reason.endswith("(2 tries)")


@pytest.mark.parametrize(
    ("text", "end"), [("one\ntwo", "two"), ("longer", "onger"), ("a\nlonger", "onger"), ("b", "b")]
)
def test_the_end_of_a_text_starts_with_a_line_unless_the_last_one_is_longer(
    text: str, end: str
) -> None:
    assert end_of(text, 5) == end
