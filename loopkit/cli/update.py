"""`loopkit test --update` and `--update-case`: rewrites expectations to what the runs do now."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from loopkit.cli import exit_codes
from loopkit.cli.exit_codes import USAGE, Stop
from loopkit.document import NotWritable
from loopkit.document.problems import ProblemsFound, did_you_mean
from loopkit.testing import Machines, Selection, Suite, load_suite
from loopkit.testing.updating import NotWritten, Update
from loopkit.testing.updating import update as updated


def update_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--update` and `--update-case`."""
    every = click.option(
        "--update",
        is_flag=True,
        help="First update the expectations, except outcomes and paths; shows the diff.",
    )
    named = click.option(
        "--update-case",
        "update_cases",
        multiple=True,
        metavar="NAME",
        help="First update this case, including its outcome and path.",
    )
    return every(named(function))


@dataclass(frozen=True)
class Updating:
    """The cases to rewrite."""

    every: bool
    named: tuple[str, ...]

    def begin(self, files: Iterable[Path], is_selected: Selection) -> None:
        """Rewrite the files, and show what changes; raises Stop."""
        if not self.every and not self.named:
            return
        files = list(files)
        suites = list(_usable(files))
        if len(suites) == len(files):
            # A missing case may stand in an unusable file, which is reported next.
            self._refuse_unknown([name for suite in suites for name in suite.names])
        for suite in suites:
            cases = [name for name in suite.names if self._is_meant(suite, name, is_selected)]
            _change(updated(suite, cases, self.named))

    def _is_meant(self, suite: Suite, name: str, is_selected: Selection) -> bool:
        selected = self.every and is_selected(f"{suite.path.name} {name}")
        return selected or name in self.named

    def _refuse_unknown(self, known: Sequence[str]) -> None:
        for name in self.named:
            if name not in known:
                hint = did_you_mean(name, known)
                raise Stop(USAGE, f"error: there is no case `{name}`; {hint}")


def _usable(files: Iterable[Path]) -> Iterator[Suite]:
    machines = Machines()
    for file in files:
        # The test that follows reports what is wrong with an unusable file.
        with suppress(ProblemsFound):
            yield load_suite(file, machines)


def _change(made: Update) -> None:
    if made.edits:
        try:
            made.write()
        except (NotWritable, NotWritten) as error:
            raise Stop(USAGE, f"error: {error}") from error
        click.echo(made.diff)
    for case, keys in made.kept.items():
        exit_codes.say(f"{case}: {_hint(made, case, keys)}: --update-case {shlex.quote(case)}")
    for told in made.left:
        exit_codes.say(f"not updated: {told}")


def _hint(made: Update, case: str, keys: Iterable[str]) -> str:
    named = " and ".join(f"`{key}`" for key in dict.fromkeys(keys))
    expect = made.suite.case(case).expect
    if expect is None or expect.is_empty:
        return f"expects nothing; to fill in {named}"
    return f"{named} left unchanged; to update it"
