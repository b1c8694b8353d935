"""The check of a `command` rule: runs the program, again where it came to no verdict, and reads it.

The verdict is the strictest of exit code, report and words.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from loopkit.engine.findings import Answer, Defect, Finding, finding_ids
from loopkit.language.agents.calls import WAITS, ErrorClass, ErrorRule, Retry
from loopkit.language.facts import Severities
from loopkit.language.section import INPUT_FILE
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
from loopkit.validators.command_reports import (
    Reader,
    Reading,
    ReportFile,
    Unreadable,
    read_junit,
    read_lines,
    read_program_report,
    read_sarif,
)
from loopkit.validators.fault import MAX_FAULTS, CannotJudge, Fault, Found, NotStarted
from loopkit.validators.judged_artifact import JudgedArtifact
from loopkit.validators.judges.form import Misread
from loopkit.validators.judges.report import read_verdict
from loopkit.validators.judges.text import TextForm
from loopkit.validators.setting import Setting


async def check_command(rule: CommandRule, subject: JudgedArtifact, setting: Setting) -> Found:
    """The defects that the program finds in the artifact, which it gets on stdin.

    Its templates can use `artifact`. Raises CannotJudge if there is no verdict, and
    TemplateError.
    """
    found = await _judge(rule, subject.names(setting.names), subject.content, setting)
    faults = mark_known(rule, found.faults, setting)
    return Found(cap_faults(faults, setting.severities), found.reason)


async def baseline_of(rule: CommandRule, setting: Setting) -> list[str]:
    """The ids of what the program finds before there is an artifact; raises as `check_command`.

    Its stdin is empty, unless the rule has a text for it.
    """
    found = await _judge(rule, setting.names, None, setting)
    return ids_of(rule, found.faults, setting)


async def _judge(
    rule: CommandRule, names: Mapping[str, object], content: str | None, setting: Setting
) -> Found:
    names_used = frozenset[str]().union(*(parse(text).names for _, text in rule.templates))
    with input_file(INPUT_FILE, setting.input, names_used) as own:
        names = over(own, names)
        file = None if rule.file is None else parse(rule.file).render(names).strip()
        start = Start(
            rule,
            argv=[parse(argument).render(names) for argument in rule.command],
            stdin=content if rule.stdin is None else parse(rule.stdin).render(names),
            file=None if file is None else ReportFile(folder_of(setting), file),
            setting=setting,
        )
        return await run_until_verdict(rule.retry, partial(_run_once, start), setting.pause)


async def _run_once(start: Start) -> Found:
    """Run the program once and read its verdict; raises CannotJudge."""
    rule, program = start.rule, start.argv[0]
    if start.file is not None:
        start.file.clear()
    result = await _run(start)
    ending = ending_of(rule.errors, result)
    if ending is not None:
        code = result.exit_code
        raise CannotJudge(
            f"`{program}` ended with exit code {code}, which is an error by `errors`"
            f"{output_clause(result.stdout, result.stderr)}",
            ending.error_class,
            ending.retry_after_s,
        )
    if result.exit_code != 0 and result.exit_code not in rule.fail_codes:
        # By these codes a shell, `env` and the like say that there is no such program.
        error = NotStarted if result.exit_code in (126, 127) else CannotJudge
        error = Unfinished if result.exit_code < 0 else error
        raise error(no_verdict_message(program, result, rule))
    return read_result(start, result)


async def _run(start: Start) -> CommandResult:
    rule, setting = start.rule, start.setting
    try:
        return await setting.run(
            start.argv,
            cwd=setting.folder,
            env=command_environment(rule.env),
            stdin=start.stdin,
            timeout_s=rule.timeout,
        )
    except CommandNotStarted as error:
        refused = CannotJudge if isinstance(error, ArgumentsRefused) else NotStarted
        raise refused(str(error)) from error
    except CommandTimeout as error:
        raise CannotJudge(
            f"{error}{output_clause(error.stdout, error.stderr)}", "transient"
        ) from error


def ids_of(rule: CommandRule, faults: Sequence[Fault], setting: Setting) -> list[str]:
    """The ids of these faults, which are the same before any work and after it."""
    name = rule.code or setting.place
    defects = [Defect(name, f.location, f.exact or f.steady, f.key) for f in faults]
    return finding_ids(setting.validator, defects)


def mark_known(rule: CommandRule, faults: Sequence[Fault], setting: Setting) -> list[Fault]:
    """The faults, with those of the baseline as advice; raises CannotJudge without a baseline."""
    if not rule.baseline:
        return list(faults)
    known = setting.baselines.get(setting.place)
    if known is None:
        program = parse(rule.command[0]).render(setting.names)
        raise CannotJudge(
            f"`{program}` was not run before the first work, so there is no "
            "baseline to compare with; start a new run"
        )
    advisory = setting.severities.advisory
    return [
        fault.replace(
            message=f"{fault.message} (was there before)", severity=advisory, is_known=True
        )
        if identity in known
        else fault
        for fault, identity in zip(faults, ids_of(rule, faults, setting), strict=True)
    ]


def cap_faults(faults: Sequence[Fault], levels: Severities) -> list[Fault]:
    """At most MAX_FAULTS faults, worst first, and one more that counts the rest."""
    if len(faults) <= MAX_FAULTS:
        return list(faults)

    ordered = sorted(
        faults, key=lambda one: (one.is_known, levels.rank(one.severity or levels.ungraded))
    )
    rest = ordered[MAX_FAULTS:]
    message = f"{len(rest):,} more findings are not named here"
    worst = rest[0]
    return [
        *ordered[:MAX_FAULTS],
        Fault(message, message, severity=worst.severity, is_known=worst.is_known, value=message),
    ]


READERS: Mapping[str, Reader] = {
    "lines": read_lines,
    "junit": read_junit,
    "sarif": read_sarif,
    "report": read_program_report,
}


@dataclass(frozen=True, slots=True)
class Start:
    """A program that is ready to run."""

    rule: CommandRule
    argv: Sequence[str]
    stdin: str | None
    file: ReportFile | None
    """The file in which it leaves its report, if it does."""
    setting: Setting

    @property
    def program(self) -> str:
        return self.argv[0]


def folder_of(setting: Setting) -> Path:
    """Where programs run, absolute."""
    return (setting.folder or Path.cwd()).resolve()


def read_result(start: Start, result: CommandResult) -> Found:
    """The defects that a program names, and its rejection where it names nothing that blocks.

    Raises Unfinished where it left no usable report or no verdict.
    """
    rule, levels = start.rule, start.setting.severities
    reported = [] if rule.parse == "exit_code" else _read_report(start, result)
    text_verdict = None if rule.verdict is None else _read_text_verdict(start, result)
    faults = [*reported, *map(_fault_of, text_verdict.findings if text_verdict else ())]
    reasons = _disagreement(start, reported, text_verdict)
    if rule.severity is None or levels.is_severe(rule.severity):
        is_explained = _verdict_word(faults, levels) == "fail"
    else:
        is_explained = bool(faults)
    if result.exit_code != 0 and not is_explained:
        is_alone = rule.parse == "exit_code" or (rule.parse == "lines" and not reported)
        but = "" if is_alone and not text_verdict else ", although nothing that it reports blocks"
        if start.file is None and rule.parse not in ("exit_code", "lines"):
            # A report on stdout is not for people to read.
            result = replace(result, stdout="\n".join(fault.message for fault in faults))
        faults.insert(0, failure(start.program, result, but=but))
        if but:
            code = f"`{start.program}` ended with exit code {result.exit_code}{but}"
            reasons.append(f"{code}; the exit code counts")
    return Found(faults, "; ".join(reasons))


def _disagreement(
    start: Start, reported: Sequence[Fault], text_verdict: Answer | None
) -> list[str]:
    if text_verdict is None or start.rule.parse == "exit_code":
        return []
    word = _verdict_word(reported, start.setting.severities)
    if word == text_verdict.verdict:
        return []
    return [
        f"the report of `{start.program}` says {word} and its text says {text_verdict.verdict}; "
        "the stricter counts"
    ]


def _verdict_word(faults: Sequence[Fault], levels: Severities) -> str:
    """The verdict that faults amount to."""
    if any(levels.is_severe(fault.severity or levels.ungraded) for fault in faults):
        return "fail"
    return "warn" if faults else "pass"


def _read_report(start: Start, result: CommandResult) -> list[Fault]:
    rule, setting = start.rule, start.setting
    folder = folder_of(setting)
    reading = Reading(
        setting.validator, setting.severities, rule.map, folder, rule.severity, setting.origins
    )
    try:
        return READERS[rule.parse](_report_text(start, result), reading)
    except Unreadable as error:
        where = "stdout" if start.file is None else repr(start.file.name)
        raise Unfinished(
            f"`{start.program}` ended with exit code {result.exit_code}, but its report "
            f"({rule.parse}, from {where}) is none: {error}"
            f"{output_clause('' if start.file is None else result.stdout, result.stderr)}"
        ) from error


def _report_text(start: Start, result: CommandResult) -> str:
    if start.file is None:
        return _complete_output(result)
    text = start.setting.redact(start.file.text())
    start.setting.note_file(start.file.name, text)
    return text


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
    try:
        printed = _complete_output(result)
    except Unreadable as error:
        raise Unfinished(f"no verdict can be read of `{start.program}`: {error}") from error
    if reason := failure_in(result_of(events_of(printed))):
        reason = f"it reports an error: {reason}"
        raise Unfinished(f"no verdict can be read of `{start.program}`: {reason}")
    # A program that prints its stdin and nothing else is a filter: all of that is its own.
    is_echo = start.stdin and start.stdin.strip() != printed.strip()
    echoes = [start.stdin] if start.stdin and is_echo else []
    read = read_verdict(setting.validator, messages_of(printed), form, echoes=echoes)
    answer = read.last_resort if isinstance(read, Misread) else read
    if answer is None:
        assert isinstance(read, Misread)
        printed = output_clause(result.stdout, result.stderr)
        raise Unfinished(f"no verdict can be read of `{start.program}`: {read.reason}{printed}")
    return answer


def _fault_of(finding: Finding) -> Fault:
    return Fault(
        message=finding.message,
        steady=finding.message,
        location=finding.location,
        line=finding.line,
        severity=finding.severity,
        code=finding.code,
        key=finding.key,
        value=finding.message,
        identified=finding.identified,
    )


class Unfinished(CannotJudge):
    """The program was cut off, or left no readable report: another run may succeed."""


async def run_until_verdict(
    retry: Retry,
    once: Callable[[], Awaitable[Found]],
    pause: Callable[[float], Awaitable[None]],
) -> Found:
    """Return what `once` returns, in as many tries as `retry` allows; raises CannotJudge.

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
    """The meaning of how a program ended."""

    error_class: ErrorClass
    retry_after_s: float | None = None
    """The wait that the program asks for, where it names one."""


def ending_of(
    errors: Sequence[ErrorRule], result: CommandResult, now: datetime | None = None
) -> Ending | None:
    """The ending by the first rule that matches; None where no rule does.

    Raises PatternError and PatternTimeout.
    """
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
        if pattern is None:
            continue
        captured = _match_pattern(pattern, text)
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


def failure(program: str, result: CommandResult, *, but: str = "") -> Fault:
    """The defect that an exit code stands for, with the end of the program's output."""
    printed = tail(_PASSED.sub("", result.stdout), _PASSED.sub("", result.stderr))
    ended = f"`{program}` ended with exit code {result.exit_code}{but}"
    message = f"{ended}:\n{printed}" if printed else f"{ended} and printed nothing"
    # Counts differ from round to round although the defect is the same; but if there is more of it
    # than in the baseline, it is a new one.
    everything = _TIMES.sub("#", printable(f"{result.stdout}\n{result.stderr}"))
    exact = f"exit code {result.exit_code}\n{everything}"
    steady = _MEASURED.sub("#", printed)
    return Fault(message, steady, exact=exact, value=printed, identified=False)


def no_verdict_message(program: str, result: CommandResult, rule: CommandRule) -> str:
    """The message for an exit code that is not a verdict on the artifact."""
    code = result.exit_code
    ended = f"exit code {code}" if code > 0 else f"signal {-code}"
    codes = ", ".join(map(str, rule.fail_codes)) or "no code"
    return (
        f"`{program}` ended with {ended}, which is not a verdict: 0 passes and {codes} fails "
        f"(see `fail_codes`){output_clause(result.stdout, result.stderr)}"
    )


def output_clause(stdout: str, stderr: str) -> str:
    """The end of the output, as the rest of a sentence; empty without output."""
    printed = tail(stdout, stderr, 500)
    return f"; it printed:\n{printed}" if printed else ""
