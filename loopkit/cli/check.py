"""`loopkit check`."""

from __future__ import annotations

from pathlib import Path

import click

from loopkit.checks import check
from loopkit.cli import exits
from loopkit.cli.machine import loaded_from
from loopkit.problems import Problem, ProblemsFound
from loopkit.text import plural


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
def command(paths: tuple[Path, ...], strict: bool) -> int:
    """Find what is wrong with machine files. `-` reads standard input. Runs nothing."""
    problems = [problem for path in paths for problem in _problems(path)]
    if problems:
        click.echo(exits.shown(problems))
    errors = [p for p in problems if p.severity == "error" or (strict and p.severity == "warning")]
    warnings = sum(problem.severity == "warning" for problem in problems)
    files = plural(len(paths), "file")
    summary = f"{files}: {plural(len(errors), 'error')}" if errors else f"{files}: no errors"
    exits.say(summary + (f", {plural(warnings, 'warning')}" if warnings and not strict else ""))
    return exits.FAILURE if errors else exits.OK


def _problems(path: Path) -> list[Problem]:
    try:
        return check(loaded_from(path))
    except ProblemsFound as found:
        return list(found.problems)
