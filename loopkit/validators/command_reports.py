"""Reports of programs: JUnit's XML, SARIF 2.1.0, lines of compilers and linters, and JSON."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn
from urllib.parse import unquote
from xml.parsers import expat

from loopkit.language.facts import Severities
from loopkit.language.validators.report_map import ReportMap
from loopkit.outside.workspace import (
    OutsideWorkspace,
    UnreadableArtifact,
    UnusableWorkspace,
    prepare,
    read_text,
    resolve_inside,
)
from loopkit.text import plural, printable, shorten
from loopkit.text.json_text import NoJson, parse_output
from loopkit.validators.fault import CannotJudge, Fault
from loopkit.validators.judges.form import Misread
from loopkit.validators.judges.report import read_report
from loopkit.validators.judges.report_form import OwnForm, ReportForm
from loopkit.validators.judges.report_parts import MAX_LINE

MAX_DEPTH = 64
"""The most levels of nested elements."""

BROKEN = {"failure": "failed", "error": "ended with an error"}
"""The elements of a test that did not succeed; one that passed at last has other elements."""


def read_junit(text: str, reading: Reading) -> list[Fault]:
    """A fault for each test case, and each suite, that failed or ended with an error.

    Raises Unreadable for a document type (no report needs one, and entities can blow a report
    up), XML that is broken, nested deeper than 64 levels or not a test report, a report without a
    single test case, and one that counts failures and shows none.
    """
    cases = _Cases(reading)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.StartElementHandler = cases.start
    parser.EndElementHandler = cases.end
    parser.CharacterDataHandler = cases.text
    try:
        parser.Parse(text.removeprefix("\ufeff").encode(), True)
    except expat.ExpatError as error:
        raise Unreadable(f"it is not XML: {error}") from error
    return cases.complete()


def _refuse_doctype(*_: object) -> NoReturn:
    # It precedes the entities that would blow the report up.
    raise Unreadable("it has a document type, which no report of tests needs")


@dataclass
class _Test:
    """A test case or a suite, while it is read."""

    name: str
    file: str
    kind: str = ""
    """The element that reports its failure; empty for a success."""
    message: str = ""
    body: str = ""
    is_inside: bool = False
    """Whether the text of that element is being read."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The settings of a reader."""

    validator: str
    levels: Severities
    map: ReportMap | None
    """How a report of another shape is read."""
    folder: Path
    """Where the program ran; its paths are made relative to it."""
    cap: str | None = None
    """The highest severity of a finding, whatever the report says."""
    origins: Sequence[str] = ()
    """The states that the machine declares as origins of defects."""


@dataclass
class _Cases:
    """The faults that the elements report, read in order."""

    reading: Reading
    faults: list[Fault] = field(default_factory=list)
    cases: int = 0
    counted: int = 0
    """Failures and errors by the attributes of suites."""
    depth: int = 0
    owners: list[_Test] = field(default_factory=list)

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        tag = _local_name(tag)
        self.depth += 1
        if self.depth == 1 and tag not in ("testsuites", "testsuite"):
            raise Unreadable(f"it is not a test report: its root is <{message_text(tag)}>")
        if self.depth > MAX_DEPTH:
            raise Unreadable(f"its elements are nested more than {MAX_DEPTH} levels deep")
        if tag in ("testsuites", "testsuite"):
            self.counted += sum(_count(attributes.get(key)) for key in ("failures", "errors"))
            self._begin_owner(tag, attributes)
        elif tag == "testcase":
            self.cases += 1
            self._begin_owner(tag, attributes)
        elif tag in BROKEN and self.owners and not self.owners[-1].kind:
            owner = self.owners[-1]
            owner.kind, owner.is_inside = tag, True
            owner.message = attributes.get("message", "") or attributes.get("type", "")

    def text(self, data: str) -> None:
        if self.owners and self.owners[-1].is_inside:
            owner = self.owners[-1]
            # The end of a trace shows the failure.
            owner.body = (owner.body + data)[-MESSAGE_CHARS:]

    def end(self, tag: str) -> None:
        tag = _local_name(tag)
        self.depth -= 1
        if tag in BROKEN and self.owners:
            self.owners[-1].is_inside = False
        elif tag in ("testsuites", "testsuite", "testcase") and self.owners:
            self._close(self.owners.pop())

    def complete(self) -> list[Fault]:
        if not self.faults and self.counted:
            raise Unreadable(f"it counts {plural(self.counted, 'failure')} and shows none")
        if not self.faults and not self.cases:
            raise Unreadable("it has no test case, so nothing was tested")
        return self.faults

    def _begin_owner(self, tag: str, attributes: Mapping[str, str]) -> None:
        parts = (
            attributes.get("classname", "") if tag == "testcase" else "",
            attributes.get("name", ""),
        )
        name = "::".join(part for part in parts if part) or "a test without a name"
        file = relative_path(attributes.get("file", ""), self.reading.folder)
        self.owners.append(_Test(message_text(name), file))

    def _close(self, test: _Test) -> None:
        if not test.kind:
            return
        message = message_text(test.message) or "no message"
        trace = message_text(test.body)
        text = f"{test.name} {BROKEN[test.kind]}: {message}"
        text += f"\n{trace}" if trace and trace not in message else ""
        item = {"name": test.name, "file": test.file, "kind": test.kind, "message": message}
        # The name identifies the fault: a test is the same one whatever it fails with.
        if len(self.faults) == MAX_READ:
            raise Unreadable(TOO_MANY)
        self.faults.append(Fault(text, test.name, location=test.file, value=message, item=item))


def _local_name(tag: str) -> str:
    return tag.rpartition(":")[2]


def _count(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0


MESSAGE_CHARS = 1_000
"""The most characters of a finding in a report; a run of the program shows the rest."""

MAX_READ = 10_000
"""The most findings of one report that are read."""

TOO_MANY = f"it has more than {MAX_READ:,} findings, and no more are read"


class Unreadable(Exception):
    """A report can't be used; the message is the rest of a sentence that starts with "it"."""


Reader = Callable[[str, Reading], list[Fault]]
"""Text of a report → its defects; raises Unreadable."""


def refuse_too_many(faults: Iterable[Fault]) -> list[Fault]:
    """The faults; raises Unreadable if there are more than MAX_READ."""
    read = list(islice(faults, MAX_READ + 1))
    if len(read) > MAX_READ:
        raise Unreadable(TOO_MANY)
    return read


def message_text(text: str) -> str:
    """A message without control characters, at most 1,000 characters."""
    return shorten(printable(text).strip(), MESSAGE_CHARS)


def fault_at(
    message: str,
    file: str,
    line: int | None,
    column: int | None = None,
    *,
    severity: str = "",
    code: str = "",
    key: str = "",
    identified: bool = True,
    origins: tuple[str, ...] = (),
    fields: Mapping[str, object] = MappingProxyType({}),
) -> Fault:
    """The fault at a place in a file; it stays the same one if it moves in that file."""
    text, code = message_text(message), message_text(code)
    at = ":".join([file, *(str(number) for number in (line, column) if number is not None)])
    described = text if code in text else f"{code} {text}"
    return Fault(
        f"{at}: {described}" if file else described,
        described,
        location=file,
        line=line,
        severity=severity,
        code=code,
        key=message_text(key),
        identified=identified,
        origins=origins,
        fields=fields,
        value=text,
        item={"file": file, "line": line, "column": column, "code": code, "message": text},
    )


def relative_path(path: str, folder: Path) -> str:
    """The path relative to the folder where the program ran, if it is inside; else unchanged."""
    name = printable(path)
    try:
        return str(Path(name).relative_to(folder))
    except ValueError:
        return name


LINE_CHARS = 4_000
"""The most characters of a line that are read."""

_PLACE = re.compile(r"([^\s:]+):(\d{1,9})(?::(\d{1,9}))?:[ \t]+(\S.*)")
_WORD = re.compile(
    r"(fatal error|error|warning|note|info|hint|help|remark)(?:\[([\w.:/-]+)\])?:[ \t]*(\S.*)",
    re.IGNORECASE,
)
ADVICE = frozenset({"note", "info", "hint", "help", "remark"})
"""Words of lines that explain the finding before them."""


def read_lines(text: str, reading: Reading) -> list[Fault]:
    """Each line `FILE:LINE[:COLUMN]: [WORD[CODE]:] message` as a finding at its place.

    FILE has no blank and no colon and is not a number. WORD is one that compilers use: after
    `error` or without a word, a finding is as severe as the rule says; after `warning` it is
    advice; a line with `note` or the like is not a finding. All other lines are ignored.
    """
    lines = printable(text).split("\n")
    return refuse_too_many(found for line in lines if (found := _fault_in_line(line, reading)))


def _fault_in_line(line: str, reading: Reading) -> Fault | None:
    match = _PLACE.match(line[:LINE_CHARS].strip())
    if match is None or match[1].isdigit():
        return None
    described = _WORD.match(match[4])
    word = described[1].lower() if described else ""
    if word in ADVICE:
        return None
    of_word = reading.levels.advisory if word == "warning" else reading.levels.ungraded
    return fault_at(
        described[3] if described else match[4],
        relative_path(match[1], reading.folder),
        int(match[2]),
        int(match[3]) if match[3] else None,
        severity=of_word if word else "",
        code=(described[2] or "") if described else "",
    )


def read_program_report(text: str, reading: Reading) -> list[Fault]:
    """The findings of a report; the rules for a judge's report hold for it as well.

    A program can't be asked again: a `fail` without a finding counts in the report's own words,
    and anything else that is doubtful is refused.
    """
    levels, cap, origins = reading.levels, reading.cap, reading.origins
    form: ReportForm = OwnForm(levels=levels, cap=cap, origins=origins)
    if reading.map is not None:
        form = ReportForm(levels=levels, cap=cap, origins=origins, parts=reading.map)
    read = read_report(reading.validator, text, form)
    answer = read.last_resort if isinstance(read, Misread) else read
    if answer is None:
        assert isinstance(read, Misread)
        raise Unreadable(f"it cannot be used: {message_text(read.reason)}")
    return refuse_too_many(
        [
            fault_at(
                finding.message,
                message_text(finding.location),
                finding.line,
                severity=finding.severity,
                code=finding.code,
                key=finding.key,
                identified=finding.identified,
                origins=finding.origins,
                fields=finding.item,
            )
            for finding in answer.findings
        ]
    )


@dataclass(frozen=True, slots=True)
class ReportFile:
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


Record = Mapping[str, Any]
NOTHING: Record = {}


def read_sarif(text: str, reading: Reading) -> list[Fault]:
    """Each result that is a problem: not suppressed, of the kind `fail`, and still there.

    `error` is as severe as what blocks, `warning` as what advises, `note` as the mildest level;
    `none` is not a finding. Raises Unreadable for anything but SARIF, a run without results, and
    one whose tool says that it did not succeed.
    """
    log = parse_output(text)
    if isinstance(log, NoJson):
        raise Unreadable(f"it is not JSON: {log.reason}")
    runs = _record(log).get("runs")
    if not isinstance(runs, list) or not runs:
        raise Unreadable("it is not SARIF: it has no `runs`")
    return refuse_too_many(found for run in runs for found in _run_faults(_record(run), reading))


def _run_faults(run: Record, reading: Reading) -> Iterator[Fault]:
    results = run.get("results")
    if not isinstance(results, list):
        raise Unreadable("it is not complete SARIF: a run of it has no `results`")
    for invocation in _list(run.get("invocations")):
        if _record(invocation).get("executionSuccessful") is False:
            raise Unreadable("its tool says that it did not succeed (`executionSuccessful`)")
    rules = _Rules.of(run)
    for result in results:
        if (fault := _fault_in_sarif(_record(result), rules, reading)) is not None:
            yield fault


@dataclass(frozen=True, slots=True)
class _Rules:
    """The rules of a run, in their order and by id."""

    listed: Sequence[Record]
    by_id: Mapping[str, Record]

    @classmethod
    def of(cls, run: Record) -> _Rules:
        driver = _record(_record(run.get("tool")).get("driver"))
        listed = [_record(rule) for rule in _list(driver.get("rules"))]
        # Of two rules with one id the first counts.
        return cls(listed, {_text(rule.get("id")): rule for rule in reversed(listed)})


def _fault_in_sarif(result: Record, rules: _Rules, reading: Reading) -> Fault | None:
    rule = _rule_of(result, rules)
    default = _record(rule.get("defaultConfiguration")).get("level") or "warning"
    level = result.get("level") or default
    is_none = level == "none" or result.get("kind", "fail") != "fail"
    if is_none or result.get("baselineState") == "absent" or _is_suppressed(result):
        return None
    file, line, column = _place(result, reading)
    code = _text(result.get("ruleId")) or _text(rule.get("id"))
    severity = _severity_of_level(level, reading.levels)
    return fault_at(_message(result, rule, code), file, line, column, code=code, severity=severity)


def _rule_of(result: Record, rules: _Rules) -> Record:
    reference = _record(result.get("rule"))
    index = result.get("ruleIndex", reference.get("index"))
    if isinstance(index, int) and 0 <= index < len(rules.listed):
        return rules.listed[index]
    name = _text(result.get("ruleId", reference.get("id")))
    return rules.by_id.get(name, NOTHING) if name else NOTHING


def _is_suppressed(result: Record) -> bool:
    suppressions = [_record(one) for one in _list(result.get("suppressions"))]
    accepted = all(one.get("status", "accepted") == "accepted" for one in suppressions)
    return bool(suppressions) and accepted


def _severity_of_level(level: object, levels: Severities) -> str:
    known = {"error": levels.ungraded, "warning": levels.advisory, "note": levels.levels[-1]}
    if not isinstance(level, str) or level not in known:
        raise Unreadable("it is not SARIF: the level of a result is not a SARIF level")
    return known[level]


def _place(result: Record, reading: Reading) -> tuple[str, int | None, int | None]:
    first = next(iter(_list(result.get("locations"))), None)
    physical = _record(_record(first).get("physicalLocation"))
    uri = _text(_record(physical.get("artifactLocation")).get("uri"))
    path = unquote(uri.removeprefix("file://"))
    region = _record(physical.get("region"))
    return (
        relative_path(path, reading.folder),
        _line_number(region.get("startLine")),
        _line_number(region.get("startColumn")),
    )


def _message(result: Record, rule: Record, code: str) -> str:
    message = _record(result.get("message"))
    text = _text(message.get("text")) or _text(message.get("markdown"))
    described = _text(_record(rule.get("shortDescription")).get("text"))
    return text or described or code or "a finding without a message"


def _line_number(value: object) -> int | None:
    is_one = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_LINE
    return value if is_one and isinstance(value, int) else None


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _record(value: object) -> Record:
    return value if isinstance(value, dict) else NOTHING


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
