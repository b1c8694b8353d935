"""`loopkit diagram`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from loopkit.cli import terminal
from loopkit.cli.check import machine_files
from loopkit.cli.inputs import MACHINE, PATH, write
from loopkit.cli.machine import load_checked
from loopkit.cli.terminal import examples
from loopkit.engine.state import RunState
from loopkit.language.machine import Machine
from loopkit.machine.graph import Graph
from loopkit.views.diagram import FORMATS
from loopkit.views.diagram.model import Drawing, drawing


@click.command(
    epilog=examples(
        "loopkit diagram plan.yaml -o plan.mmd",
        "loopkit diagram plan.yaml -f svg -o plan.svg",
        "loopkit diagram --run plan-1f09ab",
    )
)
@click.argument("machine", required=False, type=MACHINE)
@click.option(
    "-f", "--format", "form", type=click.Choice(list(FORMATS)), default="mermaid",
    show_default=True, help="A diagram language, or a picture."
)  # fmt: skip
@click.option("-o", "out", type=PATH, help="Write to this file instead of stdout.")
@click.option(
    "--check", "committed", type=PATH,
    help="Write nothing; exit with 1 if this file, or one beside a machine of this folder, is old."
)  # fmt: skip
@click.option("--run", metavar="RUN", help="Draw the machine of a run, and mark its path.")
@click.option(
    "--cases", metavar="PATH", multiple=True, type=PATH,
    help="Mark what the cases of this scenario file or folder do not cover."
)  # fmt: skip
def diagram_command(
    machine: Path | None,
    form: str,
    out: Path | None,
    committed: Path | None,
    run: str | None,
    cases: tuple[Path, ...],
) -> int:
    """Draw the states and transitions of MACHINE, with guards and budgets."""
    folder = committed if machine is None and run is None else None
    if machine is None and run is None and not (folder and folder.is_dir()):
        raise click.UsageError("name a MACHINE, or a run with `--run RUN`")
    if cases and (machine is None or run is not None):
        raise click.UsageError("`--cases` marks a MACHINE, `--run` a run; give one of them")
    if out is not None and committed is not None:
        raise click.UsageError("`-o` writes and `--check` compares; give one of them")
    if folder:
        draw = click.get_current_context().invoke
        return max(int(draw(diagram_command, **picture)) for picture in _pictures(folder))
    text = FORMATS[form](_drawing(machine, run, cases))
    if committed is not None:
        again = ["loopkit", "diagram", *([str(machine)] if machine else []), "-o", str(committed)]
        again += ["-f", form] if form != "mermaid" else []
        again += [*(["--run", run] if run else []), *(f"--cases={path}" for path in cases)]
        return _compare(committed, text, shlex.join(again))
    if out is None:
        terminal.echo(text, nl=False)
    else:
        write(out, text.encode())
    return terminal.OK


def _pictures(folder: Path) -> list[dict[str, Any]]:
    """What the command is given for each picture beside a machine of a folder, to compare it."""
    found = [
        {"machine": machine, "form": form, "committed": picture}
        for machine in machine_files([folder])[0]
        for suffix, form in ((".mmd", "mermaid"), (".svg", "svg"))
        if (picture := machine.with_suffix(suffix)).is_file()
    ]
    if not found:
        told = f"no machine below `{folder}` has a picture beside it, such as `plan.mmd`"
        raise terminal.misuse(told)
    return found


def _drawing(path: Path | None, run: str | None, cases: tuple[Path, ...]) -> Drawing:
    """A file's machine, or the stored one of a run and how far the run has come."""
    loaded = load_checked(path) if path else None
    if run is None:
        assert loaded is not None
        marks = None
        if cases:
            from loopkit.cli.test import marks_of

            marks = marks_of(loaded, cases)
        return drawing(Graph(loaded.machine), marks=marks)
    machine, state, status = _load_run(run)
    if loaded is not None and loaded.digest != state.definition:
        terminal.say(f"note: {path} is not what run {run} goes by; that is drawn")
    return drawing(Graph(machine), state, status=status)


def _load_run(run: str) -> tuple[Machine, RunState, str]:
    from loopkit.cli.stored_runs import has_driver, with_runs
    from loopkit.drive.stored_runs import StoredRuns
    from loopkit.views.run_data import status_of

    async def load(stored: StoredRuns) -> tuple[Machine, RunState, str]:
        state = await stored.state_of(run)
        status = status_of(state, is_driven=await has_driver(stored, run))
        return await stored.machine_of(state), state, status

    return with_runs(load)


def _compare(committed: Path, text: str, again: str) -> int:
    try:
        if committed.read_text(encoding="utf-8", errors="replace") == text:
            terminal.say(f"{committed} is up to date")
            return terminal.OK
        terminal.say(f"{committed} is out of date; draw it again with\n  {again}")
    except FileNotFoundError:
        terminal.say(f"{committed} is not there; make it with\n  {again}")
    except OSError as error:
        raise terminal.misuse(f"cannot read {committed}: {error.strerror}") from error
    return terminal.FAILURE
