"""`loopkit test`, with the coverage of its cases: table, JSON, and the failure where it is low."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import click

from loopkit.cli import terminal
from loopkit.cli.inputs import FILE, MACHINE, write
from loopkit.cli.terminal import FAILURE, OK, USAGE, echo_wrapped, examples, misuse
from loopkit.document.problems import ProblemsFound
from loopkit.language.load import Loaded
from loopkit.scenario.cases import SUFFIX, cases_of
from loopkit.testing import (
    CaseResult,
    Coverage,
    Machines,
    Tally,
    coverage_text,
    load_suite,
    play,
    run_case,
)
from loopkit.testing.coverage import data as coverage_data
from loopkit.testing.suites import (
    junit_xml,
    scenario_files,
)
from loopkit.text import plural
from loopkit.views.diagram.model import Marks


@dataclass
class Tested:
    results: list[CaseResult] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    """The unusable files with their problems, as text."""

    @property
    def failed(self) -> list[CaseResult]:
        return [result for result in self.results if not result.passed]


@click.command(epilog=examples("loopkit test machines --coverage"))
@click.argument("paths", nargs=-1, type=MACHINE)
@click.option("-k", "words", default="", metavar="TEXT", help="Run only the matching cases.")
@click.option(
    "--junitxml",
    "junit_file",
    type=FILE,
    metavar="FILE",
    help="Also write the results as JUnit XML.",
)
@click.option(
    "--coverage",
    is_flag=True,
    help="Print which states, transitions and caps are covered, and the way to the others.",
)
@click.option(
    "--coverage-json",
    "coverage_file",
    metavar="FILE",
    type=FILE,
    help="Write the coverage as JSON, with the cases that cover each goal.",
)
@click.option(
    "--fail-under",
    "least",
    metavar="N",
    type=click.FloatRange(0, 100),
    help="Exit with 1 if coverage is below N %; also prints the table.",
)
def test_command(
    paths: tuple[Path, ...],
    words: str,
    junit_file: Path | None,
    coverage: bool,
    coverage_file: Path | None,
    least: float | None,
) -> int:
    """Run the test cases in scenario files. Calls no model and no program.

    A path may be a folder, whose `*.scenario.yaml` files are all run, or a machine, for the one
    beside it; the default is the current folder.
    """
    is_table = coverage or least is not None
    tally = Tally() if is_table or coverage_file is not None else None
    files = scenario_files(map(cases_of, paths or (Path(),)))
    if not files:
        named = " ".join(f"`{path}`" for path in paths or (Path(),))
        raise misuse(f"no `*{SUFFIX}` lies below {named}")
    tested = _test_files(files, words.lower().split(), tally)
    if junit_file is not None:
        write(junit_file, junit_xml(tested.results, tested.broken))
    if not tested.results and not tested.broken:
        raise misuse(f"`-k {words}` names no case")
    is_enough = True
    if tally is not None:
        covered = tally.coverage()
        if coverage_file is not None:
            data = json.dumps(coverage_data(covered), indent=2, ensure_ascii=False)
            write(coverage_file, f"{data}\n".encode())
        if is_table and covered.machines:
            terminal.echo(f"\n{coverage_text(covered)}\n")
        is_enough = least is None or _is_enough(covered, least)
    terminal.say(_summary(tested))
    if tested.broken:
        return USAGE
    return FAILURE if tested.failed or not is_enough else OK


def _test_files(files: Iterable[Path], words: Sequence[str], tally: Tally | None) -> Tested:
    tested, machines = Tested(), Machines()
    for file in files:
        try:
            suite = load_suite(file, machines)
        except ProblemsFound as found:
            tested.broken[str(file)] = terminal.render_problems(found.problems)
            echo_wrapped([f"{file}: can't be used\n\n{tested.broken[str(file)]}\n"])
            continue
        for name in suite.names:
            if all(word in f"{suite.path.name} {name}".lower() for word in words):
                note = () if tally is None else (partial(tally.add, suite, name),)
                result = run_case(suite, name, *note)
                tested.results.append(result)
                _tell(result)
    return tested


def _tell(result: CaseResult) -> None:
    word = "ok" if result.passed else "FAILED"
    echo_wrapped([f"{result.suite}: {result.case}: {word} ({result.seconds:.2f} s)"])
    if not result.passed:
        echo_wrapped([f"\n{result.failures_text}\n"])
    if result.block:
        # Wrapped lines could not be pasted.
        terminal.echo(f"{result.block_text}\n")


def _summary(tested: Tested) -> str:
    failed = len(tested.failed)
    parts = []
    if tested.results:
        cases = plural(len(tested.results), "case")
        parts.append(f"{cases}: {failed} failed" if failed else f"{cases} passed")
    if tested.broken:
        parts.append(f"{plural(len(tested.broken), 'file')} can't be used")
    return ", ".join(parts)


def _is_enough(coverage: Coverage, least: float) -> bool:
    """Whether so many percent of all goals are covered; says so if not."""
    count = coverage.count
    if 100 * count.covered >= least * count.total:
        return True
    missing = plural(count.total - count.covered, "goal")
    verb = "is" if missing.startswith("1 ") else "are"
    terminal.say(
        f"{count.percent:g} % are covered, less than {least:g} %; "
        f"{missing} of {count.total} {verb} missed"
    )
    return False


def marks_of(loaded: Loaded, paths: Sequence[Path]) -> Marks:
    """The coverage of a machine by the cases below some paths; raises Stop and ProblemsFound."""
    tally, machines = Tally(), Machines()
    here = Path(loaded.source.document.file).resolve()
    for suite in (load_suite(file, machines) for file in scenario_files(paths)):
        if Path(suite.machine.source.document.file).resolve() == here:
            for name in suite.names:
                tally.add(suite, name, play(suite, name))
    for machine in tally.coverage().machines:
        return machine.marks
    named = " and ".join(f"`{path}`" for path in paths)
    message = f"no case of {named} tests {loaded.source.document.file}"
    raise misuse(f"{message}; it has to name it by `machine:`")
