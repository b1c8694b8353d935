"""Machine files for commands: loaded, checked, and changed by options such as `--model`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loopkit.checks import check
from loopkit.checks.exits import NO_CALL_FITS, check_tight_limits
from loopkit.checks.subject import Subject
from loopkit.cli.inputs import is_shipped, read_stdin
from loopkit.cli.terminal import USAGE, Stop, gather, misuse, render_problems, say
from loopkit.document.problems import Problem
from loopkit.language.agents.agent import Workspace
from loopkit.language.agents.program import ProgramAgent
from loopkit.language.load import Loaded, load, load_text, with_machine
from loopkit.language.machine import Machine
from loopkit.language.states.each import ChildrenState
from loopkit.machine.graph import writers
from loopkit.text.json_text import NoJson, parse_json

if TYPE_CHECKING:
    from loopkit.agents.players import AgentChanges


def load_checked(path: Path) -> Loaded:
    loaded, warnings = _sound(path)
    _tell(warnings)
    return loaded


def load_changed(path: Path, changes: AgentChanges | None, max_cost: float | None) -> Loaded:
    """A checked machine with other models and options for its agents; raises NotRunnable too.

    Whether calls fit into the limits is told for what is asked under them, the cost included.
    """
    loaded, warnings = _sound(path)
    if changes:
        from loopkit.drive.repair import changed_machine

        loaded = with_machine(loaded, changed_machine(loaded.machine, changes))
    options = {} if max_cost is None else {"cost_usd": "--max-cost"}
    limited = loaded.replace(machine=with_cost_limit(loaded.machine, max_cost))
    others = [problem for problem in warnings if problem.code != NO_CALL_FITS]
    _tell([*others, *check_tight_limits(Subject.of(limited), options)])
    return loaded


def in_workspace(loaded: Loaded, folder: Path) -> Loaded:
    """The machine, with its workspace and that of those that it runs in this folder."""
    own = loaded.machine.workspace
    start = "." if own is None else own.path.strip()

    def moved(one: Workspace) -> Workspace:
        path = one.path.strip()
        inside = path.removeprefix(f"{start}/") if path != start else "."
        return one.model_copy(update={"path": inside})

    changed = with_machine(loaded, loaded.machine.with_workspaces(moved))
    return changed.replace(folder=folder.resolve())


def in_own_folder(loaded: Loaded, path: Path) -> Loaded:
    """The machine in its folder; raises Stop for one of loopkit's own that needs a workspace."""
    folder = folder_of(loaded, path)
    if folder is None:
        name = path.stem
        raise misuse(
            f"`{name}` works on files, and a machine that comes with loopkit has no folder "
            f"of its own; add `--workspace DIR` to `loopkit run`, or make it yours: "
            f"`loopkit new my_{name} --like {name}`"
        )
    return loaded.replace(folder=folder)


def folder_of(loaded: Loaded, path: Path) -> Path | None:
    """Where a machine works that was given so; None where that has to be named first."""
    if not is_shipped(path):
        return loaded.folder.absolute()
    return None if works_on_files(loaded.machine) else Path.cwd()


def works_on_files(machine: Machine) -> bool:
    return machine.workspace is not None or any(writers(machine))


def workspace_line(machine: Machine, folder: Path | None, inputs: Mapping[str, Any]) -> str:
    """A line with the folder in which a run works, as far as its inputs tell that."""
    from loopkit.drive.preflight import place_of

    if folder is None:
        return "workspace: the one that `loopkit run --workspace DIR` names"
    place = place_of(machine.workspace, folder, inputs)
    path = machine.workspace.path if machine.workspace is not None else "."
    isolate = machine.workspace.isolate if machine.workspace is not None else "none"
    tree = "" if isolate == "none" else f" ({isolate})"
    return f"workspace: {place or folder / path}{tree}"


def payment_lines(machine: Machine, played: Collection[str] = ()) -> list[str]:
    """A line for each coding program that a run or its children start: who pays for it."""
    agents = machine.agents.items()
    real = (one for name, one in agents if isinstance(one, ProgramAgent) and name not in played)
    own = [f"{agent.program}: {agent.payment}" for agent in real]
    states = machine.states_of(ChildrenState).values()
    inner = (line for state in states for line in payment_lines(state.child, played))
    return list(dict.fromkeys((*own, *inner)))


def with_cost_limit(machine: Machine, max_cost: float | None) -> Machine:
    if max_cost is None:
        return machine
    limits = machine.limits.model_copy(update={"cost_usd": max_cost})
    return machine.model_copy(update={"limits": limits})


def _sound(path: Path) -> tuple[Loaded, list[Problem]]:
    is_stdin = str(path) == "-"
    loaded = load_text(read_stdin(), "<stdin>", Path.cwd()) if is_stdin else load(path)
    problems = check(loaded)
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors:
        raise Stop(USAGE, render_problems(errors))
    # Only `check` prints notes.
    return loaded, [problem for problem in problems if problem.severity == "warning"]


def _tell(warnings: Iterable[Problem]) -> None:
    if problems := list(warnings):
        say(render_problems(problems) + "\n")


def max_cost_option(about: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`--max-cost`; NaN would be a limit that nothing reaches."""

    def usd(_: click.Context, __: click.Parameter, amount: float | None) -> float | None:
        if amount is not None and not 0 <= amount < inf:
            raise click.BadParameter("write US dollars, 0 or more")
        return amount

    return click.option("--max-cost", type=float, callback=usd, metavar="USD", help=about)


def _by_agent(_: click.Context, option: click.Parameter, written: Sequence[str]) -> dict[str, str]:
    """The values of `agent=VALUE` options by agent; raises Stop."""
    values: dict[str, str] = {}
    for text in written:
        name, _equals, value = text.partition("=")
        if not name.strip() or not value.strip():
            raise misuse(f"`{option.opts[0]} {text}` is not of the form `agent=value`")
        values[name] = value
    return values


def _prices(
    context: click.Context, option: click.Parameter, written: Sequence[str]
) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, text in _by_agent(context, option, written).items():
        try:
            found[name] = float(text)
        except ValueError as error:
            raise misuse(f"`--price {name}={text}` is not a number") from error
    return found


def options_by_agent(params: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The values of `--param AGENT.KEY=VALUE` options; raises Stop. `null` removes an option."""
    found: dict[str, dict[str, Any]] = {}
    for text in params:
        key, equals, value = text.partition("=")
        name, _, dotted = key.strip().partition(".")
        if not equals or not name or not all(dotted.split(".")):
            raise misuse(f"`--param {text}` is not of the form `agent.key=value`")
        data = parse_json(value)
        found.setdefault(name, {})[dotted] = value if isinstance(data, NoJson) else data
    return found


def _changes(
    models: Mapping[str, str],
    prices: Mapping[str, float],
    params: Mapping[str, Mapping[str, Any]],
    base_urls: Mapping[str, str],
) -> AgentChanges | None:
    """The changes of agents; None without any, because then a plan needs no players."""
    if not (models or prices or params or base_urls):
        return None
    from loopkit.agents.players import AgentChanges

    return AgentChanges(models, prices, params, base_urls)


model_options = gather(
    "changes",
    _changes,
    click.option(
        "--model", "models", multiple=True, metavar="AGENT=MODEL", callback=_by_agent,
        help="Use another model for an agent.",
    ),
    click.option(
        "--price", "prices", multiple=True, metavar="AGENT=USD", callback=_prices,
        help="The price per million tokens.",
    ),
    click.option(
        "--param", "params", multiple=True, metavar="AGENT.KEY=VALUE",
        callback=lambda _, __, written: options_by_agent(written),
        help="Set one of an agent's `params`; null removes it.",
    ),
    click.option(
        "--base-url", "base_urls", multiple=True, metavar="AGENT=URL", callback=_by_agent,
        help="Ask an agent's model at another address.",
    ),
)  # fmt: skip
