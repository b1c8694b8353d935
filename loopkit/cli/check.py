"""`loopkit check`, and the machine files that a command line means: named ones, or in folders."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from loopkit.checks import check, problems_in
from loopkit.cli import terminal
from loopkit.cli.inputs import MACHINE
from loopkit.cli.terminal import columns_of, examples, fit_to_terminal, misuse
from loopkit.document.problems import Problem, ProblemsFound
from loopkit.document.reading import decode, text_of
from loopkit.language.load import load, load_text
from loopkit.project import files_below, is_machine
from loopkit.proof.outcomes.table import revisions_in_words
from loopkit.text import plural
from loopkit.views.problems import FORMATS, Examined

STDIN = "<stdin>"


@click.command(epilog=examples("loopkit check plan.yaml", "loopkit check --strict machines"))
@click.argument("paths", nargs=-1, type=MACHINE)
@click.option(
    "--format", "form", default="text", type=click.Choice(list(FORMATS)), help="The output format."
)
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
def check_command(paths: tuple[Path, ...], form: str, strict: bool) -> int:
    """Check machine files for problems. Calls nothing.

    A path may be a folder, whose machines are all checked, or `-` for standard input; the default
    is the current folder.
    """
    notes: list[str] = []
    examined = _examine(*machine_files(paths or (Path(),)), notes)
    if report := FORMATS[form](examined):
        terminal.echo(fit_to_terminal(report, sys.stdout) if form == "text" else report)
    failures = examined.count("error") + (examined.count("warning") if strict else 0)
    for note in notes if form == "text" else ():
        terminal.say(note)
    terminal.say(_summary(examined, failures, strict))
    return terminal.FAILURE if failures else terminal.OK


def _examine(files: Iterable[Path], skipped: int, notes: list[str]) -> Examined:
    texts: dict[str, str] = {}
    # A machine that another one runs is also checked together with that one.
    problems = list(dict.fromkeys(p for path in files for p in _problems(path, texts, notes)))
    for problem in problems:
        for span in (problem.span, *(span for _, span in problem.also)):
            if span is not None and span.file not in texts:
                texts[span.file] = text_of(span.file)
    names = tuple(STDIN if _is_stdin(path) else str(path) for path in files)
    return Examined(names, tuple(problems), texts, columns_of(sys.stdout), skipped)


def _problems(path: Path, texts: dict[str, str], notes: list[str]) -> list[Problem]:
    try:
        if not _is_stdin(path):
            loaded = load(path)
        else:
            # Its text is kept, since it can't be read again.
            content = sys.stdin.buffer.read() if sys.stdin is not None else b""
            texts[STDIN] = decode(content, STDIN)
            loaded = load_text(texts[STDIN], STDIN, Path.cwd())
        problems = check(loaded)
    except ProblemsFound as found:
        return problems_in(found)
    if not any(problem.severity == "error" for problem in problems):
        name = STDIN if _is_stdin(path) else path
        notes += (f"{name}: {line}" for line in revisions_in_words(loaded.machine))
    return problems


def _is_stdin(path: Path) -> bool:
    return str(path) == "-"


def _summary(examined: Examined, failures: int, strict: bool) -> str:
    found = plural(failures, "error") if failures else "no errors"
    parts = [f"{plural(len(examined.files), 'file')}: {found}"]
    if (warnings := examined.count("warning")) and not strict:
        parts.append(plural(warnings, "warning"))
    if examined.skipped:
        parts.append(f"{plural(examined.skipped, 'other YAML file')} skipped")
    return ", ".join(parts)


def machine_files(paths: Iterable[Path]) -> tuple[list[Path], int]:
    """The files to read, each once, and how many YAML files of the folders are no machines.

    Raises Stop where a folder has no machine: a check of nothing must not look like success.
    """
    machines: dict[Path, None] = {}
    every: set[Path] = set()
    for path in paths:
        if not path.is_dir():
            machines[path] = None
            continue
        below = list(filter(Path.is_file, files_below(path, ".yaml")))
        if not (found := dict.fromkeys(filter(is_machine, below))):
            raise misuse(f"no machine file lies below `{path}`")
        machines |= found
        every.update(below)
    return list(machines), len(every - machines.keys())
