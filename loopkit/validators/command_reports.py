"""Reports of programs: JUnit's XML, SARIF 2.1.0, lines of compilers and linters, and JSON."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NoReturn
from urllib.parse import unquote
from xml.etree import ElementTree as ET

from loopkit.engine.findings import Finding
from loopkit.language.datatypes.datatype import value_at
from loopkit.language.facts import Severities
from loopkit.language.validators.command import CommandRule
from loopkit.outside.workspace import (
    OutsideWorkspace,
    UnreadableArtifact,
    UnusableWorkspace,
    prepare,
    read_text,
    resolve_inside,
)
from loopkit.text import plural, printable, shorten
from loopkit.text.json_text import NoJson, parse_json
from loopkit.validators.fault import CannotJudge, Found
from loopkit.validators.judges.form import MAX_LINE, Misread, OwnForm, ReportForm
from loopkit.validators.judges.report import read_report
from loopkit.validators.setting import Setting
from loopkit.values import Value

MESSAGE_CHARS = 1_000
"""The most characters of a finding in a report; a run of the program shows the rest."""

MAX_READ = 10_000
"""The most findings of one report that are read."""


class Unreadable(Exception):
    """A report can't be used; the message is the rest of a sentence that starts with "it"."""


def read_findings(text: str, rule: CommandRule, setting: Setting) -> list[Found]:
    """What a report in the format of `rule.parse` names; raises Unreadable."""
    read = list(islice(READERS[rule.parse](text, rule, setting), MAX_READ + 1))
    if len(read) > MAX_READ:
        raise Unreadable(f"it has more than {MAX_READ:,} findings, and no more are read")
    return read


def message_text(text: str) -> str:
    """A message without control characters, at most 1,000 characters."""
    return shorten(printable(text).strip(), MESSAGE_CHARS)


def at_place(finding: Finding, column: int | None = None) -> Found:
    """The finding with its place in its message; it stays the same one if it moves in its file."""
    text = message_text(finding.message)
    code = message_text(finding.code)
    file = finding.location
    numbers = [str(number) for number in (finding.line, column) if number is not None]
    described = text if code in text else f"{code} {text}"
    message = f"{':'.join([file, *numbers])}: {described}" if file else described
    placed = finding.replace(message=message, code=code, key=message_text(finding.key))
    item = {"file": file, "line": finding.line, "column": column, "code": code, "message": text}
    return Found(placed, described, value=text, item=item)


def relative_path(path: str, folder: Path) -> str:
    """The path relative to the folder where the program ran, if it is inside; else unchanged."""
    name = Path(printable(path))
    return str(name.relative_to(folder)) if name.is_relative_to(folder) else printable(path)


MAX_DEPTH = 64
"""The most levels of nested elements."""

SUITES = ("testsuites", "testsuite")
BROKEN = {"failure": "failed", "error": "ended with an error"}
"""The elements of a test that did not succeed; one that passed at last has other elements."""
_Tests = dict[ET.Element, ET.Element | None]
"""Each test case and suite, with the element that reports its failure."""


def read_junit(text: str, _rule: CommandRule, setting: Setting) -> Iterator[Found]:
    """Each test case and each suite that failed or ended with an error.

    Raises Unreadable for what "Reports of programs" of the language names; a document type, because
    no report needs one, and entities can blow a report up.
    """
    root = _parse_xml(text)
    if _kind(root) not in SUITES:
        raise Unreadable(f"it is not a test report: its root is <{message_text(_kind(root))}>")
    tests: _Tests = {root: None}
    _collect_tests(root, root, tests, depth=1)
    broken = [(test, report) for test, report in tests.items() if report is not None]
    for test, report in broken:
        yield _broken_test(test, report, setting.root)
    counts = (suite.get(key) for suite in tests if _kind(suite) in SUITES for key in COUNTS)
    if not broken and (counted := sum(map(_count, counts))):
        raise Unreadable(f"it counts {plural(counted, 'failure')} and shows none")
    if not broken and all(_kind(test) in SUITES for test in tests):
        raise Unreadable("it has no test case, so nothing was tested")


COUNTS = ("failures", "errors")
"""The attributes of suites that count what went wrong."""


class _WithoutDoctype(ET.TreeBuilder):
    def doctype(self, *_: object) -> NoReturn:
        # It precedes the entities that would blow the report up.
        raise Unreadable("it has a document type, which no report of tests needs")


def _parse_xml(text: str) -> ET.Element:
    parser = ET.XMLParser(target=_WithoutDoctype())  # noqa: S314 - without entities
    try:
        parser.feed(text.removeprefix("\ufeff"))
        root: ET.Element = parser.close()
    except ET.ParseError as error:
        raise Unreadable(f"it is not XML: {error}") from error
    return root


def _collect_tests(element: ET.Element, owner: ET.Element, tests: _Tests, depth: int) -> None:
    """Add what is inside an element; what breaks there breaks the innermost test around it."""
    if depth > MAX_DEPTH:
        raise Unreadable(f"its elements are nested more than {MAX_DEPTH} levels deep")
    for child in element:
        kind = _kind(child)
        is_test = kind == "testcase" or kind in SUITES
        if is_test:
            tests[child] = None
        elif kind in BROKEN and tests[owner] is None:
            tests[owner] = child
        _collect_tests(child, child if is_test else owner, tests, depth + 1)


def _broken_test(test: ET.Element, report: ET.Element, folder: Path) -> Found:
    kind = _kind(report)
    name = message_text("::".join(filter(None, (test.get("classname"), test.get("name")))))
    name = name or "a test without a name"
    message = message_text(report.get("message") or report.get("type") or "") or "no message"
    # The end of a trace shows the failure.
    trace = message_text("".join(report.itertext())[-MESSAGE_CHARS:])
    text = f"{name} {BROKEN[kind]}: {message}"
    text += f"\n{trace}" if trace and trace not in message else ""
    file = relative_path(test.get("file", ""), folder)
    finding = Finding(id="", message=text, severity="", location=file)
    item = {"name": name, "file": file, "kind": kind, "message": message}
    # The name identifies the defect: a test is the same one whatever it fails with.
    return Found(finding, name, value=message, item=item)


def _kind(element: ET.Element) -> str:
    """The name of an element without its namespace."""
    return re.split("[:}]", element.tag)[-1]


def _count(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0


LINE_CHARS = 4_000
"""The most characters of a line that are read."""

_PLACE = re.compile(r"([^\s:]+):(\d{1,9})(?::(\d{1,9}))?:[ \t]+(\S.*)")
_WORD = re.compile(
    r"(fatal error|error|warning|note|info|hint|help|remark)(?:\[([\w.:/-]+)\])?:[ \t]*(\S.*)",
    re.IGNORECASE,
)
ADVICE = frozenset({"note", "info", "hint", "help", "remark"})
"""Words of lines that explain the finding before them."""


def read_lines(text: str, _rule: CommandRule, setting: Setting) -> Iterator[Found]:
    """What compilers and linters print, by "Reports of programs" of the language."""
    folder, levels = setting.root, setting.severities
    for line in printable(text).split("\n"):
        match = _PLACE.match(line[:LINE_CHARS].strip())
        if match is None or match[1].isdigit():
            continue
        described = _WORD.match(match[4])
        word, code, message = described.groups("") if described else ("", "", match[4])
        if (word := word.lower()) in ADVICE:
            continue
        severity = levels.advisory if word == "warning" else levels.ungraded
        finding = Finding(
            id="",
            message=message,
            severity=severity if word else "",
            code=code,
            location=relative_path(match[1], folder),
            line=int(match[2]),
        )
        yield at_place(finding, int(match[3]) if match[3] else None)


def read_program_report(text: str, rule: CommandRule, setting: Setting) -> Iterator[Found]:
    """The findings of a report; the rules for a judge's report hold for it as well.

    A program can't be asked again: a `fail` counts with what can be read of it, and anything else
    that is doubtful is refused.
    """
    levels = setting.severities
    cap = rule.severity
    origins = setting.origins
    form: ReportForm = OwnForm(levels=levels, cap=cap, origins=origins)
    if rule.map is not None:
        form = ReportForm(levels=levels, cap=cap, origins=origins, parts=rule.map)
    read = read_report(setting.validator, text, form)
    answer = read.last_resort if isinstance(read, Misread) else read
    if answer is None:
        assert isinstance(read, Misread)
        raise Unreadable(f"it cannot be used: {message_text(read.reason)}")
    for finding in answer.findings:
        yield at_place(finding.replace(location=message_text(finding.location)))


def read_sarif(text: str, _rule: CommandRule, setting: Setting) -> Iterator[Found]:
    """Each result that is a problem: not suppressed, of the kind `fail`, and still there.

    Raises Unreadable for anything but SARIF, a run without results, and one that did not succeed.
    """
    log = parse_json(text)
    if isinstance(log, NoJson):
        raise Unreadable(f"it is not JSON: {log.reason}")
    runs = _list(log, "runs")
    if not runs:
        raise Unreadable("it is not SARIF: it has no `runs`")
    folder = setting.root
    for run in runs:
        rules = _list(run, "tool.driver.rules")
        # Of two rules with one id the first counts.
        by_id = {_text(rule, "id"): rule for rule in reversed(rules)}
        for result in _results(run):
            rule = _rule_of(result, rules, by_id)
            level = _part(result, "level")
            level = level or _part(rule, "defaultConfiguration.level") or "warning"
            if level != "none" and _is_problem(result):
                severity = _severity_of_level(level, setting.severities)
                yield _found_in_sarif(result, rule, severity, folder)


def _results(run: object) -> list[object]:
    results = _part(run, "results")
    if not isinstance(results, list):
        raise Unreadable("it is not complete SARIF: a run of it has no `results`")
    for invocation in _list(run, "invocations"):
        if _part(invocation, "executionSuccessful") is False:
            raise Unreadable("its tool says that it did not succeed (`executionSuccessful`)")
    return results


def _rule_of(result: object, rules: list[object], by_id: Mapping[str, object]) -> object:
    index = _part(result, "ruleIndex")
    index = _part(result, "rule.index") if index is None else index
    if isinstance(index, int) and 0 <= index < len(rules):
        return rules[index]
    name = _text(result, "ruleId") or _text(result, "rule.id")
    return by_id.get(name) if name else None


def _is_problem(result: object) -> bool:
    states = [_part(one, "status") in (None, "accepted") for one in _list(result, "suppressions")]
    is_suppressed = states and all(states)
    is_fail = _part(result, "kind") in (None, "fail")
    return is_fail and _part(result, "baselineState") != "absent" and not is_suppressed


def _severity_of_level(level: object, levels: Severities) -> str:
    known = {"error": levels.ungraded, "warning": levels.advisory, "note": levels.levels[-1]}
    if not isinstance(level, str) or level not in known:
        raise Unreadable("it is not SARIF: the level of a result is not a SARIF level")
    return known[level]


def _found_in_sarif(result: object, rule: object, severity: str, folder: Path) -> Found:
    code = _text(result, "ruleId") or _text(rule, "id")
    described = (_text(result, "message.text"), _text(result, "message.markdown"))
    messages = (*described, _text(rule, "shortDescription.text"), code)
    place = _part(next(iter(_list(result, "locations")), None), "physicalLocation")
    path = unquote(_text(place, "artifactLocation.uri").removeprefix("file://"))
    finding = Finding(
        id="",
        message=next(filter(None, messages), "a finding without a message"),
        severity=severity,
        code=code,
        location=relative_path(path, folder),
        line=_line_number(_part(place, "region.startLine")),
    )
    return at_place(finding, _line_number(_part(place, "region.startColumn")))


def _line_number(value: object) -> int | None:
    # A flag is no number.
    return value if type(value) is int and 1 <= value <= MAX_LINE else None


def _part(value: object, path: str) -> object:
    """What lies at a dotted path; None where a step is missing."""
    return value_at(value, path.split("."))


def _text(value: object, path: str) -> str:
    found = _part(value, path)
    return found.strip() if isinstance(found, str) else ""


def _list(value: object, path: str) -> list[object]:
    found = _part(value, path)
    return found if isinstance(found, list) else []


READERS: Mapping[str, Callable[[str, CommandRule, Setting], Iterator[Found]]] = {
    "lines": read_lines,
    "junit": read_junit,
    "sarif": read_sarif,
    "report": read_program_report,
}


class ReportFile(Value, frozen=True):
    """A file of the workspace; it is a report only if this run of the program wrote it."""

    folder: Path
    name: str
    """As the rule writes it, templates filled in."""

    def clear(self) -> None:
        """Delete the report of an earlier run, which could be mistaken for that of this run.

        Raises CannotJudge where the name leads out of the workspace or is not a file.
        """
        try:
            resolve_inside(self.folder, self.name)
            # A link there goes, and not the file that it leads to.
            named = Path(self.name)
            path = prepare(resolve_inside(self.folder, str(named.parent))) / named.name
            path.unlink(missing_ok=True)
        except (OutsideWorkspace, UnusableWorkspace) as error:
            raise CannotJudge(str(error)) from error
        except OSError as error:
            cause = "is a folder" if os.path.isdir(path) else f"can't be deleted ({error.strerror})"
            raise CannotJudge(
                f"what stands at {self.name!r}, where the report is to be written, {cause}; "
                "name a file that the program writes"
            ) from error

    def text(self) -> str:
        """The text that the program wrote; raises Unreadable, with the rest of a sentence."""
        try:
            # Once more, because the program may have put a link there that leads out.
            path = resolve_inside(self.folder, self.name)
            if not os.path.exists(path):
                raise Unreadable(
                    "this run of the program did not write it, and one that was there before "
                    "does not count"
                )
            return read_text(path)
        except (OutsideWorkspace, UnreadableArtifact) as error:
            raise Unreadable(f"it can't be taken: {error}") from error
