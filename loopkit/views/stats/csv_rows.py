"""Statistics as CSV: a row for each run, or for each defect."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from loopkit.engine.records import Record
from loopkit.engine.telemetry import Defect
from loopkit.text import printable
from loopkit.views.stats.statistics import RunStats
from loopkit.views.stats.tables import attempts

LISTS = ("phases", "defects", "overrides")
OF_RUN = ("run", "machine")


def header(*, of_defects: bool) -> str:
    """The names of the columns."""
    return _line([*OF_RUN, *_names(Defect)] if of_defects else [*_single(), "overrides"])


def rows(run: RunStats, *, of_defects: bool) -> Iterator[str]:
    """The lines of a run: one, or one for each of its defects."""
    if of_defects:
        for defect in run.defects:
            yield _line([run.run, run.machine, *(_of_defect(defect))])
        return
    plain = {name: getattr(run, name) for name in _single()}
    plain["started"] = datetime.fromtimestamp(run.started, UTC).isoformat(timespec="seconds")
    yield _line([*map(_cell, plain.values()), len(run.overrides)])


def _of_defect(defect: Defect) -> Iterator[object]:
    values = {name: getattr(defect, name) for name in _names(Defect)}
    values["attempts"] = attempts(defect)
    return map(_cell, values.values())


def _cell(value: object) -> object:
    match value:
        case bool():
            return "true" if value else "false"
        case tuple():
            return " ".join(map(str, value))
        case str():
            return printable(value)
        case _:
            return value


def _single() -> list[str]:
    return [name for name in _names(RunStats) if name not in LISTS]


def _names(noun: type[Record]) -> tuple[str, ...]:
    return noun.__struct_fields__


def _line(cells: Iterable[object]) -> str:
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerow(cells)
    return written.getvalue()
