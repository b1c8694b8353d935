"""`loopkit resume`."""

from __future__ import annotations

from typing import Any

import click

from loopkit.app import App
from loopkit.cli.driving import drive, output_option, usd
from loopkit.cli.exit_codes import USAGE, Stop
from loopkit.document.problems import did_you_mean
from loopkit.drive.active import ActiveRun
from loopkit.language import Limits

RAISABLE = ("agent_calls", "tool_calls", "tokens", "cost_usd", "time", "total_revisions")


@click.command()
@click.argument("run")
@click.option(
    "--max-cost", type=float, callback=usd, metavar="USD", help="The new limit of the whole run."
)
@click.option("--set", "sets", multiple=True, metavar="limits.K=V", help="Raise a limit.")
@output_option
def command(run: str, max_cost: float | None, sets: tuple[str, ...], output: str) -> int:
    """Go on with RUN in exactly the state in which it stopped."""
    limits = parse_limits(sets) | ({} if max_cost is None else {"cost_usd": max_cost})

    async def start(app: App) -> ActiveRun:
        return await app.resume(run, limits)

    return drive(output, start)


def parse_limits(sets: tuple[str, ...]) -> dict[str, Any]:
    """The limits that `--set limits.k=v` names."""
    limits: dict[str, Any] = {}
    for written in sets:
        key, equals, value = written.partition("=")
        name = key.removeprefix("limits.")
        if not equals or not key.startswith("limits."):
            raise Stop(
                USAGE, f"error: `--set {written}`: only limits can change: `limits.name=value`"
            )
        if name not in RAISABLE:
            raise Stop(USAGE, f"error: `{name}` can't be raised; {did_you_mean(name, RAISABLE)}")
        limits[name] = _amount(name, value)
    return limits


def _amount(name: str, text: str) -> Any:
    number: Any = text
    if name != "time":
        try:
            number = float(text) if name == "cost_usd" else int(text)
        except ValueError as error:
            raise Stop(USAGE, f"error: `{text}` is not a number for `limits.{name}`") from error
    try:
        return getattr(Limits.model_validate({name: number}), name)
    except ValueError as error:
        raise Stop(USAGE, f"error: `{text}` is no value for `limits.{name}`") from error
