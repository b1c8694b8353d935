"""The base of all report readers: their settings, limits and the places of findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from loopkit.language import ReportMap
from loopkit.language.severities import Severities
from loopkit.text import printable, shorten
from loopkit.validators.fault import Fault

MESSAGE_CHARS = 1_000
"""The most characters of a finding in a report; a run of the program shows the rest."""

MAX_READ = 10_000
"""The most findings of one report that are read."""

TOO_MANY = f"it has more than {MAX_READ:,} findings, and no more are read"


class Unreadable(Exception):
    """A report can't be used; the message is the rest of a sentence that starts with "it"."""


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
