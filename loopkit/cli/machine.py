"""Machine files for commands: loaded and checked, with the warnings printed."""

from __future__ import annotations

import sys
from pathlib import Path

from loopkit.checks import check
from loopkit.cli.exit_codes import USAGE, Stop, render_problems, say
from loopkit.cli.wrapping import shown
from loopkit.language.load import Loaded, load, load_text


def load_from(path: Path) -> Loaded:
    """The machine of a file, or of standard input for `-`; raises ProblemsFound."""
    if str(path) == "-":
        return load_text(sys.stdin.read(), "<stdin>", Path.cwd())
    return load(path)


def load_checked(path: Path) -> Loaded:
    """A machine without errors; raises Stop or ProblemsFound with all of them."""
    loaded = load_from(path)
    problems = check(loaded)
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors:
        raise Stop(USAGE, render_problems(errors))
    # Notes are for whoever asks what could be better, with `check`.
    if warnings := [problem for problem in problems if problem.severity == "warning"]:
        say(shown(render_problems(warnings), sys.stderr) + "\n")
    return loaded
