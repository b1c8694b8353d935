"""The verdict of a finished program: the strictest of exit code, report and words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from loopkit.language import CommandRule
from loopkit.language.severities import Severities
from loopkit.outside.processes import CommandResult
from loopkit.text.transcript import messages_of
from loopkit.validators.command.junit import read_junit
from loopkit.validators.command.lines import read_lines
from loopkit.validators.command.output import failure, output_clause
from loopkit.validators.command.reader import Reader, Reading, Unreadable
from loopkit.validators.command.report import read_program_report
from loopkit.validators.command.report_file import ReportFile
from loopkit.validators.command.sarif import read_sarif
from loopkit.validators.command.tries import Unfinished
from loopkit.validators.fault import Fault, Found
from loopkit.validators.judges.text import TextVerdict, read_verdict
from loopkit.validators.judges.text_form import TextForm
from loopkit.validators.setting import Setting

READERS: Mapping[str, Reader] = MappingProxyType(
    {"lines": read_lines, "junit": read_junit, "sarif": read_sarif, "report": read_program_report}
)


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
    faults = [*reported, *(text_verdict.faults if text_verdict else ())]
    reasons = _disagreement(start, reported, text_verdict)
    if result.exit_code != 0 and not _is_explained(rule, faults, levels):
        is_alone = rule.parse == "exit_code" or (rule.parse == "lines" and not reported)
        but = "" if is_alone and not text_verdict else ", although nothing that it reports blocks"
        faults.insert(0, _rejection(start, result, faults, but))
        if but:
            code = f"`{start.program}` ended with exit code {result.exit_code}{but}"
            reasons.append(f"{code}; the exit code counts")
    return Found(faults, "; ".join(reasons))


def _is_explained(rule: CommandRule, faults: Sequence[Fault], levels: Severities) -> bool:
    """Whether one of the faults is as bad as the exit code says."""
    if rule.severity is not None and not levels.is_severe(rule.severity):
        return bool(faults)
    return _verdict_word(faults, levels) == "fail"


def _rejection(start: Start, result: CommandResult, faults: Sequence[Fault], but: str) -> Fault:
    """The fault that the exit code itself stands for."""
    if start.file is None and start.rule.parse not in ("exit_code", "lines"):
        # A report on stdout is not for people to read.
        result = replace(result, stdout="\n".join(fault.message for fault in faults))
    return failure(start.program, result, but=but)


def _disagreement(
    start: Start, reported: Sequence[Fault], text_verdict: TextVerdict | None
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


def _read_text_verdict(start: Start, result: CommandResult) -> TextVerdict:
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
    # A program that prints its stdin and nothing else is a filter: all of that is its own.
    is_echo = start.stdin and start.stdin.strip() != printed.strip()
    echoes = [start.stdin] if start.stdin and is_echo else []
    read = read_verdict(messages_of(printed), form, echoes=echoes)
    if isinstance(read, TextVerdict):
        return read
    if read.last_resort is None:
        printed = output_clause(result.stdout, result.stderr)
        raise Unfinished(f"no verdict can be read of `{start.program}`: {read.reason}{printed}")
    rejects = setting.severities.is_severe(read.last_resort.severity)
    return TextVerdict("fail" if rejects else "warn", (read.last_resort,))
