"""The check of a `command` rule: runs the program, again where it came to no verdict, and reads it.

The verdict is the strictest of exit code, report and words.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import NamedTuple

from loopkit.engine.findings import Answer, Finding
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
from loopkit.outside.workspace import input_file
from loopkit.text import end_of, printable
from loopkit.text.editing import events_of, failure_in, messages_of, result_of
from loopkit.text.moments import wait_in
from loopkit.text.patterns import compile_pattern, occurrences
from loopkit.validators.command_reports import ReportFile, Unreadable, read_findings
from loopkit.validators.data import JudgedArtifact
from loopkit.validators.fault import MAX_FAULTS, CannotJudge, Found, NotStarted, ids_of
from loopkit.validators.judges.report import read_verdict
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
