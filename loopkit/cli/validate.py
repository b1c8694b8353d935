"""`loopkit validate`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import click

from loopkit.app import App, Script
from loopkit.cli.examples import examples
from loopkit.cli.exit_codes import ERROR, FAILURE, OK, USAGE, Stop, report_errors
from loopkit.cli.files import read_text
from loopkit.cli.inputs import input_options, partial_inputs
from loopkit.cli.machine import load_checked
from loopkit.cli.scripts import load_script, script_options
from loopkit.document.problems import did_you_mean
from loopkit.drive.standalone import NoReport, StandaloneValidator
from loopkit.engine.findings import Report
from loopkit.views.review import report_lines


@click.command(epilog=examples("loopkit validate plan.yaml structure draft.md"))
@click.argument("machine", type=click.Path(path_type=Path))
@click.argument("validator")
@click.argument("file", type=click.Path(path_type=Path))
@input_options
@script_options("the judges and commands")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(
    machine: Path,
    validator: str,
    file: Path,
    input_file: str | None,
    sets: tuple[str, ...],
    set_json: tuple[str, ...],
    script: Path | None,
    case: str | None,
    as_json: bool,
) -> int:
    """Run VALIDATOR of MACHINE on FILE, exactly as a run would."""
    with report_errors():
        loaded = load_checked(machine)
        known = loaded.machine.validators
        if validator not in known:
            hint = did_you_mean(validator, known) or "the machine has none"
            raise Stop(USAGE, f"error: unknown validator `{validator}`; {hint}")
        inputs = partial_inputs(loaded.machine, input_file, sets, set_json)
        played = load_script(script, case)
        alone = StandaloneValidator(loaded, validator)
        report = asyncio.run(_judge(alone, read_text(file), inputs, played))
    if as_json:
        click.echo(json.dumps(report.plain(), indent=2, ensure_ascii=False))
    else:
        for line in report_lines(report, validator):
            click.echo(line)
    return OK if report.valid else FAILURE if report.verdict == "fail" else ERROR


async def _judge(
    alone: StandaloneValidator, text: str, inputs: dict[str, Any], script: Script | None
) -> Report:
    async with App.open(None) as app:
        try:
            return await app.judge(alone, text, inputs, script)
        except NoReport as error:
            raise Stop(ERROR, f"error: {error}") from error
