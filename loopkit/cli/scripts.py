"""`--script` and `--case`: the scenario that plays a run."""

from __future__ import annotations

from pathlib import Path

from loopkit.app import Script
from loopkit.cli.exit_codes import USAGE, Stop
from loopkit.scenario import load_scenario


def load_script(script: Path | None, case: str | None) -> Script | None:
    """The scenario of a file, or the one of its cases that is named; raises Stop, ProblemsFound."""
    if script is not None:
        return Script(*load_scenario(script, case))
    if case is not None:
        raise Stop(USAGE, f"error: `--case {case}` needs the file that has it: `--script FILE`")
    return None
