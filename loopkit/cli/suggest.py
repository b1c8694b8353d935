"""`loopkit test --suggest`: cases to be completed, for what no case covers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from loopkit.cli import exit_codes
from loopkit.cli.exit_codes import OK, USAGE, Stop
from loopkit.document.problems import ProblemsFound
from loopkit.machine.graph import Graph
from loopkit.testing import SUFFIX, Goal, Machines, Suite, load_suite, play, scenario_files
from loopkit.testing.coverage import Reached, collect_reached, goal_line, goal_text
from loopkit.testing.suggesting import Suggestions, empty_suite, suggest
from loopkit.text import plural

F = TypeVar("F", bound=Callable[..., Any])


def suggest_option(command: F) -> F:
    """The option, for `loopkit test`."""
    help_text = "Print cases that would cover the rest, with the replies left to write."
    return click.option("--suggest", "is_suggesting", is_flag=True, help=help_text)(command)


def refuse_with(others: Mapping[str, object]) -> None:
    """Stop where options are given that go with a test alone."""
    given = [f"`{option}`" for option, value in others.items() if value]
    if given:
        raise Stop(USAGE, f"error: `--suggest` tests nothing: leave out {', '.join(given)}")


def print_suggestions(paths: Iterable[Path]) -> int:
    """Print the cases for all machines of scenario files and machine files."""
    suites = _by_machine(_suites(paths or (Path(),)))
    if not suites:
        raise Stop(USAGE, f"error: there is no `*{SUFFIX}`; name one, or a machine file")
    for alike in suites.values():
        _tell(suggest(alike[0], [run for suite in alike for run in _reach_by_case(suite)]))
    return OK


def _suites(paths: Iterable[Path]) -> Iterator[Suite]:
    machines = Machines()
    for path in paths:
        try:
            yield from _suites_of(path, machines)
        except ProblemsFound as found:
            raise Stop(USAGE, exit_codes.render_problems(found.problems)) from found


def _suites_of(path: Path, machines: Machines) -> Iterator[Suite]:
    if path.is_dir() or path.name.endswith(SUFFIX):
        found = scenario_files([path])
        yield from (load_suite(file, machines) for file in found if not _is_empty(file))
        return
    beside = path.with_name(f"{path.stem}{SUFFIX}")
    is_there = beside.is_file() and not _is_empty(beside)
    yield load_suite(beside, machines) if is_there else empty_suite(path, machines)


def _is_empty(file: Path) -> bool:
    """Whether the file is empty, like one that a shell creates for this output."""
    return file.is_file() and file.stat().st_size == 0


def _by_machine(suites: Iterable[Suite]) -> dict[Path, list[Suite]]:
    """A machine that several files test is looked at once; the first one gets its cases."""
    found: dict[Path, list[Suite]] = {}
    for suite in suites:
        found.setdefault(Path(suite.machine.source.document.file).resolve(), []).append(suite)
    return found


def _reach_by_case(suite: Suite) -> Iterator[Reached]:
    for name in suite.playable:
        run = play(suite, name)
        engine = suite.machines.engines[run.state.definition]
        yield collect_reached(engine, (stored.event for stored in run.events))


def _tell(found: Suggestions) -> None:
    path, covered = found.suite.path, sum(len(one.goals) for one in found.cases)
    if found.cases:
        where = f"# {path}, below `cases:`\n" if found.suite.names else f"# {path}\n"
        click.echo(where + (found.as_cases if found.suite.names else found.as_file), nl=False)
        summary = f"{plural(len(found.cases), 'case')} for {plural(covered, 'goal')}"
    else:
        summary = "no case" if found.failed else "every goal has a case"
    exit_codes.say(f"{path}: {summary}")
    for goal, reason in found.failed:
        exit_codes.say(f"{_place(found, goal)}: {reason}")


def _place(found: Suggestions, goal: Goal) -> str:
    loaded = found.suite.machine
    named = goal_text(Graph(loaded.machine), goal)
    return f"{loaded.source.document.file}:{goal_line(loaded, goal)}: no case for {named}"
