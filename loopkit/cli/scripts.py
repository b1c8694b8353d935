"""`--script` and `--case`: the scenario that plays a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from loopkit.app import Script
from loopkit.cli.exit_codes import USAGE, Stop
from loopkit.scenario import load_scenario


def script_options(played: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`--script` and `--case`, for a command in which a scenario plays these."""
    script = click.option(
        "--script",
        type=click.Path(path_type=Path),
        help=f"Simulate {played} with this scenario.",
    )
    case = click.option(
        "--case", metavar="NAME", help="The case to use, if the scenario has several."
    )
    return lambda function: script(case(function))


def load_script(script: Path | None, case: str | None) -> Script | None:
    """The scenario of a file, or the one of its cases that is named; raises Stop, ProblemsFound."""
    if script is not None:
        return Script(*load_scenario(script, case))
    if case is not None:
        raise Stop(USAGE, f"error: `--case {case}` needs the file that has it: `--script FILE`")
    return None
