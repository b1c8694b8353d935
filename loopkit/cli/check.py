"""`loopkit check`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from loopkit.checks import check
from loopkit.cli import exit_codes
from loopkit.cli.examples import examples
from loopkit.cli.machine_files import machine_files
from loopkit.cli.wrapping import columns_of, fit_to_terminal
from loopkit.document import decode
from loopkit.document.problems import Problem, ProblemsFound
from loopkit.language.load import Loaded, load, load_text
from loopkit.text import plural
from loopkit.views.problems import FORMATS, Examined

STDIN = "<stdin>"


@click.command(epilog=examples("loopkit check plan.yaml", "loopkit check --strict machines"))
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--format", "form", default="text", type=click.Choice(list(FORMATS)), help="The output format."
)
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
def command(paths: tuple[Path, ...], form: str, strict: bool) -> int:
    """Check machine files for problems. Calls nothing.

    A path may be a folder, whose machines are all checked, or `-` for standard input.
    """
    examined = _examine(*machine_files(paths))
    if report := FORMATS[form](examined):
        click.echo(fit_to_terminal(report, sys.stdout) if form == "text" else report)
    failures = examined.count("error") + (examined.count("warning") if strict else 0)
    exit_codes.say(_summary(examined, failures, strict))
    return exit_codes.FAILURE if failures else exit_codes.OK


def _examine(files: Iterable[Path], skipped: int) -> Examined:
    texts: dict[str, str] = {}
    # A machine that another one runs is also checked together with that one.
    problems = list(dict.fromkeys(p for path in files for p in _problems(path, texts)))
    for problem in problems:
        for span in (problem.span, *(span for _, span in problem.also)):
            if span is not None and span.file not in texts:
                texts[span.file] = exit_codes.text_of(span.file)
    names = tuple(STDIN if _is_stdin(path) else str(path) for path in files)
    return Examined(names, tuple(problems), texts, columns_of(sys.stdout), skipped)


def _problems(path: Path, texts: dict[str, str]) -> list[Problem]:
    try:
        return check(_from_stdin(texts) if _is_stdin(path) else load(path))
    except ProblemsFound as found:
        return list(found.problems)


def _is_stdin(path: Path) -> bool:
    return str(path) == "-"


def _from_stdin(texts: dict[str, str]) -> Loaded:
    """The machine of standard input, whose text is kept, since it can't be read again."""
    content = sys.stdin.buffer.read() if sys.stdin is not None else b""
    texts[STDIN] = decode(content, STDIN)
    return load_text(texts[STDIN], STDIN, Path.cwd())


def _summary(examined: Examined, failures: int, strict: bool) -> str:
    found = plural(failures, "error") if failures else "no errors"
    parts = [f"{plural(len(examined.files), 'file')}: {found}"]
    if (warnings := examined.count("warning")) and not strict:
        parts.append(plural(warnings, "warning"))
    if examined.skipped:
        parts.append(f"{plural(examined.skipped, 'other YAML file')} skipped")
    return ", ".join(parts)
