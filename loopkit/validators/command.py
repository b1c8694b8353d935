"""The check of a `command` rule: runs the program, again where it came to no verdict, and reads it.

The verdict is the strictest of exit code, report and words.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple, NoReturn
from urllib.parse import unquote
from xml.etree import ElementTree as ET

from loopkit.engine.findings import Answer, Finding
from loopkit.language.datatypes.datatype import value_at
from loopkit.language.facts import Severities
from loopkit.language.section import INPUT_FILE, WAITS, ErrorClass, ErrorRule, Retry
from loopkit.language.template.rendering import parse
from loopkit.language.validators.command import CommandRule
from loopkit.machine.scope import over
from loopkit.outside.processes import (
    ArgumentsRefused,
    CommandNotStarted,
    CommandResult,
    CommandTimeout,
    command_environment,
)
from loopkit.outside.workspace import (
    OutsideWorkspace,
    UnreadableArtifact,
    UnusableWorkspace,
    input_file,
    prepare,
    read_text,
    resolve_inside,
)
from loopkit.text import end_of, plural, printable, shorten
from loopkit.text.editing import events_of, failure_in, messages_of, result_of
from loopkit.text.json_text import NoJson, parse_json
from loopkit.text.moments import wait_in
from loopkit.text.patterns import compile_pattern, occurrences
from loopkit.validators.data import JudgedArtifact
from loopkit.validators.fault import MAX_FAULTS, CannotJudge, Found, NotStarted, ids_of
from loopkit.validators.judges.form import MAX_LINE, Misread, OwnForm, ReportForm
from loopkit.validators.judges.report import read_report, read_verdict
from loopkit.validators.judges.text import TextForm
from loopkit.validators.setting import Setting
from loopkit.values import Value


async def check_command(
    rule: CommandRule, subject: JudgedArtifact, setting: Setting
) -> list[Found]:
    """What the program finds in the artifact, which it gets on stdin; raises CannotJudge."""
    found = await _judge(rule, subject.names(setting.names), subject.content, setting)
    return cap_number(mark_known(rule, found, setting), setting.severities)


async def baseline_of(rule: CommandRule, setting: Setting) -> list[str]:
    """The ids of what the program finds before there is an artifact; raises as `check_command`.

    Its stdin is empty, unless the rule has a text for it.
    """
    found = await _judge(rule, setting.names, None, setting)
    return ids_of(rule, found, setting, exact=True)


async def _judge(
    rule: CommandRule, names: Mapping[str, object], content: str | None, setting: Setting
) -> list[Found]:
    names_used = frozenset[str]().union(*(parse(text).names for _, text in rule.templates))
    with input_file(INPUT_FILE, setting.input, names_used) as own:
        names = over(own, names)
        file = None if rule.file is None else parse(rule.file).render(names).strip()
        start = Start(
            rule,
            argv=[parse(argument).render(names) for argument in rule.command],
            stdin=content if rule.stdin is None else parse(rule.stdin).render(names),
            file=None if file is None else ReportFile(setting.root, file),
            setting=setting,
        )
        return await run_until_verdict(rule.retry, partial(_run_once, start), setting.pause)


class Start(Value, frozen=True):
    rule: CommandRule
    argv: Sequence[str]
    stdin: str | None
    file: ReportFile | None
    """The file in which it leaves its report, if it does."""
    setting: Setting

    @property
    def program(self) -> str:
        return self.argv[0]


async def _run_once(start: Start) -> list[Found]:
    """Run the program once and read its verdict; raises CannotJudge."""
    rule, program = start.rule, start.program
    if start.file is not None:
        start.file.clear()
    result = await _run(start)
    code = result.exit_code
    printed = output_clause(result.stdout, result.stderr)
    if (ending := ending_of(rule.errors, result)) is not None:
        told = f"`{program}` ended with exit code {code}, which is an error by `errors`{printed}"
        raise CannotJudge(told, ending.error_class, ending.retry_after_s)
    if code != 0 and code not in rule.fail_codes:
        # By these codes a shell, `env` and the like say that there is no such program.
        error = NotStarted if code in (126, 127) else Unfinished if code < 0 else CannotJudge
        ended = f"exit code {code}" if code > 0 else f"signal {-code}"
        codes = ", ".join(map(str, rule.fail_codes)) or "no code"
        raise error(
            f"`{program}` ended with {ended}, which is not a verdict: 0 passes and {codes} fails "
            f"(see `fail_codes`){printed}"
        )
    return read_result(start, result)


async def _run(start: Start) -> CommandResult:
    try:
        return await start.setting.run(
            start.argv,
            cwd=start.setting.folder,
            env=command_environment(start.rule.env),
            stdin=start.stdin,
            timeout_s=start.rule.timeout,
        )
    except CommandNotStarted as error:
        refused = CannotJudge if isinstance(error, ArgumentsRefused) else NotStarted
        raise refused(str(error)) from error
    except CommandTimeout as error:
        reason = f"{error}{output_clause(error.stdout, error.stderr)}"
        raise CannotJudge(reason, "transient") from error


def mark_known(rule: CommandRule, found: Sequence[Found], setting: Setting) -> list[Found]:
    """What was found, with what the baseline has as advice; raises CannotJudge without one."""
    if not rule.baseline:
        return list(found)
    known = setting.baselines.get(setting.place)
    if known is None:
        program = parse(rule.command[0]).render(setting.names)
        raise CannotJudge(
            f"`{program}` was not run before the first work, so there is no "
            "baseline to compare with; start a new run"
        )
    marked = []
    for one, identity in zip(found, ids_of(rule, found, setting, exact=True), strict=True):
        if identity in known:
            message = f"{one.finding.message} (was there before)"
            advice = one.finding.replace(message=message, severity=setting.severities.advisory)
            one = one.replace(finding=advice, is_known=True)
        marked.append(one)
    return marked


def cap_number(found: Sequence[Found], levels: Severities) -> list[Found]:
    """At most MAX_FAULTS findings, worst first, and one more that counts the rest."""
    if len(found) <= MAX_FAULTS:
        return list(found)

    def badness(one: Found) -> tuple[bool, int]:
        return one.is_known, levels.rank(one.finding.severity or levels.ungraded)

    ordered = sorted(found, key=badness)
    message = f"{len(found) - MAX_FAULTS:,} more findings are not named here"
    worst = ordered[MAX_FAULTS]
    rest = Finding(id="", message=message, severity=worst.finding.severity)
    counted = Found(rest, message, value=message, is_known=worst.is_known)
    return [*ordered[:MAX_FAULTS], counted]


def read_result(start: Start, result: CommandResult) -> list[Found]:
    """The defects that a program names, and its rejection where it names nothing that blocks.

    How sources of the verdict disagree is the setting's remark. Raises Unfinished where the
    program left no usable report or no verdict.
    """
    rule, levels = start.rule, start.setting.severities
    reported = [] if rule.parse == "exit_code" else _read_report(start, result)
    told = None if rule.verdict is None else _read_text_verdict(start, result)
    named = told.findings if told else ()
    found = [*reported, *(Found(one, one.message, value=one.message) for one in named)]
    remarks = []
    word = _verdict_word(reported, levels)
    if told is not None and rule.parse != "exit_code" and word != told.verdict:
        remarks.append(
            f"the report of `{start.program}` says {word} and its text says {told.verdict}; "
            "the stricter counts"
        )
    word = _verdict_word(found, levels)
    only_advises = rule.severity is not None and not levels.is_severe(rule.severity)
    is_explained = word == "fail" or (only_advises and word == "warn")
    if result.exit_code != 0 and not is_explained:
        is_alone = rule.parse == "exit_code" or (rule.parse == "lines" and not reported)
        but = "" if is_alone and not told else ", although nothing that it reports blocks"
        if start.file is None and rule.parse not in ("exit_code", "lines"):
            # A report on stdout is not for people to read.
            result = replace(result, stdout="\n".join(one.finding.message for one in found))
        found.insert(0, rejection(start.program, result, but=but))
        if but:
            code = f"`{start.program}` ended with exit code {result.exit_code}{but}"
            remarks.append(f"{code}; the exit code counts")
    start.setting.remark = "; ".join(remarks)
    return found


def _verdict_word(found: Sequence[Found], levels: Severities) -> str:
    if any(levels.is_severe(one.finding.severity or levels.ungraded) for one in found):
        return "fail"
    return "warn" if found else "pass"


def _read_report(start: Start, result: CommandResult) -> list[Found]:
    rule, setting, file = start.rule, start.setting, start.file
    try:
        if file is None:
            return read_findings(_complete_output(result), rule, setting)
        text = setting.redact(file.text())
        setting.note_file(file.name, text)
        return read_findings(text, rule, setting)
    except Unreadable as error:
        where = "stdout" if file is None else repr(file.name)
        raise Unfinished(
            f"`{start.program}` ended with exit code {result.exit_code}, but its report "
            f"({rule.parse}, from {where}) is none: {error}"
            f"{output_clause('' if file is None else result.stdout, result.stderr)}"
        ) from error


def _complete_output(result: CommandResult) -> str:
    if result.truncated:
        raise Unreadable("it is too long; let the program print less, or write it to a `file`")
    return result.stdout


def _read_text_verdict(start: Start, result: CommandResult) -> Answer:
    """The verdict in the output of the program; in a transcript, in the assistant's messages."""
    rule, setting = start.rule, start.setting
    assert rule.verdict is not None
    form = TextForm(
        reading=rule.verdict,
        patterns=setting.patterns,
        levels=setting.severities,
        cap=rule.severity,
    )
    unread = f"no verdict can be read of `{start.program}`"
    try:
        printed = _complete_output(result)
    except Unreadable as error:
        raise Unfinished(f"{unread}: {error}") from error
    if reason := failure_in(result_of(events_of(printed))):
        raise Unfinished(f"{unread}: it reports an error: {reason}")
    # A program that prints its stdin and nothing else is a filter: all of that is its own.
    is_echo = start.stdin and start.stdin.strip() != printed.strip()
    echoes = [start.stdin] if start.stdin and is_echo else []
    read = read_verdict(setting.validator, messages_of(printed), form, echoes=echoes)
    if isinstance(read, Answer):
        return read
    if read.last_resort is None:
        clause = output_clause(result.stdout, result.stderr)
        raise Unfinished(f"{unread}: {read.reason}{clause}")
    return read.last_resort


class Unfinished(CannotJudge):
    """The program was cut off, or left no readable report: another run may succeed."""


async def run_until_verdict(
    retry: Retry,
    once: Callable[[], Awaitable[list[Found]]],
    pause: Callable[[float], Awaitable[None]],
) -> list[Found]:
    """What `once` returns, in as many tries as `retry` allows; raises CannotJudge.

    Only a transient error or Unfinished is tried again. The wait before it doubles up to
    `max_backoff`; a longer one that the program asks for counts, if it is within `max_backoff`.
    """
    tries = 1
    while True:
        try:
            return await once()
        except CannotJudge as error:
            may_help = error.error_class == "transient" or isinstance(error, Unfinished)
            backoff = min(retry.backoff * 2.0 ** (tries - 1), retry.max_backoff)
            wait = max(backoff, error.retry_after_s or 0.0)
            if not may_help or tries >= retry.attempts or wait > retry.max_backoff:
                if tries == 1:
                    raise
                reason = f"{error.reason} ({tries} tries)"
                raise type(error)(reason, error.error_class, error.retry_after_s) from error
        await pause(wait)
        tries += 1


class Ending(NamedTuple):
    error_class: ErrorClass
    retry_after_s: float | None = None
    """The wait that the program asks for, where it names one."""


def ending_of(
    errors: Sequence[ErrorRule], result: CommandResult, now: datetime | None = None
) -> Ending | None:
    """The ending by the first rule that matches; raises as `occurrences`."""
    for rule in errors:
        if (groups := _match_rule(rule, result)) is not None:
            now = now or datetime.now().astimezone()
            waits = (wait_in(text, now) for text in groups)
            return Ending(rule.error_class, next((w for w in waits if w is not None), None))
    return None


def _match_rule(rule: ErrorRule, result: CommandResult) -> list[str] | None:
    """The texts that the groups of a rule capture; None if the rule does not match."""
    if rule.exit not in (None, result.exit_code):
        return None
    groups: list[str] = []
    for pattern, text in ((rule.stderr, result.stderr), (rule.stdout, result.stdout)):
        captured = [] if pattern is None else _match_pattern(pattern, text)
        if captured is None:
            return None
        groups += captured
    return groups


def _match_pattern(pattern: str, text: str) -> list[str] | None:
    """The texts that a pattern's groups capture at its last match; None if it has none."""
    groups = WAITS & compile_pattern(pattern).groupindex.keys()
    found = occurrences(pattern, text)
    # Without a group, any match says as much as the last.
    last = deque(found if groups else islice(found, 1), maxlen=1)
    return [last[0][name] for name in groups if last[0][name]] if last else None


TAIL_CHARS = 2_000
"""The most characters of the end of a command's output that become the message."""

_MEASURED = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?")
_TIMES = re.compile(
    r"0x[0-9a-fA-F]+|\d{4}-\d\d-\d\d|\b\d{1,2}(?::\d\d){1,2}(?:[.,]\d+)?"
    r"|\b\d+(?:\.\d+)?[ ]?(?:[mµun]?s|secs?|seconds?|mins?|minutes?)\b"
)
"""Addresses, dates, times of the day and durations, which differ although nothing changed."""
_PASSED = re.compile(
    r"^(?:[^\w\n\[]|_)*\[[*_]*PASS(?:ED)?[*_]*\].*\n?", re.IGNORECASE | re.MULTILINE
)
"""Lines that report a success, so that there is nothing in them to correct."""


def tail(stdout: str, stderr: str, limit: int = TAIL_CHARS) -> str:
    """The end of the output, stderr after stdout, without colours and control characters."""
    printed = "\n".join(part for text in (stdout, stderr) if (part := printable(text).strip()))
    return printed if len(printed) <= limit else f"…\n{end_of(printed, limit)}"


def rejection(program: str, result: CommandResult, *, but: str = "") -> Found:
    """The defect that an exit code stands for, with the end of the program's output."""
    printed = tail(_PASSED.sub("", result.stdout), _PASSED.sub("", result.stderr))
    ended = f"`{program}` ended with exit code {result.exit_code}{but}"
    message = f"{ended}:\n{printed}" if printed else f"{ended} and printed nothing"
    # Counts differ from round to round although the defect is the same; but if there is more of it
    # than in the baseline, it is a new one.
    everything = _TIMES.sub("#", printable(f"{result.stdout}\n{result.stderr}"))
    exact = f"exit code {result.exit_code}\n{everything}"
    # An exit code alone does not tell one defect from another.
    finding = Finding(id="", message=message, severity="", identified=False)
    return Found(finding, _MEASURED.sub("#", printed), value=printed, exact=exact)


def output_clause(stdout: str, stderr: str) -> str:
    """The end of the output, as the rest of a sentence; empty without output."""
    printed = tail(stdout, stderr, 500)
    return f"; it printed:\n{printed}" if printed else ""


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


def at_place(finding: Finding, column: int | None = None, *, is_whole: bool = False) -> Found:
    """The finding with its place in its message; it stays the same one if it moves in its file.

    Its code is there as well, as linters print it, unless its message `is_whole`.
    """
    text = message_text(finding.message)
    code = message_text(finding.code)
    file = finding.location
    numbers = [str(number) for number in (finding.line, column) if number is not None]
    described = text if code in text else f"{code} {text}"
    said = text if is_whole else described
    message = f"{':'.join([file, *numbers])}: {said}" if file else said
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
        yield at_place(finding.replace(location=message_text(finding.location)), is_whole=True)


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
