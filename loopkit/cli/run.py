"""`loopkit run`, and `loopkit validate`; a scenario plays both with `--script` and `--case`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from loopkit.agents.players import AgentChanges, refuse_misnamed
from loopkit.app import App, Script
from loopkit.cli.batch import (
    PARALLEL,
    BatchOptions,
    batch_options,
    refuse_with_batch,
    run_batch,
    warn_of_secrets,
)
from loopkit.cli.driving import Driving, drive, driving_options
from loopkit.cli.inputs import MACHINE, PATH, Given, input_options, read_inputs, read_text
from loopkit.cli.machine import (
    in_own_folder,
    in_workspace,
    load_changed,
    load_checked,
    max_cost_option,
    model_options,
    payment_lines,
    workspace_line,
)
from loopkit.cli.record import record_options, recorder
from loopkit.cli.terminal import (
    ERROR,
    FAILURE,
    OK,
    Stop,
    echo,
    examples,
    gather,
    misuse,
    say,
)
from loopkit.document.problems import did_you_mean
from loopkit.drive.active import ActiveRun
from loopkit.drive.claimed_runs import NoReport, StandaloneValidator
from loopkit.engine.findings import Report
from loopkit.language.machine import Machine
from loopkit.scenario.cases import cases_of, load_scenario
from loopkit.values import Value
from loopkit.views.review import report_lines


class Scripted(Value, frozen=True):
    """The scenario that plays a run, as a command line names it."""

    script: Path | None = None
    case: str | None = None

    def load(self, machine: Path) -> Script | None:
        """The scenario; a case alone is one of the file beside the machine."""
        script = self.script
        if script is None and self.case is not None and (beside := cases_of(machine)) != machine:
            script = beside
        if script is not None:
            return Script(*load_scenario(script, self.case))
        if self.case is not None:
            raise misuse(f"`--case {self.case}` needs the file that has it: `--script FILE`")
        return None


def script_options(played: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """`--script` and `--case`, for a command in which a scenario plays these."""
    return gather(
        "scripted",
        Scripted,
        click.option("--script", type=PATH, help=f"Simulate {played} with this scenario."),
        click.option(
            "--case", metavar="NAME", help="The case to use, if the scenario has several."
        ),
    )


@click.command(
    epilog=examples(
        "loopkit run plan.yaml --set issue=@issue.md --max-cost 2",
        "loopkit run plan.yaml --batch issues.jsonl --parallel 20 -o plans.jsonl",
    )
)
@click.argument("machine", type=MACHINE)
@input_options
@script_options("agents, commands and people")
@model_options
@max_cost_option("The cost limit of this run, or of all runs of a batch.")
@click.option(
    "--workspace",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Work in this folder, instead of the machine's workspace.",
)
@batch_options
@record_options
@driving_options
def run_command(
    machine: Path,
    given: Given,
    scripted: Scripted,
    changes: AgentChanges | None,
    max_cost: float | None,
    workspace: Path | None,
    batches: BatchOptions,
    record_file: Path | None,
    as_case: str | None,
    driving: Driving,
) -> int:
    """Run MACHINE until it ends, waits for a person, or is suspended.

    The result is printed to stdout, progress and questions to stderr. With --batch, MACHINE is run
    for each line of a file; the same command again goes on with what is left of it.
    """
    batches.refuse_alone()
    loaded = load_changed(machine, changes, max_cost)
    loaded = in_workspace(loaded, workspace) if workspace else in_own_folder(loaded, machine)
    played = load_fitting(scripted, loaded.machine, machine)
    output, notify = driving.output, driving.notify
    paid = payment_lines(loaded.machine, played.scenario.agents if played is not None else ())
    if (batch := batches.of(loaded.machine, given)) is not None:
        refuse_with_batch(record_file, output)
        for line in paid if output in ("auto", "plain") else ():
            say(line)
        parallel = batches.parallel or PARALLEL
        return run_batch(loaded, batch, parallel, max_cost, played, output, notify)
    inputs = read_inputs(loaded.machine, given)
    recording = recorder(record_file, machine, as_case)
    warn_of_secrets(loaded.machine, inputs)

    async def start(app: App) -> ActiveRun:
        limits = {} if max_cost is None else {"cost_usd": max_cost}
        active = await app.start(loaded, inputs, played, limits)
        recording.run = active.state.run
        if output in ("auto", "plain"):
            for line in (*paid, workspace_line(loaded.machine, loaded.folder.absolute(), inputs)):
                say(line)
        return active

    code = drive(start, driving)
    recording.write()
    return code


def load_fitting(scripted: Scripted, machine: Machine, path: Path) -> Script | None:
    """The scenario that plays a run; raises NotRunnable where it names what is not there."""
    played = scripted.load(path)
    if played is not None:
        refuse_misnamed(machine, played.scenario)
    return played


@click.command(epilog=examples("loopkit validate plan.yaml structure draft.md"))
@click.argument("machine", type=MACHINE)
@click.argument("validator")
@click.argument("file", type=PATH)
@input_options
@script_options("the judges and commands")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def validate_command(
    machine: Path,
    validator: str,
    file: Path,
    given: Given,
    scripted: Scripted,
    as_json: bool,
) -> int:
    """Run VALIDATOR of MACHINE on FILE, exactly as a run would."""
    loaded = in_own_folder(load_checked(machine), machine)
    known = loaded.machine.validators
    if validator not in known:
        hint = did_you_mean(validator, known) or "the machine has none"
        raise misuse(f"unknown validator `{validator}`; {hint}")
    inputs = read_inputs(loaded.machine, given, "defaults")
    played = scripted.load(machine)
    alone = StandaloneValidator(loaded, validator)
    report = asyncio.run(_judge(alone, read_text(file), inputs, played))
    if as_json:
        echo(json.dumps(report.plain(), indent=2, ensure_ascii=False))
    else:
        for line in report_lines(report, validator):
            echo(line)
    return OK if report.valid else FAILURE if report.verdict == "fail" else ERROR


async def _judge(
    alone: StandaloneValidator, text: str, inputs: dict[str, Any], script: Script | None
) -> Report:
    async with App.open(None) as app:
        try:
            return await app.judge(alone, text, inputs, script)
        except NoReport as error:
            raise Stop(ERROR, f"error: {error}") from error
