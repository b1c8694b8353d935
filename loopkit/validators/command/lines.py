"""`parse: lines`: the output of compilers and linters, one finding a line."""

from __future__ import annotations

import re

from loopkit.text import printable
from loopkit.validators.command.reader import Reading, fault_at, refuse_too_many, relative_path
from loopkit.validators.fault import Fault

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
    return refuse_too_many(found for line in lines if (found := _fault(line, reading)))


def _fault(line: str, reading: Reading) -> Fault | None:
    match = _PLACE.match(line[:LINE_CHARS].strip())
    if match is None or match[1].isdigit():
        return None
    described = _WORD.match(match[4])
    word = described[1].lower() if described else ""
    if word in ADVICE:
        return None
    return fault_at(
        described[3] if described else match[4],
        relative_path(match[1], reading.folder),
        int(match[2]),
        int(match[3]) if match[3] else None,
        severity=_severity(word, reading),
        code=(described[2] or "") if described else "",
    )


def _severity(word: str, reading: Reading) -> str:
    if not word:
        return ""
    return reading.levels.advisory if word == "warning" else reading.levels.ungraded
