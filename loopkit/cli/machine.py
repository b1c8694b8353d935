"""Machine files for commands: loaded and checked, with the warnings printed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from loopkit.checks import Subject, check
from loopkit.checks.tight_limits import CODE, check_tight_limits
from loopkit.cli.exit_codes import USAGE, Stop, render_problems, say
from loopkit.cli.files import read_stdin
from loopkit.cli.mending import amounts, by_agent
from loopkit.document.problems import Problem
from loopkit.language import Machine
from loopkit.language.load import Loaded, load, load_text, with_machine


def load_from(path: Path) -> Loaded:
    """The machine of a file, or of standard input for `-`; raises ProblemsFound."""
    if str(path) == "-":
        return load_text(read_stdin(), "<stdin>", Path.cwd())
    return load(path)


def load_checked(path: Path) -> Loaded:
    """A machine without errors; raises Stop or ProblemsFound with all of them."""
    loaded, warnings = _sound(path)
    _tell(warnings)
    return loaded


def load_changed(
    path: Path, models: Sequence[str], prices: Sequence[str], max_cost: float | None
) -> Loaded:
    """A checked machine with the models and prices of options; raises NotRunnable too.

    Whether calls fit into the limits is told for what is asked under them, the cost included.
    """
    loaded, warnings = _sound(path)
    if models or prices:
        from loopkit.agents.assignment import with_models

        other = with_models(loaded.machine, by_agent("--model", models), amounts(prices))
        loaded = with_machine(loaded, other)
    options = {} if max_cost is None else {"cost_usd": "--max-cost"}
    limited = loaded.replace(machine=with_cost_limit(loaded.machine, max_cost))
    others = [problem for problem in warnings if problem.code != CODE]
    _tell([*others, *check_tight_limits(Subject.of(limited), options)])
    return loaded


def with_cost_limit(machine: Machine, max_cost: float | None) -> Machine:
    """The machine with another limit for the cost; with none it keeps its own."""
    if max_cost is None:
        return machine
    limits = machine.limits.model_copy(update={"cost_usd": max_cost})
    return machine.model_copy(update={"limits": limits})


def _sound(path: Path) -> tuple[Loaded, list[Problem]]:
    """A machine without errors, and its warnings."""
    loaded = load_from(path)
    problems = check(loaded)
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors:
        raise Stop(USAGE, render_problems(errors))
    # Only `check` prints notes.
    return loaded, [problem for problem in problems if problem.severity == "warning"]


def _tell(warnings: Iterable[Problem]) -> None:
    if problems := list(warnings):
        say(render_problems(problems) + "\n")
