"""`loopkit test`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path

import click

from loopkit.cli import exit_codes
from loopkit.cli.coverage import Wanted, coverage_options
from loopkit.cli.examples import examples
from loopkit.cli.exit_codes import FAILURE, OK, USAGE, Stop
from loopkit.cli.files import write
from loopkit.cli.wrapping import echo_wrapped
from loopkit.document.problems import ProblemsFound
from loopkit.testing import (
    SUFFIX,
    CaseResult,
    Machines,
    NotAnExpression,
    Selection,
    Suite,
    Tally,
    junit_xml,
    load_suite,
    run_case,
    scenario_files,
    selection,
)
from loopkit.text import plural


@dataclass
class Tested:
    """The results of all files."""

    results: list[CaseResult] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    """The unusable files with their problems, as text."""

    @property
    def failed(self) -> list[CaseResult]:
        return [result for result in self.results if not result.passed]


@click.command(epilog=examples("loopkit test machines --coverage"))
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("-k", "expression", default="", metavar="EXPR", help="Run only the matching cases.")
@click.option(
    "--junitxml",
    "junit_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the results as JUnit XML.",
)
@coverage_options
def command(
    paths: tuple[Path, ...],
    expression: str,
    junit_file: Path | None,
    coverage: bool,
    coverage_file: Path | None,
    least: Fraction | None,
) -> int:
    """Run the test cases in scenario files. Calls no model and no program.

    A path may be a folder, whose `*.scenario.yaml` files are all run; the default is the current
    folder.
    """
    wanted = Wanted(coverage, coverage_file, least)
    tally = wanted.tally()
    files, is_selected = _files(paths or (Path(),)), _selection(expression)
    tested = _test_files(files, is_selected, tally)
    if junit_file is not None:
        write(junit_file, junit_xml(tested.results, tested.broken))
    if not tested.results and not tested.broken:
        raise Stop(USAGE, f"error: `-k {expression}` names no case")
    is_enough = tally is None or wanted.is_enough(tally)
    exit_codes.say(_summary(tested))
    if tested.broken:
        return USAGE
    return FAILURE if tested.failed or not is_enough else OK


def _files(paths: Iterable[Path]) -> list[Path]:
    files = scenario_files(paths)
    if not files:
        named = " ".join(f"`{path}`" for path in paths)
        raise Stop(USAGE, f"error: no `*{SUFFIX}` lies below {named}")
    return files


def _selection(expression: str) -> Selection:
    try:
        return selection(expression)
    except NotAnExpression as error:
        raise Stop(USAGE, f"error: -k {error}") from error


def _test_files(files: Iterable[Path], is_selected: Selection, tally: Tally | None) -> Tested:
    tested, machines = Tested(), Machines()
    for file in files:
        try:
            suite = load_suite(file, machines)
        except ProblemsFound as found:
            tested.broken[str(file)] = exit_codes.render_problems(found.problems)
            echo_wrapped([f"{file}: can't be used\n\n{tested.broken[str(file)]}\n"])
            continue
        for result in _play_cases(suite, is_selected, tally):
            tested.results.append(result)
            _tell(result)
    return tested


def _play_cases(suite: Suite, is_selected: Selection, tally: Tally | None) -> Iterator[CaseResult]:
    for name in suite.names:
        if is_selected(f"{suite.path.name} {name}"):
            if tally is None:
                yield run_case(suite, name)
            else:
                yield run_case(suite, name, partial(tally.add, suite, name))


def _tell(result: CaseResult) -> None:
    word = "ok" if result.passed else "FAILED"
    echo_wrapped([f"{result.suite}: {result.case}: {word} ({result.seconds:.2f} s)"])
    if not result.passed:
        echo_wrapped([f"\n{result.failures_text}\n"])
    if result.block:
        # Wrapped lines could not be pasted.
        click.echo(f"{result.block_text}\n")


def _summary(tested: Tested) -> str:
    failed = len(tested.failed)
    parts = []
    if tested.results:
        cases = plural(len(tested.results), "case")
        parts.append(f"{cases}: {failed} failed" if failed else f"{cases} passed")
    if tested.broken:
        parts.append(f"{plural(len(tested.broken), 'file')} can't be used")
    return ", ".join(parts)
