"""Coverage for `loopkit test`: options, table, JSON, and the failure where it is too low."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import click

from loopkit.cli import exit_codes
from loopkit.cli.exit_codes import USAGE, Stop
from loopkit.cli.files import write
from loopkit.language.load import Loaded
from loopkit.testing import (
    Coverage,
    Machines,
    Tally,
    coverage_data,
    coverage_text,
    load_suite,
    play,
    scenario_files,
)
from loopkit.testing.coverage import percent
from loopkit.text import plural
from loopkit.views.diagram import Marks

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Wanted:
    """The coverage options of a command."""

    table: bool
    file: Path | None
    """For the JSON."""
    least: Fraction | None
    """In percent of all goals."""

    def tally(self) -> Tally | None:
        """The tally of played cases, if one is needed."""
        is_wanted = self.table or self.file is not None or self.least is not None
        return Tally() if is_wanted else None

    def is_enough(self, tally: Tally) -> bool:
        """Print the coverage asked for; False if less is covered than required."""
        coverage = tally.coverage()
        if self.file is not None:
            _write(self.file, coverage)
        if (self.table or self.least is not None) and coverage.machines:
            click.echo(f"\n{coverage_text(coverage)}\n")
        missing = self.least is not None and coverage.count.percent < self.least
        if missing:
            exit_codes.say(_too_little(coverage, self.least))
        return not missing


def coverage_options(command: F) -> F:
    """The options of a command that plays cases."""
    for option in (
        click.option(
            "--fail-under", "least", metavar="N", callback=_percent,
            help="Exit with 1 if coverage is below N %; also prints the table.",
        ),
        click.option(
            "--coverage-json", "coverage_file", metavar="FILE",
            type=click.Path(path_type=Path, dir_okay=False),
            help="Write the coverage as JSON, with the cases that cover each goal.",
        ),
        click.option(
            "--coverage", is_flag=True,
            help="Print which states, transitions and caps are covered, and the way to the others.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def marks_of(loaded: Loaded, paths: Sequence[Path]) -> Marks:
    """The coverage of a machine by the cases below some paths; raises Stop and ProblemsFound."""
    tally, machines = Tally(), Machines()
    here = Path(loaded.source.document.file).resolve()
    for suite in (load_suite(file, machines) for file in scenario_files(paths)):
        if Path(suite.machine.source.document.file).resolve() == here:
            for name in suite.playable:
                tally.add(suite, name, play(suite, name))
    for machine in tally.coverage().machines:
        return machine.marks
    named = " and ".join(f"`{path}`" for path in paths)
    message = f"no case of {named} tests {loaded.source.document.file}"
    raise Stop(USAGE, f"error: {message}; it has to name it by `machine:`")


def _percent(_context: click.Context, _option: click.Parameter, text: str | None) -> object:
    """The number exactly as it is written, so that 99.9 of 1,000 goals is 999."""
    if text is None:
        return None
    try:
        # An exponent could stand for a number that takes hours to write out.
        least = Fraction(text.lower().replace("e", "?"))
    except (ValueError, ZeroDivisionError) as error:
        raise click.BadParameter(f"`{text}` is not a number from 0 to 100") from error
    if not 0 <= least <= 100:
        raise click.BadParameter(f"{text} is not from 0 to 100")
    return least


def _write(file: Path, coverage: Coverage) -> None:
    text = json.dumps(coverage_data(coverage), indent=2, ensure_ascii=False) + "\n"
    write(file, text.encode())


def _too_little(coverage: Coverage, least: Fraction | None) -> str:
    assert least is not None
    count = coverage.count
    missing = plural(count.total - count.covered, "goal")
    verb = "is" if missing.startswith("1 ") else "are"
    return (
        f"{percent(count.percent)} % are covered, less than {float(least):g} %; "
        f"{missing} of {count.total} {verb} missed"
    )
